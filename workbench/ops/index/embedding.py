"""Rows of a table picked by number: embedding, its adjoint, and one-hot vectors."""

from __future__ import annotations

from typing import Any

from workbench.errors import DtypeError, InvalidArgument, ShapeError
from workbench.framework.op.declare import op
from workbench.framework.op.record import Cost
from workbench.framework.values.dtype import float32
from workbench.framework.values.rows import Rows, dense
from workbench.framework.values.spec import ROWS, Spec, require_float, same_dim, shape_text, size_of, sizes_along
from workbench.ops.index_range import require_in_range

OFFERED = {"workbench.nn.functional": "embedding one_hot"}

NO_PADDING = -1


def _require_ids(what: str, ids: Spec) -> None:
    if not ids.dtype.is_integer:
        raise DtypeError(f"{what} takes integers", "an integer dtype", ids.dtype)


def _infer_lookup(table: Spec, ids: Spec, padding_idx: int, is_sparse: bool) -> Spec:
    require_float("embedding", table)
    _require_ids("embedding", ids)
    if len(table.shape) != 2:
        raise ShapeError("the table of an embedding has two dimensions", "[rows, width]", shape_text(table.shape))
    height = table.shape[0]
    if padding_idx != NO_PADDING and not (padding_idx >= 0 and (height < 0 or padding_idx < height)):
        raise ShapeError("padding_idx is no row of the table", f"an int in [0, {height})", padding_idx)
    return Spec((*ids.shape, table.shape[1]), table.dtype)


def _lookup_cost(table: Spec, ids: Spec, **attrs: Any) -> Cost:
    n, width = max(size_of(ids.shape), 0), max(table.shape[1], 0)
    return Cost(0, n * ids.dtype.itemsize + 2 * n * width * table.dtype.itemsize)


def taken_row(table: Any, ids: Any, out: Any, padding: int = NO_PADDING, axis: int = 0) -> tuple[Any, ...]:
    """The kernel that picks the parts of a table along an axis that ids name."""
    outer, height, width = sizes_along(table.shape, axis)
    return "take_rows", table, ids, out, outer, height, ids.size, width * (table.itemsize // 4), padding


def added_row(x: Any, ids: Any, out: Any, padding: int = NO_PADDING, axis: int = 0) -> tuple[Any, ...]:
    """The kernel that adds parts up where ids say."""
    outer, height, width = sizes_along(out.shape, axis)
    return "add_rows", x, ids, out, outer, height, ids.size, width, padding


def _without_padding(xp: Any, ids: Any, vectors: Any, padding_idx: int) -> Any:
    """The vectors, 0 where the id is `padding_idx`."""
    if padding_idx == NO_PADDING:
        return vectors
    return xp.where((ids == padding_idx)[..., None], vectors.dtype.type(0), vectors)


def _gathered(xp: Any, table: Any, ids: Any, g: Any, padding_idx: int) -> Rows:
    """The gradient of a table: one row per id; padding ids have value 0, so that no size depends on data."""
    values = _without_padding(xp, ids, g, padding_idx)
    return Rows(ids.reshape(-1).astype("int64"), values.reshape(-1, table.shape[1]), table.shape[0])


def _lookup_back(xp: Any, table: Any, ids: Any, g: Any, wanted: Any, padding_idx: int, is_sparse: bool) -> Any:
    rows = _gathered(xp, table, ids, g, padding_idx)
    return rows if is_sparse else rows.to_dense(xp)


def _lookup_rule(g: Any, out: Any, table: Any, ids: Any, padding_idx: int, is_sparse: bool) -> Any:
    return scatter_rows(ids, g, table, padding_idx=padding_idx)


def _infer_lookup_back(table: Spec, ids: Spec, g: Spec, is_sparse: bool, **attrs: Any) -> Spec:
    return Spec(table.shape, table.dtype, ROWS) if is_sparse else table


@op(
    "lookup_table_v2",
    "W, Ids -> Out",
    attrs={"padding_idx": NO_PADDING, "is_sparse": False},
    infer=_infer_lookup,
    grad=_lookup_rule,
    grad_forward=_lookup_back,
    grad_infer=_infer_lookup_back,
    kernel=lambda table, ids, out, padding_idx, is_sparse: taken_row(table, ids, out, padding_idx),
    saved="Ids",
    shape_only="W",
    no_grad="Ids",
    cost=_lookup_cost,
    layer="embedding",
)
def LOOKUP_TABLE(xp: Any, table: Any, ids: Any, padding_idx: int, is_sparse: bool) -> Any:
    """Rows of the table, one per id; ids equal to `padding_idx` give zeros."""
    require_in_range(xp, "embedding: id", ids, table.shape[0])
    return _without_padding(xp, ids, table[ids], padding_idx)


def _infer_scatter(ids: Spec, x: Spec, like: Spec, padding_idx: int) -> Spec:
    _require_ids("scatter_rows", ids)
    expected = (*ids.shape, *like.shape[1:])
    if len(x.shape) != len(expected) or not all(map(same_dim, x.shape, expected)):
        raise ShapeError("one vector per id is needed", shape_text(expected), shape_text(x.shape))
    return Spec(like.shape, x.dtype)


def _scatter_rule(g: Any, out: Any, ids: Any, x: Any, like: Any, padding_idx: int) -> Any:
    return None, LOOKUP_TABLE(g, ids, padding_idx=padding_idx), None


@op(
    "scatter_rows",
    "Ids, X, Like -> Out",
    attrs={"padding_idx": NO_PADDING},
    infer=_infer_scatter,
    grad=_scatter_rule,
    kernel=lambda ids, x, like, out, padding_idx: added_row(x, ids, out, padding_idx),
    grad_kernel=lambda ids, x, like, g, out, padding_idx: taken_row(g, ids, out, padding_idx),
    saved="Ids",
    shape_only="X, Like",
    no_grad="Ids, Like",
)
def scatter_rows(xp: Any, ids: Any, x: Any, like: Any, padding_idx: int) -> Any:
    """A table of zeros shaped as `like` to which every vector of `x` is added in the row of its id."""
    require_in_range(xp, "scatter_rows: id", ids, like.shape[0])
    return _gathered(xp, like, ids, x, padding_idx).to_dense(xp)


@op(
    "get_tensor_from_selected_rows",
    "X -> Out",
    infer=lambda x: Spec(x.shape, x.dtype),
    grad=lambda g, out, x: g,
    saved="",
    shape_only="X",
    sparse="X",
)
def DENSIFY(xp: Any, x: Any) -> Any:
    """A sparse gradient as a dense tensor: what an operator between the table and its parameter goes on with."""
    return xp.array(dense(xp, x))


def embedding(
    x: Any, weight: Any, padding_idx: int | None = None, sparse: bool = False, name: str | None = None
) -> Any:
    """The rows of `weight` that `x` names.

    Args:
        x: integer tensor of any shape, ids in [0, rows).
        weight: floating tensor `[rows, width]`.
        padding_idx: this id gives zeros, and its row no gradient; negative ones count from the end.
        sparse: the gradient of `weight` holds only the rows that were read (`framework.values.rows.Rows`).

    Returns:
        a tensor `[*x.shape, width]` in the dtype of `weight`.

    Raises:
        InvalidArgument: `padding_idx` or, when run, an id out of range; ids that are no integers.

    Example:
        >>> table = wb.to_tensor([[0.0, 0.0], [1.0, 1.0], [2.0, 2.0]])
        >>> print(F.embedding(wb.to_tensor([2, 0]), table).numpy())
        [[2. 2.]
         [0. 0.]]
    """
    return LOOKUP_TABLE(weight, x, padding_idx=_padding(padding_idx, weight.shape[0]), is_sparse=sparse, name=name)


def _padding(padding_idx: int | None, rows: int) -> int:
    if padding_idx is None:
        return NO_PADDING
    if not -rows <= padding_idx < rows:
        raise InvalidArgument(f"padding_idx of an embedding must be in [{-rows}, {rows}), got {padding_idx}")
    return padding_idx % rows


def _infer_one_hot(x: Spec, depth: int, allow_out_of_range: bool) -> Spec:
    _require_ids("one_hot", x)
    if depth < 1:
        raise ShapeError("the number of classes is too small", "at least 1", depth)
    return Spec((*x.shape, depth), float32)


def _one_hot_row(x: Any, out: Any, depth: int, allow_out_of_range: bool) -> Any:
    return not allow_out_of_range and ("one_hot", x, out, x.size, depth)


@op(
    "one_hot_v2",
    "X -> Out",
    attrs={"depth": 1, "allow_out_of_range": False},
    infer=_infer_one_hot,
    kernel=_one_hot_row,
    layer="one_hot",
)
def ONE_HOT(xp: Any, x: Any, depth: int, allow_out_of_range: bool) -> Any:
    """A float32 vector per entry, 1 at its value; entries out of range give zeros if they are allowed."""
    if not allow_out_of_range:
        require_in_range(xp, "one_hot: class", x, depth)
    return (x[..., None] == xp.arange(depth)).astype("float32")


def one_hot(x: Any, num_classes: int, name: str | None = None) -> Any:
    """One-hot vectors of class numbers.

    Args:
        x: integer tensor of any shape, values in [0, num_classes).
        num_classes: length of the vectors.

    Returns:
        a float32 tensor `[*x.shape, num_classes]`.

    Raises:
        InvalidArgument: `num_classes` < 1, `x` is no integer tensor, or, when run, a value is out of range.

    Example:
        >>> print(F.one_hot(wb.to_tensor([1, 0]), 3).numpy())
        [[0. 1. 0.]
         [1. 0. 0.]]
    """
    return ONE_HOT(x, depth=num_classes, name=name)
