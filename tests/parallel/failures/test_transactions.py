"""A step applies whole or not at all, on all devices, whatever fails and whenever Ctrl-C comes (promise 1)."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.parallel.lowerings import as_calls, in_both, on_tape
from tests.parallel.models import Model, batch, build
from tests.parallel.observe import Held, binding_of, bits, costly_ops, held, threads_of
from tests.stress.tripwire import Tripwire
from workbench import events, static
from workbench.errors import ExecutionError, InvalidArgument, PreconditionNotMet, Unavailable
from workbench.executors.lowering.binding import Binding
from workbench.executors.lowering.thread_program import ThreadProgram
from workbench.executors.replicas import replicas
from workbench.executors.running.transaction import Broken
from workbench.executors.workers import pool, task
from workbench.framework.op.declare import op
from workbench.framework.op.record import OPS, Cost

MODES = ["AllReduce", "Reduce"]


def network() -> Model:
    """Parameters, optimizer state, statistics, a schedule, a counter, random numbers: every kind of state."""

    def body() -> Any:
        x, y = static.data("x", [None, 5]), static.data("y", [None, 1], "int64")
        h = static.nn.batch_norm(static.nn.fc(x, 8, activation="relu"))
        h = wb.cast(wb.cast(wb.nn.functional.dropout(h, 0.3), "float64"), "float32")  # calls between kernels
        counter = static.create_global_var([1], 0.0, "float32", persistable=True, name="counter")
        counter.block.append_op("increment", {"X": counter}, {"Out": counter}, {"step": 1.0})
        return wb.mean(wb.nn.functional.softmax_with_cross_entropy(static.nn.fc(h, 3), y))

    return build(body, wb.optimizer.Adam(wb.optimizer.lr.ExponentialDecay(0.05, 0.9)))


class Trained:
    """A model on two devices, with the bits it should hold after every step."""

    def __init__(self, model: Model, steps: int, threads: int = 1, mode: str = "AllReduce", **settings: Any) -> None:
        self.model, self.threads, self.mode, self.settings = model, threads, mode, settings
        self.fetches = [model.loss.name, "fc_0.w_0"]
        self.states: list[Held] = []
        self.results: list[Any] = []
        undisturbed = self.executor()
        for i in range(steps):
            self.results.append(bits(self.step(undisturbed, i)))
            self.states.append(held(undisturbed, model.main))
        assert len({tuple(sorted(s.items())) for s in self.states}) == steps
        self.exe = self.executor()
        self.step(self.exe, 0)
        assert held(self.exe, model.main) == self.states[0]

    def executor(self, scope: Any = None) -> Any:
        """One that begins from the start."""
        self.model.scope = static.Scope() if scope is None else scope
        self.model.start()
        building, execution = static.BuildStrategy(), static.ExecutionStrategy()
        building.reduce_strategy = static.BuildStrategy.ReduceStrategy[self.mode]
        execution.num_threads = self.threads
        for name, value in self.settings.items():
            setattr(building if name in building.OPTIONS else execution, name, value)
        return self.model.parallel(2, build_strategy=building, exec_strategy=execution)

    def step(self, exe: Any, number: int) -> Any:
        return exe.run(self.fetches, feed=batch(8, seed=number))

    def bound(self) -> Binding:
        return binding_of(self.exe, self.fetches, batch(8))

    def goes_on_from(self, number: int) -> None:
        """The next step has the results and leaves the state of an undisturbed run."""
        assert bits(self.step(self.exe, number)) == self.results[number]
        assert held(self.exe, self.model.main) == self.states[number]


class Injected(Exception):
    pass


class Fault:
    """A call that raises, `times` times."""

    def __init__(self, times: int = 1, error: type[BaseException] = Injected) -> None:
        self.times, self.error = times, error

    def __call__(self) -> None:
        if self.times:
            self.times -= 1
            raise self.error("injected")


@contextlib.contextmanager
def call_at(program: ThreadProgram, k: int, call: Callable[[], Any]) -> Iterator[None]:
    """One more call before the k-th of a thread, or behind the last."""
    ends, piece = list(program.ends), program.task.piece
    program.task.calls.insert(k, call)
    program.task.piece = None  # it is not the only call any more
    program.ends[:] = [end + 1 if end > k or end == ends[-1] else end for end in ends]
    try:
        yield
    finally:
        program.task.calls.remove(call)
        program.task.piece = piece
        program.ends[:] = ends


def places_of(programs: list[ThreadProgram]) -> list[tuple[ThreadProgram, int]]:
    """Everywhere a call may be put: before the first, and after every single one."""
    return [(p, k) for p in programs if p.task.calls for k in range(len(p.task.calls) + 1)]


@pytest.fixture
def quick_polls(monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads look for failures of others more often than people would notice."""
    for module in (pool, task):
        monkeypatch.setattr(module, "POLL", 0.001)


# A fault after every single call


@in_both
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("threads", "observed"), [(1, False), (4, False), (4, True)])
def test_a_fault_after_any_call_of_the_speculative_part_changes_nothing(
    threads: int, mode: str, observed: bool, quick_polls: None
) -> None:
    with costly_ops(), contextlib.ExitStack() as stack:
        if observed:
            stack.enter_context(events.subscribe(lambda event: None, events.OpRun))
        t = Trained(network(), 160, threads, mode)
        bound = t.bound()
        assert threads_of(bound) == threads
        watching = t.exe.inspection.last_step.watching
        programs = watching.programs(True, False).speculative if observed else bound.speculative
        done, tried = 1, 0
        for program, k in places_of(programs):
            with call_at(program, k, Fault()), pytest.raises(ExecutionError, match=r"op '\w+' failed on cpu:.*: inj"):
                t.step(t.exe, done)
            assert held(t.exe, t.model.main) == t.states[done - 1], f"call {k} left something behind"
            tried += 1
            if tried % 3 == 0:
                t.goes_on_from(done)
                done += 1
        assert tried > (10 if on_tape() else 100)
        t.goes_on_from(done)
        assert t.bound() is bound


@as_calls
def test_the_error_names_the_op_whose_call_failed() -> None:
    t = Trained(network(), 2)
    (program,) = t.bound().speculative
    for part, end in zip(program.units, list(program.ends), strict=True):
        if part.calls:
            with call_at(program, end - 1, Fault()), pytest.raises(ExecutionError) as caught:
                t.step(t.exe, 1)
            node = part.row.node
            where = ", ".join(f"cpu:{place}" for place in node.places)
            assert str(caught.value).startswith(f"op {node.type!r} failed on {where}: injected")
            assert str(caught.value).endswith(f"at {node.site}")
            assert node.site.file.startswith(os.path.dirname(os.path.dirname(__file__)))


@in_both
@pytest.mark.parametrize(("mode", "fused"), [("AllReduce", True), ("AllReduce", False), ("Reduce", False)])
@pytest.mark.parametrize("threads", [1, 4])
def test_a_commit_whose_call_raises_is_taken_to_its_end(
    threads: int, mode: str, fused: bool, quick_polls: None
) -> None:
    with costly_ops():
        t = Trained(network(), 300, threads, mode, fuse_all_optimizer_ops=fused)
        everywhere = places_of(t.bound().commit)
        assert len(everywhere) > (1 if fused or on_tape() else 100)
        for done, (program, k) in enumerate(everywhere, start=1):
            whole = r"a call of the commit raised Injected: injected; the step has been applied whole, on all devices"
            with call_at(program, k, Fault()), pytest.raises(ExecutionError, match=whole):
                t.step(t.exe, done)
            assert held(t.exe, t.model.main) == t.states[done], f"call {k} left the step unfinished"
        t.goes_on_from(len(everywhere) + 1)


@as_calls
def test_in_the_commit_of_several_threads_all_may_fail(quick_polls: None) -> None:
    with costly_ops():
        t = Trained(network(), 3, 4, "Reduce")
        busy = [p for p in t.bound().commit if p.task.calls]
        assert len(busy) > 1
        with contextlib.ExitStack() as stack:
            for program in busy:
                stack.enter_context(call_at(program, 2, Fault()))
            with pytest.raises(ExecutionError, match="applied whole"):
                t.step(t.exe, 1)
        assert held(t.exe, t.model.main) == t.states[1]
        t.goes_on_from(2)


@in_both
@pytest.mark.parametrize("threads", [1, 4])
def test_a_commit_that_cannot_be_finished_ends_the_executor(threads: int, quick_polls: None) -> None:
    with costly_ops():
        t = Trained(network(), 3, threads)
        program = t.bound().commit[-1]
        with call_at(program, 0, Fault(2)), pytest.raises(Broken, match=r"raised Injected\('injected'\), and again"):
            t.step(t.exe, 1)
        left = held(t.exe, t.model.main)
        for _ in range(2):
            with pytest.raises(PreconditionNotMet, match=r"the executor cannot run: .*make a new executor"):
                t.step(t.exe, 1)
        assert held(t.exe, t.model.main) == left
        t.exe = t.executor(t.model.scope)  # runs the startup program, too
        t.goes_on_from(0)


@in_both
def test_a_commit_that_raised_counts_as_a_step() -> None:
    t, seen = Trained(network(), 3), []
    with events.subscribe(seen.append, events.Step, events.Error):
        (program,) = t.exe.inspection.last_step.watching.programs(False, False).commit
        with call_at(program, 1, Fault()), pytest.raises(ExecutionError, match="applied whole"):
            t.step(t.exe, 1)
    assert [(type(event), event.step) for event in seen] == [(events.Step, 1)]


# Errors of other kinds


@in_both
def test_a_failing_merge_changes_nothing() -> None:
    """Values that do not join are found before the commit."""

    def body() -> Any:
        x = static.data("x", [None, None])
        y = wb.assign(x)
        return wb.mean(static.nn.fc(wb.sum(y, axis=1, keepdim=True), 1))

    model = build(body, wb.optimizer.Momentum(0.1)).start()
    exe = model.parallel(2)
    feed = [{"x": np.ones((2, 3), np.float32)}, {"x": np.ones((2, 4), np.float32)}]
    joint = next(v.name for v in model.main.global_block().vars.values() if v.name.startswith("assign"))
    exe.run([model.loss], feed=feed)
    before = held(exe, model.main)
    with pytest.raises(InvalidArgument, match=joint):
        exe.run(["fc_0.w_0", joint], feed=feed)
    assert held(exe, model.main) == before
    exe.run(["fc_0.w_0"], feed=feed)
    assert held(exe, model.main) != before


@in_both
def test_a_failing_observer_warns_and_does_not_break_the_step() -> None:
    t, heard = Trained(network(), 8), []
    for number, kind in enumerate([events.Feed, events.OpRun, events.Collective, events.Step, events.Memory], start=1):

        def observer(event: Any) -> None:
            raise ValueError("observer's own")

        told = pytest.warns(RuntimeWarning, match=r"observer.*failed")
        with events.subscribe(observer, kind), events.subscribe(heard.append, events.Step), told:
            t.goes_on_from(number)
    assert [event.step for event in heard] == [1, 2, 3, 4, 5]


@in_both
def test_an_observer_that_interrupts_leaves_a_whole_step() -> None:
    t = Trained(network(), 3)

    def observer(event: Any) -> None:
        raise KeyboardInterrupt

    with events.subscribe(observer, events.Step), pytest.raises(KeyboardInterrupt):
        t.step(t.exe, 1)
    assert held(t.exe, t.model.main) == t.states[1]
    t.goes_on_from(2)


@pytest.fixture
def hook() -> Iterator[Any]:
    """An op that hands its input through and calls `hook.body(place)` when it runs."""

    class Hook:
        body: Callable[[int], Any] = staticmethod(lambda place: None)

    slot = {"infer": lambda x: x, "cost": lambda x: Cost(10**9, 0)}

    @op("hooked", "X -> Out", grad=lambda g, out, x, **attrs: g, needs="place", **slot)
    def hooked(xp: Any, x: Any, place: int) -> Any:
        Hook.body(place)
        return xp.array(x)

    Hook.apply = hooked
    known = {"hooked", "hooked_grad"}
    try:
        yield Hook
    finally:
        for name in known & OPS.keys():
            del OPS[name]


def hooked_network(hook: Any) -> Model:
    def body() -> Any:
        x, y = static.data("x", [None, 5]), static.data("y", [None, 1], "int64")
        h = hook.apply(static.nn.batch_norm(static.nn.fc(x, 8, activation="relu")))
        h = wb.nn.functional.dropout(h, 0.3)
        return wb.mean(wb.nn.functional.softmax_with_cross_entropy(static.nn.fc(h, 3), y))

    return build(body, wb.optimizer.Adam(0.05))


@in_both
def test_what_is_fed_for_a_variable_that_stays_is_not_kept_by_a_step_that_fails(hook: Any) -> None:
    t = Trained(hooked_network(hook), 2)

    def fail(place: int) -> None:
        raise ValueError("later")

    hook.body = fail
    rate = {"learning_rate_0": np.array([3.0], np.float32)}
    with pytest.raises(InvalidArgument, match="later"):
        t.exe.run(t.fetches, feed={**batch(8), **rate})
    assert held(t.exe, t.model.main) == t.states[0]
    hook.body = lambda place: None
    t.goes_on_from(1)


@in_both
@pytest.mark.parametrize("mode", MODES)
def test_an_update_of_the_users_may_fail(mode: str) -> None:
    """It is run aside, and what it gives is copied by the commit; other updates have not been applied either.

    A body that writes to the parameter itself, which no body may, is stopped before it has.
    """
    fails: list[Any] = []

    @op("users_update", "Param, Grad -> ParamOut", infer=lambda p, g: p, aliases={"ParamOut": "Param"}, needs="place")
    def users_update(xp: Any, param: Any, grad: Any, place: int) -> Any:
        if place in fails:
            raise ValueError("not this one")
        if fails == ["in place"]:
            param -= 0.1 * grad
        return param - xp.float32(0.1) * grad

    def body() -> Any:
        x, y = static.data("x", [None, 5]), static.data("y", [None, 1], "int64")
        return wb.mean(wb.nn.functional.softmax_with_cross_entropy(static.nn.fc(static.nn.fc(x, 4), 3), y))

    try:
        model = build(body, wb.optimizer.SGD(0.1))
        (last,) = (o for o in model.main.global_block().ops if o.inputs.get("Param") == ["fc_1.w_0"])
        last.type = "users_update"
        del last.inputs["LearningRate"]
        model.main.touch()
        t = Trained(model, 3, mode=mode)
        for place in (0, 1) if mode == "AllReduce" else (t.exe.inspection.graph(()).owners["fc_1.w_0"],):
            fails[:] = [place]
            with pytest.raises(InvalidArgument, match=f"op 'users_update' failed on cpu:{place}: not this one"):
                t.step(t.exe, 1)
            assert held(t.exe, t.model.main) == t.states[0]
        fails[:] = ["in place"]
        with pytest.raises(InvalidArgument, match=r"op 'users_update' failed on cpu:\d: .*read-only"):
            t.step(t.exe, 1)
        assert held(t.exe, t.model.main) == t.states[0]
        fails.clear()
        t.goes_on_from(1)
        t.goes_on_from(2)
    finally:
        del OPS["users_update"]


@in_both
@pytest.mark.parametrize("threads", [1, 4])
@pytest.mark.parametrize("device", [0, 1])
def test_an_op_that_fails_on_one_device_only(hook: Any, device: int, threads: int) -> None:
    t = Trained(hooked_network(hook), 3, threads)

    def fail(place: int) -> None:
        if place == device:
            raise ValueError("not here")

    hook.body = fail
    with pytest.raises(InvalidArgument, match=f"op 'hooked' failed on cpu:{device}: not here") as caught:
        t.step(t.exe, 1)
    assert __file__ in str(caught.value)
    assert held(t.exe, t.model.main) == t.states[0]
    hook.body = lambda place: None
    t.goes_on_from(1)


@in_both
def test_workers_have_come_to_rest_before_an_error_leaves(hook: Any) -> None:
    """The other device is in the middle of an op; it ends before the error is told, and nothing follows."""
    t, both, running = Trained(hooked_network(hook), 3, 4), threading.Barrier(2), threading.Event()

    def meet(place: int) -> None:
        both.wait(10)
        if threading.current_thread() is threading.main_thread():
            raise ValueError("main thread")
        running.set()
        time.sleep(0.2)
        running.clear()

    assert threads_of(t.bound()) > 1
    hook.body = meet
    with pytest.raises(InvalidArgument, match="main thread"):
        t.step(t.exe, 1)
    assert not running.is_set()
    arenas = [arena.array(0, (arena.nbytes,), np.uint8) for arena in t.exe.inspection.arenas.values()]
    before = [a.copy() for a in arenas]
    time.sleep(0.1)
    assert all(np.array_equal(a, b) for a, b in zip(arenas, before, strict=True))
    hook.body = lambda place: None
    t.goes_on_from(1)


@in_both
def test_a_worker_that_fails_stops_the_others(hook: Any) -> None:
    t, both = Trained(hooked_network(hook), 3, 4), threading.Barrier(2)

    def meet(place: int) -> None:
        both.wait(10)
        if threading.current_thread() is not threading.main_thread():
            raise ValueError("worker")

    hook.body = meet
    with pytest.raises(InvalidArgument, match=r"op 'hooked' failed on cpu:\d: worker"):
        t.step(t.exe, 1)
    assert held(t.exe, t.model.main) == t.states[0]
    hook.body = lambda place: None
    t.goes_on_from(1)


class Exit(threading.Event):
    """Attributes: waiting: how many threads wait for it."""

    waiting = 0

    def wait(self, timeout: float | None = None) -> bool:
        self.waiting += 1
        try:
            return super().wait(timeout)
        finally:
            self.waiting -= 1


def stuck(t: Trained, hook: Any) -> tuple[Exit, threading.Event]:
    """From now on a worker sticks in the op until the first event; the second tells that it is there."""
    free, there = Exit(), threading.Event()
    assert threads_of(t.bound()) > 1

    def stick(place: int) -> None:
        if threading.current_thread() is not threading.main_thread():
            there.set()
            free.wait(20)

    hook.body = stick
    return free, there


@in_both
def test_a_thread_that_is_stuck_is_named(hook: Any) -> None:
    t = Trained(hooked_network(hook), 4, 2, timeout=0.3)
    free, _ = stuck(t, hook)
    try:
        with pytest.raises(Unavailable, match=r"device thread 1 .*\n.*it is at op 'hooked' on cpu:\d") as caught:
            t.step(t.exe, 1)
        assert free.waiting == 1  # the worker, still
        assert __file__ in str(caught.value)
        hook.body = lambda place: None
        assert held(t.exe, t.model.main) == t.states[0]
        t.goes_on_from(1)  # while the thread is still stuck
        old = t.bound()
    finally:
        free.set()
    t.goes_on_from(2)  # while it goes on in what it was bound to, and finds that nobody waits for it
    time.sleep(0.2)
    assert held(t.exe, t.model.main) == t.states[2]
    assert t.bound() is old
    t.goes_on_from(3)


@in_both
def test_ctrl_c_while_a_thread_is_stuck(hook: Any) -> None:
    """The first one waits for the thread to come to an end, the second does not."""
    t = Trained(hooked_network(hook), 3, 2)
    free, there = stuck(t, hook)

    def press() -> None:
        assert there.wait(10)
        for _ in range(2):
            time.sleep(0.2)
            os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=press)
    try:
        with pytest.raises(KeyboardInterrupt):
            thread.start()
            t.step(t.exe, 1)
            spin()
        assert free.waiting == 1  # the worker, still
        thread.join(10)
        assert held(t.exe, t.model.main) == t.states[0]
        hook.body = lambda place: None
        t.goes_on_from(1)
    finally:
        free.set()
    t.goes_on_from(2)


@as_calls
def test_a_commit_that_is_stuck_in_a_worker_is_told(quick_polls: None) -> None:
    """It must not be run once more by somebody else while it is under way."""
    with costly_ops():
        t = Trained(network(), 2, 2, timeout=0.2)
        free, entered = threading.Event(), []

        def stick() -> None:
            entered.append(threading.current_thread())
            free.wait(20)

        program = t.bound().commit[1]
        try:
            with call_at(program, 0, stick), pytest.raises(Broken, match=r"did not come to an end: .*device thread 1"):
                t.step(t.exe, 1)
        finally:
            free.set()
        assert len(entered) == 1
        with pytest.raises(PreconditionNotMet, match="the executor cannot run"):
            t.step(t.exe, 1)


# Ctrl-C


def spin() -> None:
    """Let a pending signal be delivered."""
    for _ in range(1000):
        pass


def overwrite(t: Trained, state: Held) -> None:
    """Put everything back."""
    for (name, place), data in state.items():
        array = t.exe.inspection.tensor(name, place).array
        array[...] = np.frombuffer(data, array.dtype).reshape(array.shape)


@in_both
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("threads", [1, 2])
def test_interrupts_at_random_moments(threads: int, mode: str, quick_polls: None) -> None:
    """Whenever SIGINT arrives, the devices hold the state after exactly n whole steps: 4 x 50 times."""
    steps, rounds, pick, interrupted = 8, 50, random.Random(f"{threads} {mode}"), 0
    with costly_ops():
        t = Trained(network(), steps + 1, threads, mode)
    assert threads_of(t.bound()) == threads
    start = time.monotonic()
    for i in range(steps):
        t.step(t.exe, i + 1)
    span = time.monotonic() - start
    for _ in range(rounds):
        overwrite(t, t.states[0])
        done = 0
        timer = threading.Timer(pick.uniform(0, span), os.kill, (os.getpid(), signal.SIGINT))
        try:
            timer.start()
            while done < steps:
                t.step(t.exe, done + 1)
                done += 1
            timer.join()
            spin()
        except KeyboardInterrupt:
            interrupted += 1
        timer.join()
        state = held(t.exe, t.model.main)
        assert state in (t.states[done], t.states[min(done + 1, steps)]), f"torn after {done} steps"
        again = done if state == t.states[done] else done + 1
        if again < steps:
            t.goes_on_from(again + 1)
    assert interrupted > rounds // 3


SAMPLES = 120  # moments of a step


FILES = (
    "engine.py", "binding.py", "transaction.py", "workers/pool.py", "collect.py", "replicas.py", "tensor.py",
    "step_runner.py",
)  # fmt: skip


def interrupted_at(n: int, run: Callable[[], Any]) -> bool:
    """Whether Ctrl-C at moment n came through; at worst it is held back until the end."""
    try:
        with Tripwire(n, FILES):
            run()
    except KeyboardInterrupt:
        return True
    return False


@in_both
@pytest.mark.parametrize("threads", [1, 2])
def test_interrupts_at_any_moment_of_a_step(threads: int, quick_polls: None) -> None:
    with costly_ops():
        t = Trained(network(), 2, threads)
    with Tripwire(None, FILES) as wire:
        t.step(t.exe, 1)
    overwrite(t, t.states[0])
    assert wire.count > 50
    left, pick = {0: 0, 1: 0}, random.Random(threads)
    behind = range(wire.count - 12, wire.count)  # the commit
    for n in sorted({*pick.sample(range(wire.count), min(SAMPLES, wire.count)), *behind}):
        came = interrupted_at(n, lambda: t.step(t.exe, 1))
        state = held(t.exe, t.model.main)
        assert state in t.states, f"torn at moment {n}"
        left[t.states.index(state)] += came
        if state == t.states[0]:
            t.goes_on_from(1)
        overwrite(t, t.states[0])
    assert min(left.values())


@as_calls
@pytest.mark.parametrize("mode", MODES)
def test_interrupts_in_the_first_run(mode: str) -> None:
    """Scopes of the other devices, buckets, bindings: whatever was begun, the next run finds it usable."""
    t, pick = Trained(network(), 2, 1, mode), random.Random(5)
    fresh = t.executor()
    with Tripwire(None, FILES) as wire:
        t.step(fresh, 0)
    came = 0
    for n in sorted(pick.sample(range(wire.count), SAMPLES // 10)):
        t.exe = t.executor()
        came += interrupted_at(n, lambda: t.step(t.exe, 0))
        if t.exe.inspection.steps == 0:
            t.goes_on_from(0)
        else:
            assert held(t.exe, t.model.main) == t.states[0]
        t.goes_on_from(1)
    assert came > SAMPLES // 20


@as_calls
@pytest.mark.parametrize("k", [0, 3, 10])
def test_an_interrupt_while_the_devices_get_their_copies(k: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A device whose copy was not finished must not be taken to have one: it would work on that of device 0."""
    t, left = Trained(network(), 2), k
    t.exe = t.executor()

    class Interrupting(replicas.ScopeVariable):
        def __init__(self, name: str) -> None:
            nonlocal left
            left -= 1
            if left == -1:
                raise KeyboardInterrupt
            super().__init__(name)

    monkeypatch.setattr(replicas, "ScopeVariable", Interrupting)
    with pytest.raises(KeyboardInterrupt):
        t.step(t.exe, 0)
    t.goes_on_from(0)
    t.goes_on_from(1)
