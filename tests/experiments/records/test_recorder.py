"""Recording: everything a run did is in the file, whatever happens to the file or the process."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sqlite3
import sys
import time
import warnings
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.executors.models import regression
from tests.experiments.recorded import python, run_of
from workbench import events
from workbench.experiments import runs
from workbench.experiments.records import recorder
from workbench.experiments.records.runs_file import Entry, Happening, RunProgress, RunsFile
from workbench.experiments.records.surroundings import surroundings


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "made for it" / "runs.sqlite"


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


# Several processes


WRITER = """
from pathlib import Path
from tests.experiments.recorded import run_of
from workbench.experiments.records import recorder
recorder.PERIOD = 0.01
for number in range(4):
    run_of(Path({file!r}), 40, name={name!r}).wait(60)
"""


def test_several_processes_record_at_once(file: Path) -> None:
    writers = [python(WRITER.format(file=str(file), name=f"process {i}")) for i in range(3)]
    for writer in writers:
        _, told = writer.communicate(timeout=120)
        assert writer.returncode == 0, told
    recorded = runs(file)
    assert len(recorded) == 12 and all(r.state == "done" and len(r.scalars["loss"]) == 40 for r in recorded)
    assert {len(recorded.filter(name=f"process {i}")) for i in range(3)} == {4}


KILLED = """
import sys, time
from pathlib import Path
from tests.experiments.recorded import run_of
def told(run):
    time.sleep(0.005)
    print(run.step, time.time(), flush=True)
run_of(Path({file!r}), 10**9, on_step=told).wait(60)
"""


def test_a_crash_loses_no_more_than_the_last_second(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    killed = python(KILLED.format(file=str(file)))
    assert killed.stdout is not None
    lines = [next(killed.stdout).split()]
    while float(lines[-1][1]) - float(lines[0][1]) < 2.5:
        lines.append(next(killed.stdout).split())
    killed.send_signal(signal.SIGKILL)
    rest, _ = killed.communicate(timeout=30)
    lines += [line.split() for line in rest.splitlines() if len(line.split()) == 2]
    end = float(lines[-1][1])
    safe = max(int(step) for step, at in lines if float(at) < end - 1.0)
    (recorded,) = runs(file)
    assert recorded.step >= safe and len(recorded.scalars["loss"]) >= safe and recorded.state == "running"
    monkeypatch.setattr("workbench.experiments.records.recorded_run.LOST_S", 0.0)
    assert runs(file)[1].state == "lost"


# Trouble with the file


def trained_with_a_notice(file: Path) -> tuple[Any, str]:
    """A run that ends well, and the one notice it gave."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        run = run_of(file, 30, on_step=lambda run: time.sleep(0.01)).wait(30)
    assert run.state == "done" and run.step == 30
    texts = [str(w.message) for w in told if "cannot be recorded" in str(w.message)]
    assert len(texts) == 1, texts
    return run, texts[0]


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorder, "PERIOD", 0.02)
    monkeypatch.setattr(recorder, "LAST_TRY", 0.2)
    monkeypatch.setattr("workbench.experiments.records.runs_file.BUSY_S", 0.05)


@pytest.mark.usefixtures("hasty")
def test_a_locked_file_is_written_when_it_is_free_again(file: Path) -> None:
    run_of(file, 1).wait(30)
    other = sqlite3.connect(file, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    run, text = trained_with_a_notice(file)
    assert "another process has kept it locked" in text and str(file) in text
    other.execute("ROLLBACK")
    record = recorder.record_of(run)
    assert record is not None
    deadline = time.monotonic() + 10
    while not record.complete and time.monotonic() < deadline:
        time.sleep(0.02)
    recorded = runs(file)[2]
    assert recorded.state == "done"
    np.testing.assert_array_equal(recorded.scalars["loss"], run.history["loss"])


@pytest.mark.usefixtures("hasty")
def test_a_damaged_file_stays_as_it_is(file: Path) -> None:
    file.parent.mkdir()
    file.write_bytes(b"no database " * 100)
    _, text = trained_with_a_notice(file)
    assert "damaged" in text and file.read_bytes() == b"no database " * 100
    with pytest.raises(wb.errors.Unavailable, match="damaged"):
        runs(file)


@pytest.mark.usefixtures("hasty")
def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "a file").write_text("")
    _, text = trained_with_a_notice(tmp_path / "a file" / "runs.sqlite")
    assert "Not a directory" in text or "File exists" in text


@pytest.mark.usefixtures("hasty")
def test_a_folder_in_place_of_the_file(tmp_path: Path) -> None:
    _, text = trained_with_a_notice(tmp_path)
    assert f"{tmp_path}: it is a folder" in text and "read-only" not in text and not list(tmp_path.iterdir())


@pytest.mark.usefixtures("hasty")
def test_a_database_of_something_else_is_refused(file: Path) -> None:
    file.parent.mkdir()
    other = sqlite3.connect(file)
    other.execute("CREATE TABLE mine(x)")
    other.commit()
    before = file.read_bytes()
    _, text = trained_with_a_notice(file)
    assert "a database of something else" in text and file.read_bytes() == before


@pytest.mark.usefixtures("hasty")
def test_a_newer_file_is_refused(file: Path) -> None:
    run_of(file, 1).wait(30)
    newer = sqlite3.connect(file)
    newer.execute("PRAGMA user_version=99")
    newer.commit()
    _, text = trained_with_a_notice(file)
    assert "newer workbench" in text and "version 99" in text


FULL = """
import resource, warnings
from pathlib import Path
from tests.experiments.recorded import run_of
from workbench.experiments.records import recorder
recorder.PERIOD = 0.02
run_of(Path({file!r}), 1).wait(60)
recorder.LAST_TRY = 0.2
resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
with warnings.catch_warnings(record=True) as told:
    warnings.simplefilter("always")
    run = run_of(Path({file!r}), 1_500).wait(60)
assert run.state == "done" and run.step == 1_500, run
print([str(w.message) for w in told])
"""


def test_a_full_disk(file: Path) -> None:
    full = python(FULL.format(file=str(file)))
    out, told = full.communicate(timeout=120)
    assert full.returncode == 0, told
    assert out.count("cannot be recorded now") == 1 and str(file) in out
    assert runs(file)[1].state == "done"


def test_every_call_is_a_transaction(file: Path) -> None:
    runs_file = RunsFile(file)
    number, _ = runs_file.begin("one", 3, {})
    with pytest.raises(wb.errors.NotFound, match="no run 7"):
        runs_file.delete([number, 7])
    assert [row["id"] for row in runs_file.rows()] == [number]
    with pytest.raises(wb.errors.InvalidArgument, match="JSON"):
        runs_file.begin("two", 3, {"it": object()})
    assert [row["id"] for row in runs_file.rows()] == [number]


# Whatever a run is called


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


# Whatever the file does


@pytest.mark.usefixtures("hasty")
@pytest.mark.parametrize("with_folder", [False, True])
def test_a_file_that_is_removed_is_written_anew(file: Path, with_folder: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    def remove(run: Any) -> None:
        time.sleep(0.01)
        if run.step == 20:
            if not with_folder:
                file.unlink()
            while with_folder and file.parent.exists():  # its recorder may be putting something there
                shutil.rmtree(file.parent, ignore_errors=True)

    monkeypatch.setattr(recorder, "LAST_TRY", 30.0)  # it will be written, sooner or later
    run_of(file, 1, name="before").wait(30)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        run = run_of(file, 60, on_step=remove).wait(30)
    assert run.state == "done"
    # Where it goes in the middle of a transaction, that this failed may be told before.
    (text,) = [str(w.message) for w in told if f"{file} was removed or replaced" in str(w.message)]
    assert repr(run.name) in text
    np.testing.assert_array_equal(only(file).scalars["loss"], run.history["loss"])
    assert only(file).state == "done" and trained_beside(file)


@pytest.mark.usefixtures("hasty")
def test_a_run_in_a_new_file_is_not_taken_for_the_one_of_its_number(file: Path) -> None:
    def replace(run: Any) -> None:
        time.sleep(0.01)
        if run.step == 20:
            assert recorder.record_of(run).number == 1  # type: ignore[union-attr]
            other = RunsFile(file.parent / "other")
            other.begin("of somebody else", 7, {})
            with sqlite3.connect(other.path) as db:
                db.execute("PRAGMA journal_mode=DELETE")
            other.path.replace(file)

    with warnings.catch_warnings(record=True):
        warnings.simplefilter("always")
        run = run_of(file, 60, on_step=replace, name="mine").wait(30)
    assert recorder.record_of(run).write(20)  # type: ignore[union-attr]
    mine, other = runs(file)
    assert (other.name, other.step, other.state) == ("of somebody else", 0, "running")
    assert (mine.name, mine.state) == ("mine", "done") and len(mine.scalars["loss"]) == run.step == 60


def test_a_file_that_comes_in_place_of_an_open_one_gets_nothing_of_it(file: Path) -> None:
    RunsFile(file).begin("mine", 7, {})
    other = RunsFile(file.parent / "other")
    other.begin("of somebody else", 7, {})
    with sqlite3.connect(other.path) as db:
        db.execute("PRAGMA journal_mode=DELETE")
    with RunsFile(file)._writing() as db:
        db.execute("UPDATE runs SET notes='mine'")
        other.path.replace(file)
    assert [(row["name"], row["notes"]) for row in RunsFile(file).rows()] == [("of somebody else", "")]
    RunsFile(file).begin("after it", 7, {})
    assert len(RunsFile(file).rows()) == 2


@pytest.mark.usefixtures("hasty")
def test_a_run_that_its_user_deletes_stays_deleted(file: Path) -> None:
    def delete(run: Any) -> None:
        time.sleep(0.01)
        if run.step == 20:
            assert recorder.record_of(run).write()  # type: ignore[union-attr]
            runs(file).delete()

    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        assert run_of(file, 60, on_step=delete).wait(30).state == "done"
    assert len(runs(file)) == 0
    (text,) = [str(w.message) for w in told if str(file) in str(w.message)]
    assert "was deleted from" in text


@pytest.mark.usefixtures("hasty")
def test_a_file_that_is_damaged_on_the_way(file: Path) -> None:
    def damage(run: Any) -> None:
        time.sleep(0.01)
        if run.step == 10:
            file.write_bytes(b"no database " * 1000)

    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        assert run_of(file, 60, on_step=damage).wait(30).state == "done"
    (text,) = [str(w.message) for w in told if "cannot be recorded now" in str(w.message)]
    assert "damaged" in text and str(file) in text and "from step" in text


@pytest.mark.usefixtures("hasty")
def test_the_file_stays_the_same_in_another_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    monkeypatch.chdir(tmp_path / "one")
    run_of(Path("runs.sqlite"), 40, on_step=lambda run: time.sleep(0.005) or os.chdir(tmp_path / "two")).wait(30)
    assert only(tmp_path / "one" / "runs.sqlite").state == "done" and not list((tmp_path / "two").iterdir())


@pytest.mark.usefixtures("hasty")
def test_no_current_folder(file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    surroundings.cache_clear()  # threads of other runs may have asked until now
    try:
        assert run_of(file, 3).wait(30).state == "done" and only(file).settings["folder"] is None
    finally:
        surroundings.cache_clear()


def test_a_user_without_a_home(monkeypatch: pytest.MonkeyPatch) -> None:
    def homeless(self: Path) -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("WORKBENCH_RUNS", raising=False)
    monkeypatch.setattr(Path, "expanduser", homeless)
    with pytest.warns(UserWarning, match="cannot be recorded.*WORKBENCH_RUNS"):
        assert run_of(True, 3).wait(30).state == "done"  # type: ignore[arg-type]


@pytest.mark.usefixtures("hasty")
def test_where_warnings_are_errors_a_notice_is_printed(file: Path, capfd: pytest.CaptureFixture[str]) -> None:
    file.parent.mkdir()
    file.write_bytes(b"no database " * 100)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert run_of(file, 3).wait(30).state == "done"
    assert capfd.readouterr().err.count("cannot be recorded now") == 1


GONE = """
import threading, time, warnings
from pathlib import Path
from tests.experiments.recorded import run_of
from workbench.experiments.records import recorder
from workbench.experiments import runs
from workbench.experiments.records.runs_file import Entry, Happening, RunProgress, RunsFile
from workbench.experiments.records.surroundings import surroundings
recorder.PERIOD, recorder.LAST_TRY = 0.02, 0.3
add = RunsFile.add
def hang(self, *arguments, **options):
    if "gone" in str(self.path):
        threading.Event().wait()  # as a file system does that answers no more
    add(self, *arguments, **options)
RunsFile.add = hang
folder = Path({folder!r})
run = run_of(folder / "gone.sqlite", 3).wait(20)
assert run.state == "done", run
recorder.LAST_TRY = 30.0
other = run_of(folder / "there.sqlite", 3).wait(60)
assert runs(folder / "there.sqlite")[1].state == "done"
recorder.LAST_TRY = 0.3
print("ended")
"""


def test_a_file_system_that_answers_no_more_holds_nobody_up(tmp_path: Path) -> None:
    process = python(GONE.format(folder=str(tmp_path)))
    out, told = process.communicate(timeout=60)
    assert process.returncode == 0 and out == "ended\n", told
    assert "gone.sqlite" in told and "cannot be recorded" in told


FORKED = """
import os, sys, time
from pathlib import Path
from tests.experiments.recorded import run_of
from workbench.experiments.records import recorder
from workbench.experiments import runs
file = Path({file!r})
run = run_of(file, 10**9, on_step=lambda run: time.sleep(0.001))
while not run.step:
    time.sleep(0.01)
child = os.fork()
if not child:
    assert recorder.record_of(run) is None and not recorder._writers
    sys.exit(0)
_, status = os.waitpid(child, 0)
run.stop()
run.wait(30)
assert status == 0 and len(runs(file)) == 1 and runs(file)[1].step == run.step
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_forked_child_leaves_its_parents_runs_alone(file: Path) -> None:
    process = python(FORKED.format(file=str(file)))
    _, told = process.communicate(timeout=60)
    assert process.returncode == 0, told


FORKED_IN_A_TRANSACTION = """
import os, sys, threading
from workbench.experiments.records.runs_file import RunsFile

file, begun = RunsFile({file!r}), threading.Event()
file.begin("of the parent", None, {{}})

def write():
    with file._writing() as db:
        db.execute("UPDATE runs SET notes='half'")
        begun.set()
        threading.Event().wait(0.3)

thread = threading.Thread(target=write)
thread.start()
assert begun.wait(30)
child = os.fork()
if not child:
    file.begin("of the child", None, {{}})
    sys.exit(0)
_, status = os.waitpid(child, 0)
thread.join()
assert status == 0 and [(row["name"], row["notes"]) for row in file.rows()] == [
    ("of the parent", "half"), ("of the child", "")]
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_child_forked_in_a_transaction_uses_the_file(file: Path) -> None:
    process = python(FORKED_IN_A_TRANSACTION.format(file=str(file)))
    _, told = process.communicate(timeout=60)
    assert process.returncode == 0, told


def test_a_run_knows_the_notebook_or_script_it_is_of(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JPY_SESSION_NAME", "/home/me/digits.ipynb")  # Jupyter's server tells its kernels
    assert surroundings.__wrapped__()["notebook"] == "digits.ipynb"
    monkeypatch.delenv("JPY_SESSION_NAME")
    monkeypatch.setattr("sys.argv", ["/home/me/train.py", "--fast"])
    monkeypatch.delitem(sys.modules, "ipykernel", raising=False)
    assert surroundings.__wrapped__()["notebook"] == "train.py"
