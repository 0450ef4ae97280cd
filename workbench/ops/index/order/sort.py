"""Order along one dimension: argsort, sort, topk."""

from __future__ import annotations

from typing import Any

from workbench.errors import ShapeError
from workbench.framework.op.declare import op
from workbench.framework.op.infix import tensor_method
from workbench.framework.op.record import TemporaryArray, find_op
from workbench.framework.values.dtype import int64
from workbench.framework.values.spec import Spec, normalize_axis, sizes_along
from workbench.ops.arguments import one_int
from workbench.ops.index.along_axis import PUT_ALONG_AXIS, sizes_named

OFFERED = {"workbench": "argsort sort topk"}


def _order(xp: Any, x: Any, axis: int, descending: bool) -> Any:
    """Positions in sorted order; equal entries keep theirs, NaN counts as the largest."""
    if not descending:
        return xp.argsort(x, axis=axis, kind="stable")
    # Reversed before and after: equal entries keep their order, and no negation can overflow.
    backwards = xp.argsort(xp.flip(x, axis), axis=axis, kind="stable")
    return xp.flip(x.shape[axis] - 1 - backwards, axis)


def _put_back(gs: Any, outs: Any, x: Any, axis: int, **attrs: Any) -> Any:
    """Each sorted entry's gradient goes to the place the entry came from."""
    g = gs[0]
    if g is None:
        return None
    zeros = find_op("fill_any_like")(x, value=0.0, dtype=x.dtype.name)
    return PUT_ALONG_AXIS(zeros, outs[1], g, axis=axis, reduce="assign")


def _put_back_arrays(
    xp: Any, x: Any, indices: Any, g: Any, g_indices: Any, wanted: Any, axis: int, **attrs: Any
) -> Any:
    if g is None:
        return None
    out = xp.zeros(x.shape, x.dtype)
    where = list(xp.meshgrid(*(xp.arange(n) for n in g.shape), indexing="ij", sparse=True))
    where[axis] = indices
    out[tuple(where)] = g
    return out


MOST_BEST = 64  # of a row: each is compared with those found so far; more are sorted


def sorted_row(x: Any, out: Any, indices: Any, kept: int, axis: int, descending: bool) -> Any:
    """The kernel that gives the first entries along an axis in order, and where they are."""
    outer, width, inner = sizes_along(x.shape, axis)
    if inner == 1 and descending and kept <= MOST_BEST:
        return "best_of_rows", x, out, indices, outer, width, kept
    spare = TemporaryArray((2, width), int64.numpy)
    return "sort_rows", x, out, indices, spare, outer, width, inner, kept, descending


def put_back_row(
    x: Any, indices: Any, g: Any, of_indices: Any, out: Any, *, axis: int, **attrs: Any
) -> tuple[Any, ...]:
    return "put_along", g, indices, out, *sizes_named(x, indices, axis), out.itemsize // 4, True


# argsort


def _infer_argsort(x: Spec, axis: int, descending: bool) -> tuple[Spec, Spec]:
    normalize_axis(axis, len(x.shape))
    return x, x.with_dtype(int64)


@op(
    "argsort",
    "X -> Out, Indices",
    attrs={"axis": -1, "descending": False},
    infer=_infer_argsort,
    grad=_put_back,
    grad_forward=_put_back_arrays,
    kernel=lambda x, out, indices, axis, descending: sorted_row(x, out, indices, x.shape[axis], axis, descending),
    grad_kernel=put_back_row,
    saved="Indices",
    shape_only="X",
)
def ARGSORT(xp: Any, x: Any, axis: int, descending: bool) -> tuple[Any, Any]:
    """Sorted entries and their positions."""
    order = _order(xp, x, axis, descending)
    return xp.take_along_axis(x, order, axis=axis), order.astype("int64")


@tensor_method("argsort")
def argsort(x: Any, axis: int = -1, descending: bool = False, name: str | None = None) -> Any:
    """Positions (int64, the shape of `x`) that sort `x` along `axis`; equal entries keep their order.

    Raises:
        InvalidArgument: the axis is out of range.

    Example:
        >>> print(wb.argsort(wb.to_tensor([3.0, 1.0, 2.0])).numpy())
        [1 2 0]
    """
    return ARGSORT(x, axis=one_int("argsort's axis", axis), descending=descending, name=name)[1]


@tensor_method("sort")
def sort(x: Any, axis: int = -1, descending: bool = False, name: str | None = None) -> Any:
    """`x` sorted along `axis`.

    Raises:
        InvalidArgument: the axis is out of range.

    Example:
        >>> print(wb.sort(wb.to_tensor([3.0, 1.0, 2.0]), descending=True).numpy())
        [3. 2. 1.]
    """
    return ARGSORT(x, axis=one_int("sort's axis", axis), descending=descending, name=name)[0]


# top_k_v2


def _infer_topk(x: Spec, k: int, axis: int, largest: bool, sorted: bool) -> tuple[Spec, Spec]:
    axis = normalize_axis(axis, len(x.shape))
    dim = x.shape[axis]
    if k < 1 or 0 <= dim < k:
        raise ShapeError(f"topk takes k entries of dimension {axis}", f"1 <= k <= {dim if dim >= 0 else '?'}", k)
    out = x.with_shape((*x.shape[:axis], k, *x.shape[axis + 1 :]))
    return out, out.with_dtype(int64)


@op(
    "top_k_v2",
    "X -> Out, Indices",
    attrs={"k": 1, "axis": -1, "largest": True, "sorted": True},
    infer=_infer_topk,
    grad=_put_back,
    grad_forward=_put_back_arrays,
    kernel=lambda x, out, indices, k, axis, largest, sorted: sorted_row(x, out, indices, k, axis, largest),
    grad_kernel=put_back_row,
    saved="Indices",
    shape_only="X",
)
def TOP_K(xp: Any, x: Any, k: int, axis: int, largest: bool, sorted: bool) -> tuple[Any, Any]:
    """The k largest (or smallest) entries and their positions, in order, the first of equal ones first."""
    axis = normalize_axis(axis, x.ndim)
    if k > x.shape[axis]:
        raise ShapeError(f"topk takes k entries of dimension {axis}", f"k <= {x.shape[axis]}", k)
    order = _order(xp, x, axis, largest)[(slice(None),) * axis + (slice(0, k),)].astype("int64")
    return xp.take_along_axis(x, order, axis=axis), order


@tensor_method("topk")
def topk(
    x: Any,
    k: int,
    axis: int | None = None,
    largest: bool = True,
    sorted: bool = True,
    name: str | None = None,
) -> tuple[Any, Any]:
    """The `k` largest (smallest with `largest=False`) entries along `axis` and their positions (int64).

    Args:
        axis: the last one by default.
        sorted: the results come in order either way.

    Raises:
        InvalidArgument: the axis is out of range, or k exceeds its dimension.

    Example:
        >>> values, indices = wb.topk(wb.to_tensor([3.0, 1.0, 2.0]), k=2)
        >>> print(values.numpy(), indices.numpy())
        [3. 2.] [0 2]
    """
    where = -1 if axis is None else one_int("topk's axis", axis)
    return TOP_K(x, k=one_int("topk's k", k), axis=where, largest=largest, sorted=sorted, name=name)
