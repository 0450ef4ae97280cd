"""`fluid.layers`: comparisons, logic and counters, which in 1.x may write into a variable that is there already."""

from __future__ import annotations

from typing import Any

from workbench.framework.op.record import Op
from workbench.ops.math import compare as ops
from workbench.ops.math.reductions.accumulate import INCREMENT
from workbench.ops.math.reductions.accumulate import increment as counted


def _into(op: Op, operands: tuple[Any, ...], out: Any, otherwise: Any, name: str | None = None) -> Any:
    return otherwise(*operands, name=name) if out is None else out.overwrite(op, operands, {})


def equal(x: Any, y: Any, cond: Any = None) -> Any:
    """x == y, element by element.

    Args:
        x, y: variables of one dtype whose shapes broadcast.
        cond: a bool variable of the result's shape to write into, as the condition of a `While`.

    Raises:
        InvalidArgument: shapes that do not broadcast, or a `cond` of another shape or dtype.
        InvalidType: dtypes that differ.

    Example:
        >>> import workbench.fluid as fluid
        >>> x = fluid.data("x", [None, 3])
        >>> fluid.layers.equal(x, x).shape
        (-1, 3)
    """
    return _into(ops.EQUAL, (x, y), cond, ops.equal)


def not_equal(x: Any, y: Any, cond: Any = None) -> Any:
    """x != y; see `equal`."""
    return _into(ops.NOT_EQUAL, (x, y), cond, ops.not_equal)


def less_than(x: Any, y: Any, force_cpu: bool | None = None, cond: Any = None) -> Any:
    """x < y; see `equal`. `force_cpu` is accepted for Paddle's sake."""
    return _into(ops.LESS_THAN, (x, y), cond, ops.less_than)


def less_equal(x: Any, y: Any, cond: Any = None) -> Any:
    """x <= y; see `equal`."""
    return _into(ops.LESS_EQUAL, (x, y), cond, ops.less_equal)


def greater_than(x: Any, y: Any, cond: Any = None) -> Any:
    """x > y; see `equal`."""
    return _into(ops.GREATER_THAN, (x, y), cond, ops.greater_than)


def greater_equal(x: Any, y: Any, cond: Any = None) -> Any:
    """x >= y; see `equal`."""
    return _into(ops.GREATER_EQUAL, (x, y), cond, ops.greater_equal)


def logical_and(x: Any, y: Any, out: Any = None, name: str | None = None) -> Any:
    """x and y, element by element, of two bool variables; written into `out` if given.

    Raises:
        InvalidArgument: shapes that do not broadcast, or an `out` of another shape or dtype.
    """
    return _into(ops.LOGICAL_AND, (x, y), out, ops.logical_and, name)


def logical_or(x: Any, y: Any, out: Any = None, name: str | None = None) -> Any:
    """x or y; see `logical_and`."""
    return _into(ops.LOGICAL_OR, (x, y), out, ops.logical_or, name)


def logical_xor(x: Any, y: Any, out: Any = None, name: str | None = None) -> Any:
    """Whether one of two is true; see `logical_and`."""
    return _into(ops.LOGICAL_XOR, (x, y), out, ops.logical_xor, name)


def logical_not(x: Any, out: Any = None, name: str | None = None) -> Any:
    """not x; see `logical_and`."""
    return _into(ops.LOGICAL_NOT, (x,), out, ops.logical_not, name)


def increment(x: Any, value: float = 1.0, in_place: bool = True) -> Any:
    """x + value, of a counter of one element; written into `x`, unless `in_place` is False.

    Raises:
        InvalidArgument: `x` has more elements. InvalidType: a fractional value for an integer counter.

    Example:
        >>> import workbench.fluid as fluid
        >>> i = fluid.layers.fill_constant([1], "int64", 3)
        >>> fluid.layers.increment(i) is i
        True
    """
    return counted(x, value) if in_place else INCREMENT(x, step=float(value))
