"""What is over is given back: runs that were recorded, dashboards that were closed, a day's work in one process."""

from __future__ import annotations

import gc
import subprocess
import sys
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.autodiff.small import Built
from workbench import static
from workbench.experiments.records.recorder import record_of

ROOT = Path(wb.__file__).resolve().parent.parent


def train(file: Path) -> Any:
    with Built() as p:
        loss = wb.mean(static.nn.fc(static.data("x", [None, 2]), 1))
        wb.optimizer.SGD(0.1).minimize(loss)
    batches = [{"x": np.ones((2, 2), np.float32)}] * 3
    return wb.train(p.main, batches, startup=p.startup, epochs=1, scope=static.Scope(), record=file, progress=False)


def is_gone(reference: weakref.ref[Any]) -> bool:
    gc.collect()
    return reference() is None


def test_a_recorded_run_goes_when_nobody_has_it(tmp_path: Path) -> None:
    run = train(tmp_path / "runs.sqlite")
    run.wait()
    record = record_of(run)
    assert record is not None and record.complete and record.run is run
    reference = weakref.ref(run)
    del run, record
    assert is_gone(reference)
    assert [run.step for run in wb.runs(tmp_path / "runs.sqlite")] == [3]


def test_a_closed_dashboard_goes_with_its_run(tmp_path: Path) -> None:
    run = train(tmp_path / "runs.sqlite")
    dashboard = wb.dashboard(run)
    run.wait()
    dashboard.messages()
    dashboard.close()
    references = weakref.ref(run), weakref.ref(dashboard), weakref.ref(dashboard._page)
    del run, dashboard
    assert [is_gone(reference) for reference in references] == [True, True, True]


@pytest.mark.slow
@pytest.mark.processes
def test_a_short_day_leaves_nothing_behind() -> None:
    command = [sys.executable, "-W", "ignore", "-m", "tests.stress.day", "--minutes", "0", "--cycles", "10"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0 and done.stdout.rstrip().endswith("flat"), f"{done.stdout}\n{done.stderr[-3000:]}"
