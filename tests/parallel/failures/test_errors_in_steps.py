"""Errors of merges, observers, ops and threads: the step is not applied, and whoever waits is told."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.parallel.failures.test_transactions import MODES, Trained, call_at, network, spin
from tests.parallel.lowerings import in_both, on_tapes
from tests.parallel.models import Model, batch, build
from tests.parallel.observe import costly_ops, held, threads_of
from workbench import events, static
from workbench.errors import InvalidArgument, PreconditionNotMet, Unavailable
from workbench.executors.running.transaction import Broken
from workbench.framework.op.declare import op
from workbench.framework.op.record import OPS, Cost


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


@on_tapes
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
