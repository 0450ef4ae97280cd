"""Functions of two tensors, element by element, of bits, divisors and angles."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from workbench.errors import DtypeError
from workbench.framework.op.declare import op
from workbench.framework.op.elementwise import elementwise
from workbench.framework.op.infix import tensor_method
from workbench.framework.op.record import Op
from workbench.framework.values.dtype import bool_
from workbench.framework.values.spec import Spec, broadcast_shapes, require_float, require_same_dtype
from workbench.ops.math.compare import LOGICAL_AND, LOGICAL_NOT, LOGICAL_OR, LOGICAL_XOR, refuse_out
from workbench.ops.pointwise import Tensor, binary

OFFERED = {"workbench": "atan2 bitwise_and bitwise_not bitwise_or bitwise_xor gcd lcm nextafter"}


def _infer_floats(what: str) -> Callable[..., Spec]:
    def infer(x: Spec, y: Spec) -> Spec:
        require_float(what, x, y)
        require_same_dtype(what, x, y)
        return x.with_shape(broadcast_shapes(x.shape, y.shape))

    return infer


def _infer_whole(what: str, kinds: str, has_bool: bool) -> Callable[..., Spec]:
    def infer(*specs: Spec) -> Spec:
        for spec in specs:
            if not (spec.dtype.is_integer or (has_bool and spec.dtype.kind == "bool")):
                raise DtypeError(f"{what} takes {kinds}", kinds, spec.dtype)
        require_same_dtype(what, *specs)
        return specs[0].with_shape(broadcast_shapes(*(s.shape for s in specs)))

    return infer


def _atan2_grad(g: Any, out: Any, x: Any, y: Any) -> Any:
    length = x * x + y * y
    return lambda: g * y / length, lambda: -(g * x / length)


@elementwise("atan2", "X1, X2 -> Out", infer=_infer_floats("atan2"), grad=_atan2_grad, saved="X1, X2")
def ATAN2(xp: Any, x: Any, y: Any) -> Any:
    """The angle of the point (y, x)."""
    return xp.arctan2(x, y)


@op("nextafter", "X, Y -> Out", infer=_infer_floats("nextafter"))
def NEXTAFTER(xp: Any, x: Any, y: Any) -> Any:
    """The number next to x towards y."""
    return xp.nextafter(x, y)


@op("gcd", "X, Y -> Out", infer=_infer_whole("gcd", "integers", False))
def GCD(xp: Any, x: Any, y: Any) -> Any:
    """The greatest common divisor."""
    return xp.gcd(x, y)


@op("lcm", "X, Y -> Out", infer=_infer_whole("lcm", "integers", False))
def LCM(xp: Any, x: Any, y: Any) -> Any:
    """The least common multiple."""
    return xp.lcm(x, y)


@elementwise("bitwise_and", "X, Y -> Out", infer=_infer_whole("bitwise_and", "integers or bool", True))
def BITWISE_AND(xp: Any, x: Any, y: Any) -> Any:
    """Bits that are set in both."""
    return xp.bitwise_and(x, y)


@elementwise("bitwise_or", "X, Y -> Out", infer=_infer_whole("bitwise_or", "integers or bool", True))
def BITWISE_OR(xp: Any, x: Any, y: Any) -> Any:
    """Bits that are set in one of the two."""
    return xp.bitwise_or(x, y)


@elementwise("bitwise_xor", "X, Y -> Out", infer=_infer_whole("bitwise_xor", "integers or bool", True))
def BITWISE_XOR(xp: Any, x: Any, y: Any) -> Any:
    """Bits that differ."""
    return xp.bitwise_xor(x, y)


@op("bitwise_not", "X -> Out", infer=_infer_whole("bitwise_not", "integers or bool", True))
def BITWISE_NOT(xp: Any, x: Any) -> Any:
    """Every bit turned."""
    return xp.invert(x)


@tensor_method("atan2")
def atan2(x: Tensor, y: Tensor, name: str | None = None) -> Any:
    """The angle in [-pi, pi] between the x axis and the point (y, x); integers are cast to float64.

    Args:
        x, y: tensors of one dtype that broadcast.

    Example:
        >>> print(wb.atan2(wb.to_tensor([1.0, -1.0]), wb.to_tensor([-1.0, 0.0])).numpy().round(3))
        [ 2.356 -1.571]
    """
    x, y = (v if v.dtype.is_float else v.astype("float64") for v in (x, y))
    return ATAN2(x, y, name=name)


@tensor_method("nextafter")
def nextafter(x: Tensor, y: Tensor, name: str | None = None) -> Any:
    """The number that comes after `x` on the way to `y`.

    Args:
        x, y: floating tensors of one dtype that broadcast.

    Example:
        >>> wb.nextafter(wb.to_tensor([1.0]), wb.to_tensor([2.0])).item() > 1.0
        True
    """
    return NEXTAFTER(x, y, name=name)


@tensor_method("gcd")
def gcd(x: Tensor, y: Tensor, name: str | None = None) -> Any:
    """The greatest common divisor, at least 0.

    Args:
        x, y: tensors of integers that broadcast.

    Example:
        >>> print(wb.gcd(wb.to_tensor([12, 0]), wb.to_tensor([20, 5])).numpy())
        [4 5]
    """
    return binary(GCD, x, y, name)


@tensor_method("lcm")
def lcm(x: Tensor, y: Tensor, name: str | None = None) -> Any:
    """The least common multiple, at least 0. Args: as for `gcd`.

    Example:
        >>> print(wb.lcm(wb.to_tensor([12, 0]), wb.to_tensor([20, 5])).numpy())
        [60  0]
    """
    return binary(LCM, x, y, name)


@tensor_method("bitwise_and")
def bitwise_and(x: Tensor, y: Tensor, out: Any = None, name: str | None = None) -> Any:
    """The bits that are set in both.

    Args:
        x, y: tensors of bool or integers, of one dtype, that broadcast.
        out: not supported, None.

    Raises:
        InvalidType: other dtypes, or `out` is given.

    Example:
        >>> print(wb.bitwise_and(wb.to_tensor([6, 5]), wb.to_tensor([3, 4])).numpy())
        [2 4]
    """
    refuse_out("bitwise_and", out)
    return binary(BITWISE_AND, x, y, name)


@tensor_method("bitwise_or")
def bitwise_or(x: Tensor, y: Tensor, out: Any = None, name: str | None = None) -> Any:
    """The bits that are set in one of the two. Args and Raises: as for `bitwise_and`.

    Example:
        >>> print(wb.bitwise_or(wb.to_tensor([6, 5]), wb.to_tensor([3, 4])).numpy())
        [7 5]
    """
    refuse_out("bitwise_or", out)
    return binary(BITWISE_OR, x, y, name)


@tensor_method("bitwise_xor")
def bitwise_xor(x: Tensor, y: Tensor, out: Any = None, name: str | None = None) -> Any:
    """The bits that differ. Args and Raises: as for `bitwise_and`.

    Example:
        >>> print(wb.bitwise_xor(wb.to_tensor([6, 5]), wb.to_tensor([3, 4])).numpy())
        [5 1]
    """
    refuse_out("bitwise_xor", out)
    return binary(BITWISE_XOR, x, y, name)


@tensor_method("bitwise_not")
def bitwise_not(x: Tensor, out: Any = None, name: str | None = None) -> Any:
    """Every bit turned. Args and Raises: as for `bitwise_and`.

    Example:
        >>> print(wb.bitwise_not(wb.to_tensor([0, 5])).numpy())
        [-1 -6]
    """
    refuse_out("bitwise_not", out)
    return (LOGICAL_NOT if x.dtype.kind == "bool" else BITWISE_NOT)(x, name=name)


def _operator(logical: Op, bitwise: Op) -> Callable[[Any, Any], Any]:
    """Of what is bool, the logical op, for which there are kernels."""

    def apply(x: Any, y: Any) -> Any:
        is_bool = all(isinstance(v, bool) or getattr(v, "dtype", None) is bool_ for v in (x, y))
        return binary(logical if is_bool else bitwise, x, y, None)

    return apply


tensor_method("__and__", "__rand__")(_operator(LOGICAL_AND, BITWISE_AND))
tensor_method("__or__", "__ror__")(_operator(LOGICAL_OR, BITWISE_OR))
tensor_method("__xor__", "__rxor__")(_operator(LOGICAL_XOR, BITWISE_XOR))
tensor_method("__invert__")(bitwise_not)
