"""What came of runs with which settings, as SVG: value against setting, or parallel coordinates of several settings."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from workbench.experiments.records.recorded_run import RecordedRun
from workbench.experiments.tables.run_columns import cell, head, short, telling_settings
from workbench.experiments.tables.run_table import Runs
from workbench.framework.text.printable import escape

WIDTH, HEIGHT = 720, 230
LEFT, RIGHT, TOP, BOTTOM = 60, 70, 30, 24  # pixels around the axes
MOST = 6  # settings beside each other that can be read
LETTER = 6.6  # pixels of a letter of a name, about
LINE = 12  # pixels between two texts
GOOD, BAD = (0, 114, 178), (230, 159, 0)  # from the lowest value to the highest; told apart by anybody


class ChartAxis(NamedTuple):
    """A setting or a recorded value: where each run is on it, 0 at the bottom to 1 at the top, None for nowhere.

    Attributes:
        marks: (where, text) of what is written beside it.
    """

    name: str
    places: list[float | None]
    marks: list[tuple[float, str]]


def settings_of(runs: Runs) -> list[str]:
    """The settings in which runs differ, those first that tell most."""
    return telling_settings(list(runs))


def parallel_chart(all_runs: Runs, value: str, settings: Sequence[str] = (), shown: Callable[[str], str] = str) -> str:
    """A line per run through its settings to the value, blue where it is low and orange where it is high.

    With one setting, a dot per run: the value over the setting. Empty where there is nothing to draw.

    Args:
        value: a recorded value, the newest of which counts.
        settings: those that differ by default, those first that tell most; the first `MOST` of them are drawn, and
            the names of the others stand below.
        shown: what becomes of the drawing.
    """
    runs = [run for run in all_runs if _number(run.value(value)) is not None]
    names = list(settings) or telling_settings(runs)
    if not runs or not names:
        return ""
    drawn, others = names[:MOST], names[MOST:]
    axes = [_axis(runs, name) for name in [*drawn, value]]
    body = _dots(runs, *axes) if len(axes) == 2 else _lines(runs, axes)
    above = LINE * (max(len(_wrapped(axis.name, _letters(len(axes)))) for axis in axes) - 1)
    title = f"{value} by {', '.join(drawn)}"
    svg = shown(
        f'<svg role="img" aria-label="{escape(title)}" width="100%" style="max-width:{WIDTH}px" '
        f'viewBox="0 {-above} {WIDTH} {HEIGHT + above + LINE + 6}" font-size="11">{body}</svg>'
    )
    return f"<div>{svg}<p><small>not drawn: {escape(', '.join(others))}</small></p></div>" if others else svg


def _axis(runs: Sequence[RecordedRun], name: str) -> ChartAxis:
    """Numbers by their size, on a logarithmic scale where they span decades; anything else evenly, in order."""
    values = [run.value(name) for run in runs]
    numbers = [_number(value) for value in values]
    texts = [short(cell(run, name)) for run in runs]
    if all(number is not None or value is None for number, value in zip(numbers, values)):
        known = sorted({number for number in numbers if number is not None})
        place = _scale(known)
        places = [None if number is None else place(number) for number in numbers]
        ends = dict(zip(places, texts)) if len(known) <= 6 else {place(n): f"{n:.4g}" for n in (known[0], known[-1])}
        return ChartAxis(name, places, _apart([(at, text) for at, text in ends.items() if at is not None]))
    words = list(dict.fromkeys(texts))
    at = {word: k / (len(words) - 1) if len(words) > 1 else 0.5 for k, word in enumerate(words)}
    return ChartAxis(name, [at[text] for text in texts], _apart([(at[word], word or "none") for word in words]))


def _apart(marks: list[tuple[float, str]]) -> list[tuple[float, str]]:
    """Those that can be read beside each other, the lowest and the highest first."""
    kept: list[tuple[float, str]] = []
    for mark in sorted(marks, key=lambda mark: -abs(mark[0] - 0.5)):
        if all(abs(mark[0] - other[0]) * (HEIGHT - TOP - BOTTOM) >= LINE for other in kept):
            kept.append(mark)
    return sorted(kept)


def _scale(known: Sequence[float]) -> Any:
    if not known or known[0] == known[-1]:
        return lambda number: 0.5
    if known[0] > 0 and known[-1] / known[0] >= 50:
        return lambda number: math.log(number / known[0]) / math.log(known[-1] / known[0])
    return lambda number: (number - known[0]) / (known[-1] - known[0])


def _number(value: Any) -> float | None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    return float(value) if is_number else None


def _lines(runs: Sequence[RecordedRun], axes: Sequence[ChartAxis]) -> str:
    apart = _apart_by(len(axes))
    parts = []
    for number, run in enumerate(runs):
        points = [(LEFT + k * apart, axis.places[number]) for k, axis in enumerate(axes)]
        path = " ".join(f"{x:.1f},{_y(place):.1f}" for x, place in points if place is not None)
        parts.append(
            f'<polyline points="{path}" fill="none" stroke="{_color(axes[-1].places[number])}" stroke-width="2" '
            f'opacity="0.8"><title>{_told(run, axes)}</title></polyline>'
        )
    return "".join([*parts, *(_upright(axis, LEFT + k * apart, len(axes)) for k, axis in enumerate(axes))])


def _dots(runs: Sequence[RecordedRun], setting: ChartAxis, value: ChartAxis) -> str:
    across = WIDTH - LEFT - RIGHT
    bottom = HEIGHT - BOTTOM
    level = f'<path d="M{LEFT} {bottom + 6}H{WIDTH - RIGHT}" stroke="currentColor" opacity="0.5"/>'
    parts = [_upright(value, LEFT, 2, "end"), level]
    for place, text in setting.marks:
        parts.append(_text(LEFT + place * across, bottom + 19, text, "middle"))
    parts.append(_text(LEFT + across / 2, bottom + 19 + LINE + 3, head(setting.name), "middle", bold=True))
    for number, run in enumerate(runs):
        x, y = setting.places[number], value.places[number]
        if x is not None and y is not None:
            where = f'cx="{LEFT + x * across:.1f}" cy="{_y(y):.1f}" r="5"'
            parts.append(f'<circle {where} fill="{_color(y)}"><title>{_told(run, (setting, value))}</title></circle>')
    return "".join(parts)


def _apart_by(axes: int) -> float:
    """Pixels from one of so many axes to the next."""
    return (WIDTH - LEFT - RIGHT) / (axes - 1)


def _letters(axes: int) -> int:
    """Of a name above one of so many axes, in a line."""
    return int(min(_apart_by(axes) - 8, 2 * LEFT) / LETTER)


def _wrapped(name: str, letters: int) -> list[str]:
    """A name on several lines, whole: broken where its words end, or else where it must."""
    lines = [""]
    for word in re.findall(r"[^_ .]*[_ .]?", head(name)):
        if len(lines[-1]) + len(word) > letters and lines[-1]:
            lines.append("")
        lines[-1] += word
    return [line[k : k + letters] for line in lines for k in range(0, len(line), letters)]


def _upright(axis: ChartAxis, x: float, axes: int, anchor: str = "start") -> str:
    line = f'<path d="M{x:.1f} {TOP}V{HEIGHT - BOTTOM}" stroke="currentColor" opacity="0.5"/>'
    side = -6 if anchor == "end" else 6
    room = int((min(_apart_by(axes), 200) - 14) / LETTER)
    marks = [_text(x + side, _y(place) + 4, short(text, room), anchor) for place, text in axis.marks]
    lines = reversed(_wrapped(axis.name, _letters(axes)))
    names = [_text(x, TOP - 14 - k * LINE, text, "middle", bold=True) for k, text in enumerate(lines)]
    return "".join([line, *names, *marks])


def _text(x: float, y: float, text: str, anchor: str = "start", bold: bool = False) -> str:
    weight = ' font-weight="600"' if bold else ""
    halo = 'stroke="var(--jp-layout-color1, #fff)" stroke-width="3" paint-order="stroke"'  # legible on lines
    place = f'x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"'
    return f'<text {place} fill="var(--jp-ui-font-color1, #1f2328)" {halo}{weight}>{escape(text)}</text>'


def _y(place: float) -> float:
    return HEIGHT - BOTTOM - place * (HEIGHT - TOP - BOTTOM)


def _color(place: float | None) -> str:
    part = place or 0.0
    return "#" + "".join(f"{round(a + (b - a) * part):02x}" for a, b in zip(GOOD, BAD))


def _told(run: RecordedRun, axes: Sequence[ChartAxis]) -> str:
    facts = ", ".join(f"{head(axis.name)} {cell(run, axis.name)}" for axis in axes)
    return escape(f"run {run.number} {run.name}: {facts}")
