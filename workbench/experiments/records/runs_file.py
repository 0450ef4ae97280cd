"""The SQLite file in which runs are recorded; several processes may read and write it at once.

Values of every step are kept in pieces, each the float64 values of consecutive steps, little-endian, so that a
million steps take a thousand rows.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from workbench.errors import EnforceNotMet, InvalidType, NotFound, PreconditionNotMet, Unavailable
from workbench.experiments.records import stored
from workbench.experiments.records.file_use import in_use

APPLICATION = 0x776B6277  # tells the file from other databases
VERSION = 2
BUSY_S = 2.0  # how long to wait for another process's transaction
FIRST_NAN = "first_nan"  # what the first NaN or Inf of a run is called among what happened in it
PLACE = "WORKBENCH_RUNS"  # environment variable that chooses the file

_TABLES = "SELECT count(*) FROM sqlite_master"
_CHECKPOINTS = """
CREATE TABLE checkpoints(
    run INTEGER NOT NULL REFERENCES runs(id) ON DELETE CASCADE, step INTEGER NOT NULL, at REAL NOT NULL,
    path TEXT NOT NULL, PRIMARY KEY(run, path)) WITHOUT ROWID"""
_SCHEMA = f"""
CREATE TABLE runs(
    id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL, begun REAL NOT NULL, ended REAL, alive REAL NOT NULL,
    state TEXT NOT NULL, step INTEGER NOT NULL, steps INTEGER, seconds REAL NOT NULL, error TEXT,
    settings TEXT NOT NULL, notes TEXT NOT NULL DEFAULT '', tags TEXT NOT NULL DEFAULT '[]');
CREATE TABLE scalars(
    run INTEGER NOT NULL REFERENCES runs(id) ON DELETE CASCADE, name TEXT NOT NULL, start INTEGER NOT NULL,
    numbers BLOB NOT NULL, PRIMARY KEY(run, name, start)) WITHOUT ROWID;
CREATE TABLE events(
    id INTEGER PRIMARY KEY, run INTEGER NOT NULL REFERENCES runs(id) ON DELETE CASCADE, at REAL NOT NULL,
    step INTEGER NOT NULL, kind TEXT NOT NULL, data TEXT NOT NULL);
CREATE INDEX events_of_runs ON events(run);
{_CHECKPOINTS};
"""
# In version 1 a run had one checkpoint of a step at most.
_FROM_VERSION_1 = f"""
ALTER TABLE checkpoints RENAME TO before;
{_CHECKPOINTS};
INSERT OR REPLACE INTO checkpoints SELECT run, step, at, path FROM before ORDER BY run, step;
DROP TABLE before
"""


class RunProgress(NamedTuple):
    """How far a run is. Seconds are those spent running."""

    state: str
    step: int
    seconds: float
    error: str | None = None
    ended: float | None = None


class Entry(NamedTuple):
    """Which row a recorded run is: its number, and when it was begun, which no other run of that number shares."""

    number: int
    begun: float


class Happening(NamedTuple):
    """Something that happened in a run, with what JSON can hold about it."""

    at: float
    step: int
    kind: str
    data: Mapping[str, Any]


def default_path() -> Path:
    """`WORKBENCH_RUNS`, else `runs.sqlite` in the user's folder for data.

    Raises:
        Unavailable: the user has no home.
    """
    chosen = os.environ.get(PLACE)
    data = os.environ.get("XDG_DATA_HOME") or "~/.local/share"
    path = Path(chosen) if chosen else Path(data, "workbench", "runs.sqlite")
    try:
        return path.expanduser()
    except RuntimeError as error:
        raise Unavailable(f"the file of runs {path}: {error}; choose one with {PLACE}") from None


class FileReplaced(NotFound):
    """A run is not in the file since this is not the file any more that it was written to."""


class RunsFile:
    """A file of runs. Each call is a transaction of its own: done, or not done at all.

    Args:
        path: is made when the first run is recorded, with its folder; `default_path()` if None.

    Attributes:
        path: absolute: it stays the same file when the process goes to another folder.

    Raises:
        InvalidType: `path` is no path.
        Unavailable: (every method) the file cannot be read or written; names it, and says why.
        PreconditionNotMet: it is something else than a file of runs, or a newer version of it.
    """

    def __init__(self, path: str | os.PathLike[str] | None = None) -> None:
        if path is not None and (not isinstance(path, str | os.PathLike) or "\0" in str(path)):
            raise InvalidType(f"a file of runs is named by a path, got {path!r}")
        self.path = default_path() if path is None else Path(path)
        with suppress(OSError):  # the current folder is gone
            self.path = self.path.absolute()

    def exists(self) -> bool:
        """Whether a run was ever recorded."""
        return os.path.exists(self.path)

    # What recorders write

    def begin(self, name: str, steps: int | None, settings: Mapping[str, Any]) -> Entry:
        """A new run."""
        now = time.time()
        with self._writing() as db:
            inserted = db.execute(
                "INSERT INTO runs(name, begun, alive, state, step, steps, seconds, settings) VALUES(?,?,?,?,?,?,?,?)",
                (stored.text(name), now, now, "running", 0, stored.count(steps), 0.0, stored.document(settings)),
            )
            number = inserted.lastrowid
        assert number is not None
        return Entry(number, now)

    def describe(self, run: Entry, settings: Mapping[str, Any]) -> None:
        """Replace the settings of a run.

        Raises:
            NotFound: it was deleted. FileReplaced: the file is another one now.
        """
        with self._writing() as db:
            changed = db.execute("UPDATE runs SET settings=? WHERE id=? AND begun=?", (stored.document(settings), *run))
            if not changed.rowcount:
                raise self._missing(db, run.number)

    def add(
        self,
        run: Entry,
        progress: RunProgress,
        numbers: Sequence[tuple[str, int, Sequence[float]]] = (),
        happenings: Sequence[Happening] = (),
        checkpoints: Sequence[tuple[int, str]] | None = None,
    ) -> None:
        """What has come since the last time.

        Args:
            numbers: (name, steps before the first, values of consecutive steps).
            checkpoints: all there are now, (step, path); None leaves them as they are.

        Raises:
            NotFound: it was deleted. FileReplaced: the file is another one now.
        """
        now, number = time.time(), run.number
        error = None if progress.error is None else stored.text(progress.error)
        with self._writing() as db:
            updated = db.execute(
                "UPDATE runs SET state=?, step=?, seconds=?, error=?, ended=?, alive=? WHERE id=? AND begun=?",
                (progress.state, progress.step, progress.seconds, error, progress.ended, now, *run),
            )
            if not updated.rowcount:
                raise self._missing(db, number)
            db.executemany(
                "INSERT OR REPLACE INTO scalars VALUES(?,?,?,?)",
                [(number, stored.text(n), start, np.asarray(v, "<f8").tobytes()) for n, start, v in numbers],
            )
            db.executemany(
                "INSERT INTO events(run, at, step, kind, data) VALUES(?,?,?,?,?)",
                [(number, h.at, h.step, h.kind, stored.document(h.data)) for h in happenings],
            )
            if checkpoints is not None:
                db.execute("DELETE FROM checkpoints WHERE run=?", (number,))
                db.executemany(
                    "INSERT OR REPLACE INTO checkpoints VALUES(?,?,?,?)",
                    [(number, step, now, stored.path(path)) for step, path in checkpoints],
                )

    def _missing(self, db: sqlite3.Connection, number: int) -> NotFound:
        """Why a run is not there; a file gives no number twice, so one that has another run of this number is new."""
        others = db.execute("SELECT 1 FROM runs WHERE id=?", (number,)).fetchone()
        given = db.execute("SELECT seq FROM sqlite_sequence WHERE name='runs'").fetchone()
        if others is None and given is not None and given[0] >= number:
            return NotFound(f"run {number} was deleted from {self.path}")
        return FileReplaced(f"{self.path} was removed or replaced")

    # What users change

    def change(self, run: int, notes: str | None = None, tags: Sequence[str] | None = None) -> None:
        """Set the notes, the tags or both.

        Raises:
            NotFound: there is no such run.
        """
        changes = {
            "notes": None if notes is None else stored.text(notes),
            "tags": None if tags is None else stored.document(sorted(set(tags))),
        }
        with self._writing() as db:
            self._require(db, run)
            for column, value in changes.items():
                if value is not None:
                    db.execute(f"UPDATE runs SET {column}=? WHERE id=?", (value, run))

    def delete(self, runs: Sequence[int]) -> None:
        """Forget runs and all about them, all of these or none.

        Raises:
            NotFound: there is no such run.
        """
        with self._writing() as db:
            for run in runs:
                self._require(db, run)
            db.executemany("DELETE FROM runs WHERE id=?", [(run,) for run in runs])

    # What users read

    def rows(self) -> list[dict[str, Any]]:
        """All runs, oldest first, each as a dict of its columns."""
        if not self.exists():
            return []
        with self._open() as db:
            db.row_factory = sqlite3.Row
            return [stored.row_of(row) for row in db.execute("SELECT * FROM runs ORDER BY id")]

    def scalars(self, run: int) -> dict[str, np.ndarray]:
        """{name: float64 `[steps]`}; steps of which nothing was written are NaN."""
        with self._open() as db:
            return {name: _joined(parts) for name, parts in self._pieces(db, run).items()}

    def curves(self, run: int) -> dict[str, tuple[np.ndarray, np.ndarray]]:
        """{name: (steps, values)} of the steps of which something was written, int64 and float64 `[values]`."""
        with self._open() as db:
            pieces = self._pieces(db, run)
        return {
            name: (
                np.concatenate([np.arange(start + 1, start + 1 + len(values)) for start, values in parts]),
                np.concatenate([values for _, values in parts]),
            )
            for name, parts in pieces.items()
        }

    def _pieces(self, db: sqlite3.Connection, run: int) -> dict[str, list[tuple[int, np.ndarray]]]:
        self._require(db, run)
        pieces = db.execute("SELECT name, start, numbers FROM scalars WHERE run=? ORDER BY name, start", (run,))
        pieces_of: dict[str, list[tuple[int, np.ndarray]]] = {}
        for name, start, blob in pieces:
            pieces_of.setdefault(name, []).append(stored.numbers_of(start, blob))
        return pieces_of

    def last(self, run: int) -> dict[str, float]:
        """{name: newest value}; reads only the end of what there is."""
        with self._open() as db:
            self._require(db, run)
            ends = "SELECT name, numbers, max(start) FROM scalars WHERE run=? GROUP BY name"
            last = {name: stored.numbers_of(at, blob)[1] for name, blob, at in db.execute(ends, (run,))}
        return {name: float(values[-1]) for name, values in last.items() if len(values)}

    def happenings(self, run: int, kind: str | None = None) -> list[Happening]:
        """In the order they were recorded; all, or those of a kind."""
        of_kind = "SELECT at, step, kind, data FROM events WHERE run=? AND kind=ifnull(?, kind) ORDER BY id"
        with self._open() as db:
            self._require(db, run)
            rows = db.execute(of_kind, (run, kind)).fetchall()
            return [Happening(at, step, kind, stored.data_of(data)) for at, step, kind, data in rows]

    def checkpoints(self, run: int) -> list[tuple[int, str]]:
        """(step, path), by step, then by path."""
        with self._open() as db:
            self._require(db, run)
            rows = db.execute("SELECT step, path FROM checkpoints WHERE run=? ORDER BY step, path", (run,)).fetchall()
            return [(step, stored.path_of(path)) for step, path in rows]

    def _require(self, db: sqlite3.Connection, run: int) -> None:
        if db.execute("SELECT 1 FROM runs WHERE id=?", (run,)).fetchone() is None:
            raise NotFound(f"there is no run {run} in {self.path}")

    # The file

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        with self._open(create=True) as db:
            db.execute("BEGIN IMMEDIATE")
            self._bring_up_to_date(db)
            yield db
            db.execute("COMMIT")

    @contextmanager
    def _open(self, create: bool = False) -> Iterator[sqlite3.Connection]:
        try:
            if create:
                self.path.parent.mkdir(parents=True, exist_ok=True)
            elif not self.exists():
                raise NotFound(f"no run was recorded yet in {self.path}")
            if self.path.is_dir():
                raise Unavailable(f"the file of runs {self.path}: it is a folder; choose a file, here or with {PLACE}")
            with in_use():
                opened = _identity(self.path)
                db = sqlite3.connect(self.path, timeout=BUSY_S, isolation_level=None)
                try:
                    self._settle(db)
                    yield db
                finally:
                    self._close(db, opened)
        except EnforceNotMet:
            raise
        except (sqlite3.Error, OSError, ValueError, TypeError, KeyError, OverflowError, MemoryError) as error:
            raise Unavailable(f"the file of runs {self.path}: {stored.why(error)}") from error

    def _close(self, db: sqlite3.Connection, opened: tuple[int, int] | None) -> None:
        """Roll back what was not committed, and leave nothing to a file that has come in this one's place meanwhile.

        SQLite keeps the write-ahead log of a file that was renamed or removed while open, and would read it into
        whatever is at its path by then (https://www.sqlite.org/howtocorrupt.html, section 2.4).
        """
        log = self.path.with_name(self.path.name + "-wal")
        own = _identity(log)
        db.close()
        if own is not None and own == _identity(log) and opened is not None and opened != _identity(self.path):
            log.unlink(missing_ok=True)

    def _settle(self, db: sqlite3.Connection) -> None:
        """Check what the file is; make the tables in a new one."""
        version = _number(db, "PRAGMA user_version")
        if _number(db, "PRAGMA application_id") != APPLICATION:
            if _number(db, _TABLES):
                raise PreconditionNotMet(f"{self.path} is a database of something else; choose another with {PLACE}")
            self._make(db)
        elif version > VERSION:
            raise PreconditionNotMet(
                f"{self.path} was made by a newer workbench (version {version} of the file, this one reads {VERSION})"
            )
        db.execute("PRAGMA foreign_keys=ON")

    def _bring_up_to_date(self, db: sqlite3.Connection) -> None:
        """Give a file of an older version the tables of this one; who only reads gets along with both."""
        if _number(db, "PRAGMA user_version") < VERSION:
            for statement in _FROM_VERSION_1.split(";"):
                db.execute(statement)
            db.execute(f"PRAGMA user_version={VERSION}")

    def _make(self, db: sqlite3.Connection) -> None:
        db.execute("BEGIN IMMEDIATE")
        if not _number(db, _TABLES):  # nobody was faster
            for statement in _SCHEMA.split(";"):
                db.execute(statement)
            db.execute(f"PRAGMA application_id={APPLICATION}")
            db.execute(f"PRAGMA user_version={VERSION}")
        db.execute("COMMIT")
        with suppress(sqlite3.OperationalError):  # who else has it open at this moment does it, or the next one
            db.execute("PRAGMA journal_mode=WAL").fetchall()  # readers and writers do not wait for each other

    def __repr__(self) -> str:
        return f"RunsFile({str(self.path)!r})"


def _identity(path: Path) -> tuple[int, int] | None:
    """Which file is at a path, whatever it is called; None if there is none."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _number(db: sqlite3.Connection, query: str) -> int:
    return int(db.execute(query).fetchone()[0])


def _joined(parts: Sequence[tuple[int, np.ndarray]]) -> np.ndarray:
    out = np.full(max(start + len(values) for start, values in parts), np.nan)
    for start, values in parts:
        out[start : start + len(values)] = values
    return out
