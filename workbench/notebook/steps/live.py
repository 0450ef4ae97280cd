"""A run watched live in a notebook: how far it is, and the curve of every recorded value.

What is shown is a page of HTML with a drawing in it, replaced in place a few times a second. It needs no widget, so
the last picture stays in a saved notebook and in its HTML export.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from IPython.display import display

from workbench.experiments import Run
from workbench.experiments.charts.line_chart import ChartLine, line_chart, told_apart
from workbench.experiments.charts.pictures import as_image
from workbench.framework.text.printable import escape
from workbench.notebook.buckets import Buckets
from workbench.notebook.programs.summary import CODE

REDRAW_S = 0.25
WIDTH, HEIGHT, POINTS = 320, 132, 260  # of a drawing, in pixels; how many points are drawn at most
CURVES = 4


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


class LiveView:
    """The picture of a run as it stands."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self._curves: dict[str, Buckets] = {}  # so that a redraw costs what has come since the last one

    def __repr__(self) -> str:
        return ", ".join([self.progress(), *(f"{name} {value:.4g}" for name, value in self.run.last.items())])

    def progress(self) -> str:
        """`net: 120 of 240 steps, 1.3 s (paused)`."""
        run = self.run
        of = f" of {run.steps:,}" if run.steps is not None else ""
        state = "" if run.state in ("running", "done") else f" ({run.state})"
        return f"{run.name}: {run.step:,}{of} steps, {run.seconds:.1f} s{state}"

    def _repr_html_(self) -> str:
        run = self.run
        bar = ""
        if run.steps:
            bar = (
                f'<progress value="{run.step}" max="{run.steps}" style="width:{WIDTH}px; margin-right:24px"></progress>'
            )
        shown = as_image if run.finished else str  # what stays is an image; one replaced many times a second flickers
        curves = "".join(curve_html(name, *self._curve(name), values[-1], shown) for name, values in self._recorded())
        style = "display:flex; flex-wrap:wrap"
        return f'<div>{bar}<span>{escape(self.progress())}</span></div><div style="{style}">{curves}</div>'

    def _recorded(self) -> list[tuple[str, list[float]]]:
        return [(name, values) for name, values in self.run.history.items() if values][:CURVES]

    def _curve(self, name: str) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Steps, means, lowest and highest."""
        if name in self.run.val_labels:  # few, and not of every step
            steps, points = map(np.array, self.run.curve(name))
            return steps, points, points, points
        curve, values = self._curves.setdefault(name, Buckets(POINTS)), self.run.history[name]
        curve.add(values[curve.taken : len(values)])
        return curve.columns()


def curve_html(
    name: str,
    steps: np.ndarray,
    means: np.ndarray,
    low: np.ndarray,
    high: np.ndarray,
    newest: float,
    shown: Callable[[str], str],
) -> str:
    """A small drawing of a value over the steps, with axes; above it its newest and its range.

    Args:
        shown: what becomes of the drawing.
    """
    drawing = shown(line_chart([ChartLine(name, steps, means)], f"{name} over the steps", WIDTH, HEIGHT))
    known = np.concatenate([low, high])
    known = known[np.isfinite(known)]
    said = f"({' … '.join(told_apart([known.min(), known.max()], 3))})" if len(known) else "(no number yet)"
    label = f'<span style="{CODE}">{escape(name)} {newest:.4g}</span> <small>{said}</small>'
    return f'<figure style="margin:4px 24px 4px 0"><figcaption>{label}</figcaption>{drawing}</figure>'
