"""Diagonals, turns, grids and common shapes: NumPy's values in both modes, and gradients that flow through them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.ops.programs import dynamic, static
from workbench.errors import ShapeError

X = np.arange(1.0, 25.0).reshape(2, 3, 4)
ROW = np.array([1.0, np.inf, 3.0])

CASES: list[tuple[Any, Any, np.ndarray]] = [
    *((lambda x, k=k: wb.diagonal(x, k, 1, 2), lambda x, k=k: np.diagonal(x, k, 1, 2), X) for k in range(-4, 6)),
    (lambda x: wb.diagonal(x, 1, -1, 0), lambda x: np.diagonal(x, 1, -1, 0), X),
    *((lambda x, k=k: wb.diag(x, k), lambda x, k=k: np.diag(x, k), ROW) for k in range(-3, 4)),
    (lambda x: wb.diag(x, 1), lambda x: np.diag(x, 1), X[0]),
    (lambda x: wb.diag(x, -1, 7.0), lambda x: np.where(np.eye(4, k=-1) > 0, np.diag(x, -1), 7.0), ROW),
    (lambda x: wb.diagflat(x, 1), lambda x: np.diagflat(x, 1), X[0, :2, :2]),
    (lambda x: wb.trace(x, 1, 1, 2), lambda x: np.trace(x, 1, 1, 2), X),
    *((lambda x, k=k: wb.rot90(x, k, [0, 2]), lambda x, k=k: np.rot90(x, k, (0, 2)), X) for k in range(-1, 4)),
    (lambda x: wb.rot90(x, 1, [2, 1]), lambda x: np.rot90(x, 1, (2, 1)), X),
    (lambda x: wb.vsplit(x, [1, 2])[1], lambda x: x[1:], X.reshape(3, 8)),
    (lambda x: wb.atleast_2d(x), np.atleast_2d, ROW),
    (lambda x: wb.atleast_3d(x), np.atleast_3d, ROW),
    (lambda x: wb.atleast_3d(x), np.atleast_3d, X[0]),
    (lambda x: wb.meshgrid(x, wb.arange(2))[0], lambda x: np.meshgrid(x, np.arange(2), indexing="ij")[0], ROW),
    (lambda x: wb.broadcast_tensors([x, wb.ones([4, 1])])[0], lambda x: np.broadcast_to(x, (4, 3)), ROW),
    (lambda x: wb.clone(x), np.copy, X),
    (lambda x: wb.masked_fill(x, x > 5.5, 0.5), lambda x: np.where(x > 5.5, 0.5, x), X),
]  # fmt: skip


@pytest.mark.parametrize(("function", "reference", "point"), CASES)
def test_values_are_numpy_s_in_both_modes(function: Any, reference: Any, point: np.ndarray) -> None:
    value, shape = static(function, point, known=True)
    np.testing.assert_array_equal(dynamic(function, point), reference(point))
    np.testing.assert_array_equal(value.reshape(np.shape(reference(point))), reference(point))
    assert tuple(shape) == value.shape


@pytest.mark.parametrize(("function", "reference", "point"), CASES)
def test_each_element_gets_the_gradient_of_its_place(function: Any, reference: Any, point: np.ndarray) -> None:
    """These functions move elements: the gradient is how often each one comes back, weighted by where."""
    x = wb.to_tensor(point, stop_gradient=False)
    out = function(x)
    weights = np.random.default_rng(0).normal(size=tuple(out.shape))
    if not out.size:
        return
    (wb.where(wb.isfinite(out), out, wb.zeros_like(out)) * wb.to_tensor(weights)).sum().backward()
    expected = np.zeros(point.size)
    for i in range(point.size):
        if np.isfinite(point.flat[i]):
            moved = point.copy()
            moved.flat[i] += 0.25
            change = np.nan_to_num(reference(moved), posinf=0.0) - np.nan_to_num(reference(point), posinf=0.0)
            expected[i] = np.sum(change * weights) / 0.25
    np.testing.assert_allclose(x.grad.numpy().ravel(), expected, atol=1e-12)


def test_places_of_triangles() -> None:
    np.testing.assert_array_equal(wb.tril_indices(3, 4, 1).numpy(), np.tril_indices(3, 1, 4))
    np.testing.assert_array_equal(wb.triu_indices(3, 4, -1).numpy(), np.triu_indices(3, -1, 4))
    assert wb.triu_indices(2, dtype="int32").dtype == "int32"


def test_equality_of_whole_tensors() -> None:
    x = wb.to_tensor(X)
    assert wb.equal_all(x, x + 0).item() and not wb.equal_all(x, x + 1).item()
    assert not wb.equal_all(x, wb.reshape(x, [3, 2, 4])).item()
    assert wb.is_empty(wb.zeros([0])).item() and not wb.is_empty(x).item()


def test_what_is_refused() -> None:
    for wrong in (
        lambda: wb.diag(wb.ones([1, 1, 1])),
        lambda: wb.meshgrid(wb.ones([2, 2])),
        lambda: wb.vsplit(wb.ones([2]), 2),
    ):
        with pytest.raises(ShapeError):
            wrong()
