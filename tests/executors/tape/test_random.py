"""Random ops: the tape draws the bits NumPy calls draw."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.autodiff.small import Built
from tests.executors.tape.runs import compare, run, tape
from tests.executors.tape.test_sums import numbers
from tests.parallel.models import devices
from workbench import static
from workbench.config import override
from workbench.executors.lowering.tape.segment import Segment

F = wb.nn.functional
MODES = "upscale_in_train", "downscale_in_infer"


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("p", [0.0, 0.1, 0.5, 1 / 3, 1.0])
@pytest.mark.parametrize("shape", [(1,), (5, 7), (3, 4, 50), (700, 3)])
def test_dropout(p: float, mode: str, shape: tuple[int, ...]) -> None:
    """Zeros where NumPy has them: any other mask would be far off."""
    assert compare(lambda x: [F.dropout(x, p, mode=mode)], {"x": numbers(*shape)}) == set()


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("axis", [0, 1, -1, [0, 2]])
def test_masks_shared_along_axes(axis: Any, mode: str) -> None:
    assert compare(lambda x: [F.dropout(x, 0.4, axis=axis, mode=mode)], {"x": numbers(5, 6, 7)}) == set()


@pytest.mark.parametrize("mode", MODES)
def test_nothing_is_dropped_in_a_test_program(mode: str) -> None:
    assert compare(lambda x: [F.dropout(x, 0.4, training=False, mode=mode)], {"x": numbers(5, 6)}) == set()


def test_what_is_dropped_is_zero_whatever_it_was() -> None:
    x = np.full((40, 5), np.nan, np.float32)
    by_numpy = compare(lambda x: [wb.cast(wb.isnan(F.dropout(x, 0.4)), "float32")], {"x": x})
    assert "dropout" not in by_numpy


def masks(batches: int, seed: int = 5, count: int = 2) -> tuple[list[np.ndarray], Any]:
    """What two dropouts and a noise make of ones in some steps on two devices."""
    with Built() as built:
        built.main.random_seed = seed
        x = static.data("x", [-1, 9], "float32")
        h = F.dropout(F.dropout(static.nn.fc(x, 9), 0.3) + wb.uniform([9], min=-2.0, max=3.0), 0.5)
        loss = wb.mean(h)
        wb.optimizer.SGD(0.1).minimize(loss)
        built.startup.random_seed = 3
    scope = static.Scope()
    static.Executor().run(built.startup, scope=scope)
    with devices(count):
        exe = static.ParallelExecutor(use_cuda=False, main_program=built.main, scope=scope, loss_name=loss.name)
    feed = {"x": np.ones((8, 9), np.float32)}
    return [np.array(exe.run([h.name], feed=feed)[0]) for _ in range(batches)], exe


def test_every_step_and_device_has_its_own_numbers() -> None:
    with override(cpu_tape=False):
        expected, _ = masks(4)
    with tape():
        drawn, exe = masks(4)
        units = [u for program in exe.inspection.last.speculative for u in program.units]
        assert all(isinstance(u, Segment) for u in units)
    for a, b in zip(drawn, expected, strict=True):
        np.testing.assert_array_equal(a == 0, b == 0)
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)
    patterns = {(half == 0).tobytes() for step in drawn for half in np.split(step, 2)}
    assert len(patterns) == 8


def test_an_unseeded_program_has_other_numbers_every_step() -> None:
    with tape():
        drawn, _ = masks(3, seed=0)
    assert len({(step == 0).tobytes() for step in drawn}) == 3


def test_one_generator_for_all_ops_under_paddles_seeds() -> None:
    with override(paddle_seed_semantics=True):
        with override(cpu_tape=False):
            expected, _ = masks(2)
        with tape():
            drawn, _ = masks(2)
    for a, b in zip(drawn, expected, strict=True):
        np.testing.assert_array_equal(a == 0, b == 0)


def test_an_observed_step_draws_what_the_step_would() -> None:
    with tape():
        (first, second), _ = masks(2)
        _, again = masks(1)
        name = next(v.name for v in again.program.list_vars() if v.shape == (-1, 9) and v.name.startswith("dropout_1"))
        step = again.inspection.observe([name], {"x": np.ones((8, 9), np.float32)})
        step.advance_to_the_end()
        (drawn,) = step.apply(True, True)
    np.testing.assert_array_equal(drawn == 0, second == 0)
    assert (first == 0).tobytes() != (second == 0).tobytes()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("bounds", [(0.0, 1.0), (-1.0, 1.0), (2.0, 2.5), (1.0, 1.0)])
def test_uniform(bounds: tuple[float, float], dtype: str) -> None:
    low, high = bounds
    x = numbers(400, 3).astype(dtype)
    error = 1e-6 if dtype == "float32" else 1e-15

    def body(x: Any) -> list[Any]:
        return [x + wb.uniform([400, 3], dtype, low, high), wb.bernoulli(wb.uniform([400, 3], dtype, 0.0, 1.0))]

    assert compare(body, {"x": x}, rtol=error, atol=error) == set()


@pytest.mark.parametrize("moments", [(0.0, 1.0), (-1.5, 0.5), (2.0, 0.0)])
@pytest.mark.parametrize("size", [1, 2, 7, 40, 495, 496, 497, 3001])
def test_normal(size: int, moments: tuple[float, float]) -> None:
    """Odd sizes leave one of a pair out; large ones are drawn in parts that begin in the middle of a block."""
    mean, std = moments
    drawn = compare(lambda x: [x + wb.normal(mean, std, [size])], {"x": numbers(size)}, rtol=2e-7, atol=1e-7)
    assert drawn == set()


def test_normal_numbers_of_float64_are_those_of_the_reference() -> None:
    """But for the last bits, in which the C library has other logarithms and sines."""
    with Built() as built:
        built.main.random_seed = 11
        out = wb.standard_normal([20_001], "float64")
    with override(cpu_tape=False):
        (expected,), _ = run(built, {}, [out])
    with tape():
        (drawn,), by_numpy = run(built, {}, [out])
    assert by_numpy == set()
    np.testing.assert_array_max_ulp(drawn, expected, 8)


def test_normal_numbers_have_the_bits_of_the_reference() -> None:
    size = 200_001
    with Built() as built:
        built.main.random_seed = 11
        out = wb.standard_normal([size])
    with override(cpu_tape=False):
        (expected,), _ = run(built, {}, [out])
    with tape():
        (drawn,), by_numpy = run(built, {}, [out])
    assert by_numpy == set()
    assert np.count_nonzero(drawn != expected) <= 1  # float64 rounded: about one number in 10^8 may differ
    np.testing.assert_array_max_ulp(drawn, expected, 1)
    assert abs(drawn.mean()) < 0.01 and abs(drawn.std() - 1) < 0.01


def test_an_unseeded_initialiser_draws_anew_at_every_run() -> None:
    wb.seed(0)  # others may have set one
    with Built() as built:
        static.create_parameter([3, 4], "float32", default_initializer=wb.nn.initializer.Uniform())
    (weight,) = [v.name for v in built.startup.list_vars() if v.shape == (3, 4)]
    with tape(), devices(1):
        exe = static.ParallelExecutor(use_cuda=False, main_program=built.startup, scope=static.Scope())
        runs = [np.array(exe.run([weight])[0]) for _ in range(4)]
    assert len({run.tobytes() for run in runs}) == 4
