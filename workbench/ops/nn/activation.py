"""Activation functions. Bodies avoid overflow, so large inputs give limits and not warnings."""

from __future__ import annotations

import math
from typing import Any

from workbench.errors import InvalidArgument
from workbench.ops.math.compare import where
from workbench.ops.math.unary import abs, erf, exp
from workbench.ops.pointwise import Tensor, float_elementwise, unary

OFFERED = {
    "workbench": "tanh",
    "workbench.nn.functional": (
        "celu elu gelu log_sigmoid mish selu sigmoid silu softplus softsign swish tanh tanhshrink"
    ),
}

SELU_SCALE = 1.0507009873554804934193349852946  # Klambauer et al., "Self-Normalizing Neural Networks", 2017
SELU_ALPHA = 1.6732632423543772848170429916717


# Sigmoid and tanh


@float_elementwise("sigmoid", grad=lambda g, y, x: g * y * (1.0 - y), saved="Out", traits="activation")
def SIGMOID(xp: Any, x: Any) -> Any:
    """1 / (1 + exp(-x))."""
    small = xp.exp(-xp.abs(x))
    return xp.where(x >= 0, 1.0, small) / (1.0 + small)


@float_elementwise("tanh", grad=lambda g, y, x: g * (1.0 - y * y), saved="Out", traits="activation")
def TANH(xp: Any, x: Any) -> Any:
    """Hyperbolic tangent."""
    return xp.tanh(x)


sigmoid = unary(
    SIGMOID,
    "1 / (1 + exp(-x)), in (0, 1).",
    example=("print(F.sigmoid(wb.to_tensor([0.0, 1.0])).numpy().round(3))", "[0.5   0.731]"),
)
tanh = unary(
    TANH,
    "The hyperbolic tangent, in (-1, 1).",
    example=("print(wb.tanh(wb.to_tensor([0.0, 1.0])).numpy().round(3))", "[0.    0.762]"),
)


@float_elementwise("logsigmoid", grad=lambda g, y, x: g * sigmoid(-x), layer="log_sigmoid", traits="activation")
def LOG_SIGMOID(xp: Any, x: Any) -> Any:
    """log(sigmoid(x))."""
    return xp.minimum(x, 0.0) - xp.log1p(xp.exp(-xp.abs(x)))


log_sigmoid = unary(
    LOG_SIGMOID,
    "log(sigmoid(x)), finite for every finite `x`.",
    name="log_sigmoid",
    methods="",
    example=("print(F.log_sigmoid(wb.to_tensor([0.0, 1.0])).numpy().round(3))", "[-0.693 -0.313]"),
)


# Rectifiers that level off


@float_elementwise(
    "elu",
    attrs={"alpha": 1.0},
    grad=lambda g, y, x, alpha: where(x > 0.0, g, g * exp(_not_above(x, 0.0)) * alpha),
)
def ELU(xp: Any, x: Any, alpha: float) -> Any:
    """x where it is positive, alpha * (exp(x) - 1) elsewhere."""
    return xp.where(x > 0, x, xp.expm1(xp.minimum(x, 0.0)) * alpha)


def _not_above(x: Any, bound: float) -> Any:
    """min(x, bound) in a gradient rule, where exp would overflow on the side that is not chosen."""
    return where(x > bound, bound, x)


def elu(x: Tensor, alpha: float = 1.0, name: str | None = None) -> Tensor:
    """x where it is positive, alpha * (exp(x) - 1) elsewhere. Args and Raises: as for `leaky_relu`.

    Example:
        >>> print(F.elu(wb.to_tensor([-1.0, 2.0])).numpy().round(3))
        [-0.632  2.   ]
    """
    return ELU(x, alpha=float(alpha), name=name)


@float_elementwise(
    "selu",
    attrs={"scale": SELU_SCALE, "alpha": SELU_ALPHA},
    grad=lambda g, y, x, scale, alpha: where(x > 0.0, g * scale, g * exp(_not_above(x, 0.0)) * (scale * alpha)),
)
def SELU(xp: Any, x: Any, scale: float, alpha: float) -> Any:
    """scale * (x where it is positive, alpha * (exp(x) - 1) elsewhere)."""
    return xp.where(x > 0, x * scale, xp.expm1(xp.minimum(x, 0.0)) * (scale * alpha))


def selu(x: Tensor, scale: float = SELU_SCALE, alpha: float = SELU_ALPHA, name: str | None = None) -> Tensor:
    """scale * elu(x, alpha), self-normalising with the default constants (Klambauer et al. 2017).

    Args and Raises: as for `leaky_relu`.

    Example:
        >>> print(F.selu(wb.to_tensor([-1.0, 1.0])).numpy().round(3))
        [-1.111  1.051]
    """
    return SELU(x, scale=float(scale), alpha=float(alpha), name=name)


@float_elementwise(
    "celu",
    attrs={"alpha": 1.0},
    grad=lambda g, y, x, alpha: where(x > 0.0, g, g * exp(_not_above(x, 0.0) * (1.0 / alpha))),
)
def CELU(xp: Any, x: Any, alpha: float) -> Any:
    """x where it is positive, alpha * (exp(x / alpha) - 1) elsewhere; alpha > 0."""
    return xp.where(x > 0, x, xp.expm1(xp.minimum(x, 0.0) * (1.0 / alpha)) * alpha)


def celu(x: Tensor, alpha: float = 1.0, name: str | None = None) -> Tensor:
    """max(x, 0) + min(0, alpha * (exp(x / alpha) - 1)).

    Args:
        x: floating tensor of any shape.
        alpha: a number > 0.

    Raises:
        InvalidArgument: alpha <= 0. InvalidType: `x` is not floating.

    Example:
        >>> print(F.celu(wb.to_tensor([-1.0, 2.0])).numpy().round(3))
        [-0.632  2.   ]
    """
    return CELU(x, alpha=_positive("alpha of celu", alpha), name=name)


def _positive(what: str, value: float) -> float:
    if not value > 0:
        raise InvalidArgument(f"{what} is a number > 0, got {value!r}")
    return float(value)


# Smooth rectifiers


def _softplus_grad(g: Any, y: Any, x: Any, beta: float, threshold: float) -> Any:
    return where(x * beta > threshold, g, g * sigmoid(x * beta))


@float_elementwise("softplus", attrs={"beta": 1.0, "threshold": 20.0}, grad=_softplus_grad)
def SOFTPLUS(xp: Any, x: Any, beta: float, threshold: float) -> Any:
    """log(1 + exp(beta x)) / beta; x itself where beta x is above the threshold."""
    scaled = x * beta
    smooth = xp.maximum(scaled, 0.0) + xp.log1p(xp.exp(-xp.abs(scaled)))
    return xp.where(scaled > threshold, x, smooth * (1.0 / beta))


def softplus(x: Tensor, beta: float = 1, threshold: float = 20, name: str | None = None) -> Tensor:
    """log(1 + exp(beta * x)) / beta.

    Args:
        x: floating tensor of any shape.
        beta: a number > 0.
        threshold: where beta * x is above it, the result is x.

    Raises:
        InvalidArgument: beta <= 0. InvalidType: `x` is not floating.

    Example:
        >>> print(F.softplus(wb.to_tensor([0.0, 1.0])).numpy().round(3))
        [0.693 1.313]
    """
    return SOFTPLUS(x, beta=_positive("beta of softplus", beta), threshold=float(threshold), name=name)


def _softsign_grad(g: Any, y: Any, x: Any) -> Any:
    d = abs(x) + 1.0
    return g / (d * d)


@float_elementwise("softsign", grad=_softsign_grad, traits="activation")
def SOFTSIGN(xp: Any, x: Any) -> Any:
    """x / (1 + |x|)."""
    return x / (1.0 + xp.abs(x))


softsign = unary(
    SOFTSIGN,
    "x / (1 + |x|), in (-1, 1).",
    methods="",
    example=("print(F.softsign(wb.to_tensor([-1.0, 3.0])).numpy().round(3))", "[-0.5   0.75]"),
)


def _silu_grad(g: Any, y: Any, x: Any) -> Any:
    s = sigmoid(x)
    return g * (s + y * (1.0 - s))


@float_elementwise("silu", grad=_silu_grad, saved="X, Out", traits="activation")
def SILU(xp: Any, x: Any) -> Any:
    """x * sigmoid(x)."""
    return x * SIGMOID.forward(xp, x)


silu = unary(
    SILU,
    "x * sigmoid(x).",
    methods="",
    example=("print(F.silu(wb.to_tensor([0.0, 1.0])).numpy().round(3))", "[0.    0.731]"),
)


def _swish_grad(g: Any, y: Any, x: Any, beta: float) -> Any:
    s = sigmoid(x * beta)
    return g * (s + y * (1.0 - s) * beta)


@float_elementwise("swish", attrs={"beta": 1.0}, grad=_swish_grad, saved="X, Out")
def SWISH(xp: Any, x: Any, beta: float) -> Any:
    """x * sigmoid(beta x)."""
    return x * SIGMOID.forward(xp, x * beta)


def swish(x: Tensor, name: str | None = None) -> Tensor:
    """x * sigmoid(x) of a floating tensor (Ramachandran et al. 2017); the same as `silu`.

    Example:
        >>> print(F.swish(wb.to_tensor([0.0, 1.0])).numpy().round(3))
        [0.    0.731]
    """
    return SWISH(x, name=name)


# gelu(x) = x * P(Z <= x) for a standard normal Z (Hendrycks and Gimpel, 2016)

TANH_SCALE, TANH_CUBE = math.sqrt(2.0 / math.pi), 0.044715


def _gelu_grad(g: Any, y: Any, x: Any, approximate: bool) -> Any:
    if approximate:
        t = tanh((x + x * x * x * TANH_CUBE) * TANH_SCALE)
        inner = (x * x * (3.0 * TANH_CUBE) + 1.0) * TANH_SCALE
        return g * ((t + 1.0) * 0.5 + x * 0.5 * (1.0 - t * t) * inner)
    below = (erf(x * math.sqrt(0.5)) + 1.0) * 0.5
    density = exp(x * x * -0.5) * (1.0 / math.sqrt(2.0 * math.pi))
    return g * (below + x * density)


@float_elementwise("gelu", attrs={"approximate": False}, grad=_gelu_grad, traits="activation")
def GELU(xp: Any, x: Any, approximate: bool) -> Any:
    """x times the standard normal distribution function of x, exactly or by a tanh."""
    if approximate:
        return x * 0.5 * (xp.tanh((x + x * x * x * TANH_CUBE) * TANH_SCALE) + 1.0)
    return x * 0.5 * (xp.erf(x * math.sqrt(0.5)) + 1.0)


def gelu(x: Tensor, approximate: bool = False, name: str | None = None) -> Tensor:
    """x * Phi(x), Phi being the standard normal distribution function.

    Args:
        x: floating tensor of any shape.
        approximate: use 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))) instead of the error function.

    Raises:
        InvalidType: `x` is not floating.

    Example:
        >>> print(F.gelu(wb.to_tensor([-1.0, 0.0, 1.0])).numpy().round(3))
        [-0.159  0.     0.841]
    """
    return GELU(x, approximate=bool(approximate), name=name)


def _mish_grad(g: Any, y: Any, x: Any) -> Any:
    t = tanh(softplus(x))
    return g * (t + x * sigmoid(x) * (1.0 - t * t))


@float_elementwise("mish", grad=_mish_grad, traits="activation")
def MISH(xp: Any, x: Any) -> Any:
    """x * tanh(softplus(x))."""
    return x * xp.tanh(SOFTPLUS.forward(xp, x, beta=1.0, threshold=20.0))


mish = unary(
    MISH,
    "x * tanh(softplus(x)) (Misra 2019).",
    methods="",
    example=("print(F.mish(wb.to_tensor([0.0, 1.0])).numpy().round(3))", "[0.    0.865]"),
)


@float_elementwise("tanh_shrink", grad=lambda g, y, x: g * tanh(x) * tanh(x))
def TANH_SHRINK(xp: Any, x: Any) -> Any:
    """x - tanh(x)."""
    return x - xp.tanh(x)


tanhshrink = unary(
    TANH_SHRINK,
    "x - tanh(x).",
    name="tanhshrink",
    methods="",
    example=("print(F.tanhshrink(wb.to_tensor([0.0, 1.0])).numpy().round(3))", "[0.    0.238]"),
)
