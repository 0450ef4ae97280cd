"""3-D convolutions, taken apart: what a window sees along the depth becomes channels of an image.

A filter `[kernels, channels, kd, kh, kw]` on a volume is a filter `[kernels, channels kd, kh, kw]` on an image per
output depth, whose channels are the planes that the window reaches.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from workbench.errors import InvalidArgument, ShapeError
from workbench.ops.arguments import one_int
from workbench.ops.conv.convolutions.conv import conv2d, conv2d_transpose
from workbench.ops.conv.volumes import channels_first, depth_and_plane, from_channels_first, triple
from workbench.ops.conv.windows import EXPLICIT, SAME, VALID, dilations_beside, extent
from workbench.ops.index.gather import index_add, index_select
from workbench.ops.tensor.assign import assign
from workbench.ops.tensor.creation import full_like
from workbench.ops.tensor.pad import PAD
from workbench.ops.tensor.shape import reshape
from workbench.ops.tensor.tile import expand
from workbench.ops.tensor.transpose import transpose

OFFERED = {"workbench.nn.functional": "conv3d conv3d_transpose"}


def _depth_pads(padding: Any, size: int, kernel: int, stride: int, dilation: int) -> tuple[int, int]:
    if isinstance(padding, tuple):
        return padding
    if padding.upper() == VALID:
        return 0, 0
    if padding.upper() != SAME:
        raise InvalidArgument(f"padding in words is 'SAME' or 'VALID', got {padding!r}")
    missing = max((-(-size // stride) - 1) * stride + extent(kernel, dilation) - size, 0)
    return missing // 2, missing - missing // 2


def _planes_of(count: int, kernel: int, stride: int, dilation: int) -> np.ndarray:
    """Which planes a window reaches, `[windows, kernel]`."""
    starts = np.arange(0, count - extent(kernel, dilation) + 1, stride)
    if not starts.size:
        raise ShapeError("a window is not deeper than the padded volume", f"at most {count}", extent(kernel, dilation))
    return starts[:, None] + np.arange(kernel) * dilation


def conv3d(
    x: Any,
    weight: Any,
    bias: Any = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
    data_format: str = "NCDHW",
    name: str | None = None,
) -> Any:
    """3-D convolution (cross-correlation).

    Args:
        x: [n, c, d, h, w], or [n, d, h, w, c] with data_format "NDHWC"; all but n known, floating.
        weight: [kernels, c / groups, kd, kh, kw] in either format.
        bias: [kernels], added to every entry.
        stride, dilation: an int or (depth, height, width).
        padding: an int, three sizes, two for each of them, a pair per dimension, "SAME" or "VALID".
        groups: every group of channels has its own kernels.

    Returns:
        [n, kernels, od, oh, ow], or channels last.

    Raises:
        InvalidArgument: channels, groups or sizes that do not fit. InvalidType: other dtypes, or two.

    Example:
        >>> list(F.conv3d(wb.ones([1, 2, 4, 4, 4]), wb.ones([3, 2, 3, 3, 3]), padding=1).shape)
        [1, 3, 4, 4, 4]
    """
    x = channels_first("conv3d", x, data_format)
    algorithm = padding.upper() if isinstance(padding, str) else EXPLICIT
    steps = triple("conv3d's stride", stride)
    spread = dilations_beside("conv3d", triple("conv3d's dilation", dilation), algorithm)
    along, around = depth_and_plane(padding)
    kernels, each, deep, height, width = weight.shape
    pads = _depth_pads(along, x.shape[2], deep, steps[0], spread[0])
    padded = PAD(x, paddings=[0, 0, 0, 0, *pads, 0, 0, 0, 0]) if any(pads) else x
    reached = _planes_of(padded.shape[2], deep, steps[0], spread[0])
    count, channels = len(reached), x.shape[1]
    planes = reshape(
        index_select(padded, assign(reached.ravel()), 2), [-1, channels, count, deep, x.shape[3], x.shape[4]]
    )
    images = reshape(transpose(planes, [0, 2, 1, 3, 4, 5]), [-1, channels * deep, x.shape[3], x.shape[4]])
    flat = conv2d(
        images, reshape(weight, [kernels, each * deep, height, width]), bias, steps[1:], around, spread[1:],
        one_int("conv3d's groups", groups),
    )  # fmt: skip
    rows, columns = flat.shape[2:]
    out = transpose(reshape(flat, [-1, count, kernels, rows, columns]), [0, 2, 1, 3, 4])
    return from_channels_first(out, data_format, name)


def conv3d_transpose(
    x: Any,
    weight: Any,
    bias: Any = None,
    stride: Any = 1,
    padding: Any = 0,
    output_padding: Any = 0,
    groups: int = 1,
    dilation: Any = 1,
    output_size: Any = None,
    data_format: str = "NCDHW",
    name: str | None = None,
) -> Any:
    """3-D transposed convolution: the gradient of a convolution as a layer of its own.

    Args:
        x: [n, c, d, h, w], or channels last; all but n known, floating.
        weight: [c, kernels / groups, kd, kh, kw] in either format.
        output_padding: planes, rows and columns added at the end, less than the stride.
        output_size: depth, height and width wanted, instead of `output_padding`.
        Others: as in `conv3d`; padding is given in numbers.

    Returns:
        [n, kernels, od, oh, ow], od = (d - 1) stride - before - behind + dilation (kd - 1) + 1 + output_padding.

    Raises:
        InvalidArgument: channels, groups or sizes that do not fit. InvalidType: other dtypes, or two.

    Example:
        >>> list(F.conv3d_transpose(wb.ones([1, 2, 3, 3, 3]), wb.ones([2, 4, 2, 2, 2]), stride=2).shape)
        [1, 4, 6, 6, 6]
    """
    x = channels_first("conv3d_transpose", x, data_format)
    steps, spread = triple("stride", stride), triple("dilation", dilation)
    extra = triple("output_padding", output_padding)
    along, around = depth_and_plane(padding)
    if isinstance(along, str):
        raise InvalidArgument(f"conv3d_transpose takes padding in numbers, got {padding!r}")
    sizes = [None] * 3 if output_size is None else triple("output_size", output_size)
    reach = _Reach(x.shape[2], weight.shape[2], steps[0], spread[0])
    depth = _output_depth(reach.planes, along, steps[0], extra[0], sizes[0])
    each = _each_plane(x, weight, steps[1:], around, extra[1:], spread[1:], one_int("groups", groups), sizes[1:])
    out = _added_up(each, reach, max(reach.planes, depth + along[0]))[:, :, along[0] : along[0] + depth]
    out = out if bias is None else out + reshape(bias, [1, -1, 1, 1, 1])
    return from_channels_first(out, data_format, name)


class _Reach(NamedTuple):
    """Along the depth: plane t of the input adds entry k of the filter to plane t stride + k dilation of the output."""

    inputs: int
    deep: int
    stride: int
    dilation: int

    @property
    def planes(self) -> int:
        """How many planes of the output something is added to."""
        return (self.inputs - 1) * self.stride + extent(self.deep, self.dilation)

    def places(self) -> np.ndarray:
        """The planes reached, `[count deep]`."""
        return (np.arange(self.inputs)[:, None] * self.stride + np.arange(self.deep) * self.dilation).ravel()


def _output_depth(planes: int, along: tuple[int, int], stride: int, extra: int, asked: int | None) -> int:
    least = planes - sum(along)
    depth = least + extra if asked is None else asked
    if not 0 < least <= depth < least + stride:
        raise ShapeError("conv3d_transpose: the output's depth", f"an int from {least} on", depth)
    return depth


def _each_plane(
    x: Any, weight: Any, stride: list[int], padding: Any, extra: list[int], dilation: list[int], groups: int, size: Any
) -> Any:
    """What each plane of the input gives for each entry of the filter's depth, `[n, kernels, d, kd, rows, columns]`."""
    _, channels, count, height, width = x.shape
    each, deep = weight.shape[1:3]
    images = reshape(transpose(x, [0, 2, 1, 3, 4]), [-1, channels, height, width])
    filters = reshape(weight, [channels, each * deep, *weight.shape[3:]])
    asked = None if None in size else size
    flat = conv2d_transpose(images, filters, None, stride, padding, extra, dilation, groups, asked)
    return transpose(reshape(flat, [-1, count, each * groups, deep, *flat.shape[2:]]), [0, 2, 1, 3, 4, 5])


def _added_up(each: Any, reach: _Reach, room: int) -> Any:
    """The planes of the output, `[n, kernels, room, rows, columns]`."""
    kernels, (rows, columns) = each.shape[1], each.shape[4:]
    planes = reshape(each, [-1, kernels, reach.inputs * reach.deep, rows * columns])
    empty = expand(full_like(planes[:, :, :1, :], 0.0), [-1, -1, room, -1])
    return reshape(index_add(empty, assign(reach.places()), 2, planes), [-1, kernels, room, rows, columns])
