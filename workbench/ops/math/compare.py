"""Comparisons, logic, and the choice between two tensors."""

from __future__ import annotations

from typing import Any

from workbench.errors import DtypeError, InvalidType, Unimplemented
from workbench.framework.op.elementwise import elementwise
from workbench.framework.op.infix import Infix, constant_like, is_number, tensor_method
from workbench.framework.values.dtype import bool_
from workbench.framework.values.spec import Spec, broadcast_shapes, require_same_dtype
from workbench.ops.arguments import has_value
from workbench.ops.pointwise import Tensor, binary
from workbench.ops.tensor.creation import zeros_like

OFFERED = {
    "workbench": (
        "equal greater_equal greater_than less_equal less_than logical_and logical_not logical_or logical_xor "
        "not_equal where"
    ),
}


@elementwise("equal", "X, Y -> Out", out_dtype=bool_)
def EQUAL(xp: Any, x: Any, y: Any) -> Any:
    """x == y."""
    return xp.equal(x, y)


@elementwise("not_equal", "X, Y -> Out", out_dtype=bool_)
def NOT_EQUAL(xp: Any, x: Any, y: Any) -> Any:
    """x != y."""
    return xp.not_equal(x, y)


@elementwise("less_than", "X, Y -> Out", out_dtype=bool_)
def LESS_THAN(xp: Any, x: Any, y: Any) -> Any:
    """x < y."""
    return xp.less(x, y)


@elementwise("less_equal", "X, Y -> Out", out_dtype=bool_)
def LESS_EQUAL(xp: Any, x: Any, y: Any) -> Any:
    """x <= y."""
    return xp.less_equal(x, y)


@elementwise("greater_than", "X, Y -> Out", out_dtype=bool_)
def GREATER_THAN(xp: Any, x: Any, y: Any) -> Any:
    """x > y."""
    return xp.greater(x, y)


@elementwise("greater_equal", "X, Y -> Out", out_dtype=bool_)
def GREATER_EQUAL(xp: Any, x: Any, y: Any) -> Any:
    """x >= y."""
    return xp.greater_equal(x, y)


@tensor_method("equal")
def equal(x: Tensor, y: Tensor, name: str | None = None) -> Tensor:
    """x == y element by element.

    Args:
        x, y: tensors of one dtype whose shapes broadcast; one may be a number.

    Returns:
        a bool tensor of the broadcast shape. NaN equals nothing.

    Raises:
        InvalidType: the dtypes differ. InvalidArgument: the shapes do not broadcast.

    Example:
        >>> print(wb.equal(wb.to_tensor([1, 2, 3]), wb.to_tensor([1, 0, 3])).numpy())
        [ True False  True]
    """
    return binary(EQUAL, x, y, name)


@tensor_method("not_equal")
def not_equal(x: Tensor, y: Tensor, name: str | None = None) -> Tensor:
    """x != y element by element. Args, Returns and Raises: as for `equal`.

    Example:
        >>> print(wb.not_equal(wb.to_tensor([1, 2, 3]), wb.to_tensor([1, 0, 3])).numpy())
        [False  True False]
    """
    return binary(NOT_EQUAL, x, y, name)


@tensor_method("less_than")
def less_than(x: Tensor, y: Tensor, name: str | None = None) -> Tensor:
    """x < y element by element. Args, Returns and Raises: as for `equal`.

    Example:
        >>> print(wb.less_than(wb.to_tensor([1, 2, 3]), wb.to_tensor([2, 2, 2])).numpy())
        [ True False False]
    """
    return binary(LESS_THAN, x, y, name)


@tensor_method("less_equal")
def less_equal(x: Tensor, y: Tensor, name: str | None = None) -> Tensor:
    """x <= y element by element. Args, Returns and Raises: as for `equal`.

    Example:
        >>> print(wb.less_equal(wb.to_tensor([1, 2, 3]), wb.to_tensor([2, 2, 2])).numpy())
        [ True  True False]
    """
    return binary(LESS_EQUAL, x, y, name)


@tensor_method("greater_than")
def greater_than(x: Tensor, y: Tensor, name: str | None = None) -> Tensor:
    """x > y element by element. Args, Returns and Raises: as for `equal`.

    Example:
        >>> print(wb.greater_than(wb.to_tensor([1, 2, 3]), wb.to_tensor([2, 2, 2])).numpy())
        [False False  True]
    """
    return binary(GREATER_THAN, x, y, name)


@tensor_method("greater_equal")
def greater_equal(x: Tensor, y: Tensor, name: str | None = None) -> Tensor:
    """x >= y element by element. Args, Returns and Raises: as for `equal`.

    Example:
        >>> print(wb.greater_equal(wb.to_tensor([1, 2, 3]), wb.to_tensor([2, 2, 2])).numpy())
        [False  True  True]
    """
    return binary(GREATER_EQUAL, x, y, name)


# Logic: a number other than zero counts as true


@elementwise("logical_and", "X, Y -> Out", out_dtype=bool_)
def LOGICAL_AND(xp: Any, x: Any, y: Any) -> Any:
    """x and y."""
    return xp.logical_and(x, y)


@elementwise("logical_or", "X, Y -> Out", out_dtype=bool_)
def LOGICAL_OR(xp: Any, x: Any, y: Any) -> Any:
    """x or y."""
    return xp.logical_or(x, y)


@elementwise("logical_xor", "X, Y -> Out", out_dtype=bool_)
def LOGICAL_XOR(xp: Any, x: Any, y: Any) -> Any:
    """x or y, not both."""
    return xp.logical_xor(x, y)


@elementwise("logical_not", "X -> Out", out_dtype=bool_)
def LOGICAL_NOT(xp: Any, x: Any) -> Any:
    """not x."""
    return xp.logical_not(x)


def _logical(op: Any, x: Any, y: Any, out: Any, name: str | None) -> Any:
    refuse_out(op.type, out)
    return binary(op, x, y, name)


def refuse_out(what: str, out: Any) -> None:
    """Refuse Paddle's `out` argument.

    Raises:
        InvalidType: it is given.
    """
    if out is not None:
        raise InvalidType(f"{what} gives a new tensor; use assign(result, output=...) to write into an existing one")


@tensor_method("logical_and")
def logical_and(x: Tensor, y: Tensor, out: Any = None, name: str | None = None) -> Tensor:
    """x and y element by element; a number other than zero counts as true.

    Args:
        x, y: tensors of one dtype (bool or any other) whose shapes broadcast.
        out: not supported, None.

    Returns:
        a bool tensor of the broadcast shape.

    Raises:
        InvalidType: the dtypes differ, or `out` is given. InvalidArgument: the shapes do not broadcast.

    Example:
        >>> print(wb.logical_and(wb.to_tensor([True, True]), wb.to_tensor([True, False])).numpy())
        [ True False]
    """
    return _logical(LOGICAL_AND, x, y, out, name)


@tensor_method("logical_or")
def logical_or(x: Tensor, y: Tensor, out: Any = None, name: str | None = None) -> Tensor:
    """x or y element by element. Args, Returns and Raises: as for `logical_and`.

    Example:
        >>> print(wb.logical_or(wb.to_tensor([True, False]), wb.to_tensor([False, False])).numpy())
        [ True False]
    """
    return _logical(LOGICAL_OR, x, y, out, name)


@tensor_method("logical_xor")
def logical_xor(x: Tensor, y: Tensor, out: Any = None, name: str | None = None) -> Tensor:
    """Exactly one of x and y, element by element. Args, Returns and Raises: as for `logical_and`.

    Example:
        >>> print(wb.logical_xor(wb.to_tensor([True, True]), wb.to_tensor([True, False])).numpy())
        [False  True]
    """
    return _logical(LOGICAL_XOR, x, y, out, name)


@tensor_method("logical_not")
def logical_not(x: Tensor, out: Any = None, name: str | None = None) -> Tensor:
    """not x element by element: true where x is zero or false. Args and Raises: as for `logical_and`.

    Example:
        >>> print(wb.logical_not(wb.to_tensor([True, False])).numpy())
        [False  True]
    """
    refuse_out("logical_not", out)
    return LOGICAL_NOT(x, name=name)


# Choice


def _infer_where(condition: Spec, x: Spec, y: Spec) -> Spec:
    if condition.dtype is not bool_:
        raise DtypeError("the condition of where is bool; make one with a comparison", bool_, condition.dtype)
    require_same_dtype("where", x, y)
    return x.with_shape(broadcast_shapes(condition.shape, x.shape, y.shape))


def _where_grad(g: Any, out: Any, condition: Any, x: Any, y: Any) -> tuple[Any, ...]:
    return None, lambda: WHERE(condition, g, zeros_like(g)), lambda: WHERE(condition, zeros_like(g), g)


@elementwise(
    "where",
    "Condition, X, Y -> Out",
    infer=_infer_where,
    grad=_where_grad,
    saved="Condition",
    shape_only="X, Y",
    no_grad="Condition",
)
def WHERE(xp: Any, condition: Any, x: Any, y: Any) -> Any:
    """x where the condition holds, y elsewhere."""
    return xp.where(condition, x, y)


@tensor_method("where")
def where(condition: Tensor, x: Any = None, y: Any = None, name: str | None = None) -> Tensor:
    """x where the condition holds, y elsewhere, element by element.

    Args:
        condition: bool tensor.
        x, y: tensors of one dtype; one of them may be a number. All three shapes broadcast. Without both, in dynamic
            mode, the result is the positions where the condition holds, as of `nonzero(as_tuple=True)`.

    Returns:
        a tensor of the broadcast shape. Gradients flow to `x` and `y`, never to `condition`.

    Raises:
        InvalidType: the condition is not bool, the dtypes of x and y differ, or both are numbers.
        InvalidArgument: the shapes do not broadcast.
        Unimplemented: x or y is missing, in a program.

    Example:
        >>> x = wb.to_tensor([-1.0, 2.0])
        >>> print(wb.where(x > 0, x, x * 0.1).numpy())
        [-0.1  2. ]
    """
    if x is None and y is None and has_value(condition):
        return condition.nonzero(as_tuple=True)  # type: ignore[attr-defined]
    if x is None or y is None:
        raise Unimplemented(
            "where of a program needs x and y: a list of positions would have a shape known only when it runs"
        )
    if is_number(x) and isinstance(y, Infix):
        x = constant_like(y, x)
    elif is_number(y) and isinstance(x, Infix):
        y = constant_like(x, y)
    elif is_number(x) and is_number(y):
        raise InvalidType(f"where takes at least one tensor to choose from, got the numbers {x} and {y}")
    return WHERE(condition, x, y, name=name)
