"""Sums of squares, truth values reduced, and what other kernels add up with.

Long sums are made of short ones in float32, which are added up in double precision.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from workbench.runtime.kernels.arguments import Address, Bytes
from workbench.runtime.kernels.intrinsics import floats, function
from workbench.runtime.kernels.registry import kernel
from workbench.runtime.kernels.sweeps import ADDED, sweep
from workbench.runtime.kernels.vectors import Vectors

F = np.float32
CHUNK = 4096  # floats summed in float32: 64 in each lane


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


squares = total_of(sweep(lambda v, x: v.multiply(x, x), ADDED, together=4))

fill = sweep(lambda v, number: number)
add = sweep(Vectors.add)


@kernel()
def sum_squares(x: Address("count"), out: Address(1), count):
    """out[0] = the sum of squares."""
    floats(out)[0] = squares(x, (), count)
    return 0


@kernel()
def all_or_any(x: Bytes("outer", "n", "inner"), out: Bytes("outer", "inner"), outer, n, inner, is_any):
    """Whether all truth values along the axis are true, or any is."""
    for o in range(outer):
        for i in range(inner):
            met = False
            for j in range(n):
                met = met or (x[(o * n + j) * inner + i] != 0) == (is_any != 0)
            out[o * inner + i] = np.uint8(met == (is_any != 0))
    return 0
