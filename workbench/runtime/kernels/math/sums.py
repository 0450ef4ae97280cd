"""Sums of rows and of columns, extremes of rows.

Long sums are made of short ones in float32, which are added up in double precision (rows) or in two levels (columns).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from workbench.runtime.kernels.intrinsics import INT, REAL, floats, function
from workbench.runtime.kernels.registry import kernel
from workbench.runtime.kernels.sweeps import ADDED, LARGEST, sweep
from workbench.runtime.kernels.vectors import Vectors

F = np.float32
CHUNK = 4096  # floats summed in float32: 64 in each lane
LEVEL = 512  # rows at least that are summed before their sum is added to others


def total_of(part: Any) -> Any:
    """A sum over any number of floats, made of sums over chunks.

    Args:
        part: a `sweep` of one array that adds something up.

    Returns:
        a function of an address, the numbers of the sweep and a count; it gives a float64.
    """

    @function
    def total(x, numbers, count):
        so_far = 0.0
        for start in range(0, count, CHUNK):
            so_far += part((), (x + 4 * start,), numbers, min(CHUNK, count - start))
        return so_far

    return total


total = total_of(sweep(lambda v, x: x, ADDED, together=4))
squares = total_of(sweep(lambda v, x: v.multiply(x, x), ADDED, together=4))

fill = sweep(lambda v, number: number)
add = sweep(Vectors.add)
divide = sweep(Vectors.divide)
add_eight = sweep(lambda v, held, *rows: v.add(held, _tree(v, rows)))


def _tree(v: Vectors, parts: Any) -> Any:
    while len(parts) > 1:
        parts = [v.add(a, b) for a, b in zip(parts[::2], parts[1::2], strict=True)]
    return parts[0]


@kernel(INT, INT, INT, INT, INT)
def sum_rows(x, out, rows, width, count):
    """out[i] = sum of x[i, :] / count."""
    totals = floats(out)
    for i in range(rows):
        totals[i] = total(x + 4 * i * width, (), width) / count
    return 0


@function
def add_rows_up(x, out, rows, stride, width):
    """out[j] += sum of x[:, j], eight rows at a time."""
    i, s = 0, 4 * stride
    while i + 8 <= rows:
        a = x + i * s
        parts = (out, a, a + s, a + 2 * s, a + 3 * s, a + 4 * s, a + 5 * s, a + 6 * s, a + 7 * s)
        add_eight((out,), parts, (), width)
        i += 8
    while i < rows:
        add((out,), (out, x + i * s), (), width)
        i += 1


@kernel(INT, INT, INT, INT, INT, INT, INT, INT)
def sum_columns(x, out, partial, columns, outer, rows, width, count):
    """out[k, j] = sum of x[k, :, j] / count; `partial`: memory for `columns` floats."""
    level = LEVEL
    while level * level < 8 * rows:
        level *= 2
    for k in range(outer):
        for j in range(0, width, columns):
            n, to = min(columns, width - j), out + 4 * (k * width + j)
            fill((to,), (), (F(0),), n)
            for i in range(0, rows, level):
                fill((partial,), (), (F(0),), n)
                add_rows_up(x + 4 * ((k * rows + i) * width + j), partial, min(level, rows - i), width, n)
                add((to,), (to, partial), (), n)
            divide((to,), (to,), (F(count),), n)
    return 0


@kernel(INT, INT, INT)
def sum_squares(x, out, count):
    """out[0] = the sum of squares."""
    floats(out)[0] = squares(x, (), count)
    return 0


largest = sweep(lambda v, x, sign: v.multiply(x, sign), LARGEST, together=2)


@kernel(INT, INT, INT, INT, REAL)
def extreme_of_rows(x, out, rows, width, sign):
    """out[i] = the largest of x[i, :], with sign -1 the smallest; NaN if one is."""
    extremes = floats(out)
    for i in range(rows):
        extremes[i] = sign * largest((), (x + 4 * i * width,), (sign,), width)
    return 0
