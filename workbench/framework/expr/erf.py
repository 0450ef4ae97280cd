"""The error function on NumPy arrays, which NumPy itself lacks.

Source: W. J. Cody, "Rational Chebyshev approximations for the error function", Math. Comp. 23 (1969) 631-637.
"""

from __future__ import annotations

from typing import Any

import numpy as np

_A = (
    3.16112374387056560e00, 1.13864154151050156e02, 3.77485237685302021e02, 3.20937758913846947e03,
    1.85777706184603153e-1,
)  # fmt: skip
_B = (2.36012909523441209e01, 2.44024637934444173e02, 1.28261652607737228e03, 2.84423683343917062e03)
_C = (
    5.64188496988670089e-1, 8.88314979438837594e0, 6.61191906371416295e01, 2.98635138197400131e02,
    8.81952221241769090e02, 1.71204761263407058e03, 2.05107837782607147e03, 1.23033935479799725e03,
    2.15311535474403846e-8,
)  # fmt: skip
_D = (
    1.57449261107098347e01, 1.17693950891312499e02, 5.37181101862009858e02, 1.62138957456669019e03,
    3.29079923573345963e03, 4.36261909014324716e03, 3.43936767414372164e03, 1.23033935480374942e03,
)  # fmt: skip
_SMALL = 0.46875
_BLOCK = 1 << 13  # elements: the two dozen passes over a block stay in the first-level cache


def erf(x: Any) -> Any:
    """erf element by element; float16 and bfloat16 are computed in float32.

    Args:
        x: array of any floating dtype. Returns: an array (or scalar) of the same dtype.
    """
    x = np.asarray(x)
    if x.size <= _BLOCK:
        return _erf(x)
    result = np.empty(x.shape, x.dtype)
    flat_in, flat_out = x.reshape(-1), result.reshape(-1)
    for start in range(0, x.size, _BLOCK):
        flat_out[start : start + _BLOCK] = _erf(flat_in[start : start + _BLOCK])
    return result


def _erf(x: Any) -> Any:
    work = x if x.dtype in (np.float32, np.float64) else x.astype(np.float32)
    return erf_formula(np, work).astype(x.dtype, copy=False)


def erf_formula(xp: Any, x: Any) -> Any:
    """erf of float32 or float64 by scalar functions of `xp`, so that it can be traced as well as computed."""
    a = xp.minimum(xp.abs(x), 6.0)  # erf(6) rounds to 1 in float64
    return xp.where(a <= _SMALL, _near_zero(xp, x), xp.copysign(1.0 - _erfc(xp, xp.maximum(a, _SMALL)), x))


def _near_zero(xp: Any, x: Any) -> Any:
    z = xp.minimum(x * x, _SMALL * _SMALL)
    top, bottom = _A[4] * z, z
    for a, b in zip(_A[:3], _B[:3], strict=True):
        top, bottom = (top + a) * z, (bottom + b) * z
    return x * (top + _A[3]) / (bottom + _B[3])


def _erfc(xp: Any, a: Any) -> Any:
    """1 - erf(a) for a in [0.46875, 6]; beyond 4 it is so small that this range's formula serves erf as well."""
    top, bottom = _C[8] * a, a
    for c, d in zip(_C[:7], _D[:7], strict=True):
        top, bottom = (top + c) * a, (bottom + d) * a
    return xp.exp(-a * a) * (top + _C[7]) / (bottom + _D[7])
