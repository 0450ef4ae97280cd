"""A step in any of whose phases something can be done."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from unittest.mock import patch

from tests.executors.models import Model, regression
from workbench import events, static
from workbench.executors.running import transaction
from workbench.executors.running.engine import step_runner
from workbench.executors.running.engine.engine import Engine
from workbench.executors.running.finding.step_cache import StepCache
from workbench.executors.running.step.bound_step import BoundStep
from workbench.executors.running.step.state import Phase
from workbench.runtime.devices import cpu_places

Call = Callable[[], Any]
MID_STEP = [Phase.BEGUN, Phase.LOADED, Phase.SPECULATED, Phase.COMMITTING, Phase.APPLIED]


class Trained:
    """An executor after a step, whose next one can be disturbed in any phase."""

    def __init__(self) -> None:
        self.model: Model = regression(dropout=False)
        self.scope, executor = static.Scope(), static.Executor()
        executor.run(self.model.startup, scope=self.scope)
        self.exe = static.CompiledProgram(self.model.main)
        self.exe.with_data_parallel(self.model.loss.name, places=cpu_places(1))
        self.exe.bind(self.scope)
        self.engine: Engine = self.exe.engine
        self.step()

    def step(self) -> None:
        self.exe.run_step(self.model.feed(1), [])

    def state(self) -> dict[str, bytes]:
        return self.model.state(self.scope)

    def disturbed_in(self, phase: Phase, call: Call) -> None:
        """A step in whose phase something calls."""
        with _disturbing(self, phase, call):
            self.step()


def states_after(steps: int) -> list[dict[str, bytes]]:
    """What an undisturbed executor has made after one step, two …"""
    undisturbed = Trained()
    states = [undisturbed.state()]
    for _ in range(steps - 1):
        undisturbed.step()
        states.append(undisturbed.state())
    return states


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
        return _InParts(patch.object(BoundStep, "speculate", before(BoundStep.speculate)))
    if phase is Phase.SPECULATED:
        return _InParts(patch.object(step_runner.StepRunner, "commit", before(step_runner.StepRunner.commit)))
    if phase is Phase.COMMITTING:
        return _InParts(patch.object(transaction, "_perform", before(transaction._perform)))
    assert phase is Phase.APPLIED
    return events.subscribe(lambda event: call(), events.Step)


class _InParts:
    """The step runs in its parts."""

    def __init__(self, inner: Any) -> None:
        self._inner, self._whole = inner, patch.object(step_runner.StepRunner, "_in_one_call", lambda *given: None)

    def __enter__(self) -> None:
        self._whole.__enter__()
        self._inner.__enter__()

    def __exit__(self, *error: Any) -> None:
        self._inner.__exit__(*error)
        self._whole.__exit__(*error)
