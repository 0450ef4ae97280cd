"""Writes runs into files of runs while they go on, on a thread for each file.

Steps cost nothing for it: it reads the histories that runs keep anyway. What cannot be written stays where it is and
is tried again; a run does not notice, and its user is told once. Nobody but its thread touches a file, and nobody waits
for that thread without a deadline: a file system may go away and never answer.
"""

from __future__ import annotations

import atexit
import os
import threading
import time
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Any
from weakref import WeakKeyDictionary, ref

from workbench import events
from workbench.errors import NotFound
from workbench.experiments.first_nan import FirstNaN
from workbench.experiments.records.runs_file import FIRST_NAN, Entry, FileReplaced, Happening, RunProgress, RunsFile
from workbench.experiments.records.surroundings import surroundings
from workbench.experiments.run import Run
from workbench.experiments.run_state import State
from workbench.experiments.runners import executor_of
from workbench.framework.notice import tell_anyway

PERIOD = 0.5  # seconds between looks at the runs
ALIVE = 2.0  # seconds between signs of life of a run that makes no steps
LAST_TRY = 3.0  # seconds a run that ends waits for what is left to be written
PIECE = 1 << 16  # values of a piece at most
_FIRST_S = 0.5  # that a run which begins waits for its row
_POLL = 0.002  # seconds between looks at whether something has been written
_DROPS = 1000  # that are at hand without the file


class Record:
    """How one run stands in the file.

    Attributes:
        number: of the run, None until it has been written for the first time.
        trouble: why nothing can be written at the moment.
        complete: nothing more is to come.
        drops: of temporaries, the newest; dropped: how many there have been.
    """

    def __init__(self, run: Run, file: RunsFile, settings: Mapping[str, Any]) -> None:
        self._run, self.file = ref(run), file
        self._kept: Run | None = run
        self.trouble: str | None = None
        self.complete = False
        self.drops: deque[events.ScopeDrop] = deque(maxlen=_DROPS)
        self.dropped = 0
        self._settings = settings
        self._entry: Entry | None = None
        self._is_described = False
        self._written: dict[str, int] = {}
        self._happenings: list[Happening] = []
        self._nan_written = False
        self._checkpoints: list[tuple[int, str]] = []
        self._last: tuple[float, RunProgress] | None = None
        self._begun = time.strftime("%H:%M:%S")
        self._attempts = self._ends = 0  # attempts to write: begun, ended
        self._writer = _writer_of(file)

    @property
    def run(self) -> Run:
        """The run, which lives until all of it is in the file, and then as long as somebody else has it."""
        run = self._run()
        assert run is not None
        return run

    @property
    def number(self) -> int | None:
        return None if self._entry is None else self._entry.number

    def happened(self, kind: str, data: Mapping[str, Any]) -> None:
        """Keep something for the file; for any thread."""
        self._happenings.append(Happening(time.time(), self.run.step, kind, dict(data)))

    def gave_back(self, drop: events.ScopeDrop) -> None:
        """Keep a drop of temporaries, for the file and at hand."""
        self.drops.append(drop)
        self.dropped += 1
        self.happened("scope_drop", {"nbytes": list(drop.nbytes), "cause": drop.cause})

    def begin(self, timeout: float) -> None:
        """Wait, at most so many seconds, until the run is in the file: its process may die at any time."""
        self._writer.hurry()
        deadline = time.monotonic() + timeout
        while not (self._entry is not None or self._ends or self.complete) and time.monotonic() < deadline:
            time.sleep(_POLL)

    def write(self, timeout: float = LAST_TRY) -> bool:
        """Have the file brought up to date.

        Args:
            timeout: seconds to wait for it.

        Returns:
            whether it is.
        """
        wanted, deadline = self._attempts + 1, time.monotonic() + timeout
        self._writer.hurry()
        while self._ends < wanted and not self.complete and time.monotonic() < deadline:
            time.sleep(_POLL)
        if self._ends < wanted and not self.complete:
            self._say(TimeoutError(f"the file has not answered for {timeout:.1f} s"))
        return self.complete or (self._ends >= wanted and self.trouble is None)

    def attempt(self) -> None:
        """Bring the file up to date, if possible; for the file's thread only."""
        self._attempts += 1
        try:
            self._write()
            self.trouble = None
        except Exception as error:  # whatever it is, the run goes on, and the others of this file are recorded
            self._say(error)
        finally:
            self._ends += 1

    def _write(self) -> None:
        if self.complete:
            return
        if self._entry is None:
            self._begin()
        try:
            is_whole = self._add()
            self._describe()
            if is_whole:
                self._finish()
        except FileReplaced:
            self._write_anew()
        except NotFound:
            tell_anyway(f"{self._title()} was deleted from {self.file.path} and is not recorded any more")
            self._finish()

    def _begin(self) -> None:
        self._entry, self._is_described = self.file.begin(self.run.name, self.run.steps, self._settings), False

    def _describe(self) -> None:
        """Add the surroundings, once the run is in the file: git may take long, and a process may die meanwhile."""
        if self._entry is not None and not self._is_described:
            self.file.describe(self._entry, {**self._settings, **surroundings()})
            self._is_described = True

    def _add(self) -> bool:
        """Write what is new; whether nothing more will be."""
        assert self._entry is not None
        ended = self.run.finished
        progress = _progress(self.run)
        numbers = self._new_numbers()
        nan = None if self._nan_written else self.run.first_nan
        happenings, checkpoints = list(self._happenings), list(self.run.checkpoints)
        told = [*happenings, *([] if nan is None else [_happening_of(nan)])]
        kept = checkpoints if checkpoints != self._checkpoints else None
        if numbers or told or kept is not None or self._is_due(progress):
            self.file.add(self._entry, progress, numbers, told, kept)
            self._last = time.monotonic(), progress
        for name, _, values in numbers:
            self._written[name] = self._written.get(name, 0) + len(values)
        del self._happenings[: len(happenings)]
        self._nan_written = self._nan_written or nan is not None
        self._checkpoints = checkpoints
        return ended and not self._new_numbers()

    def _finish(self) -> None:
        """Nothing more is to come: nothing here keeps the run, and what it was trained with, in memory any more."""
        self.complete, self._kept = True, None

    def _write_anew(self) -> None:
        self._entry, self._last, self._written, self._checkpoints = None, None, {}, []
        self._nan_written = False
        self._begin()
        is_whole = self._add()
        self._describe()
        tell_anyway(
            f"{self.file.path} was removed or replaced while {self._title()} was recorded in it; the run is written "
            "anew, without its events so far; other runs that were in the file are lost"
        )
        if is_whole:
            self._finish()

    def _is_due(self, progress: RunProgress) -> bool:
        if self._last is None:
            return True
        at, before = self._last
        return progress[:2] != before[:2] or progress.ended != before.ended or time.monotonic() - at >= ALIVE

    def _new_numbers(self) -> list[tuple[str, int, list[float]]]:
        """What the histories have that the file has not, in pieces."""
        pieces = []
        for name, values in list(self.run.history.items()):
            start, stop = self._written.get(name, 0), len(values)
            if name in self.run.val_labels:
                steps = self.run.validated[start:stop]
                pieces += [(name, step - 1, [value]) for step, value in zip(steps, values[start:], strict=False)]
            else:
                pieces += [(name, at, values[at : min(at + PIECE, stop)]) for at in range(start, stop, PIECE)]
        return pieces

    def _say(self, error: Exception) -> None:
        why, path = _said(error), str(self.file.path)
        if self.trouble is None:
            file = "" if path in why else f" in {path}"
            tell_anyway(
                f"{self._title()} goes on and cannot be recorded now{file}: {why}. What it does from step "
                f"{max(self._written.values(), default=0) + 1} on is kept in memory and tried again, and lost if that "
                "lasts to the end of the process"
            )
        self.trouble = why

    def _title(self) -> str:
        return f"run {self.run.name!r} (begun {self._begun})"


def _happening_of(nan: FirstNaN) -> Happening:
    data = {"kind": nan.kind, "op": nan.op, "device": nan.device, "reason": nan.reason}
    return Happening(time.time(), nan.step, FIRST_NAN, data)


def _progress(run: Run) -> RunProgress:
    ended = time.time() if run.finished else None
    error = None if run.error is None else f"{type(run.error).__name__}: {_said(run.error)}"
    state = State.RUNNING if run.state == State.READY else run.state  # it is recorded at the moment it begins
    return RunProgress(str(state), run.step, run.seconds, error, ended)


def _said(error: BaseException) -> str:
    """The text of an error; of somebody else's too, which may fail to have one."""
    try:
        return str(error) or type(error).__name__
    except Exception:
        return f"{type(error).__name__} without a text"


class _Writer:
    """The thread of one file; there while runs are being recorded in it."""

    def __init__(self) -> None:
        self._records: list[Record] = []
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._hurried: SimpleQueue[None] = SimpleQueue()

    def take(self, record: Record) -> None:
        with self._lock:
            self._records.append(record)
            if self._thread is None:
                self._thread = threading.Thread(target=self._main, name="workbench recorder", daemon=True)
                self._thread.start()

    def hurry(self) -> None:
        """Look at the runs now."""
        self._hurried.put(None)

    def records(self) -> list[Record]:
        """Those that are not complete."""
        return [record for record in list(self._records) if not record.complete]

    def _main(self) -> None:
        while True:
            with self._lock:
                self._records = self.records()
                if not self._records:
                    self._thread = None
                    return
                records = list(self._records)
            for record in records:
                record.attempt()
            with suppress(Empty):
                self._hurried.get(timeout=PERIOD)


_writers: dict[str, _Writer] = {}
_records: WeakKeyDictionary[Run, Record] = WeakKeyDictionary()


def _writer_of(file: RunsFile) -> _Writer:
    return _writers.setdefault(str(file.path), _Writer())


def _finish() -> None:
    """At the end of the process: write what there is, as far as that is possible soon."""
    deadline = time.monotonic() + LAST_TRY
    for record in [record for writer in list(_writers.values()) for record in writer.records()]:
        record.write(max(deadline - time.monotonic(), 0.0))


def _forget() -> None:
    """In a forked process: its parent writes its own runs, on threads that are not here."""
    _writers.clear()
    _records.clear()


atexit.register(_finish)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)


def record(run: Run, settings: Mapping[str, Any], file: RunsFile | None = None) -> Record:
    """Record a run that has not begun; errors and drops of temporaries are kept too."""
    new = _records[run] = Record(run, RunsFile() if file is None else file, settings)
    run.subscribe(_Watch(new), at_rest=False)
    new._writer.take(new)
    new.begin(_FIRST_S)
    return new


def record_of(run: Run) -> Record | None:
    """How a run is recorded; None if it is not."""
    return _records.get(run)


class _Watch:
    """Hears of the end of a run, on its thread, and of what happens in it: of drops whoever asks for them."""

    def __init__(self, record: Record) -> None:
        self._record = record
        executor = executor_of(record.run.executor)
        self._executor = None if executor is None else executor.inspection.name
        self._subscription = events.subscribe(self._heard, events.ScopeDrop, events.Error)

    def __call__(self, run: Run) -> None:
        if run.finished or run.error is not None:
            self._subscription.close()
            self._write_the_rest()

    def _heard(self, event: Any) -> None:
        is_drop = isinstance(event, events.ScopeDrop)
        if not self._record.run.is_here() and not (is_drop and event.executor == self._executor):
            return  # somebody else's executor, or step
        if is_drop:
            self._record.gave_back(event)
        else:
            site = None if event.site is None else str(event.site)
            self._record.happened("error", {"text": event.text, "op": event.op, "site": site})

    def _write_the_rest(self) -> None:
        if (nan := self._record.run.first_nan) is not None:
            nan.find()  # here: who writes the file would take as long, and be waited for
        deadline = time.monotonic() + LAST_TRY
        while not self._record.write(LAST_TRY) and time.monotonic() < deadline:
            time.sleep(PERIOD / 5)
