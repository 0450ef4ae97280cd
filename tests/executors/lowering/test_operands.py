"""Where rows of calls have their memory, and when several arrays are one."""

from __future__ import annotations

from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from workbench.executors.lowering.numpy.lower_collectives import as_one
from workbench.executors.lowering.operands import Scratch
from workbench.executors.planning.memory.refs import Ref, Root

FLOAT = np.dtype(np.float32)


def test_temporary_memory_begins_at_cache_lines() -> None:
    scratch = Scratch()
    given = [scratch([count], np.float32) for count in (1, 3, 17, 5, 1 << 15, 2, 1 << 16)]
    assert [array.ctypes.data % 64 for array in given] == [0] * len(given)
    ends = [array.ctypes.data + array.nbytes for array in given]
    order = np.argsort(ends)
    assert all(ends[a] <= given[b].ctypes.data for a, b in pairwise(order))


def lying(*places: tuple[Root, int]) -> Any:
    """What a row knows of three gradients of one device that are to be summed: 4 floats each."""
    refs = [Ref(root, offset, (4,), (4,), FLOAT) for root, offset in places]
    node = SimpleNamespace(attrs={"names": [f"g{number}" for number in range(len(refs))]})
    return SimpleNamespace(node=node, ins=[[ref] for ref in refs], outs=[[ref] for ref in refs])


@pytest.mark.parametrize(
    ("roots", "offsets", "is_one"),
    [
        ("aaa", (0, 64, 128), True),
        ("aaa", (64, 128, 192), True),
        ("aaa", (0, 64, 192), False),
        ("aaa", (0, 128, 64), True),  # in whatever order
        ("aaa", (0, 64, 64), False),
        ("aab", (0, 64, 128), False),
        ("aba", (0, 64, 128), False),
        ("abb", (0, 64, 128), False),
    ],
)
def test_gradients_are_one_array_where_they_lie_one_after_the_other(
    roots: str, offsets: tuple[int, ...], is_one: bool
) -> None:
    known = {name: Root(0, 256) for name in "ab"}
    row = lying(*((known[name], offset) for name, offset in zip(roots, offsets, strict=True)))
    joined = as_one(row, SimpleNamespace(flat=lambda ref: ref))  # type: ignore[arg-type]
    if not is_one:
        assert joined is None
        return
    assert joined is not None
    assert joined.names == [f"g{number}" for number in np.argsort(offsets)]
    for (whole,) in (joined.parts, joined.results):
        assert whole.root is known["a"] and (whole.offset, whole.shape) == (offsets[0], (48,))
