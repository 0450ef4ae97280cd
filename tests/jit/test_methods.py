"""Recorded methods: each object has its own, and a copy of an object is another object."""

from __future__ import annotations

import copy
import gc
import pickle
from collections.abc import Callable
from typing import Any
from weakref import ref

import pytest

import workbench as wb


class Trainer:
    """Adds to its own weight."""

    def __init__(self) -> None:
        self.weight = wb.zeros([1])
        self.by = 1.0

    @wb.jit.capture
    def step(self, x: Any) -> Any:
        wb.assign(self.weight + x * self.by, self.weight)
        return self.weight * 1.0

    @wb.jit.to_static
    def ahead(self, x: Any) -> Any:
        return self.weight + x * self.by


class Net(wb.nn.Layer):
    def __init__(self) -> None:
        super().__init__()
        self.inner = wb.nn.Linear(2, 1)

    @wb.jit.to_static
    def forward(self, x: Any) -> Any:
        return self.inner(x)


def shallow(trainer: Trainer) -> Trainer:
    copied = copy.copy(trainer)
    copied.weight = trainer.weight.clone()
    return copied


def pickled(trainer: Trainer) -> Trainer:
    copied: Trainer = pickle.loads(pickle.dumps({"trainer": _without_tensors(trainer)}))["trainer"]
    copied.weight = trainer.weight.clone()
    return copied


def _without_tensors(trainer: Trainer) -> Trainer:
    bare = copy.copy(trainer)
    del bare.weight
    return bare


@pytest.mark.parametrize("copied", [shallow, copy.deepcopy, pickled])
def test_a_copy_steps_itself(copied: Callable[[Trainer], Trainer]) -> None:
    one, x = Trainer(), wb.ones([1])
    assert [one.step(x).item(), one.ahead(x).item()] == [1.0, 2.0]
    other = copied(one)
    assert [other.step(x).item() for _ in range(3)] == [2.0, 3.0, 4.0]
    assert one.weight.item() == 1.0 and other.weight.item() == 4.0
    assert one.step(x).item() == 2.0 and other.weight.item() == 4.0
    assert [one.ahead(x).item(), other.ahead(x).item()] == [3.0, 5.0]
    assert one.step is one.step and other.step is other.step is not one.step


@pytest.mark.parametrize("make", [Net, lambda: wb.jit.to_static(wb.nn.Linear(2, 1))])
def test_a_layer_is_copied_deeply(make: Callable[[], Any]) -> None:
    net, x = make(), wb.ones([3, 2])
    before = net(x).numpy()
    other = copy.deepcopy(net)
    for parameter in other.parameters():
        parameter.set_value(parameter * 0.0 + 1.0)
    assert other(x).tolist() == [[3.0]] * 3 and net(x).numpy().tolist() == before.tolist()
    other(x).sum().backward()
    assert all(parameter.grad is None for parameter in net.parameters())
    assert isinstance(other.forward, wb.jit.StaticFunction) and other.forward is not net.forward


def doubled(x: Any) -> Any:
    return x * 2.0


def test_a_recorded_function_is_one_object_as_a_function_is() -> None:
    step = wb.jit.capture(doubled)
    step(wb.ones([1]))
    assert copy.deepcopy({"step": step})["step"] is step is copy.copy(step)
    assert step.captures == 1


def test_another_method_of_the_same_name_is_another_one() -> None:
    trainer, x = Trainer(), wb.ones([1])

    class Own(Trainer):
        step = wb.jit.capture(lambda self, x: x * 7.0)

    own = Own()
    assert [own.step(x).item(), trainer.step(x).item()] == [7.0, 1.0]
    Own.step = wb.jit.capture(lambda self, x: x * 9.0)
    gc.collect()
    assert own.step(x).item() == 9.0


def test_an_object_and_what_was_recorded_of_it_go_together() -> None:
    trainer = Trainer()
    trainer.step(wb.ones([1]))
    left = ref(trainer)
    del trainer
    gc.collect()
    assert left() is None


class Scaled(wb.nn.Layer):
    """What it computes follows from an attribute of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = self.create_parameter([2], default_initializer=wb.nn.initializer.Constant(1.0))
        self.scale = 2.0

    def forward(self, x: Any) -> Any:
        return (x * self.weight * self.scale).sum()


@pytest.mark.parametrize("wrap", [wb.jit.to_static, wb.jit.capture], ids=["to_static", "capture"])
@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy])
def test_a_copy_of_a_layer_with_a_recorded_forward_runs_its_own(wrap: Any, copied: Any) -> None:
    net, x = Scaled(), wb.ones([2])
    net.forward = wrap(net.forward)
    assert float(net(x)) == 4.0
    other = copied(net)
    other.scale = 3.0
    assert [float(net(x)), float(other(x)), float(net(x))] == [4.0, 6.0, 4.0]
    assert (other.weight is net.weight) == (copied is copy.copy)  # a shallow copy has the same parameters


def test_a_copy_of_a_layer_keeps_what_its_class_says_of_its_state() -> None:
    class Counted(Scaled):
        def __getstate__(self) -> Any:
            return {**vars(self), "scale": 5.0}

    assert float(copy.copy(Counted())(wb.ones([2]))) == 10.0
