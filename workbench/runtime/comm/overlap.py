"""Which memory the arrays of a collective may share, for communicators on NumPy arrays."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.lib.array_utils import byte_bounds

from workbench.errors import InvalidArgument
from workbench.runtime.comm.request import ALL_GATHER, ALL_REDUCE, REDUCE, Request, refusal

_EFFORT = 10_000  # steps to find out whether two interleaved views share an element


def require_apart(request: Request, local: Sequence[int]) -> None:
    """An out is the very memory its member's part has (or another out has), or touches nothing; and can be written.

    Raises:
        InvalidArgument: an out that overlaps anything else, or is read-only.
    """
    outs, parts = request.outs, request.parts
    for i, out in enumerate(outs):
        if not out.flags.writeable:
            raise InvalidArgument(refusal(request.title, f"result {i} is read-only", "a writable array", "read-only"))
    for a, b in _neighbours([*outs, *parts]):
        if a >= len(outs):
            continue  # parts are only read
        if b < len(outs):
            if not same_memory(outs[a], outs[b]) and _touch(outs[a], outs[b]):
                raise _overlap(request, f"result {b}", "another result")
        elif not _is_own(request, local, a, b - len(outs)) and _touch(outs[a], parts[b - len(outs)]):
            raise _overlap(request, f"result {a}", f"part {b - len(outs)}")


def _neighbours(arrays: Sequence[Any]) -> Iterator[tuple[int, int]]:
    """Numbers of the pairs of arrays whose outermost bytes are not apart, the smaller number first."""
    spans = sorted((*byte_bounds(array), i) for i, array in enumerate(arrays) if array.size)
    for position, (_, end, i) in enumerate(spans):
        for begin, _, j in spans[position + 1 :]:
            if begin >= end:
                break
            yield min(i, j), max(i, j)


def _is_own(request: Request, local: Sequence[int], i: int, j: int) -> bool:
    """Whether out `i`, or the piece of it that is due, is exactly the memory of part `j` and may be."""
    out = request.outs[i]
    if i and same_memory(out, request.outs[0]):
        return _is_own(request, local, 0, j)
    if request.kind == ALL_REDUCE:
        return i == j and same_memory(out, request.parts[j])
    if request.kind == ALL_GATHER:  # `...`: an array even where a part has no dimensions
        return i == j and same_memory(out[local[i], ...], request.parts[j])
    if request.kind == REDUCE:
        return local[j] == request.root and same_memory(out, request.parts[j])
    return same_memory(out, request.parts[j])


def same_memory(a: Any, b: Any) -> bool:
    """Whether two arrays of one dtype are the same elements at the same places."""
    return a is b or (
        a.shape == b.shape
        and a.strides == b.strides
        and a.__array_interface__["data"][0] == b.__array_interface__["data"][0]
    )


def _touch(a: Any, b: Any) -> bool:
    try:
        return np.shares_memory(a, b, max_work=_EFFORT)  # type: ignore[arg-type]  # the stubs know -1 and 0 only
    except np.exceptions.TooHardError:
        return True


def _overlap(request: Request, what: str, other: str) -> InvalidArgument:
    expected = "the memory of the same member's part, or memory of its own"
    return InvalidArgument(refusal(request.title, f"{what} overlaps {other}", expected, "overlapping memory"))
