"""Steps on the tape that fail: bad data in a kernel, Ctrl-C in the middle of a piece (promises 1 and 4)."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.parallel.models import Model, batch, build, classifier
from tests.parallel.observe import bits, costly_ops, held
from tests.parallel.programs import strategies
from workbench import events, static
from workbench.config import override
from workbench.errors import EnforceNotMet, InvalidArgument
from workbench.executors.lowering.operands import is_dynamic
from workbench.executors.lowering.tape.segment import Segment

F = wb.nn.functional
ROWS = 8


@pytest.fixture(autouse=True)
def on_the_tape(tape: None) -> None:
    """All of this is about kernels."""


def network() -> Model:
    """Parameters, optimizer state, statistics and random numbers; two kernels that look at labels."""

    def body() -> Any:
        x, y = static.data("x", [None, 5]), static.data("y", [None, 1], "int64")
        h = static.nn.batch_norm(static.nn.fc(x, 8, activation="relu"))
        h = static.nn.fc(F.dropout(h, 0.3), 8, activation="tanh")
        early = F.softmax_with_cross_entropy(static.nn.fc(h, 3), y)
        late = F.softmax_with_cross_entropy(static.nn.fc(early * h, 3), y)
        return wb.mean(early + late)

    return build(body, wb.optimizer.Adam(0.05))


def spoilt(step: int, row: int, label: int = 3) -> dict[str, np.ndarray]:
    """A batch with one label nobody has a class for."""
    feed = batch(ROWS, step)
    feed["y"][row] = label
    return feed


class Run:
    """Steps of a fresh model on two devices."""

    def __init__(self, **options: Any) -> None:
        self.model = network()
        self.exe = self.model.start().parallel(2, **strategies(**options))

    def step(self, number: int) -> Any:
        return bits(self.exe.run([self.model.loss, "fc_0.w_0"], feed=batch(ROWS, number)))

    def fails(self, feed: dict[str, np.ndarray]) -> str:
        with pytest.raises(EnforceNotMet) as caught:
            self.exe.run([self.model.loss, "fc_0.w_0"], feed=feed)
        assert type(caught.value) is InvalidArgument
        return str(caught.value)

    @property
    def state(self) -> Any:
        return held(self.exe, self.model.main)


@pytest.mark.parametrize("mode", ["AllReduce", "Reduce"])
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("watched", [False, True])
def test_a_label_out_of_range_leaves_no_trace(threads: int, mode: str, watched: bool) -> None:
    """In any row, that is on any device, and at any step; what follows is what would have been without it."""
    with costly_ops(), events.subscribe(lambda event: None, *([events.OpRun] if watched else [events.Memory])):
        run, calm = Run(threads=threads, mode=mode), Run(threads=threads, mode=mode)
        for number in range(4):
            for row in range(0, ROWS, 3):
                before = run.state if number else None
                assert "label" in run.fails(spoilt(number, row))
                assert before is None or run.state == before
            assert run.step(number) == calm.step(number)
            assert run.state == calm.state


@pytest.mark.parametrize("label", [3, -1, -101, 2**31, -(2**62)])
def test_the_error_is_that_of_the_calls(label: int) -> None:
    by_tape = Run().fails(spoilt(0, 6, label))
    with override(cpu_tape=False):
        by_calls = Run().fails(spoilt(0, 6, label))
    assert by_tape == by_calls
    assert "cpu:1" in by_tape and __file__ in by_tape


def test_a_label_to_be_ignored_is_none_out_of_range() -> None:
    run = Run()
    run.exe.run([run.model.loss], feed=spoilt(0, 2, -100))


def sparse_table() -> Any:
    ids = static.data("ids", [None, 1], "int64")
    return wb.mean(static.nn.embedding(ids, [5, 4], is_sparse=True, dtype="float16").astype("float32"))


def grown_rows() -> Any:
    """How many there are is known when the loop has ended."""
    n = static.data("ids", [None, 1], "int64")[0]
    counter, row = wb.full([1], 0, "int64"), static.create_parameter([1, 4], "float32")
    rows = static.nn.while_loop(lambda i, h: i < n, lambda i, h: [i + 1, wb.concat([h, h])], [counter, row])[1]
    return wb.mean(rows * wb.full([4], 2.0))


@pytest.mark.parametrize("body", [sparse_table, grown_rows])
def test_what_travels_as_an_object_is_not_counted_as_work_of_kernels(body: Callable[[], Any]) -> None:
    exe = build(body, wb.optimizer.SGD(0.1)).start().parallel(1)
    exe.run([], feed={"ids": np.array([[1], [2]])})
    plan = exe.inspection.last.plan
    objects = {row.node for row in (*plan.rows, *plan.commit) if is_dynamic(row)}
    assert objects and plan.native and objects.isdisjoint(plan.native)


def test_powers_that_do_not_agree_are_left_to_numpy() -> None:
    """A kernel of the commit declines; what it would have done is done all the same, and nothing twice."""
    states = []
    for tape in (False, True):
        with override(cpu_tape=tape), np.errstate(all="raise"):
            model = classifier(wb.optimizer.Adam(0.05)).start()
            exe = model.parallel(2)
            exe.run([], feed=batch(ROWS, 0))
            model.scope.find_var("fc_0.w_0_beta1_pow_acc_0").get_tensor().set(np.float32([1e-38]))
            for number in (1, 2):
                exe.run([], feed=batch(ROWS, number))
            states.append({k: np.frombuffer(v, np.float32) for k, v in held(exe, model.main).items()})
    by_calls, by_tape = states
    for name, value in by_calls.items():
        np.testing.assert_allclose(by_tape[name], value, rtol=2e-4, atol=2e-6, err_msg=str(name))


# Ctrl-C


LONG = """
import os, signal, sys, threading, time
import numpy as np
import workbench as wb
from workbench import static

wb.enable_static()
main, startup = static.Program(), static.Program()
main.random_seed = startup.random_seed = 1
with static.program_guard(main, startup):
    x = static.data("x", [None, 256])
    h = x
    for _ in range(40):
        h = static.nn.fc(h, 256, activation="tanh")
    loss = wb.mean(h)
    wb.optimizer.Momentum(0.01, 0.9).minimize(loss)
static.Executor().run(startup)
feed = {"x": np.random.default_rng(0).standard_normal((2048, 256), dtype=np.float32)}
execution = static.ExecutionStrategy()
execution.num_threads = int(sys.argv[1])
os.environ["CPU_NUM"] = "2"
exe = static.ParallelExecutor(use_cuda=False, loss_name=loss.name, main_program=main, exec_strategy=execution)


def state():
    return [exe.inspection.tensor(v.name, d).array.tobytes() for v in main.persistables() for d in range(2)]


exe.run([loss], feed=feed)
start = time.monotonic()
exe.run([loss], feed=feed)
takes = time.monotonic() - start
rng, waits, torn, early = np.random.default_rng(int(sys.argv[1])), [], 0, 0
for _ in range(6):
    before, pressed = state(), []

    def press():
        pressed.append(time.monotonic())
        os.kill(os.getpid(), signal.SIGINT)

    timer = threading.Timer(rng.uniform(0.05, 0.7) * takes, press)
    timer.start()
    try:
        exe.run([loss], feed=feed)
        while True:
            time.sleep(1)
    except KeyboardInterrupt:
        waits.append(time.monotonic() - pressed[0])
    early += state() == before
(found,) = exe.run([loss], feed=feed)
print(takes, max(waits), sorted(waits)[len(waits) // 2], early, np.isfinite(found).all())
"""


@pytest.mark.parametrize("threads", [1, 2])
def test_ctrl_c_in_the_middle_of_a_long_step(threads: int) -> None:
    """It is answered between rows, long before the step would have ended, and the step has not been applied."""
    environment = {**os.environ, "FLAGS_cpu_tape": "1"}
    done = subprocess.run(
        [sys.executable, "-c", LONG, str(threads)], capture_output=True, text=True, timeout=120, env=environment
    )
    assert done.returncode == 0, done.stderr
    takes, _, median, early, finite = done.stdout.split()
    assert int(early) >= 4, "an interrupted step was applied"
    assert float(median) < max(0.1, 0.2 * float(takes))
    assert finite == "True"


# Failures of other threads


@pytest.fixture
def forked() -> Iterator[Any]:
    """Two devices on two threads, in one piece of tape each."""
    with costly_ops():
        run = Run(threads=2)
        run.step(0)
        yield run


def test_both_devices_wait_in_kernels_for_each_other(forked: Any) -> None:
    """What the next tests rely on."""
    (bound,) = forked.exe.inspection.bindings
    assert len(bound.speculative) == 2
    assert any(isinstance(unit, Segment) for program in bound.speculative for unit in program.units)


def test_a_thread_that_declines_stops_those_that_wait(forked: Any) -> None:
    for row in (0, ROWS - 1):
        begun = time.monotonic()
        forked.fails(spoilt(1, row))
        assert time.monotonic() - begun < 5
    calm = Run(threads=2)
    calm.step(0)
    assert forked.step(1) == calm.step(1)


def test_interrupts_one_after_the_other(forked: Any) -> None:
    """Some come while the last one is being answered."""
    before = forked.state
    stop = threading.Event()

    def press() -> None:
        while not stop.wait(0.002):
            os.kill(os.getpid(), signal.SIGINT)

    done = 0
    for _ in range(20):
        thread = threading.Thread(target=press)
        try:
            thread.start()
            for _ in range(50):
                forked.step(1)
                done += 1
        except KeyboardInterrupt:
            pass
        finally:
            _quietly(stop.set)
            _quietly(thread.join)
            stop.clear()
    assert forked.state != before or not done
    forked.step(2)


def _quietly(call: Any) -> None:
    while True:
        try:
            call()
            return
        except KeyboardInterrupt:
            continue
