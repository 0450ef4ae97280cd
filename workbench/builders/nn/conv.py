"""`static.nn.conv2d`, `static.nn.conv2d_transpose` and `static.nn.deform_conv2d`."""

from __future__ import annotations

from typing import Any

from workbench.builders.layer import LayerBuilder, building
from workbench.builders.nn.filters import Channels, require_input
from workbench.builders.param_attr import required_attr
from workbench.errors import InvalidArgument
from workbench.framework.notice import tell_without_effect
from workbench.framework.op.infix import not_a_variable
from workbench.framework.program.variable import Variable
from workbench.ops.arguments import one_int, pair
from workbench.ops.conv.convolutions import conv as ops
from workbench.ops.conv.convolutions.deformable import deform_conv2d as deformed
from workbench.ops.math.arithmetic import ADD
from workbench.ops.tensor.shape import reshape


def conv2d(
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
    data_format: str = "NCHW",
) -> Variable:
    """2-D convolution, plus a bias per filter, then an activation.

    Args:
        input: `[n, c, h, w]`, or `[n, h, w, c]` for `data_format="NHWC"`; c known.
        filter_size, stride, dilation: an int or (height, width).
        padding: an int, `[h, w]`, `[top, bottom, left, right]`, a pair per dimension, "SAME" or "VALID".
        groups: every group of channels has its own filters; 1 if None.
        param_attr: the filter `[num_filters, c / groups, kh, kw]`, normal with standard deviation
            sqrt(2 / (kh * kw * c)) unless an initializer is given.
        bias_attr: the bias `[num_filters]`; False leaves it out.
        use_cudnn: accepted for Paddle's sake; on a CPU there is no such choice there either.

    Returns:
        `[n, num_filters, oh, ow]`, or channels last.

    Raises:
        InvalidArgument: channels that are unknown or do not divide by the groups, sizes that do not fit.

    Example:
        >>> wb.enable_static()
        >>> static.nn.conv2d(static.data("image", [None, 3, 8, 8]), num_filters=4, filter_size=3, padding=1).shape
        (-1, 4, 8, 8)
    """
    with building("conv2d", name) as layer:
        activate = layer.activation(act)
        channels = _whole_groups("conv2d", input, num_filters, groups, data_format)
        window = _window("conv2d", filter_size)
        w = channels.filter(layer, required_attr(param_attr, "param_attr", "conv2d"), window, input.dtype)
        parts = channels.groups
        out = ops.conv2d(input, w, None, stride, padding, dilation, parts, data_format=data_format, name=layer.name)
        return activate(_add_bias(layer, out, channels, bias_attr, data_format))


def conv2d_transpose(
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
    data_format: str = "NCHW",
) -> Variable:
    """Transposed 2-D convolution, plus a bias per filter, then an activation.

    Args:
        output_size: height and width wanted; chosen among the sizes that stride and filter allow. One of
            `output_size` and `filter_size` is needed.
        filter_size: an int or (height, width); if None, what gives `output_size`.
        param_attr: the filter `[c, num_filters / groups, kh, kw]`, Xavier uniform by default.
        Others: see `conv2d`.

    Returns:
        `[n, num_filters, oh, ow]`, or channels last.

    Raises:
        InvalidArgument: neither size is given, or channels, groups or sizes that do not fit.

    Example:
        >>> wb.enable_static()
        >>> image = static.data("image", [None, 3, 8, 8])
        >>> static.nn.conv2d_transpose(image, num_filters=4, filter_size=2, stride=2).shape
        (-1, 4, 16, 16)
    """
    with building("conv2d_transpose", name) as layer:
        activate = layer.activation(act)
        channels = _whole_groups("conv2d_transpose", input, num_filters, groups, data_format)
        if filter_size is None:
            filter_size = _filter_for(input, output_size, padding, stride, dilation, data_format)
        attr, window = (
            required_attr(param_attr, "param_attr", "conv2d_transpose"),
            _window("conv2d_transpose", filter_size),
        )
        w = channels.transposed_filter(layer, attr, window, input.dtype)
        parts = channels.groups
        out = ops.conv2d_transpose(
            input, w, None, stride, padding, 0, dilation, parts, output_size, data_format, layer.name
        )
        return activate(_add_bias(layer, out, channels, bias_attr, data_format))


def deform_conv2d(
    x: Variable,
    offset: Variable,
    mask: Variable | None,
    num_filters: int,
    filter_size: Any,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
    deformable_groups: int = 1,
    im2col_step: int = 1,
    weight_attr: Any = None,
    bias_attr: Any = None,
    name: str | None = None,
) -> Variable:
    """2-D convolution that reads every tap of a window beside its place, plus a bias per filter.

    Args:
        x: `[n, c, h, w]`, all but n known.
        offset: `[n, 2 * deformable_groups * kh * kw, oh, ow]`, how far each tap is moved down and to the right, in
            pixels; between pixels the four around count, outside there is 0.
        mask: `[n, deformable_groups * kh * kw, oh, ow]`, what each tap is multiplied with, or None.
        filter_size, stride, padding, dilation: an int or (height, width).
        groups: every group of channels has its own filters. deformable_groups: each has its own offsets.
        im2col_step: has no effect, which is told: all of a batch is computed at once.
        weight_attr: the filter `[num_filters, c / groups, kh, kw]`, normal with standard deviation
            sqrt(2 / (kh * kw * c)) unless an initializer is given.
        bias_attr: the bias `[num_filters]`; False leaves it out.

    Returns:
        `[n, num_filters, oh, ow]`.

    Raises:
        InvalidArgument: sizes that are unknown or do not fit.

    Example:
        >>> wb.enable_static()
        >>> image, offset = static.data("image", [None, 3, 8, 8]), static.data("offset", [None, 18, 8, 8])
        >>> static.nn.deform_conv2d(image, offset, None, num_filters=4, filter_size=3, padding=1).shape
        (-1, 4, 8, 8)
    """
    tell_without_effect("deform_conv2d", {"im2col_step": im2col_step != 1})
    with building("deformable_conv", name) as layer:
        channels = _channels("deform_conv2d", x, num_filters, groups, "NCHW")
        for what, given in (("offset", offset), ("mask", mask)):
            if not isinstance(given, Variable) and not (what == "mask" and given is None):
                raise not_a_variable(f"deform_conv2d takes a Variable as {what}", given)
        window = _window("deform_conv2d", filter_size)
        w = channels.filter(layer, required_attr(weight_attr, "weight_attr", "deform_conv2d"), window, x.dtype)
        parts = channels.groups
        out = deformed(x, offset, w, None, stride, padding, dilation, deformable_groups, parts, mask, layer.name)
        return _add_bias(layer, out, channels, bias_attr, "NCHW")


def _whole_groups(layer: str, x: Any, filters: Any, groups: Any, data_format: str) -> Channels:
    """The channels of a layer every group of which makes as many."""
    channels = _channels(layer, x, filters, groups, data_format)
    if channels.filters % channels.groups:
        raise InvalidArgument(f"{layer}: {channels.filters} filters cannot be divided into {channels.groups} groups")
    return channels


def _channels(layer: str, x: Any, filters: Any, groups: Any, data_format: str) -> Channels:
    require_input(layer, x)
    if data_format not in ("NCHW", "NHWC"):
        raise InvalidArgument(f"{layer} takes 'NCHW' or 'NHWC' as data_format, got {data_format!r}")
    if x.ndim != 4:
        raise InvalidArgument(f"{layer} takes an input of four dimensions ({data_format}), got {x!r}")
    count = one_int(f"num_filters of {layer}", filters)
    parts = 1 if groups is None else one_int(f"groups of {layer}", groups)
    channels = x.shape[data_format.index("C")]
    if count < 1 or parts < 1:
        raise InvalidArgument(f"{layer} takes at least one filter and one group, got {count} and {parts}")
    if channels < 0 or channels % parts:
        raise InvalidArgument(f"{layer}: the number of channels is known and a multiple of groups={parts}, got {x!r}")
    return Channels(count, parts, channels)


def _window(layer: str, filter_size: Any) -> list[int]:
    size = pair(f"filter_size of {layer}", filter_size)
    if min(size) < 1:
        raise InvalidArgument(f"{layer} takes a filter_size of at least 1, got {filter_size!r}")
    return size


def _filter_for(x: Variable, wanted: Any, padding: Any, stride: Any, dilation: Any, data_format: str) -> Any:
    """The smallest filter that gives an output of the wanted size."""
    if wanted is None:
        raise InvalidArgument("conv2d_transpose takes a filter_size or an output_size, got neither")
    if isinstance(padding, str):
        raise InvalidArgument(f"conv2d_transpose takes a filter_size with padding={padding!r}")
    pads = ops.parse_padding("conv2d_transpose", padding, data_format)[0]
    first = data_format.index("H")
    sizes = []
    for i, (out, step, spread) in enumerate(
        zip(pair("output_size", wanted), pair("stride", stride), pair("dilation", dilation), strict=True)
    ):
        if x.shape[first + i] < 0:
            raise InvalidArgument(f"conv2d_transpose takes a filter_size where the input's size is unknown: {x!r}")
        reach = out - (x.shape[first + i] - 1) * step + pads[2 * i] + pads[2 * i + 1] - 1
        sizes.append(reach // spread + 1)
    return sizes


def _add_bias(layer: LayerBuilder, x: Variable, channels: Channels, bias_attr: Any, data_format: str) -> Variable:
    b = channels.bias(layer, bias_attr, x.dtype)
    if b is None:
        return x
    column = reshape(b, [1, -1, 1, 1] if data_format == "NCHW" else [1, 1, 1, -1])
    return ADD(x, column, name=layer.name)
