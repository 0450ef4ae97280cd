"""Writes in place: which memory was written to, when, and by whom.

Time is the number of writes so far. A recorded op notes it; when a gradient needs a value of that op, its memory must
not have been written to since. So neither tensors nor recorded ops carry version numbers of their own.
"""

from __future__ import annotations

import sys
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
    """

    __slots__ = ("by", "memory", "spot", "time", "version")

    def __init__(self, memory: ref[Any]) -> None:
        self.memory, self.version = memory, 0
        self.time, self.by, self.spot = 0, "", here()


class _Clock:
    """The number of writes so far."""

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
    memory = memory_of(array)
    key = id(memory)
    write = _writes.get(key)
    if write is None:
        write = _writes[key] = Write(ref(memory, partial(_forget, key)))
    clock.now = write.time = clock.now + 1
    write.version += 1
    write.by, write.spot = by, here()


def _forget(key: int, gone: ref[Any]) -> None:
    found = _writes.get(key)
    if found is not None and found.memory is gone:
        del _writes[key]


def write_since(array: Any, time: int) -> Write | None:
    """The latest write to the memory of an array if it came after `time`."""
    if not isinstance(array, np.ndarray):
        return None
    found = _writes.get(id(memory_of(array)))
    return found if found is not None and found.time > time else None


def writes_to(array: Any) -> int:
    """How often the memory of an array was written to: Paddle's version of an in-place tensor."""
    found = _writes.get(id(memory_of(array)))
    return found.version if found is not None else 0
