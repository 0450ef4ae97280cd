"""Activation functions made of pieces of lines and parabolas: the rectifier, its kin, and stand-ins for smooth ones."""

from __future__ import annotations

from typing import Any

from workbench.errors import InvalidArgument
from workbench.ops.math.compare import logical_and, where
from workbench.ops.pointwise import Tensor, float_elementwise, unary

OFFERED = {"workbench.nn.functional": "hardsigmoid hardswish hardtanh leaky_relu relu relu6"}


# The rectifier and its kin


def _relu_grad(g: Any, y: Any, x: Any) -> Any:
    return g * (y > 0.0)


@float_elementwise(
    "relu",
    grad=_relu_grad,
    grad_forward=lambda xp, x, y, g, wanted=None: _relu_grad(g, y, x),
    saved="Out",
    traits="activation",
)
def RELU(xp: Any, x: Any) -> Any:
    """max(x, 0)."""
    return xp.maximum(x, 0)


relu = unary(
    RELU,
    "max(x, 0). The gradient at 0 is 0.",
    methods="",
    example=("print(F.relu(wb.to_tensor([-1.0, 2.0])).numpy().round(3))", "[0. 2.]"),
)


@float_elementwise(
    "relu6",
    attrs={"threshold": 6.0},
    grad=lambda g, y, x, threshold: g * logical_and(y > 0.0, y < threshold),
    saved="Out",
)
def RELU6(xp: Any, x: Any, threshold: float) -> Any:
    """min(max(x, 0), threshold)."""
    return xp.minimum(xp.maximum(x, 0.0), threshold)


def relu6(x: Tensor, name: str | None = None) -> Tensor:
    """min(max(x, 0), 6) of a floating tensor. The gradient at 0 and 6 is 0.

    Example:
        >>> print(F.relu6(wb.to_tensor([-1.0, 2.0, 9.0])).numpy())
        [0. 2. 6.]
    """
    return RELU6(x, name=name)


@float_elementwise(
    "leaky_relu",
    attrs={"alpha": 0.02},
    grad=lambda g, y, x, alpha: where(x > 0.0, g, g * alpha),
)
def LEAKY_RELU(xp: Any, x: Any, alpha: float) -> Any:
    """x where it is positive, alpha * x elsewhere."""
    return xp.where(x > 0, x, x * alpha)


def leaky_relu(x: Tensor, negative_slope: float = 0.01, name: str | None = None) -> Tensor:
    """x where it is positive, negative_slope * x elsewhere.

    Args:
        x: floating tensor of any shape.
        negative_slope: a number.

    Raises:
        InvalidType: `x` is not floating.

    Example:
        >>> print(F.leaky_relu(wb.to_tensor([-1.0, 2.0])).numpy())
        [-0.01  2.  ]
    """
    return LEAKY_RELU(x, alpha=float(negative_slope), name=name)


# Piecewise linear stand-ins. At and beyond the corners the gradient is 0 (as in Paddle).


@float_elementwise(
    "hard_sigmoid",
    attrs={"slope": 1.0 / 6.0, "offset": 0.5},
    grad=lambda g, y, x, slope, offset: g * logical_and(y > 0.0, y < 1.0) * slope,
    saved="Out",
    layer="hardsigmoid",
)
def HARD_SIGMOID(xp: Any, x: Any, slope: float, offset: float) -> Any:
    """slope * x + offset within [0, 1]."""
    return xp.minimum(xp.maximum(x * slope + offset, 0.0), 1.0)


def hardsigmoid(x: Tensor, slope: float = 0.1666667, offset: float = 0.5, name: str | None = None) -> Tensor:
    """slope * x + offset kept within [0, 1]. Args and Raises: as for `leaky_relu`.

    Example:
        >>> print(F.hardsigmoid(wb.to_tensor([-4.0, 0.0, 4.0])).numpy())
        [0.  0.5 1. ]
    """
    return HARD_SIGMOID(x, slope=float(slope), offset=float(offset), name=name)


def _hard_swish_grad(g: Any, y: Any, x: Any, threshold: float, scale: float, offset: float) -> Any:
    rising = where(x < threshold - offset, g * ((x * 2.0 + offset) * (1.0 / scale)), g * (threshold / scale))
    return rising * (x > -offset)


@float_elementwise(
    "hard_swish",
    attrs={"threshold": 6.0, "scale": 6.0, "offset": 3.0},
    grad=_hard_swish_grad,
    layer="hardswish",
)
def HARD_SWISH(xp: Any, x: Any, threshold: float, scale: float, offset: float) -> Any:
    """x * min(max(x + offset, 0), threshold) / scale."""
    return x * xp.minimum(xp.maximum(x + offset, 0.0), threshold) * (1.0 / scale)


def hardswish(x: Tensor, name: str | None = None) -> Tensor:
    """x * min(max(x + 3, 0), 6) / 6 of a floating tensor (Howard et al. 2019, MobileNetV3).

    Example:
        >>> print(F.hardswish(wb.to_tensor([-4.0, 1.0, 4.0])).numpy().round(3))
        [-0.     0.667  4.   ]
    """
    return HARD_SWISH(x, name=name)


@float_elementwise(
    "brelu",
    attrs={"t_min": -1.0, "t_max": 1.0},
    grad=lambda g, y, x, t_min, t_max: g * logical_and(x > t_min, x < t_max),
    layer="hardtanh",
)
def HARD_TANH(xp: Any, x: Any, t_min: float, t_max: float) -> Any:
    """x within [t_min, t_max]."""
    return xp.minimum(xp.maximum(x, t_min), t_max)


def hardtanh(x: Tensor, min: float = -1.0, max: float = 1.0, name: str | None = None) -> Tensor:
    """x kept within [min, max]; the gradient is 0 at and beyond them.

    Raises:
        InvalidArgument: min > max. InvalidType: `x` is not floating.

    Example:
        >>> print(F.hardtanh(wb.to_tensor([-4.0, 0.5, 4.0])).numpy())
        [-1.   0.5  1. ]
    """
    if min > max:
        raise InvalidArgument(f"hardtanh: min {min} is greater than max {max}")
    return HARD_TANH(x, t_min=float(min), t_max=float(max), name=name)
