"""Functions of single float32, written so that loops over them are vectorised."""

from __future__ import annotations

import numpy as np

from workbench.runtime.kernels.intrinsics import from_bits, function, multiply_add, round_even

F = np.float32
LOG2_E, LN2_HIGH, LN2_LOW = F(1.44269504088896341), F(0.693359375), F(-2.12194440e-4)


@function
def exp(x):
    """e to the power x for x <= 88, within 1.1 ulp; as `functions.exp`."""
    inside = x if x > F(-104.0) else F(-104.0)
    n = round_even(inside * LOG2_E)
    r = multiply_add(n, -LN2_HIGH, inside)
    r = multiply_add(n, -LN2_LOW, r)
    p = multiply_add(F(1.9875691500e-4), r, F(1.3981999507e-3))
    p = multiply_add(p, r, F(8.3334519073e-3))
    p = multiply_add(p, r, F(4.1665795894e-2))
    p = multiply_add(p, r, F(1.6666665459e-1))
    p = multiply_add(p, r, F(5.0000001201e-1))
    p = multiply_add(p, r * r, r) + F(1)
    half = np.int32(n) >> np.int32(1)
    p = p * from_bits((half + np.int32(127)) << np.int32(23))
    rest = np.int32(n) - half
    p = p * from_bits((rest + np.int32(127)) << np.int32(23))
    return p if x == x else x
