"""A run watched live in a notebook: how far it is, and the curve of every recorded value.

What is shown is a page of HTML with a drawing in it, replaced in place a few times a second. It needs no widget, so
the last picture stays in a saved notebook and in its HTML export.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from IPython.display import display

from workbench.experiments import Run
from workbench.experiments.charts.line_chart import ChartLine, line_chart, told_apart
from workbench.experiments.charts.overlay import key
from workbench.experiments.charts.pictures import as_image
from workbench.framework.text.printable import escape
from workbench.notebook.buckets import Buckets
from workbench.notebook.programs.summary import CODE

REDRAW_S = 0.25
WIDTH, HEIGHT, POINTS = 320, 132, 260  # of a drawing, in pixels; how many points are drawn at most
CURVES = 4  # drawings
_VALID = "val_"  # how the name of a value begins that validation data gave
_RED = "#d32f2f"


def in_notebook(shell: Any) -> bool:
    """Whether the shell has a front end that can replace what was shown (a terminal cannot)."""
    return getattr(shell, "kernel", None) is not None


def watch(run: Run) -> Run:
    """Wait for the end of a run and show how it goes meanwhile.

    Raises:
        KeyboardInterrupt: of an interrupt, which stops the run at a step boundary. Exception: what made the run fail.
    """
    __tracebackhide__ = True
    view = LiveView(run)
    shown = display(view, display_id=True)
    try:
        return _follow(run, lambda: shown.update(view))
    finally:
        shown.update(view)


def _follow(run: Run, redraw: Callable[[], None]) -> Run:
    __tracebackhide__ = True
    try:
        while not run.finished:
            try:
                run.wait(timeout=REDRAW_S)
            except TimeoutError:
                redraw()
        return run.wait()
    except KeyboardInterrupt:
        if not run.is_stopping:  # it came while drawing; wait() stops the run itself
            run.stop()
            run.wait()
        raise


class Curve(NamedTuple):
    """A recorded value over the steps: means, lowest and highest of every stretch, and the newest value."""

    name: str
    steps: np.ndarray
    means: np.ndarray
    low: np.ndarray
    high: np.ndarray
    newest: float


class LiveView:
    """The picture of a run as it stands."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self._curves: dict[str, Buckets] = {}  # so that a redraw costs what has come since the last one

    def __repr__(self) -> str:
        values = [f"{name} {value:.4g}" for name, value in self.run.last.items()]
        return ", ".join([self.progress(), *values]) + (f"\n{self.trouble()}" if self.trouble() else "")

    def progress(self) -> str:
        """`net: 120 of 240 steps, epoch 2 of 3, 1.3 s, 92 steps/s, 1.3 s left (paused)`."""
        run = self.run
        of = f" of {run.steps:,}" if run.steps is not None else ""
        parts = [f"{run.name}: {run.step:,}{of} steps"]
        if run.epochs is not None and run.epochs > 1:
            parts.append(f"epoch {min(run.epoch + 1, run.epochs):,} of {run.epochs:,}")
        parts.append(f"{run.seconds:.1f} s")
        if run.steps_per_second:
            parts.append(f"{run.steps_per_second:.3g} steps/s")
        if not run.finished and run.seconds_left is not None:
            parts.append(f"{duration(run.seconds_left)} left")
        state = "" if run.state in ("running", "done") else f" ({run.state})"
        return ", ".join(parts) + state

    def trouble(self) -> str:
        """The first NaN or Inf: its step, and the op that makes it; empty if there was none."""
        nan = self.run.first_nan
        return "" if nan is None else f"{nan.title}: {nan.reason}"

    def _repr_html_(self) -> str:
        run, trouble = self.run, self.trouble()
        color = f" accent-color:{_RED};" if trouble else ""
        bar = ""
        if run.steps:
            bar = (
                f'<progress value="{run.step}" max="{run.steps}" style="width:{WIDTH}px;{color} margin-right:24px">'
                "</progress>"
            )
        said = f'<div role="alert" style="color:{_RED}"><b>{escape(trouble)}</b></div>' if trouble else ""
        shown = as_image if run.finished else str  # what stays is an image; one replaced many times a second flickers
        charts = "".join(curves_html([self._curve(name) for name in names], shown) for names in self._charts())
        style = "display:flex; flex-wrap:wrap"
        return f'<div>{bar}<span>{escape(self.progress())}</span></div>{said}<div style="{style}">{charts}</div>'

    def _charts(self) -> list[list[str]]:
        """The names of values, those together that are drawn in one frame: what training gave, and validation data."""
        names = [name for name, values in self.run.history.items() if values]
        valid = {name for name in names if name in self.run.val_labels and name.removeprefix(_VALID) in names}
        charts = [[name, *([v] if (v := _VALID + name) in valid else [])] for name in names if name not in valid]
        return charts[:CURVES]

    def _curve(self, name: str) -> Curve:
        values = self.run.history[name]
        if name in self.run.val_labels:  # few, and not of every step
            steps, points = map(np.array, self.run.curve(name))
            return Curve(name, steps, points, points, points, values[-1])
        curve = self._curves.setdefault(name, Buckets(POINTS))
        curve.add(values[curve.taken : len(values)])
        return Curve(name, *curve.columns(), values[-1])


def curves_html(curves: Sequence[Curve], shown: Callable[[str], str]) -> str:
    """A small drawing of values over the steps, with axes; above it the newest and the range of each.

    Args:
        shown: what becomes of the drawing.
    """
    lines = [ChartLine(curve.name, curve.steps, curve.means, number) for number, curve in enumerate(curves)]
    names = " and ".join(curve.name for curve in curves)
    drawing = shown(line_chart(lines, f"{names} over the steps", WIDTH, HEIGHT))
    labels = "<br/>".join(
        f"{shown(key(number)) + ' ' if len(curves) > 1 else ''}{_label(curve)}" for number, curve in enumerate(curves)
    )
    return f'<figure style="margin:4px 24px 4px 0"><figcaption>{labels}</figcaption>{drawing}</figure>'


def _label(curve: Curve) -> str:
    known = np.concatenate([curve.low, curve.high])
    known = known[np.isfinite(known)]
    said = f"({' … '.join(told_apart([known.min(), known.max()], 3))})" if len(known) else "(no number yet)"
    return f'<span style="{CODE}">{escape(curve.name)} {curve.newest:.4g}</span> <small>{said}</small>'


def duration(seconds: float) -> str:
    """`12 s`, `3 min 20 s`, `2 h 05 min`."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600:,} h {whole % 3600 // 60:02} min"
