"""`compare(a, b, …)`: runs side by side, what they were made with and how they went."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from itertools import combinations
from typing import Any

import numpy as np

from workbench.errors import InvalidArgument, InvalidType
from workbench.experiments.charts.overlay import overlay_html
from workbench.experiments.charts.pictures import as_image
from workbench.experiments.records.recorded_run import RecordedRun
from workbench.experiments.records.recorder import record_of
from workbench.experiments.run import Run
from workbench.experiments.tables.run_columns import cell
from workbench.experiments.tables.run_table import runs

_MISSING = "-"

Comparable = RecordedRun | Run | int | str


class Comparison:
    """Runs side by side.

    Attributes:
        runs: in the order they were given.
        settings: {name: (of every run)} of the settings that differ; None where a run has none.
        curves: {fetched name: (of every run)}, float64 `[steps]` each, None where a run has not recorded it; of what at
            least two have, or, of one run, all.
    """

    def __init__(self, runs: Sequence[RecordedRun]) -> None:
        self.runs = tuple(runs)
        names = dict.fromkeys(name for run in self.runs for name in run.settings)
        values = {name: tuple(run.settings.get(name) for run in self.runs) for name in names}
        self.settings = {name: own for name, own in values.items() if any(value != own[0] for value in own)}
        labels = dict.fromkeys(name for run in self.runs for name in run.scalars)
        curves = {name: tuple(run.scalars.get(name) for run in self.runs) for name in labels}
        least = min(2, len(self.runs))
        self.curves = {name: own for name, own in curves.items() if sum(c is not None for c in own) >= least}

    @property
    def differences(self) -> dict[str, float]:
        """{fetched name: largest difference of two runs in any step both have made}; NaN in one alone is infinite."""
        return {
            name: max((_difference(a, b) for a, b in combinations([c for c in own if c is not None], 2)), default=0.0)
            for name, own in self.curves.items()
        }

    def _rows(self) -> list[tuple[str, ...]]:
        rows: list[tuple[str, ...]] = [("", *(f"run {run.number}" for run in self.runs))]
        rows += [(name, *(cell(run, name) for run in self.runs)) for name in ("name", "state")]
        for name in ("step", "seconds", "steps_per_second"):
            rows.append((name, *(_shown(getattr(run, name)) for run in self.runs)))
        for name, curves in self.curves.items():
            newest = (float(c[-1]) if c is not None and len(c) else None for c in curves)
            rows.append((f"last {name}", *map(_shown, newest)))
        rows += [(name, *map(_shown, values)) for name, values in self.settings.items()]
        return rows

    def __repr__(self) -> str:
        rows = self._rows()
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        return "\n".join("  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)).rstrip() for row in rows)

    def _repr_html_(self) -> str:
        return overlay_html(self.runs, shown=as_image)


def _difference(a: np.ndarray, b: np.ndarray) -> float:
    count = min(len(a), len(b))
    a, b = a[:count], b[:count]
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    apart = np.abs(a - b)[~same]
    return float(np.where(np.isnan(apart), np.inf, apart).max()) if len(apart) else 0.0


def _shown(value: Any) -> str:
    if value is None:
        return _MISSING
    return f"{value:.6g}" if isinstance(value, float) else " ".join(str(value).split())


def compare(*runs: Comparable | Iterable[Comparable], file: str | os.PathLike[str] | None = None) -> Comparison:
    """Recorded runs side by side, any number of them.

    Args:
        runs: numbers, names (the newest run of that name), rows of `runs()`, or Runs of this process; or one list of
            these, as `runs()` itself.
        file: where numbers and names are looked up; `WORKBENCH_RUNS` or the user's own file by default.

    Raises:
        NotFound: there is no such run. InvalidArgument: none is given. InvalidType: something else; a Run that is not
            recorded.

    Example:
        >>> wb.enable_static()
        >>> x = static.data("x", [None, 4])
        >>> loss = wb.mean(static.nn.fc(x, 2))
        >>> ops, pairs = wb.optimizer.SGD(0.1).minimize(loss)
        >>> data = wb.io.TensorDataset([np.ones((8, 4), np.float32)])
        >>> loader = wb.io.DataLoader(data, batch_size=4)
        >>> net, net_startup = static.default_main_program(), static.default_startup_program()
        >>> first = wb.train(net, loader, epochs=1, fetch={"loss": loss}, startup=net_startup, progress=False).wait()
        >>> second = wb.train(net, loader, epochs=2, fetch={"loss": loss}, progress=False).wait()
        >>> comparison = wb.compare(first, second)
        >>> comparison.settings["epochs"]
        (1, 2)
    """
    given: list[Any] = list(runs)
    if len(given) == 1 and isinstance(given[0], Iterable) and not isinstance(given[0], str):
        given = list(given[0])
    if not given:
        raise InvalidArgument("compare takes the runs that are to be compared, got none")
    return Comparison([_recorded(one, file) for one in given])


def _recorded(given: Any, file: str | os.PathLike[str] | None) -> RecordedRun:
    if isinstance(given, RecordedRun):
        return given
    if isinstance(given, int | str) and not isinstance(given, bool):
        return runs(file)[given]
    record = record_of(given) if isinstance(given, Run) else None
    if record is None:
        raise InvalidType(
            f"compare takes numbers or names of runs, rows of runs(), or Runs that are recorded, got {given!r}"
        )
    record.write()
    if record.number is None:
        raise InvalidType(f"{given!r} could not be recorded: {record.trouble}")
    return runs(record.file.path)[record.number]
