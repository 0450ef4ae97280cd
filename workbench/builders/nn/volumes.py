"""`static.nn.conv3d` and `static.nn.conv3d_transpose`."""

from __future__ import annotations

from typing import Any

from workbench.builders.layer import building
from workbench.builders.nn.filters import Channels, require_input
from workbench.builders.param_attr import required_attr
from workbench.errors import InvalidArgument
from workbench.framework.program.variable import Variable
from workbench.ops.arguments import one_int
from workbench.ops.conv.convolutions import conv3d as ops
from workbench.ops.conv.volumes import triple


def conv3d(
    input: Variable,
    num_filters: int,
    filter_size: Any,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int | None = None,
    param_attr: Any = None,
    bias_attr: Any = None,
    use_cudnn: bool = True,
    act: str | None = None,
    name: str | None = None,
    data_format: str = "NCDHW",
) -> Variable:
    """3-D convolution, plus a bias per filter, then an activation.

    Args:
        input: `[n, c, d, h, w]`, or channels last for "NDHWC"; all but n known.
        filter_size, stride, dilation: an int or (depth, height, width).
        param_attr: the filter `[num_filters, c / groups, kd, kh, kw]`, normal with standard deviation
            sqrt(2 / (kd kh kw c)) unless an initializer is given.
        Others: see `conv2d`.

    Returns:
        `[n, num_filters, od, oh, ow]`, or channels last.

    Raises:
        InvalidArgument: channels, groups or sizes that do not fit.

    Example:
        >>> wb.enable_static()
        >>> static.nn.conv3d(static.data("volume", [None, 2, 4, 4, 4]), num_filters=3, filter_size=3, padding=1).shape
        (-1, 3, 4, 4, 4)
    """
    with building("conv3d", name) as layer:
        activate = layer.activation(act)
        channels = _channels("conv3d", input, num_filters, groups, data_format)
        window = triple("conv3d's filter_size", filter_size)
        w = channels.filter(layer, required_attr(param_attr, "param_attr", "conv3d"), window, input.dtype)
        b = channels.bias(layer, bias_attr, input.dtype)
        return activate(ops.conv3d(input, w, b, stride, padding, dilation, channels.groups, data_format, layer.name))


def conv3d_transpose(
    input: Variable,
    num_filters: int,
    output_size: Any = None,
    filter_size: Any = None,
    padding: Any = 0,
    stride: Any = 1,
    dilation: Any = 1,
    groups: int | None = None,
    param_attr: Any = None,
    bias_attr: Any = None,
    use_cudnn: bool = True,
    act: str | None = None,
    name: str | None = None,
    data_format: str = "NCDHW",
) -> Variable:
    """Transposed 3-D convolution, plus a bias per filter, then an activation.

    Args:
        output_size: depth, height and width wanted, among the sizes that stride and filter allow.
        filter_size: an int or (depth, height, width); it is needed.
        param_attr: the filter `[c, num_filters / groups, kd, kh, kw]`, Xavier uniform by default.
        Others: see `conv3d`.

    Returns:
        `[n, num_filters, od, oh, ow]`, or channels last.

    Raises:
        InvalidArgument: no filter_size; channels, groups or sizes that do not fit.

    Example:
        >>> wb.enable_static()
        >>> volume = static.data("volume", [None, 2, 3, 3, 3])
        >>> static.nn.conv3d_transpose(volume, num_filters=4, filter_size=2, stride=2).shape
        (-1, 4, 6, 6, 6)
    """
    with building("conv3d_transpose", name) as layer:
        activate = layer.activation(act)
        channels = _channels("conv3d_transpose", input, num_filters, groups, data_format)
        if filter_size is None:
            raise InvalidArgument("conv3d_transpose takes a filter_size")
        window = triple("conv3d_transpose's filter_size", filter_size)
        attr = required_attr(param_attr, "param_attr", "conv3d_transpose")
        w = channels.transposed_filter(layer, attr, window, input.dtype)
        b = channels.bias(layer, bias_attr, input.dtype)
        out = ops.conv3d_transpose(
            input, w, b, stride, padding, 0, channels.groups, dilation, output_size, data_format, layer.name
        )
        return activate(out)


def _channels(layer: str, x: Any, filters: Any, groups: Any, data_format: str) -> Channels:
    require_input(layer, x)
    count, parts = one_int(f"{layer}'s num_filters", filters), one_int(f"{layer}'s groups", groups or 1)
    channels = x.shape[-1 if data_format == "NDHWC" else 1] if x.ndim == 5 else -1
    if channels < 1 or channels % parts or count % parts or count < 1:
        raise InvalidArgument(
            f"{layer}: {channels} channels and {count} filters are divided into {parts} groups; input: {x!r}"
        )
    return Channels(count, parts, channels)
