"""Memory that has been freed, given back to the system."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from functools import cache

LEAST = 32 << 20  # bytes: of less it is not worth the milliseconds it takes


def give_back_freed(nbytes: int) -> None:
    """Have the C library give up what it keeps of freed memory.

    It takes arrays of some MiB from the same piece of memory as everything small, and keeps that up to the last thing
    in use: what parameters were made of would take up room for good.

    Args:
        nbytes: that have just been freed.
    """
    if nbytes >= LEAST:
        trim = _trim()
        if trim is not None:
            trim(0)


@cache
def _trim() -> Callable[[int], int] | None:
    """What glibc has for it; None in other libraries."""
    if sys.platform != "linux":
        return None
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim.argtypes, trim.restype = [ctypes.c_size_t], ctypes.c_int
    return trim
