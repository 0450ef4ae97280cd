"""Ctrl-C at every moment of a recorded step, and steps that fail: tensors show a whole step or none."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np
import pytest

import workbench as wb
from tests.stress.tripwire import Tripwire
from workbench.errors import InvalidArgument
from workbench.jit.values.captured_tensor import CapturedTensor, NeedsValue

NAMES = ("recorded_function", "recorded_step", "leaf_gradients", "values/bindings", "values/shared_storage")
FILES = [f"jit/{name}.py" for name in NAMES]


class Trained(NamedTuple):
    """Two parameters, and a captured step that leaves their gradients behind."""

    parameters: list[Any]
    optimizer: Any
    step: Callable[[Any], Any]

    def state(self) -> list[Any]:
        """Values, moments and gradients."""
        states = [t.tolist() for name, t in self.optimizer.state_dict().items() if "velocity" in name]
        return [*(p.tolist() for p in self.parameters), *(states or [[0.0, 0.0]] * 2), *self.gradients()]

    def gradients(self) -> list[Any]:
        return [None if p.grad is None else p.grad.tolist() for p in self.parameters]


def trained() -> Trained:
    parameters = [wb.create_parameter([2], "float32") for _ in range(2)]
    for number, parameter in enumerate(parameters):
        parameter.set_value(np.array([number, 1.0], np.float32))
    optimizer = wb.optimizer.Momentum(0.5, parameters=parameters)

    def step(x: Any) -> Any:
        loss = ((parameters[0] + parameters[1]) * x).sum()
        loss.backward()
        optimizer.step()
        return loss

    return Trained(parameters, optimizer, wb.jit.capture(step))


X = np.array([1.0, 2.0], np.float32)


@pytest.mark.filterwarnings("ignore::workbench.framework.notice.Notice", "ignore:Exception ignored")
def test_the_first_call_applies_whole_or_not_at_all() -> None:
    """It is recorded, bound and run, and tensors follow the storage that it moves."""
    model = trained()
    before = model.state()
    with Tripwire(None, FILES) as wire:
        model.step(wb.to_tensor(X))
    after, applied = model.state(), []
    for n in range(0, wire.count, 11):
        model = trained()
        with suppress(KeyboardInterrupt), Tripwire(n, FILES):  # that of a weak reference's callback is not raised
            model.step(wb.to_tensor(X))
        assert not any(isinstance(p.grad, CapturedTensor) for p in model.parameters), n
        assert model.state() in (before, after), n
        applied.append(model.state() == after)
        model.parameters[0].set_value(np.array([5.0, 5.0], np.float32))
        expected = sum(p.numpy() @ X for p in model.parameters)
        assert model.step(wb.to_tensor(X)).item() == pytest.approx(expected), n
    assert set(applied) == {False, True}


def test_gradients_are_left_for_all_parameters_or_for_none() -> None:
    model = trained()
    model.step(wb.to_tensor(X))
    for n in range(500):
        for parameter in model.parameters:
            parameter.grad = None
        try:
            with Tripwire(n, FILES):
                model.step(wb.to_tensor(X))
        except KeyboardInterrupt:
            assert model.gradients() in ([None, None], [[1.0, 2.0]] * 2), n
        else:
            return
    raise AssertionError("a step has more moments than that")


@pytest.mark.parametrize("devices", [1, 2])
def test_what_is_written_after_a_first_run_that_failed_is_kept(devices: int) -> None:
    """Such a run has moved storage into a bucket, where nobody had written to it."""
    table, layer = wb.nn.Embedding(10, 4), wb.nn.Linear(4, 3)
    optimizer = wb.optimizer.Momentum(0.1, parameters=layer.parameters())

    def step(ids: Any) -> Any:
        loss = layer(table(ids)).sum()
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
        return loss

    captured = wb.jit.capture(step, devices=devices)
    with pytest.raises(InvalidArgument, match="id 300"):
        captured(wb.to_tensor(np.array([1, 2, 300, 4])))
    layer.weight.set_value(np.zeros((4, 3), np.float32))
    layer.bias.set_value(np.ones(3, np.float32))
    assert captured(wb.to_tensor(np.array([1, 2, 3, 4]))).numpy().sum() == 12.0


def test_a_gradient_the_function_assigns_is_taken_back_where_it_is_refused() -> None:
    w = wb.create_parameter([2], "float32")
    (w * 3).sum().backward()
    grad = w.grad

    def step(x: Any) -> Any:
        (w.grad,) = wb.grad((w * x).sum(), w)
        return float(x.sum())

    with pytest.raises(NeedsValue):
        wb.jit.capture(step)(wb.to_tensor(X))
    assert w.grad is grad
