"""Modified Bessel functions of the first kind, of order 0 and 1.

Scaled by exp(-|x|) they are given by Chebyshev series, whose coefficients are found once, from the integral
`1/pi ∫ exp(|x| (cos t - 1)) cos(n t) dt`, by the trapezoidal rule, which has all digits for periodic functions.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numpy.polynomial import chebyshev

from workbench.framework.op.declare import op
from workbench.ops.math.compare import where
from workbench.ops.math.gamma import infer_floating
from workbench.ops.math.unary import sign
from workbench.ops.pointwise import unary
from workbench.ops.precision import rounded

OFFERED = {"workbench": "i0 i0e i1 i1e"}

NEAR = 8.0  # below: a series in x; from there on one in 1 / x, times 1 / sqrt(x)
_POINTS, _DEGREE = 4096, 40


def _integral(x: np.ndarray, order: int) -> np.ndarray:
    t = (np.arange(_POINTS) + 0.5) * (np.pi / _POINTS)
    return (np.exp(x[:, None] * (np.cos(t) - 1.0)) * np.cos(order * t)).mean(axis=1)


@cache
def _series(order: int) -> tuple[Any, Any]:
    """Coefficients below `NEAR` and from there on."""
    fit: Any = chebyshev.chebinterpolate
    near = fit(lambda u: _integral((u + 1.0) * (NEAR / 2), order), _DEGREE)
    return near, fit(lambda u: _far(2.0 * NEAR / (u + 1.0), order), _DEGREE)


def _far(x: np.ndarray, order: int) -> np.ndarray:
    return _integral(x, order) * np.sqrt(x)


def _scaled(xp: Any, x: Any, order: int) -> Any:
    """exp(-|x|) times the function of |x|."""
    near, far = _series(order)
    small, large = xp.minimum(x, NEAR), xp.maximum(x, NEAR)
    below = _clenshaw(xp, near, small * (2.0 / NEAR) - 1.0)
    above = _clenshaw(xp, far, 2.0 * NEAR / large - 1.0) / xp.sqrt(large)
    return xp.where(x <= NEAR, below, above)


def _clenshaw(xp: Any, coefficients: np.ndarray, u: Any) -> Any:
    last, before = xp.zeros(u.shape), xp.zeros(u.shape)
    for c in coefficients[:0:-1]:
        last, before = float(c) + 2.0 * u * last - before, last
    return float(coefficients[0]) + u * last - before


def _value(xp: Any, x: Any, order: int, grows: bool) -> Any:
    wide = x.astype("float64")
    size = xp.abs(wide)
    value = _scaled(xp, size, order)
    value = value * xp.exp(size) if grows else value
    return rounded(value * xp.sign(wide) if order else value, x)


def _over_x(value: Any, x: Any) -> Any:
    """value / x of an odd function of slope 1/2 at 0."""
    is_zero = x == 0.0
    return where(is_zero, 0.5, value / where(is_zero, 1.0, x))


def _i0_grad(g: Any, y: Any, x: Any) -> Any:
    return g * I1(x)


@op("i0", "X -> Out", infer=infer_floating("i0"), grad=_i0_grad, saved="X")
def I0(xp: Any, x: Any) -> Any:
    """Of order 0."""
    return _value(xp, x, 0, True)


@op("i1", "X -> Out", infer=infer_floating("i1"), grad=lambda g, y, x: g * (I0(x) - _over_x(y, x)), saved="X, Out")
def I1(xp: Any, x: Any) -> Any:
    """Of order 1."""
    return _value(xp, x, 1, True)


def _i0e_grad(g: Any, y: Any, x: Any) -> Any:
    return g * (I1E(x) - sign(x) * y)


@op("i0e", "X -> Out", infer=infer_floating("i0e"), grad=_i0e_grad, saved="X, Out")
def I0E(xp: Any, x: Any) -> Any:
    """Of order 0, times exp(-|x|)."""
    return _value(xp, x, 0, False)


def _i1e_grad(g: Any, y: Any, x: Any) -> Any:
    return g * (I0E(x) - _over_x(y, x) - sign(x) * y)


@op("i1e", "X -> Out", infer=infer_floating("i1e"), grad=_i1e_grad, saved="X, Out")
def I1E(xp: Any, x: Any) -> Any:
    """Of order 1, times exp(-|x|)."""
    return _value(xp, x, 1, False)


i0 = unary(
    I0,
    "The modified Bessel function of the first kind of order 0.",
    example=("print(wb.i0(wb.to_tensor([0.0, 1.0])).numpy().round(3))", "[1.    1.266]"),
)
i0e = unary(
    I0E,
    "`i0` times exp(-|x|).",
    example=("print(wb.i0e(wb.to_tensor([0.0, 1.0])).numpy().round(3))", "[1.    0.466]"),
)
i1 = unary(
    I1,
    "The modified Bessel function of the first kind of order 1.",
    example=("print(wb.i1(wb.to_tensor([0.0, 1.0])).numpy().round(3))", "[0.    0.565]"),
)
i1e = unary(
    I1E,
    "`i1` times exp(-|x|).",
    example=("print(wb.i1e(wb.to_tensor([0.0, 1.0])).numpy().round(3))", "[0.    0.208]"),
)
