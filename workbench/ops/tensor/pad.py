"""Padding of tensors, and unpad, its adjoint."""

from __future__ import annotations

from typing import Any

import numpy as np

from workbench.errors import InvalidArgument, ShapeError
from workbench.framework.op.declare import op
from workbench.framework.values.spec import Spec, shape_text
from workbench.ops.arguments import int_list
from workbench.ops.precision import rounded, wide

OFFERED = {"workbench.nn.functional": "pad zeropad2d"}

CONSTANT, REFLECT, REPLICATE, CIRCULAR = MODES = ("constant", "reflect", "replicate", "circular")
_NUMPY_MODES: dict[str, Any] = {REFLECT: "reflect", REPLICATE: "edge", CIRCULAR: "wrap"}

# Spatial layouts: axes that F.pad's `pad` names, the last one first.
_SPATIAL = {
    "NCL": (2,), "NLC": (1,),
    "NCHW": (3, 2), "NHWC": (2, 1),
    "NCDHW": (4, 3, 2), "NDHWC": (3, 2, 1),
}  # fmt: skip


def _check(dims: Any, paddings: list[int], mode: str) -> list[tuple[int, int]]:
    """`(before, after)` per dimension.

    Raises:
        ShapeError: not two sizes >= 0 per dimension, or more than the mode can take from a dimension.
    """
    if mode not in MODES:
        raise ShapeError("an unknown mode of padding", " or ".join(map(repr, MODES)), repr(mode))
    if len(paddings) != 2 * len(dims) or any(p < 0 for p in paddings):
        raise ShapeError("padding is given as two sizes >= 0 per dimension", f"{2 * len(dims)} sizes", list(paddings))
    widths = list(zip(paddings[::2], paddings[1::2], strict=True))
    for axis, (dim, width) in enumerate(zip(dims, widths, strict=True)):
        room = {CONSTANT: None, REFLECT: dim - 1, REPLICATE: None if dim else 0, CIRCULAR: dim}[mode]
        if dim >= 0 and room is not None and max(width) > max(room, 0):
            raise ShapeError(f"padding by {mode} takes at most {room} entries from dimension {axis}", room, max(width))
    return widths


def _padded(x: Spec, paddings: list[int], mode: str, value: float = 0.0) -> Spec:
    widths = _check(x.shape, paddings, mode)
    return x.with_shape(d if d < 0 else before + d + after for d, (before, after) in zip(x.shape, widths, strict=True))


def _inside(dims: Any, widths: list[tuple[int, int]]) -> tuple[slice, ...]:
    """Where the unpadded part lies in a padded array of `dims`."""
    return tuple(slice(before, d - after) for d, (before, after) in zip(dims, widths, strict=True))


def _sources(n: int, width: tuple[int, int], mode: str) -> Any:
    """For every entry of a padded dimension, the entry of the unpadded one it is a copy of."""
    return np.pad(np.arange(n), width, mode=_NUMPY_MODES[mode])


def _pad_rule(g: Any, out: Any, x: Any, paddings: list[int], mode: str, value: float) -> Any:
    return UNPAD(g, paddings=paddings, mode=mode)


@op(
    "pad",
    "X -> Out",
    attrs={"paddings": [], "mode": CONSTANT, "value": 0.0},
    infer=_padded,
    grad=_pad_rule,
    saved="",
    shape_only="X",
)
def PAD(xp: Any, x: Any, paddings: list[int], mode: str, value: float) -> Any:
    """X with `paddings[2 i]` entries before and `paddings[2 i + 1]` behind it along dimension i."""
    widths = _check(x.shape, paddings, mode)
    if mode == CONSTANT:
        out = xp.full([b + d + a for d, (b, a) in zip(x.shape, widths, strict=True)], value, dtype=x.dtype)
        out[_inside(out.shape, widths)] = x
        return out
    out = xp.array(x, order="C")
    for axis, width in enumerate(widths):
        if any(width):
            out = out.take(xp.asarray(_sources(out.shape[axis], width, mode)), axis=axis)
    return out


def _unpadded(x: Spec, paddings: list[int], mode: str) -> Spec:
    widths = list(zip(paddings[::2], paddings[1::2], strict=True))
    for axis, (dim, width) in enumerate(zip(x.shape, widths, strict=True)):
        if 0 <= dim < sum(width):  # a size below 0 would be taken for one nobody knows
            raise ShapeError(f"unpad takes {sum(width)} entries from dimension {axis}", f"{sum(width)} or more", dim)
    return x.with_shape(d if d < 0 else d - before - after for d, (before, after) in zip(x.shape, widths, strict=True))


@op(
    "unpad",
    "X -> Out",
    attrs={"paddings": [], "mode": CONSTANT},
    infer=_unpadded,
    grad=lambda g, out, x, paddings, mode: PAD(g, paddings=paddings, mode=mode),
    saved="",
    shape_only="X",
)
def UNPAD(xp: Any, x: Any, paddings: list[int], mode: str) -> Any:
    """Every padded entry added to the one it is a copy of (constants are dropped): the gradient of `pad`."""
    widths = list(zip(paddings[::2], paddings[1::2], strict=True))
    if mode == CONSTANT:
        return xp.array(x[_inside(x.shape, widths)], order="C")
    out = wide(x)
    for axis, width in enumerate(widths):
        if any(width):
            out = _fold(xp, out, axis, width, mode)
    return rounded(xp.array(out, order="C") if out is x else out, x)


def _fold(xp: Any, x: Any, axis: int, width: tuple[int, int], mode: str) -> Any:
    """Add the entries before and behind the unpadded part of one dimension to where they came from."""
    n = x.shape[axis] - sum(width)
    out = xp.array(x[(slice(None),) * axis + (slice(width[0], width[0] + n),)], order="C")
    padding = np.r_[: width[0], width[0] + n : x.shape[axis]]
    source = _sources(n, width, mode)[padding]
    xp.add.at(out, (slice(None),) * axis + (xp.asarray(source),), x.take(xp.asarray(padding), axis=axis))
    return out


def pad(
    x: Any,
    pad: Any,
    mode: str = "constant",
    value: float = 0.0,
    data_format: str = "NCHW",
    name: str | None = None,
) -> Any:
    """`x` with entries added around it.

    Args:
        x: [N, C, L], [N, C, H, W], [N, C, D, H, W] (or channels last); any shape in the first case of `pad`.
        pad: either two sizes per dimension of `x`, from the first dimension on (with mode "constant"), or two
            per spatial dimension, the last one first: [left, right, top, bottom, front, back].
        mode: `"constant"` (`value`), `"reflect"` (without repeating the edge), `"replicate"` (the edge),
            `"circular"`.
        data_format: `"NCL"`, `"NLC"`, `"NCHW"`, `"NHWC"`, `"NCDHW"` or `"NDHWC"`; where its rank is not that
            of `x`, the format of that rank with channels in the same place.

    Raises:
        InvalidArgument: too many or too few sizes, a negative one, or more than the mode can take.

    Example:
        >>> F.pad(wb.ones([1, 1, 2, 2]), [1, 1, 0, 0]).shape
        [1, 1, 2, 4]
    """
    sizes = int_list("pad", pad)
    rank = len(x.shape)
    if mode == CONSTANT and len(sizes) == 2 * rank:
        return PAD(x, paddings=sizes, mode=mode, value=float(value), name=name)
    axes = _spatial_axes(data_format, rank)
    if len(sizes) != 2 * len(axes):
        raise ShapeError(
            f"pad takes two sizes per spatial dimension of a tensor of shape {shape_text(x.shape)}",
            f"{2 * len(axes)} sizes" + (f", or {2 * rank} for all dimensions" if mode == CONSTANT else ""),
            sizes,
        )
    paddings = [0] * (2 * rank)
    for i, axis in enumerate(axes):
        paddings[2 * axis : 2 * axis + 2] = sizes[2 * i : 2 * i + 2]
    return PAD(x, paddings=paddings, mode=mode, value=float(value), name=name)


def _spatial_axes(data_format: str, rank: int) -> tuple[int, ...]:
    if data_format not in _SPATIAL:
        raise InvalidArgument(f"data_format is one of {', '.join(_SPATIAL)}, got {data_format!r}")
    channels_last = data_format[-1] == "C"
    for layout, axes in _SPATIAL.items():
        if len(layout) == rank and (layout[-1] == "C") == channels_last:
            return axes
    raise ShapeError("pad along spatial dimensions takes 3, 4 or 5 dimensions", "rank 3, 4 or 5", rank)


def zeropad2d(x: Any, padding: Any, data_format: str = "NCHW", name: str | None = None) -> Any:
    """An image with zeros around it.

    Args:
        padding: an int, or [left, right, top, bottom].

    Example:
        >>> list(F.zeropad2d(wb.ones([1, 1, 2, 2]), [1, 0, 0, 2]).shape)
        [1, 1, 4, 3]
    """
    return pad(x, [padding] * 4 if isinstance(padding, int) else padding, CONSTANT, 0.0, data_format, name)
