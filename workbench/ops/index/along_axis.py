"""One index per entry: take_along_axis and put_along_axis."""

from __future__ import annotations

from typing import Any

from workbench.errors import ShapeError
from workbench.framework.op.declare import op
from workbench.framework.op.infix import is_number, tensor_method
from workbench.framework.values.spec import Spec, normalize_axis, require_same_dtype, same_dim, sizes_along
from workbench.ops.arguments import one_int
from workbench.ops.index.picking import require_dims, require_index, zeros_of
from workbench.ops.index_range import require_in_range
from workbench.ops.precision import in_float32
from workbench.ops.tensor.tile import EXPAND

OFFERED = {"workbench": "put_along_axis take_along_axis"}


def _infer_take(x: Spec, index: Spec, axis: int) -> Spec:
    require_index("take_along_axis", index)
    _require_along("take_along_axis", x, index, axis)
    return x.with_shape(_taken_shape(x, index, axis))


def _require_along(what: str, x: Spec, index: Spec, axis: int) -> None:
    axis = normalize_axis(axis, len(x.shape))
    expected = (*x.shape[:axis], -1, *x.shape[axis + 1 :])
    given = _taken_shape(x, index, axis) if len(index.shape) == len(x.shape) else index.shape
    require_dims(f"{what} takes an index that differs from the tensor in one axis at most", expected, given)


def _taken_shape(x: Any, index: Any, axis: int) -> tuple[int, ...]:
    """The index's, with the tensor's dimensions where the index stands for all with one entry."""
    axis = normalize_axis(axis, len(x.shape))
    pairs = enumerate(zip(x.shape, index.shape, strict=True))
    return tuple(x_dim if dim == 1 and a != axis else dim for a, (x_dim, dim) in pairs)


def _take_rule(g: Any, out: Any, x: Any, index: Any, axis: int) -> Any:
    return PUT_ALONG_AXIS(zeros_of(x), index, g, axis=axis, reduce="add")


def sizes_named(x: Any, index: Any, axis: int) -> tuple[Any, ...]:
    """How many entries of `x` come before an axis, its size, how many of these are named, and what comes behind it."""
    outer, height, inner = sizes_along(x.shape, axis)
    return outer, height, index.shape[axis], inner


def is_whole(x: Any, index: Any, axis: int) -> bool:
    """Whether the index has an entry for each that it stands for."""
    axis = normalize_axis(axis, x.ndim)
    dims = enumerate(zip(x.shape, index.shape, strict=False))
    return x.ndim == index.ndim and all(a == axis or n == k for a, (n, k) in dims)


def _take_row(x: Any, index: Any, out: Any, axis: int) -> Any:
    sizes = sizes_named(x, index, axis)
    return is_whole(x, index, axis) and ("take_along", x, index, out, *sizes, x.itemsize // 4)


def _add_row(x: Any, index: Any, g: Any, out: Any, axis: int) -> Any:
    return is_whole(x, index, axis) and ("add_along", g, index, out, *sizes_named(x, index, axis), True)


@op(
    "take_along_axis",
    "Input, Index -> Result",
    attrs={"axis": 0},
    infer=_infer_take,
    grad=_take_rule,
    kernel=_take_row,
    grad_kernel=_add_row,
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
    require_index("put_along_axis", index)
    require_same_dtype("put_along_axis", x, value)
    if reduce not in ("assign", "add"):
        raise ShapeError("put_along_axis has two ways to put", "'assign' or 'add'", repr(reduce))
    _require_along("put_along_axis", x, index, axis)
    require_dims("put_along_axis takes one value per index", _taken_shape(x, index, axis), value.shape)
    return x


def _put_rule(g: Any, out: Any, x: Any, index: Any, value: Any, axis: int, reduce: str) -> Any:
    def of_x() -> Any:
        return g if reduce == "add" else PUT_ALONG_AXIS(g, index, zeros_of(value), axis=axis)

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
@in_float32
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
        values = zeros_of(indices).astype(arr.dtype) + values
    return PUT_ALONG_AXIS(arr, _expanded_index(arr, indices, axis), values, axis=axis, reduce=reduce)
