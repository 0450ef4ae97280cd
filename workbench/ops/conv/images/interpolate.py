"""Resizing images, sequences and volumes.

Every mode but "area" is linear along each dimension by itself, so it is a product with a small matrix of weights per
dimension that changes; "nearest" picks rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from workbench.errors import InvalidArgument, InvalidType, ShapeError, Unimplemented
from workbench.framework.values.spec import shape_text
from workbench.ops.arguments import int_list
from workbench.ops.conv.pools.pool import adaptive_avg_pool2d
from workbench.ops.conv.pools.pool1d import adaptive_avg_pool1d
from workbench.ops.conv.pools.pool3d import adaptive_avg_pool3d
from workbench.ops.index.gather import index_select
from workbench.ops.math.products.matmul import matmul
from workbench.ops.tensor.assign import assign, constant_of
from workbench.ops.tensor.transpose import moveaxis

OFFERED = {"workbench.nn.functional": "interpolate upsample"}

RANKS = {"linear": (3,), "bilinear": (4,), "bicubic": (4,), "trilinear": (5,), "nearest": (3, 4, 5), "area": (3, 4, 5)}
FORMATS = {3: ("NCW", "NWC"), 4: ("NCHW", "NHWC"), 5: ("NCDHW", "NDHWC")}
CUBIC = -0.75  # the sharpness Paddle takes, as OpenCV


def interpolate(
    x: Any,
    size: Any = None,
    scale_factor: Any = None,
    mode: str = "nearest",
    align_corners: bool = False,
    align_mode: int = 0,
    data_format: str = "",
    name: str | None = None,
) -> Any:
    """`x` with other sizes along its spatial dimensions.

    Args:
        x: `[N, C, W]`, `[N, C, H, W]` or `[N, C, D, H, W]`, or channels last; all but N known, floating.
        size: the sizes wanted, an int per spatial dimension.
        scale_factor: a number > 0, or one per spatial dimension, instead of `size`.
        mode: "nearest", "area", "linear" (three dimensions), "bilinear" and "bicubic" (four), "trilinear" (five).
        align_corners: first and last entries fall on first and last entries.
        align_mode: 0: the middles of entries are aligned; 1: their beginnings (not where corners are).
        data_format: "NCW", "NCHW", "NCDHW", or with C last; channels first of the rank of `x` if empty.

    Raises:
        InvalidArgument: neither or both of `size` and `scale_factor`, an unknown mode, or one that does not go with the
            rank.

    Example:
        >>> x = wb.to_tensor([[[1.0, 3.0]]])
        >>> print(F.interpolate(x, size=[4], mode="linear", data_format="NCW").numpy())
        [[[1.  1.5 2.5 3. ]]]
    """
    axes = _spatial_axes(x, mode, data_format)
    sizes, scales = _sizes(x, axes, size, scale_factor)
    if align_corners and mode in ("nearest", "area"):
        raise InvalidArgument(f"align_corners goes with the linear and cubic modes, not with {mode!r}")
    if mode == "area":
        return _area(x, axes, sizes, name)
    out = x
    for axis, wanted, scale in zip(axes, sizes, scales, strict=True):
        if wanted != x.shape[axis] or mode == "bicubic":
            out = _resized(out, axis, wanted, scale, mode, align_corners, align_mode)
    return assign(out) if out is x else out


upsample = interpolate


def _spatial_axes(x: Any, mode: str, data_format: str) -> tuple[int, ...]:
    rank = len(x.shape)
    if mode not in RANKS:
        raise InvalidArgument(f"interpolate has the modes {', '.join(RANKS)}, got {mode!r}")
    if rank not in RANKS[mode]:
        raise ShapeError(
            f"interpolate by {mode!r}", " or ".join(f"{r} dimensions" for r in RANKS[mode]), shape_text(x.shape)
        )
    if data_format and data_format[-1] == "C" and data_format in FORMATS[rank]:
        axes = tuple(range(1, rank - 1))
    elif not data_format or data_format in (*FORMATS[rank], "NCHW"):
        axes = tuple(range(2, rank))
    else:
        raise InvalidArgument(
            f"data_format of {rank} dimensions is one of {', '.join(FORMATS[rank])}, got {data_format!r}"
        )
    if any(x.shape[a] < 0 for a in axes):
        raise ShapeError(
            "interpolate resizes dimensions of known sizes", "sizes known when it is built", shape_text(x.shape)
        )
    return axes


def _sizes(x: Any, axes: Sequence[int], size: Any, scale_factor: Any) -> tuple[list[int], list[float | None]]:
    """The sizes wanted, and the scales they were given by (None: by size)."""
    if (size is None) == (scale_factor is None):
        raise InvalidArgument("interpolate takes either size or scale_factor")
    if size is not None:
        if hasattr(size, "numpy"):
            size = size.numpy().tolist()
        sizes = int_list("interpolate's size", size if isinstance(size, list | tuple) else [size] * len(axes))
        if len(sizes) != len(axes) or min(sizes) < 1:
            raise ShapeError("size has an entry of at least 1 per spatial dimension", len(axes), size)
        return sizes, [None] * len(axes)
    if hasattr(scale_factor, "numpy"):
        scale_factor = scale_factor.numpy().tolist()
    scales = list(scale_factor) if isinstance(scale_factor, list | tuple) else [scale_factor] * len(axes)
    if len(scales) == 1:
        scales *= len(axes)
    if len(scales) != len(axes):
        raise ShapeError("scale_factor has an entry per spatial dimension", len(axes), scale_factor)
    for scale in scales:
        if isinstance(scale, bool) or not isinstance(scale, int | float):
            raise InvalidType(f"scale_factor takes numbers, got {scale!r}")
        if not scale > 0:
            raise InvalidArgument(f"scale_factor takes numbers above 0, got {scale}")
    return [int(x.shape[a] * s) for a, s in zip(axes, scales, strict=True)], [float(s) for s in scales]


def _area(x: Any, axes: tuple[int, ...], sizes: list[int], name: str | None) -> Any:
    if axes[0] != 2:
        raise Unimplemented("interpolate by 'area' takes channels first")
    if len(axes) == 1:
        return adaptive_avg_pool1d(x, sizes[0], name=name)
    pool = adaptive_avg_pool2d if len(axes) == 2 else adaptive_avg_pool3d
    return pool(x, sizes, name=name)


def _resized(
    x: Any, axis: int, wanted: int, scale: float | None, mode: str, align_corners: bool, align_mode: int
) -> Any:
    count = x.shape[axis]
    step = 1 / scale if scale is not None else count / wanted
    if align_corners:
        step = (count - 1) / (wanted - 1) if wanted > 1 else 0.0
    places = np.arange(wanted)
    if mode == "nearest":
        picked = np.minimum(np.floor(places * step).astype(np.int64), count - 1)
        return index_select(x, assign(picked), axis)
    if align_corners or (align_mode == 1 and mode != "bicubic"):
        sources = places * step
    else:
        sources = (places + 0.5) * step - 0.5
    weights = (_cubic if mode == "bicubic" else _linear)(sources, count)
    last = len(x.shape) - 1
    product = matmul(moveaxis(x, axis, last), constant_of(weights.T, x.dtype))
    return moveaxis(product, last, axis)


def _linear(sources: np.ndarray, count: int) -> np.ndarray:
    """`[wanted, count]`: every source as a mean of the two entries around it."""
    sources = np.clip(sources, 0, count - 1)
    below = np.floor(sources).astype(int)
    rows = np.arange(len(sources))
    weights = np.zeros((len(sources), count))
    np.add.at(weights, (rows, below), 1 - (sources - below))
    np.add.at(weights, (rows, np.minimum(below + 1, count - 1)), sources - below)
    return weights


def _cubic(sources: np.ndarray, count: int) -> np.ndarray:
    """`[wanted, count]`: every source by the four entries around it; beyond the edge the last one counts on.

    Source: Keys, "Cubic convolution interpolation for digital image processing", 1981.
    """
    below = np.floor(sources).astype(int)
    rows = np.arange(len(sources))
    weights = np.zeros((len(sources), count))
    for offset in (-1, 0, 1, 2):
        distance = np.abs(sources - (below + offset))
        near = ((CUBIC + 2) * distance - (CUBIC + 3)) * distance**2 + 1
        far = ((CUBIC * distance - 5 * CUBIC) * distance + 8 * CUBIC) * distance - 4 * CUBIC
        np.add.at(weights, (rows, np.clip(below + offset, 0, count - 1)), np.where(distance <= 1, near, far))
    return weights
