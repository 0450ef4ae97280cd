"""Recording: everything a run did is in the file, whatever the run and its values are called."""

from __future__ import annotations

import json
import os
import sqlite3
import sys
import time
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.executors.models import regression
from tests.experiments.recorded import run_of
from workbench import events
from workbench.experiments import compare, runs
from workbench.experiments.records import recorder
from workbench.experiments.records.runs_file import Entry, Happening, RunProgress, RunsFile
from workbench.experiments.records.surroundings import surroundings


def test_a_run_is_recorded_whole(file: Path) -> None:
    run = run_of(file, 5, name="first").wait(30)
    (recorded,) = runs(file)
    assert (recorded.name, recorded.state, recorded.step, recorded.steps, recorded.error) == (
        "first",
        "done",
        5,
        5,
        None,
    )
    np.testing.assert_array_equal(recorded.scalars["loss"], run.history["loss"])
    assert recorded.last == run.last and recorded.seconds == pytest.approx(run.seconds)
    assert recorded.ended is not None and recorded.begun <= recorded.ended <= time.time()
    assert recorded.settings["fetch"] == ["loss"] and recorded.settings["numpy"] == np.__version__
    assert recorded.settings["executor"] == "Executor"


def test_nothing_is_recorded_if_nothing_is_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORKBENCH_RUNS", str(tmp_path / "runs.sqlite"))
    run = run_of(tmp_path, 2, record=False).wait(30)
    assert recorder.record_of(run) is None and not list(tmp_path.iterdir())
    run_of(tmp_path, 2, record=True).wait(30)
    assert len(runs()) == 1


def test_a_run_that_fails_and_one_that_is_stopped(file: Path) -> None:
    model = regression()
    feeds = [model.feed(0), model.feed(1), {"x": model.feed(2)["x"]}]
    failed = wb.experiments.train(
        model.main, feeds, fetch=[model.loss], startup=model.startup, scope=wb.static.Scope(), record=file
    )
    with pytest.raises(wb.errors.EnforceNotMet):
        failed.wait(30)
    stopped = run_of(file, 10**9, on_step=lambda run: run.stop() if run.step == 3 else None).wait(30)
    second, first = runs(file)
    assert (first.state, first.step) == ("failed", 2) and "'y'" in str(first.error)
    assert (second.state, second.step) == ("stopped", 3) and stopped.step == 3


def test_drops_and_errors_of_the_own_executor_are_kept(file: Path) -> None:
    model = regression()
    execution = wb.static.ExecutionStrategy()
    execution.num_iteration_per_drop_scope = 2
    scope = wb.static.Scope()
    exe = wb.static.ParallelExecutor(
        False, loss_name=model.loss.name, main_program=model.main, scope=scope, exec_strategy=execution
    )
    run = run_of(file, 5, model, executor=exe, scope=None, name="devices")
    run.wait(30)
    (recorded,) = runs(file)
    assert [(e.kind, e.step, e.data["cause"]) for e in recorded.events] == [
        ("scope_drop", n, "interval") for n in (1, 3)
    ]
    assert recorded.settings["num_iteration_per_drop_scope"] == "2" and recorded.settings["devices"] == exe.device_count
    assert not events.LISTENERS


def test_the_strategy_is_recorded_whether_it_was_chosen_or_not(file: Path) -> None:
    model = regression()
    for mode in (None, "Reduce"):
        build, scope = wb.static.BuildStrategy(), wb.static.Scope()
        if mode is not None:
            build.reduce_strategy = build.ReduceStrategy[mode]
        exe = wb.static.ParallelExecutor(
            False, loss_name=model.loss.name, main_program=model.main, scope=scope, build_strategy=build
        )
        run_of(file, 1, model, executor=exe, scope=None, name=str(mode)).wait(30)
    assert compare("None", "Reduce", file=file).settings["reduce_strategy"] == ("AllReduce", "Reduce")


def test_drops_that_another_thread_asks_for_are_kept_if_they_are_of_the_runs_executor(file: Path) -> None:
    model = regression()
    exe, other = (
        wb.static.ParallelExecutor(False, loss_name=model.loss.name, main_program=model.main, scope=wb.static.Scope())
        for _ in range(2)
    )
    run_of(file, 1, model, executor=other, scope=None).wait(30)
    run = run_of(file, 10**9, model, executor=exe, scope=None, paused=True)
    try:
        assert run.advance(3, timeout=30)
        other.drop_local_exe_scopes()
        exe.drop_local_exe_scopes()
        drops = recorder.record_of(run).drops
        assert [(drop.step, drop.cause) for drop in drops] == [(3, "call")] and any(drops[0].nbytes)
    finally:
        run.stop()
        run.wait(30)
    newest, _ = runs(file)
    assert [(e.kind, e.step) for e in newest.events] == [("scope_drop", 3)]


def test_a_parallel_run_equals_a_run_on_one_device_and_takes_its_own_program_only(file: Path) -> None:
    model = regression()
    exe = wb.static.ParallelExecutor(False, loss_name=model.loss.name, main_program=model.main, scope=wb.static.Scope())
    run = run_of(file, 4, model, executor=exe, scope=None).wait(30)
    one = run_of(file, 4, regression()).wait(30)
    np.testing.assert_allclose(run.history["loss"], one.history["loss"], rtol=1e-5)
    with pytest.raises(wb.errors.InvalidArgument, match="of another program"):
        run_of(file, 4, executor=exe, scope=None)
    with pytest.raises(wb.errors.InvalidArgument, match="no other scope"):
        run_of(file, 4, model, executor=exe)


def test_long_histories_come_in_pieces(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorder, "PIECE", 7)
    monkeypatch.setattr(recorder, "PERIOD", 0.01)
    run = run_of(file, 300).wait(30)
    np.testing.assert_array_equal(runs(file)[1].scalars["loss"], run.history["loss"])


def only(file: Path) -> Any:
    """The one run of a file, as it is when all has been written that there is."""
    for record in list(recorder._records.values()):
        assert record.trouble or record.run.state == "running" or record.write(20)
    (run,) = runs(file)
    return run


ODD = "caf\udce9"  # what os.fsdecode makes of b"caf\xe9"


@pytest.mark.usefixtures("hasty")
def test_a_name_that_is_no_text(file: Path, tmp_path: Path) -> None:
    path = tmp_path / f"{ODD}.checkpoint"
    run = run_of(file, 3, name=ODD, settings={ODD: [ODD, float("inf")]}, fetch={ODD: regression().loss.name})
    run.wait(30).save(path)
    assert run.state == "done" and trained_beside(file)
    assert all_written(file)
    recorded = runs(file)[1]
    assert recorded.name == r"caf\udce9" and recorded.state == "done" and recorded.last == {r"caf\udce9": run.last[ODD]}
    assert recorded.settings[r"caf\udce9"] == [r"caf\udce9", "inf"]
    recorded.note(ODD)
    recorded.tag(ODD)
    assert all_shown(file)


def all_written(file: Path, timeout: float = 30.0) -> bool:
    """Wait until runs that have ended are in the file, whole: in haste its writer may take some tries."""
    deadline = time.monotonic() + timeout
    waiting = [r for r in list(recorder._records.values()) if r.file.path == file and r.run.finished]
    while any(not record.complete for record in waiting) and time.monotonic() < deadline:
        for record in waiting:
            record.write(1)
    return all(record.complete for record in waiting)


def all_shown(file: Path) -> bytes:
    """Everything that is made of recorded runs, as it is sent or written."""
    recorded = runs(file)
    target = file.with_name("exported")
    texts = [repr(recorded), recorded._repr_html_()]
    if len(recorded) > 1:
        compared = wb.compare(*recorded)
        texts += [repr(compared), compared._repr_html_()]
    recorded.to_csv(target)
    texts.append(target.read_text("utf-8"))
    recorded.to_json(target)
    return "".join([*texts, target.read_text("utf-8")]).encode()


def test_settings_that_are_no_text_are_shown(file: Path) -> None:
    for settings in ({ODD: 1}, {"a": ODD}, {"a": {"b": [ODD, 1.5, None]}}):
        run_of(file, 1, settings=settings).wait(30)
    recorded = runs(file)
    assert [recorded[n].settings.get("a") for n in (2, 3)] == [r"caf\udce9", {"b": [r"caf\udce9", 1.5, None]}]
    assert rb"caf\udce9" in all_shown(file)
    happening = Happening(0.0, 1, "x", {"a": ODD})
    RunsFile(file).add(Entry(1, recorded[1].begun), RunProgress("done", 1, 1.0), happenings=[happening])
    assert runs(file)[1].events[-1].data == {"a": r"caf\udce9"}
    smile = "\N{GRINNING FACE}"  # two halves in JSON
    run_of(file, 1, settings={smile: smile}).wait(30)
    assert runs(file)[4].settings[smile] == smile


def test_settings_of_an_older_file_that_are_no_text_are_shown(file: Path) -> None:
    run_of(file, 1, settings={"a": 1}).wait(30)
    run_of(file, 1).wait(30)
    with closing(sqlite3.connect(file)) as db, db:
        db.execute("UPDATE runs SET settings=? WHERE id=1", (json.dumps({ODD: ODD, "a": 2}).replace("udc", "uDC"),))
    assert runs(file)[1].settings == {r"caf\udce9": r"caf\udce9", "a": 2} and all_shown(file)


def as_of_version_1(file: Path) -> None:
    """Give a file the table of checkpoints it had in version 1."""
    with closing(sqlite3.connect(file)) as db, db:
        db.execute("DROP TABLE checkpoints")
        db.execute(
            "CREATE TABLE checkpoints(run INTEGER NOT NULL REFERENCES runs(id) ON DELETE CASCADE, "
            "step INTEGER NOT NULL, at REAL NOT NULL, path TEXT NOT NULL, PRIMARY KEY(run, step)) WITHOUT ROWID"
        )
        odd = os.fsencode(ODD)
        db.executemany("INSERT INTO checkpoints VALUES(1, ?, 1.5, ?)", [(3, "three"), (2, "two"), (4, odd)])
        db.execute("PRAGMA user_version=1")


def test_a_file_of_version_1_is_read_and_goes_on_being_used(file: Path) -> None:
    run_of(file, 2).wait(30)
    as_of_version_1(file)
    before = [(2, "two"), (3, "three"), (4, ODD)]
    values = runs(file)[1].scalars["loss"].tolist()
    assert runs(file)[1].checkpoints == before
    with closing(sqlite3.connect(file)) as db:
        assert db.execute("PRAGMA user_version").fetchone() == (1,)  # reading changes nothing
    entry, done = Entry(1, runs(file)[1].begun), RunProgress("done", 2, 1.0)
    RunsFile(file).add(entry, done)
    assert runs(file)[1].checkpoints == before and runs(file)[1].scalars["loss"].tolist() == values
    RunsFile(file).add(entry, done, checkpoints=[(2, "best"), (2, "last"), (2, "a")])
    assert runs(file)[1].checkpoints == [(2, "a"), (2, "best"), (2, "last")]
    with closing(sqlite3.connect(file)) as db:
        assert db.execute("PRAGMA user_version").fetchone() == (2,)
        assert {name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type='table'")} == {
            "runs", "scalars", "events", "checkpoints", "sqlite_sequence",
        }  # fmt: skip
    runs(file).delete()
    with closing(sqlite3.connect(file)) as db:
        assert db.execute("SELECT count(*) FROM checkpoints").fetchone() == (0,)


def trained_beside(file: Path) -> bool:
    """Whether another run is recorded while it goes on."""

    def is_recorded() -> bool:
        with suppress(wb.errors.Unavailable):  # its recorder writes just then, which hasty readers do not wait for
            return any(r.name == "other" and r.step and r.state == "running" for r in runs(file))
        return False

    other, deadline = run_of(file, 10**9, name="other"), time.monotonic() + 60
    try:
        while not (recorded := is_recorded()) and time.monotonic() < deadline:
            time.sleep(0.02)
        return recorded
    finally:
        other.stop()
        other.wait(30)


def test_a_checkpoint_in_a_file_that_is_no_text_is_found_again(file: Path, tmp_path: Path) -> None:
    path = str(tmp_path / f"{ODD}.checkpoint")
    runs_file = RunsFile(file)
    runs_file.add(runs_file.begin("a", 3, {}), RunProgress("running", 1, 0.5), checkpoints=[(1, path)])
    assert only(file).checkpoints == [(1, path)]


@pytest.mark.parametrize("steps", [10**20, 10**400])
@pytest.mark.usefixtures("hasty")
def test_more_steps_than_can_be_stored(file: Path, steps: int) -> None:
    run = run_of(file, steps, on_step=lambda run: run.stop() if run.step == 3 else None, progress=True).wait(30)
    assert run.state == "stopped" and run.step == 3
    recorded = only(file)
    assert recorded.steps == 2**63 - 1 and recorded.settings["steps"] == steps and recorded.step == 3


class Wordless(Exception):
    def __str__(self) -> str:
        raise TypeError("no words")


@pytest.mark.usefixtures("hasty")
def test_an_error_without_a_text(file: Path) -> None:
    def fail(run: Any) -> None:
        raise Wordless

    with pytest.raises(Wordless):
        run_of(file, 3, on_step=fail).wait(30)
    assert only(file).state == "failed" and "Wordless" in only(file).error


def test_settings_of_the_users_are_kept_whatever_they_are(file: Path) -> None:
    given = {"rate": float("nan"), "of": {"x": {1, 2}, 3: (np.float32(0.5), np.int64(4))}, 5: None}
    run_of(file, 1, settings=given).wait(30)
    settings = only(file).settings
    assert (settings["rate"], settings["of"], settings["5"]) == ("nan", {"x": "{1, 2}", "3": [0.5, 4]}, None)
    with pytest.raises(wb.errors.InvalidType, match="dict of names and values"):
        run_of(file, 1, settings=[1])


def test_a_run_knows_the_notebook_or_script_it_is_of(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JPY_SESSION_NAME", "/home/me/digits.ipynb")  # Jupyter's server tells its kernels
    assert surroundings.__wrapped__()["notebook"] == "digits.ipynb"
    monkeypatch.delenv("JPY_SESSION_NAME")
    monkeypatch.setattr("sys.argv", ["/home/me/train.py", "--fast"])
    monkeypatch.delitem(sys.modules, "ipykernel", raising=False)
    assert surroundings.__wrapped__()["notebook"] == "train.py"
