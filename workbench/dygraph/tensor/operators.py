"""Python's operators on tensors, the quick way where nothing has to be promoted: both of one dtype, or a number.

What they give is what `Infix` gives; other operands go there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from workbench.dygraph.tensor.tensor import Tensor
from workbench.dygraph.witness import witness
from workbench.framework.op.infix import Infix
from workbench.framework.op.record import Op
from workbench.framework.op.recorder import current_recorder
from workbench.ops.math import arithmetic as math
from workbench.ops.math import compare

_NOTHING: dict[str, Any] = {}


def _binary(op: Op, name: str) -> Callable[[Tensor, Any], Any]:
    general = getattr(Infix, name)

    def method(x: Tensor, other: Any) -> Any:
        if isinstance(other, Tensor) and x.kind.dtype is other.kind.dtype:
            return current_recorder().record(op, (x, other), _NOTHING, None)
        return general(x, other)

    return _named(method, general)


def _scaling(op: Op, name: str, attrs: Callable[[Any], dict[str, Any]]) -> Callable[[Tensor, Any], Any]:
    """An operator that is a scale where the other operand is a number."""
    general = getattr(Infix, name)

    def method(x: Tensor, other: Any) -> Any:
        if isinstance(other, Tensor):
            if x.kind.dtype is other.kind.dtype:
                return current_recorder().record(op, (x, other), _NOTHING, None)
        elif type(other) is float and x.kind.is_float:
            return current_recorder().record(math.SCALE, (x,), attrs(other), None)
        return general(x, other)

    return _named(method, general)


def _named(method: Callable[[Tensor, Any], Any], general: Any) -> Callable[[Tensor, Any], Any]:
    method.__name__, method.__qualname__, method.__doc__ = general.__name__, general.__qualname__, general.__doc__
    return method


OPERATORS: dict[str, Callable[[Tensor, Any], Any]] = {
    "__add__": _scaling(math.ADD, "__add__", lambda number: {"scale": 1.0, "bias": number}),
    "__radd__": _scaling(math.ADD, "__radd__", lambda number: {"scale": 1.0, "bias": number}),
    "__sub__": _scaling(math.SUB, "__sub__", lambda number: {"scale": 1.0, "bias": -number}),
    "__mul__": _scaling(math.MUL, "__mul__", lambda number: {"scale": number, "bias": 0.0}),
    "__rmul__": _scaling(math.MUL, "__rmul__", lambda number: {"scale": number, "bias": 0.0}),
    **{name: _binary(op, name) for name, op in {
        "__lt__": compare.LESS_THAN, "__le__": compare.LESS_EQUAL, "__gt__": compare.GREATER_THAN,
        "__ge__": compare.GREATER_EQUAL, "__eq__": compare.EQUAL, "__ne__": compare.NOT_EQUAL,
    }.items()},
}  # fmt: skip


def _operand(x: Tensor, other: Any) -> Any:
    """What infix operators take in the place of what is no number: a tensor, or an array, as a constant."""
    if not isinstance(other, np.ndarray):
        return Infix.operand(x, other)
    constant = Tensor(np.array(other))
    if (seen := witness.get()) is not None:
        seen.saw_made(constant)
    return constant


_divided = _binary(math.DIV, "__truediv__")


def _divide(x: Tensor, other: Any) -> Any:
    return _divided(x, other) if x.kind.is_float else Infix.__truediv__(x, other)


for _name, _method in {**OPERATORS, "__truediv__": _named(_divide, Infix.__truediv__), "operand": _operand}.items():
    setattr(Tensor, _name, _method)
