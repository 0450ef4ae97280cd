"""Whoever records is told of code of users that goes to `Tensor.array`, wherever it has the tensor from.

All other ways to the value of a tensor are functions that tell. This one is a slot, as quick as an attribute can be:
nobody is told; so something else is in its place as long as somebody records.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from operator import call
from typing import Any

from workbench.dygraph.tensor.tensor import Tensor
from workbench.dygraph.witness import witness
from workbench.framework.site import is_ours

_slot: Any = Tensor.array
_bodies: set[object] = set()  # of `with`, that are being run


class _ToldSlot:
    """The slot; code that is not workbench's own is told of, to who records in its thread and context."""

    def __get__(self, tensor: Tensor | None, owner: type | None = None) -> Any:
        if tensor is None:
            return self
        seen = witness.get()
        if seen is not None and not is_ours(sys._getframe(1).f_code.co_filename):
            seen.saw_read(tensor)
        return _slot.__get__(tensor, owner)

    def __set__(self, tensor: Tensor, array: Any) -> None:
        seen = witness.get()
        if seen is not None and not is_ours(sys._getframe(1).f_code.co_filename) and _is_filled(tensor):
            seen.saw_write(tensor, "an assignment to .array")
        _slot.__set__(tensor, array)


_told_slot = _ToldSlot()


def _is_filled(tensor: Tensor) -> bool:
    """Whether there is something to be written over; a tensor that is being copied or unpickled has nothing yet."""
    try:
        _slot.__get__(tensor)
    except AttributeError:
        return False
    return True


@contextmanager
def raw_arrays_told() -> Iterator[None]:
    """Have `witness` told of them inside the `with` body."""
    body = object()
    leave: tuple[Callable[[], Any], ...] = (
        partial(_bodies.discard, body),
        partial(bool, _bodies),
        partial(setattr, Tensor, "array", _slot),
    )
    leaving = filter(None, map(call, leave))  # up to the first that is true: the last body puts the slot back
    try:
        _bodies.add(body)
        setattr(Tensor, "array", _told_slot)  # noqa: B010 (it is declared as a value)
        yield
    finally:
        next(leaving, None)  # one call of C code, which neither Ctrl-C nor another thread comes into
