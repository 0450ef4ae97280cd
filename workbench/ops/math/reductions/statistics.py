"""Variance and deviation, sums that leave NaN out, and whether tensors are nearly equal; composed of other ops."""

from __future__ import annotations

from typing import Any

from workbench.errors import InvalidArgument
from workbench.framework.op.infix import tensor_method
from workbench.ops.math.compare import equal, where
from workbench.ops.math.reductions.folds import all as reduce_all
from workbench.ops.math.reductions.reduce import mean
from workbench.ops.math.reductions.reduce import sum as reduce_sum
from workbench.ops.math.unary import abs, isfinite, isnan, sqrt
from workbench.ops.pointwise import Tensor
from workbench.ops.tensor.creation import full_like, ones_like
from workbench.ops.tensor.shape import numel

OFFERED = {"workbench": "allclose count_nonzero equal_all is_empty isclose nanmean nansum std var"}


@tensor_method("var")
def var(x: Tensor, axis: Any = None, unbiased: bool = True, keepdim: bool = False, name: str | None = None) -> Any:
    """The mean squared distance from the mean.

    Args:
        x: floating tensor.
        axis, keepdim: as for `mean`.
        unbiased: divide by n - 1 instead of n; the variance of one element is 0 then.

    Raises:
        InvalidType, InvalidArgument: as for `mean`.

    Example:
        >>> print(wb.var(wb.to_tensor([[1.0, 2.0, 3.0], [1.0, 4.0, 5.0]]), axis=1).numpy().round(4))
        [1.     4.3333]
    """
    away = x - mean(x, axis, keepdim=True)
    squares = away * away
    if not unbiased:
        return mean(squares, axis, keepdim, name=name)
    total = reduce_sum(squares, axis, keepdim=keepdim)
    count = reduce_sum(ones_like(squares), axis, keepdim=keepdim)
    return total / where(count > 1.0, count - 1.0, full_like(count, 1.0))


@tensor_method("std")
def std(x: Tensor, axis: Any = None, unbiased: bool = True, keepdim: bool = False, name: str | None = None) -> Any:
    """The square root of `var`. Args and Raises: as there.

    Example:
        >>> print(wb.std(wb.to_tensor([1.0, 2.0, 3.0])).item())
        1.0
    """
    return sqrt(var(x, axis, unbiased, keepdim), name=name)


@tensor_method("nansum")
def nansum(x: Tensor, axis: Any = None, dtype: Any = None, keepdim: bool = False, name: str | None = None) -> Any:
    """The sum with NaN as 0. Args, Returns and Raises: as for `sum`.

    Example:
        >>> print(wb.nansum(wb.to_tensor([1.0, float("nan"), 2.0])).item())
        3.0
    """
    return reduce_sum(where(isnan(x), 0.0, x), axis, dtype, keepdim, name)


@tensor_method("nanmean")
def nanmean(x: Tensor, axis: Any = None, keepdim: bool = False, name: str | None = None) -> Any:
    """The mean of what is not NaN; NaN where everything is. Args, Returns and Raises: as for `mean`.

    Example:
        >>> print(wb.nanmean(wb.to_tensor([1.0, float("nan"), 3.0])).item())
        2.0
    """
    there = reduce_sum((~isnan(x)).astype(x.dtype), axis, keepdim=keepdim)
    return nansum(x, axis, keepdim=keepdim) / there


@tensor_method("count_nonzero")
def count_nonzero(x: Tensor, axis: Any = None, keepdim: bool = False, name: str | None = None) -> Any:
    """How many elements are not 0, as int64. Args and Raises: as for `sum`.

    Example:
        >>> print(wb.count_nonzero(wb.to_tensor([[0.0, 1.0], [2.0, 3.0]]), axis=0).numpy())
        [1 2]
    """
    return reduce_sum((x.astype("bool")).astype("int64"), axis, keepdim=keepdim, name=name)


@tensor_method("isclose")
def isclose(
    x: Tensor, y: Tensor, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False, name: str | None = None
) -> Any:
    """Where `|x - y| <= atol + rtol * |y|`, or both are the same infinity.

    Args:
        x, y: floating tensors of one dtype that broadcast.
        equal_nan: NaN counts as close to NaN.

    Raises:
        InvalidArgument: a negative rtol or atol.

    Example:
        >>> print(wb.isclose(wb.to_tensor([1.0, 2.0]), wb.to_tensor([1.000001, 3.0])).numpy())
        [ True False]
    """
    if rtol < 0 or atol < 0:
        raise InvalidArgument(f"isclose takes rtol and atol >= 0, got {rtol} and {atol}")
    close = (abs(x - y) <= abs(y) * rtol + atol) & isfinite(y)
    close = close | equal(x, y)
    return close | (isnan(x) & isnan(y)) if equal_nan else close


@tensor_method("allclose")
def allclose(
    x: Tensor, y: Tensor, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False, name: str | None = None
) -> Any:
    """Whether `isclose` holds everywhere. Args and Raises: as there.

    Example:
        >>> wb.allclose(wb.to_tensor([1.0]), wb.to_tensor([1.000001])).item()
        True
    """
    return reduce_all(isclose(x, y, rtol, atol, equal_nan), name=name)


@tensor_method("equal_all")
def equal_all(x: Tensor, y: Tensor, name: str | None = None) -> Any:
    """Whether two tensors have one shape and equal elements, as a tensor of bool.

    Example:
        >>> wb.equal_all(wb.ones([2]), wb.ones([2])).item(), wb.equal_all(wb.ones([2]), wb.ones([3])).item()
        (True, False)
    """
    if len(x.shape) != len(y.shape) or any(a != b and -1 not in (a, b) for a, b in zip(x.shape, y.shape, strict=True)):
        return numel(x) < 0
    return reduce_all(equal(x, y), name=name)


@tensor_method("is_empty")
def is_empty(x: Tensor, name: str | None = None) -> Any:
    """Whether `x` has no elements, as a tensor of bool.

    Example:
        >>> wb.is_empty(wb.zeros([0, 3])).item()
        True
    """
    return numel(x) == 0
