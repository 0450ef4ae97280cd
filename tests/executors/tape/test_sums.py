"""Sums, means, extremes and gradients of what was broadcast: the tape against NumPy calls."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import workbench as wb
from tests.autodiff.small import Built
from tests.executors.tape.runs import compare, tape
from tests.parallel.models import devices
from workbench import static
from workbench.config import override


def numbers(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng((seed, *shape)).standard_normal(shape).astype(np.float32)


AXES = [None, [0], [1], [2], [0, 1], [1, 2], [0, 2], [0, 1, 2]]


@pytest.mark.parametrize("keepdim", [False, True])
@pytest.mark.parametrize("axis", AXES)
def test_reductions(axis: list[int] | None, keepdim: bool) -> None:
    def body(x: Any) -> list[Any]:
        return [f(x, axis=axis, keepdim=keepdim) for f in (wb.sum, wb.mean, wb.max, wb.min)]

    assert compare(body, {"x": numbers(5, 7, 33)}) == set()


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64"])
def test_numbers_have_the_dtype_of_the_sum_before_they_are_added_up(dtype: str) -> None:
    """None of them is a number of float16, or of bfloat16."""
    x = np.array([[2049, 2049, 2049], [1.003, 1.003, 1.003]], np.float32)
    assert "reduce_sum" in compare(lambda x: [wb.cast(wb.sum(x, axis=1, dtype=dtype), "float32")], {"x": x})


@pytest.mark.parametrize("axis", AXES)
def test_log_sum_exp(axis: list[int] | None) -> None:
    assert compare(lambda x: [wb.logsumexp(x, axis=axis)], {"x": numbers(5, 7, 33) * 30}) == set()
    x = np.full((3, 4), -np.inf, np.float32)
    x[1, 1], x[2] = 2, [np.inf, 0, 1, 2]
    assert compare(lambda x: [wb.cast(wb.logsumexp(x, axis=1) < 3, "float32")], {"x": x}) == set()


@pytest.mark.parametrize("shape", [(300,), (1,), (1, 1, 1), (700, 3), (3, 700)])
def test_reductions_of_other_shapes(shape: tuple[int, ...]) -> None:
    def body(x: Any) -> list[Any]:
        return [wb.sum(x), wb.mean(x), wb.sum(x, axis=0), wb.mean(x, axis=-1)]

    assert compare(body, {"x": numbers(*shape)}) == set()


BROADCASTS: list[tuple[Sequence[int], Sequence[int]]] = [
    ((4, 3, 5, 6), (1, 3, 1, 1)),  # the bias of channels
    ((4, 3, 5, 6), (3, 1, 1)),
    ((4, 3, 5, 300), (1, 3, 1, 1)),
    ((6, 5), (6, 1)),
    ((6, 5), (1, 1)),
    ((6, 5), (1,)),
    ((3, 3000), (3000,)),  # rows longer than vector code repeats
    ((2, 3, 4), (2, 1, 4)),
    ((2, 3, 4, 5), (1, 3, 1, 5)),
    ((6, 1), (1, 5)),  # both
]


@pytest.mark.parametrize(("x", "y"), BROADCASTS)
@pytest.mark.parametrize("op", ["add", "subtract", "multiply", "divide"])
def test_gradients_of_what_was_broadcast(x: Sequence[int], y: Sequence[int], op: str) -> None:
    feed = {"x": numbers(*x), "y": np.abs(numbers(*y)) + 1}
    by_numpy = compare(lambda x, y: [getattr(wb, op)(x, y)], feed)
    assert by_numpy == set()


def test_a_sum_has_its_bits_wherever_its_terms_lie() -> None:
    """The gradient of a divisor has its shape, and may take over its memory where nobody reads it any more."""
    feed = {"x": numbers(500, 37), "y": numbers(37) + 5}
    with Built() as built:
        x, y = (static.data(n, list(a.shape)) for n, a in feed.items())
        y.stop_gradient = False
        quotient = x / (y * 3.0 + 1.0)
        loss = wb.sum(quotient * quotient)
        (gradient,) = static.gradients(loss, [y])
    sums = []
    for in_place in (True, False):
        strategy = static.BuildStrategy()
        strategy.enable_inplace = strategy.memory_optimize = in_place
        with tape(), devices(1):
            exe = static.ParallelExecutor(False, loss.name, built.main, scope=static.Scope(), build_strategy=strategy)
        sums += exe.run([gradient.name], feed=feed)
    assert np.array_equal(*sums)


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_any_shape_broadcast_against_any(data: st.DataObject) -> None:
    whole = data.draw(st.lists(st.integers(1, 9), min_size=1, max_size=4))
    parts = [[d if data.draw(st.booleans()) else 1 for d in whole] for _ in range(2)]
    x, y = (part[data.draw(st.integers(0, len(part) - 1)) :] for part in parts)
    feed = {"x": numbers(*x), "y": numbers(*y, seed=1)}
    assert compare(lambda x, y: [x * y + y], feed) == set()


def test_lists_are_added_up() -> None:
    def body(x: Any, y: Any) -> list[Any]:
        return [wb.add_n([x, y, x * 2.0, y]), wb.add_n([x])]

    assert compare(body, {"x": numbers(9, 5), "y": numbers(9, 5, seed=1)}) == set()


@pytest.mark.parametrize("limit", [0.5, 1e6])
def test_norms_and_clipping(limit: float) -> None:
    from tests.autodiff.small import Built
    from tests.executors.tape.runs import run, tape
    from workbench import static
    from workbench.ops.update.gradient_clip import clip_by_norm, squared_l2_norm

    with Built() as built:
        x = static.data("x", [37, 5], "float32")
        fetch = [squared_l2_norm(x), clip_by_norm(x, max_norm=limit)]
    feed = {"x": numbers(37, 5)}
    with override(cpu_tape=False):
        expected, _ = run(built, feed, fetch)
    with tape():
        fetched, by_numpy = run(built, feed, fetch)
    assert by_numpy == set()
    for a, b in zip(fetched, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-6)
