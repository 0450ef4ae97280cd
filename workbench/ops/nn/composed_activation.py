"""Activation functions composed of other ops."""

from __future__ import annotations

from typing import Any

from workbench.errors import InvalidArgument, ShapeError
from workbench.framework.op.infix import tensor_method
from workbench.framework.values.spec import normalize_axis, shape_text
from workbench.ops.math.compare import where
from workbench.ops.math.reductions.extreme import max as reduce_max
from workbench.ops.math.unary import abs
from workbench.ops.nn.activation import sigmoid, tanh
from workbench.ops.pointwise import Tensor
from workbench.ops.random.distributions import UNIFORM_LIKE
from workbench.ops.tensor.join import split
from workbench.ops.tensor.shape import reshape

OFFERED = {
    "workbench": "stanh",
    "workbench.nn.functional": "glu hardshrink maxout prelu rrelu softshrink thresholded_relu",
}


def hardshrink(x: Tensor, threshold: float = 0.5, name: str | None = None) -> Tensor:
    """x where its absolute value exceeds `threshold`, else 0.

    Args:
        x: floating tensor of any shape.
        threshold: a number >= 0.

    Raises:
        InvalidArgument: a negative threshold.

    Example:
        >>> print(F.hardshrink(wb.to_tensor([-1.0, 0.3, 2.0])).numpy())
        [-1.  0.  2.]
    """
    _not_negative("hardshrink", threshold)
    return where(abs(x) > threshold, x, 0.0, name=name)


def softshrink(x: Tensor, threshold: float = 0.5, name: str | None = None) -> Tensor:
    """x moved towards 0 by `threshold`; 0 where that would cross it. Args and Raises: as for `hardshrink`.

    Example:
        >>> print(F.softshrink(wb.to_tensor([-1.0, 0.3, 2.0])).numpy())
        [-0.5  0.   1.5]
    """
    _not_negative("softshrink", threshold)
    below = where(x < -threshold, x + threshold, 0.0)
    return where(x > threshold, x - threshold, below, name=name)


def _not_negative(what: str, threshold: float) -> None:
    if not threshold >= 0:
        raise InvalidArgument(f"{what} takes a threshold of at least 0, got {threshold!r}")


def thresholded_relu(x: Tensor, threshold: float = 1.0, name: str | None = None) -> Tensor:
    """x where it exceeds `threshold`, else 0.

    Example:
        >>> print(F.thresholded_relu(wb.to_tensor([-1.0, 1.0, 2.0])).numpy())
        [0. 0. 2.]
    """
    return where(x > threshold, x, 0.0, name=name)


def prelu(x: Tensor, weight: Any, data_format: str = "NCHW", name: str | None = None) -> Tensor:
    """x where it is positive, weight * x elsewhere, with a weight for all elements or one per channel.

    Args:
        x: floating tensor `[N, C, ...]`, or `[N, ..., C]` for a `data_format` that ends in C.
        weight: one entry, or C.

    Raises:
        InvalidArgument: another number of weights.

    Example:
        >>> print(F.prelu(wb.to_tensor([[-2.0, 4.0]]), wb.to_tensor([0.25])).numpy())
        [[-0.5  4. ]]
    """
    count = weight.shape[0] if len(weight.shape) == 1 else 1
    if count != 1:
        axis = len(x.shape) - 1 if data_format[-1] == "C" else 1
        if len(x.shape) < 2 or x.shape[axis] not in (count, -1):
            raise ShapeError("prelu takes one weight, or one per channel", f"{count} channels", shape_text(x.shape))
        weight = reshape(weight, [-1 if i == axis else 1 for i in range(len(x.shape))])
    return where(x > 0.0, x, x * weight, name=name)


def rrelu(
    x: Tensor, lower: float = 1.0 / 8.0, upper: float = 1.0 / 3.0, training: bool = True, name: str | None = None
) -> Tensor:
    """x where it is not negative, a * x elsewhere: a drawn from [lower, upper) per element, in use their mean.

    Args:
        x: floating tensor of any shape.
        lower, upper: 0 <= lower <= upper <= 1.

    Raises:
        InvalidArgument: bounds that are out of range.

    Source: Xu et al., "Empirical Evaluation of Rectified Activations in Convolutional Network", 2015.

    Example:
        >>> print(F.rrelu(wb.to_tensor([-2.0, 1.0]), 0.25, 0.75, training=False).numpy())
        [-1.  1.]
    """
    if not 0 <= lower <= upper <= 1:
        raise InvalidArgument(f"rrelu takes 0 <= lower <= upper <= 1, got lower={lower} and upper={upper}")
    slope = UNIFORM_LIKE(x, min=float(lower), max=float(upper), is_test=not training)
    return where(x < 0.0, x * slope, x, name=name)


@tensor_method("stanh")
def stanh(x: Tensor, scale_a: float = 0.67, scale_b: float = 1.7159, name: str | None = None) -> Any:
    """`scale_b * tanh(scale_a * x)`.

    Example:
        >>> print(wb.stanh(wb.to_tensor([0.0, 1.0])).numpy().round(3))
        [0.    1.004]
    """
    return tanh(x * scale_a, name=name) * scale_b


def glu(x: Tensor, axis: int = -1, name: str | None = None) -> Tensor:
    """The first half of `x` along `axis`, times the sigmoid of the second.

    Raises:
        InvalidArgument: an odd or unknown size, or an axis that `x` does not have.

    Source: Dauphin et al., "Language Modeling with Gated Convolutional Networks", 2017.

    Example:
        >>> print(F.glu(wb.to_tensor([[1.0, 2.0, 0.0, 0.0]])).numpy())
        [[0.5 1. ]]
    """
    value, gate = split(x, 2, axis=normalize_axis(axis, len(x.shape)))
    return value * sigmoid(gate, name=name)


def maxout(x: Tensor, groups: int, axis: int = 1, name: str | None = None) -> Tensor:
    """The maximum of every `groups` neighbouring channels.

    Args:
        x: `[N, C, H, W]`, or any shape with channels along `axis`.
        groups: how many channels are taken together; it divides C.

    Returns:
        `x` with C / groups channels.

    Raises:
        InvalidArgument: `groups` does not divide the channels.

    Source: Goodfellow et al., "Maxout Networks", ICML 2013.

    Example:
        >>> print(F.maxout(wb.to_tensor([[1.0, 5.0, 2.0, 3.0]]), 2).numpy())
        [[5. 3.]]
    """
    axis = normalize_axis(axis, len(x.shape))
    channels = x.shape[axis]
    if groups < 1 or channels < 1 or channels % groups:
        raise ShapeError("maxout takes channels in whole groups", f"a multiple of {groups} channels", channels)
    grouped = [0] * axis + [channels // groups, groups]
    rest = list(x.shape[axis + 1 :])
    return reduce_max(reshape(x, [*grouped, *rest]), axis=axis + 1, name=name)
