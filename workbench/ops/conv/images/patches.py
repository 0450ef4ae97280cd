"""Patches of images as columns, and columns added up to images."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from workbench.errors import ShapeError
from workbench.framework.values.spec import shape_text
from workbench.ops.arguments import int_list, pair
from workbench.ops.index.gather import index_add, index_select
from workbench.ops.tensor.assign import assign
from workbench.ops.tensor.creation import full_like
from workbench.ops.tensor.pad import PAD
from workbench.ops.tensor.shape import reshape
from workbench.ops.tensor.tile import expand

OFFERED = {"workbench.nn.functional": "fold unfold"}


class Patches(NamedTuple):
    """Where the patches of an image lie.

    Attributes:
        padded: height and width with padding.
        pads: top, bottom, left, right.
        places: pixel numbers in the padded image, `[window, patches]`.
    """

    padded: tuple[int, int]
    pads: list[int]
    places: np.ndarray


def _patches(
    what: str, height: int, width: int, kernel_sizes: Any, strides: Any, paddings: Any, dilations: Any
) -> Patches:
    kernel, step = pair(f"{what}'s kernel_sizes", kernel_sizes), pair(f"{what}'s strides", strides)
    spread = pair(f"{what}'s dilations", dilations)
    pads = _pads(what, paddings)
    padded = (height + pads[0] + pads[1], width + pads[2] + pads[3])
    starts, offsets = [], []
    for size, k, s, d in zip(padded, kernel, step, spread, strict=True):
        last = size - (d * (k - 1) + 1)
        if last < 0:
            raise ShapeError(f"{what}: a window reaches beyond the image", f"at most {size}", d * (k - 1) + 1)
        starts.append(np.arange(0, last + 1, s))
        offsets.append(np.arange(k) * d)
    rows = offsets[0][:, None, None, None] + starts[0][None, None, :, None]
    columns = offsets[1][None, :, None, None] + starts[1][None, None, None, :]
    places = (rows * padded[1] + columns).reshape(kernel[0] * kernel[1], -1)
    return Patches(padded, pads, places)


def _pads(what: str, paddings: Any) -> list[int]:
    """[top, bottom, left, right] of an int, [h, w] or [top, left, bottom, right]."""
    sizes = int_list(f"{what}'s paddings", paddings if isinstance(paddings, list | tuple) else [paddings])
    if len(sizes) == 1:
        return sizes * 4
    if len(sizes) == 2:
        return [sizes[0], sizes[0], sizes[1], sizes[1]]
    if len(sizes) != 4:
        raise ShapeError(f"{what}'s paddings", "an int, two or four sizes", paddings)
    top, left, bottom, right = sizes
    return [top, bottom, left, right]


def unfold(
    x: Any, kernel_sizes: Any, strides: Any = 1, paddings: Any = 0, dilations: Any = 1, name: str | None = None
) -> Any:
    """Every window of an image as a column (im2col).

    Args:
        x: [n, c, h, w], all but n known.
        kernel_sizes, strides, dilations: an int or (height, width).
        paddings: an int, [h, w] or [top, left, bottom, right].

    Returns:
        [n, c kh kw, windows].

    Raises:
        InvalidArgument: sizes that do not fit.

    Example:
        >>> list(F.unfold(wb.ones([1, 2, 4, 4]), 3).shape)
        [1, 18, 4]
    """
    _require_rank("unfold", x, 4, "[n, c, h, w]")
    _, channels, height, width = x.shape
    patches = _patches("unfold", height, width, kernel_sizes, strides, paddings, dilations)
    padded = PAD(x, paddings=[0, 0, 0, 0, *patches.pads]) if any(patches.pads) else x
    flat = reshape(padded, [-1, channels, patches.padded[0] * patches.padded[1]])
    columns = index_select(flat, assign(patches.places.ravel()), 2)
    return reshape(columns, [-1, channels * patches.places.shape[0], patches.places.shape[1]], name=name)


def fold(
    x: Any,
    output_sizes: Any,
    kernel_sizes: Any,
    strides: Any = 1,
    paddings: Any = 0,
    dilations: Any = 1,
    name: str | None = None,
) -> Any:
    """Columns added up to an image (col2im): what `unfold` does to its input's gradient.

    Args:
        x: [n, c kh kw, windows].
        output_sizes: height and width of the image.
        Others: as in `unfold`.

    Returns:
        [n, c, height, width].

    Raises:
        InvalidArgument: sizes that do not fit.

    Example:
        >>> print(F.fold(wb.ones([1, 4, 2]), [2, 3], 2).numpy())
        [[[[1. 2. 1.]
           [1. 2. 1.]]]]
    """
    _require_rank("fold", x, 3, "[n, c kh kw, windows]")
    height, width = pair("fold's output_sizes", output_sizes)
    patches = _patches("fold", height, width, kernel_sizes, strides, paddings, dilations)
    window, count = patches.places.shape
    if x.shape[1] % window or x.shape[2] != count:
        raise ShapeError("fold takes a column per window", f"[n, c * {window}, {count}]", shape_text(x.shape))
    channels = x.shape[1] // window
    values = reshape(x, [-1, channels, window * count])
    empty = expand(full_like(values[:, :, :1], 0.0), [-1, -1, patches.padded[0] * patches.padded[1]])
    image = reshape(index_add(empty, assign(patches.places.ravel()), 2, values), [-1, channels, *patches.padded])
    top, _, left, _ = patches.pads
    return image[:, :, top : top + height, left : left + width]


def _require_rank(what: str, x: Any, rank: int, layout: str) -> None:
    if len(x.shape) != rank or -1 in x.shape[1:]:
        raise ShapeError(f"{what} takes a tensor of known sizes", layout, shape_text(x.shape))
