"""The largest and smallest elements, and where they lie."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from workbench.errors import DtypeError, ShapeError
from workbench.framework.op.declare import op
from workbench.framework.op.infix import tensor_method
from workbench.framework.op.recorder import zero_dim
from workbench.framework.op.rows import row_op
from workbench.framework.values.dtype import as_dtype
from workbench.framework.values.spec import Spec, normalize_axis
from workbench.ops.arguments import one_int
from workbench.ops.math.reductions.reduce import (
    ATTRS,
    ROWS,
    infer_reduced,
    reduced_axes,
    reduced_shape,
    reduction,
)
from workbench.ops.pointwise import Tensor

OFFERED = {"workbench": "amax amin argmax argmin max min"}


def _infer_extreme(what: str) -> Callable[..., Spec]:
    def infer(x: Spec, dim: Sequence[int], keep_dim: bool, reduce_all: bool, zero_dim: bool) -> Spec:
        for axis in reduced_axes(len(x.shape), dim, reduce_all):
            _require_elements(what, x, axis)
        return infer_reduced(x, dim, keep_dim, reduce_all, zero_dim)

    return infer


def _require_elements(what: str, x: Spec, axis: int) -> None:
    if x.shape[axis] == 0:
        raise ShapeError(f"{what} of nothing", f"at least one element along axis {axis}", x)


# Extremes: every element that equals the result gets the whole gradient, as in Paddle


def _extreme_back(rows: Any, x: Any, y: Any, g: Any) -> Any:
    return g * (x == y)


@row_op(
    "reduce_max",
    "X -> Out",
    **ROWS,
    attrs=ATTRS,
    infer=_infer_extreme("the maximum"),
    grad_body=_extreme_back,
    saved="X, Out",
    layer="max",
)
def REDUCE_MAX(rows: Any, x: Any) -> Any:
    """The largest element over `dim`, NaN if one is."""
    return rows.max(x)


@row_op(
    "reduce_min",
    "X -> Out",
    **ROWS,
    attrs=ATTRS,
    infer=_infer_extreme("the minimum"),
    grad_body=_extreme_back,
    saved="X, Out",
    layer="min",
)
def REDUCE_MIN(rows: Any, x: Any) -> Any:
    """The smallest element over `dim`, NaN if one is."""
    return rows.min(x)


def _shared_back(rows: Any, x: Any, y: Any, g: Any) -> Any:
    is_met = (x == y).astype(x.dtype)
    return g / rows.sum(is_met) * is_met


@row_op(
    "reduce_amax",
    "X -> Out",
    **ROWS,
    attrs=ATTRS,
    infer=_infer_extreme("the maximum"),
    grad_body=_shared_back,
    saved="X, Out",
    layer="amax",
)
def REDUCE_AMAX(rows: Any, x: Any) -> Any:
    """The largest element over `dim`; elements that equal it share its gradient."""
    return rows.max(x)


@row_op(
    "reduce_amin",
    "X -> Out",
    **ROWS,
    attrs=ATTRS,
    infer=_infer_extreme("the minimum"),
    grad_body=_shared_back,
    saved="X, Out",
    layer="amin",
)
def REDUCE_AMIN(rows: Any, x: Any) -> Any:
    """The smallest element over `dim`; elements that equal it share its gradient."""
    return rows.min(x)


@tensor_method("amax")
def amax(x: Tensor, axis: Any = None, keepdim: bool = False, name: str | None = None) -> Tensor:
    """`max`, but elements that equal the maximum share its gradient.

    Example:
        >>> x = wb.to_tensor([3.0, 1.0, 3.0], stop_gradient=False)
        >>> wb.amax(x).backward()
        >>> print(x.grad.numpy())
        [0.5 0.  0.5]
    """
    return REDUCE_AMAX(x, name=name, **reduction(axis, keepdim))


@tensor_method("amin")
def amin(x: Tensor, axis: Any = None, keepdim: bool = False, name: str | None = None) -> Tensor:
    """`min`, but elements that equal the minimum share its gradient. Args and Raises: as for `max`.

    Example:
        >>> print(wb.amin(wb.to_tensor([[1.0, 5.0], [3.0, 2.0]]), axis=1).numpy())
        [1. 2.]
    """
    return REDUCE_AMIN(x, name=name, **reduction(axis, keepdim))


@tensor_method("max")
def max(x: Tensor, axis: Any = None, keepdim: bool = False, name: str | None = None) -> Tensor:
    """The largest element over one, several or all dimensions; NaN if one is NaN.

    Args:
        x: tensor of any dtype; axis, keepdim: as for `sum`.

    Returns:
        `x` without the reduced dimensions; shape [1] (in dynamic mode []) if none is left. Every element that equals
        the maximum gets its whole gradient.

    Raises:
        InvalidArgument: a dimension of size 0, an axis that `x` does not have.
        InvalidType: an axis is no int.

    Example:
        >>> print(wb.max(wb.to_tensor([[1.0, 5.0], [3.0, 2.0]]), axis=1).numpy())
        [5. 3.]
    """
    return REDUCE_MAX(x, name=name, **reduction(axis, keepdim))


@tensor_method("min")
def min(x: Tensor, axis: Any = None, keepdim: bool = False, name: str | None = None) -> Tensor:
    """The smallest element over one, several or all dimensions. Args, Returns and Raises: as for `max`.

    Example:
        >>> print(wb.min(wb.to_tensor([[1.0, 5.0], [3.0, 2.0]]), axis=1).numpy())
        [1. 2.]
    """
    return REDUCE_MIN(x, name=name, **reduction(axis, keepdim))


# Positions of extremes

ARG_ATTRS = {"axis": -1, "keepdims": False, "flatten": False, "dtype": "int64", "zero_dim": False}


def _infer_arg(x: Spec, axis: int, keepdims: bool, flatten: bool, dtype: str, zero_dim: bool) -> Spec:
    if not as_dtype(dtype).is_integer:
        raise DtypeError("positions are integers", "int32 or int64", dtype)
    axes = tuple(range(len(x.shape))) if flatten else (normalize_axis(axis, len(x.shape)),)
    for a in axes:
        _require_elements("the position of the extreme", x, a)
    return Spec(reduced_shape(x.shape, axes, keepdims, zero_dim), as_dtype(dtype))


def _arg(
    x: Any, function: Callable[..., Any], axis: int, keepdims: bool, flatten: bool, dtype: str, zero_dim: bool
) -> Any:
    axes = tuple(range(x.ndim)) if flatten else (normalize_axis(axis, x.ndim),)
    places = function(axis=None if flatten else axis)
    return places.reshape(reduced_shape(x.shape, axes, keepdims, zero_dim)).astype(as_dtype(dtype).numpy)


@op("arg_max", "X -> Out", attrs=ARG_ATTRS, infer=_infer_arg, layer="argmax")
def ARG_MAX(xp: Any, x: Any, **attrs: Any) -> Any:
    """Where the largest element lies, the first one if there are several."""
    return _arg(x, x.argmax, **attrs)


@op("arg_min", "X -> Out", attrs=ARG_ATTRS, infer=_infer_arg, layer="argmin")
def ARG_MIN(xp: Any, x: Any, **attrs: Any) -> Any:
    """Where the smallest element lies, the first one if there are several."""
    return _arg(x, x.argmin, **attrs)


def _position(record: Any, x: Tensor, axis: Any, keepdim: bool, dtype: Any, name: str | None) -> Tensor:
    attrs: dict[str, Any] = {"flatten": True} if axis is None else {"axis": one_int("axis", axis)}
    attrs |= {"keepdims": bool(keepdim), "dtype": as_dtype(dtype).name, "zero_dim": zero_dim()}
    return record(x, name=name, **attrs)


@tensor_method("argmax")
def argmax(
    x: Tensor, axis: int | None = None, keepdim: bool = False, dtype: Any = "int64", name: str | None = None
) -> Tensor:
    """The position of the largest element, the first one if there are several (NaN counts as largest).

    Args:
        x: tensor.
        axis: the dimension searched; None searches the flattened tensor.
        keepdim: keep the searched dimension with size 1.
        dtype: int32 or int64.

    Returns:
        positions in the shape of `x` without the axis; shape [1] (in dynamic mode []) if none is left.

    Raises:
        InvalidArgument: no such axis, or a dimension of size 0. InvalidType: a dtype that is no integer.

    Example:
        >>> print(wb.argmax(wb.to_tensor([[1.0, 5.0], [3.0, 2.0]]), axis=1).numpy())
        [1 0]
    """
    return _position(ARG_MAX, x, axis, keepdim, dtype, name)


@tensor_method("argmin")
def argmin(
    x: Tensor, axis: int | None = None, keepdim: bool = False, dtype: Any = "int64", name: str | None = None
) -> Tensor:
    """The position of the smallest element. Args, Returns and Raises: as for `argmax`.

    Example:
        >>> print(wb.argmin(wb.to_tensor([[1.0, 5.0], [3.0, 2.0]]), axis=1).numpy())
        [0 1]
    """
    return _position(ARG_MIN, x, axis, keepdim, dtype, name)
