"""Recorded values over the steps, those of several runs on top of each other, and how fast they were."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.gridspec import GridSpec

from workbench.experiments.charts.ranges import typical_range
from workbench.notebook.figures.facts import Message, floats, in_order
from workbench.notebook.figures.numbers import number_text
from workbench.notebook.figures.palette import FAINT, TEXT, dashes, device_color, lonely, styled

_WIDTH, _HIGH, _TOP = 10.5, 2.2, 0.4  # inches


@styled
def curves(messages: Sequence[Message]) -> Figure:
    """The picture of `curves` messages, one per run: a diagram per recorded value, and one of steps per second.

    A line is the mean of a bucket of steps, its band goes from the bucket's lowest to its highest value. Steps whose
    value is not a number are gaps; values far from all others leave the frame, as on the page.
    """
    labels = in_order(label for message in messages for label in message.get("series") or {})
    timed = [message for message in messages if len(floats(message.get("rate"), "value"))]
    cells = len(labels) + bool(timed)
    columns = max(cells, 1) if cells <= 3 else 2
    rows = -(-max(cells, 1) // columns)
    height = _TOP + rows * _HIGH
    figure = Figure(figsize=(_WIDTH if columns > 1 else 6.5, height), dpi=100)
    inside = {
        "left": 0.5 / figure.get_figwidth(),
        "right": 0.98,
        "top": 1 - (_TOP + 0.2) / height,
        "bottom": 0.42 / height,
    }
    grid = GridSpec(rows, columns, figure, hspace=0.5, wspace=0.2, **inside)
    for cell, label in enumerate(labels):
        _values(figure.add_subplot(grid[cell]), messages, label)
    if timed:
        _rates(figure.add_subplot(grid[len(labels)]), messages)
    _heading(figure, messages, height, cells)
    figure.set_label(f"Curves of {', '.join(str(message.get('label', '')) for message in messages)}")
    return figure


def _values(axes: Axes, messages: Sequence[Message], label: str) -> None:
    drawn = [(k, m, m["series"][label]) for k, m in enumerate(messages) if label in (m.get("series") or {})]
    ends = []
    for number, _, series in drawn:
        step, mean, low, high = (floats(series, name) for name in ("step", "mean", "low", "high"))
        color = device_color(number)
        if len(low) == len(step) == len(high):
            axes.fill_between(step, low, high, color=color, alpha=0.18, linewidth=0)
        axes.plot(step, mean, color=color, linestyle=dashes(number), linewidth=1.4, marker=lonely(mean))
        known = mean[np.isfinite(mean)]
        broken = f" (no number from step {series['broken']:,})" if series.get("broken") else ""
        ends += [(number_text(float(known[-1])) if len(known) else "no number yet") + broken]
    away = _frame(axes, drawn)
    _finish(axes, label, ends)
    if away:
        axes.text(0.01, 0.97, away, transform=axes.transAxes, va="top", fontsize=7, color=TEXT, wrap=True)


def _frame(axes: Axes, drawn: Sequence[tuple[int, Message, Message]]) -> str:
    """Show what is usual; returns what is said of what is not."""
    names = ("mean", "low", "high")
    columns = [[floats(s, name) for name in (names if m.get("width", 1) > 1 else names[:1])] for _, m, s in drawn]
    span = typical_range(columns)
    if span is None or span.shown == span.whole:
        return ""
    air = (span.shown[1] - span.shown[0]) * 0.05
    least, most = span.shown[0] - air, span.shown[1] + air
    axes.set_ylim(least, most)
    texts = []
    for number, message, series in drawn:
        step, mean = floats(series, "step"), floats(series, "mean")
        outside = np.isfinite(mean) & ((mean < least) | (mean > most))
        if outside.any():
            at = int(np.argmax(outside))
            edge, mark = (most, "^") if mean[at] > most else (least, "v")
            axes.plot(step[at], edge, mark, color=device_color(number), markersize=6, clip_on=False)
            farthest = number_text(float(mean[outside][np.argmax(np.abs(mean[outside]))]))
            about = "about " if message.get("width", 1) > 1 else ""
            texts.append(f"{message.get('label', '')} from {about}step {int(step[at]):,}, to {farthest}")
    return f"outside the frame: {'; '.join(texts)}" if texts else ""


def _rates(axes: Axes, messages: Sequence[Message]) -> None:
    ends = []
    for number, message in enumerate(messages):
        step, value = floats(message.get("rate"), "step"), floats(message.get("rate"), "value")
        if not len(value):
            continue
        axes.plot(
            step, value, color=device_color(number), linestyle=dashes(number), linewidth=1.4, marker=lonely(value)
        )
        ends.append(number_text(float(value[-1])))
    axes.set_ylim(bottom=0)
    _finish(axes, "steps per second", ends)


def _finish(axes: Axes, title: str, ends: Sequence[str]) -> None:
    axes.set_title(title, weight="bold")
    axes.set_title("last: " + ", ".join(ends), loc="right", color=FAINT, fontsize=8)
    axes.set_xlabel("step", loc="right", labelpad=0)
    axes.grid(axis="y", color="#e4e6e9", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.tick_params(labelsize=7)
    axes.margins(x=0.01)


def _heading(figure: Figure, messages: Sequence[Message], height: float, cells: int) -> None:
    if not cells:
        figure.text(0.5, 0.5, "nothing has been recorded yet", ha="center", color=FAINT)
        return
    lines = [
        figure.axes[0].plot([], [], color=device_color(k), linestyle=dashes(k), label=str(m.get("label", "")))[0]
        for k, m in enumerate(messages)
    ]
    figure.legend(
        handles=lines, loc="upper left", bbox_to_anchor=(0.01, 1 - 0.06 / height), ncols=4, borderpad=0, borderaxespad=0
    )
