"""Sweeps: every combination once, early stops, failures, and going on after a crash."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.experiments.recorded import python
from tests.parallel.models import classifier
from workbench.experiments import runs, sweep
from workbench.experiments.run import Run
from workbench.framework.program.guard import static_mode
from workbench.io import TensorDataset


def dataset() -> Any:
    rng = np.random.default_rng(0)
    return TensorDataset([rng.standard_normal((40, 5), np.float32), rng.integers(0, 3, (40, 1))])


@pytest.fixture(autouse=True)
def _static() -> Iterator[None]:
    with static_mode():
        yield


GRID = {"batch_size": [8, 10], "reduce_strategy": ["AllReduce", "Reduce"]}


def swept(file: Path, grid: Any = GRID, **settings: Any) -> Any:
    model = classifier(wb.optimizer.SGD(0.1))
    asked = {"steps": 5, "devices": 2, "seed": 3, "progress": False, **settings}
    return sweep(model.main, grid, dataset(), model.startup, record=file, **asked)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "runs.sqlite"


def test_every_combination_once_in_order(file: Path) -> None:
    result = swept(file)
    assert result.trials == [{"batch_size": b, "reduce_strategy": r} for b in (8, 10) for r in ("AllReduce", "Reduce")]
    assert [run.settings["batch_size"] for run in result.runs] == [8, 8, 10, 10]
    assert all(run.step == 5 and run.state == "done" for run in result.runs)
    a, b = (result.runs[n].scalars["loss"] for n in (1, 2))
    np.testing.assert_allclose(a, b, rtol=1e-5)  # AllReduce and Reduce make the same steps
    assert "4 of 4 trials done" in repr(result)
    last = {run.number: float(run.scalars["loss"][-1]) for run in result.runs}
    assert result.best.number == min(last, key=lambda number: last[number])


def test_a_second_call_runs_nothing_again_and_another_grid_does(file: Path) -> None:
    first, second = swept(file), swept(file)
    assert second.key == first.key and len(runs(file)) == 4 and len(second.runs) == 4
    assert swept(file, {"batch_size": [8]}).key != first.key and len(runs(file)) == 5


def test_early_stop_ends_a_trial_which_is_done(file: Path) -> None:
    def enough(run: Run) -> bool:
        return run.step >= 2

    result = swept(file, {"batch_size": [8, 10]}, early_stop=enough)
    assert [(run.step, run.state) for run in result.runs] == [(2, "done")] * 2


def test_a_trial_that_fails_is_told_and_the_others_go_on(file: Path) -> None:
    result = swept(file, {"batch_size": [1, 8]})
    assert list(result.failed) == [0] and [run.settings["batch_size"] for run in result.runs] == [8]


def test_wrong_grids_run_nothing(file: Path) -> None:
    for grid, text in (
        ({}, "dict of setting"), ({"batch_size": 8}, "list of values"), ({"batch_size": []}, "list of values"),
        ({"batchsize": [8]}, "Did you mean"), ({"reduce_strategy": ["AllReduce", "Redus"]}, "Did you mean 'Reduce'"),
    ):  # fmt: skip
        with pytest.raises(wb.errors.InvalidArgument, match=text):
            swept(file, grid)
    assert not file.exists()


CODE = """
from pathlib import Path
from tests.experiments.launch import test_sweep
test_sweep.wb.enable_static()
print("begun", flush=True)
print(len(test_sweep.swept(Path({file!r}), {{"batch_size": [8, 10]}}, early_stop={stop}).runs))
"""
SLOW = "lambda run: __import__('time').sleep(2.0 if run.name.endswith('=10') else 0.0)"


def test_a_sweep_whose_process_was_killed_goes_on_with_the_trial_it_was_at(file: Path) -> None:
    killed = python(CODE.format(file=str(file), stop=SLOW))
    deadline = time.monotonic() + 60
    while len(runs(file)) < 2 and time.monotonic() < deadline:
        time.sleep(0.05)
    killed.send_signal(signal.SIGKILL)
    killed.communicate(timeout=30)
    assert [run.state for run in runs(file)] == ["running", "done"]
    again = python(CODE.format(file=str(file), stop="None"))
    out, told = again.communicate(timeout=60)
    assert out.split() == ["begun", "2"], told
    assert [run.settings["trial"] for run in runs(file)] == [1, 1, 0]
