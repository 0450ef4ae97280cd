"""Python operators on tensors, shared by Variable (static) and Tensor (dynamic).

Operators find their ops by type, so this file stays below `ops`. A Python number becomes an attribute where
an op takes one (`x * 2` is `scale`), otherwise a constant of the tensor's dtype.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from workbench.errors import InvalidType
from workbench.framework.op.record import find_op
from workbench.framework.op.recorder import zero_dim
from workbench.framework.values.dtype import DType, as_dtype, float32, promote

LAYER = "tmp"  # rule P-5: results of operators are counted as tmp_0, tmp_1, …


def is_number(value: object) -> bool:
    """A Python number, or a NumPy scalar or array without dimensions."""
    if isinstance(value, int | float | np.number | np.bool_):
        return True
    return isinstance(value, np.ndarray) and value.shape == ()


def _plain(number: Any) -> Any:
    """The Python number in a NumPy scalar, so that attributes stay plain."""
    return number.item() if isinstance(number, np.generic | np.ndarray) else number


def fit_to_number(x: Any, number: Any) -> Any:
    """`x`, cast to float32 where an integer tensor meets a fractional number."""
    if isinstance(number, float | np.floating) and not x.dtype.is_float:
        return x.astype(float32)
    return x


def constant_like(x: Any, number: Any) -> Any:
    """A tensor without dimensions that holds `number` in the dtype of `x`."""
    return find_op("fill_constant")(shape=(), value=_plain(number), dtype=x.dtype.name, name=LAYER)


def _pair(x: Any, other: Any) -> tuple[Any, Any]:
    if is_number(other):
        x = fit_to_number(x, other)
        return x, constant_like(x, other)
    if x.dtype is other.dtype:
        return x, other
    dtype = promote(x.dtype, other.dtype)
    return x.astype(dtype), other.astype(dtype)


def _binary(type: str, x: Any, other: Any, swapped: bool = False) -> Any:
    if not is_number(other):
        other = x.operand(other)
        if other is NotImplemented:
            return NotImplemented
    x, y = _pair(x, other)
    return find_op(type)(y, x, name=LAYER) if swapped else find_op(type)(x, y, name=LAYER)


def _can_be_inverted(number: Any) -> bool:
    return bool(number) and math.isfinite(1.0 / _plain(number))


def _scale(x: Any, scale: float, bias: float) -> Any:
    return find_op("scale")(x, scale=_plain(scale), bias=_plain(bias), name=LAYER)


def not_a_variable(what: str, value: Any) -> InvalidType:
    """The error for something that is no Variable, beginning `what` ("fc takes Variables as x")."""
    if not isinstance(value, Infix):
        return InvalidType(f"{what}, got {value!r}")
    return InvalidType(
        f"{what}, got a Tensor computed in dynamic mode: {value.dtype}{list(value.shape)}; call enable_static() first, "
        "declare what the program is fed with static.data, or put a constant into it with assign()"
    )


class Infix:
    """Mixin of the infix operators; the class has `shape` and `dtype`."""

    __slots__ = ()
    __array_priority__ = 100  # NumPy arrays leave `array + tensor` to us
    __array_ufunc__ = None

    shape: tuple[int, ...]
    dtype: DType

    if TYPE_CHECKING:  # attached by `tensor_method`

        def __getitem__(self, index: Any) -> Any: ...

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    def astype(self, dtype: Any) -> Any:
        """The tensor in another dtype (itself if it has it already)."""
        dtype = as_dtype(dtype)
        return self if dtype is self.dtype else find_op("cast")(self, dtype=dtype.name)

    cast = astype

    def operand(self, other: Any) -> Any:
        """What infix operators take in the place of what is no number; NotImplemented for what they do not take."""
        return other if isinstance(other, Infix) else NotImplemented

    def __neg__(self) -> Any:
        return _scale(self, -1.0, 0.0)

    def __add__(self, other: Any) -> Any:
        if is_number(other):
            return _scale(fit_to_number(self, other), 1.0, other)
        return _binary("elementwise_add", self, other)

    __radd__ = __add__

    def __sub__(self, other: Any) -> Any:
        if is_number(other):
            return _scale(fit_to_number(self, other), 1.0, -other)
        return _binary("elementwise_sub", self, other)

    def __rsub__(self, other: Any) -> Any:
        if is_number(other):
            return _scale(fit_to_number(self, other), -1.0, other)
        return _binary("elementwise_sub", self, other, swapped=True)

    def __mul__(self, other: Any) -> Any:
        if is_number(other):
            return _scale(fit_to_number(self, other), other, 0.0)
        return _binary("elementwise_mul", self, other)

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> Any:
        x = self if self.dtype.is_float else self.astype(float32)
        if is_number(other) and _can_be_inverted(other):
            return _scale(x, 1.0 / _plain(other), 0.0)  # rounded as in Paddle
        return _binary("elementwise_div", x, other)

    def __rtruediv__(self, other: Any) -> Any:
        x = self if self.dtype.is_float else self.astype(float32)
        return _binary("elementwise_div", x, other, swapped=True)

    def __floordiv__(self, other: Any) -> Any:
        return _binary("elementwise_floordiv", self, other)

    def __rfloordiv__(self, other: Any) -> Any:
        return _binary("elementwise_floordiv", self, other, swapped=True)

    def __mod__(self, other: Any) -> Any:
        return _binary("elementwise_mod", self, other)

    def __rmod__(self, other: Any) -> Any:
        return _binary("elementwise_mod", self, other, swapped=True)

    def __pow__(self, other: Any) -> Any:
        if is_number(other):
            return find_op("pow")(fit_to_number(self, other), factor=float(other), name=LAYER)
        return _binary("elementwise_pow", self, other)

    def __rpow__(self, other: Any) -> Any:
        return _binary("elementwise_pow", self, other, swapped=True)

    def __matmul__(self, other: Any) -> Any:
        other = self.operand(other)
        if other is NotImplemented:
            return NotImplemented
        if self.ndim == 1 == other.ndim and zero_dim():
            return find_op("dot")(self, other, zero_dim=True, name=LAYER)
        return find_op("matmul_v2")(self, other, name=LAYER)

    def __lt__(self, other: Any) -> Any:
        return _binary("less_than", self, other)

    def __le__(self, other: Any) -> Any:
        return _binary("less_equal", self, other)

    def __gt__(self, other: Any) -> Any:
        return _binary("greater_than", self, other)

    def __ge__(self, other: Any) -> Any:
        return _binary("greater_equal", self, other)

    def __eq__(self, other: object) -> Any:
        return _binary("equal", self, other)

    def __ne__(self, other: object) -> Any:
        return _binary("not_equal", self, other)

    __hash__ = object.__hash__

    def __abs__(self) -> Any:
        return find_op("abs")(self, name=LAYER)


F = TypeVar("F", bound=Callable[..., Any])


def tensor_method(*names: str) -> Callable[[F], F]:
    """Make a public function a method of Variables and Tensors: `@tensor_method("sum")` gives `x.sum(axis)`."""

    def attach(function: F) -> F:
        for name in names:
            setattr(Infix, name, function)
        return function

    return attach
