"""The table of what comes in the middle of a step, walked phase by phase on a real one."""

from __future__ import annotations

import json
import operator
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from tests.executors.running.mid_step import MID_STEP, Trained, states_after
from tests.parallel.models import batch, classifier
from tests.parallel.observe import costly_ops, held
from workbench import events, static
from workbench.config import override
from workbench.errors import InvalidArgument, PeerTimeout, PreconditionNotMet, Unavailable
from workbench.executors.lowering.thread_program import ThreadProgram
from workbench.executors.running import transaction
from workbench.executors.running.step.open_step import OpenStep
from workbench.executors.running.step.state import REACTIONS, Phase, Reaction, StepState, Trigger
from workbench.executors.running.transaction import Broken
from workbench.framework.program.guard import static_mode
from workbench.runtime.native import library


@pytest.fixture
def trained() -> Trained:
    return Trained()


@pytest.mark.parametrize("phase", MID_STEP, ids=lambda phase: phase.name)
def test_a_step_within_a_step(trained: Trained, phase: Phase) -> None:
    """It is refused before anything of it begins, or, once the outer one is applied, it is a step like any other."""
    raised: list[Exception] = []
    phases: list[Phase] = []

    def within() -> None:
        if len(raised) + trained.engine.steps > 2:
            return  # the step within is told of, too
        try:
            trained.step()
        except PreconditionNotMet as error:
            raised.append(error)
        phases.append(trained.engine.state.phase)

    trained.disturbed_in(phase, within)
    refused = REACTIONS[phase][Trigger.RUN] is Reaction.REFUSED
    assert len(raised) == refused and phases == [phase]
    assert trained.engine.state.phase is Phase.IDLE


@pytest.mark.parametrize("phase", MID_STEP, ids=lambda phase: phase.name)
@pytest.mark.parametrize("applied", [False, True])
def test_a_step_by_hand_within_a_step(trained: Trained, phase: Phase, applied: bool) -> None:
    """It begins and is applied where a step may run; the step around it is then where it was."""
    raised: list[Exception] = []
    phases: list[tuple[Phase, int]] = []
    undisturbed = Trained()

    def within() -> None:
        if phases:
            return
        phases.append((trained.engine.state.phase, trained.engine.steps))
        try:
            with trained.exe.stepper(trained.model.feed(1)) as step:
                if applied:
                    step.finish()
        except PreconditionNotMet as error:
            raised.append(error)
        phases.append((trained.engine.state.phase, trained.engine.steps))

    trained.disturbed_in(phase, within)
    refused = REACTIONS[phase][Trigger.RUN] is Reaction.REFUSED
    assert len(raised) == refused
    (_, before), after = phases
    more = int(applied and not refused)
    assert phases[0][0] is phase and after == (phase, before + more)
    for _ in range(1 + more):
        undisturbed.step()
    assert trained.state() == undisturbed.state() and trained.engine.state.phase is Phase.IDLE


@pytest.mark.parametrize("phase", MID_STEP, ids=lambda phase: phase.name)
def test_a_drop_within_a_step(trained: Trained, phase: Phase) -> None:
    told: list[tuple[int, bool]] = []

    def note(event: events.ScopeDrop) -> None:
        told.append((trained.engine.steps, trained.engine.state.is_applied))

    undisturbed = Trained()
    undisturbed.step()
    with events.subscribe(note, events.ScopeDrop):
        trained.disturbed_in(phase, trained.exe.drop_temporaries)
    assert told == [(2, True)]  # never under a step that is not applied yet
    assert trained.state() == undisturbed.state()


@pytest.mark.parametrize("phase", [*MID_STEP[:3], Phase.APPLIED], ids=lambda phase: phase.name)
@pytest.mark.parametrize("kind", [KeyboardInterrupt, ValueError])
def test_a_failure_within_a_step(trained: Trained, phase: Phase, kind: type[BaseException]) -> None:
    """Nothing of the step, or, once it is applied, all of it; the next one is as good as ever."""
    before = trained.state()

    def fail() -> None:
        raise kind("from outside")

    if phase is Phase.APPLIED and kind is ValueError:
        with pytest.warns(RuntimeWarning, match="gets no more events"):
            trained.disturbed_in(phase, fail)
    else:
        with pytest.raises(kind, match="from outside"):
            trained.disturbed_in(phase, fail)
    kept = REACTIONS[phase][Trigger.FAILURE] is Reaction.KEPT
    assert (trained.state() != before) == kept
    assert trained.engine.steps == 1 + kept and trained.engine.state.phase is Phase.IDLE
    trained.step()
    again = Trained()
    for _ in range(trained.engine.steps - 1):
        again.step()
    assert trained.state() == again.state()


def test_a_broken_executor_refuses_steps_and_still_drops(trained: Trained) -> None:
    before = trained.state()
    trained.engine.state.breaks(transaction.Broken("half of it is done"))
    assert trained.engine.state.phase is Phase.BROKEN
    with pytest.raises(PreconditionNotMet, match="cannot run: half of it is done"):
        trained.step()
    trained.exe.drop_temporaries()
    assert trained.state() == before


def test_every_phase_and_event_has_its_reaction() -> None:
    assert {phase: set(reactions) for phase, reactions in REACTIONS.items()} == {phase: set(Trigger) for phase in Phase}
    assert np.array([REACTIONS[p][Trigger.RUN] is Reaction.DONE for p in Phase]).sum() == 2


# Another thread forks, the process ends


@pytest.fixture(scope="module")
def in_processes() -> dict[str, dict[str, dict[str, Any]]]:
    """By trigger and phase, what a process told of it."""
    told: dict[str, dict[str, dict[str, Any]]] = {}
    for trigger in ("FORK", "EXIT"):
        command = [sys.executable, "-m", "tests.executors.running.step_in_process", trigger]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr
        lines = [json.loads(line) for line in done.stdout.splitlines()]
        told[trigger] = {line["phase"]: line for line in lines}
    return told


FORKS = pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")


@FORKS
@pytest.mark.processes
@pytest.mark.parametrize("phase", Phase, ids=lambda phase: phase.name)
def test_a_fork_by_another_thread(in_processes: Any, phase: Phase) -> None:
    """The child has the values of a whole step, and goes on from there: that is looked at there."""
    told = in_processes["FORK"][phase.name]
    assert told["waited"] == (REACTIONS[phase][Trigger.FORK] is Reaction.DEFERRED)
    assert told["steps"] == (2 if phase in MID_STEP else 1)


@FORKS
@pytest.mark.processes
@pytest.mark.parametrize("phase", Phase, ids=lambda phase: phase.name)
def test_the_end_of_the_process(in_processes: Any, phase: Phase) -> None:
    told, reaction = in_processes["EXIT"][phase.name], REACTIONS[phase][Trigger.EXIT]
    assert told["ended"]
    refused = "the interpreter is ending: no step can run any more"
    assert told["raised"] == (refused if reaction is Reaction.DISCARDED else "")
    applied_before = 1 if phase is Phase.APPLIED else 0
    assert told["before"] == 1 + applied_before
    assert told["applied"] == (reaction is Reaction.COMPLETED)


# A worker does not come to rest


class Stuck:
    """Two devices on two threads; the second one can be made to stay where it is."""

    def __init__(self) -> None:
        with costly_ops():
            self.model, execution = classifier().start(), static.ExecutionStrategy()
            execution.num_threads, execution.timeout = 2, 20.0
            self.exe = self.model.parallel(2, exec_strategy=execution)
            self.step(0)
        self.free = threading.Event()

    def step(self, seed: int) -> None:
        self.exe.run([], feed=batch(8, seed))

    def state(self) -> Any:
        return held(self.exe, self.model.main)

    def stay_in(self, program: ThreadProgram) -> None:
        self.exe.inspection.last.pool.timeout = 0.5
        program.task.piece = None
        program.task.calls.insert(0, lambda: self.free.wait(20) and None)


@pytest.fixture(params=[False, True], ids=["calls", "tape"])
def stuck(request: pytest.FixtureRequest) -> Iterator[Stuck]:
    with override(cpu_tape=request.param), static_mode():
        if request.param and library.kernels() is None:
            pytest.skip(f"no compiled kernels: {library.why_not()}")
        stuck = Stuck()
        yield stuck
        stuck.free.set()


def test_a_worker_that_is_lost_in_the_speculation(stuck: Stuck) -> None:
    assert REACTIONS[Phase.LOADED][Trigger.LOST] is Reaction.DISCARDED
    before, last = stuck.state(), stuck.exe.inspection.last
    stuck.stay_in(last.speculative[1])
    with pytest.raises(Unavailable, match="device thread 1"):
        stuck.step(1)
    assert stuck.state() == before and stuck.exe.inspection.phase is Phase.IDLE
    stuck.step(1)  # the thread is still there
    assert stuck.exe.inspection.last is not last and stuck.exe.inspection.steps == 2


@pytest.mark.parametrize("stuck", [True], indirect=True, ids=["tape"])
def test_a_worker_that_is_lost_in_the_commit(stuck: Stuck) -> None:
    """NumPy computes aside, and leaves nothing to threads in the commit."""
    assert REACTIONS[Phase.COMMITTING][Trigger.LOST] is Reaction.BROKEN
    stuck.stay_in(stuck.exe.inspection.last.commit[1])
    with pytest.raises(Broken, match="device thread 1"):
        stuck.step(1)
    assert stuck.exe.inspection.phase is Phase.BROKEN
    with pytest.raises(PreconditionNotMet, match="cannot run"):
        stuck.step(1)


@pytest.mark.parametrize("phase", MID_STEP, ids=lambda phase: phase.name)
def test_where_no_worker_can_be_lost_none_is_at_work(trained: Trained, phase: Phase) -> None:
    at_work: list[bool] = []

    def look() -> None:
        binding = trained.exe.inspection.bindings[0]
        at_work.extend(not program.task.resting for program in (*binding.speculative, *binding.commit))

    trained.disturbed_in(phase, look)
    assert at_work and not any(at_work)
    never = {other for other in Phase if REACTIONS[other][Trigger.LOST] is Reaction.NEVER}
    assert set(Phase) - never == {Phase.LOADED, Phase.COMMITTING}


# A step within an observer of another one


def test_a_step_that_is_begun_by_an_observer_leaves_the_outer_one_as_it_was(trained: Trained) -> None:
    seen: list[Phase] = []

    def step_through(event: events.Step) -> None:
        seen.append(trained.engine.state.phase)
        with trained.exe.stepper(trained.model.feed(1), []) as step:
            seen.append(trained.engine.state.phase)
            step.next()
        seen.append(trained.engine.state.phase)

    with events.subscribe(step_through, events.Step):
        trained.step()
    assert seen == [Phase.APPLIED] * 3
    assert trained.engine.state.phase is Phase.IDLE and trained.engine.steps == 2


def test_a_failure_behind_a_step_within_is_no_failure_of_the_outer_one(trained: Trained) -> None:
    """The one within fails, the outer one has been applied: nobody is told that it failed."""
    told: list[events.Error] = []
    bad = {**trained.model.feed(1), "x": np.zeros((4, 5), np.float32)}
    inner: list[bool] = []

    def within(event: events.Step) -> None:
        if not inner:
            inner.append(True)
            with pytest.raises(InvalidArgument, match="wrong shape"):
                trained.exe.run_step(bad, [])
            raise KeyboardInterrupt

    with (
        events.subscribe(told.append, events.Error),
        events.subscribe(within, events.Step),
        pytest.raises(KeyboardInterrupt),
    ):
        trained.step()
    assert trained.engine.steps == 2
    assert len(told) == 1 and "x" in told[0].text  # the one within


@pytest.mark.parametrize("phase", MID_STEP[:3], ids=lambda phase: phase.name)
def test_a_step_by_hand_is_not_applied_within_another_one(trained: Trained, phase: Phase) -> None:
    """The outer one would go on with gradients of parameters that are not there any more."""
    with trained.exe.stepper(trained.model.feed(1), []) as stepped:
        while stepped.next() is not None:
            pass
        refused: list[str] = []

        def finish() -> None:
            try:
                stepped.finish()
            except PreconditionNotMet as error:
                refused.append(str(error))

        trained.disturbed_in(phase, finish)
    assert len(refused) == 1 and refused[0].startswith("a step of this executor is under way")
    assert trained.state() == states_after(2)[-1]


class _AgreedWithout(SimpleNamespace):
    """Trainers of which this one has given up waiting for a vote that the others agreed in."""

    def begin(self, replicas: Any) -> None: ...

    def compare(self, replicas: Any, step: int) -> None: ...

    def prepare_vote(self) -> None: ...

    def settle(self, error: BaseException) -> None: ...

    def fail(self, error: BaseException) -> None: ...


@pytest.mark.parametrize(
    ("is_agreed", "told"), [(True, "in step 2, which was applied;"), (False, "in step 2, after 1 ")]
)
def test_an_error_names_its_own_step_where_several_follow_each_other(is_agreed: bool, told: str) -> None:
    state = StepState()
    together = OpenStep(cast(Any, _AgreedWithout(is_agreed=is_agreed)), state)
    together.begin(cast(Any, None), 3)
    state.counter += 1
    together.prepare_vote(lambda: operator.iadd(state.counter, 1))
    error = PeerTimeout("waiting for rank 1")
    together.close(error)
    assert state.steps == 1 + is_agreed and str(error).count("in step") == 1 and told in str(error)
