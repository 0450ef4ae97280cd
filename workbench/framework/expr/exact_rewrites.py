"""Lowered expressions rewritten for computing into buffers. Every rewriting is exact: not a bit changes."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from workbench.framework.expr.erf import erf_formula
from workbench.framework.expr.expr import Expr, Formula
from workbench.framework.expr.lowered import Dtype, ExprStep, Lowered, Lowering, Number, lower, without_unread


def for_buffers(lowered: Lowered) -> Lowered:
    """The same values by fewer steps, all of which can write into given memory."""
    return _masks_as_numbers(_with_differences(_with_erf_spelled_out(lowered)))


@lru_cache(maxsize=8)
def _erf_steps(dtype: Dtype) -> Lowered:
    x = Expr("input", value=0, dtype=dtype)
    wide = x if dtype in (np.float32, np.float64) else x.astype("float32")
    result = erf_formula(Formula, wide)
    return lower([result if wide is x else result.astype(dtype)], (dtype,))


def _with_erf_spelled_out(lowered: Lowered) -> Lowered:
    """`erf` as the arithmetic it consists of."""
    if not any(step.function == "erf" for step in lowered.steps):
        return lowered
    join = Lowering(lowered.dtypes)
    numbers: list[int] = list(range(len(lowered.dtypes)))
    numbers += [join.settle(Number(c), c.dtype) for c in lowered.constants]
    for step in lowered.steps:
        args = tuple(numbers[a] for a in step.args)
        numbers.append(_spliced(join, args[0], step) if step.function == "erf" else join.add(step._replace(args=args)))
    return join.finished([None if r is None else numbers[r] for r in lowered.results])


def _spliced(join: Lowering, operand: int, step: ExprStep) -> int:
    inner = _erf_steps(step.loop[0])
    numbers = [operand, *(join.settle(Number(c), c.dtype) for c in inner.constants)]
    for part in inner.steps:
        numbers.append(join.add(part._replace(args=tuple(numbers[a] for a in part.args))))
    (result,) = inner.results
    assert result is not None
    return numbers[result]


def _with_differences(lowered: Lowered) -> Lowered:
    """`x * -1 + c`, which `c - x` is written as in a rule, as one subtraction."""
    first, steps, readers = lowered.first_step, list(lowered.steps), _readers(lowered)
    for i, step in enumerate(steps):
        if step.function != "add":
            continue
        for a, c in (step.args, step.args[::-1]):
            negated = steps[a - first] if a >= first and len(readers[a]) == 1 else None
            if negated is not None and _is_constant(lowered, c) and negated.function == "multiply":
                x, factor = negated.args
                if _is_constant(lowered, factor) and lowered.constants[factor - len(lowered.dtypes)] == -1:
                    steps[i] = step._replace(function="subtract", args=(c, x))
    return _without_unread(lowered, steps, lowered.results)


def _without_unread(lowered: Lowered, steps: Sequence[ExprStep], results: Sequence[int | None]) -> Lowered:
    return Lowered(lowered.dtypes, lowered.constants, *without_unread(lowered.first_step, steps, results))


def _is_constant(lowered: Lowered, number: int) -> bool:
    return len(lowered.dtypes) <= number < lowered.first_step


def _masks_as_numbers(lowered: Lowered) -> Lowered:
    """Comparisons that only serve as factors give 0.0 and 1.0 at once.

    A ufunc that mixes bool with float converts one operand in small pieces each time; one whose result alone is
    converted is faster, and the cast step between disappears.
    """
    first, steps = lowered.first_step, list(lowered.steps)
    readers = _readers(lowered)
    replaced: dict[int, int] = {}  # value -> the one that serves in its place
    for i, step in enumerate(steps):
        if step.dtype.kind != "b" or step.function in ("copy", "select") or len(readers.get(first + i, ())) != 1:
            continue
        (reader,) = readers[first + i]
        wanted = _number_dtype(steps[reader], first + i) if reader is not None else None
        if reader is None or wanted is None:
            continue
        steps[i] = step._replace(dtype=wanted, converts=True)
        if steps[reader].function == "copy":
            replaced[first + reader] = first + i
    steps = [s._replace(args=tuple(replaced.get(a, a) for a in s.args)) for s in steps]
    results = tuple(None if r is None else replaced.get(r, r) for r in lowered.results)
    return _without_unread(lowered, steps, results)


def _readers(lowered: Lowered) -> dict[int, list[int | None]]:
    """Value -> the steps that read it, once per operand; None stands for a result."""
    readers: dict[int, list[int | None]] = {}
    for i, step in enumerate(lowered.steps):
        for number in step.args:
            readers.setdefault(number, []).append(i)
    for result in lowered.results:
        if result is not None:
            readers.setdefault(result, []).append(None)
    return readers


def _number_dtype(step: ExprStep, number: int) -> Dtype | None:
    """The dtype in which a step reads a truth value as a number; None if it reads it as a truth value."""
    dtype = step.dtype if step.function == "copy" else step.loop[step.args.index(number)]
    return None if dtype.kind == "b" else dtype
