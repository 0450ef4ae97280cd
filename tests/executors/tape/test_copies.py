"""Constants, copies, joins and parts: the tape against NumPy calls."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.executors.tape.runs import compare
from tests.executors.tape.test_sums import numbers

F = wb.nn.functional


def test_constants_and_copies() -> None:
    def body(x: Any, y: Any) -> list[Any]:
        return [x + wb.full([5, 6], 2.0), wb.zeros_like(x) - x, wb.assign(x) * x, x * wb.cast(y, "float32")]

    assert compare(body, {"x": numbers(5, 6), "y": np.arange(-3, 3)}) == set()


def test_a_copy_outlives_what_it_was_made_of() -> None:
    assert compare(lambda x: [F.relu(x), F.relu(wb.assign(F.tanh(x))) + F.tanh(x)], {"x": numbers(5, 6)}) == set()


@pytest.mark.parametrize("axis", [0, 1, 2, -1])
@pytest.mark.parametrize("shape", [(4, 6, 8), (2, 2, 2), (2, 34, 20)])
def test_joins(axis: int, shape: Sequence[int]) -> None:
    def body(x: Any, y: Any) -> list[Any]:
        return [wb.concat([x, y, x * 2], axis=axis), wb.stack([x, y], axis=axis)]

    assert compare(body, {"x": numbers(*shape), "y": numbers(*shape, seed=1)}) == set()


def test_joins_of_different_lengths() -> None:
    def body(x: Any, y: Any) -> list[Any]:
        return [wb.concat([x, y], axis=1)]

    assert compare(body, {"x": numbers(4, 3), "y": numbers(4, 1)}) == set()


@pytest.mark.parametrize("axis", [0, 1, 2, -1])
def test_parts(axis: int) -> None:
    def body(x: Any) -> list[Any]:
        first, second = wb.split(x, 2, axis=axis)
        return [first * second, *wb.split(x, [1, -1], axis=axis), *wb.unstack(x, axis=axis)[:2]]

    assert compare(body, {"x": numbers(4, 6, 8)}) == set()


def test_parts_and_joins_of_single_numbers() -> None:
    def body(x: Any) -> list[Any]:
        a, b, c = wb.unstack(x)
        return [wb.stack([a * 2.0, c * b, b + 1.0])]

    assert compare(body, {"x": numbers(3)}) == set()


def test_gradients_of_parts_nobody_uses_are_zero() -> None:
    assert compare(lambda x: [wb.split(x, 3, axis=1)[1], wb.unstack(x, axis=0)[2]], {"x": numbers(4, 6)}) == set()


def test_joins_of_what_wants_no_gradient_and_of_nothing() -> None:
    def body(x: Any, y: Any) -> list[Any]:
        return [wb.concat([wb.ones([4, 1]), x, wb.ones([4, 2])], axis=1), wb.concat([x, y], axis=1)]

    assert compare(body, {"x": numbers(4, 3), "y": numbers(4, 0)}) == set()


def test_slices() -> None:
    def body(x: Any) -> list[Any]:
        return [x[1:3], x[:, 2:5, ::2], x[0], x[:, -1], x[:, :, ::-1], x[2, 3, 4], x[:]]

    assert compare(body, {"x": numbers(4, 6, 8)}) == set()


@pytest.mark.parametrize("mode", ["constant", "reflect", "replicate", "circular"])
def test_borders(mode: str) -> None:
    by_numpy = compare(lambda x: [F.pad(x, [1, 2, 0, 3], mode=mode, value=1.5)], {"x": numbers(2, 3, 5, 6)})
    assert by_numpy == (set() if mode == "constant" else {"pad_grad"})


def test_borders_of_a_single_number() -> None:
    """An index of an array without dimensions gives a copy; a row that wrote there would write foreign memory."""
    assert compare(lambda x: [F.pad(x * 2.0, [])], {"x": np.array(1.5, np.float32)}) == set()


@pytest.mark.parametrize("times", [[2], [1, 3], [2, 1, 3], [2, 1, 1, 3]])
def test_repetitions(times: list[int]) -> None:
    assert compare(lambda x: [wb.tile(x, times)], {"x": numbers(4, 6, 1)}) == set()


@pytest.mark.parametrize("shape", [[4, 6, 5], [3, 4, 6, 5], [-1, 6, 1]])
def test_expansions(shape: list[int]) -> None:
    assert compare(lambda x: [wb.expand(x, shape)], {"x": numbers(4, 6, 1)}) == set()
