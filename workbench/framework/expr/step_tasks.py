"""The tasks that compute some results of lowered steps into given arrays, in an order that loses nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import permutations
from typing import Any

import numpy as np

from workbench.framework.expr.lowered import Lowered
from workbench.framework.expr.step_calls import Array, overlap, same_memory


@dataclass
class StepTask:
    """A step, or what brings its value to where it is wanted.

    Attributes:
        function: a step's, or `"sum"` (over `axes`), `"copy"`.
        number: of the value it gives.
        out: memory given from outside that it fills; None for a temporary.
    """

    function: str
    args: tuple[int, ...]
    number: int
    shape: tuple[int, ...]
    dtype: Any
    out: Array | None = None
    converts: bool = False
    axes: tuple[int, ...] = ()


class ShapedSteps:
    """The steps for the wanted results, the arrays they read, and the shape of every value.

    Args:
        lowered: steps for buffers (`for_buffers`).
        arrays: one per input; None for those that are not read.
        wanted: which results somebody wants.
    """

    def __init__(self, lowered: Lowered, arrays: Sequence[Array | None], wanted: tuple[bool, ...]) -> None:
        self.lowered = lowered = lowered.only(wanted)
        self.known: list[Any] = [a if i in lowered.read else None for i, a in enumerate(arrays)]
        self.inputs = [a for a in self.known if a is not None]
        self.known += lowered.constants
        self.shapes: list[Any] = [None if a is None else a.shape for a in self.known]
        for step in lowered.steps:
            self.shapes.append(_broadcast([self.shapes[i] for i in step.args]))

    def fits(self, outs: Sequence[Array | None]) -> bool:
        """Whether every out has the dtype and the shape of its result."""
        return all(
            number is not None and out.dtype == self.lowered.dtype_of(number) and out.shape == self.shapes[number]
            for number, out in zip(self.lowered.results, outs, strict=True)
            if out is not None
        )


def _broadcast(shapes: list[tuple[int, ...]]) -> tuple[int, ...]:
    given = {s for s in shapes if s}
    if len(given) > 1:
        return np.broadcast_shapes(*given)
    return given.pop() if given else ()


def ordered(steps: ShapedSteps, outs: Sequence[Array | None]) -> list[StepTask] | None:
    """The tasks in an order in which no out overwrites what is still to be read; through a temporary if none is."""
    wanted = [k for k, out in enumerate(outs) if out is not None]
    best: list[StepTask] | None = None
    fewest = len(wanted) + 1
    for order in permutations(wanted):
        tasks = _tasks(steps, outs, order)
        if tasks is None or _outs_overlap(tasks):
            return None
        early = _too_early(tasks, steps.known)
        if len(early) < fewest:
            best, fewest = tasks, len(early)
        if not early:
            return best
    return None if best is None else _postponed(best, _too_early(best, steps.known))


def _tasks(steps: ShapedSteps, outs: Sequence[Array | None], order: Sequence[int]) -> list[StepTask] | None:
    """The steps in the order in which the results need them, each result followed by what brings it to its out."""
    lowered = steps.lowered
    task_of: dict[int, StepTask] = {}
    tasks: list[StepTask] = []
    numbers = iter(range(len(steps.shapes), len(steps.shapes) + 2 * len(outs)))
    for k in order:
        result, out = lowered.results[k], outs[k]
        if result is None or out is None:
            return None
        for i in _needed(lowered, result, task_of):
            step = lowered.steps[i - lowered.first_step]
            task_of[i] = StepTask(step.function, step.args, i, steps.shapes[i], step.dtype, None, step.converts)
            tasks.append(task_of[i])
        ending = _ending(steps, result, out, numbers)
        if ending is None:
            return None
        if not ending and result in task_of and task_of[result].out is None:
            task_of[result].out = out
        elif not ending and not (result < len(steps.known) and same_memory(steps.known[result], out)):
            ending = [StepTask("copy", (result,), next(numbers), out.shape, out.dtype, out)]
        tasks += ending
    return tasks


def _needed(lowered: Lowered, result: int, task_of: dict[int, StepTask]) -> list[int]:
    """The steps a result needs that are not there yet; their numbers are in a valid order."""
    todo, needed = [result], set()
    while todo:
        number = todo.pop()
        if number >= lowered.first_step and number not in task_of and number not in needed:
            needed.add(number)
            todo += lowered.steps[number - lowered.first_step].args
    return sorted(needed)


def _ending(steps: ShapedSteps, result: int, out: Array, numbers: Iterator[int]) -> list[StepTask] | None:
    """What turns a value into its out: nothing, a sum, a cast, both; None if it does not fit."""
    shape, dtype = steps.shapes[result], steps.lowered.dtype_of(result)
    if shape == out.shape and dtype == out.dtype:
        return []
    if shape == out.shape or _is_zero(steps, result):
        return [StepTask("copy", (result,), next(numbers), out.shape, out.dtype, out)]
    axes = _broadcast_axes(shape, out.shape)
    contiguous = all(a.flags.c_contiguous for a in steps.inputs)
    if axes is None or dtype is None or dtype.kind != "f" or not contiguous:
        return None  # the order of the additions would be another one
    if dtype == out.dtype and out.flags.c_contiguous:
        return [StepTask("sum", (result,), next(numbers), out.shape, dtype, out, axes=axes)]
    summed = next(numbers)
    return [
        StepTask("sum", (result,), summed, out.shape, dtype, axes=axes),
        StepTask("copy", (summed,), next(numbers), out.shape, out.dtype, out),
    ]


def _is_zero(steps: ShapedSteps, number: int) -> bool:
    """Whether a value is the constant 0, whose sum over any dimensions is 0."""
    lowered = steps.lowered
    return len(lowered.dtypes) <= number < lowered.first_step and not steps.known[number].any()


def _broadcast_axes(shape: tuple[int, ...], target: tuple[int, ...]) -> tuple[int, ...] | None:
    """The axes of `shape` along which a value of shape `target` was broadcast, as `evaluate.reduce_to` finds them."""
    extra = len(shape) - len(target)
    if extra < 0 or any(d not in (1, shape[i + extra]) for i, d in enumerate(target)):
        return None
    along = (i + extra for i, d in enumerate(target) if d == 1 and shape[i + extra] != 1)
    return (*range(extra), *along)


def _outs_overlap(tasks: list[StepTask]) -> bool:
    outs = [t.out for t in tasks if t.out is not None]
    return any(overlap(a, b) for i, a in enumerate(outs) for b in outs[:i])


def _too_early(tasks: list[StepTask], known: Sequence[Any]) -> list[StepTask]:
    """Tasks whose out is memory of an input that a later task reads."""
    early = []
    for p, task in enumerate(tasks):
        if task.out is None:
            continue
        later = tasks[p if task.function == "sum" else p + 1 :]
        read = {i for t in later for i in t.args if i < len(known)}
        if any(overlap(task.out, known[i]) for i in read):
            early.append(task)
    return early


def _postponed(tasks: list[StepTask], early: list[StepTask]) -> list[StepTask]:
    """The same, with these tasks writing to temporaries that are copied in the end."""
    number = max(t.number for t in tasks) + 1
    copies = []
    for task in early:
        copies.append(StepTask("copy", (task.number,), number, task.shape, task.dtype, task.out))
        task.out = None
        number += 1
    return tasks + copies
