"""What there is of a reduction up to every element along an axis; truth values reduced.

An array is [outer, n, inner], and the axis is the middle one. One element is added after the other, as NumPy does.
"""

from __future__ import annotations

import numpy as np

from workbench.runtime.kernels.arguments import Bytes, Floats, Ints
from workbench.runtime.kernels.intrinsics import function
from workbench.runtime.kernels.registry import kernel


@function
def place_of(j, n, reverse):
    """Which element comes as number j."""
    return n - 1 - j if reverse else j


@kernel(divides=("outer",))
def running_sum(
    x: Floats("outer", "n", "inner"), out: Floats("outer", "n", "inner"), totals: Floats("inner", own=True), outer, n,
    inner, exclusive, reverse,
):  # fmt: skip
    """The sums up to every element, with it or without; `totals`: memory for `inner` numbers."""
    for o in range(outer):
        for j in range(n):
            first = (o * n + place_of(j, n, reverse)) * inner
            for i in range(inner):
                total = totals[i] + x[first + i] if j else x[first + i]
                totals[i] = total
                out[first + i] = total - x[first + i] if exclusive else total
    return 0


@kernel()
def running_whole_sum(
    x: Ints("outer", "n", "inner"), out: Ints("outer", "n", "inner"), totals: Ints("inner"), outer, n, inner,
    exclusive, reverse,
):  # fmt: skip
    """The same of whole numbers."""
    for o in range(outer):
        for j in range(n):
            first = (o * n + place_of(j, n, reverse)) * inner
            for i in range(inner):
                total = totals[i] + x[first + i] if j else x[first + i]
                totals[i] = total
                out[first + i] = total - x[first + i] if exclusive else total
    return 0


@kernel(divides=("outer",))
def running_product(x: Floats("outer", "n", "inner"), out: Floats("outer", "n", "inner"), outer, n, inner):
    """The products up to every element."""
    for o in range(outer):
        for j in range(n):
            first = (o * n + j) * inner
            for i in range(inner):
                out[first + i] = out[first + i - inner] * x[first + i] if j else x[first + i]
    return 0


@kernel(divides=("outer",))
def running_best(
    x: Floats("outer", "n", "inner"), out: Floats("outer", "n", "inner"), places: Ints("outer", "n", "inner"), outer,
    n, inner, is_least,
):  # fmt: skip
    """The largest (or least) element so far, and the last place where it is met; once there is NaN it stays."""
    for o in range(outer):
        for j in range(n):
            first = (o * n + j) * inner
            for i in range(inner):
                at = first + i
                number = x[at]
                before = out[at - inner] if j else number
                is_better = number <= before if is_least else number >= before
                if j == 0 or is_better or number != number:
                    out[at], places[at] = (number if before == before else before), j
                else:
                    out[at], places[at] = before, places[at - inner]
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
