"""Slices along one axis picked by integer tensors, and added to there."""

from __future__ import annotations

from typing import Any

from workbench.errors import ShapeError
from workbench.framework.op.declare import op
from workbench.framework.op.infix import tensor_method
from workbench.framework.values.spec import Shape, Spec, normalize_axis, require_same_dtype, shape_text
from workbench.ops.arguments import one_int
from workbench.ops.index.embedding import added_row
from workbench.ops.index.picking import add_slices, as_column, require_dims, require_index, sum_of, zeros_of
from workbench.ops.index_range import require_in_range
from workbench.ops.precision import rounded, wide

OFFERED = {"workbench": "gather index_add index_select"}


def _gathered_shape(x: Shape, index: Shape, axis: int) -> Shape:
    axis = normalize_axis(axis, len(x))
    return (*x[:axis], *index, *x[axis + 1 :])


def _infer_gather(x: Spec, index: Spec, axis: int) -> Spec:
    require_index("gather", index)
    return x.with_shape(_gathered_shape(x.shape, index.shape, axis))


def _gather_grad(xp: Any, x: Any, index: Any, g: Any, wanted: Any, axis: int) -> Any:
    require_in_range(xp, "gather: index", index, x.shape[axis])
    total = xp.zeros(x.shape, wide(g).dtype)
    add_slices(xp, total, index, wide(g), normalize_axis(axis, x.ndim))
    return rounded(total, x)


def _gather_rule(g: Any, out: Any, x: Any, index: Any, axis: int) -> Any:
    return INDEX_ADD(zeros_of(x), index, g, axis=axis)


@op(
    "gather",
    "X, Index -> Out",
    attrs={"axis": 0},
    infer=_infer_gather,
    grad=_gather_rule,
    grad_forward=_gather_grad,
    grad_kernel=lambda x, index, g, out, axis: added_row(g, index, out, axis=axis),
    saved="Index",
    shape_only="X",
    no_grad="Index",
)
def GATHER(xp: Any, x: Any, index: Any, axis: int) -> Any:
    """Slices of X along `axis`; the dimensions of Index (any number) take the place of that axis."""
    require_in_range(xp, "gather: index", index, x.shape[axis])
    return xp.asarray(x.take(index, axis=axis))


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
    return GATHER(x, as_column(index), axis=0 if axis is None else one_int("gather's axis", axis), name=name)


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
    require_index("index_add", index)
    require_same_dtype("index_add", x, value)
    expected = _gathered_shape(x.shape, index.shape, axis)
    require_dims("index_add takes values in the shape of the slices", expected, value.shape)
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
    total = sum_of(xp, x)
    add_slices(xp, total, index, value.astype(total.dtype), normalize_axis(axis, x.ndim))
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
