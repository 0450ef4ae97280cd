"""Functions of one tensor, element by element. Gradients where the function has a corner follow Paddle."""

from __future__ import annotations

import math
from typing import Any

from workbench.framework.op.elementwise import elementwise
from workbench.framework.op.infix import tensor_method
from workbench.framework.values.dtype import bool_
from workbench.ops.pointwise import float_elementwise, number_elementwise, unary
from workbench.ops.tensor.creation import zeros_like

OFFERED = {
    "workbench": (
        "abs ceil cos erf exp floor isfinite isinf isnan log log10 log1p log2 neg reciprocal round rsqrt sign sin "
        "sqrt square"
    ),
}


# Powers, exponentials and logarithms


@float_elementwise("exp", grad=lambda g, y, x: g * y, saved="Out")
def EXP(xp: Any, x: Any) -> Any:
    """e to the power of x."""
    return xp.exp(x)


@float_elementwise("log", grad=lambda g, y, x: g / x)
def LOG(xp: Any, x: Any) -> Any:
    """Natural logarithm."""
    return xp.log(x)


@float_elementwise("log2", grad=lambda g, y, x: g / (x * math.log(2.0)))
def LOG2(xp: Any, x: Any) -> Any:
    """Logarithm to base 2."""
    return xp.log2(x)


@float_elementwise("log10", grad=lambda g, y, x: g / (x * math.log(10.0)))
def LOG10(xp: Any, x: Any) -> Any:
    """Logarithm to base 10."""
    return xp.log10(x)


@float_elementwise("log1p", grad=lambda g, y, x: g / (x + 1.0))
def LOG1P(xp: Any, x: Any) -> Any:
    """log(1 + x), accurate near 0."""
    return xp.log1p(x)


@float_elementwise("sqrt", grad=lambda g, y, x: g * 0.5 / y, saved="Out")
def SQRT(xp: Any, x: Any) -> Any:
    """Square root."""
    return xp.sqrt(x)


@float_elementwise("rsqrt", grad=lambda g, y, x: g * -0.5 * y * y * y, saved="Out")
def RSQRT(xp: Any, x: Any) -> Any:
    """1 / sqrt(x)."""
    return xp.reciprocal(xp.sqrt(x))


@number_elementwise("square", grad=lambda g, y, x: g * x * 2.0)
def SQUARE(xp: Any, x: Any) -> Any:
    """x * x."""
    return xp.square(x)


@float_elementwise("reciprocal", grad=lambda g, y, x: -g * y * y, saved="Out")
def RECIPROCAL(xp: Any, x: Any) -> Any:
    """1 / x."""
    return xp.reciprocal(x)


exp = unary(
    EXP,
    "e to the power of `x`.",
    example=("print(wb.exp(wb.to_tensor([0.0, 1.0])).numpy().round(3))", "[1.    2.718]"),
)
log = unary(
    LOG,
    "The natural logarithm: NaN below 0, -inf at 0.",
    example=("print(wb.log(wb.to_tensor([1.0, 10.0])).numpy().round(3))", "[0.    2.303]"),
)
log2 = unary(
    LOG2,
    "The logarithm to base 2.",
    example=("print(wb.log2(wb.to_tensor([1.0, 8.0])).numpy().round(3))", "[0. 3.]"),
)
log10 = unary(
    LOG10,
    "The logarithm to base 10.",
    example=("print(wb.log10(wb.to_tensor([1.0, 100.0])).numpy().round(3))", "[0. 2.]"),
)
log1p = unary(
    LOG1P,
    "log(1 + x), accurate near 0.",
    example=("print(wb.log1p(wb.to_tensor([0.0, 1.0])).numpy().round(3))", "[0.    0.693]"),
)
sqrt = unary(
    SQRT,
    "The square root: NaN below 0.",
    example=("print(wb.sqrt(wb.to_tensor([0.25, 9.0])).numpy().round(3))", "[0.5 3. ]"),
)
rsqrt = unary(
    RSQRT,
    "1 / sqrt(x).",
    example=("print(wb.rsqrt(wb.to_tensor([0.25, 4.0])).numpy().round(3))", "[2.  0.5]"),
)
square = unary(
    SQUARE,
    "x * x.",
    floating=False,
    example=("print(wb.square(wb.to_tensor([-2.0, 3.0])).numpy().round(3))", "[4. 9.]"),
)
reciprocal = unary(
    RECIPROCAL,
    "1 / x.",
    example=("print(wb.reciprocal(wb.to_tensor([0.5, 4.0])).numpy().round(3))", "[2.   0.25]"),
)


# Trigonometry and the error function


def _sin_grad(g: Any, y: Any, x: Any) -> Any:
    return g * cos(x)


def _cos_grad(g: Any, y: Any, x: Any) -> Any:
    return -g * sin(x)


@float_elementwise("sin", grad=_sin_grad)
def SIN(xp: Any, x: Any) -> Any:
    """Sine of x in radians."""
    return xp.sin(x)


@float_elementwise("cos", grad=_cos_grad)
def COS(xp: Any, x: Any) -> Any:
    """Cosine of x in radians."""
    return xp.cos(x)


@float_elementwise("erf", grad=lambda g, y, x: g * (exp(-x * x) * (2.0 / math.sqrt(math.pi))))
def ERF(xp: Any, x: Any) -> Any:
    """The error function."""
    return xp.erf(x)


sin = unary(
    SIN,
    "The sine of `x` in radians.",
    example=("print(wb.sin(wb.to_tensor([0.0, 1.0])).numpy().round(3))", "[0.    0.841]"),
)
cos = unary(
    COS,
    "The cosine of `x` in radians.",
    example=("print(wb.cos(wb.to_tensor([0.0, 1.0])).numpy().round(3))", "[1.   0.54]"),
)
erf = unary(
    ERF,
    "The error function 2/sqrt(pi) * integral of exp(-t*t) from 0 to x.",
    example=("print(wb.erf(wb.to_tensor([0.0, 1.0])).numpy().round(3))", "[0.    0.843]"),
)


# Signs and rounding. Where the derivative is 0 the gradient is zeros, not absent.


def _abs_grad(g: Any, y: Any, x: Any) -> Any:
    return g * sign(x)


@elementwise("abs", grad=_abs_grad)
def ABS(xp: Any, x: Any) -> Any:
    """The absolute value; its gradient at 0 is 0."""
    return xp.abs(x)


def _zero_gradient(g: Any, y: Any, x: Any) -> Any:
    return zeros_like(g)


@number_elementwise("sign", grad=_zero_gradient, saved="")
def SIGN(xp: Any, x: Any) -> Any:
    """-1, 0 or 1."""
    return xp.sign(x)


@float_elementwise("floor", grad=_zero_gradient, saved="")
def FLOOR(xp: Any, x: Any) -> Any:
    """The largest integer that is not above x."""
    return xp.floor(x)


@float_elementwise("ceil", grad=_zero_gradient, saved="")
def CEIL(xp: Any, x: Any) -> Any:
    """The smallest integer that is not below x."""
    return xp.ceil(x)


@float_elementwise("round", grad=_zero_gradient, saved="")
def ROUND(xp: Any, x: Any) -> Any:
    """The nearest integer; halves go away from zero, as in Paddle (NumPy rounds them to even)."""
    whole = xp.trunc(x)
    return whole + xp.trunc((x - whole) * 2)


abs = unary(
    ABS,
    "The absolute value; its gradient at 0 is 0.",
    floating=False,
    example=("print(wb.abs(wb.to_tensor([-2.0, 3.0])).numpy().round(3))", "[2. 3.]"),
)
sign = unary(
    SIGN,
    "-1, 0 or 1, the sign of `x`. The gradient is zero.",
    floating=False,
    example=("print(wb.sign(wb.to_tensor([-2.0, 0.0, 3.0])).numpy().round(3))", "[-1.  0.  1.]"),
)
floor = unary(
    FLOOR,
    "The largest integer that is not above `x`. The gradient is zero.",
    example=("print(wb.floor(wb.to_tensor([-1.5, 1.5])).numpy().round(3))", "[-2.  1.]"),
)
ceil = unary(
    CEIL,
    "The smallest integer that is not below `x`. The gradient is zero.",
    example=("print(wb.ceil(wb.to_tensor([-1.5, 1.5])).numpy().round(3))", "[-1.  2.]"),
)
round = unary(
    ROUND,
    "The nearest integer, halves away from zero. The gradient is zero.",
    example=("print(wb.round(wb.to_tensor([-1.5, 1.4])).numpy().round(3))", "[-2.  1.]"),
)


@tensor_method("neg")
def neg(x: Any, name: str | None = None) -> Any:
    """-x, element by element, in the shape and dtype of `x`.

    Example:
        >>> print(wb.neg(wb.to_tensor([1.0, -2.0])).numpy())
        [-1.  2.]
    """
    return -x


# Tests for special values


@elementwise("isnan_v2", out_dtype=bool_, layer="isnan")
def ISNAN(xp: Any, x: Any) -> Any:
    """Whether x is NaN."""
    return xp.isnan(x)


@elementwise("isinf_v2", out_dtype=bool_, layer="isinf")
def ISINF(xp: Any, x: Any) -> Any:
    """Whether x is +inf or -inf."""
    return xp.isinf(x)


@elementwise("isfinite_v2", out_dtype=bool_, layer="isfinite")
def ISFINITE(xp: Any, x: Any) -> Any:
    """Whether x is neither NaN nor infinite."""
    return xp.isfinite(x)


isnan = unary(
    ISNAN,
    "Where `x` is NaN.",
    floating=False,
    name="isnan",
    example=('print(wb.isnan(wb.to_tensor([1.0, float("nan")])).numpy())', "[False  True]"),
)
isinf = unary(
    ISINF,
    "Where `x` is infinite.",
    floating=False,
    name="isinf",
    example=('print(wb.isinf(wb.to_tensor([1.0, float("inf")])).numpy())', "[False  True]"),
)
isfinite = unary(
    ISFINITE,
    "Where `x` is neither NaN nor infinite.",
    floating=False,
    name="isfinite",
    example=('print(wb.isfinite(wb.to_tensor([1.0, float("inf")])).numpy())', "[ True False]"),
)
