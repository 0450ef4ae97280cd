"""Moving entries between channels and pixels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from workbench.errors import InvalidArgument, ShapeError
from workbench.framework.values.spec import Spec, normalize_axis, shape_text
from workbench.ops.arguments import int_list, one_int
from workbench.ops.conv.windows import require_image
from workbench.ops.tensor.shape import RESHAPE, reshape
from workbench.ops.tensor.transpose import transpose

OFFERED = {"workbench": "unflatten", "workbench.nn.functional": "channel_shuffle pixel_shuffle pixel_unshuffle"}


def _image(what: str, x: Any, data_format: str) -> tuple[int, int, int]:
    """(channels, height, width)."""
    _, channels, height, width = require_image(what, Spec(tuple(x.shape), x.dtype), data_format)
    return channels, height, width


def _whole(what: str, size: int, factor: int) -> int:
    if size >= 0 and size % factor:
        raise ShapeError(what, f"a multiple of {factor}", size)
    return size // factor if size >= 0 else -1


def _positive(what: str, value: Any) -> int:
    number = one_int(what, value)
    if number < 1:
        raise InvalidArgument(f"{what} is at least 1, got {number}")
    return number


def pixel_shuffle(x: Any, upscale_factor: int, data_format: str = "NCHW", name: str | None = None) -> Any:
    """Every r * r channels made r rows and r columns of pixels, r being `upscale_factor`.

    Args:
        x: `[n, c r r, h, w]`, or channels last with data_format "NHWC".

    Returns:
        `[n, c, h r, w r]`, or channels last.

    Raises:
        InvalidArgument: channels that are no multiple of r * r.

    Source: Shi et al., "Real-Time Single Image and Video Super-Resolution …", CVPR 2016.

    Example:
        >>> list(F.pixel_shuffle(wb.ones([1, 8, 2, 3]), 2).shape)
        [1, 2, 4, 6]
    """
    r = _positive("upscale_factor of pixel_shuffle", upscale_factor)
    channels, height, width = _image("pixel_shuffle", x, data_format)
    count = _whole("channels of pixel_shuffle", channels, r * r)
    if data_format == "NCHW":
        apart = transpose(reshape(x, [-1, count, r, r, height, width]), [0, 1, 4, 2, 5, 3])
        return reshape(apart, [-1, count, height * r, width * r], name=name)
    apart = transpose(reshape(x, [-1, height, width, count, r, r]), [0, 1, 4, 2, 5, 3])
    return reshape(apart, [-1, height * r, width * r, count], name=name)


def pixel_unshuffle(x: Any, downscale_factor: int, data_format: str = "NCHW", name: str | None = None) -> Any:
    """The inverse of `pixel_shuffle`: every square of r * r pixels made r * r channels.

    Raises:
        InvalidArgument: height or width are no multiples of r.

    Example:
        >>> list(F.pixel_unshuffle(wb.ones([1, 2, 4, 6]), 2).shape)
        [1, 8, 2, 3]
    """
    r = _positive("downscale_factor of pixel_unshuffle", downscale_factor)
    channels, height, width = _image("pixel_unshuffle", x, data_format)
    rows = _whole("height of pixel_unshuffle", height, r)
    columns = _whole("width of pixel_unshuffle", width, r)
    if data_format == "NCHW":
        apart = transpose(reshape(x, [-1, channels, rows, r, columns, r]), [0, 1, 3, 5, 2, 4])
        return reshape(apart, [-1, channels * r * r, rows, columns], name=name)
    apart = transpose(reshape(x, [-1, rows, r, columns, r, channels]), [0, 1, 3, 5, 2, 4])
    return reshape(apart, [-1, rows, columns, channels * r * r], name=name)


def channel_shuffle(x: Any, groups: int, data_format: str = "NCHW", name: str | None = None) -> Any:
    """Channels dealt out: the first of every group, then the second of every group, …

    Raises:
        InvalidArgument: channels that are no multiple of `groups`.

    Source: Zhang et al., "ShuffleNet", CVPR 2018.

    Example:
        >>> print(F.channel_shuffle(wb.reshape(wb.arange(4.0), [1, 4, 1, 1]), 2).numpy().ravel())
        [0. 2. 1. 3.]
    """
    groups = _positive("groups of channel_shuffle", groups)
    channels, height, width = _image("channel_shuffle", x, data_format)
    each = _whole("channels of channel_shuffle", channels, groups)
    if data_format == "NCHW":
        dealt = transpose(reshape(x, [-1, groups, each, height, width]), [0, 2, 1, 3, 4])
        return reshape(dealt, [-1, channels, height, width], name=name)
    dealt = transpose(reshape(x, [-1, height, width, groups, each]), [0, 1, 2, 4, 3])
    return reshape(dealt, [-1, height, width, channels], name=name)


def unflatten(x: Any, axis: int, shape: Sequence[int], name: str | None = None) -> Any:
    """Dimension `axis` of `x` made several, of the sizes `shape`; one of them may be -1: the rest.

    Raises:
        InvalidArgument: sizes that do not multiply to the dimension.

    Example:
        >>> list(wb.unflatten(wb.zeros([4, 6]), 1, [2, -1]).shape)
        [4, 2, 3]
    """
    axis = normalize_axis(axis, len(x.shape))
    sizes = int_list("unflatten's shape", shape)
    dim, known = x.shape[axis], 1
    for size in sizes:
        known *= size if size > 0 else 1
    if dim >= 0:
        sizes = [dim // known if size == -1 else size for size in sizes]
    whole = 1
    for size in sizes:
        whole *= size
    if dim >= 0 and whole != dim:
        raise ShapeError(f"unflatten splits dimension {axis} of {shape_text(x.shape)}", dim, list(shape))
    after = list(x.shape[axis + 1 :])
    return RESHAPE(x, shape=[0] * axis + sizes + after, name=name)
