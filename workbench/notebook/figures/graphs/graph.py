"""The SSA graph: what every device computes, and where devices exchange values."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection, PatchCollection
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch, Rectangle

from workbench.notebook.figures.facts import (
    ACROSS_SERVERS,
    Message,
    Nodes,
    among,
    at,
    devices,
    floats,
    members,
    servers,
)
from workbench.notebook.figures.graphs.layout import ACROSS, HEIGHT, WIDTH, Box, GraphPicture, layout
from workbench.notebook.figures.numbers import listed, seconds_text, shortened, width_of
from workbench.notebook.figures.palette import ALARM, BAND, FAINT, KINDS, LINE, MARKS, ROLES, TEXT, styled, tint
from workbench.notebook.programs.summary import count

_LEFT, _TOP, _EDGE = 1.5, 0.78, 0.12  # inches: lane names, title and legend, border
_FOLDED = {
    "op": "",
    "layer": "folded by layer",
    "repeat": "folded by layer, repeated layers together",
    "family": "folded by kind of layer",
    "role": "folded by role",
}


@styled
def graph(message: Message, sample: Message | None = None) -> Figure:
    """The picture of a `graph` message.

    Args:
        sample: a step that was looked at; boxes then say how long they took; the longest has a thick border.
    """
    picture = layout(message)
    width, height = _LEFT + picture.width + _EDGE, _TOP + max(picture.height, 1.0) + _EDGE
    figure = Figure(figsize=(max(width, 7.5), height), dpi=100)
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set_axis_off()
    axes.set(xlim=(-_LEFT, max(width, 7.5) - _LEFT), ylim=(height - _TOP, -_TOP))
    names = [*devices(message), *(server.name for server in servers(message))]
    _lanes(axes, picture, names, {len(devices(message)) + k: one.moves() for k, one in enumerate(servers(message))})
    _edges(axes, picture)
    took = times_of(message, sample, picture.boxes)
    _boxes(axes, picture.boxes, took)
    _marks(axes, picture.boxes)
    _heading(axes, message, sample, picture)
    if not picture.boxes:
        axes.text(0, 0.4, "There are no ops in this graph.", color=FAINT)
    return figure


def _heading(axes: Axes, message: Message, sample: Message | None, picture: GraphPicture) -> None:
    nodes = Nodes.of(message)
    counts = Counter(nodes.kind)
    beside = f" with {count(len(servers(message)), 'server')}" if servers(message) else ""
    texts = [
        f"{count(len(nodes), 'op')} on {count(len(devices(message)), 'device')}{beside}",
        str(message.get("strategy", "")) if len(devices(message)) > 1 else "",
        _FOLDED.get(picture.level, ""),
    ]
    texts += [f"{server.name}: {server.told()}" for server in servers(message) if server.told()]
    if sample is not None:
        texts.append(f"times of step {sample.get('step', '–')}{among(sample)}")
    left = -_LEFT + _EDGE
    there = [kind for kind in KINDS if counts[kind]]
    axes.figure.set_label(f"SSA graph of {message.get('title')}: {', '.join(f'{counts[k]:,} {k}' for k in there)}")
    axes.text(left, -0.58, str(message.get("title") or "graph"), fontsize=11, weight="bold", va="center")
    axes.text(
        left,
        -0.36,
        ", ".join(t for t in texts if t),
        color=FAINT,
        va="center",
    )
    x = left
    for kind in there:
        axes.scatter([x + 0.06], [-0.14], s=34, marker=MARKS[kind], color=ROLES[kind], clip_on=False)
        text = f"{kind} {counts[kind]:,}"
        axes.text(x + 0.17, -0.14, text, va="center", color=TEXT)
        x += 0.42 + 0.078 * len(text)


def _lanes(axes: Axes, picture: GraphPicture, names: Sequence[str], moves: Mapping[int, list[str]]) -> None:
    right = axes.get_xlim()[1] - _EDGE
    for lane in picture.lanes:
        shared = lane.device < 0
        between = ROLES["server" if lane.device == ACROSS_SERVERS else "collective"]
        color = tint(between, 0.14) if shared else BAND
        size = (right + _LEFT - _EDGE, lane.bottom - lane.top)
        axes.add_patch(Rectangle((-_LEFT + _EDGE, lane.top), *size, facecolor=color, edgecolor="none", zorder=0))
        middle = (lane.top + lane.bottom) / 2
        if lane.device in moves:  # below the name of the server
            says = "\n".join([*moves[lane.device], "a step"] if moves[lane.device] else ())
            axes.text(-_LEFT + _EDGE + 0.06, lane.top + 0.24, says, va="top", color=FAINT, fontsize=7)
        else:
            axes.text(-0.1, middle, lane.kind, ha="right", va="center", color=FAINT, fontsize=7.5)
    for device in {lane.device for lane in picture.lanes if lane.device >= 0}:
        top = min(lane.top for lane in picture.lanes if lane.device == device)
        name = at(names, device, f"device {device}")
        axes.text(-_LEFT + _EDGE + 0.06, top + 0.13, name, weight="bold", va="center", fontsize=8)


def _edges(axes: Axes, picture: GraphPicture) -> None:
    shared = np.array([box.group.device == -1 for box in picture.boxes] or [False])
    exchange = shared[picture.source] | shared[picture.target]
    styles = (
        (picture.order if picture.level == "op" else picture.order & False, LINE, 0.5, (0, (2, 2)), 1.0),
        (~picture.order & ~exchange, "#8a929b", 0.9, "-", 1.1),
        (~picture.order & exchange, ROLES["collective"], 1.1, "-", 1.2),
    )
    for chosen, color, width, dashes, above in styles:
        paths = [
            _path(picture.boxes[s], picture.boxes[t]) for s, t in zip(picture.source[chosen], picture.target[chosen])
        ]
        lines = LineCollection(paths, colors=color, linewidths=width, linestyles=[dashes], alpha=0.8, zorder=above)
        axes.add_collection(lines, autolim=False)


def _path(source: Box, target: Box) -> np.ndarray:
    """From box to box: down or up in a column, else from right side to left side."""
    if abs(source.x - target.x) < WIDTH:
        middle, down = source.x + WIDTH / 2, source.y < target.y
        return np.array([(middle, source.y + (HEIGHT if down else 0)), (middle, target.y + (0 if down else HEIGHT))])
    ahead = source.x < target.x
    start = np.array((source.x + (WIDTH if ahead else 0), source.y + HEIGHT / 2))
    end = np.array((target.x + (0 if ahead else WIDTH), target.y + HEIGHT / 2))
    return _bent(start, end, early=source.group.device < 0)


def _bent(start: np.ndarray, end: np.ndarray, early: bool) -> np.ndarray:
    """Level, but for a smooth step little wider than the gap between columns: at the start (`early`) or at the end."""
    across, down = end - start
    reach = np.sign(across) * min(abs(across), 2.2 * ACROSS)
    t = np.linspace(0, 1, 2 if abs(down) < 1e-9 else 13)
    begin = start[0] if early else end[0] - reach
    step = np.column_stack((begin + t * reach, start[1] + t * t * (3 - 2 * t) * down))
    return np.vstack((start, step, end))


def _boxes(axes: Axes, boxes: Sequence[Box], took: Sequence[float]) -> None:
    most = max(took, default=0.0)
    for kind in KINDS:
        some = [box for box in boxes if box.group.kind == kind]
        shapes = [FancyBboxPatch((b.x, b.y), WIDTH, HEIGHT, boxstyle="round,pad=0,rounding_size=0.05") for b in some]
        drawn = PatchCollection(shapes, facecolor=tint(ROLES[kind]), edgecolor=ROLES[kind], linewidth=0.9, zorder=2)
        drawn.set_label(kind)
        axes.add_collection(drawn, autolim=False)
    for box, us in zip(boxes, took or [0.0] * len(boxes)):
        _texts(axes, box, us)
        if us and us == most:
            border = FancyBboxPatch((box.x, box.y), WIDTH, HEIGHT, boxstyle="round,pad=0,rounding_size=0.05")
            border.set(facecolor="none", edgecolor=ALARM, linewidth=2.2, zorder=3)
            axes.add_patch(border)


def _texts(axes: Axes, box: Box, us: float) -> None:
    group, right = box.group, box.x + WIDTH - 0.05
    times = f" × {group.times}" if group.times > 1 else ""
    took = f"  {seconds_text(us / 1e6)}" if us else ""
    title = shortened(group.title, WIDTH - 0.22 - width_of(times, 7), 7)
    details = listed(list(group.details), WIDTH - 0.11 - width_of(took, 6), 6)
    upper: dict[str, Any] = {"y": box.y + 0.125, "fontsize": 7, "va": "center", "zorder": 4}
    lower: dict[str, Any] = {"y": box.y + 0.265, "fontsize": 6, "va": "center", "zorder": 4}
    axes.text(box.x + 0.17, s=title, **upper)
    axes.text(right, s=times, ha="right", weight="bold", **upper)
    axes.text(box.x + 0.06, s=details, color=FAINT, **lower)
    axes.text(right, s=took, ha="right", **lower)


def _marks(axes: Axes, boxes: Sequence[Box]) -> None:
    for kind in KINDS:
        some = [box for box in boxes if box.group.kind == kind]
        x, y = [box.x + 0.09 for box in some], [box.y + 0.13 for box in some]
        axes.scatter(x, y, s=13, marker=MARKS[kind], color=ROLES[kind], linewidths=0, zorder=4)


def times_of(message: Message, sample: Message | None, boxes: Sequence[Box]) -> list[float]:
    """Microseconds of every box; of a span that stands for several nodes each has its share."""
    if sample is None or sample.get("graph", message.get("id")) != message.get("id"):
        return []
    spans = sample.get("spans") or {}
    lasted = floats(spans, "end") - floats(spans, "start")
    box_of = {node: number for number, box in enumerate(boxes) for node in box.group.nodes}
    took = [0.0] * len(boxes)
    for inside, us in zip(members(sample, len(lasted)), lasted):
        for node in inside:
            if node in box_of:
                took[box_of[node]] += float(us) / len(inside)
    return took
