"""Layer and batch normalisation: the tape against NumPy calls."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.autodiff.small import Built
from tests.executors.tape.runs import compare, run, tape
from tests.executors.tape.test_sums import numbers
from workbench import static
from workbench.config import override
from workbench.ops.nn.norm import BATCH_NORM, LAYER_NORM

WEIGHTS = [(True, True), (True, False), (False, True), (False, False)]


@pytest.mark.parametrize(("has_scale", "has_bias"), WEIGHTS)
@pytest.mark.parametrize("begin", [1, 2])
def test_layer_norm(begin: int, has_scale: bool, has_bias: bool) -> None:
    width = int(np.prod((3, 5, 14)[begin:]))
    feed = {"x": numbers(3, 5, 14) + 2, "scale": numbers(width), "bias": numbers(width, seed=1)}

    def body(x: Any, scale: Any, bias: Any) -> list[Any]:
        y, *_ = LAYER_NORM(x, scale if has_scale else None, bias if has_bias else None, begin_norm_axis=begin)
        return [y + 0.0 * (wb.sum(scale) + wb.sum(bias))]

    assert compare(body, feed) == set()


def test_statistics_of_layers() -> None:
    with Built() as built:
        x = static.data("x", [4, 6, 5], "float32")
        fetch = list(LAYER_NORM(x, None, None, begin_norm_axis=2))
    feed = {"x": numbers(4, 6, 5) + 10}
    with override(cpu_tape=False):
        expected, _ = run(built, feed, fetch)
    with tape():
        fetched, by_numpy = run(built, feed, fetch)
    assert by_numpy == set()
    for a, b in zip(fetched, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=2e-5)


BATCHES = [((6, 5), "NCHW"), ((4, 5, 9), "NCHW"), ((3, 5, 8, 9), "NCHW"), ((3, 4, 6, 5), "NHWC"), ((70, 5, 1), "NCHW")]
MODES = [{"is_test": False}, {"is_test": True}, {"use_global_stats": True}]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("shape", "layout"), BATCHES)
def test_batch_norm(shape: tuple[int, ...], layout: str, mode: dict[str, bool]) -> None:
    """Y, what the moving statistics become, what was used, and the gradients."""
    feed = {"x": numbers(*shape) + 2, "scale": numbers(5), "bias": numbers(5, seed=1)}
    feed |= {"mean": numbers(5, seed=2), "variance": np.abs(numbers(5, seed=3)) + 0.5}

    def body(x: Any, scale: Any, bias: Any, mean: Any, variance: Any) -> list[Any]:
        mean.stop_gradient = variance.stop_gradient = True
        y, *_ = BATCH_NORM(x, scale, bias, mean, variance, data_layout=layout, **mode)
        plain, *_ = BATCH_NORM(x, None, None, mean, variance, data_layout=layout, **mode)
        return [y, plain]

    assert compare(body, feed) == set()


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("shape", "layout"), BATCHES)
def test_statistics_of_batches(shape: tuple[int, ...], layout: str, mode: dict[str, bool]) -> None:
    with Built() as built:
        x = static.data("x", list(shape), "float32")
        mean, variance = static.data("mean", [5], "float32"), static.data("variance", [5], "float32")
        fetch = list(BATCH_NORM(x, None, None, mean, variance, data_layout=layout, momentum=0.7, **mode))
    feed = {"x": numbers(*shape) + 2, "mean": numbers(5, seed=2), "variance": np.abs(numbers(5, seed=3)) + 0.5}
    with override(cpu_tape=False):
        expected, _ = run(built, feed, fetch)
    with tape():
        fetched, by_numpy = run(built, feed, fetch)
    assert by_numpy == set()
    for a, b in zip(fetched, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=2e-5)
