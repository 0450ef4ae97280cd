"""Slices of computed tensors in which nothing is, in every way of computing, against NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import workbench as wb
from workbench import static
from workbench.framework.program.guard import static_mode

FORMS: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "reversed": (lambda y: y[::-1], lambda y: y[::-1]),
    "every second": (lambda y: y[::2], lambda y: y[::2]),
    "every second, backwards": (lambda y: y[::-2], lambda y: y[::-2]),
    "none": (lambda y: y[:0], lambda y: y[:0]),
    "behind the end": (lambda y: y[1:0], lambda y: y[1:0]),
    "from an end": (lambda y: y[-1:], lambda y: y[-1:]),
    "flip": (lambda y: wb.flip(y, [0]), lambda y: np.flip(y, 0)),
    "roll": (lambda y: wb.roll(y, 1, 0), lambda y: np.roll(y, 1, 0)),
    "reversed twice": (lambda y: y[::-1][::-1] * 3, lambda y: y * 3),
}
SHAPES = [(0,), (0, 3), (3, 0), (0, 0), (4, 3)]

forms = pytest.mark.parametrize(("ours", "numpy"), FORMS.values(), ids=FORMS.keys())
shapes = pytest.mark.parametrize("shape", SHAPES, ids=str)


def numbers(shape: tuple[int, ...]) -> np.ndarray:
    return np.random.default_rng(5).standard_normal(shape).astype(np.float32)


@forms
@shapes
def test_in_dynamic_mode_with_gradients(ours: Any, numpy: Any, shape: tuple[int, ...]) -> None:
    x = wb.to_tensor(numbers(shape), stop_gradient=False)
    y = ours(x * 2)
    np.testing.assert_array_equal(y.numpy(), numpy(numbers(shape) * 2))
    y.sum().backward()
    assert x.grad.shape == list(shape)


@forms
@shapes
@pytest.mark.parametrize("record", [wb.jit.capture, wb.jit.to_static], ids=["capture", "to_static"])
def test_recorded(record: Any, ours: Any, numpy: Any, shape: tuple[int, ...]) -> None:
    recorded, x = record(lambda x: ours(x * 2)), numbers(shape)
    for _ in range(3):
        np.testing.assert_array_equal(recorded(wb.to_tensor(x)).numpy(), numpy(x * 2))


@forms
@shapes
def test_in_a_program_with_an_open_batch_and_gradients(ours: Any, numpy: Any, shape: tuple[int, ...]) -> None:
    program = static.Program()
    with static_mode(), static.program_guard(program):
        x = static.data("x", [-1, *shape[1:]])
        x.stop_gradient = False
        y = ours(x * 2)
        (slope,) = static.gradients(y.sum(), [x])
        given = numbers(shape)
        value, gradient = static.Executor().run(program, feed={"x": given}, fetch_list=[y, slope])
    np.testing.assert_array_equal(value, numpy(given * 2))
    assert gradient.shape == shape
