"""L-BFGS against SciPy's, and on problems whose answers are known."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.optimize import line_search, minimize, rosen, rosen_der

import workbench as wb
from workbench.errors import InvalidArgument, InvalidType
from workbench.nn import initializer
from workbench.optimizer import LBFGS
from workbench.optimizer.rules.line_search import strong_wolfe


def parameter(value: Any) -> Any:
    value = np.asarray(value, np.float64)
    return wb.create_parameter(value.shape, value.dtype, default_initializer=initializer.Assign(value))


def rosenbrock(optimizer: LBFGS, w: Any) -> Any:
    def closure() -> Any:
        a, b = w[:-1], w[1:]
        loss = (100.0 * (b - a * a) * (b - a * a) + (1.0 - a) * (1.0 - a)).sum()
        optimizer.clear_grad()
        loss.backward()
        return loss

    return closure


@pytest.mark.parametrize("history", [3, 100])
def test_it_finds_the_bottom_of_rosenbrocks_valley(history: int) -> None:
    w = parameter([-1.2, 1.0, 0.7])
    optimizer = LBFGS(line_search_fn="strong_wolfe", max_iter=60, history_size=history, parameters=[w])
    first = optimizer.step(rosenbrock(optimizer, w))
    assert float(first) == pytest.approx(rosen(np.array([-1.2, 1.0, 0.7])))
    known = minimize(rosen, [-1.2, 1.0, 0.7], jac=rosen_der, method="L-BFGS-B").x
    np.testing.assert_allclose(w.numpy(), known, atol=1e-4)


def test_a_quadratic_in_several_parameters() -> None:
    rng = np.random.default_rng(0)
    m = rng.standard_normal((4, 4))
    hessian, target = m @ m.T + np.eye(4), rng.standard_normal(4)
    a, b = parameter(np.zeros(3)), parameter(np.zeros((1, 1)))
    optimizer = LBFGS(line_search_fn="strong_wolfe", max_iter=30, parameters=[a, b])

    def closure() -> Any:
        x = wb.concat([a, b.reshape([1])]) - wb.to_tensor(target)
        loss = (x * (wb.to_tensor(hessian) @ x)).sum()
        optimizer.clear_grad()
        loss.backward()
        return loss

    optimizer.step(closure)
    np.testing.assert_allclose(np.concatenate([a.numpy(), b.numpy().ravel()]), target, atol=1e-4)


def test_without_a_search_steps_have_the_rate_as_length() -> None:
    w = parameter([4.0])
    optimizer = LBFGS(learning_rate=0.1, max_iter=1, parameters=[w])

    def closure() -> Any:
        loss = (w * w).sum()
        optimizer.clear_grad()
        loss.backward()
        return loss

    optimizer.step(closure)  # the first one is shortened to 1 / |gradient|
    assert w.numpy() == pytest.approx([4.0 - 0.1])
    optimizer.step(closure)  # the curvature is known now: Newton's step, times the rate
    assert w.numpy() == pytest.approx([3.9 * 0.9])


def test_a_restored_state_goes_on_exactly(tmp_path: Any) -> None:
    w = parameter([-1.2, 1.0])
    optimizer = LBFGS(line_search_fn="strong_wolfe", max_iter=3, parameters=[w])
    for _ in range(2):
        optimizer.step(rosenbrock(optimizer, w))
    wb.save(optimizer.state_dict(), tmp_path / "state")
    v = parameter(w.numpy())
    other = LBFGS(line_search_fn="strong_wolfe", max_iter=3, parameters=[v])
    other.set_state_dict(wb.load(tmp_path / "state"))
    for _ in range(3):
        optimizer.step(rosenbrock(optimizer, w))
        other.step(rosenbrock(other, v))
        assert np.array_equal(w.numpy(), v.numpy())


@pytest.mark.parametrize("first", [0.01, 1.0, 30.0])
def test_the_search_meets_both_conditions(first: float) -> None:
    start, direction = np.array([-1.2, 1.0]), -rosen_der(np.array([-1.2, 1.0])) / 100
    slope = rosen_der(start) @ direction

    def at(length: float) -> tuple[float, np.ndarray]:
        return rosen(start + length * direction), rosen_der(start + length * direction)

    step = strong_wolfe(at, direction, first, rosen(start), rosen_der(start), slope)
    assert step.loss == rosen(start + step.length * direction)
    assert step.loss <= rosen(start) + 1e-4 * step.length * slope
    assert abs(step.gradient @ direction) <= 0.9 * abs(slope)
    assert line_search(rosen, rosen_der, start, direction)[0] is not None  # there is such a length


def search_along(curve: np.polynomial.Polynomial, first: float) -> tuple[float, list[float]]:
    """The length `strong_wolfe` chooses on a curve of one variable, and all lengths it tried."""
    slope, tried = curve.deriv(), []

    def at(length: float) -> tuple[float, np.ndarray]:
        tried.append(length)
        return curve(length), np.array([slope(length)])

    step = strong_wolfe(at, np.array([1.0]), first, curve(0.0), np.array([slope(0.0)]), slope(0.0))
    assert step.loss <= curve(0.0) + 1e-4 * step.length * slope(0.0)
    assert abs(slope(step.length)) <= 0.9 * abs(slope(0.0))
    return step.length, tried


def test_the_search_reaches_a_distant_minimum() -> None:
    length, tried = search_along(np.polynomial.Polynomial([1e4, -200.0, 1.0]), 0.01)  # (length - 100) ** 2
    assert 1.0 < length < 200.0 and len(tried) > 2


def test_the_search_stays_between_two_points_once_it_has_them() -> None:
    curve = np.polynomial.Polynomial([-1.14, -0.54, -0.46, 1.66, -0.59, -1.36, 0.16])
    _, tried = search_along(curve, 1.0)
    assert len(tried) <= 12  # a length outside the interval makes it no smaller: the search would end at its limit, 25


def test_wrong_input_is_named() -> None:
    w = parameter([1.0])
    with pytest.raises(InvalidType, match="a function that computes loss and gradients, got None"):
        LBFGS(parameters=[w]).step()
    with pytest.raises(InvalidArgument, match="'strong_wolfe', got 'armijo'"):
        LBFGS(line_search_fn="armijo", parameters=[w])
    with pytest.raises(InvalidArgument, match="not a state of LBFGS"):
        LBFGS(parameters=[w]).set_state_dict({"w_moment1_0": 1})
