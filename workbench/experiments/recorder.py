"""Writes runs into a file of runs while they go on, on a thread of its own.

Steps cost nothing for it: it reads the histories that runs keep anyway. What cannot be written stays where it is and is
tried again; a run does not notice, and its user is told once.
"""

from __future__ import annotations

import atexit
import threading
import time
from collections.abc import Mapping
from typing import Any
from weakref import WeakKeyDictionary

from workbench import events
from workbench.errors import EnforceNotMet
from workbench.experiments.run import Run
from workbench.experiments.runs_file import Happening, Progress, RunsFile
from workbench.experiments.surroundings import surroundings
from workbench.framework.notice import tell

PERIOD = 0.5  # seconds between looks at the runs
ALIVE = 2.0  # seconds between signs of life of a run that makes no steps
LAST_TRY = 3.0  # seconds a run that ends waits for what is left to be written
PIECE = 1 << 16  # values of a piece at most


class Record:
    """How one run stands in the file.

    Attributes:
        number: of the run, None until it has been written for the first time.
        trouble: why nothing can be written at the moment.
    """

    def __init__(self, run: Run, file: RunsFile, settings: Mapping[str, Any]) -> None:
        self.run, self.file = run, file
        self.number: int | None = None
        self.trouble: str | None = None
        self._settings = settings
        self._written: dict[str, int] = {}
        self._happenings: list[Happening] = []
        self._saved = 0
        self._last: tuple[float, Progress] | None = None
        self._lock = threading.Lock()
        self.complete = False

    def happened(self, kind: str, data: Mapping[str, Any]) -> None:
        """Keep something for the file; for any thread."""
        self._happenings.append(Happening(time.time(), self.run.step, kind, dict(data)))

    def write(self) -> bool:
        """Bring the file up to date; whether that was possible."""
        with self._lock:
            try:
                self._write()
            except (EnforceNotMet, OSError) as error:
                self._tell(str(error))
                return False
            self.trouble = None
            return True

    def _write(self) -> None:
        if self.complete:
            return
        if self.number is None:
            settings = {**self._settings, **surroundings()}  # here, since git may take long
            self.number = self.file.begin(self.run.name, self.run.steps, settings)
        ended = self.run.finished
        progress = _progress(self.run)
        numbers = self._new_numbers()
        happenings, checkpoints = list(self._happenings), self.run.checkpoints[self._saved :]
        if numbers or happenings or checkpoints or self._is_due(progress):
            self.file.add(self.number, progress, numbers, happenings, checkpoints)
            self._last = time.monotonic(), progress
        for name, start, values in numbers:
            self._written[name] = start + len(values)
        del self._happenings[: len(happenings)]
        self._saved += len(checkpoints)
        self.complete = ended and not self._new_numbers()

    def _is_due(self, progress: Progress) -> bool:
        if self._last is None:
            return True
        at, before = self._last
        return progress[:2] != before[:2] or progress.ended != before.ended or time.monotonic() - at >= ALIVE

    def _new_numbers(self) -> list[tuple[str, int, list[float]]]:
        """What the histories have that the file has not, in pieces."""
        found = []
        for name, values in list(self.run.history.items()):
            start, stop = self._written.get(name, 0), len(values)
            found += [(name, at, values[at : min(at + PIECE, stop)]) for at in range(start, stop, PIECE)]
        return found

    def _tell(self, why: str) -> None:
        if self.trouble is None:
            tell(f"run {self.run.name!r} goes on and cannot be recorded now: {why}")
        self.trouble = why


def _progress(run: Run) -> Progress:
    ended = time.time() if run.finished else None
    error = None if run.error is None else f"{type(run.error).__name__}: {run.error}"
    return Progress(str(run.state), run.step, run.seconds, error, ended)


class _Recorder:
    """The thread; one for the process, there while runs are being recorded."""

    def __init__(self) -> None:
        self._records: list[Record] = []
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def take(self, record: Record) -> None:
        with self._lock:
            self._records.append(record)
            if self._thread is None:
                self._thread = threading.Thread(target=self._main, name="workbench recorder", daemon=True)
                self._thread.start()

    def _main(self) -> None:
        while True:
            with self._lock:
                self._records = [r for r in self._records if not r.complete]
                if not self._records:
                    self._thread = None
                    return
                records = list(self._records)
            for record in records:
                record.write()
            time.sleep(PERIOD)

    def finish(self) -> None:
        """At the end of the process: write what there is."""
        with self._lock:
            records = list(self._records)
        for record in records:
            record.write()


_recorder = _Recorder()
atexit.register(_recorder.finish)
_records: WeakKeyDictionary[Run, Record] = WeakKeyDictionary()


def record(run: Run, settings: Mapping[str, Any], file: RunsFile | None = None) -> Record:
    """Record a run that has not begun; errors and drops of temporaries are kept too."""
    made = _records[run] = Record(run, RunsFile() if file is None else file, settings)
    run.subscribe(_Watch(made))
    _recorder.take(made)
    return made


def record_of(run: Run) -> Record | None:
    """How a run is recorded; None if it is not."""
    return _records.get(run)


class _Watch:
    """Hears of the end of a run, on its thread, and of what happens in it."""

    def __init__(self, record: Record) -> None:
        self._record = record
        self._subscription = events.subscribe(self._heard, events.ScopeDrop, events.Error)

    def __call__(self, run: Run) -> None:
        if run.finished or run.error is not None:
            self._subscription.close()
            self._write_the_rest()

    def _heard(self, event: Any) -> None:
        if not self._record.run.is_here():
            return  # somebody else's executor
        if isinstance(event, events.ScopeDrop):
            self._record.happened("scope_drop", {"nbytes": list(event.nbytes), "cause": event.cause})
        else:
            site = None if event.site is None else str(event.site)
            self._record.happened("error", {"text": event.text, "op": event.op, "site": site})

    def _write_the_rest(self) -> None:
        deadline = time.monotonic() + LAST_TRY
        while not self._record.write() and time.monotonic() < deadline:
            time.sleep(PERIOD / 5)
