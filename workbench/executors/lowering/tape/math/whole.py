"""Whole numbers and truth values, such as counters and conditions of loops, as rows of a tape."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from workbench.executors.lowering.tape.rules import Arrays, require
from workbench.executors.lowering.tape.vector_code import Unsuitable
from workbench.executors.lowering.tape.writer import TapeWriter
from workbench.framework.expr.expr import Expr
from workbench.framework.expr.lowered import ExprStep, Lowered, lower
from workbench.runtime.words.whole import FUNCTIONS

WHOLE = (np.dtype(np.int64), np.dtype(np.bool_))
_INT64 = WHOLE[0]
_MOST = 4096  # elements: there are faster ways for many


def is_whole(form: Lowered) -> bool:
    """Whether steps are about whole numbers, with truth values among them or not."""
    dtypes = [form.dtype_of(number) for number in range(form.first_step + len(form.steps))]
    kinds = {dtype for number, dtype in enumerate(dtypes) if number in form.read or number >= len(form.dtypes)}
    return _INT64 in kinds and kinds <= set(WHOLE)


def whole_steps(writer: TapeWriter, form: Lowered, ins: Arrays, outs: Arrays) -> None:
    """Steps of whole numbers; operands have the shape of the results, or one element.

    Raises:
        Unsuitable: they have not, or there is no kernel for a function.
    """
    read = sorted(form.read)
    results = [(out, number) for out, number in zip(outs, form.results, strict=True) if out is not None]
    shape = results[0][0].shape
    if writer.takes_integers:
        writer.vector(form, shape, ins, outs)
        return
    count = int(results[0][0].size)
    require(count <= _MOST, all(out.shape == shape and out.dtype in WHOLE for out, _ in results))
    require(all(ins[i].size == 1 or ins[i].shape == shape for i in read))
    require(all(step.function in FUNCTIONS for step in form.steps))
    arrays = [ins[i] for i in read] + [out for out, _ in results]
    require(all(a.flags.c_contiguous for a in arrays))
    place = {number: k for k, number in enumerate(read)}
    place.update({len(form.dtypes) + k: len(read) + k for k in range(len(form.constants) + len(form.steps))})
    words: list[Any] = []
    for i in read:
        words += _operand(ins[i], ins[i].size > 1, 0)
    words += [int(constant) for constant in form.constants]
    for step in form.steps:
        words += _step(step, place)
    for out, number in results:
        if number is None:
            raise Unsuitable
        words += _operand(out, True, place[number])
    values = writer.tape.keep(np.zeros(max(len(place), 1), np.int64))
    counts = [count, len(read), len(form.constants), len(form.steps), len(results)]
    writer.row("whole_steps", *counts, values, *words)


def _operand(array: np.ndarray, advances: bool, value: int) -> list[Any]:
    return [array, int(array.dtype == _INT64), array.itemsize if advances else 0, value, 0]


def _step(step: ExprStep, place: dict[int, int]) -> list[int]:
    args: Sequence[int] = [place[number] for number in step.args]
    padded = [*args, *[args[0]] * (3 - len(args))]
    return [FUNCTIONS.index(step.function), *padded, int(step.dtype != _INT64)]


def fill_whole(writer: TapeWriter, out: np.ndarray, number: Any) -> None:
    """One number everywhere."""
    form = lower([Expr("constant", value=out.dtype.type(number), dtype=out.dtype)], [])
    whole_steps(writer, form, [], [out])
