"""Rows of tapes, divided into blocks as their kernels declare (`runtime.division`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from workbench.runtime.division import Division
from workbench.runtime.footprint import FLOAT, FOOTPRINTS, footprint_of
from workbench.runtime.native.tape import Pointer, pointer

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


def with_own_memory(kernel: str, arguments: Sequence[Any], memory: Memory) -> tuple[Any, ...]:
    """The arguments of a row with other memory for its temporaries.

    Args:
        memory: `memory(floats)` gives float32 nobody else uses.
    """
    words, footprint = list(arguments), footprint_of(kernel)
    for at, _, end in footprint.touched(*arguments):
        given = words[at]
        if at in footprint.own and given is not None:
            own_memory = pointer(memory((end + LINE) // FLOAT + 1)).aligned(LINE)
            words[at] = own_memory._replace(when=given.when) if type(given) is Pointer else own_memory
    return tuple(words)


def seen(given: Any) -> Pointer:
    """What points to memory in a row, as a pointer."""
    return pointer(given) if isinstance(given, np.ndarray) else given
