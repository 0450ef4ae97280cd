"""Products, logic and log-sum-exp over dimensions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod as product_of
from typing import Any

from workbench.errors import DtypeError
from workbench.framework.op.declare import op
from workbench.framework.op.infix import tensor_method
from workbench.framework.op.rows import row_op
from workbench.framework.values.dtype import bool_
from workbench.framework.values.spec import Spec, groups_of
from workbench.ops.math.reductions.reduce import (
    ATTRS,
    ROWS,
    infer_float,
    infer_reduced,
    reduce_with,
    reduced_axes,
    reduction,
)
from workbench.ops.pointwise import Tensor

OFFERED = {"workbench": "all any logsumexp prod"}

# Products


def _prod_back(rows: Any, x: Any, g: Any) -> Any:
    """g times the product of the other elements, exact where elements are 0.

    A first derivative: the second one by two elements that are 0 comes out as 0.
    """
    is_zero = x == 0.0
    safe = rows.where(is_zero, 1.0, x)
    product = rows.prod(safe)
    zeros = rows.sum(is_zero.astype(x.dtype))
    alone = g * product * (zeros == 1.0)  # x is the only zero
    others = g * product * (zeros == 0.0)
    return rows.where(is_zero, alone, others / safe)


@row_op(
    "reduce_prod",
    "X -> Out",
    **ROWS,
    attrs=ATTRS,
    infer=infer_reduced,
    grad_body=_prod_back,
    saved="X",
    layer="prod",
)
def REDUCE_PROD(rows: Any, x: Any) -> Any:
    """The product over `dim`."""
    return rows.prod(x)


@tensor_method("prod")
def prod(x: Tensor, axis: Any = None, keepdim: bool = False, dtype: Any = None, name: str | None = None) -> Tensor:
    """The product over one, several or all dimensions.

    Args:
        x: tensor; axis, keepdim: as for `sum`.
        dtype: cast `x` to this dtype first.

    Returns:
        `x` without the reduced dimensions; shape [1] (in dynamic mode []) if none is left. An empty product is 1. The
        gradient is right where elements are 0, too.

    Raises:
        InvalidArgument: an axis that `x` does not have. InvalidType: an axis is no int.

    Example:
        >>> print(wb.prod(wb.to_tensor([[1.0, 2.0], [3.0, 4.0]]), axis=1).numpy())
        [ 2. 12.]
    """
    return REDUCE_PROD(x if dtype is None else x.astype(dtype), name=name, **reduction(axis, keepdim))


# Logic


def _infer_bool(what: str) -> Callable[..., Spec]:
    def infer(x: Spec, **attrs: Any) -> Spec:
        if x.dtype is not bool_:
            raise DtypeError(f"{what} takes a bool tensor; make one with a comparison", bool_, x.dtype)
        return infer_reduced(x, **attrs)

    return infer


def _kernel(is_any: bool) -> Callable[..., Any]:
    def row(x: Any, out: Any, dim: Sequence[int], reduce_all: bool, **attrs: Any) -> Any:
        """Over neighbouring axes."""
        groups = groups_of(x.shape, reduced_axes(x.ndim, dim, reduce_all))
        at = [number for number, (_, is_reduced) in enumerate(groups) if is_reduced] or [len(groups)]
        sizes = [size for size, _ in groups] + [1]
        outer, inner = product_of(sizes[: at[0]]), product_of(sizes[at[0] + 1 :])
        return len(at) == 1 and ("all_or_any", x, out, outer, sizes[at[0]], inner, is_any)

    return row


@op("reduce_all", "X -> Out", attrs=ATTRS, infer=_infer_bool("all"), kernel=_kernel(is_any=False), layer="all")
def REDUCE_ALL(xp: Any, x: Any, **attrs: Any) -> Any:
    """Whether every element is true."""
    return reduce_with(x, x.all, **attrs)


@op("reduce_any", "X -> Out", attrs=ATTRS, infer=_infer_bool("any"), kernel=_kernel(is_any=True), layer="any")
def REDUCE_ANY(xp: Any, x: Any, **attrs: Any) -> Any:
    """Whether some element is true."""
    return reduce_with(x, x.any, **attrs)


@tensor_method("all")
def all(x: Tensor, axis: Any = None, keepdim: bool = False, name: str | None = None) -> Tensor:
    """Whether every element is true, over one, several or all dimensions.

    Args:
        x: bool tensor; axis, keepdim: as for `sum`.

    Returns:
        a bool tensor without the reduced dimensions; shape [1] (in dynamic mode []) if none is left.

    Raises:
        InvalidType: `x` is not bool. InvalidArgument: an axis that `x` does not have.

    Example:
        >>> print(wb.all(wb.to_tensor([[True, False], [True, True]]), axis=1).numpy())
        [False  True]
    """
    return REDUCE_ALL(x, name=name, **reduction(axis, keepdim))


@tensor_method("any")
def any(x: Tensor, axis: Any = None, keepdim: bool = False, name: str | None = None) -> Tensor:
    """Whether some element is true, over one, several or all dimensions.

    Args, Returns and Raises: as for `all`.

    Example:
        >>> print(wb.any(wb.to_tensor([[True, False], [False, False]]), axis=1).numpy())
        [ True False]
    """
    return REDUCE_ANY(x, name=name, **reduction(axis, keepdim))


# log-sum-exp


def _logsumexp_back(rows: Any, x: Any, y: Any, g: Any) -> Any:
    return g * rows.exp(x - y)


@row_op(
    "logsumexp",
    "X -> Out",
    **ROWS,
    attrs=ATTRS,
    infer=infer_float("logsumexp"),
    grad_body=_logsumexp_back,
    saved="X, Out",
)
def LOGSUMEXP(rows: Any, x: Any) -> Any:
    """log(sum(exp(x))) over `dim`, without overflow; -inf for an empty sum."""
    top = rows.top(x)
    top = rows.where(rows.isfinite(top), top, 0.0)
    return rows.log(rows.sum(rows.exp(x - top))) + top


@tensor_method("logsumexp")
def logsumexp(x: Tensor, axis: Any = None, keepdim: bool = False, name: str | None = None) -> Tensor:
    """log(sum(exp(x))) over one, several or all dimensions, without overflow.

    Args:
        x: floating tensor; axis, keepdim: as for `sum`.

    Returns:
        `x` without the reduced dimensions; shape [1] (in dynamic mode []) if none is left.

    Raises:
        InvalidType: `x` is not floating, or an axis is no int.
        InvalidArgument: an axis that `x` does not have.

    Example:
        >>> print(wb.logsumexp(wb.to_tensor([[0.0, 0.0], [1.0, 2.0]]), axis=1).numpy().round(3))
        [0.693 2.313]
    """
    return LOGSUMEXP(x, name=name, **reduction(axis, keepdim))
