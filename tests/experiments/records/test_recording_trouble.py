"""Files of runs that are locked, damaged, removed or full: training goes on, and one notice says so."""

from __future__ import annotations

import os
import shutil
import sqlite3
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.experiments.recorded import python, run_of
from tests.experiments.records.test_recorder import only, trained_beside
from workbench.experiments import runs
from workbench.experiments.records import recorder
from workbench.experiments.records.runs_file import RunsFile
from workbench.experiments.records.surroundings import surroundings

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
