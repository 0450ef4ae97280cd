"""Softmax and cross entropy: the tape against NumPy calls."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.autodiff.small import Built
from tests.executors.tape_runs import compare, run, tape
from tests.executors.test_tape_sums import numbers
from workbench import static
from workbench.errors import InvalidArgument

F = wb.nn.functional
SHAPES = [(5, 7), (2, 3, 64), (1, 1), (300, 10)]


@pytest.mark.parametrize("shape", SHAPES)
def test_softmax(shape: tuple[int, ...]) -> None:
    assert compare(lambda x: [F.softmax(x)], {"x": numbers(*shape) * 5}) == set()


@pytest.mark.parametrize("shape", SHAPES)
def test_log_softmax(shape: tuple[int, ...]) -> None:
    assert compare(lambda x: [F.log_softmax(x)], {"x": numbers(*shape) * 5}) == set()


def test_other_axes_are_left_to_numpy() -> None:
    found = compare(lambda x: [F.softmax(x, axis=0), F.log_softmax(x, axis=1)], {"x": numbers(4, 5, 6)})
    assert found == {"softmax", "softmax_grad", "log_softmax", "log_softmax_grad"}


@pytest.mark.parametrize("shape", SHAPES)
def test_cross_entropy_of_labels(shape: tuple[int, ...]) -> None:
    label = np.random.default_rng(0).integers(0, shape[-1], (*shape[:-1], 1))
    label.flat[0] = -100

    def body(x: Any, label: Any) -> list[Any]:
        return [F.softmax_with_cross_entropy(x, label)]

    assert compare(body, {"x": numbers(*shape) * 5, "label": label}) == set()


@pytest.mark.parametrize("shape", SHAPES)
def test_cross_entropy_of_soft_labels(shape: tuple[int, ...]) -> None:
    def body(x: Any, label: Any) -> list[Any]:
        label.stop_gradient = True
        return [F.softmax_with_cross_entropy(x, label, soft_label=True)]

    label = np.abs(numbers(*shape, seed=1))
    assert compare(body, {"x": numbers(*shape) * 5, "label": label}) == set()


def test_a_label_out_of_range_is_an_error() -> None:
    with Built() as built:
        x, label = static.data("x", [4, 3], "float32"), static.data("label", [4, 1], "int64")
        loss = F.softmax_with_cross_entropy(x, label)
    feed = {"x": numbers(4, 3), "label": np.array([[0], [1], [3], [2]])}
    with tape(), pytest.raises(InvalidArgument, match="label"):
        run(built, feed, [loss])


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_losses_made_of_others(reduction: str) -> None:
    def body(x: Any, y: Any) -> list[Any]:
        return [f(x, y, reduction=reduction) for f in (F.mse_loss, F.l1_loss, F.smooth_l1_loss)]

    compare(body, {"x": numbers(9, 5), "y": numbers(9, 5, seed=1)})
