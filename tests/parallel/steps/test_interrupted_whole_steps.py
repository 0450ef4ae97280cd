"""Ctrl-C while steps are one call of compiled code finds a whole step or none."""

from __future__ import annotations

from typing import Any
from unittest import mock

import pytest

import workbench as wb
from tests.parallel.models import batch, classifier
from tests.parallel.steps.test_whole_step import Run
from workbench.executors.lowering.tape import writer
from workbench.runtime.words.codes import PAUSED


@pytest.fixture(autouse=True)
def on_the_tape(tape: None) -> None:
    """All of this is about kernels."""


class Pressed:
    """Ctrl-C right behind the call, once it has come back so many times; Python raises it there."""

    def __init__(self, call: Any, after: int) -> None:
        self.call, self.left, self.statuses = call, after, list[int]()

    def __call__(self) -> int:
        status = self.call()
        self.statuses.append(status)
        self.left -= 1
        if self.left == 0:
            raise KeyboardInterrupt
        return status


@pytest.fixture
def looking_up_all_the_time() -> Any:
    """Plans made inside come back to Python behind every row."""
    with mock.patch.object(writer, "LOOK_UP", -1.0):
        yield


def test_ctrl_c_at_any_moment_finds_a_whole_step_or_none(looking_up_all_the_time: None) -> None:
    undisturbed = Run(classifier(wb.optimizer.Adam(0.1)), whole=False)
    states, versions = [], []
    for number in range(4):
        undisturbed.step(batch(8, number))
        states.append(undisturbed.state)
        versions.append(undisturbed.versions)
    after, outcomes, statuses = 1, [], []
    while not statuses or statuses[-1] == PAUSED:
        run = Run(classifier(wb.optimizer.Adam(0.1)))
        run.step(batch(8, 0))
        run.step(batch(8, 1))
        pressed = Pressed(run.prepared._call, after)
        with mock.patch.object(run.prepared, "_call", pressed), pytest.raises(KeyboardInterrupt):
            run.step(batch(8, 2))
        applied = run.exe.inspection.steps - 2
        assert run.state == states[1 + applied] and run.versions == versions[1 + applied]
        for number in range(2 + applied, 4):
            run.step(batch(8, number))
        assert run.state == states[3]
        outcomes.append(applied)
        statuses, after = pressed.statuses, after + 1
    assert 0 in outcomes and 1 in outcomes and outcomes == sorted(outcomes)
