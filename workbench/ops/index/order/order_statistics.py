"""What stands at a place of the sorted order: k-th values, modes, medians, quantiles."""

from __future__ import annotations

import math
from typing import Any

from workbench.errors import InvalidArgument, ShapeError
from workbench.framework.op.declare import op
from workbench.framework.op.infix import Infix, tensor_method
from workbench.framework.op.record import find_op
from workbench.framework.values.dtype import float32, float64, int64
from workbench.framework.values.spec import Spec, normalize_axis, shape_text
from workbench.ops.arguments import distinct_axes, has_value, int_list, one_int
from workbench.ops.index.along_axis import take_along_axis
from workbench.ops.index.gather import index_select
from workbench.ops.index.order.sort import sort, topk
from workbench.ops.math.clip import clip
from workbench.ops.math.compare import where
from workbench.ops.math.reductions.reduce import sum as reduce_sum
from workbench.ops.math.unary import isnan
from workbench.ops.tensor.assign import assign
from workbench.ops.tensor.join import stack
from workbench.ops.tensor.shape import reshape, squeeze
from workbench.ops.tensor.slicing import slice as part_of
from workbench.ops.tensor.transpose import transpose

OFFERED = {"workbench": "index_sample kthvalue median mode nanmedian nanquantile quantile repeat_interleave"}


@tensor_method("kthvalue")
def kthvalue(
    x: Any, k: int, axis: int | None = None, keepdim: bool = False, name: str | None = None
) -> tuple[Any, Any]:
    """The k-th smallest element along an axis, counted from 1, and its position (int64).

    Args:
        axis: the last one by default.

    Raises:
        InvalidArgument: the axis is out of range, or k outside of 1 … its dimension.

    Example:
        >>> value, place = wb.kthvalue(wb.to_tensor([3.0, 1.0, 2.0]), 2)
        >>> value.item(), place.item()
        (2.0, 2)
    """
    axis = normalize_axis(-1 if axis is None else one_int("kthvalue's axis", axis), len(x.shape))
    smallest = topk(x, one_int("kthvalue's k", k), axis, largest=False)
    last = [part_of(part, [axis], [k - 1], [k]) for part in smallest]
    value, place = last if keepdim else [squeeze(part, axis) for part in last]
    return value, place


def _infer_mode(x: Spec, axis: int, keepdim: bool) -> tuple[Spec, Spec]:
    axis = normalize_axis(axis, len(x.shape))
    if x.shape[axis] == 0:
        raise ShapeError("the mode of nothing", f"at least one element along axis {axis}", x)
    out = x.with_shape(x.shape[:axis] + ((1,) if keepdim else ()) + x.shape[axis + 1 :])
    return out, out.with_dtype(int64)


def _mode_grad(gs: Any, outs: Any, x: Any, axis: int, keepdim: bool) -> Any:
    if gs[0] is None:
        return None
    g, places = (v if keepdim else find_op("unsqueeze2")(v, axes=[axis % len(x.shape)]) for v in (gs[0], outs[1]))
    zeros = find_op("fill_any_like")(x, value=0.0, dtype=x.dtype.name)
    return find_op("put_along_axis")(zeros, places, g, axis=axis, reduce="add")


@op(
    "mode",
    "X -> Out, Indices",
    attrs={"axis": -1, "keepdim": False},
    infer=_infer_mode,
    grad=_mode_grad,
    saved="Indices",
    shape_only="X",
)
def MODE(xp: Any, x: Any, axis: int, keepdim: bool) -> tuple[Any, Any]:
    """The most frequent element (the smallest of those) and the last place it has."""
    order = xp.argsort(x, axis=axis, kind="stable")
    ranked = xp.moveaxis(xp.take_along_axis(x, order, axis=axis), axis, -1)
    places = xp.arange(ranked.shape[-1])
    is_new = xp.ones(ranked.shape, bool)
    is_new[..., 1:] = ranked[..., 1:] != ranked[..., :-1]
    begins = xp.maximum.accumulate(xp.where(is_new, places, 0), axis=-1)
    longest = xp.argmax(places - begins, axis=-1)
    ranks = xp.expand_dims(longest, normalize_axis(axis, x.ndim))
    where_in_x = xp.take_along_axis(order, ranks, axis=axis).astype("int64")
    value = xp.take_along_axis(x, where_in_x, axis=axis)
    return (value, where_in_x) if keepdim else (value.squeeze(axis), where_in_x.squeeze(axis))


@tensor_method("mode")
def mode(x: Any, axis: int = -1, keepdim: bool = False, name: str | None = None) -> tuple[Any, Any]:
    """The most frequent element along an axis (the smallest, if there are several), and the last place it has (int64).

    Raises:
        InvalidArgument: the axis is out of range.

    Example:
        >>> value, place = wb.mode(wb.to_tensor([2.0, 3.0, 2.0]))
        >>> value.item(), place.item()
        (2.0, 2)
    """
    return MODE(x, axis=one_int("mode's axis", axis), keepdim=bool(keepdim), name=name)


# Medians and quantiles


def _rows(x: Any, axis: Any, what: str) -> tuple[Any, list[int], list[int]]:
    """`x` with the given dimensions (None: all) as one last one, and the shapes of a result without and with them.

    Raises:
        InvalidArgument: dimensions that are not known, or not there.
    """
    if any(d < 0 for d in x.shape):
        raise ShapeError(f"{what} takes a tensor of known shape", "no dimension -1", shape_text(x.shape))
    rank = len(x.shape)
    axes = list(range(rank)) if axis is None else distinct_axes(int_list(f"{what}'s axis", axis), rank)
    others = [d for d in range(rank) if d not in axes]
    kept = [1 if d in axes else x.shape[d] for d in range(rank)]
    left = [x.shape[d] for d in others]
    return reshape(transpose(x, [*others, *axes]), [*left, math.prod(x.shape[d] for d in axes)]), left, kept


@tensor_method("median")
def median(x: Any, axis: int | None = None, keepdim: bool = False, name: str | None = None) -> Any:
    """The middle of the sorted elements, or the mean of the two in the middle; NaN where an element is NaN.

    Args:
        axis: along which; None: of all elements.

    Returns:
        float64 for float64, otherwise float32.

    Raises:
        InvalidArgument: the axis is out of range, or has no elements; unknown dimensions.

    Example:
        >>> wb.median(wb.to_tensor([3.0, 1.0, 2.0, 4.0])).item()
        2.5
    """
    x = x if x.dtype is float64 else x.astype(float32)
    rows, left, kept = _rows(x, axis, "median")
    count = rows.shape[-1]
    if not count:
        raise ShapeError("the median of nothing", "at least one element", shape_text(x.shape))
    ranked = sort(rows, -1)
    middle = part_of(ranked, [len(left)], [(count - 1) // 2], [count // 2 + 1])
    value = reduce_sum(middle, -1) / (1.0 if count % 2 else 2.0)
    value = value + reduce_sum(where(isnan(rows), rows, 0.0), -1)
    return reshape(value, kept if keepdim else left, name=name)


@tensor_method("nanmedian")
def nanmedian(x: Any, axis: Any = None, keepdim: bool = False, name: str | None = None) -> Any:
    """The median of what is not NaN; NaN where everything is.

    Args:
        axis: an int or several; None: of all elements.

    Returns:
        the dtype of `x`.

    Raises:
        InvalidArgument: an axis is out of range; unknown dimensions.

    Example:
        >>> wb.nanmedian(wb.to_tensor([3.0, float("nan"), 2.0])).item()
        2.5
    """
    return nanquantile(x, 0.5, axis, keepdim).astype(x.dtype)


@tensor_method("quantile")
def quantile(x: Any, q: Any, axis: Any = None, keepdim: bool = False) -> Any:
    """What a share `q` of the elements is not above, between neighbours of the sorted order in proportion.

    Args:
        x: floating tensor.
        q: numbers in [0, 1]: one, a list of them, or a tensor.
        axis: an int or several; None: of all elements.

    Returns:
        float64; for several `q` a first dimension with a result for each. NaN where an element is NaN.

    Raises:
        InvalidArgument: q outside [0, 1], an axis out of range, unknown dimensions.

    Example:
        >>> print(wb.quantile(wb.to_tensor([1.0, 2.0, 3.0, 4.0]), [0.25, 0.5]).numpy())
        [1.75 2.5 ]
    """
    values = _quantiles(x, q, axis, keepdim, "quantile")
    spoiled = reduce_sum(where(isnan(x), x, 0.0), axis, keepdim=keepdim).astype(float64)
    return values + reshape(spoiled, list(values.shape[1:])) if _is_several(q) else values + spoiled


@tensor_method("nanquantile")
def nanquantile(x: Any, q: Any, axis: Any = None, keepdim: bool = False) -> Any:
    """`quantile` of what is not NaN; NaN where everything is.

    Example:
        >>> wb.nanquantile(wb.to_tensor([1.0, float("nan"), 3.0]), 0.5).item()
        2.0
    """
    return _quantiles(x, q, axis, keepdim, "nanquantile")


def _is_several(q: Any) -> bool:
    return isinstance(q, list | tuple) or (isinstance(q, Infix) and len(q.shape) > 0)


def _quantiles(x: Any, q: Any, axis: Any, keepdim: bool, what: str) -> Any:
    given = q.tolist() if isinstance(q, Infix) and has_value(q) else q  # type: ignore[attr-defined]
    shares = list(given) if isinstance(given, list | tuple) else [given]
    for share in shares:
        if not 0 <= share <= 1:
            raise InvalidArgument(f"{what} takes q in [0, 1], got {share}")
    rows, left, kept = _rows(x.astype(float64), axis, what)
    ranked = sort(rows, -1)  # NaN last
    there = reduce_sum((~isnan(rows)).astype(float64), -1, keepdim=True)
    values = [reshape(_at_share(ranked, there, share), kept if keepdim else left) for share in shares]
    return stack(values, 0) if _is_several(q) else values[0]


def _at_share(ranked: Any, there: Any, share: float) -> Any:
    """The element at `share` of the way from the first to the last of those that are there."""
    place = clip(there - 1.0, min=0.0) * float(share)
    below = place.floor()
    low, high = (take_along_axis(ranked, at.astype(int64), -1) for at in (below, place.ceil()))
    return low + (high - low) * (place - below)


@tensor_method("index_sample")
def index_sample(x: Any, index: Any) -> Any:
    """`out[i, j] = x[i, index[i, j]]`.

    Args:
        x: [n, m]. index: int32 or int64, [n, k], values in [0, m).

    Raises:
        InvalidArgument: other shapes; when run, an index out of range.

    Example:
        >>> x = wb.to_tensor([[1.0, 2.0], [3.0, 4.0]])
        >>> print(wb.index_sample(x, wb.to_tensor([[1, 1, 0], [0, 0, 1]])).numpy())
        [[2. 2. 1.]
         [3. 3. 4.]]
    """
    if len(x.shape) != 2 or len(index.shape) != 2:
        got = f"{shape_text(x.shape)} and {shape_text(index.shape)}"
        raise ShapeError("index_sample takes a row of indices per row", "[n, m] and [n, k]", got)
    return take_along_axis(x, index, 1)


@tensor_method("repeat_interleave")
def repeat_interleave(x: Any, repeats: Any, axis: int | None = None, name: str | None = None) -> Any:
    """Every slice along an axis repeated, the copies next to each other.

    Args:
        repeats: how often: an int, or one for each slice (a list, or a tensor of dynamic mode).
        axis: along which; None: all elements in a row.

    Raises:
        InvalidArgument: numbers that do not fit, an unknown dimension.

    Example:
        >>> print(wb.repeat_interleave(wb.to_tensor([1, 2]), 2).numpy())
        [1 1 2 2]
    """
    if axis is None:
        x, axis = reshape(x, [-1]), 0
    axis = normalize_axis(axis, len(x.shape))
    counts = int_list("repeat_interleave's repeats", repeats)
    size = x.shape[axis]
    if size < 0:
        raise ShapeError("repeat_interleave takes a known dimension", "no dimension -1", shape_text(x.shape))
    counts = counts * size if len(counts) == 1 else counts
    if len(counts) != size:
        raise ShapeError("repeat_interleave takes a number for each slice", size, len(counts))
    order = [place for place, count in enumerate(counts) for _ in range(count)]
    return index_select(x, assign(order).astype(int64), axis)
