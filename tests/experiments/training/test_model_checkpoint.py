"""Best and last checkpoints: which files a folder has after every look, and that they are what they are called."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.experiments.training.test_restoring import plateau
from tests.experiments.training.test_resume import drawing
from tests.experiments.training.test_validation import held_out, trained
from workbench import static
from workbench.checkpoint.files import read_tensors, write_tensors
from workbench.experiments import ModelCheckpoint, Run, runs
from workbench.framework.program.guard import static_mode
from workbench.io import DataLoader


@pytest.fixture(autouse=True)
def _static() -> Iterator[None]:
    with static_mode():
        yield


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def step_in(path: str | Path) -> int:
    return int(read_tensors(path)[1]["run"]["step"])


def with_scores(scores: list[float], asked: Any, on_step: Callable[[Run], None] | None = None, **options: Any) -> Run:
    """A run of one step an epoch in which validation finds these scores."""
    feeds = list(DataLoader(held_out(), batch_size=21))
    run = trained(
        drawing(), feeds, epochs=len(scores), valid=feeds, scope=static.Scope(), checkpoints=asked, paused=True,
        on_step=on_step, **options,
    )  # fmt: skip
    run._work.__self__.validation.evaluate = lambda is_stopping: {"val_loss": scores[run.step - 1]}
    run.resume()
    return run.wait(60)


@pytest.mark.parametrize(
    ("options", "kept"),
    [
        ({}, [4]),
        ({"mode": "max"}, [3]),
        ({"save_top_k": 2}, [4, 1]),
        ({"save_top_k": -1}, [4, 1, 5, 3]),
        ({"save_top_k": 0}, []),
        ({"every_n_epochs": 2}, [4]),
        ({"every_n_epochs": 3, "mode": "max"}, [3]),
        ({"every_n_train_steps": 5}, [5]),
    ],
)
def test_the_best_stay_and_the_others_go(options: dict[str, Any], kept: list[int], tmp_path: Path) -> None:
    scores = [2.0, float("nan"), 9.0, 1.0, 3.0]
    run = with_scores(scores, ModelCheckpoint(tmp_path / "made", **options))
    best = [f"epoch-{step}-step-{step}.checkpoint" for step in kept]
    assert names(tmp_path / "made") == sorted([*best, "last.checkpoint"])
    assert [step_in(tmp_path / "made" / name) for name in best] == kept
    assert run.last_model_path is not None and step_in(run.last_model_path) == 5
    assert (run.best_model_score, run.best_model_path) == (
        (scores[kept[0] - 1], str(tmp_path / "made" / best[0])) if kept else (None, None)
    )
    assert all(step_in(path) == step for step, path in run.checkpoints)
    assert {path for _, path in run.checkpoints} == {str(tmp_path / "made" / name) for name in names(tmp_path / "made")}


def test_without_last(tmp_path: Path) -> None:
    run = with_scores([2.0, 1.0, 3.0], ModelCheckpoint(tmp_path, save_last=False))
    assert names(tmp_path) == ["epoch-2-step-2.checkpoint"] and run.last_model_path is None


def test_a_training_value_is_judged_by_its_mean_since_the_look_before(tmp_path: Path) -> None:
    run = trained(drawing(), epochs=5, scope=static.Scope(), checkpoints=tmp_path).wait(60)
    by_epoch = np.reshape(run.history["loss"], (5, 4)).mean(axis=1)
    best = int(by_epoch.argmin()) + 1
    assert names(tmp_path) == [f"epoch-{best}-step-{4 * best}.checkpoint", "last.checkpoint"]
    assert run.best_model_score == pytest.approx(by_epoch.min())
    stepwise = trained(
        drawing(), steps=10, scope=static.Scope(), checkpoints=ModelCheckpoint(tmp_path / "b", every_n_train_steps=3)
    ).wait(60)
    by_look = np.reshape(stepwise.history["loss"][:9], (3, 3)).mean(axis=1)
    assert stepwise.best_model_path is not None and step_in(stepwise.best_model_path) == 3 * (by_look.argmin() + 1)
    assert stepwise.last_model_path is not None and step_in(stepwise.last_model_path) == 10


def test_the_best_one_is_the_model_that_was_best(tmp_path: Path) -> None:
    valid = DataLoader(held_out(), batch_size=8)
    run = trained(drawing(), epochs=6, valid=valid, scope=static.Scope(), checkpoints=tmp_path).wait(60)
    assert run.best_model_score == min(run.history["val_loss"])
    again = trained(
        drawing(), steps=0, valid=valid, scope=static.Scope(), checkpoint=run.best_model_path, fetch={}
    ).wait(60)
    assert again.history["val_loss"][-1] == run.best_model_score


def test_files_of_other_runs_stay(tmp_path: Path) -> None:
    first, second = (with_scores([2.0, 1.0], tmp_path) for _ in range(2))
    assert names(tmp_path) == [
        "epoch-2-step-2-v1.checkpoint", "epoch-2-step-2.checkpoint", "last-v1.checkpoint", "last.checkpoint",
    ]  # fmt: skip
    assert Path(str(second.best_model_path)).name == "epoch-2-step-2-v1.checkpoint"
    assert Path(str(first.last_model_path)).name == "last.checkpoint"


def test_a_run_that_goes_on_keeps_the_same_ones(tmp_path: Path) -> None:
    scores = [2.0, 1.0, 4.0, 3.0, 0.5, 6.0]
    whole = with_scores(scores, ModelCheckpoint(tmp_path / "whole", save_top_k=2))
    asked = ModelCheckpoint(tmp_path / "parts", save_top_k=2)

    def stop(run: Run) -> None:
        if run.validated[-1:] == [3]:
            run.stop()

    part = with_scores(scores, asked, stop)
    assert part.state == "stopped" and part.step == 3
    rest = with_scores(scores, asked, checkpoint=part.last_model_path)
    assert names(tmp_path / "parts") == names(tmp_path / "whole")
    assert (rest.best_model_score, rest.step) == (whole.best_model_score, whole.step)
    elsewhere = with_scores(scores, tmp_path / "other", checkpoint=part.best_model_path)
    assert names(tmp_path / "other") == ["epoch-5-step-5.checkpoint", "last.checkpoint"] and elsewhere.step == 6


def test_what_is_recorded_is_what_there_is(tmp_path: Path) -> None:
    run = with_scores([2.0, 1.0, 4.0, 0.5], tmp_path / "made", record=tmp_path / "runs.sqlite")
    (recorded,) = runs(tmp_path / "runs.sqlite")
    assert recorded.checkpoints == [(4, run.best_model_path), (4, run.last_model_path)] == run.checkpoints


@pytest.mark.parametrize("other", [{"mode": "max"}, {"monitor": "loss"}], ids=["the other end", "another value"])
def test_the_best_by_something_else_is_not_the_best(other: dict[str, Any], tmp_path: Path) -> None:
    scores = [2.0, 1.0, 4.0, 3.0]
    asked = ModelCheckpoint(tmp_path, monitor="val_loss")
    part = with_scores(scores[:2], asked)
    rest = with_scores(scores, replace(asked, **other), checkpoint=part.last_model_path)
    values = rest.history[other.get("monitor", "val_loss")][2:]
    assert rest.best_model_score == (max(values) if "mode" in other else min(values))
    assert rest.best_model_path is not None and step_in(rest.best_model_path) > 2
    assert "epoch-2-step-2.checkpoint" in names(tmp_path)  # it was the best one of the run before
    assert rest.last_model_path == part.last_model_path


def crafted(path: str | None, change: Callable[[dict[str, Any]], Any]) -> Path:
    """A copy of a checkpoint that tells something else of the ones that are kept beside it."""
    tensors, metadata = read_tensors(str(path))
    change(metadata["run"]["kept"])
    other = Path(str(path)).with_name("crafted.checkpoint")
    write_tensors(other, tensors, metadata)
    return other


@pytest.mark.parametrize(
    "name", ["{victim}", "../victim", "victim", "epoch-1-step-1.checkpoint/../../victim", "last.checkpoint", 3, None]
)
@pytest.mark.parametrize("part", ["best", "last"])
def test_a_checkpoint_names_no_file_but_kept_ones(part: str, name: Any, tmp_path: Path) -> None:
    if part == "last" and name in ("last.checkpoint", None):
        name = "epoch-1-step-1.checkpoint"
    folder, victims = tmp_path / "made", [tmp_path / "victim", tmp_path / "made" / "victim"]
    run = with_scores([2.0], folder)
    for victim in victims:
        victim.write_text("precious")
    name = name.format(victim=victims[0]) if isinstance(name, str) else name
    told = [[9.0, 1, name]] if part == "best" else name
    path = crafted(run.last_model_path, lambda kept: kept.update({part: told}))
    before = names(folder)
    with pytest.raises(wb.errors.InvalidArgument, match=rf"crafted\.checkpoint .* as {part}"):
        with_scores([2.0, 1.0, 0.5], folder, checkpoint=path)
    assert names(folder) == before and all(victim.read_text() == "precious" for victim in victims)


def test_a_checkpoint_of_a_run_in_another_folder_deletes_nothing(tmp_path: Path) -> None:
    run = with_scores([2.0], tmp_path / "made")
    path = crafted(run.last_model_path, lambda kept: kept.update(folder=str(tmp_path / "other")))
    with_scores([2.0, 1.0], tmp_path / "made", checkpoint=path)
    assert names(tmp_path / "made") == [
        "crafted.checkpoint", "epoch-1-step-1.checkpoint", "epoch-2-step-2.checkpoint", "last-v1.checkpoint",
        "last.checkpoint",
    ]  # fmt: skip


@pytest.mark.parametrize("change", [lambda kept: kept.pop("folder"), lambda kept: kept.update(looked=-1)])
def test_what_is_refused_leaves_the_parameters_alone(change: Callable[[dict[str, Any]], Any], tmp_path: Path) -> None:
    run = with_scores([2.0], tmp_path)
    path, scope, model = crafted(run.last_model_path, change), static.Scope(), drawing()
    feeds = list(DataLoader(held_out(), batch_size=21))
    with pytest.raises(wb.errors.InvalidArgument, match=r"crafted\.checkpoint .* kept checkpoints"):
        trained(model, feeds, epochs=3, scope=scope, checkpoint=path, checkpoints=tmp_path)
    assert not any(variable.tensor.initialized for variable in scope.vars.values())
    assert not wb.events.LISTENERS  # nobody goes on listening for steps of a run that was refused


@pytest.mark.parametrize("place", ["a file", "a link"])
def test_a_folder_that_takes_no_checkpoint_ends_no_run(tmp_path: Path, place: str) -> None:
    (tmp_path / "a file").write_text("")
    (tmp_path / "a link").symlink_to(tmp_path / "nowhere" / "no", target_is_directory=True)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        run = with_scores([2.0, 1.0, 4.0], tmp_path / place / "deeper")
    texts = [str(w.message) for w in told if "checkpoint" in str(w.message)]
    if place == "a file":
        assert len(texts) == 1 and str(tmp_path / place) in texts[0] and "goes on without" in texts[0]
        assert run.checkpoints == [] and run.best_model_path is None and run.last_model_path is None
    assert run.state == "done" and run.step == 3


def test_a_nan_metric_and_checkpoints_go_together(tmp_path: Path) -> None:
    from tests.experiments.training.test_restoring import feeds

    run = trained(plateau(), feeds(1), epochs=2, lr_step="epoch", scope=static.Scope(), checkpoints=tmp_path)
    assert run.wait(60).state == "done" and names(tmp_path) == ["last.checkpoint"]


def test_what_makes_no_sense_is_refused(tmp_path: Path) -> None:
    for options, text in (
        ({"mode": "least"}, "'min' or 'max' as mode"),
        ({"save_top_k": -2}, ">= -1 as save_top_k"),
        ({"every_n_epochs": 0}, ">= 1 as every_n_epochs"),
        ({"every_n_epochs": 1, "every_n_train_steps": 1}, "leave one out"),
        ({"monitor": 3}, "as monitor"),
    ):
        with pytest.raises(wb.errors.InvalidArgument, match=text):
            ModelCheckpoint(tmp_path, **options)
    with pytest.raises(wb.errors.InvalidType, match="as dirpath"):
        ModelCheckpoint("")
    with pytest.raises(wb.errors.InvalidArgument, match=r"recorded as 'lss'.*Did you mean 'loss'"):
        trained(drawing(), scope=static.Scope(), checkpoints=ModelCheckpoint(tmp_path, monitor="lss"))
    with pytest.raises(wb.errors.InvalidType, match="as checkpoints"):
        trained(drawing(), scope=static.Scope(), checkpoints=3)


# Checkpoints by hand


def test_a_checkpoint_is_called_after_the_step_it_is_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run = trained(drawing(), steps=10**9, scope=static.Scope(), name="a/b: {step}")
    for _ in range(5):
        path = run.save()
        assert path == f"a-b- -step--step-{step_in(path)}.checkpoint" and run.checkpoints[-1] == (step_in(path), path)
        path = run.save(tmp_path / "at-{step}.x")
        assert Path(path).name == f"at-{step_in(path)}.x"
    run.stop()
    run.wait(30)
    run.save("same")
    run.save("same")
    assert [path for _, path in run.checkpoints].count("same") == 1
