"""Branches and loops over values are recorded where they are written with `static.nn`."""

from typing import Any

import numpy as np
import pytest

import workbench as wb
from workbench import static
from workbench.errors import Unimplemented


def signed(x: Any) -> Any:
    return static.nn.cond(x.sum() > 0, lambda: x * 2, lambda: -x)


def doubled_until(x: Any) -> Any:
    count, y = static.nn.while_loop(
        lambda i, y: (y.sum() < 10).astype("bool"), lambda i, y: [i + 1, y * 2], [wb.zeros([1], "int64"), x]
    )
    return count, y


@pytest.mark.parametrize("make", [lambda f: f, wb.jit.capture, wb.jit.to_static], ids=["at once", "capture", "static"])
def test_branches_and_loops_follow_the_values_of_every_call(make: Any) -> None:
    branch, loop = make(signed), make(doubled_until)
    assert branch(wb.to_tensor([3.0, 1.0])).tolist() == [6.0, 2.0]
    assert branch(wb.to_tensor([-3.0, 1.0])).tolist() == [3.0, -1.0]
    for start, expected in ((1.0, (4, 16.0)), (3.0, (2, 12.0)), (20.0, (0, 20.0))):
        count, y = loop(wb.to_tensor([start]))
        assert (int(count), float(y)) == expected


def test_a_step_learns_through_a_branch() -> None:
    outcomes = []
    for make in (lambda f: f, wb.jit.capture):
        w = wb.create_parameter([2], "float32")
        with wb.no_grad():
            w.set_value(np.array([1.0, -2.0], np.float32))
        updates = wb.optimizer.SGD(0.1, parameters=[w])

        def step(x: Any, w: Any = w, updates: Any = updates) -> Any:
            y = w * x
            loss = static.nn.cond(y.sum() > 0, lambda: (y * y).sum(), lambda: (y * 3).sum())
            loss.backward()
            updates.step()
            updates.clear_grad()
            return loss

        run = make(step)
        outcomes.append([*(float(run(wb.to_tensor(x))) for x in ([2.0, 0.5], [0.5, 2.0], [2.0, 0.5])), *w.tolist()])
    assert np.allclose(*outcomes)


@pytest.mark.parametrize("start", [1.0, 3.0, 20.0])
def test_gradients_pass_through_loops(start: float) -> None:
    gradients = []
    for make in (lambda f: f, wb.jit.to_static):
        x = wb.to_tensor([start, 0.5], stop_gradient=False)
        y = make(lambda x: wb.tanh(doubled_until(x)[1] * 0.1))(x)
        (y * y).sum().backward()
        gradients.append(x.grad.numpy())
    assert np.allclose(*gradients, rtol=1e-6)


def test_the_gradient_of_a_branch_that_draws_needs_the_whole_step() -> None:
    function = wb.jit.to_static(lambda x: static.nn.cond(x.sum() > 0, lambda: wb.nn.functional.dropout(x), lambda: x))
    with pytest.raises(Unimplemented, match=r"(?s)draws random numbers.*jit\.capture"):
        function(wb.to_tensor([1.0], stop_gradient=False))


def penalised(w: Any, updates: Any, x: Any) -> Any:
    mixed = x * 0.5 + 1.0
    mixed.stop_gradient = False
    (slope,) = wb.grad((wb.tanh(mixed * w)).sum(), mixed, create_graph=True)
    loss = (slope.square().sum() - 1).square()
    loss.backward()
    updates.step()
    updates.clear_grad()
    return loss, slope.detach()


def test_a_penalty_on_a_gradient() -> None:
    results = []
    for make in (lambda f: f, wb.jit.capture):
        w = wb.create_parameter([2], "float32")
        with wb.no_grad():
            w.set_value(np.array([1.0, -0.5], np.float32))
        updates = wb.optimizer.SGD(0.1, parameters=[w])
        step = make(lambda x, w=w, updates=updates: penalised(w, updates, x))
        for _ in range(3):
            loss, slope = step(wb.to_tensor([0.3, 0.7]))
        results.append([float(loss), *slope.tolist(), *w.tolist()])
    assert np.allclose(*results, rtol=1e-5)


def test_a_gradient_by_something_unused() -> None:
    def step(x: Any, allow: bool) -> Any:
        y = x * 2
        y.stop_gradient = False
        return wb.grad(y * 3, [y, wb.to_tensor([1.0], stop_gradient=False)], allow_unused=allow)

    first, second = wb.jit.capture(step)(wb.to_tensor([1.0]), True)
    assert first.tolist() == [3.0] and second is None
    with pytest.raises(ValueError, match="no output depends on input 1"):
        wb.jit.capture(step)(wb.to_tensor([1.0]), False)
