"""`runs()`: the table of recorded runs."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, overload

import numpy as np

from workbench.errors import InvalidArgument, NotFound, did_you_mean, one_of
from workbench.experiments.runs_file import Happening, RunsFile

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
        self.notes: str = row["notes"]
        self.tags: list[str] = row["tags"]
        is_lost = row["ended"] is None and time.time() - row["alive"] > LOST_S
        self.state: str = "lost" if is_lost else row["state"]

    @property
    def steps_per_second(self) -> float:
        """Completed steps by time spent running."""
        return self.step / self.seconds if self.seconds else 0.0

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
    def first_nan(self) -> int | None:
        """The step from which on something fetched was NaN, which its newest value is; else None."""
        names = [name for name, value in self.last.items() if math.isnan(value)]
        return min((_first_nan(*self.curve(name)) for name in names), default=None)

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
        values = f", {shown}" if shown else ""
        return f"RecordedRun({self.number} {self.name!r}: {self.state}, step {self.step}{of}{values})"


class Runs(Sequence[RecordedRun]):
    """Recorded runs; `runs()` reads them. Sorting and filtering give new tables and change no file.

    Attributes:
        shown: the columns that are shown: those of `show`, else what tells these runs apart.
        over: the settings that `show` was asked to draw values over; empty for those that tell most.
    """

    def __init__(
        self, found: Iterable[RecordedRun], file: RunsFile, columns: Sequence[str] = (), over: Sequence[str] = ()
    ) -> None:
        self._found, self._file, self._columns, self.over = list(found), file, list(columns), list(over)
        self._select: Callable[[], Sequence[RecordedRun]] = lambda: ()

    def _of(self, found: Iterable[RecordedRun]) -> Runs:
        return Runs(found, self._file, self._columns, self.over)

    def __len__(self) -> int:
        return len(self._found)

    def __iter__(self) -> Iterator[RecordedRun]:
        return iter(self._found)

    @overload
    def __getitem__(self, number: int) -> RecordedRun: ...
    @overload
    def __getitem__(self, number: slice) -> Runs: ...
    def __getitem__(self, number: int | slice) -> RecordedRun | Runs:
        """The run of a number as the table shows it; a slice is by position.

        Raises:
            NotFound: the table has no such run.
        """
        if isinstance(number, slice):
            return self._of(self._found[number])
        for run in self._found:
            if run.number == number:
                return run
        raise NotFound(f"there is no run {number} in this table of {len(self)} runs from {self._file.path}")

    @property
    def columns(self) -> list[str]:
        """Names that `sort`, `filter` and exports take: of the table, settings, fetched values."""
        names = dict.fromkeys(COLUMNS)
        for run in self._found:
            names.update(dict.fromkeys(run.last))
            fetched = run.settings.get("fetch")  # also before it has a value
            names.update(dict.fromkeys(map(str, fetched)) if isinstance(fetched, list) else {})
        for run in self._found:
            names.update(dict.fromkeys(run.settings))
        return list(names | dict.fromkeys(("begun", "ended", "steps", "error", "notes", "tags")))

    def sort(self, by: str, descending: bool = False) -> Runs:
        """By a column; runs that have nothing there come last, after those that have NaN.

        Raises:
            NotFound: no run has such a column.
        """
        self._require(by)
        having = [run for run in self._found if not _is_absent(run.value(by))]
        absent = [run for run in self._found if _is_absent(run.value(by))]
        try:
            having.sort(key=lambda run: run.value(by), reverse=descending)
        except TypeError:
            having.sort(key=lambda run: str(run.value(by)), reverse=descending)
        return self._of([*having, *sorted(absent, key=lambda run: run.value(by) is None)])

    def filter(self, test: Callable[[RecordedRun], bool] | None = None, tag: str | None = None, **wanted: Any) -> Runs:
        """The runs for which `test(run)` holds, that have the tag and whose columns are as wanted.

        Raises:
            NotFound: no run has such a column.
        """
        for name in wanted:
            self._require(name)
        return self._of(
            run
            for run in self._found
            if (test is None or test(run))
            and (tag is None or tag in run.tags)
            and all(run.value(name) == value for name, value in wanted.items())
        )

    @property
    def shown(self) -> list[str]:
        from workbench.experiments.run_columns import usual_columns

        return list(self._columns) or usual_columns(self)

    def show(self, *columns: str, over: Sequence[str] = ()) -> Runs:
        """The same runs with these columns; without any, with the usual ones.

            wb.runs().show("name", "loss", "batch_size")
            wb.runs().show(over=["learning_rate", "batch_size"])

        Args:
            over: settings over which a notebook draws what came of the runs; those that tell most by default.

        Raises:
            NotFound: no run has such a column.
        """
        settings = [over] if isinstance(over, str) else list(over)
        for name in (*columns, *settings):
            self._require(name)
        return Runs(self._found, self._file, columns, settings)

    def delete(self) -> None:
        """Forget all runs of this table, or, where that fails, none."""
        self._file.delete([run.number for run in self._found])
        self._found = []

    @property
    def selected(self) -> Runs:
        """The runs that are selected in the table a notebook shows of these: `wb.compare(found.selected)`."""
        return self._of(self._select())

    def select_by(self, select: Callable[[], Sequence[RecordedRun]]) -> None:
        """Have `select()` say which runs are selected; for what shows them."""
        self._select = select

    def rows(self, columns: Sequence[str] | None = None) -> list[dict[str, Any]]:
        """Each run as a dict of columns; all columns by default."""
        names = list(columns) if columns is not None else self.columns
        return [{name: run.value(name) for name in names} for run in self._found]

    def to_pandas(self) -> Any:
        """A DataFrame of `rows()`, with the numbers as index.

        Raises:
            InvalidArgument: pandas is not installed.
        """
        try:
            import pandas  # type: ignore[import-untyped]
        except ImportError:
            raise InvalidArgument("to_pandas() needs pandas: pip install pandas; rows() gives dicts") from None
        return pandas.DataFrame(self.rows(), columns=self.columns).set_index("number")

    def to_csv(self, path: str | os.PathLike[str]) -> None:
        """Write the table; see `export.write_csv`."""
        from workbench.experiments.export import write_csv

        write_csv(self, path)

    def to_json(self, path: str | os.PathLike[str]) -> None:
        """Write everything that is known of these runs; see `export.write_json`."""
        from workbench.experiments.export import write_json

        write_json(self, path)

    def _require(self, column: str) -> None:
        known = self.columns
        if column not in known:
            hint = did_you_mean(column, known) or f" These have {one_of(known)}"
            raise NotFound(f"no run has a column {column!r}.{hint}")

    def __repr__(self) -> str:
        from workbench.experiments.run_table_text import as_text

        return as_text(self)

    def _repr_html_(self) -> str:
        from workbench.experiments.run_table_text import as_html

        return as_html(self)


def _is_absent(value: Any) -> bool:
    """Whether it has no place in an order: nothing, or NaN."""
    return value is None or (isinstance(value, float) and math.isnan(value))


def _first_nan(steps: np.ndarray, values: np.ndarray) -> int:
    """Of values that end with NaN; what stands before the first number was not recorded, unless there is none."""
    is_nan = np.isnan(values)
    begin = int(np.argmin(is_nan))  # 0 where all are NaN
    return int(steps[begin + int(np.argmax(is_nan[begin:]))])


def runs(file: str | os.PathLike[str] | None = None) -> Runs:
    """All recorded runs, newest first.

    Args:
        file: `WORKBENCH_RUNS` or the user's own file by default.

    Raises:
        Unavailable: the file cannot be read; says why.

    Example:
        >>> best = wb.runs().filter(state="done").sort("loss")[:3]
        >>> wb.runs().to_csv("runs.csv")
    """
    source = RunsFile(file)
    return Runs([RecordedRun(source, row) for row in reversed(source.rows())], source)
