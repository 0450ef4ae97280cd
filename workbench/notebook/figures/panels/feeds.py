"""What each device was fed: the batch cut into parts, and a look at what is in them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.gridspec import GridSpec
from matplotlib.patches import Rectangle

from workbench.notebook.figures.facts import Message, at, devices, parts
from workbench.notebook.figures.numbers import number_text, shape_text, shortened
from workbench.notebook.figures.palette import FAINT, TEXT, device_color, styled, tint
from workbench.notebook.programs.summary import count, memory_text

_TOP, _BAR, _CAPTION, _PREVIEW, _GAP = 0.62, 0.3, 0.42, 0.72, 0.34  # inches
_IMAGES, _LINES, _BARS, _VALUES = 4, 4, 12, 6


@styled
def feeds(sample: Message) -> Figure:
    """The picture of what a `sample` message says was fed: for every input a bar, cut where the devices' parts are."""
    fed = sample.get("feeds") or {}
    names, places = list(fed.get("names", [])), devices(fed)
    each = _BAR + _CAPTION + _PREVIEW + _GAP
    width, height = max(7.5, 1.9 * len(places) + 0.3), _TOP + max(len(names) * each, 0.5)
    figure = Figure(figsize=(width, height), dpi=100)
    figure.text(
        0.12 / width,
        1 - 0.2 / height,
        f"Fed in step {sample.get('step', '–')}{'' if sample.get('applied', True) else ', which was not applied'}",
        fontsize=11,
        weight="bold",
        va="center",
    )
    sizes = [memory_text(int(size)) for size in fed.get("nbytes", [])]
    shown = f"{sizes[0]} each" if len(set(sizes)) == 1 else ", ".join(map(" ".join, zip(places, sizes)))
    about = f"what each of {count(len(places), 'device')} got of the batch: {shown}" if names else "nothing was fed"
    about = about if len(places) != 1 else f"the batch: {', '.join(sizes)}"
    figure.text(0.12 / width, 1 - 0.42 / height, about, color=FAINT, va="center")
    figure.set_label(f"Fed in step {sample.get('step', '–')}: {', '.join(names)}")
    for number, name in enumerate(names):
        top = height - _TOP - number * each
        inside = {"left": 0.12 / width, "right": 1 - 0.12 / width}
        bar = GridSpec(1, 1, figure, top=(top - 0.2) / height, bottom=(top - 0.2 - _BAR) / height, **inside)
        _bar(figure.add_subplot(bar[0]), fed, name)
        low, high = top - 0.2 - _BAR - _CAPTION - _PREVIEW, top - 0.2 - _BAR - _CAPTION
        grid = GridSpec(1, max(len(places), 1), figure, top=high / height, bottom=low / height, wspace=0.12, **inside)
        for device, place in enumerate(places):
            _part(figure.add_subplot(grid[device]), (width - 0.24) / len(places) - 0.1, fed, name, device, place)
    return figure


def _bar(axes: Axes, fed: Message, name: str) -> None:
    """The batch from its first to its last row; a part is as wide as it has rows."""
    shares = parts(fed, name)
    total = max((part.first + part.rows for part in shares), default=0)
    for device, part in enumerate(shares):
        color = device_color(device)
        box = Rectangle((part.first, 0), part.rows, 1, facecolor=tint(color, 0.3), edgecolor=color, linewidth=1.2)
        box.set_gid(f"{name}-{device}")
        axes.add_patch(box)
        if part.rows:
            text = f"{part.rows}" if len(shares) > 4 else count(part.rows, "row")
            axes.text(part.first + part.rows / 2, 0.5, text, ha="center", va="center", fontsize=7.5)
    axes.set(xlim=(0, max(total, 1)), ylim=(0, 1), xticks=[], yticks=[])
    axes.set_frame_on(False)
    dtype = fed.get("dtypes", {}).get(name, "")
    axes.set_title(f"{name}  ", weight="bold", pad=3)
    axes.set_title(
        f"{dtype}, {count(sum(part.rows for part in shares), 'row')} in all",
        loc="right",
        color=FAINT,
        pad=3,
        fontsize=8,
    )


def _part(axes: Axes, room: float, fed: Message, name: str, device: int, place: str) -> None:
    """What one device got, on a place `room` inches wide."""
    axes.set(xticks=[], yticks=[])
    axes.spines[:].set_visible(False)
    part = at(parts(fed, name), device, None)
    if part is None:
        return
    at_left, above = 0.15 / room, dict[str, Any](transform=axes.transAxes, va="bottom")
    square = Rectangle((0, 1.36), 0.09 / room, 0.09 / _PREVIEW, color=device_color(device), clip_on=False)
    axes.add_artist(square).set_transform(axes.transAxes)
    axes.text(at_left, 1.3, shortened(f"{place}: {part.text()}", room - 0.15, 7.5), fontsize=7.5, **above)
    shape = shortened(shape_text(part.shape), room - 0.15, 7)
    axes.text(at_left, 1.06, shape, color=FAINT, fontsize=7, **above)
    shown = at(fed.get("previews", {}).get(name, []), device, None)
    draw = _PREVIEWS.get((shown or {}).get("kind", ""))
    if shown is not None and draw is not None and part.rows:
        draw(axes, shown, device_color(device))


def _images(axes: Axes, shown: Mapping[str, Any], color: str) -> None:
    """The first few, side by side, dark on white as they are; their range is stretched."""
    for number, image in enumerate(list(shown.get("images", []))[:_IMAGES]):
        wide, high = int(image["width"]), int(image["height"])
        pixels = np.asarray(image["pixels"], np.uint8).reshape(high, wide)
        left = number * (1 + 0.08)
        axes.imshow(
            pixels,
            cmap="gray",
            vmin=0,
            vmax=255,
            extent=(left, left + wide / max(wide, high), 0, high / max(wide, high)),
        )
    axes.set(xlim=(0, _IMAGES * 1.08), ylim=(0, 1), aspect="equal", anchor="W")


def _vectors(axes: Axes, shown: Mapping[str, Any], color: str) -> None:
    """Every row a small line over its elements, one below the other."""
    rows = [np.asarray(row, np.float64) for row in list(shown.get("rows", []))[:_LINES]]
    known = [row[np.isfinite(row)] for row in rows]
    low = min((row.min() for row in known if row.size), default=0.0)
    high = max((row.max() for row in known if row.size), default=1.0)
    for number, row in enumerate(rows):
        axes.plot(
            np.linspace(0, 1, len(row)), (row - low) / ((high - low) or 1.0) * 0.85 - number, color=color, linewidth=0.8
        )
    axes.set(xlim=(0, 1), ylim=(-_LINES + 1 - 0.1, 1))


def _labels(axes: Axes, shown: Mapping[str, Any], color: str) -> None:
    """How often each value is in the part."""
    values = [number_text(float(v)) for v in shown.get("values", [])][:_BARS]
    counts = np.asarray(list(shown.get("counts", []))[:_BARS], np.float64)
    axes.bar(range(len(values)), counts, width=0.7, color=tint(color, 0.55), edgecolor=color, linewidth=0.8)
    axes.set_xticks(range(len(values)), values, fontsize=6.5)
    axes.tick_params(length=0, pad=1)
    for x, n in enumerate(counts):
        axes.text(x, n, number_text(float(n)), ha="center", va="bottom", fontsize=6, color=FAINT)
    axes.set(xlim=(-0.6, max(len(values), 6) - 0.4), ylim=(0, max(counts.max(initial=1.0) * 1.25, 1.0)))


def _numbers(axes: Axes, shown: Mapping[str, Any], color: str) -> None:
    values = [number_text(float(v)) for v in np.ravel(shown.get("values", []))]
    text = ", ".join(values[:_VALUES]) + (" …" if len(values) > _VALUES else "")
    axes.text(0, 0.85, text, fontsize=7.5, color=TEXT, va="top", wrap=True)


_PREVIEWS = {"image": _images, "vector": _vectors, "labels": _labels, "numbers": _numbers}
