"""A recorded run, as the file of runs has it."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Any

import numpy as np

from workbench.errors import NotFound, did_you_mean
from workbench.experiments.first_nan import title_of
from workbench.experiments.records.runs_file import FIRST_NAN, Happening, RunsFile
from workbench.framework.text.printable import printable

LOST_S = 15.0  # without a sign of life a run is taken for lost
COLUMNS = ("number", "name", "state", "step", "seconds", "steps_per_second")


class RecordedRun:
    """A run as the file of runs has it, at the moment it was read.

    Attributes:
        number: what it is called in `runs()[number]`.
        name, step, steps, seconds, error: as in `Run`; error is a text.
        state: as in `Run`; "lost" if its process has given no sign of life for `LOST_S` seconds.
        begun, ended: seconds since 1970; ended is None while it runs.
        settings: what it was made with. notes, tags: the user's.
    """

    def __init__(self, file: RunsFile, row: Mapping[str, Any]) -> None:
        self._file = file
        self.number: int = row["id"]
        self.name: str = row["name"]
        self.step: int = row["step"]
        self.steps: int | None = row["steps"]
        self.seconds: float = row["seconds"]
        self.begun: float = row["begun"]
        self.ended: float | None = row["ended"]
        self.error: str | None = row["error"]
        self.settings: dict[str, Any] = row["settings"]
        if "devices" in self.settings:  # it was recorded only where it was chosen, and was AllReduce elsewhere
            self.settings.setdefault("reduce_strategy", "AllReduce")
        self.notes: str = row["notes"]
        self.tags: list[str] = row["tags"]
        is_lost = row["ended"] is None and time.time() - row["alive"] > LOST_S
        self.state: str = "lost" if is_lost else row["state"]

    @property
    def steps_per_second(self) -> float:
        """Completed steps by time spent running."""
        before = self.settings.get("resumed_step")  # steps of the run from whose checkpoint it went on
        own = self.step - (before if isinstance(before, int) else 0)
        return max(own, 0) / self.seconds if self.seconds else 0.0

    @cached_property
    def scalars(self) -> dict[str, np.ndarray]:
        """{fetched name: float64 `[steps]`}."""
        return self._file.scalars(self.number)

    @cached_property
    def curves(self) -> dict[str, tuple[np.ndarray, np.ndarray]]:
        """{fetched name: (steps, values)} of the steps that have a value, int64 and float64 `[values]`."""
        return self._file.curves(self.number)

    def curve(self, label: str) -> tuple[np.ndarray, np.ndarray]:
        """The steps that have a value of this name, and the values.

        Raises:
            NotFound: it has not been recorded.
        """
        if label not in self.curves:
            raise NotFound(f"run {self.number} has no values of {label!r}.{did_you_mean(label, self.curves)}")
        return self.curves[label]

    @cached_property
    def last(self) -> dict[str, float]:
        """The newest value of everything fetched."""
        return self._file.last(self.number)

    @cached_property
    def _seen(self) -> tuple[int, str] | None:
        """The step of the first NaN or Inf, and which of the two.

        It is what the run saw in its loss and gradients; of a run that could not see it, from where on something
        fetched was NaN, which its newest value is.
        """
        for told in self._file.happenings(self.number, FIRST_NAN):
            return told.step, "Inf" if told.data.get("kind") == "Inf" else "NaN"
        names = [name for name, value in self.last.items() if math.isnan(value)]
        steps = [_first_nan(*self.curve(name)) for name in names]
        return (min(steps), "NaN") if steps else None

    @property
    def first_nan(self) -> int | None:
        """The first step with a NaN or an Inf, None if there was none; as `run.first_nan.step`."""
        return None if self._seen is None else self._seen[0]

    @property
    def nan_title(self) -> str:
        """`Inf from step 27`, as `run.first_nan.title`; empty if there was none."""
        return "" if self._seen is None else title_of(self._seen[1], self._seen[0])

    @property
    def events(self) -> list[Happening]:
        """Drops of temporaries, errors, checkpoints, in order."""
        return self._file.happenings(self.number)

    @property
    def checkpoints(self) -> list[tuple[int, str]]:
        """(step, path), by step."""
        return self._file.checkpoints(self.number)

    def note(self, text: str) -> None:
        """Replace the notes.

        Raises:
            NotFound: it was deleted meanwhile. Unavailable: the file cannot be written.
        """
        self._file.change(self.number, notes=text)
        self.notes = text

    def tag(self, *tags: str) -> None:
        """Add tags. Raises: as `note`."""
        self._set_tags({*self.tags, *tags})

    def untag(self, *tags: str) -> None:
        """Take tags away, those it has. Raises: as `note`."""
        self._set_tags(set(self.tags) - set(tags))

    def _set_tags(self, tags: Iterable[str]) -> None:
        new = sorted(tags)
        self._file.change(self.number, tags=new)
        self.tags = new

    def delete(self) -> None:
        """Forget it and all about it; files of checkpoints stay. Raises: as `note`."""
        self._file.delete([self.number])

    def value(self, column: str) -> Any:
        """What a column of the table shows; None where it has nothing."""
        if column in COLUMNS or column in ("begun", "ended", "error", "notes", "tags", "steps"):
            return getattr(self, column)
        if column in self.settings:
            return self.settings[column]
        return self.last.get(column)

    def __repr__(self) -> str:
        of = f" of {self.steps}" if self.steps is not None else ""
        shown = ", ".join(f"{name} {value:.4g}" for name, value in self.last.items())
        values = f", {printable(shown)}" if shown else ""
        nan = f", {self.nan_title}" if self.nan_title else ""
        return f"RecordedRun({self.number} {self.name!r}: {self.state}, step {self.step}{of}{values}{nan})"


def _first_nan(steps: np.ndarray, values: np.ndarray) -> int:
    """Of values that end with NaN; what stands before the first number was not recorded, unless there is none."""
    is_nan = np.isnan(values)
    begin = int(np.argmin(is_nan))  # 0 where all are NaN
    return int(steps[begin + int(np.argmax(is_nan[begin:]))])
