"""Tangent, hyperbolic functions and the inverses of them, element by element."""

from __future__ import annotations

from typing import Any

from workbench.framework.op.infix import tensor_method
from workbench.ops.math.compare import where
from workbench.ops.math.unary import log1p, sqrt
from workbench.ops.pointwise import Tensor, float_elementwise, unary
from workbench.ops.tensor.assign import assign
from workbench.ops.tensor.creation import full_like, zeros_like

OFFERED = {"workbench": "acos acosh asin asinh atan atanh cosh expm1 frac sinh tan trunc"}


@float_elementwise("tan", grad=lambda g, y, x: g * (y * y + 1.0), saved="Out")
def TAN(xp: Any, x: Any) -> Any:
    """Tangent of x in radians."""
    return xp.tan(x)


@float_elementwise("asin", grad=lambda g, y, x: g / sqrt(1.0 - x * x))
def ASIN(xp: Any, x: Any) -> Any:
    """The angle in [-pi/2, pi/2] whose sine is x."""
    return xp.arcsin(x)


@float_elementwise("acos", grad=lambda g, y, x: -g / sqrt(1.0 - x * x))
def ACOS(xp: Any, x: Any) -> Any:
    """The angle in [0, pi] whose cosine is x."""
    return xp.arccos(x)


@float_elementwise("atan", grad=lambda g, y, x: g / (x * x + 1.0))
def ATAN(xp: Any, x: Any) -> Any:
    """The angle in (-pi/2, pi/2) whose tangent is x."""
    return xp.arctan(x)


def _sinh_grad(g: Any, y: Any, x: Any) -> Any:
    return g * cosh(x)


def _cosh_grad(g: Any, y: Any, x: Any) -> Any:
    return g * sinh(x)


@float_elementwise("sinh", grad=_sinh_grad)
def SINH(xp: Any, x: Any) -> Any:
    """(exp(x) - exp(-x)) / 2."""
    return xp.sinh(x)


@float_elementwise("cosh", grad=_cosh_grad)
def COSH(xp: Any, x: Any) -> Any:
    """(exp(x) + exp(-x)) / 2."""
    return xp.cosh(x)


@float_elementwise("expm1", grad=lambda g, y, x: g * (y + 1.0), saved="Out")
def EXPM1(xp: Any, x: Any) -> Any:
    """exp(x) - 1, accurate near 0."""
    return xp.expm1(x)


@float_elementwise("trunc", grad=lambda g, y, x: zeros_like(g), saved="")
def TRUNC(xp: Any, x: Any) -> Any:
    """x without its fraction."""
    return xp.trunc(x)


tan = unary(
    TAN,
    "The tangent of `x` in radians.",
    example=("print(wb.tan(wb.to_tensor([0.0, 1.0])).numpy().round(3))", "[0.    1.557]"),
)
asin = unary(
    ASIN,
    "The angle in [-pi/2, pi/2] whose sine is `x`: NaN outside [-1, 1].",
    example=("print(wb.asin(wb.to_tensor([0.0, 1.0])).numpy().round(3))", "[0.    1.571]"),
)
acos = unary(
    ACOS,
    "The angle in [0, pi] whose cosine is `x`: NaN outside [-1, 1].",
    example=("print(wb.acos(wb.to_tensor([0.0, 1.0])).numpy().round(3))", "[1.571 0.   ]"),
)
atan = unary(
    ATAN,
    "The angle in (-pi/2, pi/2) whose tangent is `x`.",
    example=("print(wb.atan(wb.to_tensor([0.0, 1.0])).numpy().round(3))", "[0.    0.785]"),
)
sinh = unary(
    SINH,
    "The hyperbolic sine, (exp(x) - exp(-x)) / 2.",
    example=("print(wb.sinh(wb.to_tensor([0.0, 1.0])).numpy().round(3))", "[0.    1.175]"),
)
cosh = unary(
    COSH,
    "The hyperbolic cosine, (exp(x) + exp(-x)) / 2.",
    example=("print(wb.cosh(wb.to_tensor([0.0, 1.0])).numpy().round(3))", "[1.    1.543]"),
)
expm1 = unary(
    EXPM1,
    "exp(x) - 1, accurate near 0.",
    example=("print(wb.expm1(wb.to_tensor([0.0, 1.0])).numpy().round(3))", "[0.    1.718]"),
)


@tensor_method("trunc")
def trunc(input: Tensor, name: str | None = None) -> Any:
    """`input` without its fraction, that is rounded towards 0; a copy of integers. The gradient is zero.

    Example:
        >>> print(wb.trunc(wb.to_tensor([-1.5, 1.5])).numpy())
        [-1.  1.]
    """
    return TRUNC(input, name=name) if input.dtype.is_float else assign(input)


@tensor_method("frac")
def frac(x: Tensor, name: str | None = None) -> Any:
    """The fraction of `x`, with the sign of `x`.

    Example:
        >>> print(wb.frac(wb.to_tensor([-1.5, 2.25])).numpy())
        [-0.5   0.25]
    """
    return x - trunc(x, name=name)


@tensor_method("asinh")
def asinh(x: Tensor, name: str | None = None) -> Any:
    """The inverse of `sinh`.

    Raises:
        InvalidType: `x` is not floating.

    Example:
        >>> print(wb.asinh(wb.to_tensor([0.0, -1.0])).numpy().round(3))
        [ 0.    -0.881]
    """
    sign = where(x < 0.0, full_like(x, -1.0), full_like(x, 1.0))
    size = x * sign
    return sign * log1p(size + size * (size / (sqrt(size * size + 1.0) + 1.0)), name=name)


@tensor_method("acosh")
def acosh(x: Tensor, name: str | None = None) -> Any:
    """The number from 0 up whose `cosh` is `x`: NaN below 1.

    Raises:
        InvalidType: `x` is not floating.

    Example:
        >>> print(wb.acosh(wb.to_tensor([1.0, 3.0])).numpy().round(3))
        [0.    1.763]
    """
    return log1p(x - 1.0 + sqrt(x - 1.0) * sqrt(x + 1.0), name=name)


@tensor_method("atanh")
def atanh(x: Tensor, name: str | None = None) -> Any:
    """The inverse of `tanh`: NaN outside [-1, 1].

    Raises:
        InvalidType: `x` is not floating.

    Example:
        >>> print(wb.atanh(wb.to_tensor([0.0, 0.5])).numpy().round(3))
        [0.    0.549]
    """
    return (log1p(x) - log1p(-x, name=name)) * 0.5
