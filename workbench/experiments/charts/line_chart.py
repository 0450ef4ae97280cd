"""Curves over the steps as a small SVG with axes, for what has no page of its own to draw on."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from workbench.experiments.charts.ranges import typical_range
from workbench.framework.text.printable import escape

LEFT, RIGHT, TOP, BOTTOM = 52, 8, 10, 18  # pixels around the frame
DASHES = ("", "6 3", "2 3", "9 3 2 3")
COLORS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#b8a900", "#888888")  # Okabe and Ito, 2008


class ChartLine(NamedTuple):
    """A curve.

    Attributes:
        steps, values: float64 `[points]`, steps ascending; a value that is not a number is a gap.
        number: chooses colour and dashes.
    """

    name: str
    steps: np.ndarray
    values: np.ndarray
    number: int = 0


class Frame(NamedTuple):
    """Where values go: the frame in pixels, and what lies at its edges; of a logarithmic scale the exponents of 10."""

    width: int
    height: int
    steps: tuple[float, float]
    values: tuple[float, float]
    is_log: bool = False

    def x(self, steps: np.ndarray) -> np.ndarray:
        """Pixels from the left."""
        first, last = self.steps
        return LEFT + (np.asarray(steps) - first) * ((self.width - LEFT - RIGHT) / ((last - first) or 1.0))

    def y(self, values: np.ndarray) -> np.ndarray:
        """Pixels from above; all that lies far outside the frame is as far from it as the frame is high."""
        low, high = self.values
        near = np.clip(np.asarray(values, np.float64), 2 * low - high, 2 * high - low)
        return self.height - BOTTOM - (near - low) * ((self.height - TOP - BOTTOM) / ((high - low) or 1.0))


def color(number: int) -> str:
    """The colour of a line; after eight they begin again, with other dashes."""
    return COLORS[number % len(COLORS)]


def dash(number: int) -> str:
    """The dashes of a line, as SVG has them."""
    return DASHES[(number + number // len(COLORS)) % len(DASHES)]


def line_chart(lines: Sequence[ChartLine], title: str, width: int = 360, height: int = 150, log: bool = False) -> str:
    """The SVG; empty where no line has a number.

    Values far from all others leave the frame; an arrow at its border says where.

    Args:
        title: for those who cannot see it.
        log: with a logarithmic scale, on which only values above 0 have a place.
    """
    span = typical_range([[line.values] for line in lines], log)
    if span is None:
        return ""
    if log:
        lines = [line._replace(values=_decades(line.values)) for line in lines]
    low, high = np.log10(span.shown).tolist() if log else span.shown
    isolated = span.shown != span.whole
    air = (high - low) * 0.05 or abs(high) * 0.1 or 1.0
    drawn = [line for line in lines if len(line.steps)]
    steps = min(float(line.steps[0]) for line in drawn), max(float(line.steps[-1]) for line in drawn)
    least = 0.0 if 0 <= low < air and not log else low - air
    frame = Frame(width, height, steps, (least, high + air), log)
    curves = "".join(_line(line, frame) for line in drawn)
    parts = [_axes(frame), _cut(curves, frame) if isolated else curves]
    parts += [_arrows(line, frame) for line in drawn] if isolated else []
    return (
        f'<svg role="img" aria-label="{escape(title)}" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" font-size="11" style="overflow:visible">{"".join(parts)}</svg>'
    )


def _axes(frame: Frame) -> str:
    bottom, right = frame.height - BOTTOM, frame.width - RIGHT
    rows = round_numbers(*frame.values, wanted=4)
    numbers = [10.0**n for n in rows] if frame.is_log else rows
    columns = [n for n in round_numbers(*frame.steps, wanted=4) if n == int(n)]
    grid = "".join(f"M{LEFT} {y:.1f}H{right}" for y in frame.y(np.array(rows)))
    feet = "".join(f"M{x:.1f} {bottom}v4" for x in frame.x(np.array(columns)))
    parts = [
        f'<path d="{grid}" stroke="currentColor" opacity="0.15" fill="none"/>',
        f'<path d="M{LEFT} {bottom}H{right}{feet}" stroke="currentColor" opacity="0.5" fill="none"/>',
    ]
    text = '<text x="{:.1f}" y="{:.1f}" text-anchor="{}" fill="currentColor" opacity="0.75">{}</text>'
    parts += [text.format(LEFT - 5, y + 4, "end", n) for n, y in zip(told_apart(numbers), frame.y(np.array(rows)))]
    room = right - 40  # the last number also says what is counted
    feet_at = zip(columns, frame.x(np.array(columns)))
    parts += [text.format(x, bottom + 14, "middle", f"{n:,.0f}") for n, x in feet_at if x < room]
    return "".join([*parts, text.format(right, bottom + 14, "end", "step")])


def _line(line: ChartLine, frame: Frame) -> str:
    steps, values = thinned(line.steps, line.values, frame.width)
    path, is_open = [], False
    for x, y, value in zip(frame.x(steps), frame.y(values), values):
        if not math.isfinite(value):
            is_open = False
            continue
        path.append(f"L{x:.1f} {y:.1f}" if is_open else f"M{x:.1f} {y:.1f}h0")
        is_open = True
    dashes = f' stroke-dasharray="{dash(line.number)}"' if dash(line.number) else ""
    return (
        f'<path class="line" d="{"".join(path)}" fill="none" stroke="{color(line.number)}" stroke-width="1.5" '
        f'stroke-linecap="round" stroke-linejoin="round"{dashes}><title>{escape(line.name)}</title></path>'
    )


def _cut(curves: str, frame: Frame) -> str:
    """What leaves the frame is cut off there."""
    wide, high = frame.width - LEFT - RIGHT, frame.height - TOP - BOTTOM
    place = f'x="{LEFT}" y="{TOP}" width="{wide}" height="{high}" viewBox="{LEFT} {TOP} {wide} {high}"'
    return f'<svg {place} overflow="hidden">{curves}</svg>'


def _arrows(line: ChartLine, frame: Frame) -> str:
    low, high = frame.values
    arrows = []
    for outside, edge, way in ((line.values > high, TOP, 1), (line.values < low, frame.height - BOTTOM, -1)):
        begins = outside & ~np.concatenate(([False], outside[:-1]))
        for x in frame.x(line.steps[begins])[:20]:
            shape = f"M{x - 4:.1f} {edge + 6 * way}h8l-4 {-6 * way}z"
            arrows.append(f'<path class="away" d="{shape}" fill="{color(line.number)}"/>')
    return "".join(arrows)


def thinned(steps: np.ndarray, values: np.ndarray, points: int) -> tuple[np.ndarray, np.ndarray]:
    """At most `points`: the last step and the mean of equally long stretches."""
    if len(values) <= points:
        return np.asarray(steps), np.asarray(values, np.float64)
    edges = np.linspace(0, len(values), points + 1).round().astype(int)
    means = np.add.reduceat(np.asarray(values, np.float64), edges[:-1]) / np.diff(edges)
    return np.asarray(steps)[edges[1:] - 1], means


def round_numbers(low: float, high: float, wanted: int = 4) -> list[float]:
    """About so many round numbers between two."""
    rough = (high - low) / wanted
    if not rough > 0 or not math.isfinite(rough):
        return [low]
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(n * power for n in (1, 2, 5, 10) if n * power >= rough * (1 - 1e-12))
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [n * step for n in range(first, last + 1)]


def _decades(values: np.ndarray) -> np.ndarray:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.log10(np.where(values > 0, values, np.nan))


def told_apart(values: Sequence[float], digits: int = 4) -> list[str]:
    """Numbers with so many digits, or with as many as it takes to tell them apart."""
    for enough in range(digits, 17):
        texts = [_short(value, enough) for value in values]
        if len(set(texts)) == len(set(values)):
            break
    return texts


def _short(value: float, digits: int) -> str:
    text = f"{value:.{digits}g}"
    return text.replace("e+0", "e").replace("e+", "e").replace("e-0", "e-")
