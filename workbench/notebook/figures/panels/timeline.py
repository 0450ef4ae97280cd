"""When what ran and waited: a row per device and thread, and one for what devices did together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure
from matplotlib.patches import Patch, Rectangle

from workbench.notebook.figures.facts import (
    Message,
    Nodes,
    among,
    at,
    devices,
    floats,
    ints,
    longest,
    members,
    over_steps,
    slowest,
    where,
)
from workbench.notebook.figures.numbers import seconds_text, shortened
from workbench.notebook.figures.palette import ALARM, BAND, FAINT, KINDS, LINE, ROLES, WAIT, styled, tint
from workbench.notebook.programs.summary import count

_WIDTH, _LEFT, _RIGHT, _ROW, _TOP, _FOOT = 11.0, 1.5, 0.15, 0.3, 0.9, 0.5  # inches
_MANY = 3000  # spans; with more of them an SVG holds them as one image
_SIZE = 6.5


class TimelineRow(NamedTuple):
    """A row of the picture: device (-1 across devices), thread, and which of the rows that these have.

    Across devices the thread is the process that told of it, -1 where there is one.
    """

    device: int
    thread: int
    number: int


@styled
def timeline(sample: Message, graph: Message | None = None) -> Figure:
    """The picture of the spans of a `sample` message.

    Args:
        graph: the graph they are of; spans then have the colour of what they are for.
    """
    spans = sample.get("spans") or {}
    start, end = floats(spans, "start"), floats(spans, "end")
    rows = rows_of(spans)
    lines = sorted(set(rows), key=lambda row: (row.device < 0, row))
    height = _TOP + _ROW * max(len(lines), 1) + _FOOT
    figure = Figure(figsize=(_WIDTH, height), dpi=100)
    inside = (_LEFT / _WIDTH, _FOOT / height, 1 - (_LEFT + _RIGHT) / _WIDTH, 1 - (_TOP + _FOOT) / height)
    axes = figure.add_axes(inside)
    axes.set(xlim=(0, end.max(initial=1.0) * 1.005), ylim=(max(len(lines), 1), 0), xlabel="µs since the step began")
    places = devices(sample.get("feeds"), graph)
    _names(axes, lines, places)
    kinds = _kinds(sample, graph, len(start))
    place = {row: y for y, row in enumerate(lines)}
    _draw(axes, kinds, start, end, np.array([place[row] for row in rows], np.int64))
    _arrivals(axes, sample, start, [place[row] for row in rows])
    _labels(axes, sample, start, end, [place[row] for row in rows])
    _heading(figure, sample, graph, height, kinds)
    if not len(start):
        axes.text(0.5, 0.5, "nothing was timed in this step", transform=axes.transAxes, ha="center", color=FAINT)
    return figure


def rows_of(spans: Message) -> list[TimelineRow]:
    """The row of every span; spans of one device and thread that run at the same time are in different ones."""
    device, thread = ints(spans, "device"), ints(spans, "thread")
    together = ints(spans, "collective") or [0] * len(device)
    process = ints(spans, "process") or [-1] * len(device)
    start, end = floats(spans, "start"), floats(spans, "end")
    rows = [TimelineRow(-1, -1, 0)] * len(device)
    free: dict[tuple[int, int], list[float]] = {}  # when each row of a device and thread is free again
    for k in sorted(range(len(device)), key=lambda k: (start[k], k)):
        key = (-1, process[k]) if together[k] or device[k] < 0 else (device[k], thread[k])
        ends = free.setdefault(key, [])
        number = next((n for n, until in enumerate(ends) if until <= start[k]), len(ends))
        ends[number : number + 1] = [float(end[k])]
        rows[k] = TimelineRow(*key, number)
    return rows


def _kinds(sample: Message, graph: Message | None, spans: int) -> list[str]:
    together = ints(sample.get("spans"), "collective") or [0] * spans
    kinds = Nodes.of(graph).kind if graph is not None and sample.get("graph") == graph.get("id") else []
    of = [at(kinds, inside[0], "forward") if inside else "forward" for inside in members(sample, spans)]
    waits = ints(sample.get("spans"), "wait") or [0] * spans
    return ["collective" if t else WAIT if w else kind for t, w, kind in zip(together, waits, of)]


def _names(axes: Axes, lines: Sequence[TimelineRow], places: Sequence[str]) -> None:
    for y, row in enumerate(lines):
        first = y == 0 or lines[y - 1].device != row.device
        name = "across devices" if row.device < 0 else at(places, row.device, f"device {row.device}")
        kind = "thread" if row.device >= 0 else "rank"
        thread = "" if row.thread < 0 or row.number else f"{kind} {row.thread}"
        left = -(_LEFT - 0.12) / (_WIDTH - _LEFT - _RIGHT)
        if first:
            axes.text(left, y + 0.5, name, transform=axes.get_yaxis_transform(), va="center", weight="bold")
            axes.axhline(y, color="#d5d8dc", linewidth=0.8)
        axes.text(
            -0.008,
            y + 0.5,
            thread,
            transform=axes.get_yaxis_transform(),
            va="center",
            ha="right",
            color=FAINT,
            fontsize=7,
        )
        axes.axhspan(y + 0.06, y + 0.94, color=BAND, linewidth=0)
    axes.set_yticks([])
    axes.spines["left"].set_visible(False)


def _draw(axes: Axes, kinds: Sequence[str], start: np.ndarray, end: np.ndarray, y: np.ndarray) -> None:
    for kind in (*KINDS, WAIT):
        some = [k for k, one in enumerate(kinds) if one == kind]
        if not some:
            continue
        a, b, top = start[some], end[some], y[some] + 0.12
        corners = [np.stack(corner, axis=1) for corner in ((a, top), (b, top), (b, top + 0.76), (a, top + 0.76))]
        drawn = PolyCollection(
            list(np.stack(corners, axis=1)),
            **_look(kind),
            linewidths=0.5,
            rasterized=len(kinds) > _MANY,
            zorder=2,
        )
        drawn.set_label(kind)
        axes.add_collection(drawn, autolim=False)


def _look(kind: str) -> dict[str, Any]:
    """Fill, border and hatch of a kind of span."""
    if kind == WAIT:
        return {"facecolor": "none", "edgecolor": LINE, "hatch": "...."}
    return {
        "facecolor": tint(ROLES[kind], 0.35),
        "edgecolor": ROLES[kind],
        "hatch": "////" if kind == "collective" else None,
    }


def _arrivals(axes: Axes, sample: Message, start: np.ndarray, y: Sequence[int]) -> None:
    """A line from where a device had made its part of a collective to where that began, each device at its height."""
    arrivals = sample.get("arrivals") or {}
    span, device, came = ints(arrivals, "span"), ints(arrivals, "device"), floats(arrivals, "at")
    count_of = max(device, default=0) + 1
    for k, place, at_us in zip(span, device, came):
        if k < len(start) and at_us < start[k]:
            height = y[k] + 0.12 + 0.76 * (place + 0.5) / count_of
            axes.plot([at_us, start[k]], [height, height], color=ROLES["collective"], linewidth=0.7, zorder=1)
            axes.plot([at_us], [height], marker="|", color=ROLES["collective"], markersize=3, zorder=1)


def _labels(axes: Axes, sample: Message, start: np.ndarray, end: np.ndarray, y: Sequence[int]) -> None:
    """Names where there is room for them; a border around the longest."""
    labels, label = sample.get("labels", []), ints(sample.get("spans"), "label")
    waits = ints(sample.get("spans"), "wait") or [0] * len(start)
    inch = (_WIDTH - _LEFT - _RIGHT) / end.max(initial=1.0)
    for k, (a, b) in enumerate(zip(start, end)):
        whole = at(labels, at(label, k, -1)) if (b - a) * inch > 0.25 and not waits[k] else ""
        text = shortened(whole, (b - a) * inch - 0.06, _SIZE)
        if text == whole or len(text) > 6:
            axes.text((a + b) / 2, y[k] + 0.5, text, ha="center", va="center", fontsize=_SIZE, zorder=4, clip_on=True)
    if not all(waits):
        k = int(np.argmax(np.where(waits, -1.0, end - start)))
        axes.add_patch(_border(start[k], end[k], y[k]))


def _border(start: float, end: float, y: int) -> Patch:
    return Rectangle((start, y + 0.12), end - start, 0.76, facecolor="none", edgecolor=ALARM, linewidth=1.8, zorder=3)


def _heading(figure: Figure, sample: Message, graph: Message | None, height: float, kinds: Sequence[str]) -> None:
    places = devices(sample.get("feeds"), graph)
    text = f"Step {sample.get('step', '–')}: {seconds_text(sample.get('seconds'))}{among(sample)}"
    if sample.get("compiled"):
        text += f", after {seconds_text(sample['compiled'])} to make the plan"
    figure.set_label(text)
    figure.text(0.12 / _WIDTH, 1 - 0.2 / height, text, fontsize=11, weight="bold", va="center")
    for slow in longest(sample, graph):
        took = f"{seconds_text(slow.us / 1e6)}, {slow.share:.0%} of all ops"
        which = f"{slow.label} {where(places, slow.device)}"
        timed = count(sum(kind != WAIT for kind in kinds), "op")
        text = f"{timed} timed; longest of this step (thick border): {which}, {took}"
        figure.text(0.12 / _WIDTH, 1 - 0.43 / height, text, color=FAINT, va="center")
    figure.text(0.12 / _WIDTH, 1 - 0.6 / height, _slowest(sample, places), color=FAINT, va="center")
    handles = [_handle(kind) for kind in (*KINDS, WAIT) if kind in kinds]
    if handles:
        figure.legend(
            handles=handles,
            loc="upper right",
            bbox_to_anchor=(1 - _RIGHT / _WIDTH, 1 - 0.06 / height),
            ncols=5,
            borderpad=0,
            borderaxespad=0,
        )


def _slowest(sample: Message, places: Sequence[str]) -> str:
    """`slowest: mul fc_0.tmp_0 on cpu:1, 412.0 µs (median of 12 steps)`; empty where nobody found it."""
    return "".join(
        f"slowest: {slow.label} {where(places, slow.device)}, {seconds_text(slow.us / 1e6)} ({over_steps(sample)})"
        for slow in slowest(sample)[:1]
    )


def _handle(kind: str) -> Patch:
    return Patch(**_look(kind), label=kind)
