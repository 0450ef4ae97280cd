"""Checkpoints: a run that goes on makes the very steps it would have made."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.parallel.models import Model, build, classifier
from workbench import static
from workbench.experiments import Setup, resume, runs, setup
from workbench.experiments.run import Run
from workbench.framework.program.guard import static_mode
from workbench.io import DataLoader, TensorDataset

F = wb.nn.functional
STEPS = 11


@pytest.fixture(autouse=True)
def _static() -> Iterator[None]:
    with static_mode():
        yield


def dataset() -> Any:
    rng = np.random.default_rng(0)
    return TensorDataset([rng.standard_normal((32, 5), np.float32), rng.integers(0, 3, (32, 1))])


def drawing() -> Model:
    """With all that a step carries on: dropout, batch statistics of each device, Adam, a schedule."""

    def body() -> Any:
        x, y = static.data("x", [None, 5]), static.data("y", [None, 1], "int64")
        h = F.dropout(static.nn.batch_norm(static.nn.fc(x, 8)), 0.3)
        return wb.mean(F.softmax_with_cross_entropy(static.nn.fc(h, 3), y))

    return build(body, wb.optimizer.Adam(wb.optimizer.lr.ExponentialDecay(0.05, 0.9)))


def setup_of(model: Model, data: Any = None, **settings: Any) -> Setup:
    loader = DataLoader(dataset(), batch_size=8, shuffle=True, seed=5) if data is None else data
    return setup(model.main, loader, model.startup, {"loss": model.loss}, **{"steps": STEPS, "seed": 3, **settings})


def state(run: Run) -> dict[Any, bytes]:
    inspection = run.executor.inspection
    pairs = [(name, place) for name in inspection.persistables for place in range(len(inspection.places))]
    return {pair: inspection.tensor(*pair).array.tobytes() for pair in pairs}


def saving(path: Path, step: int) -> Any:
    return lambda run: run.save(path) if run.step == step and not run.finished else None


@pytest.mark.parametrize("step", [1, 4, 6, 8])
@pytest.mark.parametrize("settings", [{}, {"devices": 2}, {"devices": 2, "reduce_strategy": "Reduce"}])
def test_the_rest_of_a_run_bit_for_bit(settings: dict[str, Any], step: int, tmp_path: Path) -> None:
    base, path = setup_of(drawing(), **settings), tmp_path / "made" / "here.wbrun"
    whole = base.start(saving(path, step), record=tmp_path / "runs.sqlite", progress=False).wait(60)
    again = resume(whole, record=tmp_path / "runs.sqlite", progress=False).wait(60)
    assert again.step == STEPS and again.state == "done" and again.history == whole.history
    assert state(again) == state(whole)
    second, first = runs(tmp_path / "runs.sqlite")
    assert (second.settings["resumed"], second.settings["resumed_step"]) == (first.number, step)
    np.testing.assert_array_equal(second.scalars["loss"], first.scalars["loss"])
    assert first.checkpoints == [(step, str(path))]


@pytest.mark.parametrize(
    ("limit", "count"), [({"steps": None, "epochs": 3}, 12), ({"steps": 7, "epochs": 3}, 7), ({"steps": None}, 40)]
)
def test_passes_over_a_list_are_counted_on(limit: dict[str, Any], count: int, tmp_path: Path) -> None:
    batches = list(DataLoader(dataset(), batch_size=8))
    base, path = setup_of(classifier(wb.optimizer.SGD(0.1)), batches, **limit), tmp_path / "x.wbrun"
    whole = base.start(saving(path, 3), record=False, progress=False).wait(60)
    again = resume(whole, record=False, progress=False).wait(60)
    assert again.history == whole.history and again.step == whole.step == count


def test_another_process_goes_on_with_a_number(tmp_path: Path) -> None:
    file, path = tmp_path / "runs.sqlite", tmp_path / "x.wbrun"
    whole = setup_of(drawing()).start(saving(path, 5), record=file, progress=False).wait(60)
    again = resume(1, setup_of(drawing()), record=file, progress=False).wait(60)
    assert again.history == whole.history


def test_save_from_outside_waits_for_the_boundary_and_lets_the_run_go_on(tmp_path: Path) -> None:
    run = setup_of(drawing(), steps=10**9).start(record=False, progress=False)
    run.save(tmp_path / "running.wbrun")
    (at, _), state_then = run.checkpoints[0], run.state
    while run.step <= at + 1:
        time.sleep(0.01)
    assert state_then == "running"
    run.pause(30)
    run.save(tmp_path / "paused.wbrun")
    assert run.state == "paused"
    run.stop()
    run.wait(30)
    run.save(tmp_path / "ended.wbrun")
    assert [Path(path).name for _, path in run.checkpoints] == ["running.wbrun", "paused.wbrun", "ended.wbrun"]


def test_a_checkpoint_that_cannot_be_written_does_not_end_the_run(tmp_path: Path) -> None:
    (tmp_path / "a file").write_text("")
    run = setup_of(drawing(), steps=10**9).start(record=False, progress=False)
    with pytest.raises(OSError, match="a file"):
        run.save(tmp_path / "a file" / "x.wbrun")
    assert run.state == "running" and run.checkpoints == []
    run.stop()
    run.wait(30)


def test_what_does_not_fit_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.wbrun"
    base = setup_of(drawing(), devices=2)
    run = base.start(saving(path, 2), record=False, progress=False).wait(60)
    for other, text in (
        (setup_of(classifier()), "of another program"),
        (setup_of(drawing(), list(DataLoader(dataset(), batch_size=8))), "was written by a run on a DataLoader"),
        (base.with_(batch_size=4), "taken from another DataLoader"),
    ):
        with pytest.raises(wb.errors.InvalidArgument, match=text):
            resume(run, other, record=False)
    with pytest.raises(wb.errors.InvalidArgument, match="on 2 devices, whose values differ; this one has 1"):
        resume(run, base.with_(devices=1), record=False)
    with pytest.raises(wb.errors.NotFound, match="no checkpoint of step 7"):
        resume(run, step=7)
    path.unlink()
    with pytest.raises(wb.errors.NotFound, match="not there any more"):
        resume(run)
    with pytest.raises(wb.errors.NotFound, match="there is no run 'x'"):
        resume("x", base)
    with pytest.raises(wb.errors.InvalidType, match="resume takes"):
        resume(1.5, base)  # type: ignore[arg-type]
