"""Threads of the parallel executor: overlap that is really there, results that do not depend on threads, processors."""

from __future__ import annotations

import gc
import os
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest

import workbench as wb
from tests.parallel.models import Model, batch, build, classifier, column, constant
from tests.parallel.observe import binding_of, bits, costly_ops, held, threads_of
from tests.parallel.threads.slow import Slow
from workbench import events, static
from workbench.config import override
from workbench.errors import ExecutionError
from workbench.executors.planning import schedule
from workbench.framework.program.roles import OPTIMIZE

PATIENCE = 20.0  # seconds until a test gives up, on however busy a machine
PARTS = list[dict[str, np.ndarray]]


def threads(count: int, **settings: Any) -> static.ExecutionStrategy:
    strategy = static.ExecutionStrategy()
    strategy.num_threads = count
    for name, value in settings.items():
        setattr(strategy, name, value)
    return strategy


def unfused() -> static.BuildStrategy:
    """Every gradient has an all-reduce of its own."""
    strategy = static.BuildStrategy()
    strategy.fuse_all_reduce_ops = False
    return strategy


# Ops that do not depend on each other


def two_slow(slow: Slow) -> Model:
    """Two independent slow ops on every device."""

    def body() -> Any:
        x = static.data("X", [None, 1])
        h = static.nn.fc(x, 1, weight_attr=constant(1.0), bias_attr=constant(0.0))
        return wb.mean(slow.apply(h) + slow.apply(h * 2.0))

    return build(body, wb.optimizer.SGD(0.1))


def one_slow(slow: Slow) -> Model:
    def body() -> Any:
        x = static.data("X", [None, 1])
        h = static.nn.fc(x, 1, weight_attr=constant(1.0), bias_attr=constant(0.0))
        return wb.mean(slow.apply(h))

    return build(body, wb.optimizer.SGD(0.1))


@pytest.mark.parametrize("count", [2, 5, 0])
@pytest.mark.parametrize(("make", "devices"), [(two_slow, 1), (one_slow, 2)])
def test_ops_that_do_not_depend_on_each_other_overlap(slow: Slow, make: Any, devices: int, count: int) -> None:
    """Each waits for the other, in the forward and in the backward pass; 0 threads: twice the number of devices."""
    meeting = threading.Barrier(2)
    slow.forward = slow.backward = lambda place: meeting.wait(PATIENCE)
    model = make(slow).start()
    exe = model.parallel(devices, exec_strategy=threads(count))
    for _ in range(3):
        exe.run([], feed={"X": column(1, 2, 3, 4)})
    assert meeting.n_waiting == 0 and not meeting.broken


@pytest.mark.parametrize(("make", "devices"), [(two_slow, 1), (one_slow, 2)])
def test_one_thread_does_not_overlap(slow: Slow, make: Any, devices: int) -> None:
    meeting = threading.Barrier(2)
    slow.forward = lambda place: meeting.wait(0.1)
    model = make(slow).start()
    exe = model.parallel(devices, exec_strategy=threads(1))
    with pytest.raises(ExecutionError, match=r"op 'slow' failed on cpu:0: BrokenBarrierError") as caught:
        exe.run([], feed={"X": column(1, 2, 3, 4)})
    assert isinstance(caught.value.__cause__, threading.BrokenBarrierError)
    assert model.value("fc_0.w_0") == 1  # nothing of the step was applied


# Communication while the backward pass is running


def early_and_late(slow: Slow) -> Model:
    """The gradient between the layers is slow."""

    def body() -> Any:
        h = static.nn.fc(static.data("x", [None, 3]), 4, name="early")
        return wb.mean(wb.square(static.nn.fc(slow.apply(h), 2, name="late")))

    return build(body, wb.optimizer.SGD(0.1)).start()


EVEN = [np.ones((4, 3), np.float32)] * 2
UNEVEN = [np.ones((40, 3), np.float32), np.ones((20, 3), np.float32)]


@pytest.mark.parametrize(("count", "parts", "sleepers"), [(3, EVEN, [0, 1]), (2, UNEVEN, [0])])
def test_all_reduces_overlap_the_backward_pass(
    slow: Slow, count: int, parts: Sequence[np.ndarray], sleepers: list[int]
) -> None:
    """The late layer's gradients are summed while slow gradients of the early one are still being computed: with a
    thread to spare, or once the device with little to do has come to its end. One is fetched: else updates sum them."""
    slow.backward = lambda place: time.sleep(0.3) if place in sleepers else None
    model, seen = early_and_late(slow), []
    with mock.patch.object(schedule, "processors", return_value=4):
        exe = model.parallel(2, exec_strategy=threads(count), build_strategy=unfused())
        with events.subscribe(seen.append, events.OpRun, events.Collective):
            exe.run(["early.w_0@GRAD"], feed=[{"x": x} for x in parts])
    gradients = [e for e in seen if isinstance(e, events.OpRun) and e.op.type == "slow_grad"]
    reduced = {e.names: e for e in seen if isinstance(e, events.Collective)}
    late, early = reduced[("late.w_0@GRAD",)], reduced[("early.w_0@GRAD",)]
    assert len(gradients) == 2
    ends = max(e.end for e in gradients)
    assert late.end < ends <= early.start
    assert late.thread not in {e.thread for e in gradients if e.op.place.index in sleepers}


# Results do not depend on threads


@pytest.mark.parametrize("mode", ["AllReduce", "Reduce"])
def test_results_do_not_depend_on_threads(mode: str) -> None:
    results = {}
    for count in (1, 2, 8):
        model, strategy = classifier(wb.optimizer.Momentum(0.1)).start(), static.BuildStrategy()
        strategy.reduce_strategy = static.BuildStrategy.ReduceStrategy[mode]
        with costly_ops():
            exe = model.parallel(4, exec_strategy=threads(count), build_strategy=strategy)
            losses = [bits(exe.run([model.loss, "fc_1.w_0"], feed=batch(13, seed))) for seed in range(6)]
            bound = binding_of(exe, [model.loss.name, "fc_1.w_0"], batch(13))
        assert len(bound.speculative) == threads_of(bound) == count
        results[count] = losses, held(exe, model.main)
    assert results[1] == results[2] == results[8]


class NewThreads:
    """Counts the device threads that have been started since it was made and have not ended."""

    def __init__(self) -> None:
        self._before = set(threading.enumerate())

    def __call__(self) -> int:
        return len(self._threads())

    def ticks(self) -> int:
        """What they have used of the processors, in clock ticks."""
        return sum(map(_ticks_of, self._threads()))

    def _threads(self) -> list[threading.Thread]:
        new = [t for t in threading.enumerate() if t not in self._before]
        return [t for t in new if t.name.startswith("workbench device thread")]


def _ticks_of(thread: threading.Thread) -> int:
    fields = Path(f"/proc/self/task/{thread.native_id}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])  # in user mode and in the kernel


def settles(condition: Callable[[], bool]) -> bool:
    """Whether something becomes true in time."""
    end = time.monotonic() + PATIENCE
    while not condition():
        if time.monotonic() > end:
            return False
        gc.collect()
        time.sleep(0.01)
    return True


def test_one_thread_is_the_callers() -> None:
    model, new = classifier().start(), NewThreads()
    with costly_ops():
        exe = model.parallel(2, exec_strategy=threads(1))
        exe.run([], feed=batch())
        assert new() == 0
        exe = model.parallel(2, exec_strategy=threads(3))
        exe.run([], feed=batch())
        assert new() == 2


# Several executors


class NumpyReplicas:
    """One executor of the quadratic model in NumPy, float64: the values of each device."""

    RATE, MU = 0.05, 0.5

    def __init__(self, shared: dict[str, float], devices: int, trained: Sequence[str]) -> None:
        """Device 0's values are `shared`, the others' are copies of them as they are now (X-20, X-21)."""
        self.values = [shared, *(dict(shared) for _ in range(devices - 1))]
        self.trained = trained

    def step(self, parts: Sequence[np.ndarray]) -> list[float]:
        """Momentum steps with the mean of the devices' gradients; the losses."""
        gradients, losses = dict.fromkeys(self.trained, 0.0), []
        for x, values in zip(parts, self.values, strict=True):
            out = x * values["w"] + values.get("b", 0.0) * ("b" in self.trained)
            losses.append(float(np.mean(out**2)))
            gradients["w"] += float(np.mean(2 * out * x)) / len(parts)
            if "b" in gradients:
                gradients["b"] += float(np.mean(2 * out)) / len(parts)
        for values in self.values:
            for name, g in gradients.items():
                values[f"v{name}"] = self.MU * values[f"v{name}"] + g
                values[name] -= self.RATE * values[f"v{name}"]
        return losses


def quadratic(bias: bool = True) -> Model:
    """mean((X w + b)^2); without bias a program that trains some of the same parameters only."""

    def body() -> Any:
        x = static.data("X", [None, 1])
        shift = constant(0.5) if bias else False
        return wb.mean(wb.square(static.nn.fc(x, 1, weight_attr=constant(2.0), bias_attr=shift)))

    return build(body, wb.optimizer.Momentum(NumpyReplicas.RATE, NumpyReplicas.MU))


NAMES = {"w": "fc_0.w_0", "b": "fc_0.b_0", "vw": "fc_0.w_0_velocity_0", "vb": "fc_0.b_0_velocity_0"}


def trained(seed: int) -> tuple[Model, Any]:
    model = classifier(wb.optimizer.Adam(0.01), extra=lambda h: wb.nn.functional.dropout(h, 0.3)).start()
    return model, model.parallel(2, exec_strategy=threads(2))


class Serially:
    """SGD(0.1) on `classifier` with the gradients that a serial Executor computes for each device's part."""

    def __init__(self, model: Model) -> None:
        self.model, self.exe = model, static.Executor()
        self.names = [p.name for p in model.main.all_parameters()]
        self.values = {name: model.value(name) for name in self.names}

    def step(self, parts: PARTS) -> list[float]:
        """The losses of the parts."""
        scope, losses, total = static.Scope(), [], dict.fromkeys(self.names, 0.0)
        self.exe.run(self.model.startup, scope=scope)
        for part in parts:
            for name, value in self.values.items():
                scope.find_var(name).set(value)
            fetches = [self.model.loss, *(f"{name}@GRAD" for name in self.names)]
            loss, *gradients = self.exe.run(self.model.main, feed=part, fetch_list=fetches, scope=scope)
            losses.append(loss.item())
            for name, gradient in zip(self.names, gradients, strict=True):
                total[name] = total[name] + gradient / len(parts)
        for name in self.names:
            self.values[name] = self.values[name] - np.float32(0.1) * total[name]
        return losses

    def agrees(self, exe: Any, losses: Any, expected: list[float]) -> None:
        """The executor's devices hold the same."""
        np.testing.assert_allclose(losses, expected, rtol=1e-4)
        for name, value in self.values.items():
            for device in range(exe.device_count):
                stored = np.array(exe.local_scope(device).find_var(name).get_tensor())
                np.testing.assert_allclose(stored, value, rtol=1e-4, atol=1e-6, err_msg=f"{name} on {device}")


# Processors


@pytest.mark.parametrize("devices", [1, 2, 4, 8])
def test_CPU_NUM_devices_train_like_one(devices: int) -> None:
    """With equal parts the mean of the devices' gradients is that of the whole batch."""
    model = classifier().start()
    reference = Serially(model)
    exe = model.parallel(devices)
    assert exe.device_count == devices
    losses = []
    for _ in range(10):
        expected = np.mean(reference.step([batch(16)]))
        losses.append(np.mean(exe.run([model.loss], feed=batch(16))[0]))
        np.testing.assert_allclose(losses[-1], expected, rtol=1e-4)
    assert losses[-1] < 0.95 * losses[0]
    assert all(held(exe, model.main)[name, d] == bits_ for (name, _), bits_ in held(exe, model.main).items()
               for d in range(devices))  # fmt: skip


@pytest.mark.parametrize("sleepers", [[0], list(range(8))])
def test_eight_devices_wait_without_spinning(slow: Slow, sleepers: list[int]) -> None:
    """More devices than processors, all asleep, or all waiting for one of them."""
    model = one_slow(slow).start()
    feed = {"X": np.ones((16, 1), np.float32)}
    with mock.patch.object(schedule, "processors", return_value=8):
        exe = model.parallel(8, exec_strategy=threads(8))
        exe.run([], feed=feed)
        assert threads_of(binding_of(exe, [], feed)) == 8
        slow.forward = lambda place: time.sleep(0.5) if place in sleepers else None
        began, used = time.monotonic(), time.process_time()
        exe.run([], feed=feed)
        used, took = time.process_time() - used, time.monotonic() - began
    assert took < 0.5 * 8 / 2  # they slept at the same time
    assert used < 0.5 * took  # threads that spin use as many processors as there are


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads what threads have used from /proc")
def test_an_idle_executor_keeps_no_thread_busy() -> None:
    model, new = classifier().start(), NewThreads()
    with costly_ops():
        exe = model.parallel(4, exec_strategy=threads(4))
        for _ in range(3):
            exe.run([], feed=batch(16))
        assert new() == 3
        used = new.ticks()
        time.sleep(0.5)
        assert new.ticks() - used < 0.2 * os.sysconf("SC_CLK_TCK")  # one that spins uses 0.5 s
        exe.run([], feed=batch(16))


@pytest.mark.parametrize("wrong", [slice(8), slice(8, 16)], ids=["in the caller's thread", "in a worker"])
def test_deleted_executors_leave_no_threads(wrong: slice) -> None:
    model, exes, new = classifier().start(), [], NewThreads()
    with costly_ops():
        for _ in range(3):
            exes.append(model.parallel(2, exec_strategy=threads(4)))
            exes[-1].run([], feed=batch(16))
        assert new() == 9
        bad = batch(16)
        bad["y"][wrong] += 100
        with pytest.raises(Exception, match="label"):
            exes[0].run([], feed=bad)  # nor do those that failed
        del exes[0]
        assert settles(lambda: new() == 6)
        exes[0].run([], feed=batch(16))
        exes.clear()
        assert settles(lambda: new() == 0)


# The commit


def test_updates_of_a_commit_that_read_what_another_thread_overwrites_run_in_order() -> None:
    """Two threads; what they update is large enough for threads to be worth it in the commit, too."""
    size, one = 1024, wb.nn.initializer.Constant(1.0)
    main, startup = static.Program(), static.Program()
    with static.program_guard(main, startup):
        x, z = static.data("x", [size // 2, size]), static.data("z", [size, size])
        new, old = (
            static.create_parameter([size, size], "float32", n, default_initializer=one) for n in ("new", "old")
        )
        rate = static.create_global_var([1], 0.25, "float32", persistable=True, name="rate")
        fetched, slope = wb.sum(wb.matmul(x, z)), wb.matmul(z, z)
        for parameter, grad in ((old, new), (new, slope)):
            inputs = {"Param": parameter.name, "Grad": grad.name, "LearningRate": rate.name}
            main.global_block().append_op("sgd", inputs, {"ParamOut": parameter.name}, {"op_role": OPTIMIZE})
    scope = static.Scope()
    static.Executor().run(startup, scope=scope)
    z_fed = np.full((size, size), 1 / 32, np.float32)  # the product with itself is 1 everywhere
    with override(cpu_tape=True), costly_ops():
        exe = static.ParallelExecutor(False, main_program=main, scope=scope, exec_strategy=threads(2))
        expected = {"new": 1.0, "old": 1.0}
        for _ in range(6):
            exe.run([fetched.name], feed={"x": z_fed[: size // 2], "z": z_fed})
            expected = {"new": expected["new"] - 0.25, "old": expected["old"] - 0.25 * expected["new"]}
            for name, value in expected.items():
                assert np.unique(np.array(scope.find_var(name).get_tensor())).tolist() == [value]
