"""Signal handlers that raise, and that call us, in the middle of steps."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.parallel.models import batch, classifier
from tests.parallel.observe import held
from workbench import events, static
from workbench.config import override
from workbench.errors import PreconditionNotMet
from workbench.executors.running.engine import step_runner
from workbench.executors.running.step.bound_step import BoundStep
from workbench.framework import names
from workbench.framework.program.guard import switch_main_program
from workbench.runtime.arena import Arena

ROOT = Path(__file__).parents[3]


@pytest.mark.processes
def test_a_short_storm() -> None:
    """In a process of its own, since exceptions come up in the test runner's hooks, too."""
    command = [sys.executable, "-m", "tests.stress.signals", "--seconds", "1"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=ROOT)
    assert done.returncode == 0, done.stdout + done.stderr[-2000:]
    assert len(done.stdout.splitlines()) == 10


def raise_in_the_middle(number: int, frame: Any) -> None:
    raise TimeoutError("too long")


def test_an_observer_that_a_handler_interrupts_stays_subscribed() -> None:
    model = classifier().start()
    exe = model.parallel(2)
    heard: list[int] = []

    def observer(event: events.Step) -> None:
        heard.append(event.step)
        if len(heard) == 1:
            signal.raise_signal(signal.SIGALRM)

    old = signal.signal(signal.SIGALRM, raise_in_the_middle)
    try:
        with events.subscribe(observer, events.Step):
            with pytest.raises(TimeoutError, match="too long"):
                exe.run([], feed=batch(8, 0))
            exe.run([], feed=batch(8, 1))
    finally:
        signal.signal(signal.SIGALRM, old)
    assert heard == [0, 1]


@pytest.mark.usefixtures("calls")
@pytest.mark.parametrize("where", ["callback", "handler"])
def test_temporaries_dropped_in_mid_step_are_dropped_at_its_end(where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Under the step they would read as zero, and parameters of the devices would part."""
    states, dropped, released = [], [], []
    real, speculate = Arena.release, BoundStep.speculate
    monkeypatch.setattr(Arena, "release", lambda self: released.append(1) or real(self))
    for disturbed in (False, True):
        model = classifier().start()
        exe = model.parallel(2)
        exe.run([], feed=batch(8, 0))

        def drop(*given: Any, disturbed: bool = disturbed, exe: Any = exe) -> None:
            if disturbed:
                before = len(released)
                exe.drop_local_exe_scopes()
                assert len(released) == before, "under a running step"

        old = signal.signal(signal.SIGALRM, drop)
        disturb = drop if where == "callback" else lambda: signal.raise_signal(signal.SIGALRM)

        def disturbed_step(*given: Any, disturb: Any = disturb) -> None:
            speculate(*given)
            disturb()

        monkeypatch.setattr(BoundStep, "speculate", disturbed_step)
        try:
            with events.subscribe(dropped.append, events.ScopeDrop):
                for number in range(1, 4):
                    exe.run([], feed=batch(8, number))
        finally:
            signal.signal(signal.SIGALRM, old)
            monkeypatch.setattr(BoundStep, "speculate", speculate)
        states.append(held(exe, model.main))
    assert states[0] == states[1]
    assert [event.cause for event in dropped] == ["call"] * 3
    assert released


@pytest.mark.parametrize("inside", [False, True])
def test_a_part_does_not_step_in_the_middle_of_the_whole(inside: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """They have one memory: the whole would apply gradients of parameters that are not there any more."""
    model, exe = classifier().start(), static.Executor()
    compiled = static.CompiledProgram(model.main).with_data_parallel(model.loss.name, places=static.cpu_places(1))
    speculate = BoundStep.speculate

    def step(prune: bool) -> None:
        exe.run(compiled, batch(8, 0), [model.loss], scope=model.scope, use_prune=prune)

    def disturbed(*given: Any) -> None:
        speculate(*given)
        monkeypatch.setattr(BoundStep, "speculate", speculate)
        step(not inside)

    def in_parts(runner: step_runner.StepRunner, bound: BoundStep, *given: Any) -> list[Any]:
        return runner._in_parts(bound.alone, bound, *given)

    step(not inside)
    step(inside)
    monkeypatch.setattr(step_runner.StepRunner, "_in_one_call", in_parts)
    monkeypatch.setattr(BoundStep, "speculate", disturbed)
    with pytest.raises(PreconditionNotMet, match="under way in this thread"):
        step(inside)
    assert compiled.inspection.steps == 2
    step(inside)
    assert compiled.inspection.steps == 3


@pytest.mark.parametrize("inner", ["update", "startup", "fed"])
def test_what_changes_values_does_not_run_in_the_middle_of_another_programs_step(
    inner: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Gradients of the old parameters would be applied to the new ones."""
    model, exe, speculate = classifier().start(), static.Executor(), BoundStep.speculate
    test = model.main.clone(for_test=True)
    weight = model.main.all_parameters()[0]
    losses: list[np.ndarray] = []

    def disturbed(*given: Any) -> None:
        speculate(*given)
        monkeypatch.setattr(BoundStep, "speculate", speculate)
        losses.extend(exe.run(test, batch(8, 0), [model.loss], scope=model.scope))
        if inner == "startup":
            exe.run(model.startup, scope=model.scope)
        feed = {weight.name: np.ones(weight.shape, np.float32)} if inner == "fed" else {}
        exe.run(test if feed else model.main.clone(), {**batch(8, 0), **feed}, [model.loss], scope=model.scope)

    before = {v.name: np.array(model.scope.get(v.name).get_tensor()) for v in model.main.persistables()}
    monkeypatch.setattr(BoundStep, "speculate", disturbed)
    with pytest.raises(PreconditionNotMet, match="in the middle of it"):
        exe.run(model.main, batch(8, 0), [model.loss], scope=model.scope)
    assert len(losses) == 1, "what changes nothing may run"
    for name, value in before.items():
        np.testing.assert_array_equal(np.array(model.scope.get(name).get_tensor()), value)
    exe.run(model.main, batch(8, 0), [model.loss], scope=model.scope)


def test_threads_that_build_programs_do_not_meet() -> None:
    """Default programs and unique names are those of the thread's own `with` bodies."""
    both, built = threading.Barrier(2, timeout=30), {}

    def build(width: int) -> None:
        main, startup = static.Program(), static.Program()
        with names.guard(), static.program_guard(main, startup):
            both.wait()
            h = static.data("x", [None, 4])
            for _ in range(20):
                h = static.nn.fc(h, width)
            both.wait()
        built[width] = main, startup

    threads = [threading.Thread(target=build, args=(width,)) for width in (3, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    for width, (main, startup) in built.items():
        weights = [p for p in main.all_parameters() if len(p.shape) == 2]
        assert [p.name for p in weights] == [f"fc_{i}.w_0" for i in range(20)]
        assert {p.shape[1] for p in weights} == {width}
        assert len(startup.global_block().ops) == 40
    assert len(built) == 2


def test_flags_of_other_threads_outlive_an_override() -> None:
    with override(check_nan_inf=True):
        wb.set_flags({"FLAGS_fuse_parameter_groups_size": 7})
    try:
        assert wb.get_flags("FLAGS_fuse_parameter_groups_size") == {"FLAGS_fuse_parameter_groups_size": 7}
    finally:
        wb.set_flags({"FLAGS_fuse_parameter_groups_size": 1})


def test_switching_programs_inside_a_guard_ends_with_it() -> None:
    outer, inner, other = static.default_main_program(), static.Program(), static.Program()
    with static.program_guard(inner):
        assert switch_main_program(other) is inner
        assert static.default_main_program() is other
    assert static.default_main_program() is outer
