"""`compare(a, b)`: two runs side by side, what they were made with and how they went."""

from __future__ import annotations

import os
from html import escape
from typing import Any

import numpy as np

from workbench.errors import InvalidType
from workbench.experiments.recorder import record_of
from workbench.experiments.run import Run
from workbench.experiments.run_table import RecordedRun, runs

WIDTH, HEIGHT, POINTS = 360, 120, 180  # of a drawing, in pixels; points of a curve at most
COLORS = ("#0072b2", "#d55e00")  # told apart with any kind of colour blindness (Okabe and Ito, 2008)
_MISSING = "-"

Comparable = RecordedRun | Run | int


class Comparison:
    """Two runs.

    Attributes:
        a, b: the runs.
        settings: {name: (of a, of b)} of the settings that differ; None where a run has none.
        curves: {fetched name: (of a, of b)}, float64 `[steps]` each, of what both have recorded.
    """

    def __init__(self, a: RecordedRun, b: RecordedRun) -> None:
        self.a, self.b = a, b
        names = dict.fromkeys([*a.settings, *b.settings])
        pairs = {name: (a.settings.get(name), b.settings.get(name)) for name in names}
        self.settings = {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}
        self.curves = {name: (values, b.scalars[name]) for name, values in a.scalars.items() if name in b.scalars}

    @property
    def differences(self) -> dict[str, float]:
        """{fetched name: largest difference in any step both have made}; NaN in one alone counts as infinite."""
        return {name: _difference(*pair) for name, pair in self.curves.items()}

    def _rows(self) -> list[tuple[str, str, str]]:
        found = [("", f"run {self.a.number}", f"run {self.b.number}")]
        for name in ("name", "state", "step", "seconds", "steps_per_second"):
            found.append((name, _shown(getattr(self.a, name)), _shown(getattr(self.b, name))))
        for name, pair in self.curves.items():
            found.append((f"last {name}", *(_shown(float(v[-1])) if len(v) else _MISSING for v in pair)))  # type: ignore[arg-type]
        found += [(name, _shown(mine), _shown(other)) for name, (mine, other) in self.settings.items()]
        return found

    def __repr__(self) -> str:
        rows = self._rows()
        widths = [max(len(row[i]) for row in rows) for i in range(3)]
        return "\n".join("  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)).rstrip() for row in rows)

    def _repr_html_(self) -> str:
        head, *rows = self._rows()
        heads = "".join(f'<th scope="col">{escape(cell)}</th>' for cell in head)
        body = "".join(
            f'<tr><th scope="row">{escape(name)}</th><td>{escape(mine)}</td><td>{escape(other)}</td></tr>'
            for name, mine, other in rows
        )
        curves = "".join(self._drawing(name) for name in self.curves)
        table = f"<table><thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table>"
        return f'{table}<div style="display:flex;flex-wrap:wrap">{curves}</div>'

    def _drawing(self, name: str) -> str:
        pair = self.curves[name]
        lines = overlaid(list(pair))
        label = f"{name} of run {self.a.number} and run {self.b.number}"
        legend = "".join(
            f'<span style="color:{color}">■</span> run {run.number} '
            for color, run in zip(COLORS, (self.a, self.b), strict=True)
        )
        return (
            f'<figure style="margin:4px 16px 4px 0"><svg role="img" aria-label="{escape(label)}" width="{WIDTH}" '
            f'height="{HEIGHT}" viewBox="0 -2 {WIDTH} {HEIGHT + 4}">{lines}</svg>'
            f"<figcaption>{escape(name)} {legend}</figcaption></figure>"
        )


def overlaid(curves: list[np.ndarray]) -> str:
    """SVG lines of curves in one frame, by step; gaps where values are not finite."""
    known = np.concatenate([c[np.isfinite(c)] for c in curves])
    if not len(known):
        return ""
    low, high = float(known.min()), float(known.max())
    steps = max(max(len(c) for c in curves) - 1, 1)
    found = []
    for values, color, dash in zip(curves, COLORS, ("", ' stroke-dasharray="6 3"'), strict=True):
        at = np.unique(np.linspace(0, len(values) - 1, POINTS).round().astype(int)) if len(values) else np.empty(0, int)
        at = at[np.isfinite(values[at])]
        x, y = at * (WIDTH / steps), HEIGHT - (values[at] - low) * (HEIGHT / ((high - low) or 1.0))
        points = " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(x, y, strict=True))
        found.append(f'<polyline points="{points}" fill="none" stroke="{color}" stroke-width="1.5"{dash}/>')
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


def compare(a: Comparable, b: Comparable, file: str | os.PathLike[str] | None = None) -> Comparison:
    """Two recorded runs side by side.

    Args:
        a, b: numbers, rows of `runs()`, or Runs of this process.
        file: where numbers are looked up; `WORKBENCH_RUNS` or the user's own file by default.

    Raises:
        NotFound: there is no such run. InvalidType: something else; a Run that is not recorded.
    """
    return Comparison(_recorded(a, file), _recorded(b, file))


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
