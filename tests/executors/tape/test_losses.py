"""Softmax and cross entropy: the tape against NumPy calls."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.autodiff.small import Built
from tests.executors.tape.runs import compare, run, tape
from tests.executors.tape.test_sums import numbers
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


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("shape", [(4, 5, 6), (20, 1, 33), (1, 7, 1)])
def test_other_axes(shape: tuple[int, ...], axis: int) -> None:
    assert compare(lambda x: [F.softmax(x, axis=axis), F.log_softmax(x, axis=axis)], {"x": numbers(*shape)}) == set()


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_cross_entropy_along_other_axes(axis: int) -> None:
    label = np.random.default_rng(0).integers(0, 4, (5, 3))
    shape = np.insert([5, 3], axis % 3, 4)

    def body(x: Any, label: Any, soft: Any) -> list[Any]:
        soft.stop_gradient = True
        loss, softmax = F.softmax_with_cross_entropy(x, wb.unsqueeze(label, axis), return_softmax=True, axis=axis)
        softmax.stop_gradient = True
        return [loss, softmax, F.softmax_with_cross_entropy(x, soft, soft_label=True, axis=axis)]

    feed = {"x": numbers(*shape), "label": label, "soft": np.abs(numbers(*shape, seed=1))}
    assert compare(body, feed) == set()


@pytest.mark.parametrize("shape", SHAPES)
def test_cross_entropy_of_labels(shape: tuple[int, ...]) -> None:
    label = np.random.default_rng(0).integers(0, shape[-1], (*shape[:-1], 1))
    label.flat[0] = -100

    def body(x: Any, label: Any) -> list[Any]:
        return [F.softmax_with_cross_entropy(x, label)]

    assert compare(body, {"x": numbers(*shape) * 5, "label": label}) == set()


@pytest.mark.parametrize("ignored", [-(2**63), -(2**32), 2**32 + 3])
def test_a_label_that_stands_for_none_may_be_any_number(ignored: int) -> None:
    """Also one whose last 32 bits are those of a class."""
    label = np.array([[0], [3], [ignored], [1]])

    def body(x: Any, label: Any) -> list[Any]:
        return [F.softmax_with_cross_entropy(x, label, ignore_index=ignored)]

    types = {"softmax_with_cross_entropy", "softmax_with_cross_entropy_grad"}
    assert compare(body, {"x": numbers(4, 5), "label": label}) == types  # which kernels leave to NumPy


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

    assert compare(body, {"x": numbers(9, 5), "y": numbers(9, 5, seed=1)}) == set()
