"""Vector code against NumPy, op by op: any arrays, any layout, results over inputs, several ops in one row."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.native.kernels.vector_rows import Op, form_of, run
from workbench.framework.expr.expr import Recording as xp
from workbench.framework.expr.lowered import Lowered

SHAPES = (
    (), (1,), (2,), (15,), (16,), (17,), (127,), (128,), (129,), (1000,), (5000,), (1, 1), (7, 1), (1, 9), (3, 5),
    (32, 64), (33, 100), (4, 768), (3, 2047), (2, 2048), (2, 2049), (130, 16), (2, 3, 5), (4, 1, 33), (3, 4, 5, 6),
)  # fmt: skip
NUMBERS = (0.0, -0.0, 1.0, -1.5, 0.5, 3e38, 1e-40, np.inf, -np.inf, np.nan)


def by_numpy(shape: tuple[int, ...], ops: Sequence[Op]) -> None:
    """The same, one function after the other; rows are added up in order."""
    with np.errstate(all="ignore"):
        for form, ins, outs in ops:
            for out, result in zip(outs, [np.array(r) for r in _evaluated(form, ins)], strict=True):
                wide = np.broadcast_to(result, shape)
                if out.shape != shape:
                    rows = np.ascontiguousarray(wide).reshape(-1, *out.shape)
                    wide = rows[0].copy()
                    for row in rows[1:]:
                        wide += row
                np.copyto(out, wide)


def _evaluated(form: Lowered, ins: Sequence[Any]) -> list[Any]:
    values: list[Any] = [*ins, *form.constants]
    for step in form.steps:
        function = FUNCTIONS.get(step.function) or getattr(np, step.function)
        values.append(function(*[np.array(values[a]) for a in step.args]).astype(step.dtype))
    return [values[r] for r in form.results if r is not None]


def _larger(a: Any, b: Any) -> Any:
    """Of 0 and -0 the second, where NumPy gives any."""
    return np.where(np.isnan(a), a, np.where(a > b, a, b))


def _smaller(a: Any, b: Any) -> Any:
    return np.where(np.isnan(a), a, np.where(a < b, a, b))


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "maximum": _larger, "minimum": _smaller, "select": np.where, "copy": lambda x: x,
}  # fmt: skip


def assert_same_bits(computed: np.ndarray, expected: np.ndarray) -> None:
    """NaNs of all kinds are one."""
    if computed.dtype == bool:
        np.testing.assert_array_equal(computed, expected)
        return
    both_nan = np.isnan(computed) & np.isnan(expected)
    computed, expected = (np.where(both_nan, 0, a.view(np.uint32)) for a in (computed, expected))
    np.testing.assert_array_equal(computed, expected)


# Random programs


class Memory:
    """Numbers and truth values in two blocks, and arrays that lie in them in all sorts of ways."""

    def __init__(self, rng: Random, shape: tuple[int, ...]) -> None:
        self.rng, self.shape = rng, shape
        self.total = int(np.prod(shape))
        values = np.random.default_rng(rng.randrange(1 << 30))
        self.floats = values.standard_normal(8 * self.total + 64).astype(np.float32)
        for i in values.integers(0, self.floats.size, self.floats.size // 8):
            self.floats[i] = rng.choice(NUMBERS)
        self.truths = values.random(3 * self.total + 64) < 0.5
        self.seen: list[tuple[int, tuple[int, ...], tuple[int, ...], bool]] = []

    def copy(self) -> Memory:
        memory = Memory.__new__(Memory)
        memory.floats, memory.truths = self.floats.copy(), self.truths.copy()
        return memory

    def array(self, where: tuple[int, tuple[int, ...], tuple[int, ...], bool]) -> np.ndarray:
        offset, shape, strides, is_truth = where
        block = self.truths if is_truth else self.floats
        return np.lib.stride_tricks.as_strided(block[offset:], shape, [s * block.itemsize for s in strides])

    def new(self, for_result: bool) -> tuple[int, tuple[int, ...], tuple[int, ...], bool]:
        """Somewhere, or where something else is."""
        rng = self.rng
        if self.seen and rng.random() < 0.5:
            offset, shape, strides, is_truth = rng.choice(self.seen)
            if rng.random() < 0.1:
                offset = max(0, offset + rng.choice((-3, 1, 2)))
            if not for_result or shape == self.shape:
                return offset, shape, strides, is_truth
        is_truth = rng.random() < 0.15
        shape = self.shape if for_result else self._broadcast()
        strides = list(_plain_strides(shape))
        kind = rng.random()
        room = 3 if is_truth else 8
        offset = rng.randrange(0, room * self.total - self.total + 1) if shape == self.shape else rng.randrange(0, 9)
        if kind < 0.15:
            strides, offset = [2 * s for s in strides], rng.randrange(0, (room - 3) * self.total + 1)
        elif kind < 0.3 and len(shape) > 1:
            strides = list(_plain_strides(shape[::-1]))[::-1]
        elif kind < 0.35 and len(shape) == 1:
            strides, offset = [-1], rng.randrange(shape[0], 2 * self.total + 1)
        return offset, shape, tuple(strides), is_truth

    def _broadcast(self) -> tuple[int, ...]:
        rng, shape = self.rng, self.shape
        kind = rng.random()
        if kind < 0.6:
            return shape
        if kind < 0.75:
            return shape[rng.randrange(0, len(shape) + 1) :]
        return tuple(1 if rng.random() < 0.5 else d for d in shape)


def _plain_strides(shape: Sequence[int]) -> tuple[int, ...]:
    strides, step = [], 1
    for d in reversed(shape):
        strides.append(step)
        step *= d
    return tuple(strides[::-1])


def _body(rng: Random, dtypes: Sequence[Any]) -> Callable[..., Any]:
    """A few functions of the inputs and of each other; some of the results."""
    choices = [(rng.random(), rng.random(), rng.random(), rng.random()) for _ in range(rng.randrange(1, 8))]
    wanted = [rng.random() for _ in range(rng.randrange(1, 4))]

    def body(*inputs: Any) -> Any:
        numbers = [x if x.dtype == np.float32 else x.astype("float32") for x in inputs]
        truths = [x for x in inputs if x.dtype == bool]
        for kind, first, second, third in choices:
            a, b = (numbers[int(k * len(numbers))] for k in (first, second))
            if kind < 0.1:
                b = NUMBERS[int(third * len(NUMBERS))]
            if kind < 0.7:
                two = (xp.add, xp.subtract, xp.multiply, xp.divide, xp.maximum, xp.minimum)
                numbers.append(two[int(kind / 0.7 * 6)](a, b))
            elif kind < 0.8:
                one = (xp.negative, xp.abs, xp.square, xp.sqrt, xp.reciprocal, xp.floor, xp.rint)
                numbers.append(one[int((kind - 0.7) * 70)](a))
            elif kind < 0.9 or not truths:
                compared = (xp.greater, xp.less_equal, xp.equal, xp.not_equal, xp.less, xp.greater_equal)
                truths.append(compared[int(third * 6)](a, b))
            else:
                numbers.append(xp.where(truths[int(third * len(truths))], a, b))
        values = numbers[len(inputs) :] + truths + numbers[: len(inputs)]
        return tuple(values[int(w * w * len(values))] for w in wanted)

    return body


def _program(rng: Random, memory: Memory) -> list[tuple[Lowered, list[Any], list[Any]]]:
    ops = []
    for _ in range(rng.randrange(1, 6)):
        ins = [memory.new(for_result=False) for _ in range(rng.randrange(1, 4))]
        arrays = [memory.array(i) for i in ins]
        form = form_of(_body(rng, [a.dtype for a in arrays]), arrays)
        outs = []
        for result in form.results:
            is_truth = form.dtype_of(result) == np.bool_
            out = memory.new(for_result=True)
            while out[3] != is_truth:
                out = memory.new(for_result=True)
            last = memory.shape[rng.randrange(0, len(memory.shape)) :] if memory.shape else ()
            if not is_truth and rng.random() < 0.15 and 1 < int(np.prod(last)) < memory.total:
                out = (rng.randrange(0, memory.total), last, _plain_strides(last), False)
            outs.append(out)
        memory.seen += [*ins, *outs]
        ops.append((form, ins, outs))
    return ops


@settings(max_examples=400, deadline=None)
@given(st.integers(0, 1 << 60))
def test_programs_give_what_numpy_gives(seed: int) -> None:
    rng = Random(seed)
    shape = rng.choice(SHAPES)
    memory = Memory(rng, shape)
    program = _program(rng, memory)
    copies = [memory.copy() for _ in range(4)]

    def ops(of: Memory) -> list[Op]:
        return [(form, [of.array(i) for i in ins], [of.array(o) for o in outs]) for form, ins, outs in program]

    done = run(shape, ops(copies[0]), joined=False)
    program = [op for op, was in zip(program, done, strict=True) if was]
    assert all(run(shape, ops(copies[1])))
    assert all(run(shape, ops(copies[2]), joined=False))
    by_numpy(shape, ops(copies[3]))
    assert_same_bits(copies[2].floats, copies[3].floats)
    assert_same_bits(copies[2].truths, copies[3].truths)
    assert_same_bits(copies[1].floats, copies[3].floats)
    assert_same_bits(copies[1].truths, copies[3].truths)


def test_most_random_programs_are_suitable() -> None:
    count = suitable = 0
    for seed in range(300):
        rng = Random(seed)
        memory = Memory(rng, rng.choice(SHAPES))
        program = _program(rng, memory)
        ops = [(f, [memory.array(i) for i in ins], [memory.array(o) for o in outs]) for f, ins, outs in program]
        done = run(memory.shape, ops)
        count, suitable = count + len(done), suitable + sum(done)
    assert suitable > 0.4 * count
