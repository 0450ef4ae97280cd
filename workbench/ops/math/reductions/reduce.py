"""Reductions, and their way back.

A reduction over every dimension gives shape [1] in a program, as in Paddle 2.0 to 2.4 (no tensor loses its last one),
and [] in dynamic mode, as since 2.5; the attribute `zero_dim` says which.
Half-precision sums are taken in float32 and rounded once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from workbench.framework.op.declare import op
from workbench.framework.op.infix import tensor_method
from workbench.framework.op.recorder import zero_dim
from workbench.framework.values.dtype import as_dtype, int64
from workbench.framework.values.spec import Shape, Spec, require_float
from workbench.framework.values.sums import add_up
from workbench.ops.arguments import distinct_axes, int_list
from workbench.ops.math.reductions.bound_sums import (
    bind_mean,
    bind_spread,
    bind_sum,
    grad_prepare_spread,
    prepare_mean,
    prepare_sum,
)
from workbench.ops.pointwise import Tensor
from workbench.ops.precision import rounded, wide

__all__ = ["mean", "sum"]

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


# The way back: a reduced tensor spread over the shape it was reduced from


def _spread(xp: Any, x: Any, shape: Shape, axes: Sequence[int], average: bool) -> Any:
    if average:
        # float16 overflows beyond 65504 elements, a Python number does not
        x = rounded(wide(x) / max(math.prod(shape[i] for i in axes), 1), x)
    out = xp.empty(shape, x.dtype)
    out[...] = x.reshape(_kept(shape, axes))
    return out


def _expand_grad(g: Any, out: Any, x: Any, like: Any, average: bool, **attrs: Any) -> Any:
    return (REDUCE_MEAN if average else REDUCE_SUM)(g, **attrs)


@op(
    "expand_reduced",
    "X, Like -> Out",
    attrs={**ATTRS, "average": False},
    infer=lambda x, like, **attrs: x.with_shape(like.shape),
    grad=_expand_grad,
    saved="",
    shape_only="X, Like",
    no_grad="Like",
)
def EXPAND_REDUCED(
    xp: Any, x: Any, like: Any, dim: Sequence[int], keep_dim: bool, reduce_all: bool, zero_dim: bool, average: bool
) -> Any:
    """X, reduced by `dim` from the shape of Like, repeated over it; `average` divides by the repeats."""
    return _spread(xp, x, like.shape, reduced_axes(len(like.shape), dim, reduce_all), average)


def _spread_back(average: bool) -> Callable[..., Any]:
    """The direct body of the gradient of a sum or mean."""

    def grad_forward(
        xp: Any, x: Any, g: Any, wanted: Any = None, dim: Sequence[int] = (), keep_dim: bool = False,
        reduce_all: bool = False, **attrs: Any,
    ) -> Any:  # fmt: skip
        return rounded(_spread(xp, g, x.shape, reduced_axes(x.ndim, dim, reduce_all), average), x)

    return grad_forward


# Sums and means


def _sum(x: Any, axis: tuple[int, ...], keepdims: bool) -> Any:
    """In the dtype of `x`."""
    is_float = as_dtype(x.dtype).is_float
    return add_up(x, axis, keepdims) if is_float else x.sum(dtype=x.dtype, axis=axis, keepdims=keepdims)


def _infer_sum(x: Spec, out_dtype: str, **attrs: Any) -> Spec:
    return infer_reduced(x, **attrs).with_dtype(as_dtype(out_dtype) if out_dtype else x.dtype)


@op(
    "reduce_sum",
    "X -> Out",
    attrs={**ATTRS, "out_dtype": ""},
    infer=_infer_sum,
    grad=lambda g, out, x, out_dtype, **attrs: EXPAND_REDUCED(g, x, **attrs),
    grad_forward=_spread_back(average=False),
    bind=bind_sum,
    prepare=prepare_sum,
    grad_bind=bind_spread(average=False),
    grad_prepare=grad_prepare_spread(average=False),
    saved="",
    shape_only="X",
    layer="sum",
)
def REDUCE_SUM(xp: Any, x: Any, out_dtype: str, **where: Any) -> Any:
    """The sum over `dim`; `out_dtype` "" is the dtype of X."""
    target = as_dtype(out_dtype).numpy if out_dtype else x.dtype
    total = wide(x) if x.dtype == target else wide(x.astype(target))
    out = reduce_with(x, partial(_sum, total), **where)
    return out.astype(target, copy=False)


@op(
    "reduce_mean",
    "X -> Out",
    attrs=ATTRS,
    infer=infer_float("reduce_mean"),
    grad=lambda g, out, x, **attrs: EXPAND_REDUCED(g, x, average=True, **attrs),
    grad_forward=_spread_back(average=True),
    bind=bind_mean,
    prepare=prepare_mean,
    grad_bind=bind_spread(average=True),
    grad_prepare=grad_prepare_spread(average=True),
    saved="",
    shape_only="X",
    layer="mean",
)
def REDUCE_MEAN(xp: Any, x: Any, dim: Sequence[int], keep_dim: bool, reduce_all: bool, zero_dim: bool) -> Any:
    """The mean over `dim`."""
    total = reduce_with(x, partial(_sum, wide(x)), dim, keep_dim, reduce_all, zero_dim)
    count = math.prod(x.shape[i] for i in reduced_axes(x.ndim, dim, reduce_all))
    return rounded(total / (count or math.nan), x)


def _infer_mean(x: Spec, zero_dim: bool) -> Spec:
    require_float("mean", x)
    return x.with_shape(() if zero_dim else (1,))


@op(
    "mean",
    "X -> Out",
    attrs={"zero_dim": False},
    infer=_infer_mean,
    grad=lambda g, out, x, zero_dim: EXPAND_REDUCED(g, x, reduce_all=True, average=True, zero_dim=zero_dim),
    grad_forward=lambda xp, x, g, zero_dim, wanted=None: rounded(_spread(xp, g, x.shape, range(x.ndim), True), x),
    bind=bind_mean,
    prepare=prepare_mean,
    grad_bind=bind_spread(average=True),
    grad_prepare=grad_prepare_spread(average=True),
    saved="",
    shape_only="X",
)
def MEAN(xp: Any, x: Any, zero_dim: bool) -> Any:
    """The mean of all elements, shape [1] or []."""
    return rounded(wide(x).sum().reshape(() if zero_dim else (1,)) / (x.size or math.nan), x)


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
