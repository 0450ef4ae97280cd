"""`runs()`: the table of recorded runs."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, overload

from workbench.errors import InvalidArgument, NotFound, did_you_mean, one_of
from workbench.experiments.records.recorded_run import COLUMNS, RecordedRun
from workbench.experiments.records.runs_file import RunsFile
from workbench.experiments.tables.export import write_csv, write_json
from workbench.experiments.tables.run_columns import usual_columns
from workbench.experiments.tables.run_table_text import as_html, as_text


class Runs(Sequence[RecordedRun]):
    """Recorded runs; `runs()` reads them. Sorting and filtering give new tables and change no file.

    Attributes:
        shown: the columns that are shown: those of `show`, else what tells these runs apart.
        over: the settings that `show` was asked to draw values over; empty for those that tell most.
    """

    def __init__(
        self, runs: Iterable[RecordedRun], file: RunsFile, columns: Sequence[str] = (), over: Sequence[str] = ()
    ) -> None:
        self._runs, self._file, self._columns, self.over = list(runs), file, list(columns), list(over)
        self._select: Callable[[], Sequence[RecordedRun]] = lambda: ()

    def _of(self, runs: Iterable[RecordedRun]) -> Runs:
        return Runs(runs, self._file, self._columns, self.over)

    def __len__(self) -> int:
        return len(self._runs)

    def __iter__(self) -> Iterator[RecordedRun]:
        return iter(self._runs)

    @overload
    def __getitem__(self, number: int | str) -> RecordedRun: ...
    @overload
    def __getitem__(self, number: slice) -> Runs: ...
    def __getitem__(self, number: int | str | slice) -> RecordedRun | Runs:
        """The run of a number as the table shows it, or the newest of a name; a slice is by position.

        Raises:
            NotFound: the table has no such run.
        """
        if isinstance(number, slice):
            return self._of(self._runs[number])
        if isinstance(number, str):
            return self._newest(number)
        for run in self._runs:
            if run.number == number:
                return run
        raise NotFound(f"there is no run {number} in this table of {len(self)} runs from {self._file.path}")

    def _newest(self, name: str) -> RecordedRun:
        named = [run for run in self._runs if run.name == name]
        if not named:
            hint = did_you_mean(name, [run.name for run in self._runs])
            raise NotFound(f"there is no run {name!r} in this table of {len(self)} runs from {self._file.path}.{hint}")
        return max(named, key=lambda run: run.number)

    def best(self, by: str | None = None, mode: str = "min") -> RecordedRun:
        """The run with the lowest, or with `mode="max"` the highest, newest value.

        Args:
            by: a fetched value; by default the first that was fetched, of validation data where there are some. NaN is
                never the best.

        Raises:
            NotFound: no run has such a value. InvalidArgument: another mode.
        """
        if mode not in ("min", "max"):
            raise InvalidArgument(f"best takes 'min' or 'max' as mode, got {mode!r}")
        values = list(dict.fromkeys(name for run in self._runs for name in run.last))
        if by is None:
            by = next((f"val_{name}" for name in values if f"val_{name}" in values), next(iter(values), None))
        having = [run for run in self._runs if by in run.last and not math.isnan(run.last[by])]
        if not having or by is None:
            what = "a value" if by is None else f"a value of {by!r} that is a number"
            raise NotFound(f"none of these {len(self)} runs has {what}.{did_you_mean(by, values)}")
        in_order = sorted(having, key=lambda run: run.last[by])
        return in_order[0] if mode == "min" else in_order[-1]

    @property
    def columns(self) -> list[str]:
        """Names that `sort`, `filter` and exports take: of the table, settings, fetched values."""
        names = dict.fromkeys(COLUMNS)
        for run in self._runs:
            names.update(dict.fromkeys(run.last))
            fetched = run.settings.get("fetch")  # also before it has a value
            names.update(dict.fromkeys(map(str, fetched)) if isinstance(fetched, list) else {})
        for run in self._runs:
            names.update(dict.fromkeys(run.settings))
        return list(names | dict.fromkeys(("begun", "ended", "steps", "error", "notes", "tags")))

    def sort(self, by: str, descending: bool = False) -> Runs:
        """By a column; runs that have nothing there come last, after those that have NaN.

        Raises:
            NotFound: no run has such a column.
        """
        self._require(by)
        having = [run for run in self._runs if not _is_absent(run.value(by))]
        absent = [run for run in self._runs if _is_absent(run.value(by))]
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
            for run in self._runs
            if (test is None or test(run))
            and (tag is None or tag in run.tags)
            and all(run.value(name) == value for name, value in wanted.items())
        )

    @property
    def shown(self) -> list[str]:
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
        return Runs(self._runs, self._file, columns, settings)

    def delete(self) -> None:
        """Forget all runs of this table, or, where that fails, none."""
        self._file.delete([run.number for run in self._runs])
        self._runs = []

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
        return [{name: run.value(name) for name in names} for run in self._runs]

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
        write_csv(self.rows(), self.columns, path)

    def to_json(self, path: str | os.PathLike[str]) -> None:
        """Write everything that is known of these runs; see `export.write_json`."""
        write_json(self._runs, path)

    def _require(self, column: str) -> None:
        known = self.columns
        if column not in known:
            hint = did_you_mean(column, known) or f" These have {one_of(known)}"
            raise NotFound(f"no run has a column {column!r}.{hint}")

    def __repr__(self) -> str:
        return as_text(self._runs, self.shown, len(self.columns))

    def _repr_html_(self) -> str:
        return as_html(self._runs, self.shown, len(self.columns))


def _is_absent(value: Any) -> bool:
    """Whether it has no place in an order: nothing, or NaN."""
    return value is None or (isinstance(value, float) and math.isnan(value))


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
