"""Sums of a list of tensors, dense or sparse, and counters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from workbench.errors import InvalidArgument, ShapeError
from workbench.framework.op.declare import op
from workbench.framework.op.elementwise import elementwise
from workbench.framework.op.infix import tensor_method
from workbench.framework.op.record import Cost
from workbench.framework.values import rows
from workbench.framework.values.spec import (
    DENSE,
    ROWS,
    Spec,
    merge_dim,
    require_same_dtype,
    same_dim,
    shape_text,
    size_of,
)
from workbench.ops.pointwise import Tensor, number_for, require_whole
from workbench.ops.precision import rounded, wide

OFFERED = {"workbench": "add_n increment"}


def _infer_sum(xs: list[Spec]) -> Spec:
    if not xs:
        raise ShapeError("a sum has at least one term", "1 or more tensors", 0)
    require_same_dtype("sum", *xs)
    shape = xs[0].shape
    for spec in xs[1:]:
        if len(spec.shape) != len(shape) or not all(map(same_dim, spec.shape, shape)):
            raise ShapeError("the terms of a sum have one shape", shape_text(shape), shape_text(spec.shape))
        shape = tuple(map(merge_dim, shape, spec.shape))
    return Spec(shape, xs[0].dtype, ROWS if all(s.kind == ROWS for s in xs) else DENSE)


def _added(xp: Any, xs: Sequence[Any]) -> Any:
    """The sum in order; of halves, it is computed in float32 and rounded once."""
    if all(isinstance(x, rows.Rows) for x in xs):
        return rows.add(xp, xs)
    return rounded(rows.add(xp, [wide(x) for x in xs]), xs[0])


def _sum_cost(xs: list[Spec]) -> Cost:
    n = max(size_of(xs[0].shape), 0)
    return Cost((len(xs) - 1) * n, (len(xs) + 1) * n * xs[0].dtype.itemsize)


@op(
    "sum",
    "X* -> Out",
    like_x="Out",
    infer=_infer_sum,
    grad=lambda g, out, xs: [g] * len(xs),
    saved="",
    shape_only="X",
    sparse="X",
    cost=_sum_cost,
)
def SUM(xp: Any, xs: Sequence[Any]) -> Any:
    """The sum of tensors of one shape, in order; rows (sparse) if every term is, otherwise dense."""
    if len(xs) == 1 and not isinstance(xs[0], rows.Rows):
        return xp.array(xs[0])
    return _added(xp, xs)


@tensor_method("add_n")
def add_n(inputs: Any, name: str | None = None) -> Tensor:
    """The sum of a list of tensors.

    Args:
        inputs: a tensor or a list of tensors of one shape and dtype.

    Raises:
        InvalidArgument: an empty list, or shapes that differ. InvalidType: dtypes that differ.

    Example:
        >>> print(wb.add_n([wb.to_tensor([1.0]), wb.to_tensor([2.0]), wb.to_tensor([3.0])]).numpy())
        [6.]
    """
    return SUM(list(inputs) if isinstance(inputs, list | tuple) else [inputs], name=name)


def _infer_increment(x: Spec, step: float) -> Spec:
    require_whole("increment", x, step)
    return x


@elementwise(
    "increment",
    "X -> Out",
    attrs={"step": 1.0},
    infer=_infer_increment,
    grad=lambda g, out, x, step: g,
    saved="",
    aliases={"Out": "X"},
)
def INCREMENT(xp: Any, x: Any, step: float) -> Any:
    """x + step, in place where Out is X."""
    return xp.add(x, number_for(x, step))


@tensor_method("increment")
def increment(x: Tensor, value: float = 1.0, name: str | None = None) -> Tensor:
    """Add `value` to a counter in place.

    Args:
        x: tensor of shape `[1]`; it is changed.

    Returns:
        `x`.

    Raises:
        InvalidArgument: x has another shape. InvalidType: a fractional value for an integer counter.

    Example:
        >>> print(wb.increment(wb.to_tensor([1.0]), value=2.0).numpy())
        [3.]
    """
    if tuple(x.shape) not in ((1,), ()):
        raise InvalidArgument(f"increment counts in a tensor of shape [1], got {shape_text(x.shape)}")
    return x.overwrite(INCREMENT, (x,), {"step": float(value)})  # type: ignore[attr-defined]
