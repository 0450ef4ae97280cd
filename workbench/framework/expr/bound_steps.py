"""Lowered expressions bound to memory: which step writes where, by who still reads what."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod
from typing import Any

from workbench.framework.expr.lowered import Lowered
from workbench.framework.expr.step_calls import (
    BLOCK,
    Array,
    Calls,
    Pool,
    Scratch,
    by_arithmetic,
    copy_calls,
    overlap,
    same_memory,
    select_calls,
    spread,
    sum_calls,
    ufunc_calls,
)
from workbench.framework.expr.step_tasks import ShapedSteps, StepTask, ordered

_LONG = (
    1 << 17
)  # elements: below, blocks gain nothing; at 512 x 1024 chains of ten and more take two thirds of the time
_CHAIN = 3
_BLOCKS = 1024  # more would cost more in calls than the cache gains
_CLAMPS = ("maximum", "minimum")


def bind_ufunc(lowered: Lowered, arrays: Sequence[Array | None], outs: Sequence[Array | None]) -> Calls | None:
    """The call of an op that is one ufunc on operands of one shape, as most are; None in every other case."""
    step, (out, *others) = lowered.only_step, outs
    if step is None or others or out is None or step.dtype != out.dtype:
        return None
    if step.function in _CLAMPS and out.size > BLOCK:
        return None
    operands: list[Any] = []
    for number in step.args:
        constant = number >= len(lowered.dtypes)
        array = lowered.constants[number - len(lowered.dtypes)] if constant else arrays[number]
        if array is None or (array.shape != out.shape and not constant):
            return None
        operands.append(array)
    if step.function in _CLAMPS:
        operands = _spread(operands, [number >= len(lowered.dtypes) for number in step.args], out)
    return ufunc_calls(step.function, operands, out)


def _spread(operands: list[Array], constant: list[bool], out: Array) -> list[Array]:
    a, b = operands
    return [spread(a, b, out) if constant[0] else a, spread(b, a, out) if constant[1] else b]


def bind_steps(steps: ShapedSteps, outs: Sequence[Array | None], scratch: Scratch) -> Calls | None:
    """Callables that, run in order, fill `outs` with the results.

    A result of larger shape than its out is summed over the dimensions its out was broadcast along; one of
    another dtype is cast.

    Args:
        outs: one per result, None = not wanted. An out may be the memory of an input.

    Returns:
        None if a result does not fit its out, or if outs overlap.
    """
    blocks = _blocks(steps, outs)
    if blocks is None:
        return _bind(steps, outs, Pool(scratch))
    calls: Calls = []
    memory = _BlockScratch(scratch, blocks[0].stop)
    wanted = tuple(out is not None for out in outs)
    for block in blocks:
        arrays = [_part(a, block) for a in steps.known[: len(steps.lowered.dtypes)]]
        steps_here = ShapedSteps(steps.lowered, arrays, wanted)
        bound = _bind(steps_here, [_part(out, block) for out in outs], Pool(memory.again()))
        if bound is None:
            return None
        calls += bound
    return calls


def _bind(steps: ShapedSteps, outs: Sequence[Array | None], pool: Pool) -> Calls | None:
    tasks = ordered(steps, outs)
    if tasks is None:
        return None
    return list(_Binding(steps, tasks, pool).calls())


# Blocks


class _BlockScratch:
    """The same few buffers for every block; the last one may be shorter."""

    def __init__(self, scratch: Scratch, size: int) -> None:
        self._scratch, self._size = scratch, size
        self._made: dict[Any, list[Array]] = {}

    def again(self) -> Scratch:
        used: dict[Any, int] = {}

        def take(shape: tuple[int, ...], dtype: Any) -> Array:
            buffers, k = self._made.setdefault(dtype, []), used.get(dtype, 0)
            used[dtype] = k + 1
            if k == len(buffers):
                buffers.append(self._scratch((self._size,), dtype))
            return buffers[k][: shape[0]]

        return take


def _blocks(steps: ShapedSteps, outs: Sequence[Array | None]) -> list[slice] | None:
    """Ranges of the flattened operands, for long chains of contiguous operands; None = everything at once."""
    lowered, given = steps.lowered, [out for out in outs if out is not None]
    size = given[0].size if given else 0
    if size <= BLOCK or not (_clamps(steps) or (size > _LONG and len(lowered.steps) >= _CHAIN)):
        return None
    shape = given[0].shape
    whole = [*given, *(a for a in steps.inputs if a.size != 1)]
    if not all(a.shape == shape and a.flags.c_contiguous for a in whole):
        return None
    if any(step_shape != shape for step_shape in steps.shapes[lowered.first_step :]):
        return None
    if any(overlap(out, a) and not same_memory(out, a) for out in given for a in steps.inputs):
        return None
    length = max(1, -(-size // _BLOCKS // BLOCK)) * BLOCK
    return [slice(start, min(start + length, size)) for start in range(0, size, length)]


def _clamps(steps: ShapedSteps) -> bool:
    """Whether a step is `maximum` or `minimum` with a constant."""
    constants = range(len(steps.lowered.dtypes), steps.lowered.first_step)
    return any(s.function in _CLAMPS and any(i in constants for i in s.args) for s in steps.lowered.steps)


def _part(array: Array | None, block: slice) -> Array | None:
    if array is None:
        return None
    return array.reshape(()) if array.size == 1 else array.reshape(-1)[block]


# Memory


def _preferred(task: StepTask) -> tuple[int, ...]:
    """Operands in the order in which a task would like to write over them."""
    if task.function == "select" and by_arithmetic(prod(task.shape), task.dtype):
        return task.args[1:]
    return task.args[::-1]


class _Binding:
    """Gives every task its memory and turns it into calls."""

    def __init__(self, steps: ShapedSteps, tasks: list[StepTask], pool: Pool) -> None:
        self.first_constant, self.pool, self.tasks = len(steps.lowered.dtypes), pool, tasks
        self.known = steps.known
        self.held: dict[int, Array] = {}  # temporaries and results
        self.pooled: set[int] = set()
        self.last = {i: p for p, task in enumerate(tasks) for i in task.args}  # position of the last task to read it
        self.filled = [(q, t.out) for q, t in enumerate(tasks) if t.out is not None]
        self.tenant: dict[int, int] = {}  # position of the task that fills an out -> temporary that lives there

    def calls(self) -> Iterator[Any]:
        for p, task in enumerate(self.tasks):
            operands = [self._array(i) for i in task.args]
            out = self._memory(p, task) if task.out is None else task.out
            self.held[task.number] = out
            yield from self._calls_of(task, operands, out)
            self._release(p, task)

    def _array(self, number: int) -> Array:
        return self.known[number] if number < len(self.known) else self.held[number]

    def _calls_of(self, task: StepTask, operands: list[Array], out: Array) -> Calls:
        if task.function == "copy":
            return copy_calls(operands[0], out)
        if task.function == "sum":
            return sum_calls(operands[0], task.axes, out)
        if task.function == "select":
            mask, x, y = operands
            zeros = (self._is_zero(task.args[1]), self._is_zero(task.args[2]))
            return select_calls(mask, x, y, out, self.pool, zeros)
        if task.function in _CLAMPS:
            operands = _spread(operands, list(map(self._is_constant, task.args)), out)
        return ufunc_calls(task.function, operands, out)

    def _is_constant(self, number: int) -> bool:
        return self.first_constant <= number < len(self.known)

    def _is_zero(self, number: int) -> bool:
        """Whether a value is the constant +0."""
        return self._is_constant(number) and not any(self.known[number].tobytes())

    def _memory(self, p: int, task: StepTask) -> Array:
        """Memory for a temporary: of an operand read for the last time, of an out not filled yet, else scratch."""
        for number in _preferred(task):
            if self._can_take_over(p, task, number):
                self._move(number, task.number)
                return self.held[number]
        for q, out in self.filled:
            if q > p and out is not None and self._can_lodge(p, task, q, out):
                self.tenant[q] = task.number
                return out
        self.pooled.add(task.number)
        return self.pool.take(task.shape, task.dtype)

    def _can_take_over(self, p: int, task: StepTask, number: int) -> bool:
        array = self.held.get(number)
        if array is None or self.last[number] != p or task.converts or task.function == "sum":
            return False
        owned = number in self.pooled or self._home(number) is not None
        lasting = number in self.pooled or self.last.get(task.number, p) <= (self._home(number) or p)
        return owned and lasting and array.shape == task.shape and array.dtype == task.dtype

    def _home(self, number: int) -> int | None:
        """The task in whose out a temporary lives."""
        return next((q for q, tenant in self.tenant.items() if tenant == number), None)

    def _move(self, old: int, new: int) -> None:
        if old in self.pooled:
            self.pooled.remove(old)
            self.pooled.add(new)
        home = self._home(old)
        if home is not None:
            self.tenant[home] = new

    def _can_lodge(self, p: int, task: StepTask, q: int, out: Array) -> bool:
        """Whether a temporary may live in the out of task `q` until that task fills it."""
        if q in self.tenant or out.shape != task.shape or out.dtype != task.dtype or not out.flags.c_contiguous:
            return False
        if self.last[task.number] > q:
            return False
        now = {i for i in task.args if i < len(self.known)}
        if any(overlap(out, self.known[i]) and (task.converts or not same_memory(out, self.known[i])) for i in now):
            return False
        return not any(overlap(out, self.known[i]) for i, at in self.last.items() if i < len(self.known) and at > p)

    def _release(self, p: int, task: StepTask) -> None:
        for number in set(task.args):
            if self.last[number] != p:
                continue
            if number in self.pooled:
                self.pooled.remove(number)
                self.pool.give(self.held[number])
            home = self._home(number)
            if home is not None:
                del self.tenant[home]
