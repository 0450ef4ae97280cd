"""Memory of temporaries over the steps, where scopes were dropped, and what each strategy keeps on each device."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.gridspec import GridSpec

from workbench.notebook.figures.facts import Message, at, cause_text, devices, dropped, floats, unwatched
from workbench.notebook.figures.palette import ALARM, FAINT, SERIES, device_color, lonely, styled, tint
from workbench.notebook.programs.summary import count, memory_text

_KEPT = (("parameters", SERIES[0], ""), ("state", SERIES[1], "///"), ("gradients", SERIES[2], "\\\\\\"))
_SCALES = ((2**40, "TiB"), (2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB"), (1, "B"))


@styled
def scopes(message: Message) -> Figure:
    """The picture of a `scopes` message: a saw tooth per device with a mark at every drop, then totals by strategy."""
    places, totals = devices(message), list(message.get("totals") or [])
    teeth = max(len(places), 1)
    bars = max(sum(len(total.get("devices", [])) for total in totals), 1) if totals else 0
    above, below = teeth * (0.95 if teeth <= 4 else 0.6), 0.17 * bars + 0.35 * len(totals)
    height = 0.75 + above + 0.55 + (below + 0.75 if totals else 0)
    figure = Figure(figsize=(8.5, height), dpi=100)
    figure.set_label(f"Memory of temporaries: scopes dropped {count(dropped(message), 'time')}")
    _heading(figure, message, height)
    inside: dict[str, Any] = {"left": 0.17, "right": 0.97, "figure": figure}
    grid = GridSpec(teeth, 1, top=1 - 0.75 / height, bottom=1 - (0.75 + above) / height, hspace=0.25, **inside)
    _teeth([figure.add_subplot(grid[k]) for k in range(teeth)], message, places)
    if totals:
        kept = GridSpec(1, 1, top=(below + 0.45) / height, bottom=0.45 / height, **inside)
        _totals(figure.add_subplot(kept[0]), totals, places, _held(message))
    return figure


def _heading(figure: Figure, message: Message, height: float) -> None:
    drops = message.get("drops") or {}
    causes = list(drops.get("cause", []))
    ways = [(causes.count(cause), cause_text(cause)) for cause in dict.fromkeys(causes)]
    why = ways[0][1] if len(ways) == 1 else ", ".join(f"{n} {way}" for n, way in ways)
    times = dropped(message)
    since = unwatched(message)
    about = f"scopes dropped {count(times, 'time')}{f' ({why})' if why else ''}" if times else "scopes not dropped yet"
    if since:
        about = f"{about if times else 'scopes not dropped'} since step {since:,}, not watched before"
    figure.text(0.015, 1 - 0.2 / height, "Memory of temporaries", fontsize=11, weight="bold", va="center")
    figure.text(
        0.015,
        1 - 0.42 / height,
        ", ".join(t for t in (message.get("strategy", ""), about) if t),
        color=FAINT,
        va="center",
    )


def _teeth(rows: Sequence[Axes], message: Message, places: Sequence[str]) -> None:
    memory, drops = message.get("memory") or {}, message.get("drops") or {}
    steps, fallen = floats(memory, "step"), floats(drops, "step")
    held = [np.asarray(one, np.float64) for one in memory.get("bytes", [])]
    most = max((one.max(initial=0.0) for one in held), default=0.0)
    size, unit = _scale(most)
    everything = np.concatenate((steps, fallen))
    ends = (everything.min(initial=0.0), everything.max(initial=1.0))
    for device, axes in enumerate(rows):
        line = at(held, device, np.zeros(0))[: len(steps)] / size
        color = device_color(device)
        axes.plot(steps[: len(line)], line, color=color, linewidth=1.2, label="held", marker=lonely(line))
        axes.fill_between(steps[: len(line)], line, color=tint(color, 0.25), linewidth=0)
        top = most / size * 1.3 or 1.0
        axes.vlines(fallen, 0, top * 0.9, color=ALARM, linewidth=0.7, linestyle=(0, (3, 2)))
        (marks,) = axes.plot(fallen, np.full(len(fallen), top * 0.93), "v", color=ALARM, markersize=5, clip_on=False)
        marks.set_gid(f"drops-{device}")
        axes.set(xlim=(ends[0], ends[1] + (ends[1] - ends[0]) * 0.01), ylim=(0, top))
        axes.set_ylabel(f"{at(places, device, 'no device')}\n{unit}", rotation=0, ha="right", va="center")
        if most:
            axes.locator_params(axis="y", nbins=3)
        else:
            axes.set_yticks([0])
        axes.tick_params(labelbottom=axes is rows[-1], labelsize=7)
        if not len(steps):
            axes.text(0.5, 0.5, "no step has been run", transform=axes.transAxes, ha="center", va="center", color=FAINT)
    rows[-1].set_xlabel("step" + ("; ▼ = scopes dropped" if len(fallen) else ""))
    _freed(rows[0], fallen, drops)


def _freed(axes: Axes, fallen: np.ndarray, drops: Message) -> None:
    """What the last drop gave back, above the marks."""
    if not len(fallen):
        return
    freed = [floats({"of": one}, "of") for one in drops.get("bytes", [])]
    texts = dict.fromkeys(memory_text(int(one[-1])) for one in freed if len(one))
    each = " on each device" if len(texts) == 1 and len(freed) > 1 else ""
    text = f"dropped {' / '.join(texts)}{each} after step {int(fallen[-1]):,}"
    axes.text(1, 1.02, text, transform=axes.transAxes, ha="right", va="bottom", fontsize=7.5, color=FAINT)


def _totals(axes: Axes, totals: Sequence[Message], places: Sequence[str], held: str) -> None:
    """A bar per strategy and device: what is kept from step to step, and gradients."""
    lines: list[tuple[float, str, Message]] = []
    y, heads = 0.0, []
    for number, total in enumerate(totals):
        heads.append((y - 0.75, f"{total.get('strategy', '')}{' (this one)' if number == 0 else ''}"))
        for device, one in enumerate(total.get("devices", [])):
            lines.append((y, at(places, device, f"device {device}"), one))
            y += 1
        y += 1.6
    sizes: list[Any] = [floats({"of": [one.get(kind, 0) for _, _, one in lines]}, "of") for kind, _, _ in _KEPT]
    size, unit = _scale(max((sum(column) for column in zip(*sizes)), default=0.0))
    left = np.zeros(len(lines))
    for (kind, color, hatch), values in zip(_KEPT, sizes):
        where = [y for y, _, _ in lines]
        axes.barh(
            where,
            values / size,
            left=left,
            height=0.72,
            color=tint(color, 0.35),
            edgecolor=color,
            hatch=hatch,
            label=kind,
        )
        left += values / size
    for (y_of, _, _), end in zip(lines, left):
        axes.text(end, y_of, f" {memory_text(int(end * size))}", va="center", fontsize=7)
    for y_of, text in heads:
        axes.text(0, y_of, text, weight="bold", fontsize=8, va="center")
    axes.set(
        ylim=(y - 1.9, -1.2),
        xlim=(0, max(left.max(initial=0.0) * 1.14, 1e-9)),
        xlabel=f"{unit} that a device updates{held}",
    )
    axes.set_yticks([where for where, _, _ in lines], [place for _, place, _ in lines], fontsize=7)
    axes.tick_params(axis="x", labelsize=7)
    axes.legend(loc="lower right", bbox_to_anchor=(1, 1), ncols=3, borderpad=0, handlelength=1.4)


def _held(message: Message) -> str:
    """What there is of parameters and state: devices may have it in common."""
    total = message.get("live_total") or {}
    kept, shared = int(total.get("kept", 0)), int(total.get("shared", 0))
    if not kept:
        return ""
    part = "all" if shared == kept else memory_text(shared) if shared else "none"
    common = f", {part} of it shared by devices" if len(message.get("devices", [])) > 1 else ""
    return f"; held: {memory_text(kept)} of parameters and optimizer state{common}"


def _scale(most: float) -> tuple[float, str]:
    return next(((float(size), unit) for size, unit in _SCALES if most >= size), (1.0, "B"))
