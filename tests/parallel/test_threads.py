"""Threads of the parallel executor: overlap that is really there, several executors at once, batches and scopes that
change between runs, and what an executor leaves behind."""

from __future__ import annotations

import gc
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest

import workbench as wb
from tests.parallel.models import Model, batch, build, classifier, column, constant, line
from tests.parallel.observe import binding_of, bits, costly_ops, held, threads_of
from workbench import events, static
from workbench.config import override
from workbench.errors import ExecutionError, Unavailable
from workbench.executors.planning import schedule
from workbench.executors.running.finding.plan_cache import bytes_kept_for
from workbench.framework.notice import Notice
from workbench.framework.op.declare import op
from workbench.framework.op.record import OPS, Cost
from workbench.runtime.arena import Arena
from workbench.runtime.storage.bucket import bucket_of

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


def together(*bodies: Callable[[], Any]) -> list[Any]:
    """Run functions in a thread each, all beginning at the same moment; what the first that failed raised."""
    begin, results, errors = threading.Barrier(len(bodies)), [None] * len(bodies), []

    def run(i: int) -> None:
        try:
            begin.wait(PATIENCE)
            results[i] = bodies[i]()
        except BaseException as error:
            errors.append(error)

    workers = [threading.Thread(target=run, args=(i,), daemon=True) for i in range(len(bodies))]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(PATIENCE)
    assert not any(worker.is_alive() for worker in workers), "a thread does not come to an end"
    if errors:
        raise errors[0]
    return results


class Slow:
    """An op that hands its input through, is announced as long work, and calls `forward(place)` or
    `backward(place)` when it runs."""

    def __init__(self) -> None:
        self.forward: Callable[[int], Any] = lambda place: None
        self.backward: Callable[[int], Any] = lambda place: None

        def gradient(xp: Any, x: Any, g: Any, place: int, **attrs: Any) -> Any:
            self.backward(place)
            return xp.array(g)

        @op(
            "slow",
            "X -> Out",
            infer=lambda x: x,
            grad=lambda g, out, x, **attrs: g,
            grad_forward=gradient,
            cost=lambda x, **attrs: Cost(10**9 * max(x.shape[0], 1), 0),
            needs="place",
        )
        def slow(xp: Any, x: Any, place: int) -> Any:
            self.forward(place)
            return xp.array(x)

        self.apply = slow


@pytest.fixture
def slow() -> Iterator[Slow]:
    yield Slow()
    for name in {"slow", "slow_grad"} & OPS.keys():
        del OPS[name]


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


@pytest.mark.parametrize("same", [True, False])
@pytest.mark.parametrize("devices", [1, 2, 3])
def test_two_training_executors_on_one_scope(devices: int, same: bool) -> None:
    """X-20, X-24: device 0 is common to both, every other device has values of its own."""
    model = quadratic().start()
    other = model if same else quadratic(bias=False)
    other.scope = model.scope
    exes = [m.parallel(devices) for m in (model, other)]
    shared = {"w": 2.0, "b": 0.5, "vw": 0.0, "vb": 0.0}
    references: list[NumpyReplicas | None] = [None, None]
    rng = np.random.default_rng(3)
    for turn in [0, 0, 1, 0, 1, 1, 0, 1, 0, 0, 1]:
        x = rng.uniform(-1, 1, (6, 1)).astype(np.float32)
        if references[turn] is None:  # the others are copied at its first run
            references[turn] = NumpyReplicas(shared, devices, ["w", "b"] if turn == 0 or same else ["w"])
        reference = references[turn]
        losses = reference.step(np.split(x, devices))
        (fetched,) = exes[turn].run([(model, other)[turn].loss], feed={"X": x})
        np.testing.assert_allclose(fetched, losses, rtol=1e-4)
        for reference, exe in zip(references, exes, strict=True):
            if reference is not None:
                for device, values in enumerate(reference.values):
                    for key in (k for k in values if k[-1] in reference.trained):
                        value = np.array(exe.local_scope(device).find_var(NAMES[key]).get_tensor()).item()
                        np.testing.assert_allclose(value, values[key], rtol=1e-4, atol=1e-6, err_msg=key)
    weight, both = [NAMES["w"]], sorted(NAMES[k] for k in "wb")
    first = bucket_of([exes[0].inspection.tensor(name, 0) for name in both])
    assert first is not None
    if same:
        assert bucket_of([exes[1].inspection.tensor(name, 0) for name in both]) is first
    else:  # it lies in the other one's
        assert bucket_of([exes[1].inspection.tensor(name, 0) for name in weight]) is None


def trained(seed: int) -> tuple[Model, Any]:
    model = classifier(wb.optimizer.Adam(0.01), extra=lambda h: wb.nn.functional.dropout(h, 0.3)).start()
    return model, model.parallel(2, exec_strategy=threads(2))


def twenty_steps(model: Model, exe: Any) -> Any:
    losses = [bits(exe.run([model.loss], feed=batch(8 + k % 3, seed=k))) for k in range(20)]
    return losses, held(exe, model.main)


def test_executors_of_two_scopes_in_two_threads() -> None:
    with costly_ops():
        expected = twenty_steps(*trained(0))
        pairs = [trained(0), trained(0)]
        results = together(*(lambda pair=pair: twenty_steps(*pair) for pair in pairs))
    assert results == [expected, expected]


def counting() -> Model:
    """Every step takes 1/1024 off the weight, exactly: mean(X w) with X = 1."""
    return line(wb.optimizer.SGD(2.0**-10), weight=0.0).start()


def steps_of(value: Any) -> list[float]:
    return (np.ravel(value) * -1024).tolist()


ONES = {"X": np.ones((4, 1), np.float32)}


def test_a_serial_and_a_parallel_executor_on_one_scope_in_two_threads() -> None:
    """No step is lost and none is torn: device 0 has made all of them, device 1 those of its executor."""
    model = counting()
    serial, parallel = static.Executor(), model.parallel(2)
    parallel.run([], feed=ONES)

    def alone() -> None:
        for _ in range(150):
            serial.run(model.main, feed=ONES, scope=model.scope)

    def on_devices() -> None:
        for _ in range(150):
            parallel.run([], feed=ONES)

    together(alone, on_devices)
    assert steps_of(model.value("fc_0.w_0")) == steps_of(model.value("fc_0.b_0")) == [301]
    assert steps_of(parallel.run(["fc_0.w_0"], feed=ONES)[0]) == [302, 152]


def test_two_parallel_executors_on_one_scope_in_two_threads() -> None:
    model = counting()
    first, second = model.parallel(2), model.parallel(2, exec_strategy=threads(1))
    first.run([], feed=ONES)
    second.run([], feed=ONES)  # begins with the one step of the first

    def run(exe: Any) -> None:
        for _ in range(100):
            exe.run([], feed=ONES)

    together(lambda: run(first), lambda: run(second))
    assert steps_of(first.run(["fc_0.w_0"], feed=ONES)[0]) == [203, 102]
    assert steps_of(second.run(["fc_0.w_0"], feed=ONES)[0]) == [204, 103]


@pytest.mark.parametrize("compiled", [False, True])
def test_one_executor_run_by_four_threads(compiled: bool) -> None:
    """Even the first run, which makes everything, may be that of all of them."""
    model = counting()
    if compiled:
        program = static.CompiledProgram(model.main).with_data_parallel(
            loss_name=model.loss.name, places=[wb.CPUPlace()] * 2
        )
        exe = static.Executor()

        def run(rows: int) -> Any:
            feed = {"X": np.ones((rows, 1), np.float32)}
            return exe.run(program, feed=feed, fetch_list=["fc_0.w_0"], scope=model.scope)[0]
    else:
        pe = model.parallel(2)

        def run(rows: int) -> Any:
            return pe.run(["fc_0.w_0"], feed={"X": np.ones((rows, 1), np.float32)})[0]

    def steps(rows: int) -> list[Any]:
        return [steps_of(run(rows)) for _ in range(30)]

    results = together(*(lambda rows=rows: steps(rows) for rows in (2, 4, 8, 4)))
    assert all(mine == sorted(mine) for mine in results)
    assert sorted(k for mine in results for k in mine) == [[k, k] for k in range(1, 121)]


def test_the_first_runs_of_a_compiled_program_make_one_engine() -> None:
    model = counting()
    program = static.CompiledProgram(model.main).with_data_parallel(
        loss_name=model.loss.name, places=[wb.CPUPlace()] * 2
    )
    make = program._make_engine

    def slowly(*args: Any) -> Any:
        time.sleep(0.05)
        return make(*args)

    def run() -> None:
        static.Executor().run(program, feed=ONES, scope=model.scope)

    with mock.patch.object(program, "_make_engine", side_effect=slowly) as making:
        together(run, run, run)
    assert making.call_count == 1
    (weight,) = static.Executor().run(program, feed=ONES, fetch_list=["fc_0.w_0"], scope=model.scope)
    assert steps_of(weight) == [4, 4]


def test_temporaries_are_not_dropped_under_a_running_step(slow: Slow) -> None:
    """The memory would read as zero from one op to the next."""
    model = one_slow(slow).start()
    exe = model.parallel(1, exec_strategy=threads(1, keep_temporaries=True))
    (expected,) = exe.run(["fc_0.tmp_1"], feed=ONES)
    there, go_on = threading.Event(), threading.Event()

    def stay(place: int) -> None:
        there.set()
        go_on.wait(PATIENCE)

    slow.forward = stay

    def drop() -> None:
        assert there.wait(PATIENCE)
        dropping = threading.Thread(target=exe.drop_local_exe_scopes)
        dropping.start()
        dropping.join(0.2)
        go_on.set()
        dropping.join(PATIENCE)
        assert not dropping.is_alive()

    (fetched,), _ = together(lambda: exe.run(["fc_0.tmp_1"], feed=ONES), drop)
    np.testing.assert_allclose(fetched, expected - 0.2, rtol=1e-6)  # after one step of 0.1 for weight and bias each


def test_an_executor_that_shares_waits_for_steps_of_the_scope_it_reads() -> None:
    """X-5, X-25: whatever scope it is given, it works in the other one's."""
    model = line().start()
    train = model.parallel(2)
    train.run([], feed=ONES)
    sharing = model.parallel(
        2, program=model.test, share_vars_from=train, scope=static.Scope(), exec_strategy=threads(1, timeout=0.2)
    )
    sharing.run([], feed=ONES)
    inside, leave = threading.Event(), threading.Event()

    def keep() -> None:
        with model.scope.in_use():
            inside.set()
            leave.wait(PATIENCE)

    def run() -> None:
        inside.wait(PATIENCE)
        try:
            with pytest.raises(Unavailable, match="in use by another thread"):
                sharing.run([], feed=ONES)
        finally:
            leave.set()

    together(keep, run)


# What changes between runs


def parts_of(feed: Any, sizes: Sequence[int]) -> PARTS:
    ends = np.cumsum(sizes)
    return [
        {name: array[end - size : end] for name, array in feed.items()} for end, size in zip(ends, sizes, strict=True)
    ]


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


@pytest.mark.parametrize("interval", [100, 1])
@pytest.mark.parametrize("count", [1, 4])
def test_batches_of_64_64_7_64(count: int, interval: int) -> None:
    model = classifier().start()
    reference = Serially(model)
    with costly_ops():
        exe = model.parallel(2, exec_strategy=threads(count, num_iteration_per_drop_scope=interval))
        for seed, rows in enumerate([64, 64, 7, 64]):
            feed = batch(rows, seed)
            expected = reference.step(parts_of(feed, [rows // 2, rows - rows // 2]))
            reference.agrees(exe, exe.run([model.loss], feed=feed)[0], expected)


@pytest.mark.parametrize("interval", [100, 1])
def test_shapes_that_vary_between_devices_and_runs(interval: int) -> None:
    model = classifier().start()
    reference = Serially(model)
    with costly_ops():
        exe = model.parallel(3, exec_strategy=threads(3, num_iteration_per_drop_scope=interval))
        for seed, sizes in enumerate([(4, 4, 4), (1, 9, 2), (9, 1, 2), (30, 30, 1), (1, 9, 2), (4, 4, 4)]):
            parts = parts_of(batch(sum(sizes), seed), sizes)
            reference.agrees(exe, exe.run([model.loss], feed=parts)[0], reference.step(parts))


def test_X_24_set_between_runs_changes_device_0_only() -> None:
    """The others go on from their own values; the gradient summed over devices is the same for both."""
    model = quadratic().start()
    exe, shared = model.parallel(2), {"w": 2.0, "b": 0.5, "vw": 0.0, "vb": 0.0}
    reference = NumpyReplicas(shared, 2, ["w", "b"])
    for k, x in enumerate(np.random.default_rng(1).uniform(-1, 1, (8, 4, 1)).astype(np.float32)):
        if k in (2, 5):
            model.scope.find_var(NAMES["w"]).set(np.full((1, 1), k, np.float32))
            model.scope.find_var(NAMES["vb"]).set(np.full(1, 0.25, np.float32))
            shared.update(w=float(k), vb=0.25)
        np.testing.assert_allclose(exe.run([model.loss], feed={"X": x})[0], reference.step(np.split(x, 2)), rtol=1e-4)
        weights = [np.array(exe.local_scope(i).find_var(NAMES["w"]).get_tensor()).item() for i in range(2)]
        np.testing.assert_allclose(weights, [values["w"] for values in reference.values], rtol=1e-4)
        assert (abs(weights[0] - weights[1]) > 0.1) == (k >= 2)


def test_saved_parameters_loaded_between_runs(tmp_path: Any) -> None:
    """X-24 again, with all state at once; an executor made afterwards copies what was loaded."""
    model = quadratic().start()
    exe, shared = model.parallel(2), {"w": 2.0, "b": 0.5, "vw": 0.0, "vb": 0.0}
    reference, saved = NumpyReplicas(shared, 2, ["w", "b"]), {}
    xs = np.random.default_rng(1).uniform(-1, 1, (8, 4, 1)).astype(np.float32)
    for k, x in enumerate(xs):
        with static.scope_guard(model.scope):
            if k == 2:
                static.save(model.main, str(tmp_path / "model"))
                saved.update(shared)
            if k == 5:
                static.load(model.main, str(tmp_path / "model"))
                shared.update(saved)
        np.testing.assert_allclose(exe.run([model.loss], feed={"X": x})[0], reference.step(np.split(x, 2)), rtol=1e-4)
    with static.scope_guard(model.scope):
        static.load(model.main, str(tmp_path / "model"))
    fresh, again = model.parallel(2), NumpyReplicas(dict(saved), 2, ["w", "b"])
    for x in xs:
        np.testing.assert_allclose(fresh.run([model.loss], feed={"X": x})[0], again.step(np.split(x, 2)), rtol=1e-4)


def test_the_startup_program_between_runs_sets_device_0_back() -> None:
    model = quadratic().start()
    exe, shared = model.parallel(2), {"w": 2.0, "b": 0.5, "vw": 0.0, "vb": 0.0}
    reference = NumpyReplicas(shared, 2, ["w", "b"])
    for k, x in enumerate(np.random.default_rng(2).uniform(-1, 1, (6, 4, 1)).astype(np.float32)):
        if k == 3:
            model.start()
            shared.update(w=2.0, b=0.5, vw=0.0, vb=0.0)
        np.testing.assert_allclose(exe.run([model.loss], feed={"X": x})[0], reference.step(np.split(x, 2)), rtol=1e-4)


# What is kept


def run_batches(exe: Any, sizes: Sequence[int]) -> None:
    for rows in sizes:
        exe.run([], feed=batch(rows))


@pytest.mark.parametrize("sizes", [range(2, 102), range(101, 1, -1)])
def test_plans_of_100_batch_sizes_are_bounded_and_share_arenas(sizes: Sequence[int]) -> None:
    gc.collect()
    before = Arena.live()
    model = classifier().start()
    exe = model.parallel(2)
    with override(plan_cache_mib=2):
        with pytest.warns(Notice, match=r"FLAGS_plan_cache_mib, 2, is how many MiB are kept"):
            run_batches(exe, sizes)
        kept = exe.inspection.plans
        assert 5 < len(kept) < 80 and sum(map(bytes_kept_for, kept)) <= 2**21
        assert {id(binding.plan) for binding in exe.inspection.bindings} <= set(map(id, kept))
    gc.collect()
    assert Arena.live() - before == 2  # one per device
    nbytes = Arena.live_bytes()
    for rows in list(sizes)[:20]:  # not kept any more
        exe.run([], feed=batch(rows))
    gc.collect()
    assert (Arena.live() - before, Arena.live_bytes()) == (2, nbytes)
    del exe, model
    gc.collect()
    assert Arena.live() == before


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
