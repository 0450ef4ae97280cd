"""2-D convolution and its transpose.

Convolution is linear in the input and in the filter; with its two gradients it makes a closed set of three
ops, so that derivatives of every order are convolutions again:

    conv2d(Input, Filter)
    conv2d_backprop_input(Grad, Filter, Like)
    conv2d_backprop_filter(Input, Grad, Like)
"""

from __future__ import annotations

from typing import Any

from workbench.errors import ShapeError
from workbench.framework.op.declare import op
from workbench.framework.op.record import Cost, Op
from workbench.framework.values.spec import (
    Shape,
    Spec,
    require_float,
    require_same_dtype,
    same_dim,
    shape_text,
    size_of,
)
from workbench.ops.arguments import int_list, one_int, pair
from workbench.ops.conv.convolutions.convolve import Geometry, convolve_into, filter_gradient, input_gradient
from workbench.ops.conv.windows import (
    EXPLICIT,
    NCHW,
    SAME,
    as_nchw,
    both_pads,
    count_windows,
    dilations_beside,
    extent,
    from_nchw,
    in_layout,
    parse_padding,
    require_image,
    require_positive,
    require_result,
)
from workbench.ops.precision import rounded, wide
from workbench.ops.tensor.shape import RESHAPE

OFFERED = {"workbench.nn.functional": "conv2d conv2d_transpose"}

_ATTRS: dict[str, Any] = {
    "strides": [1, 1],
    "paddings": [0, 0, 0, 0],
    "padding_algorithm": EXPLICIT,
    "dilations": [1, 1],
    "groups": 1,
    "data_format": NCHW,
}
WINOGRAD = "winograd"
"""Of nodes only: kernels may compute them after Winograd (`graph.passes.winograd`); NumPy does not."""


def _geometry(image: Shape, filter: Shape, what: str = "conv2d", **attrs: Any) -> Geometry:
    """Sizes of a convolution of (n, c, h, w) with (kernels, c / groups, kh, kw); -1 where unknown."""
    strides, dilations, algorithm = attrs["strides"], attrs["dilations"], attrs["padding_algorithm"]
    spans = [extent(k, d) for k, d in zip(filter[2:], dilations, strict=True)]
    pads = both_pads(image[2:], spans, strides, attrs["paddings"], algorithm)
    out = [
        count_windows(what, d, span, stride, p, algorithm)
        for d, span, stride, p in zip(image[2:], spans, strides, pads, strict=True)
    ]
    sizes: Any = (
        *image,
        filter[0],
        filter[2:],
        tuple(strides),
        tuple(dilations),
        pads,
        attrs["groups"],
        tuple(out),
    )
    return Geometry(*sizes)


def _check(what: str, x: Spec, w: Spec, attrs: dict[str, Any]) -> Shape:
    """Check dtypes, ranks and sizes; the dims of the input as (n, c, h, w)."""
    require_float(what, x, w)
    require_same_dtype(what, x, w)
    require_positive(what, strides=attrs["strides"], dilations=attrs["dilations"])
    image = require_image(what, x, attrs["data_format"])
    if len(w.shape) != 4:
        raise ShapeError(f"{what} takes a filter of 4 dimensions", "[kernels, channels / groups, kh, kw]", w)
    if attrs["groups"] < 1:
        raise ShapeError(f"{what}: groups", "an int >= 1", attrs["groups"])
    return image


def _require_channels(what: str, channels: int, kernels: int, filter_channels: int, groups: int) -> None:
    if not same_dim(channels, filter_channels * groups if filter_channels >= 0 else -1):
        raise ShapeError(
            f"{what}: the channels of the input are those of the filter times groups",
            f"{filter_channels} * {groups} = {filter_channels * groups} channels",
            channels,
        )
    if kernels >= 0 and kernels % groups:
        raise ShapeError(f"{what}: every group has equally many kernels", f"a multiple of {groups}", kernels)


# conv2d


def _infer(x: Spec, w: Spec, **attrs: Any) -> Spec:
    image = _check("conv2d", x, w, attrs)
    _require_channels("conv2d", image[1], w.shape[0], w.shape[1], attrs["groups"])
    if min(w.shape[2:]) < 0:
        out: tuple[int, ...] = (-1, -1)
    else:
        out = _geometry(image, w.shape, **attrs).out
    return x.with_shape(in_layout((image[0], w.shape[0], *out), attrs["data_format"]))


def _cost(x: Spec, w: Spec, **attrs: Any) -> Cost:
    out = _infer(x, w, **attrs)
    moved = size_of(x.shape) + size_of(w.shape) + size_of(out.shape)
    return Cost(2 * size_of(out.shape) * size_of(w.shape[1:]), moved * x.dtype.itemsize)


def _conv(xp: Any, x: Any, w: Any, **attrs: Any) -> Any:
    layout = attrs["data_format"]
    image = as_nchw(wide(x), layout)
    geo = _geometry(image.shape, w.shape, **attrs)
    out = xp.empty((geo.samples, geo.kernels, *geo.out), image.dtype)
    convolve_into(xp, image, wide(w), geo, out)
    return rounded(from_nchw(xp, out, layout), x)


def _rule(g: Any, out: Any, x: Any, w: Any, **attrs: Any) -> Any:
    return lambda: BACKPROP_INPUT(g, w, x, **attrs), lambda: BACKPROP_FILTER(x, g, w, **attrs)


def _conv_grad(xp: Any, x: Any, w: Any, g: Any, wanted: Any, **attrs: Any) -> tuple[Any, Any]:
    return (
        BACKPROP_INPUT.forward(xp, g, w, x, **attrs) if wanted[0] else None,
        BACKPROP_FILTER.forward(xp, x, g, w, **attrs) if wanted[1] else None,
    )


def _declare(type: str) -> Op:
    declare = op(
        type,
        "Input, Filter -> Output",
        attrs=_ATTRS,
        same_rows="Output",
        traits="product",
        infer=_infer,
        grad=_rule,
        grad_forward=_conv_grad,
        cost=_cost,
        doc="Cross-correlation of images with a filter [kernels, channels / groups, kh, kw].",
    )
    return declare(_conv)


CONV2D = _declare("conv2d")
DEPTHWISE_CONV2D = _declare("depthwise_conv2d")  # one group per input channel; Paddle's own name for it


def _infer_input(grad: Spec, w: Spec, like: Spec, **attrs: Any) -> Spec:
    require_result("conv2d_backprop_input", grad, _infer(like, w, **attrs))
    return grad.with_shape(like.shape)


def _infer_filter(x: Spec, grad: Spec, like: Spec, **attrs: Any) -> Spec:
    require_result("conv2d_backprop_filter", grad, _infer(x, like, **attrs))
    return x.with_shape(like.shape)


def _input_rule(g: Any, out: Any, grad: Any, w: Any, like: Any, **attrs: Any) -> Any:
    return lambda: CONV2D(g, w, **attrs), lambda: BACKPROP_FILTER(g, grad, w, **attrs)


@op(
    "conv2d_backprop_input",
    "Grad, Filter, Like -> Out",
    attrs=_ATTRS,
    infer=_infer_input,
    grad=_input_rule,
    shape_only="Like",
    no_grad="Like",
)
def BACKPROP_INPUT(xp: Any, grad: Any, w: Any, like: Any, **attrs: Any) -> Any:
    """The gradient of conv2d's input, in the shape of Like."""
    layout = attrs["data_format"]
    geo = _geometry(as_nchw(like, layout).shape, w.shape, **attrs)
    image = input_gradient(xp, as_nchw(wide(grad), layout), wide(w), geo)
    return rounded(from_nchw(xp, image, layout), grad)


@op(
    "conv2d_backprop_filter",
    "Input, Grad, Like -> Out",
    attrs=_ATTRS,
    infer=_infer_filter,
    grad=lambda g, out, x, grad, like, **attrs: (
        lambda: BACKPROP_INPUT(grad, g, x, **attrs),
        lambda: CONV2D(x, g, **attrs),
    ),
    shape_only="Like",
    no_grad="Like",
)
def BACKPROP_FILTER(xp: Any, x: Any, grad: Any, like: Any, **attrs: Any) -> Any:
    """The gradient of conv2d's filter, in the shape of Like."""
    layout = attrs["data_format"]
    image = as_nchw(wide(x), layout)
    geo = _geometry(image.shape, like.shape, **attrs)
    return rounded(filter_gradient(xp, image, as_nchw(wide(grad), layout), geo), x)


def conv2d(
    x: Any,
    weight: Any,
    bias: Any = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
    data_format: str = "NCHW",
    name: str | None = None,
) -> Any:
    """2-D convolution (cross-correlation).

    Args:
        x: [n, c, h, w], or [n, h, w, c] with data_format "NHWC"; floating.
        weight: [kernels, c / groups, kh, kw] in either format.
        bias: [kernels], added to every pixel.
        stride, dilation: an int or (height, width).
        padding: an int, [h, w], [top, bottom, left, right], a pair per dimension, "VALID", or "SAME" (output
            size ceil(input / stride); the dilation is then 1, as in Paddle, and a notice says so).
        groups: every group of channels has its own kernels.

    Returns:
        [n, kernels, oh, ow], oh = (h + top + bottom - dilation (kh - 1) - 1) // stride + 1; or channels last.

    Raises:
        InvalidArgument: channels, groups or sizes that do not fit. InvalidType: other dtypes, or two.

    Example:
        >>> F.conv2d(wb.ones([1, 3, 8, 8]), wb.ones([4, 3, 3, 3]), padding=1).shape
        [1, 4, 8, 8]
    """
    paddings, algorithm = parse_padding("conv2d", padding, data_format)
    groups = one_int("conv2d's groups", groups)
    spread = dilations_beside("conv2d", pair("conv2d's dilation", dilation), algorithm)
    channels = x.shape[-1 if data_format == "NHWC" else 1] if len(x.shape) == 4 else -1
    depthwise = groups > 1 and channels == groups and weight.shape[0] % groups == 0
    out = (DEPTHWISE_CONV2D if depthwise else CONV2D)(
        x, weight, strides=pair("conv2d's stride", stride), paddings=paddings, padding_algorithm=algorithm,
        dilations=spread, groups=groups, data_format=data_format, name=name,
    )  # fmt: skip
    return out if bias is None else out + _channel_bias(bias, data_format)


def _channel_bias(bias: Any, data_format: str) -> Any:
    return RESHAPE(bias, shape=[1, -1, 1, 1] if data_format == NCHW else [1, 1, 1, -1])


# conv2d_transpose


def _transposed_pads(w: Shape, attrs: dict[str, Any]) -> list[int]:
    """Explicit paddings; SAME makes the output `stride` times the input."""
    spans = [extent(k, d) for k, d in zip(w[2:], attrs["dilations"], strict=True)]
    if attrs["padding_algorithm"] == SAME:
        totals = [max(span - s, 0) for span, s in zip(spans, attrs["strides"], strict=True)]
        return [half for t in totals for half in (t // 2, t - t // 2)]
    pads = both_pads((-1, -1), spans, attrs["strides"], attrs["paddings"], attrs["padding_algorithm"])
    return [p for both in pads for p in both]


def _forward_attrs(w: Shape, attrs: dict[str, Any]) -> dict[str, Any]:
    """Attributes of the convolution this one is the transpose of."""
    shared = {k: v for k, v in attrs.items() if k in _ATTRS}
    return {**shared, "paddings": _transposed_pads(w, attrs), "padding_algorithm": EXPLICIT}


def _transposed_dim(axis: int, dim: int, w: Shape, attrs: dict[str, Any]) -> int:
    asked = attrs["output_size"][axis] if attrs["output_size"] else -1
    if dim < 0 or w[2 + axis] < 0:
        return asked
    stride, pads = attrs["strides"][axis], _transposed_pads(w, attrs)[2 * axis : 2 * axis + 2]
    least = (dim - 1) * stride - sum(pads) + extent(w[2 + axis], attrs["dilations"][axis])
    dim_here = asked if asked >= 0 else least + attrs["output_padding"][axis]
    if not 0 < least <= dim_here < least + stride:
        raise ShapeError(
            f"conv2d_transpose: the output size along {'height' if axis == 0 else 'width'}",
            f"an int in [{max(least, 1)}, {least + stride})",
            dim_here,
        )
    return dim_here


def _transposed_image(image: Shape, w: Shape, attrs: dict[str, Any]) -> Shape:
    """(n, c, h, w) of the output."""
    kernels = w[1] * attrs["groups"] if w[1] >= 0 else -1
    return (image[0], kernels, *(_transposed_dim(i, image[2 + i], w, attrs) for i in (0, 1)))


def _infer_transpose(x: Spec, w: Spec, **attrs: Any) -> Spec:
    image = _check("conv2d_transpose", x, w, attrs)
    if not same_dim(image[1], w.shape[0]) or (image[1] >= 0 and image[1] % attrs["groups"]):
        raise ShapeError(
            "conv2d_transpose: the input has as many channels as the filter's first dimension, whole groups",
            f"{shape_text(w.shape)} with groups {attrs['groups']}",
            f"{image[1]} channels",
        )
    return x.with_shape(in_layout(_transposed_image(image, w.shape, attrs), attrs["data_format"]))


def _transpose_rule(g: Any, out: Any, x: Any, w: Any, **attrs: Any) -> Any:
    plain = _forward_attrs(w.shape, attrs)
    return lambda: CONV2D(g, w, **plain), lambda: BACKPROP_FILTER(g, x, w, **plain)


@op(
    "conv2d_transpose",
    "Input, Filter -> Output",
    attrs={**_ATTRS, "output_padding": [0, 0], "output_size": []},
    traits="product",
    infer=_infer_transpose,
    grad=_transpose_rule,
    cost=lambda x, w, **attrs: Cost(
        2 * size_of(x.shape) * size_of(w.shape[1:]), 2 * size_of(x.shape) * x.dtype.itemsize
    ),
)
def CONV2D_TRANSPOSE(xp: Any, x: Any, w: Any, **attrs: Any) -> Any:
    """What conv2d with the same filter does to its input's gradient."""
    layout = attrs["data_format"]
    image = as_nchw(wide(x), layout)
    geo = _geometry(
        _transposed_image(image.shape, w.shape, attrs),
        w.shape,
        "conv2d_transpose",
        **_forward_attrs(w.shape, attrs),
    )
    return rounded(from_nchw(xp, input_gradient(xp, image, wide(w), geo), layout), x)


def conv2d_transpose(
    x: Any,
    weight: Any,
    bias: Any = None,
    stride: Any = 1,
    padding: Any = 0,
    output_padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
    output_size: Any = None,
    data_format: str = "NCHW",
    name: str | None = None,
) -> Any:
    """2-D transposed convolution: the gradient of a convolution as a layer of its own.

    Args:
        x: [n, c, h, w], or [n, h, w, c] with data_format "NHWC"; floating.
        weight: [c, kernels / groups, kh, kw] in either format.
        bias, stride, padding, dilation, groups: as in `conv2d`; "SAME" gives `stride` times the input's size.
        output_padding: rows and columns added at the end, less than the stride.
        output_size: the height and width wanted, instead of `output_padding`.

    Returns:
        [n, kernels, oh, ow], oh = (h - 1) stride - top - bottom + dilation (kh - 1) + 1 + output_padding.

    Raises:
        InvalidArgument: channels, groups or sizes that do not fit. InvalidType: other dtypes, or two.

    Example:
        >>> F.conv2d_transpose(wb.ones([1, 3, 8, 8]), wb.ones([3, 4, 2, 2]), stride=2).shape
        [1, 4, 16, 16]
    """
    paddings, algorithm = parse_padding("conv2d_transpose", padding, data_format)
    out = CONV2D_TRANSPOSE(
        x, weight, strides=pair("stride", stride), paddings=paddings, padding_algorithm=algorithm,
        dilations=dilations_beside("conv2d_transpose", pair("dilation", dilation), algorithm),
        groups=one_int("groups", groups), data_format=data_format,
        output_padding=pair("output_padding", output_padding),
        output_size=[] if output_size is None else pair("output_size", int_list("output_size", output_size)),
        name=name,
    )  # fmt: skip
    return out if bias is None else out + _channel_bias(bias, data_format)
