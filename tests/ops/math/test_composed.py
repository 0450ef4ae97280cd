"""Functions composed of other ops: their values against NumPy, in both modes, and their gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.special

import workbench as wb
from tests.ops.programs import both, dynamic, static
from workbench.errors import InvalidArgument, ShapeError

R = np.random.default_rng(5)
A, B = R.normal(size=(3, 4)), R.normal(size=(3, 4))
INSIDE = R.uniform(0.1, 0.9, size=(3, 4))
SPECIAL = np.array([np.nan, np.inf, -np.inf, 0.0, 2.0, -3.0])
OTHER = np.array([1.0, np.inf, 1.0, 0.0, np.nan, -4.0])

# function, what NumPy says, points at which the gradient is checked too
SMOOTH: dict[str, tuple[Callable[..., Any], Callable[..., Any], tuple[np.ndarray, ...]]] = {
    "frac": (wb.frac, lambda x: x - np.trunc(x), (A * 3,)),
    "asinh": (wb.asinh, np.arcsinh, (A * 3,)),
    "acosh": (wb.acosh, np.arccosh, (INSIDE + 1,)),
    "atanh": (wb.atanh, np.arctanh, (INSIDE,)),
    "lerp": (lambda x, y: wb.lerp(x, y, 0.3), lambda x, y: x + 0.3 * (y - x), (A, B)),
    "lerp by tensors": (wb.lerp, lambda x, y, w: x + w * (y - x), (A, B, INSIDE)),
    "logaddexp": (wb.logaddexp, np.logaddexp, (A, B)),
    "logaddexp at a tie": (wb.logaddexp, np.logaddexp, (A, A)),
    "hypot": (wb.hypot, np.hypot, (A, B)),
    "ldexp": (wb.ldexp, lambda x, y: x * 2**y, (A, B)),
    "stanh": (wb.stanh, lambda x: 1.7159 * np.tanh(0.67 * x), (A,)),
    "deg2rad": (wb.deg2rad, np.deg2rad, (A,)),
    "rad2deg": (wb.rad2deg, np.rad2deg, (A,)),
    "logit": (wb.logit, lambda x: np.log(x / (1 - x)), (INSIDE,)),
    "fmax": (wb.fmax, np.fmax, (A, B)),
    "fmin": (wb.fmin, np.fmin, (A, B)),
    "diff": (lambda x: wb.diff(x, n=2), lambda x: np.diff(x, n=2), (A,)),
    "diff, joined": (
        lambda x, y: wb.diff(x, axis=0, prepend=y, append=y),
        lambda x, y: np.diff(x, axis=0, prepend=y, append=y),
        (A, B),
    ),
    "trapezoid": (lambda y: wb.trapezoid(y, dx=0.5, axis=0), lambda y: np.trapezoid(y, dx=0.5, axis=0), (A,)),
    "trapezoid at": (lambda y, x: wb.trapezoid(y, x, axis=0), lambda y, x: np.trapezoid(y, x, axis=0), (A, B)),
    "trapezoid at a row": (
        lambda y, x: wb.trapezoid(y, x, axis=0), lambda y, x: np.trapezoid(y, x, axis=0), (A, A[:, 0])
    ),
    "cumulative_trapezoid": (
        lambda y: wb.cumulative_trapezoid(y, dx=0.5),
        lambda y: np.cumsum((y[:, 1:] + y[:, :-1]) / 4, 1),
        (A,),
    ),
    "multigammaln": (lambda x: wb.multigammaln(x, 3), lambda x: scipy.special.multigammaln(x + 0.0, 3), (INSIDE + 2,)),
    "addmm": (
        lambda i, x, y: wb.addmm(i, x, y, beta=0.5, alpha=2.0),
        lambda i, x, y: 0.5 * i + 2 * (x @ y),
        (A[:, :3], A, B.T),
    ),
    "mv": (wb.mv, np.dot, (A, B[0])),
    "outer": (wb.outer, np.outer, (A, B)),
    "var": (lambda x: wb.var(x, 1), lambda x: x.var(1, ddof=1), (A,)),
    "var, biased": (lambda x: wb.var(x, 0, False, True), lambda x: x.var(0, keepdims=True), (A,)),
    "std": (lambda x: wb.std(x, 1), lambda x: x.std(1, ddof=1), (A,)),
    "dist": (lambda x, y: wb.dist(x, y, 3), lambda x, y: (abs(x - y) ** 3).sum() ** (1 / 3), (A, B)),
}  # fmt: skip
KNOWN: dict[str, tuple[Callable[..., Any], Callable[..., Any], tuple[np.ndarray, ...]]] = {
    "inner": (wb.inner, np.inner, (A.reshape(3, 2, 2), B[:, :2])),
    "kron": (wb.kron, np.kron, (A, B[0])),
    "kron of more dimensions": (wb.kron, np.kron, (A[:2], B.reshape(2, 3, 2))),
    "tensordot": (wb.tensordot, np.tensordot, (A.reshape(1, 3, 4), B)),
    "tensordot along": (
        lambda x, y: wb.tensordot(x, y, [[0, -1], [2, 0]]),
        lambda x, y: np.tensordot(x, y, [[0, -1], [2, 0]]),
        (A.reshape(3, 2, 2), B.reshape(2, 2, 3)),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", SMOOTH)
def test_values_are_numpy_s_and_gradients_those_of_differences(name: str) -> None:
    function, reference, points = SMOOTH[name]
    np.testing.assert_allclose(both(function, *points), reference(*points), rtol=1e-12, atol=1e-12)
    check_gradient(function, reference, *points)


@pytest.mark.parametrize("name", KNOWN)
def test_products_of_tensors_of_known_shape_are_numpy_s(name: str) -> None:
    function, reference, points = KNOWN[name]
    values = dynamic(function, *points)
    np.testing.assert_allclose(values, reference(*points), rtol=1e-12)
    value, shape = static(function, *points, known=True)
    np.testing.assert_array_equal(value, values)
    assert tuple(shape) == value.shape
    check_gradient(function, reference, *points)


def check_gradient(function: Callable[..., Any], reference: Callable[..., Any], *points: np.ndarray) -> None:
    """The gradient of a weighted sum against central differences of the reference."""
    tensors = [wb.to_tensor(p, stop_gradient=False) for p in points]
    out = function(*tensors)
    weights = np.random.default_rng(1).normal(size=tuple(out.shape))
    (out * wb.to_tensor(weights)).sum().backward()
    for i, tensor in enumerate(tensors):
        direction = np.random.default_rng(i).normal(size=points[i].shape)
        ends = [
            np.sum(weights * reference(*(p + s * 1e-6 * direction if j == i else p for j, p in enumerate(points))))
            for s in (1, -1)
        ]
        assert np.sum(tensor.grad.numpy() * direction) == pytest.approx((ends[0] - ends[1]) / 2e-6, rel=1e-6, abs=1e-7)


@pytest.mark.parametrize(
    ("function", "reference", "points"),
    [
        (wb.heaviside, np.heaviside, (SPECIAL[1:], OTHER[1:])),
        (wb.fmax, np.fmax, (SPECIAL, OTHER)),
        (wb.fmin, np.fmin, (SPECIAL, OTHER)),
        (wb.logaddexp, np.logaddexp, (np.array([np.inf, -np.inf, -np.inf, 1e3]), np.array([1.0, -np.inf, 2.0, 1e3]))),
        (wb.nan_to_num, np.nan_to_num, (SPECIAL,)),
        (wb.nan_to_num, np.nan_to_num, (SPECIAL.astype("float32"),)),
        (lambda x: wb.nan_to_num(x, 1.0, 2.0, 3.0), lambda x: np.nan_to_num(x, True, 1.0, 2.0, 3.0), (SPECIAL,)),
        (lambda x: wb.logit(x, 0.1), lambda x: np.log(x / (1 - x)).clip(-np.log(9), np.log(9)), (INSIDE,)),
        (wb.isclose, np.isclose, (SPECIAL, OTHER)),
        (
            lambda x, y: wb.isclose(x, y, equal_nan=True),
            lambda x, y: np.isclose(x, y, equal_nan=True),
            (SPECIAL, SPECIAL),
        ),
        (lambda x, y: wb.isclose(x, y, 0.5, 0.1), lambda x, y: np.isclose(x, y, 0.5, 0.1), (A, B)),
        (lambda x: wb.nansum(x, 0), lambda x: np.nansum(x, 0), (np.where(A > 1, np.nan, A),)),
        (lambda x: wb.nanmean(x, 1), lambda x: np.nanmean(x, 1), (np.where(A > 1, np.nan, A),)),
        (lambda x: wb.count_nonzero(x, 1), lambda x: np.count_nonzero(x, 1), (np.trunc(A),)),
        (lambda x: wb.diff(x > 0.0), lambda x: np.diff(x > 0.0), (A,)),
    ],
)
def test_special_values_and_kinds_follow_numpy(function: Any, reference: Any, points: Any) -> None:
    np.testing.assert_allclose(both(function, *points), reference(*points), rtol=1e-12)


def test_small_numbers_keep_their_digits() -> None:
    """A formula that takes the difference of nearly equal numbers would give 0."""
    x = wb.to_tensor([1e-10, -1e-10], stop_gradient=False)
    for function in (wb.asinh, wb.atanh, wb.expm1, wb.sinh):
        np.testing.assert_allclose(function(x).numpy(), x.numpy(), rtol=1e-6)
    assert wb.grad(wb.asinh(zero := wb.to_tensor([0.0], stop_gradient=False)), zero)[0].item() == 1.0


def test_what_is_refused() -> None:
    x = wb.ones([3])
    with pytest.raises(InvalidArgument, match="n >= 1, got 0"):
        wb.diff(x, n=0)
    with pytest.raises(InvalidArgument, match="x or dx"):
        wb.trapezoid(x, x, dx=1.0)
    with pytest.raises(ShapeError, match="axis 0"):
        wb.tensordot(x, wb.ones([2]), axes=1)
    with pytest.raises(ShapeError, match="matrix and a vector"):
        wb.mv(x, x)
    with pytest.raises(InvalidArgument, match="rtol and atol"):
        wb.isclose(x, x, rtol=-1.0)


def test_corners_are_paddle_s() -> None:
    assert wb.heaviside(wb.to_tensor([np.nan]), wb.to_tensor([0.5])).item() == 0.0
    np.testing.assert_array_equal(wb.trunc(wb.to_tensor([3, -2])).numpy(), [3, -2])
    assert wb.logaddexp(wb.to_tensor([1]), wb.to_tensor([2])).dtype == "float32"
    for function in (wb.fmax, wb.fmin):
        x, y = (wb.to_tensor([1.0], stop_gradient=False) for _ in range(2))
        gradients = wb.grad(function(x, y), [x, y])
        assert [g.item() for g in gradients] == [1.0, 0.0]
