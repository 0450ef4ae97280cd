"""Sums, products and extremes of all elements up to each one."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from workbench.errors import DtypeError
from workbench.framework.op.infix import tensor_method
from workbench.framework.op.record import find_op
from workbench.framework.op.rows import along, row_op
from workbench.framework.values.dtype import as_dtype, int64
from workbench.framework.values.spec import Spec, normalize_axis, require_float, require_numbers, sizes_along
from workbench.ops.arguments import one_int
from workbench.ops.math.compare import logical_and, where
from workbench.ops.math.composed import trapezoids
from workbench.ops.math.reductions.extreme import max as reduce_max
from workbench.ops.math.unary import exp
from workbench.ops.pointwise import Tensor
from workbench.ops.tensor.assign import detach
from workbench.ops.tensor.shape import flatten

OFFERED = {"workbench": "cummax cummin cumprod cumsum cumulative_trapezoid logcumsumexp"}

AXIS = {"axis": -1}
ROWS: dict[str, Any] = {"axes": along("axis")}


def _infer_along(x: Spec, axis: int, **attrs: Any) -> Spec:
    normalize_axis(axis, len(x.shape))
    return x


def _whole_or_along(x: Tensor, axis: Any, what: str) -> tuple[Any, int]:
    """The tensor and the axis to go along; None is all elements in a row."""
    if axis is None:
        return flatten(x), 0
    return x, normalize_axis(one_int(f"{what}'s axis", axis), len(x.shape))


# Sums


def _infer_cumsum(x: Spec, axis: int, **attrs: Any) -> Spec:
    require_numbers("cumsum", x)
    return _infer_along(x, axis)


def _cumsum_back(rows: Any, x: Any, g: Any, exclusive: bool, reverse: bool) -> Any:
    return rows.running_sum(g, not reverse, exclusive)


@row_op(
    "cumsum",
    "X -> Out",
    **ROWS,
    attrs={**AXIS, "exclusive": False, "reverse": False},
    options={"exclusive": lambda attrs: attrs["exclusive"], "reverse": lambda attrs: attrs["reverse"]},
    takes_wholes=True,
    infer=_infer_cumsum,
    grad_body=_cumsum_back,
    saved="",
    shape_only="X",
)
def CUMSUM(rows: Any, x: Any, exclusive: bool, reverse: bool) -> Any:
    """The sums of the elements up to each one (`reverse`: from each one on), with it or (`exclusive`) without."""
    return rows.running_sum(x, reverse, exclusive)


@tensor_method("cumsum")
def cumsum(x: Tensor, axis: int | None = None, dtype: Any = None, name: str | None = None) -> Any:
    """The sums of the elements up to and with each one.

    Args:
        axis: along which; None: over all elements in a row.
        dtype: cast `x` to this dtype first.

    Raises:
        InvalidArgument: an axis that `x` does not have.

    Example:
        >>> print(wb.cumsum(wb.to_tensor([1, 2, 3])).numpy())
        [1 3 6]
    """
    x, axis = _whole_or_along(x if dtype is None else x.astype(dtype), axis, "cumsum")
    x = x.astype(int64) if x.dtype.kind == "bool" else x
    return CUMSUM(x, axis=axis, name=name)


# Products


def _cumprod_grad(g: Any, out: Any, x: Any, axis: int) -> Any:
    """Exact where elements are 0: behind the first 0 every product is 0, whatever the elements there.

    A first derivative: second ones by elements from the first 0 on come out as 0.
    """
    is_zero = x == 0.0
    zeros = CUMSUM(is_zero.astype(x.dtype), axis=axis)
    is_first = logical_and(is_zero, zeros == 1.0)
    before = CUMSUM(g * out, axis=axis, reverse=True) / where(is_zero, 1.0, x)
    at_first = CUMSUM(g * CUMPROD(where(is_first, 1.0, x), axis=axis), axis=axis, reverse=True)
    return where(zeros == 0.0, before, where(is_first, at_first, x * 0.0))


def _cumprod_back(rows: Any, x: Any, y: Any, g: Any) -> Any:
    """The product in front of each element, times what is made of it behind: nothing is divided by, least of all 0."""
    return rows.before(y, 1.0) * rows.recur(rows.after(x, 0.0), g, reverse=True)


@row_op(
    "cumprod",
    "X -> Out",
    **ROWS,
    attrs=AXIS,
    takes_wholes=True,
    infer=_infer_along,
    grad_body=_cumprod_back,
    grad_by_ops=_cumprod_grad,
    saved="X, Out",
)
def CUMPROD(rows: Any, x: Any) -> Any:
    """The products of the elements up to and with each one."""
    return rows.running_prod(x)


@tensor_method("cumprod")
def cumprod(x: Tensor, dim: int | None = None, dtype: Any = None, name: str | None = None) -> Any:
    """The products of the elements up to and with each one.

    Args:
        dim: along which; None: over all elements in a row.
        dtype: cast `x` to this dtype first.

    Raises:
        InvalidArgument: an axis that `x` does not have.

    Example:
        >>> print(wb.cumprod(wb.to_tensor([1.0, 2.0, 3.0, 4.0]), dim=0).numpy())
        [ 1.  2.  6. 24.]
    """
    x, axis = _whole_or_along(x if dtype is None else x.astype(dtype), dim, "cumprod")
    return CUMPROD(x, axis=axis, name=name)


# Log-sum-exp


def _infer_logs(x: Spec, axis: int) -> Spec:
    require_float("logcumsumexp", x)
    return _infer_along(x, axis)


def _logcumsumexp_grad(g: Any, out: Any, x: Any, axis: int) -> Any:
    top = detach(reduce_max(x, axis, keepdim=True))
    return exp(x - top) * CUMSUM(g * exp(top - out), axis=axis, reverse=True)


def _logcumsumexp_back(rows: Any, x: Any, y: Any, g: Any) -> Any:
    """From the end: what later results add shrinks by a factor of at most 1 from each to the one before."""

    def ratio(small: Any, large: Any) -> Any:
        """exp(small) / exp(large); 1 where both are the same infinity."""
        return rows.exp(rows.where(small == large, 0.0, small - large))

    return ratio(x, y) * rows.recur(ratio(y, rows.after(y, math.inf)), g, reverse=True)


@row_op(
    "logcumsumexp",
    "X -> Out",
    **ROWS,
    attrs=AXIS,
    infer=_infer_logs,
    grad_body=_logcumsumexp_back,
    grad_by_ops=_logcumsumexp_grad,
    saved="X, Out",
)
def LOGCUMSUMEXP(rows: Any, x: Any) -> Any:
    """log(sum(exp(x))) over the elements up to and with each one, without overflow."""
    return rows.running_logsumexp(x)


@tensor_method("logcumsumexp")
def logcumsumexp(x: Tensor, axis: int | None = None, dtype: Any = None, name: str | None = None) -> Any:
    """log(sum(exp(x))) over the elements up to and with each one, without overflow. Args: as for `cumsum`.

    Raises:
        InvalidType: `x` is not floating. InvalidArgument: an axis that it does not have.

    Example:
        >>> print(wb.logcumsumexp(wb.to_tensor([0.0, 0.0, 0.0])).numpy().round(3))
        [0.    0.693 1.099]
    """
    x, axis = _whole_or_along(x if dtype is None else x.astype(dtype), axis, "logcumsumexp")
    return LOGCUMSUMEXP(x, axis=axis, name=name)


# Extremes


def _infer_extremes(x: Spec, axis: int, dtype: str) -> tuple[Spec, Spec]:
    if as_dtype(dtype) not in ("int32", "int64"):
        raise DtypeError("positions are integers", "int32 or int64", as_dtype(dtype))
    return _infer_along(x, axis), x.with_dtype(as_dtype(dtype))


def _extremes_grad(gs: Any, outs: Any, x: Any, axis: int, dtype: str) -> Any:
    zeros = find_op("fill_any_like")(x, value=0.0, dtype=x.dtype.name)
    return None if gs[0] is None else find_op("put_along_axis")(zeros, outs[1], gs[0], axis=axis, reduce="add")


def _placed(body: Callable[..., Any]) -> Callable[..., Any]:
    """The NumPy form, with places of the dtype that is asked for."""

    def forward(xp: Any, x: Any, dtype: str, **attrs: Any) -> tuple[Any, Any]:
        out, places = body(xp, x, dtype=dtype, **attrs)
        return out, places.astype(dtype, copy=False)

    return forward


def _extremes(type: str, best: Callable[[Any], Any], text: str) -> Any:
    """An op that gives the best element so far and the last place where it is met."""

    def body(rows: Any, x: Any) -> tuple[Any, Any]:
        out = best(rows)(x)
        return out, rows.last_place((x == out) | rows.isnan(x))

    def grad_kernel(x: Any, places: Any, g: Any, of_places: Any, out: Any, axis: int, dtype: str) -> tuple[Any, ...]:
        outer, n, inner = sizes_along(x.shape, axis)
        return "add_along", g, places, out, outer, n, n, inner, True

    body.__doc__ = text
    return row_op(
        type, "X -> Out, Indices", **ROWS, attrs={**AXIS, "dtype": "int64"}, places="Indices", around=_placed,
        infer=_infer_extremes, grad=_extremes_grad, grad_kernel=grad_kernel, saved="Indices", shape_only="X",
    )(body)  # fmt: skip


CUMMAX = _extremes("cummax", lambda rows: rows.running_max, "The largest element so far, and where it was met last.")
CUMMIN = _extremes("cummin", lambda rows: rows.running_min, "The smallest element so far, and where it was met last.")


@tensor_method("cummax")
def cummax(x: Tensor, axis: int | None = None, dtype: Any = "int64", name: str | None = None) -> tuple[Any, Any]:
    """The largest element so far, and its position (the last one of equal elements).

    Args:
        axis: along which; None: over all elements in a row.
        dtype: of the positions, int32 or int64.

    Raises:
        InvalidArgument: an axis that `x` does not have. InvalidType: another dtype.

    Example:
        >>> values, places = wb.cummax(wb.to_tensor([1, 3, 2, 3]))
        >>> print(values.numpy(), places.numpy())
        [1 3 3 3] [0 1 1 3]
    """
    x, axis = _whole_or_along(x, axis, "cummax")
    return CUMMAX(x, axis=axis, dtype=as_dtype(dtype).name, name=name)


@tensor_method("cummin")
def cummin(x: Tensor, axis: int | None = None, dtype: Any = "int64", name: str | None = None) -> tuple[Any, Any]:
    """The smallest element so far, and its position (the last one of equal elements). Args and Raises: as for `cummax`.

    Example:
        >>> values, places = wb.cummin(wb.to_tensor([3, 1, 2, 1]))
        >>> print(values.numpy(), places.numpy())
        [3 1 1 1] [0 1 1 3]
    """
    x, axis = _whole_or_along(x, axis, "cummin")
    return CUMMIN(x, axis=axis, dtype=as_dtype(dtype).name, name=name)


@tensor_method("cumulative_trapezoid")
def cumulative_trapezoid(
    y: Tensor, x: Any = None, dx: float | None = None, axis: int = -1, name: str | None = None
) -> Any:
    """The integral of `y` from the first element up to each other one, by the trapezoidal rule.

    Args and Raises: as for `trapezoid`.

    Example:
        >>> print(wb.cumulative_trapezoid(wb.to_tensor([4.0, 5.0, 6.0])).numpy())
        [ 4.5 10. ]
    """
    return CUMSUM(trapezoids(y, x, dx, axis), axis=axis, name=name)
