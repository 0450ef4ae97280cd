"""Entries picked by integer tensors, and their counterparts that put or add entries there."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from workbench.errors import DtypeError, InvalidArgument, InvalidType, ShapeError
from workbench.framework.op.declare import op
from workbench.framework.op.infix import is_number, tensor_method
from workbench.framework.op.record import find_op
from workbench.framework.values.dtype import as_dtype
from workbench.framework.values.spec import Shape, Spec, normalize_axis, require_same_dtype, same_dim, shape_text
from workbench.ops.arguments import one_int
from workbench.ops.index_range import require_in_range
from workbench.ops.precision import rounded, wide
from workbench.ops.tensor.shape import SQUEEZE
from workbench.ops.tensor.tile import EXPAND


def _require_index(what: str, index: Spec) -> None:
    if not index.dtype.is_integer:
        raise DtypeError(f"{what} takes an index tensor of integers", "int32 or int64", index.dtype)


def _require_dims(what: str, expected: Shape, got: Shape) -> None:
    if len(expected) != len(got) or not all(map(same_dim, expected, got)):
        raise ShapeError(what, shape_text(expected), shape_text(got))


def _zeros_like(x: Any) -> Any:
    return find_op("fill_any_like")(x, value=0.0, dtype=x.dtype.name)


def constant_index(values: Any, dim: int) -> Any:
    """An index tensor from Python ints; negative ones count from the end of a known dimension.

    Raises:
        InvalidType: not integers. InvalidArgument: a value outside the dimension.
    """
    array = np.asarray(values)
    if array.size and array.dtype.kind not in "iu":
        raise InvalidType(f"a tensor is indexed by integers, got values of dtype {array.dtype}")
    array = array.astype(np.int64)
    if dim < 0 and (array < 0).any():
        raise InvalidArgument(f"index {int(array.min())} counts from the end of a dimension that is not known yet")
    wrong = array[(array < -dim) | (array >= dim)] if dim >= 0 else array[:0]
    if wrong.size:
        raise InvalidArgument(f"index {int(wrong[0])} is out of range\n  expected: an int in [{-dim}, {dim})")
    return find_op("assign_value")(
        shape=list(array.shape),
        dtype="int64",
        values=np.where(array < 0, array + dim, array),
    )


# gather and index_add: whole slices along one axis


def _gathered_shape(x: Shape, index: Shape, axis: int) -> Shape:
    axis = normalize_axis(axis, len(x))
    return (*x[:axis], *index, *x[axis + 1 :])


def _infer_gather(x: Spec, index: Spec, axis: int) -> Spec:
    _require_index("gather", index)
    return x.with_shape(_gathered_shape(x.shape, index.shape, axis))


def _gather_grad(xp: Any, x: Any, index: Any, g: Any, wanted: Any, axis: int) -> Any:
    require_in_range(xp, "gather: index", index, x.shape[axis])
    total = xp.zeros(x.shape, wide(g).dtype)
    _add_slices(xp, total, index, wide(g), normalize_axis(axis, x.ndim))
    return rounded(total, x)


def _add_slices(xp: Any, total: Any, index: Any, values: Any, axis: int) -> None:
    """Add `values`, whose dimensions from `axis` on are those of the index, to the slices of `total`."""
    count, inner = math.prod(total.shape[:axis]), math.prod(total.shape[axis + 1 :])
    within = index.reshape(-1, 1).astype("int64") * inner + xp.arange(inner)
    flat = xp.arange(count).reshape(-1, 1) * (inner * total.shape[axis]) + within.reshape(1, -1)
    # NumPy and CuPy are quickest at adding along one flat index.
    xp.add.at(total.reshape(-1), flat.reshape(-1), values.reshape(-1))


def _sum_of(xp: Any, x: Any) -> Any:
    """A contiguous copy of `x` to add to, float32 for half precision."""
    return xp.array(wide(x) if as_dtype(x.dtype).is_float else x, order="C")


def _gather_rule(g: Any, out: Any, x: Any, index: Any, axis: int) -> Any:
    return INDEX_ADD(_zeros_like(x), index, g, axis=axis)


@op(
    "gather",
    "X, Index -> Out",
    attrs={"axis": 0},
    infer=_infer_gather,
    grad=_gather_rule,
    grad_forward=_gather_grad,
    saved="Index",
    shape_only="X",
    no_grad="Index",
)
def GATHER(xp: Any, x: Any, index: Any, axis: int) -> Any:
    """Slices of X along `axis`; the dimensions of Index (any number) take the place of that axis."""
    require_in_range(xp, "gather: index", index, x.shape[axis])
    return xp.asarray(x.take(index, axis=axis))


def _column(index: Any) -> Any:
    """Paddle takes an index of shape [N, 1] for one of shape [N]."""
    return SQUEEZE(index, axes=[1]) if len(index.shape) == 2 and index.shape[1] == 1 else index


@tensor_method("gather")
def gather(x: Any, index: Any, axis: int | None = None, name: str | None = None) -> Any:
    """The slices of `x` along `axis` (the first one, if None) that `index` names.

    Args:
        index: int32 or int64, shape [N] or [N, 1], values in [0, x.shape[axis]).

    Returns:
        the shape of `x` with N in place of `axis`.

    Raises:
        InvalidArgument: the axis is out of range; when run, an index out of range.

    Example:
        >>> print(wb.gather(wb.to_tensor([10, 20, 30]), wb.to_tensor([2, 0])).numpy())
        [30 10]
    """
    return GATHER(x, _column(index), axis=0 if axis is None else one_int("gather's axis", axis), name=name)


@tensor_method("index_select")
def index_select(x: Any, index: Any, axis: int = 0, name: str | None = None) -> Any:
    """The slices of `x` along `axis` that `index` (shape [N]) names; see `gather`.

    Example:
        >>> print(wb.index_select(wb.to_tensor([[1, 2], [3, 4]]), wb.to_tensor([1]), axis=1).numpy())
        [[2]
         [4]]
    """
    if len(index.shape) != 1:
        raise ShapeError("index_select takes a 1-D index", "shape [N]", shape_text(index.shape))
    return GATHER(x, index, axis=one_int("index_select's axis", axis), name=name)


def _infer_index_add(x: Spec, index: Spec, value: Spec, axis: int) -> Spec:
    _require_index("index_add", index)
    require_same_dtype("index_add", x, value)
    expected = _gathered_shape(x.shape, index.shape, axis)
    _require_dims("index_add takes values in the shape of the slices", expected, value.shape)
    return x


@op(
    "index_add",
    "X, Index, AddValue -> Out",
    attrs={"axis": 0},
    infer=_infer_index_add,
    grad=lambda g, out, x, index, value, axis: (g, None, lambda: GATHER(g, index, axis=axis)),
    saved="Index",
    shape_only="X, AddValue",
    no_grad="Index",
)
def INDEX_ADD(xp: Any, x: Any, index: Any, value: Any, axis: int) -> Any:
    require_in_range(xp, "index_add: index", index, x.shape[axis])
    total = _sum_of(xp, x)
    _add_slices(xp, total, index, value.astype(total.dtype), normalize_axis(axis, x.ndim))
    return rounded(total, x)


@tensor_method("index_add")
def index_add(x: Any, index: Any, axis: int, value: Any, name: str | None = None) -> Any:
    """`x` with `value` added to the slices along `axis` that `index` names; repeated indices add up.

    Args:
        index: int32 or int64, shape [N].
        value: the shape of `x` with N in place of `axis`.

    Raises:
        InvalidArgument: shapes that do not fit; when run, an index out of range.

    Example:
        >>> print(wb.index_add(wb.zeros([3]), wb.to_tensor([0, 0]), 0, wb.to_tensor([1.0, 2.0])).numpy())
        [3. 0. 0.]
    """
    return INDEX_ADD(x, index, value, axis=one_int("index_add's axis", axis), name=name)


# gather_nd and scatter_nd_add: entries named by several coordinates


def _entry_shape(what: str, x: Spec, index: Spec) -> Shape:
    """The shape of the entries that `index`, [..., k], names in `x`."""
    _require_index(what, index)
    depth = index.shape[-1] if index.shape else -1
    if depth < 0:
        raise ShapeError(f"{what} needs to know how many coordinates an index has", "shape [..., k]", index)
    if depth > len(x.shape):
        raise ShapeError(f"{what}: an index has at most one coordinate per dimension", f"<= {len(x.shape)}", depth)
    return index.shape[:-1] + x.shape[depth:]


def _flat_index(xp: Any, what: str, x: Any, index: Any) -> Any:
    """Row numbers in `x` seen as [product of indexed dimensions, ...]."""
    flat = xp.zeros(index.shape[:-1], "int64")
    for place in range(index.shape[-1]):
        coordinate = index[..., place]
        require_in_range(xp, f"{what}: coordinate {place}", coordinate, x.shape[place])
        flat = flat * x.shape[place] + coordinate
    return flat


def _rows(x: Any, depth: int) -> Any:
    return x.reshape((math.prod(x.shape[:depth]), *x.shape[depth:]))


def _gather_nd_rule(g: Any, out: Any, x: Any, index: Any) -> Any:
    return SCATTER_ND_ADD(_zeros_like(x), index, g)


@op(
    "gather_nd",
    "X, Index -> Out",
    infer=lambda x, index: x.with_shape(_entry_shape("gather_nd", x, index)),
    grad=_gather_nd_rule,
    saved="Index",
    shape_only="X",
    no_grad="Index",
)
def GATHER_ND(xp: Any, x: Any, index: Any) -> Any:
    flat = _flat_index(xp, "gather_nd", x, index)
    return xp.asarray(_rows(x, index.shape[-1]).take(flat, axis=0))


@tensor_method("gather_nd")
def gather_nd(x: Any, index: Any, name: str | None = None) -> Any:
    """The entries of `x` at the coordinates `index[..., :]`.

    Args:
        index: int32 or int64, shape [..., k]; k coordinates name an entry of shape `x.shape[k:]`.

    Returns:
        shape `index.shape[:-1] + x.shape[k:]`.

    Raises:
        InvalidArgument: k is larger than the rank; when run, a coordinate out of range.

    Example:
        >>> print(wb.gather_nd(wb.to_tensor([[1, 2], [3, 4]]), wb.to_tensor([[1, 0], [0, 1]])).numpy())
        [3 2]
    """
    return GATHER_ND(x, index, name=name)


def _infer_scatter_nd_add(x: Spec, index: Spec, updates: Spec) -> Spec:
    require_same_dtype("scatter_nd_add", x, updates)
    expected = _entry_shape("scatter_nd_add", x, index)
    _require_dims("scatter_nd_add takes updates in the shape of the entries", expected, updates.shape)
    return x


@op(
    "scatter_nd_add",
    "X, Index, Updates -> Out",
    infer=_infer_scatter_nd_add,
    grad=lambda g, out, x, index, updates: (g, None, lambda: GATHER_ND(g, index)),
    saved="Index",
    shape_only="X, Updates",
    no_grad="Index",
)
def SCATTER_ND_ADD(xp: Any, x: Any, index: Any, updates: Any) -> Any:
    flat = _flat_index(xp, "scatter_nd_add", x, index)
    total = _sum_of(xp, x)
    _add_slices(xp, _rows(total, index.shape[-1]), flat, updates.astype(total.dtype), 0)
    return rounded(total, x)


@tensor_method("scatter_nd_add")
def scatter_nd_add(x: Any, index: Any, updates: Any, name: str | None = None) -> Any:
    """`x` with `updates` added at the coordinates `index[..., :]`; repeated ones add up. See `gather_nd`.

    Raises:
        InvalidArgument: shapes that do not fit; when run, a coordinate out of range.

    Example:
        >>> print(wb.scatter_nd_add(wb.zeros([3]), wb.to_tensor([[1], [1]]), wb.to_tensor([1.0, 2.0])).numpy())
        [0. 3. 0.]
    """
    return SCATTER_ND_ADD(x, index, updates, name=name)


# scatter: rows replaced, or emptied and added to


def _infer_scatter(x: Spec, ids: Spec, updates: Spec, overwrite: bool) -> Spec:
    _require_index("scatter", ids)
    require_same_dtype("scatter", x, updates)
    if len(ids.shape) != 1:
        raise ShapeError("scatter takes a 1-D index", "shape [N]", shape_text(ids.shape))
    _require_dims("scatter takes one row per index", ids.shape + x.shape[1:], updates.shape)
    return x


def _scatter_rule(g: Any, out: Any, x: Any, ids: Any, updates: Any, overwrite: bool) -> Any:
    def of_x() -> Any:
        return SCATTER(g, ids, _zeros_like(updates), overwrite=True)

    return of_x, None, lambda: GATHER(g, ids, axis=0)


@op(
    "scatter",
    "X, Ids, Updates -> Out",
    attrs={"overwrite": True},
    infer=_infer_scatter,
    grad=_scatter_rule,
    saved="Ids",
    shape_only="X, Updates",
    no_grad="Ids",
)
def SCATTER(xp: Any, x: Any, ids: Any, updates: Any, overwrite: bool) -> Any:
    """Rows of X replaced by those of Updates; where an index repeats, the last one stays."""
    require_in_range(xp, "scatter: index", ids, x.shape[0])
    if overwrite:
        out = xp.array(x, order="C")
        out[ids] = updates
        return out
    total = _sum_of(xp, x)
    total[ids] = 0
    _add_slices(xp, total, ids, updates.astype(total.dtype), 0)
    return rounded(total, x)


@tensor_method("scatter")
def scatter(x: Any, index: Any, updates: Any, overwrite: bool = True, name: str | None = None) -> Any:
    """`x` with the rows that `index` names replaced by `updates`.

    Args:
        index: int32 or int64, shape [N] or [N, 1], values in [0, x.shape[0]).
        updates: shape [N, ...].
        overwrite: True: the last update of a row stays (as in Paddle, the gradient of `updates` gives every
            one of them the row's gradient). False: named rows are set to zero, then updates are added up.

    Raises:
        InvalidArgument: shapes that do not fit; when run, an index out of range.

    Example:
        >>> print(wb.scatter(wb.zeros([3]), wb.to_tensor([2, 0]), wb.to_tensor([5.0, 6.0])).numpy())
        [6. 0. 5.]
    """
    return SCATTER(x, _column(index), updates, overwrite=overwrite, name=name)


# take_along_axis and put_along_axis: one index per entry


def _infer_take(x: Spec, index: Spec, axis: int) -> Spec:
    _require_index("take_along_axis", index)
    _require_along("take_along_axis", x, index, axis)
    return x.with_shape(_taken_shape(x, index, axis))


def _require_along(what: str, x: Spec, index: Spec, axis: int) -> None:
    axis = normalize_axis(axis, len(x.shape))
    expected = (*x.shape[:axis], -1, *x.shape[axis + 1 :])
    given = _taken_shape(x, index, axis) if len(index.shape) == len(x.shape) else index.shape
    _require_dims(f"{what} takes an index that differs from the tensor in one axis at most", expected, given)


def _taken_shape(x: Any, index: Any, axis: int) -> tuple[int, ...]:
    """The index's, with the tensor's dimensions where the index stands for all with one entry."""
    axis = normalize_axis(axis, len(x.shape))
    pairs = enumerate(zip(x.shape, index.shape, strict=True))
    return tuple(x_dim if dim == 1 and a != axis else dim for a, (x_dim, dim) in pairs)


def _take_rule(g: Any, out: Any, x: Any, index: Any, axis: int) -> Any:
    return PUT_ALONG_AXIS(_zeros_like(x), index, g, axis=axis, reduce="add")


@op(
    "take_along_axis",
    "Input, Index -> Result",
    attrs={"axis": 0},
    infer=_infer_take,
    grad=_take_rule,
    saved="Index",
    shape_only="Input",
    no_grad="Index",
)
def TAKE_ALONG_AXIS(xp: Any, x: Any, index: Any, axis: int) -> Any:
    require_in_range(xp, "take_along_axis: index", index, x.shape[axis])
    return xp.take_along_axis(x, index.astype("int64"), axis=axis)


@tensor_method("take_along_axis")
def take_along_axis(arr: Any, indices: Any, axis: int) -> Any:
    """`out[i, j, …] = arr[i, indices[i, j, …], …]`, the index standing in for coordinate `axis`.

    Args:
        indices: int32 or int64, of the rank of `arr`; other dimensions agree, or are 1 and get expanded.

    Raises:
        InvalidArgument: shapes that do not fit; when run, an index out of range.

    Example:
        >>> print(wb.take_along_axis(wb.to_tensor([[1, 2], [3, 4]]), wb.to_tensor([[1], [0]]), 1).numpy())
        [[2]
         [3]]
    """
    axis = one_int("take_along_axis's axis", axis)
    return TAKE_ALONG_AXIS(arr, _expanded_index(arr, indices, axis), axis=axis)


def _expanded_index(x: Any, index: Any, axis: int) -> Any:
    axis = normalize_axis(axis, len(x.shape))
    wanted = [-1 if a == axis else d for a, d in enumerate(x.shape)]
    if len(index.shape) != len(wanted) or all(map(same_dim, wanted, index.shape)):
        return index
    return EXPAND(index, shape=wanted)


def _infer_put(x: Spec, index: Spec, value: Spec, axis: int, reduce: str) -> Spec:
    _require_index("put_along_axis", index)
    require_same_dtype("put_along_axis", x, value)
    if reduce not in ("assign", "add"):
        raise ShapeError("put_along_axis has two ways to put", "'assign' or 'add'", repr(reduce))
    _require_along("put_along_axis", x, index, axis)
    _require_dims("put_along_axis takes one value per index", _taken_shape(x, index, axis), value.shape)
    return x


def _put_rule(g: Any, out: Any, x: Any, index: Any, value: Any, axis: int, reduce: str) -> Any:
    def of_x() -> Any:
        return g if reduce == "add" else PUT_ALONG_AXIS(g, index, _zeros_like(value), axis=axis)

    return of_x, None, lambda: TAKE_ALONG_AXIS(g, index, axis=axis)


@op(
    "put_along_axis",
    "Input, Index, Value -> Result",
    attrs={"axis": 0, "reduce": "assign"},
    infer=_infer_put,
    grad=_put_rule,
    saved="Index",
    shape_only="Input, Value",
    no_grad="Index",
)
def PUT_ALONG_AXIS(xp: Any, x: Any, index: Any, value: Any, axis: int, reduce: str) -> Any:
    axis = normalize_axis(axis, x.ndim)
    require_in_range(xp, "put_along_axis: index", index, x.shape[axis])
    out = xp.array(x, order="C")
    index = xp.broadcast_to(index, _taken_shape(x, index, axis))
    where = list(xp.meshgrid(*(xp.arange(n) for n in index.shape), indexing="ij", sparse=True))
    where[axis] = index
    if reduce == "add":
        xp.add.at(out, tuple(where), value)
    else:
        out[tuple(where)] = value
    return out


@tensor_method("put_along_axis")
def put_along_axis(arr: Any, indices: Any, values: Any, axis: int, reduce: str = "assign") -> Any:
    """`arr` with `values` put (or added) where `take_along_axis(arr, indices, axis)` reads.

    Args:
        values: of the shape of `indices`, or a number.
        reduce: `"assign"` (where an index repeats, the last one stays) or `"add"`.

    Raises:
        InvalidArgument: shapes that do not fit; when run, an index out of range.

    Example:
        >>> x = wb.to_tensor([[1, 2], [3, 4]])
        >>> print(wb.put_along_axis(x, wb.to_tensor([[1], [0]]), wb.to_tensor([[9], [9]]), 1).numpy())
        [[1 9]
         [9 4]]
    """
    axis = one_int("put_along_axis's axis", axis)
    if is_number(values):
        values = _zeros_like(indices).astype(arr.dtype) + values
    return PUT_ALONG_AXIS(arr, _expanded_index(arr, indices, axis), values, axis=axis, reduce=reduce)
