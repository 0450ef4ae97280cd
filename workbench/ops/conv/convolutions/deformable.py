"""Deformable convolution: windows whose every tap is moved by an offset of its own.

Sources: Dai et al., "Deformable Convolutional Networks", ICCV 2017 (without a mask); Zhu et al., "Deformable ConvNets
v2", CVPR 2019 (with one).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from workbench.errors import InvalidArgument, ShapeError
from workbench.framework.values.spec import same_dim, shape_text
from workbench.ops.arguments import one_int, pair
from workbench.ops.index.along_axis import take_along_axis
from workbench.ops.math.clip import clip
from workbench.ops.math.products.matmul import matmul
from workbench.ops.math.unary import FLOOR
from workbench.ops.tensor.assign import assign, detach
from workbench.ops.tensor.shape import reshape


def deform_conv2d(
    x: Any,
    offset: Any,
    weight: Any,
    bias: Any = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    deformable_groups: int = 1,
    groups: int = 1,
    mask: Any = None,
    name: str | None = None,
) -> Any:
    """2-D convolution that reads every tap beside its place, between pixels by the four around it, 0 outside.

    Args:
        x: `[n, c, h, w]`, all but n known, float32 or float64 as everything else.
        offset: `[n, 2 * deformable_groups * kh * kw, oh, ow]`, how far each tap is moved down and to the right.
        weight: `[filters, c / groups, kh, kw]`. bias: `[filters]` or None.
        stride, padding, dilation: an int or (height, width).
        deformable_groups: each so many channels are moved alike.
        groups: every group of channels has its own filters.
        mask: `[n, deformable_groups * kh * kw, oh, ow]`, what each tap is multiplied with.

    Returns:
        `[n, filters, oh, ow]`.

    Raises:
        InvalidArgument: sizes that are unknown or do not fit.
    """
    _require_known(x, weight)
    parts, moved = one_int("deform_conv2d's groups", groups), one_int("deformable_groups", deformable_groups)
    (_, channels, height, width), (filters, depth, *kernel) = x.shape, weight.shape
    if min(parts, moved) < 1 or channels % moved or channels != depth * parts or filters % parts:
        raise InvalidArgument(
            f"deform_conv2d: {channels} channels and filters {shape_text(weight.shape)} do not divide into "
            f"{groups} groups and {deformable_groups} deformable ones"
        )
    rows, columns, out = _places((height, width), kernel, stride, padding, dilation)
    taps = kernel[0] * kernel[1]
    _require_shape("offset", offset, (x.shape[0], 2 * moved * taps, *out))
    offset = reshape(offset, [-1, moved, taps, 2, out[0] * out[1]])
    down = offset[:, :, :, 0] + assign(rows).astype(x.dtype)
    right = offset[:, :, :, 1] + assign(columns).astype(x.dtype)
    factor = _inside(down, height) * _inside(right, width)
    if mask is not None:
        _require_shape("mask", mask, (x.shape[0], moved * taps, *out))
        factor = factor * reshape(mask, [-1, moved, taps, out[0] * out[1]])
    sampled = _between_pixels(reshape(x, [-1, moved, channels // moved, height * width]), down, right, factor, width)
    read = reshape(sampled, [-1, parts, depth * taps, out[0] * out[1]])
    product = matmul(reshape(weight, [parts, filters // parts, depth * taps]), read)
    result = reshape(product, [-1, filters, *out], name=None if bias is not None else name)
    return result if bias is None else result + reshape(bias, [-1, 1, 1])


def _require_known(x: Any, weight: Any) -> None:
    for what, tensor, known in (("x", x, x.shape[1:]), ("weight", weight, weight.shape)):
        if len(tensor.shape) != 4 or -1 in known:
            raise ShapeError(
                f"deform_conv2d's {what}", "four dimensions, all but that of samples known", shape_text(tensor.shape)
            )


def _require_shape(what: str, tensor: Any, expected: tuple[int, ...]) -> None:
    if len(tensor.shape) != 4 or not all(map(same_dim, tensor.shape, expected)):
        raise ShapeError(f"deform_conv2d's {what}", shape_text(expected), shape_text(tensor.shape))


def _places(
    image: tuple[int, int], kernel: list[int], stride: Any, padding: Any, dilation: Any
) -> tuple[np.ndarray, np.ndarray, tuple[int, int]]:
    """Row and column of every tap in every window, `[taps, windows]`, and how many windows there are each way."""
    places, counts = [], []
    steps, pads = pair("deform_conv2d's stride", stride), pair("deform_conv2d's padding", padding)
    for size, k, s, p, d in zip(image, kernel, steps, pads, pair("its dilation", dilation), strict=True):
        if s < 1 or d < 1 or p < 0:
            raise InvalidArgument(
                f"deform_conv2d takes strides and dilations >= 1 and paddings >= 0, got {stride}, {dilation}, {padding}"
            )
        count = (size + 2 * p - d * (k - 1) - 1) // s + 1
        if count < 1:
            raise ShapeError(
                "deform_conv2d: a window reaches beyond the image", f"at most {size + 2 * p}", d * (k - 1) + 1
            )
        places.append(np.arange(k)[:, None] * d + np.arange(count)[None, :] * s - p)
        counts.append(count)
    shape = (kernel[0], kernel[1], counts[0], counts[1])
    rows = np.broadcast_to(places[0][:, None, :, None], shape).reshape(kernel[0] * kernel[1], -1)
    columns = np.broadcast_to(places[1][None, :, None, :], shape).reshape(kernel[0] * kernel[1], -1)
    return rows, columns, (counts[0], counts[1])


def _inside(place: Any, size: int) -> Any:
    """1 where a place touches the image, else 0."""
    return ((place > -1.0).astype(place.dtype)) * ((place < float(size)).astype(place.dtype))


def _between_pixels(x: Any, down: Any, right: Any, factor: Any, width: int) -> Any:
    """Channels at places between pixels, times a factor: `[n, moved, channels, taps * windows]`.

    Args:
        x: `[n, moved, channels, pixels]`. down, right, factor: `[n, moved, taps, windows]`.
    """
    moved, taps, windows = down.shape[1:]
    height = x.shape[3] // width
    above, left = FLOOR(detach(down)), FLOOR(detach(right))
    total: Any = None
    for row, of_row in ((above, above - down + 1.0), (above + 1.0, down - above)):
        for column, of_column in ((left, left - right + 1.0), (left + 1.0, right - left)):
            there = clip(row, 0.0, height - 1.0), clip(column, 0.0, width - 1.0)
            is_pixel = (there[0] == row).astype(x.dtype) * (there[1] == column).astype(x.dtype)
            pixels = reshape((there[0] * float(width) + there[1]).astype("int64"), [-1, moved, 1, taps * windows])
            weights = reshape(of_row * of_column * is_pixel * factor, [-1, moved, 1, taps * windows])
            part = take_along_axis(x, pixels, 3) * weights
            total = part if total is None else total + part
    return total
