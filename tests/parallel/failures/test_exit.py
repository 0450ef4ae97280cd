"""The end of a process, and forks, while steps are under way in other threads."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from multiprocessing import get_context
from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.parallel.models import batch, classifier
from workbench import static
from workbench.errors import PreconditionNotMet
from workbench.runtime.blas import OneBlasThread
from workbench.runtime.storage import scope as scope_module

PREPARED = """
import atexit, os, sys, threading, time, weakref
os.environ["CPU_NUM"] = "2"
import numpy as np
import workbench as wb
from workbench import static

wb.enable_static()
main, startup = static.Program(), static.Program()
with static.program_guard(main, startup):
    h = static.data("x", [None, 256])
    for _ in range(12):
        h = static.nn.fc(h, 256, activation="tanh")
    loss = wb.mean(h)
    wb.optimizer.Momentum(0.01, 0.9).minimize(loss)
static.Executor().run(startup)
execution = static.ExecutionStrategy()
execution.num_threads = 2
feed = {"x": np.random.default_rng(0).standard_normal((1024, 256), dtype=np.float32)}
exe = static.ParallelExecutor(use_cuda=False, loss_name=loss.name, main_program=main, exec_strategy=execution)
exe.run([loss], feed=feed)

def step():
    try:
        print(exe.run([loss], feed=feed)[0].shape, flush=True)
    except wb.errors.Unavailable as error:
        print(error, flush=True)

class Holder:
    def __del__(self):
        step()
"""
DAEMON = """
def loop():
    while True:
        exe.run([loss], feed=feed)
threading.Thread(target=loop, daemon=True).start()
time.sleep(0.1)
"""
TRAIN = """
run = wb.train(main, [feed] * 1000, fetch=[loss], executor=exe, record=False, progress=False)
atexit.register(lambda: print(run.state, flush=True))
time.sleep(0.1)
"""


def ended(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", PREPARED + code], capture_output=True, text=True, timeout=120)


@pytest.mark.processes
@pytest.mark.parametrize("code", [DAEMON, TRAIN])
def test_a_process_ends_while_two_threads_are_in_a_step(code: str) -> None:
    """Every time it was a segmentation fault: the worker walked a tape of which the address had become 0."""
    done = ended(code)
    assert done.returncode == 0, done.stderr


@pytest.mark.processes
def test_a_step_in_a_finalizer_at_the_end_is_refused_and_one_before_runs() -> None:
    """The threads it would wait for are gone."""
    done = ended("held = Holder(); weakref.finalize(step, step); atexit.register(step)\n")
    assert done.returncode == 0, done.stderr
    *early, last = done.stdout.splitlines()
    assert early == ["(2,)"] * 2 and last == "the interpreter is ending: no step can run any more"


@pytest.mark.processes
def test_a_run_that_nobody_waits_for_is_stopped_at_a_step() -> None:
    done = ended(TRAIN.replace("atexit.register", "from workbench.runtime.ending import the_end\natexit.unregister("
                               "the_end.come); atexit.register(lambda: print(run.state)); atexit.register(the_end.come)"
                               ";(lambda f: None)"))  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["stopped"]


# Forks

IN_CHILD = """
from workbench.runtime import ending
run = wb.train(main, [feed] * 1000, fetch=[loss], executor=exe, record=False, progress=False)
done = wb.train(main, [], fetch=[loss], scope=static.Scope(), startup=startup, record=False, progress=False).wait()
while run.step < 2:
    time.sleep(0.01)
child = os.fork()
if child == 0:
    ending.PATIENCE = 1e6
    for ask in (run.wait, run.save):
        try:
            ask()
        except wb.errors.PreconditionNotMet as error:
            print(error, flush=True)
    print(run.state, run.pause(10), done.wait().state, flush=True)
    sys.exit(0)
assert os.waitpid(child, 0)[1] == 0
step = run.step
while run.step == step:
    time.sleep(0.01)
run.stop()
print(run.wait().state)
"""
TORN = """
from workbench.runtime.storage import scope as scope_module
scope_module._FORK_PATIENCE = 0.1
inside, leave = threading.Event(), threading.Event()

def keep():
    with exe.inspection.scope.in_use():
        inside.set()
        leave.wait(60)

threading.Thread(target=keep, daemon=True).start()
assert inside.wait(10)
child = os.fork()
if child == 0:
    scopes = [static.Scope() for _ in range(20)]
    if os.fork() == 0:
        print([scope for scope in scopes if isinstance(scope.lock, scope_module._Torn)], flush=True)
        step_here = static.Executor().run(startup, scope=scopes[0])
        os._exit(0)
    os.wait()
    sys.exit(0)
assert os.waitpid(child, 0)[1] == 0
leave.set()
"""


@pytest.mark.processes
@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
def test_a_child_waits_for_no_run_of_its_parent() -> None:
    done = ended(IN_CHILD)
    assert done.returncode == 0, done.stderr
    waiting, saving, *rest = done.stdout.splitlines()
    assert "cannot be waited for here" in waiting and "cannot be saved here" in saving
    assert rest == ["stopped True done", "stopped"]


@pytest.mark.processes
@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
def test_a_child_with_half_a_step_forks_and_ends_in_peace() -> None:
    done = ended(TORN)
    assert done.returncode == 0 and "Traceback" not in done.stderr, done.stderr
    assert done.stdout.splitlines() == ["[]"]


class Stepping:
    """A thread that makes steps until the end of the body."""

    def __init__(self) -> None:
        self.model = classifier().start()
        self.exe = self.model.parallel(2)
        self.step()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._loop)

    def step(self) -> Any:
        return self.exe.run([self.model.loss], feed=batch(8, 0))

    def _loop(self) -> None:
        while not self._over.is_set():
            self.step()

    def __enter__(self) -> Stepping:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._over.set()
        self._thread.join(60)


def in_child(body: Any) -> str:
    """What a forked process gives, or how it fails."""
    receiver, sender = (context := get_context("fork")).Pipe(duplex=False)

    def work() -> None:
        try:
            sender.send(repr(body()))
        except BaseException as error:
            sender.send(f"{type(error).__name__}: {error}")

    process = context.Process(target=work)
    process.start()
    try:
        assert receiver.poll(60), "the child does not answer"
        return receiver.recv()
    finally:
        process.kill()
        process.join(10)


@pytest.mark.processes
@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_child_forked_while_a_thread_steps_can_step_itself() -> None:
    with Stepping() as stepping:
        for _ in range(5):
            assert in_child(lambda: stepping.step()[0].shape) == "(2,)"


@pytest.mark.processes
@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_child_forked_in_the_middle_of_a_step_that_goes_on_is_told_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scope_module, "_FORK_PATIENCE", 0.1)
    model = classifier().start()
    exe = model.parallel(2)
    exe.run([model.loss], feed=batch(8, 0))
    inside, leave = threading.Event(), threading.Event()

    def keep() -> None:
        with model.scope.in_use():
            inside.set()
            leave.wait(60)

    thread = threading.Thread(target=keep)
    thread.start()
    try:
        assert inside.wait(10)
        message = in_child(lambda: exe.run([model.loss], feed=batch(8, 0)))
        assert message.startswith(PreconditionNotMet.__name__) and "in the middle of a step" in message
        fresh = static.Scope()
        assert in_child(lambda: static.Executor().run(model.startup, scope=fresh)) == "[]"
    finally:
        leave.set()
        thread.join(10)
    exe.run([model.loss], feed=batch(8, 0))


@pytest.mark.processes
@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_child_steps_on_threads_of_its_own() -> None:
    """Also where the parent's workers have been hired, and with its BLAS section."""
    with static.scope_guard(static.Scope()):
        stepping = Stepping()
        expected = [stepping.step()[0].tolist() for _ in range(2)]
        assert len(expected) == 2
        one = OneBlasThread()
        assert in_child(lambda: one.run(lambda: np.ones((64, 64)) @ np.ones(64))[0].item()) == "64.0"
        assert in_child(lambda: stepping.step()[0].shape) == "(2,)"
        assert wb.static.global_scope() is not None
