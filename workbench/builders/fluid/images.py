"""`fluid.layers`: images and volumes pooled, resized and rearranged, with the arguments of Paddle 1.x."""

from __future__ import annotations

from typing import Any

import numpy as np

from workbench.builders.layer import activation_op
from workbench.errors import InvalidArgument, InvalidType, ShapeError, Unimplemented
from workbench.framework.values.spec import shape_text
from workbench.ops.arguments import int_list
from workbench.ops.conv.images import channel_order
from workbench.ops.conv.images.interpolate import interpolate
from workbench.ops.conv.pools import pool
from workbench.ops.conv.pools import pool3d as pools3d
from workbench.ops.index.gather import index_select
from workbench.ops.nn.group_norm import local_response_norm
from workbench.ops.tensor.assign import assign
from workbench.ops.tensor.shape import reshape
from workbench.ops.tensor.transpose import transpose

TYPES = ("max", "avg")


def pool2d(
    input: Any,
    pool_size: Any = -1,
    pool_type: str = "max",
    pool_stride: Any = 1,
    pool_padding: Any = 0,
    global_pooling: bool = False,
    use_cudnn: bool = True,
    ceil_mode: bool = False,
    name: str | None = None,
    exclusive: bool = True,
    data_format: str = "NCHW",
) -> Any:
    """The largest (`pool_type="max"`) or the mean (`"avg"`) of every window, or of the whole image.

    Args:
        input: `[N, C, H, W]`, or `[N, H, W, C]`.
        global_pooling: the window is the image; size, stride and padding do not count.
        exclusive: padding does not take part in means. With padding and `ceil_mode`, what is behind the padding never
            does, as in Paddle 2.x; in 1.8.5 it counts as zeros.
        use_cudnn: accepted for Paddle's sake.

    Raises:
        InvalidArgument: another type or format, a window that does not fit.
    """
    _require_type("pool2d", pool_type)
    if global_pooling:
        return _global_pool2d(input, pool_type, data_format, name)
    options: dict[str, Any] = {"ceil_mode": ceil_mode, "data_format": data_format, "name": name}
    if pool_type == "max":
        return pool.max_pool2d(input, pool_size, pool_stride, pool_padding, **options)
    return pool.avg_pool2d(input, pool_size, pool_stride, pool_padding, exclusive=exclusive, **options)


def _require_type(what: str, pool_type: str) -> None:
    if pool_type not in TYPES:
        raise InvalidArgument(f"{what} takes 'max' or 'avg' as pool_type, got {pool_type!r}")


def _global_pool2d(x: Any, pool_type: str, data_format: str, name: str | None) -> Any:
    if data_format not in ("NCHW", "NHWC"):
        raise InvalidArgument(f"pool2d takes 'NCHW' or 'NHWC' as data_format, got {data_format!r}")
    if pool_type == "avg":
        return pool.adaptive_avg_pool2d(x, 1, data_format=data_format, name=name)
    if data_format == "NHWC":
        largest: Any = pool.adaptive_max_pool2d(transpose(x, [0, 3, 1, 2]), 1)
        return transpose(largest, [0, 2, 3, 1], name=name)
    return pool.adaptive_max_pool2d(x, 1, name=name)


def pool3d(
    input: Any,
    pool_size: Any = -1,
    pool_type: str = "max",
    pool_stride: Any = 1,
    pool_padding: Any = 0,
    global_pooling: bool = False,
    use_cudnn: bool = True,
    ceil_mode: bool = False,
    name: str | None = None,
    exclusive: bool = True,
    data_format: str = "NCDHW",
) -> Any:
    """As `pool2d`, of volumes `[N, C, D, H, W]`, or `[N, D, H, W, C]`.

    Raises:
        InvalidArgument: another type or format, a window that does not fit.
    """
    _require_type("pool3d", pool_type)
    if global_pooling:
        last = data_format == "NDHWC"
        pool_size, pool_stride, pool_padding = list(input.shape[1:4] if last else input.shape[2:]), 1, 0
    options: dict[str, Any] = {"ceil_mode": ceil_mode, "data_format": data_format, "name": name}
    if pool_type == "max":
        return pools3d.max_pool3d(input, pool_size, pool_stride, pool_padding, **options)
    return pools3d.avg_pool3d(input, pool_size, pool_stride, pool_padding, exclusive=exclusive, **options)


def adaptive_pool2d(
    input: Any, pool_size: Any, pool_type: str = "max", require_index: bool = False, name: str | None = None
) -> Any:
    """An image pooled to `pool_size` windows.

    Args:
        input: `[N, C, H, W]`. pool_size: an int or (height, width).
        require_index: with "max", give the places of the largest entries as well.

    Raises:
        InvalidArgument: another type; places of means.
    """
    _require_adaptive("adaptive_pool2d", pool_type, require_index)
    if pool_type == "max":
        return pool.adaptive_max_pool2d(input, pool_size, require_index, name)
    return pool.adaptive_avg_pool2d(input, pool_size, name=name)


def adaptive_pool3d(
    input: Any, pool_size: Any, pool_type: str = "max", require_index: bool = False, name: str | None = None
) -> Any:
    """As `adaptive_pool2d`, of volumes `[N, C, D, H, W]`."""
    _require_adaptive("adaptive_pool3d", pool_type, require_index)
    if pool_type == "max":
        return pools3d.adaptive_max_pool3d(input, pool_size, require_index, name)
    return pools3d.adaptive_avg_pool3d(input, pool_size, name=name)


def _require_adaptive(what: str, pool_type: str, require_index: bool) -> None:
    _require_type(what, pool_type)
    if require_index and pool_type == "avg":
        raise InvalidArgument(f"{what} gives places (require_index) of largest entries, not of means")


# Resizing


RESAMPLE = {"BILINEAR": 4, "NEAREST": 4, "TRILINEAR": 5}  # and how many dimensions it goes with


def image_resize(
    input: Any,
    out_shape: Any = None,
    scale: Any = None,
    name: str | None = None,
    resample: str = "BILINEAR",
    actual_shape: Any = None,
    align_corners: bool = True,
    align_mode: int = 1,
    data_format: str = "NCHW",
) -> Any:
    """Images (volumes with "TRILINEAR") of another size.

    Args:
        input: `[N, C, H, W]`, `[N, C, D, H, W]`, or channels last; all but N known.
        out_shape: the sizes wanted. scale: a factor for all of them instead.
        resample: "BILINEAR", "NEAREST" or "TRILINEAR".
        align_corners: first and last pixels fall on first and last pixels.
        align_mode: without that, 0: the middles of pixels are aligned; 1: their beginnings.

    Raises:
        InvalidArgument: neither size nor scale, another way or rank. InvalidType: sizes that are no ints.
        Unimplemented: sizes that are only known when run (`actual_shape`, variables).

    Example:
        >>> import workbench.fluid as fluid
        >>> fluid.layers.image_resize(fluid.data("x", [None, 3, 6, 9]), out_shape=[12, 12]).shape
        (-1, 3, 12, 12)
    """
    if resample not in RESAMPLE:
        raise InvalidArgument(f"image_resize's resample is one of {', '.join(RESAMPLE)}, got {resample!r}")
    if len(input.shape) != RESAMPLE[resample]:
        raise ShapeError(f"image_resize by {resample}", f"{RESAMPLE[resample]} dimensions", shape_text(input.shape))
    if actual_shape is not None:
        raise Unimplemented("image_resize does not take actual_shape; give out_shape as ints")
    sizes = _sizes(input, out_shape, scale, data_format)
    if resample == "NEAREST" and align_corners:
        return _nearest_with_corners(input, sizes, data_format)
    return interpolate(
        input, sizes, mode=resample.lower(), align_corners=align_corners and resample != "NEAREST",
        align_mode=align_mode, data_format=data_format, name=name,
    )  # fmt: skip


def _spatial(x: Any, data_format: str) -> range:
    first = 1 if data_format.endswith("C") else 2
    return range(first, first + len(x.shape) - 2)


def _sizes(x: Any, out_shape: Any, scale: Any, data_format: str) -> list[int]:
    if out_shape is not None:
        return int_list("image_resize's out_shape", out_shape)
    if isinstance(scale, bool) or not isinstance(scale, int | float):
        raise InvalidType(f"image_resize takes out_shape, or a number as scale, got {scale!r}")
    if not scale > 0:
        raise InvalidArgument(f"image_resize takes a scale above 0, got {scale}")
    return [int(x.shape[axis] * scale) for axis in _spatial(x, data_format)]


def _nearest_with_corners(x: Any, sizes: list[int], data_format: str) -> Any:
    for axis, wanted in zip(_spatial(x, data_format), sizes, strict=True):
        step = np.float32((x.shape[axis] - 1) / (wanted - 1) if wanted > 1 else 0.0)
        picks = (step * np.arange(wanted, dtype=np.float32) + np.float32(0.5)).astype(np.int64)
        x = index_select(x, assign(picks), axis)
    return x


def resize_bilinear(
    input: Any,
    out_shape: Any = None,
    scale: Any = None,
    name: str | None = None,
    actual_shape: Any = None,
    align_corners: bool = True,
    align_mode: int = 1,
    data_format: str = "NCHW",
) -> Any:
    """`image_resize` by "BILINEAR"."""
    return image_resize(input, out_shape, scale, name, "BILINEAR", actual_shape, align_corners, align_mode, data_format)


def resize_trilinear(
    input: Any,
    out_shape: Any = None,
    scale: Any = None,
    name: str | None = None,
    actual_shape: Any = None,
    align_corners: bool = True,
    align_mode: int = 1,
    data_format: str = "NCDHW",
) -> Any:
    """`image_resize` by "TRILINEAR", of volumes."""
    return image_resize(
        input, out_shape, scale, name, "TRILINEAR", actual_shape, align_corners, align_mode, data_format
    )


def resize_nearest(
    input: Any,
    out_shape: Any = None,
    scale: Any = None,
    name: str | None = None,
    actual_shape: Any = None,
    align_corners: bool = True,
    data_format: str = "NCHW",
) -> Any:
    """`image_resize` by "NEAREST"."""
    return image_resize(input, out_shape, scale, name, "NEAREST", actual_shape, align_corners, 1, data_format)


def image_resize_short(input: Any, out_short_len: int, resample: str = "BILINEAR") -> Any:
    """Images whose shorter side has `out_short_len` pixels, the other one in proportion."""
    height, width = input.shape[2:]
    ratio = out_short_len / min(height, width)
    sizes = [out_short_len if side == min(height, width) else int(side * ratio + 0.5) for side in (height, width)]
    return image_resize(input, sizes, resample=resample)


# Channels


def pixel_shuffle(x: Any, upscale_factor: int) -> Any:
    """`[N, C r r, H, W]` as `[N, C, H r, W r]`, r being `upscale_factor` (Shi et al. 2016).

    Raises:
        InvalidArgument: channels that are no multiple of r * r.
    """
    return channel_order.pixel_shuffle(x, upscale_factor)


def shuffle_channel(x: Any, group: int, name: str | None = None) -> Any:
    """Channels of `group` groups in turns (Zhang et al. 2017, "ShuffleNet"); `[N, C, H, W]`.

    Raises:
        InvalidArgument: channels that are no multiple of `group`.
    """
    return channel_order.channel_shuffle(x, group, name=name)


def affine_channel(
    x: Any,
    scale: Any = None,
    bias: Any = None,
    data_layout: str = "NCHW",
    name: str | None = None,
    act: str | None = None,
) -> Any:
    """act(scale * x + bias), a scale and a bias `[C]` for each channel of `[N, C, H, W]`, or `[N, H, W, C]`."""
    row = [1, -1, 1, 1] if data_layout == "NCHW" else [-1]
    result = x * reshape(scale, row) + reshape(bias, row)
    return result if act is None else activation_op(act, "affine_channel")(result, name=name)


def lrn(
    input: Any,
    n: int = 5,
    k: float = 1.0,
    alpha: float = 1e-4,
    beta: float = 0.75,
    name: str | None = None,
    data_format: str = "NCHW",
) -> Any:
    """x / (k + alpha * the sum of x^2 over `n` neighbouring channels)^beta (Krizhevsky et al. 2012).

    Args:
        input: `[N, C, H, W]`, or `[N, H, W, C]`; all but N known.

    Raises:
        InvalidArgument: another format or rank.
    """
    return local_response_norm(input, n, alpha * n, beta, k, data_format, name)
