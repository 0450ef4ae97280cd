"""Layers with parameters per channel, or a few: `static.nn.group_norm`, `instance_norm`, `prelu`, `spectral_norm` …"""

from __future__ import annotations

import math
from typing import Any

from workbench.builders.initializers.initializer import Constant, Normal
from workbench.builders.layer import LayerBuilder, building
from workbench.builders.param_attr import ParamAttr, required_attr, to_attr
from workbench.errors import InvalidArgument
from workbench.framework.op.infix import not_a_variable
from workbench.framework.program.variable import Variable
from workbench.ops.math.compare import where
from workbench.ops.math.products.linear import bilinear
from workbench.ops.math.products.spectral import spectral_norm as over_largest
from workbench.ops.nn import group_norm as ops
from workbench.ops.nn.composed_activation import prelu as rectified
from workbench.ops.tensor.shape import reshape, squeeze, unsqueeze


def group_norm(
    input: Variable,
    groups: int,
    epsilon: float = 1e-05,
    param_attr: Any = None,
    bias_attr: Any = None,
    act: str | None = None,
    data_layout: str = "NCHW",
    name: str | None = None,
) -> Variable:
    """Normalise every group of channels of every sample, then scale and shift channels.

    Args:
        input: `[N, C, ...]`, or channels last for "NHWC"; C known.
        param_attr, bias_attr: scale (filled with 1) and shift (0), shape `[C]`; False leaves them out.

    Raises:
        InvalidArgument: channels that are unknown or cannot be divided by the groups, an unknown layout.

    Example:
        >>> wb.enable_static()
        >>> static.nn.group_norm(static.data("image", [None, 4, 8, 8]), groups=2).shape
        (-1, 4, 8, 8)
    """
    with building("group_norm", name) as layer:
        activate = layer.activation(act)
        scale, shift = _scale_and_shift(layer, input, param_attr, bias_attr, data_layout)
        return activate(ops.group_norm(input, groups, epsilon, scale, shift, data_layout, layer.name))


def instance_norm(
    input: Variable, epsilon: float = 1e-05, param_attr: Any = None, bias_attr: Any = None, name: str | None = None
) -> Variable:
    """Normalise every channel of every sample, then scale and shift.

    Args:
        input: `[N, C, ...]`, C known; of `[N, C]` every channel is one value, so what is left is the shift.
            param_attr, bias_attr: as for `group_norm`.

    Raises:
        InvalidArgument: channels that are unknown.

    Example:
        >>> wb.enable_static()
        >>> static.nn.instance_norm(static.data("image", [None, 4, 8, 8])).shape
        (-1, 4, 8, 8)
    """
    with building("instance_norm", name) as layer:
        scale, shift = _scale_and_shift(layer, input, param_attr, bias_attr, "NCHW")
        flat = len(input.shape) == 2
        x: Any = unsqueeze(input, axis=2) if flat else input
        out: Any = ops.instance_norm(x, weight=scale, bias=shift, eps=epsilon, name=layer.name)
        return squeeze(out, axis=2) if flat else out


def prelu(
    x: Variable, mode: str, param_attr: Any = None, data_format: str = "NCHW", name: str | None = None
) -> Variable:
    """x where it is positive, a learned slope times x elsewhere.

    Args:
        mode: "all": one slope; "channel": one for each channel; "element": one for each element of a sample.
        param_attr: the slopes, 0.25 by default, of shape `[1]`, `[1, c, 1, 1]` (channels last: `[1, 1, 1, c]`) or
            `[1, ...]` like a sample, as Paddle saves them.

    Raises:
        InvalidArgument: another mode or layout, a dimension that is unknown.

    Example:
        >>> wb.enable_static()
        >>> static.nn.prelu(static.data("image", [None, 4, 8, 8]), mode="channel").shape
        (-1, 4, 8, 8)
    """
    _require_variable("prelu", x)
    if mode not in ("all", "channel", "element"):
        raise InvalidArgument(f"prelu's mode is 'all', 'channel' or 'element', got {mode!r}")
    with building("prelu", name) as layer:
        attr = required_attr(param_attr, "param_attr", "prelu")
        last = data_format.endswith("C") and data_format != "NC"
        channels = x.shape[-1 if last else 1]
        by_channel = [1, 1, 1, channels] if last else [1, channels, 1, 1]  # whatever the rank, as in Paddle
        shape = {"all": [1], "channel": by_channel, "element": [1, *x.shape[1:]]}[mode]
        slope = layer.parameter(attr, shape, x.dtype, default=Constant(0.25))
        if mode != "element":
            slopes = reshape(slope, [channels]) if mode == "channel" else slope
            return rectified(x, slopes, data_format, layer.name)  # type: ignore[return-value]
        out: Variable = where(x > 0.0, x, x * slope, name=layer.name)  # type: ignore[assignment]
        return out


def spectral_norm(
    weight: Variable, dim: int = 0, power_iters: int = 1, eps: float = 1e-12, name: str | None = None
) -> Variable:
    """A weight over its largest singular value, estimated by power iterations from two vectors kept in the program.

    Args:
        weight: floating, all dimensions known. dim: which one counts as the rows of a matrix.

    Raises:
        InvalidArgument: an unknown dimension.

    Example:
        >>> wb.enable_static()
        >>> static.nn.spectral_norm(static.data("weight", [2, 8, 32]), dim=1).shape
        (2, 8, 32)
    """
    _require_variable("spectral_norm", weight)
    with building("spectral_norm", name) as layer:
        rows, whole = weight.shape[dim], math.prod(weight.shape)
        start = ParamAttr(initializer=Normal(0.0, 1.0), trainable=False)
        u, v = (layer.parameter(start, [n], weight.dtype) for n in (rows, whole // rows))
        out: Variable = over_largest(weight, u, v, dim, power_iters, eps)[0]
        return out


def bilinear_tensor_product(
    x: Variable,
    y: Variable,
    size: int,
    act: str | None = None,
    name: str | None = None,
    param_attr: Any = None,
    bias_attr: Any = None,
) -> Variable:
    """`x w_i y + b` for each of `size` matrices w_i, then an activation.

    Args:
        x: `[n, a]`. y: `[n, b]`. param_attr: the matrices `[size, a, b]`. bias_attr: `[1, size]`.

    Raises:
        InvalidArgument: sizes that are unknown or do not fit.

    Example:
        >>> wb.enable_static()
        >>> x, y = static.data("x", [None, 5]), static.data("y", [None, 4])
        >>> static.nn.bilinear_tensor_product(x, y, size=3).shape
        (-1, 3)
    """
    _require_variable("bilinear_tensor_product", x)
    _require_variable("bilinear_tensor_product", y)
    with building("bilinear_tensor_product", name) as layer:
        activate = layer.activation(act)
        attr = required_attr(param_attr, "param_attr", "bilinear_tensor_product")
        w = layer.parameter(attr, [size, x.shape[1], y.shape[1]], x.dtype)
        bias = to_attr(bias_attr, "bias_attr")
        b = None if bias is None else layer.parameter(bias, [1, size], x.dtype, is_bias=True)
        return activate(bilinear(x, y, w, b, layer.name))


def _require_variable(layer: str, x: Any) -> None:
    if not isinstance(x, Variable):
        raise not_a_variable(f"{layer} takes a Variable as input", x)


def _scale_and_shift(
    layer: LayerBuilder, x: Any, param_attr: Any, bias_attr: Any, data_layout: str
) -> tuple[Variable | None, Variable | None]:
    _require_variable(layer.type, x)
    shape = [x.shape[1 if data_layout.startswith("NC") else -1]]
    scale, shift = to_attr(param_attr, "param_attr"), to_attr(bias_attr, "bias_attr")
    return (
        None if scale is None else layer.parameter(scale, shape, x.dtype, default=Constant(1.0)),
        None if shift is None else layer.parameter(shift, shape, x.dtype, is_bias=True),
    )
