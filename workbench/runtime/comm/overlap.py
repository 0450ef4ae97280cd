"""Which memory the arrays of a collective may share, for communicators on NumPy arrays."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from workbench.errors import InvalidArgument
from workbench.runtime.comm.request import ALL_GATHER, ALL_REDUCE, REDUCE, Request, refusal

_EFFORT = 10_000  # steps to find out whether two interleaved views share an element


def require_apart(request: Request, local: tuple[int, ...]) -> None:
    """An out is the very memory its member's part has (or another out has), or touches nothing; and can be written.

    Raises:
        InvalidArgument: an out that overlaps anything else, or is read-only.
    """
    for i, out in enumerate(request.outs):
        if not out.flags.writeable:
            raise InvalidArgument(refusal(request.title, f"result {i} is read-only", "a writable array", "read-only"))
        for other in request.outs[:i]:
            if not same_memory(out, other) and _touch(out, other):
                raise _overlap(request, f"result {i}", "another result")
    for i, out, j, part in _strangers(request, local):
        if _touch(out, part):
            raise _overlap(request, f"result {i}", f"part {j}")


def _strangers(request: Request, local: tuple[int, ...]) -> Iterator[tuple[int, Any, int, Any]]:
    """Pairs of an out and a part that must not share memory."""
    for i, out in enumerate(request.outs):
        if i and same_memory(out, request.outs[0]):
            continue  # as the first one
        for j, part in enumerate(request.parts):
            own = _own(request, i, out, local)
            if own is None or own[0] != j or not same_memory(own[1], part):
                yield i, out, j, part


def _own(request: Request, i: int, out: Any, local: tuple[int, ...]) -> tuple[int, Any] | None:
    """The part that an out (or a piece of it) may be the memory of: its number, and that piece."""
    if request.kind == ALL_REDUCE:
        return i, out
    if request.kind == ALL_GATHER:
        return i, out[local[i], ...]  # an array even where a part has no dimensions
    if request.kind == REDUCE:
        assert request.root is not None
        return local.index(request.root), out
    return 0, out


def same_memory(a: Any, b: Any) -> bool:
    """Whether two arrays of one shape and dtype are the same elements at the same places."""
    return a is b or (
        a.__array_interface__["data"][0] == b.__array_interface__["data"][0]
        and a.strides == b.strides
        and a.shape == b.shape
    )


def _touch(a: Any, b: Any) -> bool:
    if not np.may_share_memory(a, b):
        return False
    try:
        return np.shares_memory(a, b, max_work=_EFFORT)  # type: ignore[arg-type]  # the stubs know -1 and 0 only
    except np.exceptions.TooHardError:
        return True


def _overlap(request: Request, what: str, other: str) -> InvalidArgument:
    expected = "the memory of the same member's part, or memory of its own"
    return InvalidArgument(refusal(request.title, f"{what} overlaps {other}", expected, "overlapping memory"))
