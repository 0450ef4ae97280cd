"""Computing ops at once: the evaluator behind dynamic mode and behind every `_grad` op's default body.

The evaluator only ever calls `op.forward(xp, …)`, so handing it a recording `xp` (see `elementwise.py`) turns
any rule made of element-wise ops into an expression.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from workbench.errors import PreconditionNotMet
from workbench.framework.op.infix import Infix
from workbench.framework.op.record import Op
from workbench.framework.values.dtype import DType, as_dtype
from workbench.framework.values.random import RandomStream
from workbench.framework.values.sums import add_up


class EvaluatedArray(Infix):
    """An array while a rule is evaluated; has the infix operators of a Variable."""

    __slots__ = ("array",)

    def __init__(self, array: Any) -> None:
        self.array = array

    @property
    def shape(self) -> tuple[int, ...]:  # type: ignore[override]
        return tuple(self.array.shape)

    @property
    def dtype(self) -> DType:  # type: ignore[override]
        return as_dtype(self.array.dtype)


class Evaluator:
    """A recorder that computes with the array module `xp` and wraps results in `EvaluatedArray`."""

    name = "evaluate"
    zero_dim, is_eager = False, True

    def __init__(self, xp: Any) -> None:
        self.xp = xp

    def record(self, op: Op, inputs: tuple[Any, ...], attrs: dict[str, Any], name: str | None) -> Any:
        inputs, attrs = op.every_input(inputs), op.complete(attrs)
        arrays = [self.unwrap(value) for value in inputs]
        return self.wrap_outputs(op, op.forward(self.xp, *arrays, **self.extras(op, attrs), **attrs))

    def record_into(self, write: Any, given: dict[str, Any]) -> Any:
        """Rules make values, they write none."""
        raise PreconditionNotMet(f"op {write.op.type!r} writes existing values, which a gradient rule cannot do")

    def on_variables(self, function: Callable[..., Any], *given: Any) -> Any:
        """`function(*given)`: there are no variables."""
        return function(*given)

    def role_guard(self, role: int, pair: Sequence[Any]) -> AbstractContextManager[None]:
        """Nothing: there are no operators."""
        return nullcontext()

    def begin_update(self, optimizer: Any, pairs: Sequence[Any]) -> None:
        """Rules update nothing."""

    def extras(self, op: Op, attrs: dict[str, Any]) -> dict[str, Any]:
        """What the op `needs` besides attributes."""
        extra: dict[str, Any] = {}
        if "rng" in op.needs:
            extra["rng"] = self.stream(attrs)
        if "wanted" in op.needs:
            extra["wanted"] = (True,) * len(op.outputs)
        return extra

    def stream(self, attrs: dict[str, Any]) -> RandomStream:
        """The random stream of an op computed outside a program."""
        return RandomStream.dynamic(attrs.get("seed", 0))

    def unwrap(self, value: Any) -> Any:
        """The array(s) inside an input."""
        if isinstance(value, list | tuple):
            return [self.unwrap(v) for v in value]
        return value.array if isinstance(value, EvaluatedArray) else value

    def wrap(self, array: Any) -> Any:
        """An output as the caller sees it."""
        return EvaluatedArray(array)

    def wrap_outputs(self, op: Op, results: Any) -> Any:
        if len(op.outputs) == 1:
            return self._wrap_slot(results)
        return tuple(self._wrap_slot(r) for r in results)

    def _wrap_slot(self, result: Any) -> Any:
        if result is None:
            return None
        return [self.wrap(r) for r in result] if isinstance(result, list) else self.wrap(result)


def reduce_to(xp: Any, g: Any, shape: Sequence[int]) -> Any:
    """Sum `g` over the dimensions along which a value of `shape` was broadcast."""
    shape = tuple(shape)
    if g.shape == shape:
        return g
    extra = g.ndim - len(shape)
    axes = tuple(range(extra)) + tuple(i + extra for i, d in enumerate(shape) if d == 1 and g.shape[i + extra] != 1)
    return add_up(g, axes).reshape(shape) if axes else g.reshape(shape)
