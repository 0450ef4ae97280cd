"""Sums and means, and what all reductions share.

A reduction over every dimension gives shape [1] in a program, as in Paddle 2.0 to 2.4 (no tensor loses its last one),
and [] in dynamic mode, as since 2.5; the attribute `zero_dim` says which.
Half-precision sums are taken in float32 and rounded once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from workbench.framework.op.infix import tensor_method
from workbench.framework.op.recorder import zero_dim
from workbench.framework.op.rows import row_op
from workbench.framework.rows.kernel import COLUMNS, LINES, PLANES
from workbench.framework.values.dtype import as_dtype, int64
from workbench.framework.values.spec import Shape, Spec, require_float
from workbench.ops.arguments import distinct_axes, int_list
from workbench.ops.pointwise import Tensor

OFFERED = {"workbench": "mean sum"}

ATTRS = {"dim": (), "keep_dim": False, "reduce_all": False, "zero_dim": False}


def reduced_axes(rank: int, dim: Sequence[int], reduce_all: bool) -> tuple[int, ...]:
    """The axes reduced; no `dim` means all."""
    if reduce_all or not dim:
        return tuple(range(rank))
    return tuple(distinct_axes(dim, rank))


def _kept(shape: Shape, axes: Sequence[int]) -> Shape:
    return tuple(1 if i in axes else d for i, d in enumerate(shape))


def reduced_shape(shape: Shape, axes: Sequence[int], keep_dim: bool, zero_dim: bool) -> Shape:
    left = _kept(shape, axes) if keep_dim else tuple(d for i, d in enumerate(shape) if i not in axes)
    return left if left or zero_dim else (1,)


def infer_reduced(x: Spec, dim: Sequence[int], keep_dim: bool, reduce_all: bool, zero_dim: bool) -> Spec:
    axes = reduced_axes(len(x.shape), dim, reduce_all)
    return Spec(reduced_shape(x.shape, axes, keep_dim, zero_dim), x.dtype)


def infer_float(what: str) -> Callable[..., Spec]:
    def infer(x: Spec, **attrs: Any) -> Spec:
        require_float(what, x)
        return infer_reduced(x, **attrs)

    return infer


def reduce_with(
    x: Any, function: Callable[..., Any], dim: Sequence[int], keep_dim: bool, reduce_all: bool, zero_dim: bool
) -> Any:
    """Call an array method with `axis` and `keepdims`; without `zero_dim` the result has at least one dimension."""
    out = function(axis=reduced_axes(x.ndim, dim, reduce_all), keepdims=keep_dim)
    return out.reshape(out.shape or (() if zero_dim else (1,)))


# Sums and means


def axes_of(rank: int, attrs: dict[str, Any]) -> tuple[int, ...]:
    """The axes that a reduction makes one number of; without attributes all."""
    return reduced_axes(rank, attrs.get("dim", ()), attrs.get("reduce_all", True))


def left_over(shape: Shape, axes: Sequence[int], attrs: dict[str, Any]) -> Shape:
    """The shape of a reduction's result."""
    return reduced_shape(shape, axes, attrs.get("keep_dim", False), attrs["zero_dim"])


ROWS: dict[str, Any] = {
    "axes": axes_of,
    "per_row": "Out",
    "row_shape": left_over,
    "layouts": (LINES, PLANES, COLUMNS),
}
"""What all reductions tell of their row programs."""


def _in_dtype(forward: Callable[..., Any]) -> Callable[..., Any]:
    """The sum of numbers that are brought to `out_dtype` first; "" is the dtype of X."""

    def cast(xp: Any, x: Any, out_dtype: str, **attrs: Any) -> Any:
        return forward(xp, x.astype(as_dtype(out_dtype).numpy) if out_dtype else x, **attrs)

    return cast


def _infer_sum(x: Spec, out_dtype: str, **attrs: Any) -> Spec:
    return infer_reduced(x, **attrs).with_dtype(as_dtype(out_dtype) if out_dtype else x.dtype)


@row_op(
    "reduce_sum",
    "X -> Out",
    **ROWS,
    around=_in_dtype,
    attrs={**ATTRS, "out_dtype": ""},
    infer=_infer_sum,
    grad_layouts=(),  # vector code repeats numbers, together with the element-wise ops around it
    grad_body=lambda rows, x, g: g,
    saved="",
    shape_only="X",
    layer="sum",
)
def REDUCE_SUM(rows: Any, x: Any) -> Any:
    """The sum over `dim`; `out_dtype` "" is the dtype of X."""
    return rows.sum(x)


@row_op(
    "reduce_mean",
    "X -> Out",
    **ROWS,
    attrs=ATTRS,
    infer=infer_float("reduce_mean"),
    grad_layouts=(),  # vector code repeats numbers, together with the element-wise ops around it
    grad_body=lambda rows, x, g: g / rows.count,
    saved="",
    shape_only="X",
    layer="mean",
)
def REDUCE_MEAN(rows: Any, x: Any) -> Any:
    """The mean over `dim`."""
    return rows.mean(x)


def _infer_mean(x: Spec, zero_dim: bool) -> Spec:
    require_float("mean", x)
    return x.with_shape(() if zero_dim else (1,))


@row_op(
    "mean",
    "X -> Out",
    **ROWS,
    attrs={"zero_dim": False},
    infer=_infer_mean,
    grad_layouts=(),  # vector code repeats numbers, together with the element-wise ops around it
    grad_body=lambda rows, x, g: g / rows.count,
    saved="",
    shape_only="X",
)
def MEAN(rows: Any, x: Any) -> Any:
    """The mean of all elements, shape [1] or []."""
    return rows.mean(x)


def reduction(axis: Any, keepdim: bool) -> dict[str, Any]:
    """The attributes for Paddle's `axis` (None, an int or several) and `keepdim`.

    Raises:
        InvalidType: the axis is a tensor or no int.
    """
    dim = [] if axis is None else int_list("axis", axis)
    return {"dim": dim, "keep_dim": bool(keepdim), "reduce_all": not dim, "zero_dim": zero_dim()}


@tensor_method("sum")
def sum(x: Tensor, axis: Any = None, dtype: Any = None, keepdim: bool = False, name: str | None = None) -> Tensor:
    """The sum over one, several or all dimensions.

    Args:
        x: tensor of any dtype.
        axis: an int or a list of ints, negative ones count from the end; None is all.
        dtype: of the result; by default int64 for bool and integers, otherwise that of `x`.
        keepdim: keep the reduced dimensions with size 1.

    Returns:
        `x` without the reduced dimensions; shape [1] (in dynamic mode []) if none is left. An empty sum is 0.

    Raises:
        InvalidArgument: an axis that `x` does not have, or one given twice. InvalidType: an axis is no int.

    Example:
        >>> print(wb.sum(wb.to_tensor([[1.0, 2.0], [3.0, 4.0]]), axis=1, keepdim=True).numpy())
        [[3.]
         [7.]]
    """
    if dtype is None and not x.dtype.is_float:
        dtype = int64
    out_dtype = "" if dtype is None or as_dtype(dtype) is x.dtype else as_dtype(dtype).name
    return REDUCE_SUM(x, out_dtype=out_dtype, name=name, **reduction(axis, keepdim))


@tensor_method("mean")
def mean(x: Tensor, axis: Any = None, keepdim: bool = False, name: str | None = None) -> Tensor:
    """The mean over one, several or all dimensions.

    Args:
        x: floating tensor.
        axis, keepdim: as for `sum`.

    Returns:
        `x` without the reduced dimensions; shape [1] (in dynamic mode []) if none is left. An empty mean is NaN.

    Raises:
        InvalidType: `x` is not floating, or an axis is no int.
        InvalidArgument: an axis that `x` does not have.

    Example:
        >>> print(wb.mean(wb.to_tensor([[1.0, 2.0], [3.0, 4.0]]), axis=0).numpy())
        [2. 3.]
    """
    attrs = reduction(axis, keepdim)
    if attrs["reduce_all"] and not keepdim:
        return MEAN(x, zero_dim=attrs["zero_dim"], name=name)
    return REDUCE_MEAN(x, name=name, **attrs)
