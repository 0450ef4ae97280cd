"""Whoever records is told of code of users that goes to `Tensor.array`, wherever it has the tensor from.

All other ways to the value of a tensor are functions that tell. This one is a slot, as quick as an attribute can be:
nobody is told; so something else is in its place as long as somebody records.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from workbench.dygraph.tensor.tensor import Tensor
from workbench.dygraph.witness import witness
from workbench.framework.site import is_ours

_slot: Any = Tensor.array
_lock = threading.Lock()
_bodies = [0]


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
        if seen is not None and not is_ours(sys._getframe(1).f_code.co_filename):
            seen.saw_write(tensor, "an assignment to .array")
        _slot.__set__(tensor, array)


_told_slot = _ToldSlot()


@contextmanager
def raw_arrays_told() -> Iterator[None]:
    """Have `witness` told of them inside the `with` body."""
    _change(1)
    try:
        yield
    finally:
        _change(-1)


def _change(by: int) -> None:
    with _lock:
        _bodies[0] += by
        setattr(Tensor, "array", _told_slot if _bodies[0] else _slot)  # noqa: B010 (it is declared as a value)
