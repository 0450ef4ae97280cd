"""Places of numbers in sorted sequences, by halves.

NaN counts as more than all numbers, as where arrays are sorted.
"""

from __future__ import annotations

from workbench.runtime.kernels.arguments import Ints, Reals
from workbench.runtime.kernels.intrinsics import function
from workbench.runtime.kernels.registry import kernel


@function
def is_less(a, b):
    return a < b or (b != b and a == a)


@function
def places_in(edges, begin, width, values, out, first, count, right):
    """For `count` values from `first` on how many of the `width` edges from `begin` on are less, or equal."""
    for i in range(first, first + count):
        value, at, length = values[i], begin, width
        while length > 0:
            half = length // 2
            edge = edges[at + half]
            is_in_front = not is_less(value, edge) if right else is_less(edge, value)
            at += half + 1 if is_in_front else 0
            length = length - half - 1 if is_in_front else half
        out[i] = at - begin


@kernel(divides=("count",))
def searchsorted(edges: Reals("width"), values: Reals("count"), out: Ints("count"), width, count, right):
    """In one sequence."""
    places_in(edges, 0, width, values, out, 0, count, right)
    return 0


@kernel(divides=("rows",))
def searchsorted_rows(
    edges: Reals("rows", "width"), values: Reals("rows", "count"), out: Ints("rows", "count"), rows, width, count, right
):
    """In a sequence for each row of values."""
    for r in range(rows):
        places_in(edges, r * width, width, values, out, r * count, count, right)
    return 0
