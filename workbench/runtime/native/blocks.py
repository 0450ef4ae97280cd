"""Rows of tapes, divided into blocks as their kernels declare (`runtime.division`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np

from workbench.runtime.division import Division
from workbench.runtime.footprint import FLOAT, FOOTPRINTS, Touched, footprint_of
from workbench.runtime.native.tape import Pointer, Tape, pointed, pointer

Memory = Callable[[Any], Any]
LINE = 64  # bytes; memory for temporaries begins at a cache line
_ONE_BLOCK = 2  # edges
_NOTICED = 8  # less than such a part of the work makes no division better than another one


def blocks_of(kernel: str, arguments: Sequence[Any], most: int, threads: int) -> list[tuple[Any, ...]] | None:
    """The arguments of at most so many rows that together do what one row does; None if it does not divide.

    Args:
        threads: that share them. Of several dimensions one is chosen that leaves them about as much to do.
    """
    divisions = FOOTPRINTS[kernel].divisions if kernel in FOOTPRINTS else []
    ways = [d for d in divisions if len(d.borders(arguments, most, threads)) > _ONE_BLOCK]
    if not ways:
        return None
    evenest = min(ways, key=lambda d: _unevenness(d.borders(arguments, most, threads), threads))
    return blocks_along(evenest, arguments, most, threads)


def _unevenness(edges: Sequence[Any], threads: int) -> int:
    """What to compare divisions by: how much the busiest thread has to do. Of open sizes nothing is asked."""
    count, size = len(edges) - 1, edges[-1]
    if type(size) is not int:
        return 0
    first = [edges[count * thread // threads] for thread in range(threads + 1)]
    return round(_NOTICED * max(b - a for a, b in pairwise(first)) / size)


def blocks_along(division: Division, arguments: Sequence[Any], most: int, threads: int) -> list[tuple[Any, ...]]:
    """The same along one dimension; a single row if that is too short."""
    return [block_of(division, arguments, *pair) for pair in pairwise(division.borders(arguments, most, threads))]


def block_of(division: Division, arguments: Sequence[Any], begin: Any, end: Any) -> tuple[Any, ...]:
    """The arguments of the row that does so much of the work along a dimension."""
    words = list(arguments)
    for at, distance in division.moves:
        if words[at] is not None:
            words[at] = seen(words[at]).moved(begin * distance(arguments))
    words[division.at] = division.sized(arguments, end - begin)
    return tuple(words)


class BlockRow:
    """A row that several threads may do, each on its own tape: what it touches is looked at once.

    Args:
        arguments: as `Tape.row` takes them.
    """

    def __init__(self, kernel: str, arguments: Sequence[Any]) -> None:
        self._kernel, self._arguments = kernel, arguments
        self._tables = [a for a in arguments if isinstance(a, np.ndarray)]  # they may be the block's own
        self._words: list[Any] = []

    @cached_property
    def _touched(self) -> list[Touched]:
        return list(footprint_of(self._kernel).touched(*self._arguments))

    def write(self, tape: Tape, memory: Memory | None) -> None:
        """Add it to a tape.

        Args:
            memory: `memory(floats)` gives float32 nobody else uses, for temporaries in place of those that are given.
        """
        tape.kept += self._tables
        if not self._words:
            self._words = list(self._arguments)
            for at, first, end in self._touched:
                self._words[at] = pointed(self._kernel, at, self._arguments[at], first, end)
        words = self._words if memory is None else self._with_own(memory)
        tape.checked_row(self._kernel, words)

    def _with_own(self, memory: Memory) -> list[Any]:
        """The words with other memory for temporaries."""
        words, own = list(self._words), footprint_of(self._kernel).own
        for at, first, end in self._touched if own else ():
            given = self._arguments[at]
            if at in own and given is not None:
                there = pointer(memory((end + LINE) // FLOAT + 1)).aligned(LINE)
                there = there._replace(when=given.when) if type(given) is Pointer else there
                words[at] = pointed(self._kernel, at, there, first, end)
        return words


def seen(given: Any) -> Pointer:
    """What points to memory in a row, as a pointer."""
    return pointer(given) if isinstance(given, np.ndarray) else given
