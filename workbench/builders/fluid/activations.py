"""`fluid.layers`: activations with the arguments and defaults of Paddle 1.x; of any shape unless said otherwise."""

from __future__ import annotations

from typing import Any

from workbench.builders.initializers.initializer import Constant
from workbench.builders.layer import building
from workbench.builders.param_attr import required_attr
from workbench.errors import InvalidArgument, Unimplemented
from workbench.ops.loss.softmax import log_softmax as log_soft_maximum
from workbench.ops.math.clip import clip
from workbench.ops.math.compare import where
from workbench.ops.math.unary import exp, log1p
from workbench.ops.nn import composed_activation as composed
from workbench.ops.nn.activation import SELU, SWISH
from workbench.ops.nn.activation import gelu as gaussian_error_unit
from workbench.ops.nn.activation import mish as smooth_unit
from workbench.ops.nn.activation import softplus as smooth_rectifier
from workbench.ops.nn.piecewise import HARD_SIGMOID, HARD_SWISH, HARD_TANH, LEAKY_RELU, RELU6


def relu6(x: Any, threshold: float = 6.0, name: str | None = None) -> Any:
    """min(max(x, 0), threshold).

    Raises:
        InvalidType: `x` is not floating.

    Example:
        >>> import workbench.fluid as fluid
        >>> fluid.layers.relu6(fluid.data("x", [None, 3]), threshold=4.0).shape
        (-1, 3)
    """
    return RELU6(x, threshold=float(threshold), name=name)


def leaky_relu(x: Any, alpha: float = 0.02, name: str | None = None) -> Any:
    """x where it is positive, alpha * x elsewhere. Raises: as `relu6`."""
    return LEAKY_RELU(x, alpha=float(alpha), name=name)


def brelu(x: Any, t_min: float = 0.0, t_max: float = 24.0, name: str | None = None) -> Any:
    """x within [t_min, t_max]; the gradient is 0 at and beyond them. Raises: as `relu6`."""
    return HARD_TANH(x, t_min=float(t_min), t_max=float(t_max), name=name)


def soft_relu(x: Any, threshold: float = 40.0, name: str | None = None) -> Any:
    """log(1 + exp(x)), with x kept within [-threshold, threshold]; the gradient is 0 beyond."""
    return log1p(exp(clip(x, -float(threshold), float(threshold))), name=name)


def hard_sigmoid(x: Any, slope: float = 0.2, offset: float = 0.5, name: str | None = None) -> Any:
    """slope * x + offset, kept within [0, 1]. Raises: as `relu6`."""
    return HARD_SIGMOID(x, slope=float(slope), offset=float(offset), name=name)


def hard_swish(x: Any, threshold: float = 6.0, scale: float = 6.0, offset: float = 3.0, name: str | None = None) -> Any:
    """x * min(max(x + offset, 0), threshold) / scale (Howard et al. 2019, MobileNetV3). Raises: as `relu6`."""
    return HARD_SWISH(x, threshold=float(threshold), scale=float(scale), offset=float(offset), name=name)


def swish(x: Any, beta: float = 1.0, name: str | None = None) -> Any:
    """x * sigmoid(beta * x) (Ramachandran et al. 2017, "Searching for Activation Functions"). Raises: as `relu6`.

    Paddle 1.8.5 does not look at `beta`; this does, as its documentation says.
    """
    return SWISH(x, beta=float(beta), name=name)


def selu(x: Any, scale: float | None = None, alpha: float | None = None, name: str | None = None) -> Any:
    """scale * x where it is positive, scale * alpha * (exp(x) - 1) elsewhere (Klambauer et al. 2017).

    Args:
        scale, alpha: the values of that paper if None.
    """
    given = {"scale": scale, "alpha": alpha}
    return SELU(x, name=name, **{key: float(value) for key, value in given.items() if value is not None})


def softplus(x: Any, name: str | None = None) -> Any:
    """log(1 + exp(x))."""
    return smooth_rectifier(x, name=name)


def gelu(x: Any, approximate: bool = False) -> Any:
    """x times the share of a normal distribution below x (Hendrycks and Gimpel 2016); by tanh if `approximate`."""
    return gaussian_error_unit(x, approximate)


def mish(x: Any, threshold: float = 20, name: str | None = None) -> Any:
    """x * tanh(log(1 + exp(x))) (Misra 2019).

    Raises:
        Unimplemented: another threshold than 20.
    """
    if threshold != 20:
        raise Unimplemented(f"mish computes log(1 + exp(x)) as x from a threshold of 20 on, got {threshold}")
    return smooth_unit(x, name=name)


def softshrink(x: Any, alpha: float | None = None) -> Any:
    """x moved towards 0 by `alpha`, 0.5 if None; 0 where that would cross it."""
    return composed.softshrink(x, 0.5 if alpha is None else alpha)


def hard_shrink(x: Any, threshold: float | None = None) -> Any:
    """x where its absolute value exceeds `threshold`, 0.5 if None; else 0."""
    return composed.hardshrink(x, 0.5 if threshold is None else threshold)


def thresholded_relu(x: Any, threshold: float | None = None) -> Any:
    """x where it exceeds `threshold`, 1 if None; else 0."""
    return composed.thresholded_relu(x, 1.0 if threshold is None else threshold)


def maxout(x: Any, groups: int, name: str | None = None, axis: int = 1) -> Any:
    """The largest of every `groups` channels (Goodfellow et al. 2013, "Maxout Networks").

    Args:
        x: `[N, C, H, W]`, with channels along `axis`: 1, or 3 (-1).

    Raises:
        InvalidArgument: another axis, or channels that cannot be divided.
    """
    if axis not in (1, -1, 3):
        raise InvalidArgument(f"maxout takes 1, 3 or -1 as axis, got {axis!r}")
    return composed.maxout(x, groups, axis, name)


def log_softmax(input: Any, axis: int | None = None, dtype: Any = None, name: str | None = None) -> Any:
    """log(softmax(x)) along `axis`, the last one if None."""
    return log_soft_maximum(input, -1 if axis is None else axis, dtype, name)


def prelu(x: Any, mode: str, param_attr: Any = None, name: str | None = None) -> Any:
    """x where it is positive, a learned slope times x elsewhere (He et al. 2015).

    Args:
        x: `[N, C, ...]`.
        mode: "all": one slope `[1]`; "channel": `[1, C, 1, 1]`, as in saved models of 1.x; "element": one for each
            element of a sample, `[1, C, ...]`.
        param_attr: the slopes, 0.25 by default.

    Raises:
        InvalidArgument: another mode, a dimension that is unknown. InvalidType: `param_attr` is False.

    Example:
        >>> import workbench.fluid as fluid
        >>> fluid.layers.prelu(fluid.data("x", [None, 4, 8, 8]), mode="channel").shape
        (-1, 4, 8, 8)
    """
    shapes = {"all": [1], "channel": [1, *x.shape[1:2], 1, 1], "element": [1, *x.shape[1:]]}
    if mode not in shapes:
        raise InvalidArgument(f"prelu's mode is 'all', 'channel' or 'element', got {mode!r}")
    with building("prelu", name) as layer:
        attr = required_attr(param_attr, "param_attr", "prelu")
        slopes: Any = layer.parameter(attr, shapes[mode], x.dtype, default=Constant(0.25))
        if mode == "channel" and len(x.shape) != 4:
            slopes = slopes.reshape([1, x.shape[1], *[1] * (len(x.shape) - 2)])
        return where(x > 0.0, x, x * slopes, name=layer.name)
