"""Prepared calls of the parameter updates (see `bound`): the formulas of `optimizers`, traced and bound to buffers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from workbench.framework.expr.expr import Expr, Recording
from workbench.framework.expr.lowered import lower
from workbench.framework.expr.step_calls import copy_calls, ufunc_calls
from workbench.framework.op.ufuncs import bind_expression
from workbench.ops.bound import Calls, Scratch, copied, is_wide, number

BLOCK = 32768  # elements: 128 KiB in float32, a few of which stay in the second-level cache


def bind_update(
    formula: Callable[..., tuple[Any, ...]], betas: Sequence[str],
    outs: Sequence[Any], arrays: Sequence[Any], scratch: Scratch, attrs: dict[str, Any],
) -> Calls | None:  # fmt: skip
    """Callables for one update, which may be in place.

    Rate and powers are read when the callables run. What depends on them alone is computed first, in arrays of one
    element; so the rest is uniform, and long parameters can go block by block.

    Args:
        formula, betas: as in `Update`.
        outs, arrays: of the op: parameter, gradient, rate, accumulators, powers.

    Returns:
        None for sparse gradients, half precision, and gradients of another dtype than the parameter's.
    """
    count = len(arrays) - len(betas)
    param, grad, rate, *state = arrays[:count]
    powers = arrays[count:]
    if not is_wide(param, grad, *(a for a in state if a is not None)) or not is_wide(rate):
        return None
    if not all(is_wide(power) for power in powers):
        return None
    held = [param, grad, *state]
    scalars = [a.reshape(()) for a in (rate, *powers)]
    results = traced(formula, held, scalars, attrs)
    wanted = [(r, out) for r, out in zip(results, outs, strict=False) if r is not None and out is not None]
    split = Split(len(held), len(held + scalars))
    remaining = [split.uniform(r) for r, _ in wanted]
    calls, numbers = _one_by_one(split.expressions, held + scalars, scratch)
    rest = _in_blocks(remaining, held, [*scalars, *numbers], [out for _, out in wanted], scratch)
    if rest is None:
        return None
    return [*calls, *rest, *_powered(powers, outs[len(state) + 1 :], [attrs[beta] for beta in betas], scratch)]


def _in_blocks(
    results: Sequence[Expr], held: Sequence[Any], scalars: Sequence[Any], outs: Sequence[Any], scratch: Scratch
) -> Calls | None:
    """Calls for uniform expressions; long parameters block by block, so that temporaries stay in the cache."""
    size = held[0].size
    if size <= 2 * BLOCK or not all(a.flags.c_contiguous for a in [*held, *outs] if a is not None):
        return bind_expression(results, [*held, *scalars], outs, scratch)
    flat = [None if a is None else a.reshape(-1) for a in held]
    flat_outs = [out.reshape(-1) for out in outs]
    memory = Recycled(scratch)
    calls: Calls = []
    for start in range(0, size, BLOCK):
        part = slice(start, start + BLOCK)
        memory.restart()
        arrays = [None if a is None else a[part] for a in flat]
        bound = bind_expression(results, [*arrays, *scalars], [out[part] for out in flat_outs], memory)
        if bound is None:
            return None
        calls += bound
    return calls


class Recycled:
    """Gives every block the same temporary memory."""

    def __init__(self, scratch: Scratch) -> None:
        self.scratch = scratch
        self.buffers: list[np.ndarray] = []
        self.next = 0

    def restart(self) -> None:
        """From here on for another block."""
        self.next = 0

    def __call__(self, shape: Sequence[int], dtype: Any) -> np.ndarray:
        """Memory of the given shape; blocks ask for the same dtypes in the same order, the last one for less."""
        if self.next == len(self.buffers):
            self.buffers.append(self.scratch(shape, dtype))
        self.next += 1
        return self.buffers[self.next - 1][: shape[0]]


def _one_by_one(results: Sequence[Expr], arrays: Sequence[Any], scratch: Scratch) -> tuple[Calls, list[Any]]:
    """Expressions of single numbers, each step with memory of its own: NumPy iterates over one element in place with
    an iterator it allocates, over one element beside it without.
    """
    lowered = lower(results, [None if a is None else a.dtype for a in arrays])
    values, calls = [*arrays, *lowered.constants], []
    for step in lowered.steps:
        operands, out = [values[i] for i in step.args], scratch((), step.dtype)
        calls += copy_calls(operands[0], out) if step.function == "copy" else ufunc_calls(step.function, operands, out)
        values.append(out)
    return calls, [values[r] for r in lowered.results if r is not None]


def _powered(powers: Sequence[Any], outs: Sequence[Any], betas: Sequence[float], scratch: Scratch) -> Calls:
    """The powers of beta for the next step."""
    calls: Calls = []
    for power, beta, out in zip(powers, betas, outs, strict=True):
        if out is not None:
            new = scratch((), power.dtype)
            calls += [partial(np.multiply, power.reshape(()), number(beta, power.dtype), new), copied(new, out)]
    return calls


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
