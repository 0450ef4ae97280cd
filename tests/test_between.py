"""Who is let in between steps: on the main thread, seldom, never within a step or a visit, and nobody in a script."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import workbench as wb
from workbench import between, static
from workbench.framework import names
from workbench.framework.program.guard import static_mode
from workbench.runtime.storage.scope import Scope, scope_guard

Step = Callable[[], Any]


@pytest.fixture
def visits() -> Iterator[list[str]]:
    """A visitor who notes the threads he comes on; whoever waits for him may come at once."""
    seen: list[str] = []
    between.let_visit(lambda: seen.append(threading.current_thread().name))
    yield seen
    between.let_visit(None)


@pytest.fixture(params=["serial", "compiled", "parallel"])
def step(request: pytest.FixtureRequest) -> Step:
    main, startup = static.Program(), static.Program()
    with static_mode(), static.program_guard(main, startup), names.guard(), scope_guard(Scope()):
        loss = wb.mean(static.nn.fc(static.data("x", [None, 3]), 1))
        wb.optimizer.SGD(0.1).minimize(loss)
        runner, scope = static.Executor(), static.global_scope()
        runner.run(startup)
        feed = {"x": np.ones((4, 3), np.float32)}
        places = static.cpu_places(2)
        if request.param == "parallel":
            exe = static.ParallelExecutor(use_cuda=False, loss_name=loss.name, main_program=main, scope=scope)
            return lambda: exe.run([loss], feed=feed)
        program: Any = main
        if request.param == "compiled":
            program = static.CompiledProgram(main).with_data_parallel(loss.name, places=places)
        return lambda: runner.run(program, feed=feed, fetch_list=[loss], scope=scope)


def test_the_main_threads_steps_let_a_visitor_in_now_and_then(step: Step, visits: list[str]) -> None:
    step()
    assert visits == ["MainThread"]
    between.due = 0  # 50 ms later
    step()
    assert len(visits) == 2
    between.due = between.perf_counter_ns() + 10**12
    step()
    assert len(visits) == 2


def test_the_steps_of_other_threads_do_not(step: Step, visits: list[str]) -> None:
    thread = threading.Thread(target=step)
    thread.start()
    thread.join(60)
    assert visits == []


def test_a_visitor_who_runs_a_step_is_not_let_in_again(step: Step) -> None:
    depth: list[int] = []

    def visitor() -> None:
        depth.append(len(depth))
        step()

    between.let_visit(visitor)
    try:
        step()
        assert depth == [0]
    finally:
        between.let_visit(None)


def test_an_interrupt_in_a_visit_leaves_the_step_undone(step: Step) -> None:
    before = step()

    def visitor() -> None:
        raise KeyboardInterrupt

    between.let_visit(visitor)
    try:
        with pytest.raises(KeyboardInterrupt):
            step()
    finally:
        between.let_visit(None)
    expected = before[0].mean() - 0.1 * 4  # each of three weights and the bias goes down by 0.1
    assert step()[0].mean() == pytest.approx(expected, abs=1e-5)


def test_waits_let_a_visitor_in(visits: list[str]) -> None:
    between.rest(0.001)
    assert visits == ["MainThread"]


def test_whoever_waits_for_another_threads_step_lets_a_visitor_in(visits: list[str]) -> None:
    scope, held = Scope(), threading.Event()

    def hold() -> None:
        with scope.in_use():
            held.set()
            while not visits:
                time.sleep(0.01)

    thread = threading.Thread(target=hold, daemon=True)
    thread.start()
    assert held.wait(60)
    with scope.in_use(60):
        assert set(visits) == {"MainThread"}
    thread.join(60)


SCRIPT = """
import sys
import numpy as np
import workbench as wb
from workbench import between, static
wb.enable_static()
loss = wb.mean(static.nn.fc(static.data("x", [None, 3]), 1))
static.Executor().run(static.default_startup_program())
wb.train(static.default_main_program(), [{"x": np.ones((4, 3), np.float32)}], record=False, fetch=[loss]).wait(60)
print(between.due > 10**18, [name for name in ("zmq", "IPython", "ipykernel") if name in sys.modules])
"""


def test_a_script_has_no_visitor_and_loads_nothing_for_one() -> None:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", SCRIPT], capture_output=True, text=True, timeout=120, check=True
    )
    assert done.stdout == "True []\n"
