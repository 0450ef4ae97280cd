"""Bindings stay as they are made; what an executor does is read through its inspection, and nothing else."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.executors.models import regression
from workbench import events, static
from workbench.config import override
from workbench.executors.inspection.inspection import Inspection
from workbench.executors.running.step.state import Phase

ROOT = Path(wb.__file__).parents[1]
EXECUTORS = ROOT / "workbench" / "executors"
INSIDE = re.compile(r"\._(engine|to_debug)\b")  # what lies behind an executor is its own affair


@pytest.fixture
def exe() -> static.ParallelExecutor:
    model = regression(dropout=False, batch_norm=False, optimizer=wb.optimizer.SGD(0.1))
    scope = static.Scope()
    static.Executor().run(model.startup, scope=scope)
    exe = static.ParallelExecutor(False, model.loss.name, model.main, scope=scope)
    exe.run([model.loss.name], model.feed(0))
    return exe


def steps_of_all_kinds(exe: static.ParallelExecutor) -> list[Callable[[], Any]]:
    """Plain, told of, looked at for NaN, guarded, by hand, failing, after a drop."""
    feed, loss = regression().feed(1), exe.inspection.last.plan.fetches[0][0]

    def run() -> Any:
        return exe.run([loss], feed)

    def told() -> None:
        with events.subscribe(lambda event: None):
            run()

    def checked() -> None:
        with override(check_nan_inf=True):
            run()

    def guarded() -> None:
        dismiss = exe.inspection.guard(lambda take: None)
        exe.run([loss], {**feed, "x": np.full_like(feed["x"], np.nan)})
        dismiss()

    def failing() -> None:
        with pytest.raises(wb.errors.EnforceNotMet):
            exe.run([loss], {"x": feed["x"]})

    def by_hand() -> None:
        exe.stepper(feed, [loss]).finish()

    return [run, run, told, checked, told, guarded, failing, by_hand, exe.drop_local_exe_scopes, run]


def test_what_a_plan_is_bound_to_never_changes(exe: static.ParallelExecutor) -> None:
    (binding,) = exe.inspection.bindings
    before = dict(vars(binding))
    with pytest.raises(dataclasses.FrozenInstanceError):
        binding.commit = []  # type: ignore[misc]
    for kind in steps_of_all_kinds(exe):
        kind()
    (same,) = exe.inspection.bindings
    assert same is binding and vars(binding).keys() == before.keys()
    assert all(held is before[name] for name, held in vars(binding).items())


def test_an_inspection_shows_and_cannot_be_written(exe: static.ParallelExecutor) -> None:
    inspection = exe.inspection
    assert (inspection.steps, inspection.phase, inspection.started) == (1, Phase.IDLE, True)
    assert inspection.last in inspection.bindings and inspection.last.plan in inspection.plans
    names = [name for name, member in vars(Inspection).items() if isinstance(member, property)]
    for name in names:
        with pytest.raises(AttributeError):
            setattr(inspection, name, None)
    with pytest.raises(AttributeError):
        inspection.other = None  # type: ignore[attr-defined]
    assert all(property_.fset is None for property_ in vars(Inspection).values() if isinstance(property_, property))


def test_a_step_it_looks_into_is_not_applied(exe: static.ParallelExecutor) -> None:
    feed = regression().feed(1)
    before = {name: np.array(exe.inspection.tensor(name, 0)) for name in exe.inspection.persistables}
    with exe.scope.in_use():
        exe.inspection.observe((), feed).advance_to_the_end()
    exe.inspection.binding((), feed)
    exe.inspection.graph(())
    assert exe.inspection.steps == 1
    for name, value in before.items():
        np.testing.assert_array_equal(value, exe.inspection.tensor(name, 0))


def test_nothing_reaches_behind_an_executor() -> None:
    outside = [path for folder in ("workbench", "magics", "tests") for path in (ROOT / folder).rglob("*.py")]
    lines = [
        f"{path.relative_to(ROOT)}:{number}"
        for path in outside
        if not path.is_relative_to(EXECUTORS)
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if INSIDE.search(line)
    ]
    assert lines == []
    assert any(INSIDE.search(path.read_text(encoding="utf-8")) for path in EXECUTORS.rglob("*.py"))
