"""Equal replicas lie in one memory; nobody can tell, whatever is written, run and dropped in between."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import workbench as wb
from tests.parallel.memory.test_sharded_updates import OPTIMIZERS, shards, wide
from tests.parallel.models import Model, batch, build, classifier
from tests.parallel.observe import costly_ops, held
from tests.parallel.programs import strategies
from workbench import static
from workbench.executors.lowering import binding
from workbench.executors.lowering.tape.update import updates
from workbench.executors.lowering.tape.vector_code import Unsuitable
from workbench.executors.replicas import one_memory
from workbench.jit.values.shared_storage import SharedStorage
from workbench.runtime.storage.tensor import LoDTensor

pytestmark = pytest.mark.usefixtures("tape")


def memories(exe: Any, devices: int, name: str = "fc_1.w_0") -> int:
    """How many arrays hold the values of a variable."""
    return len({exe.inspection.tensor(name, d).array.__array_interface__["data"][0] for d in range(devices)})


def in_one(model: Model, exe: Any, devices: int) -> set[str]:
    """The variables of which there is one copy."""
    return {v.name for v in model.main.persistables() if memories(exe, devices, v.name) == 1}


@pytest.mark.parametrize("devices", [2, 3])
def test_there_is_one_copy_of_parameters_and_of_what_goes_with_them(devices: int) -> None:
    model = wide(OPTIMIZERS["adam"]()).start()
    exe = model.parallel(devices)
    exe.run([], feed=batch(12))
    everything = {v.name for v in model.main.persistables()}
    powers = {name for name in everything if "_pow_" in name}
    assert in_one(model, exe, devices) == everything - powers and powers
    before = model.value("fc_1.w_0")
    fetched = exe.run(["fc_1.w_0"], feed=batch(12))[0].reshape(devices, *before.shape)
    assert fetched[0].tobytes() != before.tobytes()
    assert all(row.tobytes() == model.value("fc_1.w_0").tobytes() for row in fetched)


def test_the_first_run_copies_no_values_that_are_in_one_memory_then(monkeypatch: pytest.MonkeyPatch) -> None:
    """Large models would need room for them."""
    copied: list[int] = []
    assign = LoDTensor.assign
    monkeypatch.setattr(LoDTensor, "assign", lambda tensor, new: (copied.append(new.size), assign(tensor, new))[1])
    model = wide(OPTIMIZERS["adam"]()).start()
    copied.clear()
    exe = model.parallel(3)
    exe.run([], feed=batch(12))
    assert memories(exe, 3) == 1 and set(copied) == {1}  # powers and rates


def test_a_tensor_that_leaves_after_the_comparison_has_devices_compared_again(monkeypatch: pytest.MonkeyPatch) -> None:
    model = wide(OPTIMIZERS["adam"]()).start()
    exe = model.parallel(2)
    exe.run([], feed=batch(12))
    arrange, bias = binding.arrange_replicas, exe.inspection.tensor("fc_1.b_0", 1)

    def left_first(*arguments: Any) -> bool:
        monkeypatch.setattr(binding, "arrange_replicas", arrange)
        other = threading.Thread(target=bias.set, args=(np.full(64, 5, np.float32),))
        other.start()
        other.join()
        return arrange(*arguments)

    monkeypatch.setattr(binding, "arrange_replicas", left_first)
    exe.run([], feed=batch(16))
    assert memories(exe, 2, "fc_1.b_0") == 2
    assert [exe.inspection.tensor("fc_1.b_0", d).numpy().max() > 4 for d in range(2)] == [False, True]


def test_what_is_written_between_comparison_and_joining_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    model = wide(OPTIMIZERS["momentum"]()).start()
    exe = model.parallel(2)
    exe.run([], feed=batch(12))
    tensor, share = exe.inspection.tensor("fc_1.w_0", 1), one_memory.share_memory
    tensor.set(model.value("fc_1.w_0"))  # parted, and equal still
    other = model.value("fc_1.w_0") + np.float32(1)

    def written_first(buckets: Any, *rest: Any) -> bool:
        if tensor.bucket in buckets:
            tensor.set(other)
        return share(buckets, *rest)

    monkeypatch.setattr(one_memory, "share_memory", written_first)
    exe.run([], feed=batch(16))
    assert memories(exe, 2) == 2
    assert np.abs(tensor.numpy() - model.value("fc_1.w_0")).max() > 0.5


@pytest.mark.parametrize("refused", range(3))
def test_where_one_slot_cannot_be_joined_none_stays_so_alone(monkeypatch: pytest.MonkeyPatch, refused: int) -> None:
    """Of parameters, their state and the rate: what was written meanwhile is written again, the same."""
    share, asked = one_memory.share_memory, []

    def written_first(buckets: Any, *rest: Any) -> bool:
        asked.append(buckets)
        if len(asked) == refused + 1:
            written = buckets[1].tensors[0]
            written.set(written.numpy().copy())
        return share(buckets, *rest)

    monkeypatch.setattr(one_memory, "share_memory", written_first)
    model = wide(OPTIMIZERS["momentum"]()).start()
    exe = model.parallel(2)
    exe.run([], feed=batch(12))
    assert len(asked) > refused + 3 and in_one(model, exe, 2) == {v.name for v in model.main.persistables()}


def test_what_each_device_computes_for_itself_is_its_own() -> None:
    model = classifier(wb.optimizer.Adam(0.01), extra=lambda h: static.nn.batch_norm(static.nn.fc(h, 64))).start()
    exe = model.parallel(2)
    exe.run([], feed=batch(12))
    names = {v.name for v in model.main.persistables()}
    statistics = {name for name in names if name.endswith((".w_1", ".w_2")) or "mean" in name or "variance" in name}
    assert len(statistics) == 2 and memories(exe, 2) == 1
    assert statistics.isdisjoint(in_one(model, exe, 2))


def test_a_view_from_before_is_not_written_by_those_who_have_left() -> None:
    """An executor of one device has bound device 0's memory before it became everybody's."""
    model = wide(OPTIMIZERS["momentum"]()).start()
    alone, exe = model.parallel(1), model.parallel(2)
    for step in range(3):
        alone.run([], feed=batch(12, step))
        model.scope.drop_kids()  # device 1 begins with the values of device 0
        exe.run([], feed=batch(12))
        assert memories(exe, 2) == 1
        device_1 = exe.inspection.tensor("fc_1.w_0", 1).numpy()
        alone.run([], feed=batch(12, 3))
        assert exe.inspection.tensor("fc_1.w_0", 1).numpy().tobytes() == device_1.tobytes()
        assert model.value("fc_1.w_0").tobytes() != device_1.tobytes()


def test_a_startup_program_that_is_run_again_changes_device_0_alone() -> None:
    model = wide(OPTIMIZERS["momentum"]()).start()
    first, exe = model.value("fc_1.w_0"), model.parallel(2)
    exe.run([], feed=batch(12))
    trained = model.value("fc_1.w_0")
    static.Executor().run(model.startup, scope=model.scope)
    values = [exe.inspection.tensor("fc_1.w_0", device).numpy() for device in range(2)]
    assert values[0].tobytes() == first.tobytes() != trained.tobytes() == values[1].tobytes()


def test_what_dynamic_mode_writes_to_is_memory_of_one_device() -> None:
    model = wide(OPTIMIZERS["momentum"]()).start()
    storage = SharedStorage(model.value("fc_1.w_0"))
    model.scope.find_var("fc_1.w_0").tensor = storage.lod
    exe = model.parallel(2)
    exe.run([], feed=batch(12))
    assert shards(exe) == memories(exe, 2) == 2


def test_who_keeps_writing_one_device_has_memory_of_its_own_until_it_is_dropped() -> None:
    model = wide(OPTIMIZERS["momentum"]()).start()
    exe, seen = model.parallel(2), []
    for _ in range(5):
        exe.run([], feed=batch(12))
        seen.append(memories(exe, 2))
        tensor = exe.inspection.tensor("fc_1.w_0", 1)
        tensor.set(tensor.numpy())
    model.scope.drop_kids()
    exe.run([], feed=batch(12))
    assert [*seen, memories(exe, 2)] == [1, 1, 1, 2, 2, 1]


def test_values_of_scopes_that_were_dropped_stay_as_they_are() -> None:
    model = wide(OPTIMIZERS["adam"]()).start()
    exe = model.parallel(2)
    exe.run([], feed=batch(12))
    left = exe.inspection.tensor("fc_1.w_0", 1)
    value = left.numpy()
    model.scope.drop_kids()
    exe.run([], feed=batch(12))
    assert memories(exe, 2) == 1 and left.numpy().tobytes() == value.tobytes()


def test_where_kernels_do_not_do_a_shared_update_it_is_done_once(monkeypatch: pytest.MonkeyPatch) -> None:
    def trained() -> tuple[dict[tuple[str, int], bytes], bool]:
        model = wide(OPTIMIZERS["adam"]()).start()
        exe = model.parallel(2)
        for step in range(3):
            exe.run([], feed=batch(12, step))
        return held(exe, model.main), exe.inspection.last.is_native and memories(exe, 2) == 1

    def refuse(*args: Any) -> slice:
        raise Unsuitable

    expected, is_native = trained()
    monkeypatch.setattr(updates, "_shard", refuse)
    by_numpy, native_too = trained()
    assert is_native and not native_too
    for key, bits in expected.items():
        np.testing.assert_allclose(
            np.frombuffer(by_numpy[key], np.float32), np.frombuffer(bits, np.float32), rtol=2e-5, atol=1e-6
        )


class Interrupting(wb.optimizer.lr.LRScheduler):
    """A constant rate; who asks for it, in the middle of a step, meets with `act`."""

    act: Callable[[], Any] = staticmethod(lambda: None)

    def get_lr(self) -> float:
        return 0.1

    def __call__(self) -> float:
        self.act()
        return super().__call__()


def in_another_thread(act: Callable[[], Any]) -> None:
    thread = threading.Thread(target=act)
    thread.start()
    thread.join(20)


@pytest.mark.parametrize("way", [lambda act: act(), in_another_thread], ids=["own", "other"])
@pytest.mark.parametrize("device", [0, 1])
def test_what_is_set_in_the_middle_of_a_step_takes_the_step_from_no_device(device: int, way: Any) -> None:
    schedule = Interrupting()
    model = wide(wb.optimizer.Momentum(schedule, 0.9)).start()
    exe = model.parallel(2)
    for step in range(3):
        exe.run([], feed=batch(12, step))
    before, bias = model.values(), exe.inspection.tensor("fc_1.b_0", device)
    schedule.act = lambda: way(lambda: bias.set(np.full(64, 5, np.float32)))
    exe.run([], feed=batch(12, 3))
    for name in before.keys() - {"fc_1.b_0", schedule_name(model)}:
        first, second = (exe.inspection.tensor(name, d).numpy().tobytes() for d in range(2))
        assert first == second != before[name].tobytes(), name
    assert np.all(bias.numpy() == 5)
    assert np.all(abs(exe.inspection.tensor("fc_1.b_0", 1 - device).numpy() - before["fc_1.b_0"]) < 1)


@pytest.mark.parametrize("device", [0, 1])
def test_what_is_set_while_a_step_is_bound_is_set_on_one_device(device: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Behind the comparison of replicas: the step is bound to what they are then."""
    model = wide(OPTIMIZERS["momentum"]()).start()
    exe = model.parallel(2)
    exe.run([], feed=batch(12))
    before, bias, find = model.values(), exe.inspection.tensor("fc_1.b_0", device), binding.fused_reductions

    def set_first(*arguments: Any) -> Any:
        monkeypatch.undo()
        bias.set(np.full(64, 5, np.float32))
        return find(*arguments)

    monkeypatch.setattr(binding, "fused_reductions", set_first)
    exe.run([], feed=batch(16))
    for name in before.keys() - {"fc_1.b_0", "learning_rate_0"}:
        first, second = (exe.inspection.tensor(name, d).numpy().tobytes() for d in range(2))
        assert first == second != before[name].tobytes(), name
    values = [exe.inspection.tensor("fc_1.b_0", d).numpy() for d in range(2)]
    assert [bool(np.all(abs(value - 5) < 1)) for value in values] == [d == device for d in range(2)]


def test_what_another_thread_sets_while_steps_run_is_set_on_one_device_and_never_lost() -> None:
    """Of a parameter that no step changes."""

    def body() -> Any:
        still = static.create_parameter([20_000], "float32", name="still")
        return wb.mean(static.nn.fc(static.data("x", [None, 5]), 64)) + wb.sum(still * 0.0)

    model = build(body, OPTIMIZERS["momentum"]()).start()
    exe = model.parallel(2)
    exe.run([], feed={"x": batch(12)["x"]})
    tensors = [exe.inspection.tensor("still", d) for d in range(2)]
    wrong: list[str] = []

    def set_values() -> None:
        held = [tensor.numpy() for tensor in tensors]
        for number, devices in enumerate([(0,), (1,), (0, 1), (1,), (0, 1), (0,)] * 6):
            for device in devices:
                held[device] = np.full(20_000, number, np.float32)
                tensors[device].set(held[device])
                if any((t.numpy() != value).any() for t, value in zip(tensors, held, strict=True)):
                    wrong.append(f"set {number} on {device}")

    thread = threading.Thread(target=set_values)
    thread.start()
    rows = itertools.cycle((12, 12, 12, 20))
    while thread.is_alive():
        exe.run([], feed={"x": batch(next(rows))["x"]})
    assert not wrong


@pytest.mark.parametrize("device", [0, 1])
def test_what_another_thread_sets_between_two_steps_is_set_on_one_device(device: int) -> None:
    model = wide(OPTIMIZERS["momentum"]()).start()
    exe = model.parallel(2)
    exe.run([], feed=batch(12))
    tensors = [exe.inspection.tensor("fc_1.w_0", d) for d in range(2)]
    value = tensors[0].numpy()
    in_another_thread(lambda: tensors[device].set(value + 1))
    assert [np.array_equal(t.numpy(), value + (d == device)) for d, t in enumerate(tensors)] == [True, True]


def schedule_name(model: Model) -> str:
    (name,) = model.main.lr_schedulers
    return name


def test_a_tensor_that_left_in_the_middle_of_a_step_stays_what_it_is() -> None:
    schedule = Interrupting()
    model = wide(wb.optimizer.Momentum(schedule, 0.9)).start()
    exe = model.parallel(2)
    exe.run([], feed=batch(12))
    bias = exe.inspection.tensor("fc_1.b_0", 1)
    schedule.act = lambda: bias.set(np.ones((2, 3), np.float32))
    exe.run([], feed=batch(12))
    exe.inspection.tensor("fc_1.w_0", 1).set(np.zeros((8, 64), np.float32))
    assert bias.numpy().tolist() == [[1] * 3] * 2
    assert memories(exe, 2) == 2 and np.any(model.value("fc_1.w_0"))


def test_one_rate_for_all_or_memory_for_each() -> None:
    """A rate that is fed may be another one on each device."""
    model = wide(OPTIMIZERS["sgd"]()).start()
    exe = model.parallel(2)
    exe.run([], feed=batch(12))
    assert memories(exe, 2) == 1
    parts = [{"x": batch(12)["x"][:6], "y": batch(12)["y"][:6]} for _ in range(2)]
    rates = [{"learning_rate_0": np.full(1, rate, np.float32)} for rate in (0.1, 0.2)]
    before = model.value("fc_1.w_0")
    exe.run([], feed=[part | rate for part, rate in zip(parts, rates, strict=True)])
    moved = [exe.inspection.tensor("fc_1.w_0", d).numpy() - before for d in range(2)]
    assert memories(exe, 2) == 2
    np.testing.assert_allclose(moved[1], 2 * moved[0], rtol=1e-3, atol=1e-7)


Act = Callable[["World"], Any]


class World:
    """A model, what runs on it, and what all of that has shown so far."""

    def __init__(self, optimizer: str, devices: int, threads: int) -> None:
        self.model = wide(OPTIMIZERS[optimizer]()).start()
        self.devices, self.count = devices, 0
        self.options = strategies(threads=threads)
        self.exe = self.model.parallel(devices, **self.options)
        self.alone, self.other = static.Executor(), None
        self.saved = self.model.values()
        self.kept: list[Any] = []
        self.seen: list[Any] = []

    def run(self, fetches: list[str], exe: Any = None, rows: int = 13, extra: Any = None) -> None:
        self.count += 1
        with costly_ops():
            results = (exe or self.exe).run(fetches, feed={**batch(rows, self.count), **(extra or {})})
        self.seen.append([np.array(r).tobytes() for r in results])

    def set(self, device: int, name: str, by: float) -> None:
        tensor = self.exe.inspection.tensor(name, device) if self.exe.inspection.started else None
        if tensor is not None:
            tensor.set(tensor.numpy() * np.float32(by))

    def look(self) -> None:
        self.seen.append(held(self.exe, self.model.main) if self.exe.inspection.started else None)
        self.seen.append({name: value.tobytes() for name, value in self.model.values().items()})
        self.seen.append([tensor.numpy().tobytes() for tensor in self.kept])


def renew(world: World) -> None:
    world.exe = world.model.parallel(world.devices, **world.options)


def train_by_another(world: World) -> None:
    if world.other is None:
        world.other = world.model.parallel(3)
    world.run([], world.other, 14)


def evaluate(world: World) -> None:
    if world.exe.inspection.started:
        fetched = [world.model.loss.name]
        sharing = world.model.parallel(
            world.devices, program=world.model.test, share_vars_from=world.exe, **world.options
        )
        world.run(fetched, sharing)


def load_all(world: World) -> None:
    for name, value in world.saved.items():
        world.model.scope.find_var(name).get_tensor().set(value)


def set_everywhere(world: World) -> None:
    for device in range(world.devices):
        world.set(device, "fc_1.w_0", 1.5)


def keep(world: World) -> None:
    if world.exe.inspection.started:
        world.kept = [world.exe.inspection.tensor(n, 1) for n in ("fc_1.w_0", "fc_0.b_0")]


ACTS: dict[str, Act] = {
    "step": lambda w: w.run([]),
    "fetch": lambda w: w.run(["fc_1.w_0", w.model.loss.name]),
    "rows": lambda w: w.run([], rows=9 + w.count % 3),
    "set_0": lambda w: w.set(0, "fc_1.w_0", 0.5),
    "set_1": lambda w: w.set(1, "fc_1.b_0", 0.5),
    "set_rate": lambda w: w.set(1, "learning_rate_0", 2.0),
    "set_rates": lambda w: [w.set(d, "learning_rate_0", 0.5) for d in range(w.devices)],
    "set_everywhere": set_everywhere,
    "feed_rate": lambda w: w.run([], extra={"learning_rate_0": np.full(1, 0.02, np.float32)}),
    "alone": lambda w: w.alone.run(w.model.main, feed=batch(7, w.count), scope=w.model.scope),
    "startup": lambda w: w.alone.run(w.model.startup, scope=w.model.scope),
    "by_another": train_by_another,
    "test": evaluate,
    "drop_kids": lambda w: w.model.scope.drop_kids(),
    "drop": lambda w: w.exe.inspection.started and w.exe.drop_local_exe_scopes(),
    "renew": renew,
    "load": load_all,
    "keep": keep,
    "observe": lambda w: w.exe.inspection.observe([w.model.loss.name], batch(13, 99)),
}


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.sampled_from(["sgd", "momentum", "adam"]),
    st.sampled_from([2, 3]),
    st.sampled_from([1, 2]),
    st.lists(st.sampled_from([*ACTS, "step", "step", "fetch"]), min_size=3, max_size=12),
)
def test_all_devices_hold_what_they_would_in_memory_of_their_own(
    optimizer: str, devices: int, threads: int, acts: list[str]
) -> None:
    def shown() -> tuple[list[Any], int]:
        world = World(optimizer, devices, threads)
        for act in ["step", *acts, "step"]:
            ACTS[act](world)
            world.look()
        return world.seen, shards(world.exe)

    together = shown()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(one_memory, "may_share", lambda buckets: False)
        apart = shown()
    assert together == apart
