"""A panel by its name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from matplotlib.figure import Figure

from workbench.errors import PreconditionNotMet
from workbench.notebook.figures.curves import curves
from workbench.notebook.figures.feeds import feeds
from workbench.notebook.figures.graph import graph
from workbench.notebook.figures.scopes import scopes
from workbench.notebook.figures.timeline import timeline

Messages = Mapping[str, Any]


def draw(panel: str, messages: Messages) -> Figure:
    """A panel as it stands.

    Args:
        panel: a key of `PANELS`. messages: as in `Dashboard.messages`.

    Raises:
        PreconditionNotMet: nothing has happened yet that it could show.
    """
    needs, made = PANELS[panel]
    if not messages.get(needs):
        raise PreconditionNotMet(f"there is nothing to show under {panel!r} yet: run a step")
    return made(messages)


PANELS: dict[str, tuple[str, Callable[[Messages], Figure]]] = {
    "graph": ("graph", lambda messages: graph(messages["graph"], messages.get("sample"))),
    "feeds": ("sample", lambda messages: feeds(messages["sample"])),
    "scopes": ("scopes", lambda messages: scopes(messages["scopes"])),
    "timeline": ("sample", lambda messages: timeline(messages["sample"], messages.get("graph"))),
    "curves": ("curves", lambda messages: curves(messages["curves"])),
}
