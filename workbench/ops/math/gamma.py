"""The logarithm of the gamma function and its derivatives, and the inverse of the error function.

All are computed in float64 and rounded once.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from workbench.errors import InvalidArgument
from workbench.framework.op.declare import op
from workbench.framework.op.infix import tensor_method
from workbench.framework.values.ndtri import ndtri
from workbench.framework.values.spec import Spec, require_float
from workbench.ops.arguments import one_int
from workbench.ops.math.unary import exp
from workbench.ops.pointwise import Tensor, unary
from workbench.ops.precision import rounded

OFFERED = {"workbench": "digamma erfinv lgamma multigammaln polygamma"}

BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6)  # B2, B4 …
FAR = 10.0  # from here on the asymptotic series have all digits


def infer_floating(what: str) -> Callable[..., Spec]:
    """The `infer` of a function of floating numbers, element by element."""

    def infer(x: Spec, **attrs: Any) -> Spec:
        require_float(what, x)
        return x

    return infer


def _log_gamma(xp: Any, x: Any) -> Any:
    """log|gamma(x)| by Stirling's series from `FAR` on, where the recurrence leads."""
    is_left = x < 0.5
    y = xp.where(is_left, 1.0 - x, x)
    product, steps = xp.ones(y.shape), int(FAR)
    is_near = y < FAR
    for k in range(steps):
        product = product * xp.where(is_near, y + k, 1.0)
    z = xp.where(is_near, y + steps, y)
    series = sum(b / (2 * k * (2 * k - 1)) / z ** (2 * k - 1) for k, b in enumerate(BERNOULLI, 1))
    value = (z - 0.5) * xp.log(z) - z + 0.5 * math.log(2 * math.pi) + series - xp.log(product)
    value = xp.where(xp.isinf(y), y, value)
    sine = xp.abs(xp.sin(math.pi * (x - xp.floor(x))))
    return xp.where(is_left, math.log(math.pi) - xp.log(sine) - value, value)


def _digamma(xp: Any, x: Any) -> Any:
    is_left = x < 0.5
    z = xp.where(is_left, 1.0 - x, x)
    total = xp.zeros(z.shape)
    for _ in range(int(FAR)):
        is_near = z < FAR
        total = total - xp.where(is_near, 1.0 / z, 0.0)
        z = xp.where(is_near, z + 1.0, z)
    series = sum(b / (2 * k) / z ** (2 * k) for k, b in enumerate(BERNOULLI, 1))
    value = total + xp.log(z) - 0.5 / z - series
    fraction = x - xp.floor(x)
    slope = xp.where(fraction == 0.5, 0.0, math.pi / xp.tan(math.pi * fraction))
    reflected = xp.where(fraction == 0.0, math.nan, value - slope)
    return xp.where(is_left, reflected, value)


def _zeta(xp: Any, s: int, x: Any) -> Any:
    """The sum of 1 / (x + k)^s over k = 0, 1, … by Euler and Maclaurin."""
    z, total = x, xp.zeros(x.shape)
    for _ in range(int(FAR)):
        total = total + z ** float(-s)
        z = z + 1.0
    total = total + z ** (1.0 - s) / (s - 1) + 0.5 * z ** float(-s)
    factor = float(s)
    for k, b in enumerate(BERNOULLI, 1):
        total = total + b / math.factorial(2 * k) * factor * z ** (1.0 - s - 2 * k)
        factor *= (s + 2 * k - 1) * (s + 2 * k)
    return total


def _polygamma_grad(g: Any, y: Any, x: Any, n: int) -> Any:
    return g * POLYGAMMA(x, n=n + 1)


@op("polygamma", "X -> Out", attrs={"n": 1}, infer=infer_floating("polygamma"), grad=_polygamma_grad, saved="X")
def POLYGAMMA(xp: Any, x: Any, n: int) -> Any:
    """The n-th derivative of digamma, n > 0, for x > 0; the first one for negative x as well."""
    wide = x.astype("float64")
    is_left = x <= 0
    value = (-1.0) ** (n + 1) * math.factorial(n) * _zeta(xp, n + 1, xp.where(is_left, 1.0 - wide, wide))
    reflected = (math.pi / xp.sin(math.pi * wide)) ** 2 - value if n == 1 else math.nan
    return rounded(xp.where(is_left, reflected, value), x)


@op("digamma", "X -> Out", infer=infer_floating("digamma"), grad=lambda g, y, x: g * POLYGAMMA(x, n=1), saved="X")
def DIGAMMA(xp: Any, x: Any) -> Any:
    """The derivative of lgamma."""
    return rounded(_digamma(xp, x.astype("float64")), x)


@op("lgamma", "X -> Out", infer=infer_floating("lgamma"), grad=lambda g, y, x: g * DIGAMMA(x), saved="X")
def LGAMMA(xp: Any, x: Any) -> Any:
    """The logarithm of the size of the gamma function."""
    return rounded(_log_gamma(xp, x.astype("float64")), x)


def _erfinv_grad(g: Any, y: Any, x: Any) -> Any:
    return g * exp(y * y) * (0.5 * math.sqrt(math.pi))


@op("erfinv", "X -> Out", infer=infer_floating("erfinv"), grad=_erfinv_grad, saved="Out")
def ERFINV(xp: Any, x: Any) -> Any:
    """The number whose erf is x."""
    size = np.abs(np.asarray(x, "float64"))
    tail = np.where(size < 1, 0.5 * (1.0 - size), 0.5)
    value = np.where(size < 1, -np.asarray(ndtri(tail)) * math.sqrt(0.5), np.where(size == 1, np.inf, np.nan))
    return rounded(xp.asarray(np.copysign(value, np.asarray(x, "float64"))), x)


lgamma = unary(
    LGAMMA,
    "The logarithm of the size of the gamma function.",
    example=("print(wb.lgamma(wb.to_tensor([0.5, 5.0])).numpy().round(3))", "[0.572 3.178]"),
)
digamma = unary(
    DIGAMMA,
    "The derivative of `lgamma`: NaN at 0, -1, -2 …",
    example=("print(wb.digamma(wb.to_tensor([0.5, 1.0])).numpy().round(3))", "[-1.964 -0.577]"),
)
erfinv = unary(
    ERFINV,
    "The number whose `erf` is `x`: infinite at -1 and 1, NaN beyond.",
    example=("print(wb.erfinv(wb.to_tensor([0.0, 0.5])).numpy().round(3))", "[0.    0.477]"),
)


@tensor_method("polygamma")
def polygamma(x: Tensor, n: int, name: str | None = None) -> Any:
    """The n-th derivative of `digamma` at numbers > 0.

    Args:
        n: an int >= 0; 0 gives `digamma`.

    Raises:
        InvalidArgument: a negative n. InvalidType: n is no int, or `x` is not floating.

    Example:
        >>> print(wb.polygamma(wb.to_tensor([2.0, 3.0]), 1).numpy().round(3))
        [0.645 0.395]
    """
    if one_int("polygamma's n", n) < 0:
        raise InvalidArgument(f"polygamma takes n >= 0, got {n}")
    return DIGAMMA(x, name=name) if n == 0 else POLYGAMMA(x, n=int(n), name=name)


@tensor_method("multigammaln")
def multigammaln(x: Tensor, p: int, name: str | None = None) -> Any:
    """The logarithm of the gamma function of p dimensions.

    Args:
        x: floating tensor, greater than (p - 1) / 2.
        p: an int >= 1.

    Raises:
        InvalidArgument: p < 1.

    Example:
        >>> print(wb.multigammaln(wb.to_tensor([2.5, 3.5]), 2).numpy().round(3))
        [0.857 2.466]
    """
    if one_int("multigammaln's p", p) < 1:
        raise InvalidArgument(f"multigammaln takes p >= 1, got {p}")
    total = lgamma(x)
    for k in range(1, p):
        total = total + lgamma(x - k / 2.0)
    return total + p * (p - 1) / 4.0 * math.log(math.pi)
