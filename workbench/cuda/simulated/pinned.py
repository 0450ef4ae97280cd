"""Pinned memory that knows when the host touches it: an array that was rewritten too early tells who needed it.

Assignments, indexing and NumPy's functions on such an array, and on views of it, are looked at. What goes round them
(`memoryview`, native code, `np.asarray`) is seen later: a copy compares what it finds with what was there when it was
given.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

Touch = Callable[[int, int, bool], None]
POISON = 0xCD


class PinnedArray(np.ndarray):
    """An array in pinned memory; `touch(address, nbytes, write)` hears of the host's accesses."""

    touch: Touch | None = None

    def __array_finalize__(self, parent: Any) -> None:
        self.touch = getattr(parent, "touch", None)

    def plain(self) -> np.ndarray:
        """The same memory as an array that nobody looks at; for the device."""
        return super().view(np.ndarray)

    def __getitem__(self, key: Any) -> Any:
        part = super().__getitem__(key)
        if not isinstance(part, np.ndarray):
            self._touched(False)
        return part

    def __setitem__(self, key: Any, value: Any) -> None:
        part = super().__getitem__(key)
        (part if isinstance(part, PinnedArray) else self)._touched(True)
        self.plain()[key] = _read(value)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        out = tuple(_written(one) for one in kwargs.pop("out", ()))
        if method == "at":
            inputs = (_written(inputs[0]), *inputs[1:])
        if out:
            kwargs["out"] = out
        result = getattr(ufunc, method)(*map(_read, inputs), **kwargs)
        return NotImplemented if result is NotImplemented else result

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        if function in (np.copyto, np.put, np.place, np.putmask):
            args = (_written(args[0]), *args[1:])
        if isinstance(kwargs.get("out"), PinnedArray):
            kwargs = kwargs | {"out": _written(kwargs["out"])}
        if function not in LOOKS_ONLY:
            args = tuple(map(_read, args))
        return (
            function(*args, **kwargs)
            if function not in LOOKS_ONLY
            else super().__array_function__(function, types, args, kwargs)
        )

    def tobytes(self, order: Any = "C") -> bytes:
        self._touched(False)
        return super().tobytes(order)

    def tolist(self) -> Any:
        self._touched(False)
        return super().tolist()

    def copy(self, order: Any = "C") -> Any:
        self._touched(False)
        return self.plain().copy(order)

    def astype(self, *args: Any, **kwargs: Any) -> np.ndarray:
        self._touched(False)
        return self.plain().astype(*args, **kwargs)

    def fill(self, value: Any) -> None:
        self._touched(True)
        super().fill(value)

    def __iter__(self) -> Iterator[Any]:
        self._touched(False)
        return iter(self.plain())

    def __repr__(self) -> str:
        return f"PinnedArray(shape={self.shape}, dtype={self.dtype})"

    __str__ = __repr__

    def _touched(self, write: bool) -> None:
        if self.touch is not None and self.size:
            start, stop = np.lib.array_utils.byte_bounds(self)
            self.touch(start, stop - start, write)


LOOKS_ONLY = {np.shape, np.ndim, np.size, np.reshape, np.may_share_memory, np.shares_memory}


def _read(value: Any) -> Any:
    if isinstance(value, PinnedArray):
        value._touched(False)
        return value.plain()
    if isinstance(value, (list, tuple)):
        return type(value)(map(_read, value))
    return value


def _written(value: Any) -> Any:
    if isinstance(value, PinnedArray):
        value._touched(True)
        return value.plain()
    return value


def pinned_array(nbytes: int, touch: Touch) -> PinnedArray:
    """New memory, poisoned; aligned as CUDA's is."""
    memory = np.ctypeslib.as_array((ctypes.c_uint8 * (nbytes + 256))())
    offset = -memory.ctypes.data % 256
    memory[:] = POISON
    array = memory[offset : offset + nbytes].view(PinnedArray)
    array.touch = touch
    return array
