"""Functions whose results have shapes that depend on values, against NumPy."""

from __future__ import annotations

from itertools import groupby
from typing import Any

import numpy as np
import pytest

import workbench as wb
from workbench.errors import InvalidArgument, InvalidType
from workbench.framework.program.guard import program_guard, static_mode
from workbench.framework.program.program import Program

X = np.array([[3, 1, 3], [3, 1, 3], [2, 2, 1]])


@pytest.mark.parametrize("axis", [None, 0, 1])
def test_unique_elements_and_slices(axis: int | None) -> None:
    results = wb.unique(wb.to_tensor(X), True, True, True, axis)
    wanted = np.unique(X, True, True, True, axis)
    for ours, theirs in zip(results, wanted, strict=True):
        np.testing.assert_array_equal(ours.numpy(), theirs.reshape(ours.shape))
    np.testing.assert_array_equal(wb.unique(wb.to_tensor(X), axis=axis).numpy(), wanted[0])
    assert wb.unique(wb.to_tensor(X), return_counts=True, dtype="int32")[1].dtype == "int32"


def test_runs_of_equal_elements() -> None:
    values = [1, 1, 2, 2, 2, 1]
    elements, inverse, counts = wb.unique_consecutive(wb.to_tensor(values), True, True)
    runs = [(key, len(list(run))) for key, run in groupby(values)]
    assert elements.tolist() == [key for key, _ in runs] and counts.tolist() == [count for _, count in runs]
    assert [elements.tolist()[i] for i in inverse.tolist()] == values
    assert wb.unique_consecutive(wb.to_tensor(X), axis=0).tolist() == [X[0].tolist(), X[2].tolist()]


def test_gradients_reach_the_first_of_equal_elements() -> None:
    x = wb.to_tensor([2.0, 1.0, 2.0], stop_gradient=False)
    (wb.unique(x) * wb.to_tensor([3.0, 5.0])).sum().backward()
    assert x.grad.tolist() == [5.0, 3.0, 0.0]


def test_counts_and_weights() -> None:
    x, weights = np.array([1, 4, 1]), np.array([0.5, 1.0, 2.0])
    np.testing.assert_array_equal(wb.bincount(wb.to_tensor(x), minlength=7).numpy(), np.bincount(x, minlength=7))
    np.testing.assert_array_equal(wb.bincount(wb.to_tensor(x), wb.to_tensor(weights)).numpy(), np.bincount(x, weights))
    with pytest.raises(InvalidArgument, match="negative"):
        wb.bincount(wb.to_tensor([-1]))
    with pytest.raises(InvalidType, match="integers"):
        wb.bincount(wb.ones([2]))


@pytest.mark.parametrize("function", [wb.unique_consecutive, wb.bincount])
def test_programs_are_told_that_shapes_cannot_depend_on_values(function: Any) -> None:
    with static_mode(), program_guard(Program(), Program()), pytest.raises(InvalidType, match="dynamic mode"):
        function(wb.static.data("x", [3], "int64"))
