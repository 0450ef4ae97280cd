"""Dynamic mode's recorder, and switching between the modes. Dynamic mode is the default, as in Paddle 2.x."""

from __future__ import annotations

from typing import Any

import numpy as np

from workbench.dygraph.tensor import Tensor
from workbench.errors import InvalidType
from workbench.framework.expr.numpy_functions import numpy_xp
from workbench.framework.op.evaluate import Evaluator
from workbench.framework.op.record import Op
from workbench.framework.op.recorder import has_mode, set_mode
from workbench.framework.program import guard
from workbench.framework.program.infer import infer
from workbench.framework.program.variable import Variable
from workbench.framework.site import caller
from workbench.framework.values.spec import spec_of


class DynamicRecorder(Evaluator):
    """Computes every applied op at once on Tensors (or NumPy arrays)."""

    name = "dynamic"

    def record(self, op: Op, inputs: tuple[Any, ...], attrs: dict[str, Any], name: str | None) -> Any:
        arrays = tuple(self._array(op, value) for value in inputs)
        infer(op, [_specs(a) for a in arrays], attrs, [None] * len(arrays), caller())
        return super().record(op, arrays, attrs, name)

    def wrap(self, array: Any) -> Tensor:
        return Tensor(array)

    def _array(self, op: Op, value: Any) -> Any:
        if value is None:
            return None
        if isinstance(value, list | tuple):
            return [self._array(op, v) for v in value]
        if isinstance(value, Tensor):
            return value.array
        if isinstance(value, np.ndarray | np.generic):
            return np.array(value)  # an op may return a view, and the caller goes on using the array
        if isinstance(value, Variable):
            raise InvalidType(
                f"op {op.type!r} got {value.name!r}, a Variable of a static Program, in dynamic mode; "
                "call enable_static() before building a program"
            )
        raise InvalidType(f"op {op.type!r} takes Tensors, got {type(value).__name__} {value!r}; use to_tensor()")


def _specs(value: Any) -> Any:
    if value is None:
        return None
    return [spec_of(v) for v in value] if isinstance(value, list) else spec_of(value)


dynamic_recorder = DynamicRecorder(numpy_xp)


def enable_static() -> None:
    """From now on ops append to the default main program.

    Example:
        >>> wb.enable_static()
        >>> wb.in_dynamic_mode()
        False
    """
    set_mode(guard.static_recorder)


def disable_static(place: Any = None) -> None:
    """From now on ops compute at once.

    Example:
        >>> wb.disable_static()
        >>> wb.in_dynamic_mode()
        True
    """
    set_mode(dynamic_recorder)


def default_mode() -> None:
    """Dynamic mode, as in Paddle 2.x, unless a mode was chosen before (workbench is imported again)."""
    if not has_mode():
        disable_static()


def in_dynamic_mode() -> bool:
    """Whether ops compute at once.

    Example:
        >>> wb.in_dynamic_mode()
        True
    """
    return not guard.in_static_mode()
