"""Lowered expressions bound to memory: which step writes where, by who still reads what."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import permutations
from math import prod
from typing import Any

import numpy as np

from workbench.framework.lowered import Lowered
from workbench.framework.step_calls import (
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

_LONG = 1 << 16  # elements: from here on temporaries leave the cache unless a chain runs block by block
_CHAIN = 3
_BLOCKS = 1024  # more would cost more in calls than the cache gains
_CLAMPS = ("maximum", "minimum")


@dataclass
class _Task:
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


class Layout:
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


def bind_steps(layout: Layout, outs: Sequence[Array | None], scratch: Scratch) -> Calls | None:
    """Callables that, run in order, fill `outs` with the results.

    A result of larger shape than its out is summed over the dimensions its out was broadcast along; one of
    another dtype is cast.

    Args:
        outs: one per result, None = not wanted. An out may be the memory of an input.

    Returns:
        None if a result does not fit its out, or if outs overlap.
    """
    blocks = _blocks(layout, outs)
    if blocks is None:
        return _bind(layout, outs, Pool(scratch))
    calls: Calls = []
    memory = _BlockScratch(scratch, blocks[0].stop)
    wanted = tuple(out is not None for out in outs)
    for block in blocks:
        arrays = [_part(a, block) for a in layout.known[: len(layout.lowered.dtypes)]]
        found = _bind(Layout(layout.lowered, arrays, wanted), [_part(out, block) for out in outs], Pool(memory.again()))
        if found is None:
            return None
        calls += found
    return calls


def _broadcast(shapes: list[tuple[int, ...]]) -> tuple[int, ...]:
    given = {s for s in shapes if s}
    if len(given) > 1:
        return np.broadcast_shapes(*given)
    return given.pop() if given else ()


# Blocks


class _BlockScratch:
    """The same few buffers for every block; the last one may be shorter."""

    def __init__(self, scratch: Scratch, size: int) -> None:
        self._scratch, self._size = scratch, size
        self._made: dict[Any, list[Array]] = {}

    def again(self) -> Scratch:
        used: dict[Any, int] = {}

        def take(shape: tuple[int, ...], dtype: Any) -> Array:
            made, k = self._made.setdefault(dtype, []), used.get(dtype, 0)
            used[dtype] = k + 1
            if k == len(made):
                made.append(self._scratch((self._size,), dtype))
            return made[k][: shape[0]]

        return take


def _blocks(layout: Layout, outs: Sequence[Array | None]) -> list[slice] | None:
    """Ranges of the flattened operands, for long chains of contiguous operands; None = everything at once."""
    lowered, given = layout.lowered, [out for out in outs if out is not None]
    size = given[0].size if given else 0
    if size <= BLOCK or not (_clamps(layout) or (size > _LONG and len(lowered.steps) >= _CHAIN)):
        return None
    shape = given[0].shape
    whole = [*given, *(a for a in layout.inputs if a.size != 1)]
    if not all(a.shape == shape and a.flags.c_contiguous for a in whole):
        return None
    if any(found != shape for found in layout.shapes[lowered.first_step :]):
        return None
    if any(overlap(out, a) and not same_memory(out, a) for out in given for a in layout.inputs):
        return None
    length = max(1, -(-size // _BLOCKS // BLOCK)) * BLOCK
    return [slice(start, min(start + length, size)) for start in range(0, size, length)]


def _clamps(layout: Layout) -> bool:
    """Whether a step is `maximum` or `minimum` with a constant."""
    constants = range(len(layout.lowered.dtypes), layout.lowered.first_step)
    return any(s.function in _CLAMPS and any(i in constants for i in s.args) for s in layout.lowered.steps)


def _part(array: Array | None, block: slice) -> Array | None:
    if array is None:
        return None
    return array.reshape(()) if array.size == 1 else array.reshape(-1)[block]


# Tasks in order


def _bind(layout: Layout, outs: Sequence[Array | None], pool: Pool) -> Calls | None:
    tasks = _ordered(layout, outs)
    if tasks is None:
        return None
    return list(_Binding(layout, tasks, pool).calls())


def _ordered(layout: Layout, outs: Sequence[Array | None]) -> list[_Task] | None:
    """The tasks in an order in which no out overwrites what is still to be read; through a temporary if none is."""
    wanted = [k for k, out in enumerate(outs) if out is not None]
    best: list[_Task] | None = None
    fewest = len(wanted) + 1
    for order in permutations(wanted):
        tasks = _tasks(layout, outs, order)
        if tasks is None or _outs_overlap(tasks):
            return None
        early = _too_early(tasks, layout.known)
        if len(early) < fewest:
            best, fewest = tasks, len(early)
        if not early:
            return best
    return None if best is None else _postponed(best, _too_early(best, layout.known))


def _tasks(layout: Layout, outs: Sequence[Array | None], order: Sequence[int]) -> list[_Task] | None:
    """The steps in the order in which the results need them, each result followed by what brings it to its out."""
    lowered = layout.lowered
    made: dict[int, _Task] = {}
    tasks: list[_Task] = []
    numbers = iter(range(len(layout.shapes), len(layout.shapes) + 2 * len(outs)))
    for k in order:
        result, out = lowered.results[k], outs[k]
        if result is None or out is None:
            return None
        for i in _needed(lowered, result, made):
            step = lowered.steps[i - lowered.first_step]
            made[i] = _Task(step.function, step.args, i, layout.shapes[i], step.dtype, None, step.converts)
            tasks.append(made[i])
        ending = _ending(layout, result, out, numbers)
        if ending is None:
            return None
        if not ending and result in made and made[result].out is None:
            made[result].out = out
        elif not ending and not (result < len(layout.known) and same_memory(layout.known[result], out)):
            ending = [_Task("copy", (result,), next(numbers), out.shape, out.dtype, out)]
        tasks += ending
    return tasks


def _needed(lowered: Lowered, result: int, made: dict[int, _Task]) -> list[int]:
    """The steps a result needs that are not there yet; their numbers are in a valid order."""
    todo, found = [result], set()
    while todo:
        number = todo.pop()
        if number >= lowered.first_step and number not in made and number not in found:
            found.add(number)
            todo += lowered.steps[number - lowered.first_step].args
    return sorted(found)


def _ending(layout: Layout, result: int, out: Array, numbers: Iterator[int]) -> list[_Task] | None:
    """What turns a value into its out: nothing, a sum, a cast, both; None if it does not fit."""
    shape, dtype = layout.shapes[result], layout.lowered.dtype_of(result)
    if shape == out.shape and dtype == out.dtype:
        return []
    if shape == out.shape or _is_zero(layout, result):
        return [_Task("copy", (result,), next(numbers), out.shape, out.dtype, out)]
    axes = _broadcast_axes(shape, out.shape)
    contiguous = all(a.flags.c_contiguous for a in layout.inputs)
    if axes is None or dtype is None or dtype.kind != "f" or not contiguous:
        return None  # the order of the additions would be another one
    if dtype == out.dtype and out.flags.c_contiguous:
        return [_Task("sum", (result,), next(numbers), out.shape, dtype, out, axes=axes)]
    summed = next(numbers)
    return [
        _Task("sum", (result,), summed, out.shape, dtype, axes=axes),
        _Task("copy", (summed,), next(numbers), out.shape, out.dtype, out),
    ]


def _is_zero(layout: Layout, number: int) -> bool:
    """Whether a value is the constant 0, whose sum over any dimensions is 0."""
    lowered = layout.lowered
    return len(lowered.dtypes) <= number < lowered.first_step and not layout.known[number].any()


def _broadcast_axes(shape: tuple[int, ...], target: tuple[int, ...]) -> tuple[int, ...] | None:
    """The axes of `shape` along which a value of shape `target` was broadcast, as `evaluate.reduce_to` finds them."""
    extra = len(shape) - len(target)
    if extra < 0 or any(d not in (1, shape[i + extra]) for i, d in enumerate(target)):
        return None
    along = (i + extra for i, d in enumerate(target) if d == 1 and shape[i + extra] != 1)
    return (*range(extra), *along)


def _outs_overlap(tasks: list[_Task]) -> bool:
    outs = [t.out for t in tasks if t.out is not None]
    return any(overlap(a, b) for i, a in enumerate(outs) for b in outs[:i])


def _too_early(tasks: list[_Task], known: Sequence[Any]) -> list[_Task]:
    """Tasks whose out is memory of an input that a later task reads."""
    found = []
    for p, task in enumerate(tasks):
        if task.out is None:
            continue
        later = tasks[p if task.function == "sum" else p + 1 :]
        read = {i for t in later for i in t.args if i < len(known)}
        if any(overlap(task.out, known[i]) for i in read):
            found.append(task)
    return found


def _postponed(tasks: list[_Task], early: list[_Task]) -> list[_Task]:
    """The same, with these tasks writing to temporaries that are copied in the end."""
    number = max(t.number for t in tasks) + 1
    copies = []
    for task in early:
        copies.append(_Task("copy", (task.number,), number, task.shape, task.dtype, task.out))
        task.out = None
        number += 1
    return tasks + copies


# Memory


def _preferred(task: _Task) -> tuple[int, ...]:
    """Operands in the order in which a task would like to write over them."""
    if task.function == "select" and by_arithmetic(prod(task.shape), task.dtype):
        return task.args[1:]
    return task.args[::-1]


class _Binding:
    """Gives every task its memory and turns it into calls."""

    def __init__(self, layout: Layout, tasks: list[_Task], pool: Pool) -> None:
        self.first_constant, self.pool, self.tasks = len(layout.lowered.dtypes), pool, tasks
        self.known = layout.known
        self.held: dict[int, Array] = {}  # temporaries and results
        self.pooled: set[int] = set()
        self.last = {i: p for p, task in enumerate(tasks) for i in task.args}
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

    def _calls_of(self, task: _Task, operands: list[Array], out: Array) -> Calls:
        if task.function == "copy":
            return copy_calls(operands[0], out)
        if task.function == "sum":
            return sum_calls(operands[0], task.axes, out)
        if task.function == "select":
            mask, x, y = operands
            zeros = (self._is_zero(task.args[1]), self._is_zero(task.args[2]))
            return select_calls(mask, x, y, out, self.pool, zeros)
        if task.function in _CLAMPS:
            operands = self._clamped(task, operands, out)
        return ufunc_calls(task.function, operands, out)

    def _is_constant(self, number: int) -> bool:
        return self.first_constant <= number < len(self.known)

    def _is_zero(self, number: int) -> bool:
        """Whether a value is the constant +0."""
        return self._is_constant(number) and not any(self.known[number].tobytes())

    def _clamped(self, task: _Task, operands: list[Array], out: Array) -> list[Array]:
        a, b = operands
        first, second = map(self._is_constant, task.args)
        return [spread(a, b, out) if first else a, spread(b, a, out) if second else b]

    def _memory(self, p: int, task: _Task) -> Array:
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

    def _can_take_over(self, p: int, task: _Task, number: int) -> bool:
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

    def _can_lodge(self, p: int, task: _Task, q: int, out: Array) -> bool:
        """Whether a temporary may live in the out of task `q` until that task fills it."""
        if q in self.tenant or out.shape != task.shape or out.dtype != task.dtype or not out.flags.c_contiguous:
            return False
        if self.last[task.number] > q:
            return False
        now = {i for i in task.args if i < len(self.known)}
        if any(overlap(out, self.known[i]) and (task.converts or not same_memory(out, self.known[i])) for i in now):
            return False
        after = {i for t in self.tasks[p + 1 :] for i in t.args if i < len(self.known)}
        return not any(overlap(out, self.known[i]) for i in after)

    def _release(self, p: int, task: _Task) -> None:
        for number in set(task.args):
            if self.last[number] != p:
                continue
            if number in self.pooled:
                self.pooled.remove(number)
                self.pool.give(self.held[number])
            home = self._home(number)
            if home is not None:
                del self.tenant[home]
