"""The table of what comes in the middle of a step, walked phase by phase on a real one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest

from tests.executors.models import Model, regression
from workbench import events, static
from workbench.errors import PreconditionNotMet
from workbench.executors.running import step_runner, transaction
from workbench.executors.running.engine import Engine
from workbench.executors.running.state import REACTIONS, Phase, Reaction, Trigger
from workbench.executors.running.step_cache import StepCache

Call = Callable[[], Any]


class Trained:
    """An executor after a step, whose next one can be disturbed in any phase."""

    def __init__(self) -> None:
        self.model: Model = regression(dropout=False)
        self.scope, executor = static.Scope(), static.Executor()
        executor.run(self.model.startup, scope=self.scope)
        self.exe = static.ParallelExecutor(False, self.model.loss.name, self.model.main, scope=self.scope)
        self.engine: Engine = self.exe._engine
        self.step()

    def step(self) -> None:
        self.exe.run([], self.model.feed(1))

    def state(self) -> dict[str, bytes]:
        return self.model.state(self.scope)

    def disturbed_in(self, phase: Phase, call: Call) -> None:
        """A step in whose phase something calls."""
        with _disturbing(self, phase, call):
            self.step()


def _disturbing(trained: Trained, phase: Phase, call: Call) -> Any:
    def before(real: Any) -> Any:
        def disturbed(*args: Any, **how: Any) -> Any:
            assert trained.engine.state.phase is phase
            call()
            return real(*args, **how)

        return disturbed

    if phase is Phase.BEGUN:
        return patch.object(StepCache, "find", before(StepCache.find))
    if phase is Phase.LOADED:
        return _in_parts(patch.object(step_runner, "speculate", before(step_runner.speculate)))
    if phase is Phase.SPECULATED:
        return _in_parts(patch.object(step_runner.StepRunner, "commit", before(step_runner.StepRunner.commit)))
    if phase is Phase.COMMITTING:
        return _in_parts(patch.object(transaction, "_perform", before(transaction._perform)))
    assert phase is Phase.APPLIED
    return events.subscribe(lambda event: call(), events.Step)


class _in_parts:
    """The step runs in its parts."""

    def __init__(self, inner: Any) -> None:
        self._inner, self._whole = inner, patch.object(step_runner.StepRunner, "_in_one_call", lambda *given: None)

    def __enter__(self) -> None:
        self._whole.__enter__()
        self._inner.__enter__()

    def __exit__(self, *error: Any) -> None:
        self._inner.__exit__(*error)
        self._whole.__exit__(*error)


@pytest.fixture
def trained() -> Trained:
    return Trained()


MID_STEP = [Phase.BEGUN, Phase.LOADED, Phase.SPECULATED, Phase.COMMITTING, Phase.APPLIED]


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


def test_a_step_begun_by_hand_is_not_applied_within_another(trained: Trained) -> None:
    """Which would overwrite it with what it made of the values before."""
    undisturbed = Trained()
    undisturbed.step()
    step = trained.exe.stepper(trained.model.feed(1))

    def within() -> None:
        with pytest.raises(PreconditionNotMet, match="a step of this executor is under way"):
            step.finish()

    trained.disturbed_in(Phase.SPECULATED, within)
    assert step.is_over and trained.state() == undisturbed.state() and trained.engine.steps == 2


@pytest.mark.parametrize("phase", MID_STEP, ids=lambda phase: phase.name)
def test_a_drop_within_a_step(trained: Trained, phase: Phase) -> None:
    told: list[tuple[int, bool]] = []

    def note(event: events.ScopeDrop) -> None:
        told.append((trained.engine.steps, trained.engine.state.is_applied))

    undisturbed = Trained()
    undisturbed.step()
    with events.subscribe(note, events.ScopeDrop):
        trained.disturbed_in(phase, trained.exe.drop_local_exe_scopes)
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
    trained.exe.drop_local_exe_scopes()
    assert trained.state() == before


def test_every_phase_and_event_has_its_reaction() -> None:
    assert {phase: set(reactions) for phase, reactions in REACTIONS.items()} == {phase: set(Trigger) for phase in Phase}
    assert np.array([REACTIONS[p][Trigger.RUN] is Reaction.DONE for p in Phase]).sum() == 2
