"""A picture that stands where a page should be, and says so."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.figure import Figure

from workbench.notebook.figures.palette import TEXT, styled

_LINE, _EDGE = 0.19, 0.12  # inches


@styled
def captioned(figure: Figure, lines: Sequence[str]) -> Figure:
    """The same figure with lines of text above it."""
    width, height = figure.get_size_inches()
    more = _LINE * len(lines) + _EDGE
    figure.set_size_inches(width, height + more)
    for axes in figure.axes:
        left, low, across, up = axes.get_position().bounds
        share = height / (height + more)
        axes.set_position((left, low * share, across, up * share))
    for number, line in enumerate(lines):
        down = _EDGE + _LINE * (number + 0.3)
        figure.text(_EDGE / width, 1 - down / (height + more), line, color=TEXT, weight="bold", va="center")
    return figure
