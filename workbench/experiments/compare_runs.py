"""`compare(a, b, …)`: runs side by side, what they were made with and how they went."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from html import escape
from itertools import combinations, count
from typing import Any

import numpy as np

from workbench.errors import InvalidArgument, InvalidType
from workbench.experiments.recorder import record_of
from workbench.experiments.run import Run
from workbench.experiments.run_table import RecordedRun, runs

WIDTH, HEIGHT, POINTS = 360, 120, 180  # of a drawing, in pixels; points of a curve at most
# Told apart with any kind of colour blindness (Okabe and Ito, 2008); with dashes, 28 lines are.
COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000")
DASHES = ("", "6 3", "2 2", "8 3 2 3")
_MISSING = "-"

Comparable = RecordedRun | Run | int
Curve = tuple[np.ndarray, np.ndarray]  # steps, values


class Comparison:
    """Runs side by side.

    Attributes:
        runs: in the order they were given.
        settings: {name: (of every run)} of the settings that differ; None where a run has none.
        curves: {fetched name: (of every run)}, float64 `[steps]` each, None where a run has not recorded it; of what at
            least two have, or, of one run, all.
    """

    def __init__(self, found: Sequence[RecordedRun]) -> None:
        self.runs = tuple(found)
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
        found: list[tuple[str, ...]] = [("", *(f"run {run.number}" for run in self.runs))]
        for name in ("name", "state", "step", "seconds", "steps_per_second"):
            found.append((name, *(_shown(getattr(run, name)) for run in self.runs)))
        for name, curves in self.curves.items():
            newest = (float(c[-1]) if c is not None and len(c) else None for c in curves)
            found.append((f"last {name}", *map(_shown, newest)))
        found += [(name, *map(_shown, values)) for name, values in self.settings.items()]
        return found

    def __repr__(self) -> str:
        rows = self._rows()
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        return "\n".join("  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)).rstrip() for row in rows)

    def _repr_html_(self) -> str:
        head, *rows = self._rows()
        heads = "".join(f'<th scope="col">{escape(cell)}</th>' for cell in head)
        body = "".join(
            f'<tr><th scope="row">{escape(name)}</th>{"".join(f"<td>{escape(cell)}</td>" for cell in cells)}</tr>'
            for name, *cells in rows
        )
        curves = "".join(self._drawing(name) for name in self.curves)
        table = f"<table><thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table>"
        return f'<div style="overflow-x:auto">{table}</div><div style="display:flex;flex-wrap:wrap">{curves}</div>'

    def _drawing(self, name: str) -> str:
        having = [run for run, curve in zip(self.runs, self.curves[name], strict=True) if curve is not None]
        lines = overlaid([run.curves[name] for run in having])
        label = f"{name} of " + _listed([f"run {run.number}" for run in having])
        legend = "".join(
            f'<span style="white-space:nowrap"><svg width="24" height="8"><line x1="0" x2="24" y1="4" y2="4" '
            f'{_stroke(*style)}/></svg> run {run.number}</span> '
            for run, style in zip(having, _styles(), strict=False)
        )
        return (
            f'<figure style="margin:4px 16px 4px 0"><svg role="img" aria-label="{escape(label)}" width="{WIDTH}" '
            f'height="{HEIGHT}" viewBox="0 -2 {WIDTH} {HEIGHT + 4}">{lines}</svg>'
            f'<figcaption style="max-width:{WIDTH}px">{escape(name)} {legend}</figcaption></figure>'
        )


def _styles() -> Iterator[tuple[str, str]]:
    """Colours and dashes of lines, one after the other."""
    return ((COLORS[i % len(COLORS)], DASHES[(i + 2 * (i // len(COLORS))) % len(DASHES)]) for i in count())


def _stroke(color: str, dashes: str) -> str:
    return f'stroke="{color}" stroke-width="1.5"' + (f' stroke-dasharray="{dashes}"' if dashes else "")


def _listed(words: Sequence[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def overlaid(curves: Sequence[Curve]) -> str:
    """SVG lines of curves in one frame, by step; gaps where values are not finite."""
    known = np.concatenate([values[np.isfinite(values)] for _, values in curves])
    if not len(known):
        return ""
    low, high = float(known.min()), float(known.max())
    last = max(max((int(steps[-1]) for steps, _ in curves if len(steps)), default=1) - 1, 1)
    found = []
    for (steps, values), style in zip(curves, _styles(), strict=False):
        at = np.unique(np.linspace(0, len(values) - 1, POINTS).round().astype(int)) if len(values) else np.empty(0, int)
        at = at[np.isfinite(values[at])]
        x, y = (steps[at] - 1) * (WIDTH / last), HEIGHT - (values[at] - low) * (HEIGHT / ((high - low) or 1.0))
        points = " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(x, y, strict=True))
        found.append(f'<polyline points="{points}" fill="none" {_stroke(*style)}/>')
    return "".join(found)


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


def compare(
    *found: Comparable | Iterable[Comparable], file: str | os.PathLike[str] | None = None
) -> Comparison:
    """Recorded runs side by side, any number of them.

    Args:
        found: numbers, rows of `runs()`, or Runs of this process; or one list of these, as `runs()` itself.
        file: where numbers are looked up; `WORKBENCH_RUNS` or the user's own file by default.

    Raises:
        NotFound: there is no such run. InvalidArgument: none is given. InvalidType: something else; a Run that is not
            recorded.

    Example:
        wb.compare(1, 2, 5)
        wb.compare(wb.runs().filter(tag="good"))
    """
    given: list[Any] = list(found)
    if len(given) == 1 and isinstance(given[0], Iterable) and not isinstance(given[0], str):
        given = list(given[0])
    if not given:
        raise InvalidArgument("compare takes the runs that are to be compared, got none")
    return Comparison([_recorded(one, file) for one in given])


def _recorded(given: Any, file: str | os.PathLike[str] | None) -> RecordedRun:
    if isinstance(given, RecordedRun):
        return given
    if isinstance(given, int) and not isinstance(given, bool):
        return runs(file)[given]
    record = record_of(given) if isinstance(given, Run) else None
    if record is None:
        raise InvalidType(f"compare takes numbers of runs, rows of runs(), or Runs that are recorded, got {given!r}")
    record.write()
    if record.number is None:
        raise InvalidType(f"{given!r} could not be recorded: {record.trouble}")
    return runs(record.file.path)[record.number]
