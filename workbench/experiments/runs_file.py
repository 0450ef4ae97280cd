"""The SQLite file in which runs are recorded; several processes may read and write it at once.

Values of every step are kept in pieces, each the float64 values of consecutive steps, little-endian, so that a
million steps take a thousand rows.
"""

from __future__ import annotations

import json
import os
import sqlite3
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from workbench.errors import InvalidArgument, NotFound, PreconditionNotMet, Unavailable

APPLICATION = 0x776B6277  # tells the file from other databases
VERSION = 1
BUSY_S = 2.0  # how long to wait for another process's transaction
PLACE = "WORKBENCH_RUNS"  # environment variable that chooses the file

_TABLES = "SELECT count(*) FROM sqlite_master"
_SCHEMA = """
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
CREATE TABLE checkpoints(
    run INTEGER NOT NULL REFERENCES runs(id) ON DELETE CASCADE, step INTEGER NOT NULL, at REAL NOT NULL,
    path TEXT NOT NULL, PRIMARY KEY(run, step)) WITHOUT ROWID;
"""


class Progress(NamedTuple):
    """How far a run is. Seconds are those spent running."""

    state: str
    step: int
    seconds: float
    error: str | None = None
    ended: float | None = None


class Happening(NamedTuple):
    """Something that happened in a run, with what JSON can hold about it."""

    at: float
    step: int
    kind: str
    data: Mapping[str, Any]


def default_path() -> Path:
    """`WORKBENCH_RUNS`, else `runs.sqlite` in the user's folder for data."""
    chosen = os.environ.get(PLACE)
    if chosen:
        return Path(chosen).expanduser()
    data = os.environ.get("XDG_DATA_HOME") or "~/.local/share"
    return Path(data).expanduser() / "workbench" / "runs.sqlite"


class RunsFile:
    """A file of runs. Each call is a transaction of its own: done, or not done at all.

    Args:
        path: is made when the first run is recorded, with its folder; `default_path()` if None.

    Raises:
        Unavailable: (every method) the file cannot be read or written; names it, and says why.
        PreconditionNotMet: it is something else than a file of runs, or a newer version of it.
    """

    def __init__(self, path: str | os.PathLike[str] | None = None) -> None:
        self.path = default_path() if path is None else Path(path)

    def exists(self) -> bool:
        """Whether a run was ever recorded."""
        return self.path.exists()

    # What recorders write

    def begin(self, name: str, steps: int | None, settings: Mapping[str, Any]) -> int:
        """A new run; returns its number."""
        now = time.time()
        with self._writing() as db:
            found = db.execute(
                "INSERT INTO runs(name, begun, alive, state, step, steps, seconds, settings) VALUES(?,?,?,?,?,?,?,?)",
                (name, now, now, "running", 0, steps, 0.0, _to_text(settings)),
            )
            number = found.lastrowid
        assert number is not None
        return number

    def add(
        self,
        run: int,
        progress: Progress,
        numbers: Sequence[tuple[str, int, Sequence[float]]] = (),
        happenings: Sequence[Happening] = (),
        checkpoints: Sequence[tuple[int, str]] = (),
    ) -> None:
        """What has come since the last time.

        Args:
            numbers: (name, first step, values of consecutive steps). checkpoints: (step, path).
        """
        now = time.time()
        with self._writing() as db:
            db.execute(
                "UPDATE runs SET state=?, step=?, seconds=?, error=?, ended=?, alive=? WHERE id=?",
                (progress.state, progress.step, progress.seconds, progress.error, progress.ended, now, run),
            )
            db.executemany(
                "INSERT OR REPLACE INTO scalars VALUES(?,?,?,?)",
                [(run, name, start, np.asarray(values, "<f8").tobytes()) for name, start, values in numbers],
            )
            db.executemany(
                "INSERT INTO events(run, at, step, kind, data) VALUES(?,?,?,?,?)",
                [(run, h.at, h.step, h.kind, _to_text(h.data)) for h in happenings],
            )
            db.executemany(
                "INSERT OR REPLACE INTO checkpoints VALUES(?,?,?,?)", [(run, s, now, path) for s, path in checkpoints]
            )

    # What users change

    def change(self, run: int, notes: str | None = None, tags: Sequence[str] | None = None) -> None:
        """Set the notes, the tags or both.

        Raises:
            NotFound: there is no such run.
        """
        with self._writing() as db:
            self._require(db, run)
            if notes is not None:
                db.execute("UPDATE runs SET notes=? WHERE id=?", (notes, run))
            if tags is not None:
                db.execute("UPDATE runs SET tags=? WHERE id=?", (_to_text(sorted(set(tags))), run))

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
            found = [dict(row) for row in db.execute("SELECT * FROM runs ORDER BY id")]
        for row in found:
            row["settings"], row["tags"] = json.loads(row["settings"]), json.loads(row["tags"])
        return found

    def scalars(self, run: int) -> dict[str, np.ndarray]:
        """{name: float64 `[steps]`}; steps of which nothing was written are NaN."""
        with self._open() as db:
            self._require(db, run)
            pieces = db.execute("SELECT name, start, numbers FROM scalars WHERE run=? ORDER BY name, start", (run,))
            found: dict[str, list[tuple[int, np.ndarray]]] = {}
            for name, start, blob in pieces:
                found.setdefault(name, []).append((start, np.frombuffer(blob, "<f8")))
        return {name: _joined(parts) for name, parts in found.items()}

    def last(self, run: int) -> dict[str, float]:
        """{name: newest value}; reads only the end of what there is."""
        with self._open() as db:
            self._require(db, run)
            ends = "SELECT name, numbers, max(start) FROM scalars WHERE run=? GROUP BY name"
            return {name: float(np.frombuffer(blob, "<f8")[-1]) for name, blob, _ in db.execute(ends, (run,))}

    def happenings(self, run: int) -> list[Happening]:
        """In the order they were recorded."""
        with self._open() as db:
            self._require(db, run)
            rows = db.execute("SELECT at, step, kind, data FROM events WHERE run=? ORDER BY id", (run,)).fetchall()
        return [Happening(at, step, kind, json.loads(data)) for at, step, kind, data in rows]

    def checkpoints(self, run: int) -> list[tuple[int, str]]:
        """(step, path), by step."""
        with self._open() as db:
            self._require(db, run)
            return db.execute("SELECT step, path FROM checkpoints WHERE run=? ORDER BY step", (run,)).fetchall()

    def _require(self, db: sqlite3.Connection, run: int) -> None:
        if db.execute("SELECT 1 FROM runs WHERE id=?", (run,)).fetchone() is None:
            raise NotFound(f"there is no run {run} in {self.path}")

    # The file

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        with self._open(create=True) as db:
            db.execute("BEGIN IMMEDIATE")
            yield db
            db.execute("COMMIT")

    @contextmanager
    def _open(self, create: bool = False) -> Iterator[sqlite3.Connection]:
        try:
            if create:
                self.path.parent.mkdir(parents=True, exist_ok=True)
            elif not self.exists():
                raise NotFound(f"no run was recorded yet in {self.path}")
            db = sqlite3.connect(self.path, timeout=BUSY_S, isolation_level=None)
            try:
                self._settle(db)
                yield db
            finally:
                db.close()  # rolls back what was not committed
        except (sqlite3.Error, OSError) as error:
            raise Unavailable(f"the file of runs {self.path}: {_why(error)}") from error

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


def _number(db: sqlite3.Connection, query: str) -> int:
    return int(db.execute(query).fetchone()[0])


def _joined(parts: Sequence[tuple[int, np.ndarray]]) -> np.ndarray:
    out = np.full(max(start + len(values) for start, values in parts), np.nan)
    for start, values in parts:
        out[start : start + len(values)] = values
    return out


def _to_text(value: Any) -> str:
    try:
        return json.dumps(value, allow_nan=False, sort_keys=isinstance(value, dict))
    except (TypeError, ValueError) as error:
        raise InvalidArgument(f"a run keeps what JSON can hold: {error}") from None


def _why(error: Exception) -> str:
    """In the user's words."""
    text = str(error)
    reasons = {
        "locked": "another process has kept it locked",
        "disk is full": "the disk is full",
        "readonly": "it, or its folder, is read-only",
        "not a database": "it is damaged, or not a database",
        "malformed": "it is damaged",
        "unable to open": "it cannot be opened; its folder may be read-only",
    }
    found = next((reason for part, reason in reasons.items() if part in text), None)
    return f"{found} ({text})" if found else text
