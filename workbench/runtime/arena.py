"""Arenas: memory for temporaries that is given back to the system without moving."""

from __future__ import annotations

import ctypes
import mmap
import sys
import weakref
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from workbench.errors import InvalidArgument, Unavailable
from workbench.framework.outside import is_from_outside

ALIGN = 64  # bytes: a cache line, and the widest vector register
_GIVES_BACK = sys.platform == "linux" and hasattr(mmap.mmap, "madvise")  # elsewhere it need not drop anything


class Arena:
    """A piece of the process's memory, zero at first, whose pages take up room only once they are written.

    Arrays made in it are views: they stay valid, at the same address, through every `release()`, and keep the memory
    when the arena itself is forgotten. An arena does not grow; make a larger one.

    Args:
        nbytes: its size in bytes, >= 0.

    Raises:
        InvalidArgument: a negative size. Unavailable: the system does not give that much.
    """

    __slots__ = ("_address", "_bytes", "_map", "nbytes")

    _maps: weakref.WeakSet[mmap.mmap] = weakref.WeakSet()

    def __init__(self, nbytes: int) -> None:
        if nbytes < 0:
            raise InvalidArgument(f"an arena's size in bytes is >= 0, got {nbytes}")
        self.nbytes = nbytes
        self._map = _pages(max(nbytes, 1))
        self._bytes = memoryview(self._map)[:nbytes]
        self._address = _address(np.frombuffer(self._map, np.uint8))
        self._maps.add(self._map)

    def array(
        self, offset: int, shape: Sequence[int], dtype: DTypeLike, strides: Sequence[int] | None = None
    ) -> np.ndarray[Any, Any]:
        """A view of the memory.

        Args:
            offset: of the first element, in bytes from the start, which lies on a page: a multiple of `ALIGN` gives
                an array that is aligned for every vector register.
            strides: in bytes, may be negative; row-major if None.

        Raises:
            InvalidArgument: it does not lie within the arena.
        """
        try:
            if offset < 0 or min(shape, default=0) < 0:  # NumPy takes both and looks before the memory
                raise ValueError("negative offset or dimension")
            return np.ndarray(shape, dtype, self._bytes, offset, strides)
        except (TypeError, ValueError) as error:
            if is_from_outside(error):
                raise
            raise InvalidArgument(
                f"an array of shape {tuple(shape)}, dtype {np.dtype(dtype)}, strides {strides} does not fit at byte "
                f"{offset} of an arena of {self.nbytes} bytes: {error}"
            ) from None

    @property
    def address(self) -> int:
        """Where it begins."""
        return self._address

    @property
    def pages(self) -> mmap.mmap:
        """What its memory is, which arrays keep."""
        return self._map

    def release(self) -> int:
        """Give the memory back to the system; everything in it reads as zero afterwards. Nobody may be writing.

        Other systems than Linux do not promise to take memory back while it stays mapped: there it is filled with
        zeros and kept.

        Returns:
            bytes given back.
        """
        if not _GIVES_BACK:
            np.frombuffer(self._map, np.uint8)[:] = 0
            return 0
        before = self.resident
        self._map.madvise(mmap.MADV_DONTNEED)
        return before

    @property
    def resident(self) -> int:
        """Bytes that take up memory at this moment, in whole pages; all of them where the system does not tell."""
        pages = -(-len(self._map) // mmap.PAGESIZE)
        ask = _mincore()
        if ask is None:
            return len(self._map)
        flags = np.zeros(pages, np.uint8)
        if ask(self._address, len(self._map), _address(flags)):
            return len(self._map)
        return int(np.count_nonzero(flags & 1)) * mmap.PAGESIZE

    @classmethod
    def live(cls) -> int:
        """How many arenas, or arrays in forgotten ones, hold memory."""
        return len(cls._maps)

    @classmethod
    def live_bytes(cls) -> int:
        """Their sizes together, in whole pages."""
        return sum(len(pages) for pages in cls._maps)

    def __repr__(self) -> str:
        return f"Arena({self.nbytes:,} bytes, {self.resident:,} resident)"


def _address(array: np.ndarray) -> int:
    return array.__array_interface__["data"][0]


def _pages(nbytes: int) -> mmap.mmap:
    """Private memory in whole pages that belongs to no file."""
    size = -(-nbytes // mmap.PAGESIZE) * mmap.PAGESIZE
    try:
        if hasattr(mmap, "MAP_PRIVATE"):  # shared memory, the default, would survive madvise
            return mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        return mmap.mmap(-1, size)
    except (OSError, OverflowError, ValueError) as error:
        if is_from_outside(error):
            raise
        raise Unavailable(f"the system gives no {nbytes:,} bytes for temporaries: {error}") from error


@cache
def _mincore() -> Callable[[int, int, int], int] | None:
    """The system call that tells which pages are in memory."""
    if not _GIVES_BACK:
        return None
    try:
        function = ctypes.CDLL(None).mincore
    except (OSError, AttributeError):
        return None
    function.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p]
    function.restype = ctypes.c_int
    return function
