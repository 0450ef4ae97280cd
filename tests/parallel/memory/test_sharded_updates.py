"""Replicas that hold the same numbers share the work of an update, and stop when one of them is written (X-24)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.parallel.models import Model, batch, build, classifier
from workbench import static
from workbench.config import override
from workbench.executors.replicas import replicated_values
from workbench.runtime.storage.bucket import Bucket

OPTIMIZERS: dict[str, Callable[[], Any]] = {
    "sgd": lambda: wb.optimizer.SGD(0.1),
    "momentum": lambda: wb.optimizer.Momentum(0.1, 0.9),
    "adam": lambda: wb.optimizer.Adam(0.01),
    "adamax": lambda: wb.optimizer.Adamax(0.01),
    "adadelta": lambda: wb.optimizer.Adadelta(1.0),
}


pytestmark = pytest.mark.usefixtures("tape")


def wide(optimizer: Any) -> Model:
    """A model whose updates are long enough to be divided."""
    return classifier(optimizer, extra=lambda h: static.nn.fc(h, 64))


def replicas(model: Model, exe: Any, devices: int) -> dict[str, list[np.ndarray]]:
    """The devices' values of everything the program keeps."""
    names = [v.name for v in model.main.persistables()]
    return {n: [np.array(exe.local_scope(d).find_var(n).get_tensor()) for d in range(devices)] for n in names}


def shards(exe: Any) -> int:
    """How many updates are shared."""
    return len(exe.inspection.last.replicated.shards)


def trained(name: str, devices: int, between: Callable[[Model, Any, int], None] = lambda model, exe, step: None) -> Any:
    model = wide(OPTIMIZERS[name]()).start()
    exe = model.parallel(devices)
    shared = []
    for step in range(6):
        exe.run([], feed=batch(12, step))
        shared.append(shards(exe))
        between(model, exe, step)
    return replicas(model, exe, devices), shared


def same_bits(a: dict[str, list[np.ndarray]], b: dict[str, list[np.ndarray]]) -> None:
    for name, values in a.items():
        for x, y in zip(values, b[name], strict=True):
            assert x.tobytes() == y.tobytes(), name


def close(a: dict[str, list[np.ndarray]], b: dict[str, list[np.ndarray]]) -> None:
    for name, values in a.items():
        for x, y in zip(values, b[name], strict=True):
            np.testing.assert_allclose(x, y, rtol=2e-5, atol=1e-6, err_msg=name)


@pytest.mark.parametrize("devices", [2, 3])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_shared_update_gives_the_bits_of_one_on_every_device(
    name: str, devices: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    results, shared = trained(name, devices)
    assert shared == [devices] * 6
    monkeypatch.setattr(replicated_values, "_hold_the_same", lambda *given: False)
    apart, none = trained(name, devices)
    assert none == [0] * 6
    same_bits(results, apart)
    for values in results.values():
        assert all(v.tobytes() == values[0].tobytes() for v in values)


def set_on_device_1(model: Model, exe: Any, step: int) -> None:
    if step == 2:
        tensor = exe.local_scope(1).find_var("fc_1.w_0").get_tensor()
        tensor.set(np.array(tensor) + 1)


def set_in_the_scope(model: Model, exe: Any, step: int) -> None:
    if step == 2:
        tensor = model.scope.find_var("fc_1.w_0").get_tensor()
        tensor.set(np.array(tensor) * 0.5)


def set_a_power(model: Model, exe: Any, step: int) -> None:
    if step == 2:
        name = next(v.name for v in model.main.persistables() if "beta1_pow" in v.name)
        for device in range(len(exe.inspection.places)):
            exe.local_scope(device).find_var(name).get_tensor().set(np.full(1, 0.5, np.float32))


def train_alone(model: Model, exe: Any, step: int) -> None:
    if step == 2:
        static.Executor().run(model.main, feed=batch(12, 99), scope=model.scope)


def set_a_rate(model: Model, exe: Any, step: int) -> None:
    """Device 1 has a rate of its own for one step: kernels decline, and every device does its whole update."""
    if step in (1, 2):
        rate = exe.local_scope(1).find_var("learning_rate_0").get_tensor()
        rate.set(np.array(rate) * (0.5 if step == 1 else 2))


@pytest.mark.parametrize("between", [set_on_device_1, set_in_the_scope, set_a_power, set_a_rate, train_alone])
def test_who_writes_one_replica_ends_the_sharing(between: Callable[..., None]) -> None:
    """From then on every device has numbers of its own, as where nothing was ever shared."""
    values, shared = trained("adam", 2, between)
    assert shared == [2, 2, 2, 0, 0, 0]
    with override(cpu_tape=False):
        expected, _ = trained("adam", 2, between)
    close(values, expected)
    if between is not set_a_power:
        assert values["fc_1.w_0"][0].tobytes() != values["fc_1.w_0"][1].tobytes()


def test_replicas_are_compared_when_a_step_is_bound_and_not_in_every_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever number of steps had been made before."""
    asked: list[int] = []
    real = replicated_values._hold_the_same
    monkeypatch.setattr(replicated_values, "_hold_the_same", lambda *given: asked.append(1) or real(*given))
    exe, counts = wide(OPTIMIZERS["sgd"]()).start().parallel(2), []
    for rows in (20, 20, 12, 12, 12, 20, 12):
        exe.run([], feed=batch(rows))
        counts.append(len(asked))
    assert counts[0] == counts[1] < counts[2] == counts[-1] and shards(exe) == 2


def test_writing_all_replicas_the_same_keeps_it() -> None:
    """Who does so again and again is not taken for one who stops: in the end nothing moves any more."""

    def reset(model: Model, exe: Any, step: int) -> None:
        for device in range(2):
            tensor = exe.local_scope(device).find_var("fc_1.w_0").get_tensor()
            tensor.set(np.full(np.shape(tensor.array), 0.25, np.float32))
        assert exe.inspection.last.storage.is_current() == (step > 2)

    _, shared = trained("adam", 2, reset)
    assert shared == [2] * 6


def test_updates_by_what_a_device_computes_for_itself_are_not_shared() -> None:
    """The gradients are summed, and each device then adds something that only its rows say."""

    def body() -> Any:
        x, y = static.data("x", [None, 5]), static.data("y", [None, 1], "int64")
        h = static.nn.fc(static.nn.fc(x, 64), 3)
        loss = wb.mean(wb.nn.functional.softmax_with_cross_entropy(h, y))
        optimizer = wb.optimizer.SGD(0.1)
        optimizer.apply_gradients([(p, g + wb.mean(x)) for p, g in optimizer.backward(loss)])
        return loss

    def after_steps() -> tuple[dict[str, list[np.ndarray]], int]:
        model = build(body).start()
        exe = model.parallel(2)
        for step in range(3):
            exe.run([], feed=batch(12, step))
        return replicas(model, exe, 2), shards(exe)

    values, shared = after_steps()
    assert shared == 0
    with override(cpu_tape=False):
        expected, _ = after_steps()
    close(values, expected)
    assert values["fc_1.w_0"][0].tobytes() != values["fc_1.w_0"][1].tobytes()


def test_parameters_that_lie_beside_others_are_updated_by_every_device() -> None:
    """One program has put two layers' parameters together, and another one trains one of them beside a third."""

    def layers(trained: str, fixed: str = "") -> Model:
        def body() -> Any:
            h = static.data("x", [None, 5])
            for name in trained + fixed:
                h = static.nn.fc(h, 5, weight_attr=wb.ParamAttr(name, trainable=name in trained), bias_attr=False)
            return wb.mean(h)

        return build(body, wb.optimizer.SGD(0.1))

    def after_steps() -> tuple[dict[str, list[np.ndarray]], list[int]]:
        first, second = layers("ab", fixed="c").start(), layers("ac")
        exe = first.parallel(2)
        other = second.parallel(2, scope=first.scope, share_vars_from=exe)
        for each in (exe, other):
            each.run([], feed={"x": batch(12)["x"]})
        return replicas(first, exe, 2), [shards(exe), shards(other), other.inspection.last.is_native]

    values, shared = after_steps()
    assert shared == [2, 0, True]
    with override(cpu_tape=False):
        close(values, after_steps()[0])


def test_versions_move_on_with_every_step() -> None:
    model = wide(OPTIMIZERS["adam"]()).start()
    exe = model.parallel(2)
    exe.run([], feed=batch(12))
    tensor = model.scope.find_var("fc_1.w_0").get_tensor()
    seen = tensor.version
    exe.run([], feed=batch(12))
    assert tensor.version == seen + 1
    tensor.set(np.array(tensor))
    assert tensor.version not in (seen, seen + 1)


@pytest.mark.parametrize("devices", [1, 2])
def test_how_often_a_bucket_is_looked_at_does_not_grow_with_its_members(
    devices: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each look takes all of its members: a binding would take the square of their number."""

    def looks(layers: int) -> int:
        def deep(h: Any) -> Any:
            for _ in range(layers):
                h = static.nn.fc(h, 8)
            return h

        model = classifier(wb.optimizer.Adam(0.01), extra=deep).start()
        asked.clear()
        model.parallel(devices).run([], feed=batch(12))
        return len(asked)

    asked: list[Bucket] = []
    is_intact = Bucket.is_intact
    monkeypatch.setattr(Bucket, "is_intact", lambda bucket: asked.append(bucket) or is_intact(bucket))
    assert 0 < looks(2) == looks(9)


def test_an_update_of_parameters_that_cannot_lie_together_is_done_in_kernels_all_the_same() -> None:
    def trained_once(fixed: bool) -> list[bytes]:
        model = wide(wb.optimizer.Adam(0.05)).start()
        for parameter in model.main.all_parameters()[: int(fixed)]:
            model.scope.find_var(parameter.name).tensor.is_fixed = True
        exe = model.parallel(1)
        for step in range(3):
            exe.run([model.loss], feed=batch(8, step))
        assert exe.inspection.last.is_native
        return [model.scope.find_var(v.name).tensor.array.tobytes() for v in model.main.persistables()]

    assert trained_once(True) == trained_once(False)
