"""Writes in place: which memory was written to, when, and by whom.

Time is the number of writes so far. A recorded op notes it; when a gradient needs a value of that op, its memory must
not have been written to since. So neither tensors nor recorded ops carry version numbers of their own.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from functools import partial
from types import CodeType
from typing import Any, NamedTuple
from weakref import ref

import numpy as np

from workbench.framework.site import OURS, Site


class CodeSpot(NamedTuple):
    """Where in the user's code something was done, as cheap as it is to note."""

    code: CodeType
    lasti: int

    @property
    def site(self) -> Site:
        """File and line."""
        return site_of(self.code, self.lasti)


class Write:
    """The latest write to a piece of memory.

    Attributes:
        time: how many writes there were then, this one included. version: how many there were to this memory.
        by: name of the op or method. spot: where.
        repeated: who writes there again and again.
    """

    __slots__ = ("by", "memory", "repeated", "spot", "time", "version")

    repeated: tuple[RepeatedWrites, ...]

    def __init__(self, memory: ref[Any]) -> None:
        self.memory, self.version = memory, 0
        self.time, self.by, self.spot, self.repeated = 0, "", here(), ()


class _Clock:
    """The number of writes so far, and of tensors that were given another array."""

    __slots__ = ("now",)

    def __init__(self) -> None:
        self.now = 0


clock = _Clock()
_writes: dict[int, Write] = {}


def here(depth: int = 2) -> CodeSpot:
    """The nearest frame that is not workbench's own, from `depth` frames up."""
    frame = sys._getframe(depth)
    while OURS[frame.f_code.co_filename] and frame.f_back is not None:
        frame = frame.f_back
    return CodeSpot(frame.f_code, frame.f_lasti)


def site_of(code: CodeType, lasti: int) -> Site:
    """File and line of an instruction."""
    line = code.co_firstlineno
    for start, end, number in code.co_lines():
        if start <= lasti < end and number is not None:
            line = number
    return Site(code.co_filename, line)


def memory_of(array: Any) -> Any:
    """The array that owns the memory of an array."""
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array


def written(array: Any, by: str) -> None:
    """Note that the memory of an array was just written to."""
    all_written([array], by, here())


def all_written(arrays: Iterable[Any], by: str, spot: CodeSpot) -> None:
    """Note that the memory of arrays was just written to, at a place in the user's code."""
    for array in arrays:
        write = _write_to(array)
        clock.now = write.time = clock.now + 1
        write.version += 1
        write.by, write.spot = by, spot


def _write_to(array: Any) -> Write:
    memory = memory_of(array)
    key = id(memory)
    write = _writes.get(key)
    if write is None:
        write = _writes[key] = Write(ref(memory, partial(_forget, key)))
    return write


def _forget(key: int, gone: ref[Any]) -> None:
    write = _writes.get(key)
    if write is not None and write.memory is gone:
        del _writes[key]


def write_since(array: Any, time: int) -> Write | RepeatedWrites | None:
    """The latest write to the memory of an array if it came after `time`."""
    if not isinstance(array, np.ndarray):
        return None
    write = _writes.get(id(memory_of(array)))
    if write is None:
        return None
    if write.time > time:
        return write
    return next((each for each in write.repeated if each.time > time), None)


def writes_to(array: Any) -> int:
    """How often the memory of an array was written to: Paddle's version of an in-place tensor."""
    write = _writes.get(id(memory_of(array)))
    return write.version if write is not None else 0


class RepeatedWrites:
    """Writes to the same pieces of memory again and again, by something that dynamic mode does not see at work.

    They do not count in `writes_to`.

    Args:
        by: its name.

    Attributes:
        time: of the latest; to be moved on with the clock. spot: where the user had it done.
    """

    __slots__ = ("by", "spot", "time")

    def __init__(self, arrays: Iterable[Any], by: str) -> None:
        self.by, self.time, self.spot = by, clock.now, here()
        for array in arrays:
            write = _write_to(array)
            write.repeated = (*write.repeated, self)
