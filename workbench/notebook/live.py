"""A run watched live in a notebook: how far it is, and the curve of every recorded value.

What is shown is a page of HTML with a drawing in it, replaced in place a few times a second. It needs no widget, so
the last picture stays in a saved notebook and in its HTML export.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from html import escape
from itertools import pairwise
from typing import Any

from IPython.display import display

from workbench.experiments import Run
from workbench.notebook.summary import CODE

REDRAW_S = 0.25
WIDTH, HEIGHT, POINTS = 260, 64, 130  # of a curve, in pixels; how many points are drawn at most
CURVES = 4


def in_notebook(shell: Any) -> bool:
    """Whether the shell has a front end that can replace what was shown (a terminal cannot)."""
    return getattr(shell, "kernel", None) is not None


def watch(run: Run) -> Run:
    """Wait for the end of a run and show how it goes meanwhile; interrupting stops it at a step boundary."""
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
    except KeyboardInterrupt:  # while drawing; run.wait() deals with its own
        run.stop()
    return run.wait()


class LiveView:
    """The picture of a run as it stands."""

    def __init__(self, run: Run) -> None:
        self.run = run

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
        curves = "".join(curve_html(name, values) for name, values in list(run.history.items())[:CURVES])
        return f'<div>{bar}<span>{escape(self.progress())}</span></div><div style="display:flex">{curves}</div>'


def curve_html(name: str, values: Sequence[float]) -> str:
    """A small drawing of a value over the steps, its newest and its range."""
    known = [v for v in values if v == v]
    if not known:
        return ""
    low, high = min(known), max(known)
    points = thinned(known)
    across, up = WIDTH / max(len(points) - 1, 1), HEIGHT / ((high - low) or 1.0)
    path = " ".join(f"{i * across:.1f},{HEIGHT - (v - low) * up:.1f}" for i, v in enumerate(points))
    line = f'<polyline points="{path}" fill="none" stroke="var(--jp-brand-color1, #1976d2)" stroke-width="1.5"/>'
    svg = f'<svg width="{WIDTH}" height="{HEIGHT + 4}" viewBox="0 -2 {WIDTH} {HEIGHT + 4}" role="img">{line}</svg>'
    label = f'<span style="{CODE}">{escape(name)} {values[-1]:.4g}</span> <small>({low:.3g} … {high:.3g})</small>'
    return f'<figure style="margin:4px 24px 4px 0">{svg}<figcaption>{label}</figcaption></figure>'


def thinned(values: Sequence[float], points: int = POINTS) -> list[float]:
    """At most `points` values: means of equally long stretches."""
    if len(values) <= points:
        return list(values)
    edges = [round(i * len(values) / points) for i in range(points + 1)]
    return [sum(values[a:b]) / (b - a) for a, b in pairwise(edges)]
