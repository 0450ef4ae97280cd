"""Pooling of volumes, taken apart: planes first, then what is left along the depth.

Maxima of maxima are maxima. Averages of averages are averages, since how many entries of a plane a window holds does
not depend on the depth.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from workbench.errors import ShapeError
from workbench.ops.arguments import int_list
from workbench.ops.conv.pools import pool
from workbench.ops.conv.volumes import channels_first, depth_and_plane, from_channels_first, triple
from workbench.ops.index.along_axis import take_along_axis
from workbench.ops.tensor.shape import reshape

OFFERED = {"workbench.nn.functional": "adaptive_avg_pool3d adaptive_max_pool3d avg_pool3d max_pool3d"}

Function = Callable[..., Any]


def _parts(x: Any) -> tuple[int, int, int, int]:
    """(channels, depth, height, width)."""
    _, channels, count, height, width = x.shape
    return channels, count, height, width


def _planes_then_depth(x: Any, planes: Function, depth: Function) -> Any:
    """`planes` on `[n, c d, h, w]`, then `depth` on `[n, c, d, oh ow]`."""
    channels, count, height, width = _parts(x)
    flat = planes(reshape(x, [-1, channels * count, height, width]))
    rows, columns = flat.shape[2:]
    deep = depth(reshape(flat, [-1, channels, count, rows * columns]))
    return reshape(deep, [-1, channels, deep.shape[2], rows, columns])


def _maxima_and_places(x: Any, planes: Function, depth: Function) -> tuple[Any, Any]:
    """The same for functions that also tell where each maximum was; places count `(d * height + h) * width + w`."""
    channels, count, height, width = _parts(x)
    flat, in_plane = planes(reshape(x, [-1, channels * count, height, width]), return_mask=True)
    rows, columns = flat.shape[2:]
    deep, chosen = depth(reshape(flat, [-1, channels, count, rows * columns]), return_mask=True)
    shape = [-1, channels, deep.shape[2], rows, columns]
    chosen = reshape(chosen, [-1, channels, deep.shape[2] * rows * columns])
    below = take_along_axis(reshape(in_plane, [-1, channels, count * rows * columns]), chosen, 2)
    places = (chosen // (rows * columns)) * (height * width) + below
    return reshape(deep, shape), reshape(places, shape)


def _sliding(
    function: Function, kernel_size: Any, stride: Any, padding: Any, **options: Any
) -> tuple[Function, Function]:
    """Pooling of planes, and along the depth."""
    kernel = triple("kernel_size", kernel_size)
    step = kernel if stride is None else triple("stride", stride)
    along, around = depth_and_plane(padding)
    deep = along if isinstance(along, str) else [*along, 0, 0]
    return (
        lambda x, **more: function(x, kernel[1:], step[1:], around, **options, **more),
        lambda x, **more: function(x, [kernel[0], 1], [step[0], 1], deep, **options, **more),
    )


def max_pool3d(
    x: Any,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    return_mask: bool = False,
    ceil_mode: bool = False,
    data_format: str = "NCDHW",
    name: str | None = None,
) -> Any:
    """The maximum of every window of a volume.

    Args:
        x: [n, c, d, h, w], or channels last with data_format "NDHWC"; all but n known.
        kernel_size, stride: an int or (depth, height, width).
        padding: an int, three sizes, two for each of them, "SAME" or "VALID".
        return_mask: also return where each maximum was, int32 `(d * height + h) * width + w` (NCDHW only).
        ceil_mode: keep a last window that hangs over the edge.

    Raises:
        InvalidArgument: sizes that do not fit.

    Example:
        >>> list(F.max_pool3d(wb.ones([1, 2, 4, 4, 4]), 2).shape)
        [1, 2, 2, 2, 2]
    """
    volume = channels_first("max_pool3d", x, data_format)
    functions = _sliding(pool.max_pool2d, kernel_size, stride, padding, ceil_mode=ceil_mode)
    if not return_mask:
        return from_channels_first(_planes_then_depth(volume, *functions), data_format, name)
    if data_format != "NCDHW":
        raise ShapeError("return_mask needs channels in front of depth, height and width", "NCDHW", data_format)
    return _maxima_and_places(volume, *functions)


def avg_pool3d(
    x: Any,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    ceil_mode: bool = False,
    exclusive: bool = True,
    divisor_override: float | None = None,
    data_format: str = "NCDHW",
    name: str | None = None,
) -> Any:
    """The average of every window of a volume.

    Args:
        exclusive: leave padding out of the average, instead of counting it as zeros.
        divisor_override: divide sums by this number instead.
        Others: as in `max_pool3d`; `x` is floating.

    Raises:
        InvalidArgument: sizes that do not fit. InvalidType: not floating.

    Example:
        >>> list(F.avg_pool3d(wb.ones([1, 2, 4, 4, 4]), 2).shape)
        [1, 2, 2, 2, 2]
    """
    volume = channels_first("avg_pool3d", x, data_format)
    if divisor_override is not None:
        sums = _sliding(pool.avg_pool2d, kernel_size, stride, padding, ceil_mode=ceil_mode, divisor_override=1)
        return from_channels_first(_planes_then_depth(volume, *sums) * (1.0 / divisor_override), data_format, name)
    functions = _sliding(pool.avg_pool2d, kernel_size, stride, padding, ceil_mode=ceil_mode, exclusive=exclusive)
    return from_channels_first(_planes_then_depth(volume, *functions), data_format, name)


def _sizes(what: str, x: Any, output_size: Any) -> list[int]:
    given = list(output_size) if isinstance(output_size, list | tuple) else [output_size] * 3
    if len(given) != 3:
        raise ShapeError(f"{what} takes an output size", "an int or three (None keeps one)", output_size)
    return int_list(f"{what}'s output_size", [d if s is None else s for s, d in zip(given, x.shape[2:], strict=True)])


def adaptive_avg_pool3d(x: Any, output_size: Any, data_format: str = "NCDHW", name: str | None = None) -> Any:
    """Averages over `output_size` bins that cover a volume; see `adaptive_avg_pool2d`.

    Example:
        >>> list(F.adaptive_avg_pool3d(wb.ones([1, 2, 4, 4, 4]), [1, 2, None]).shape)
        [1, 2, 1, 2, 4]
    """
    volume = channels_first("adaptive_avg_pool3d", x, data_format)
    bins = _bins(pool.adaptive_avg_pool2d, _sizes("adaptive_avg_pool3d", volume, output_size))
    return from_channels_first(_planes_then_depth(volume, *bins), data_format, name)


def adaptive_max_pool3d(x: Any, output_size: Any, return_mask: bool = False, name: str | None = None) -> Any:
    """Maxima over `output_size` bins that cover a volume; see `adaptive_max_pool2d`.

    Args:
        return_mask: also return where each maximum was, see `max_pool3d`.

    Example:
        >>> list(F.adaptive_max_pool3d(wb.ones([1, 2, 4, 4, 4]), 2).shape)
        [1, 2, 2, 2, 2]
    """
    volume = channels_first("adaptive_max_pool3d", x, "NCDHW")
    bins = _bins(pool.adaptive_max_pool2d, _sizes("adaptive_max_pool3d", volume, output_size))
    return _maxima_and_places(volume, *bins) if return_mask else _planes_then_depth(volume, *bins)


def _bins(function: Function, sizes: list[int]) -> tuple[Function, Function]:
    """Adaptive pooling of planes, and along the depth."""
    return (
        lambda x, **more: function(x, sizes[1:], **more),
        lambda x, **more: function(x, [sizes[0], x.shape[3]], **more),
    )
