"""A pool of threads: what a failure of one does to the others, and to the run after it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import numpy as np
import pytest

from tests.native.one_row import kernels
from workbench.errors import InvalidArgument
from workbench.executors.lowering.tape.segment import NativeFlag
from workbench.executors.workers.pool import Flag, WorkerPool
from workbench.executors.workers.task import Task
from workbench.runtime.words.codes import PATIENCE as YIELDS

PATIENCE = 20.0  # seconds anything may take here


def fail() -> None:
    raise ValueError("of the test")


def in_pool(pool: WorkerPool, *calls: list[Callable[[], object]]) -> None:
    pool.run([Task(one) for one in calls])


@pytest.mark.parametrize("native", [False, True])
def test_who_waits_for_one_that_failed_stops_and_the_cause_is_told(native: bool) -> None:
    pool = WorkerPool(PATIENCE, kernels() if native else None)
    flag = Flag(pool, "what never comes")
    with pytest.raises(ValueError, match="of the test"):
        in_pool(pool, [flag.wait], [fail, flag.up])
    with pytest.raises(ValueError, match="of the test"):
        in_pool(pool, [fail, flag.up], [flag.wait])
    assert not pool.lost


def test_nobody_is_at_work_when_an_error_leaves() -> None:
    """The memory they write to is that of the next step."""
    pool, done = WorkerPool(PATIENCE), []
    with pytest.raises(ValueError, match="of the test"):
        in_pool(pool, [fail], [lambda: time.sleep(0.2), lambda: done.append(threading.current_thread().name)])
    assert done == ["workbench device thread 1"]
    in_pool(pool, [], [])
    assert len(done) == 1


def test_who_has_waited_long_gives_up_its_processor_until_the_next_step() -> None:
    pool = WorkerPool(PATIENCE, kernels())
    assert pool.control is not None
    flag, words, seen = NativeFlag(pool, "what comes late"), pool.control.array, []

    def come_late() -> None:
        end = time.monotonic() + PATIENCE
        seen.append(int(words[YIELDS]))
        while words[YIELDS] and time.monotonic() < end:
            time.sleep(0.001)
        seen.append(int(words[YIELDS]))

    for _ in range(2):
        in_pool(pool, [flag.wait], [come_late, flag.up])
    patience = seen[0]
    assert patience > 0 and seen == [patience, 0, patience, 0]


def test_flags_are_down_when_a_step_begins_anew() -> None:
    """One that was raised and not awaited would let its reader go ahead in the next step."""
    pool = WorkerPool(PATIENCE)
    flag = Flag(pool, "a result")
    flag.up()
    flag.lower()
    order: list[str] = []
    in_pool(
        pool,
        [flag.wait, lambda: order.append("read")],
        [lambda: time.sleep(0.05), lambda: order.append("made"), flag.up],
    )
    assert order == ["made", "read"]


def test_what_a_failure_left_is_cleared_before_a_step_that_waits_for_nobody() -> None:
    pool = WorkerPool(PATIENCE, kernels())
    with pytest.raises(ValueError, match="of the test"):
        in_pool(pool, [fail], [np.zeros(1).sum])
    assert pool.failed and pool.is_unsettled
    pool.begin()
    assert not (pool.failed or pool.is_unsettled)


def test_who_was_not_even_told_to_stop_is_waited_for_before_the_next_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """A Ctrl-C may come between a failure and what is done about it."""

    def interrupted() -> None:
        raise KeyboardInterrupt

    pool, late = WorkerPool(PATIENCE), threading.Event()
    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(pool, "_drain", interrupted)
        in_pool(pool, [fail], [lambda: late.wait(PATIENCE)])
    threading.Timer(0.1, late.set).start()
    assert pool.is_unsettled
    pool.begin()
    assert late.is_set() and not pool.failed


def test_of_several_errors_the_one_a_user_can_act_on_is_told() -> None:
    def refuse() -> None:
        raise InvalidArgument("named")

    with pytest.raises(InvalidArgument, match="named"):
        in_pool(WorkerPool(PATIENCE), [fail], [refuse])
    with pytest.raises(InvalidArgument, match="named"):
        in_pool(WorkerPool(PATIENCE), [refuse], [fail])


def test_ctrl_c_is_told_whatever_the_others_have_met() -> None:
    def interrupted() -> None:
        while not other.is_set():
            time.sleep(0.001)
        raise KeyboardInterrupt

    def refuse() -> None:
        other.set()
        raise InvalidArgument("named")

    other = threading.Event()
    with pytest.raises(KeyboardInterrupt):
        in_pool(WorkerPool(PATIENCE), [interrupted], [refuse])
