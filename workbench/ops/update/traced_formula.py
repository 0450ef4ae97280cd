"""The formulas of parameter updates as expressions, from which kernels are made."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from workbench.framework.expr.expr import Expr, Recording


def traced(
    formula: Callable[..., tuple[Any, ...]], held: list[Any], scalars: list[Any], attrs: dict[str, Any],
    summands: int = 0,
) -> Any:  # fmt: skip
    """The results of a formula as expressions of `held + scalars`; scalars come in the dtype of the parameter.

    Args:
        summands: so many of the last in `held` are added to the gradient, one after the other.
    """
    work = held[0].dtype
    given = [*held, *scalars]
    inputs: list[Any] = [None if a is None else Expr("input", value=i, dtype=a.dtype) for i, a in enumerate(given)]
    own = len(held) - summands
    param, grad, *state = inputs[:own]
    for term in inputs[own : len(held)]:
        grad = grad + term
    rate, *powers = (e if e.dtype == work else e.astype(work.name) for e in inputs[len(held) :] if e is not None)
    return formula(Recording, param, grad, rate, *state, *powers, **attrs)


class Split:
    """Takes what depends on one-element inputs alone out of expressions.

    Attributes:
        expressions: the largest such parts; expressions get input `count + k` in place of the k-th.

    Args:
        first_scalar, count: inputs from `first_scalar` to `count` have one element.
    """

    def __init__(self, first_scalar: int, count: int) -> None:
        self.first_scalar, self.next = first_scalar, count
        self.expressions: list[Expr] = []
        self._inputs: dict[int, set[int]] = {}
        self._replaced: dict[int, Expr] = {}

    def uniform(self, expression: Expr) -> Expr:
        """The expression with such parts replaced."""
        if id(expression) not in self._replaced:
            self._replaced[id(expression)] = self._replacement(expression)
        return self._replaced[id(expression)]

    def _replacement(self, expression: Expr) -> Expr:
        if expression.function in ("input", "constant"):
            return expression
        read = self._read_by(expression)
        if read and min(read) >= self.first_scalar:
            self.expressions.append(expression)
            return Expr("input", value=self.next + len(self.expressions) - 1, dtype=expression.dtype)
        args = tuple(map(self.uniform, expression.args))
        return Expr(expression.function, args, expression.value, expression.dtype)

    def _read_by(self, expression: Expr) -> set[int]:
        if expression.function == "input":
            return {expression.value}
        if id(expression) not in self._inputs:
            self._inputs[id(expression)] = {i for a in expression.args for i in self._read_by(a)}
        return self._inputs[id(expression)]
