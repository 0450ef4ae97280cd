"""A panel by its name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from matplotlib.figure import Figure

from workbench.errors import PreconditionNotMet
from workbench.framework.text.printable import all_printable
from workbench.notebook.figures.facts import newest_fed, typical_step
from workbench.notebook.figures.graphs.graph import graph
from workbench.notebook.figures.panels.curves import curves
from workbench.notebook.figures.panels.feeds import feeds
from workbench.notebook.figures.panels.scopes import scopes
from workbench.notebook.figures.panels.timeline import timeline

Messages = Mapping[str, Any]

WATCHED = ("feeds", "scopes", "timeline")  # panels of steps that were looked at


def draw(panel: str, messages: Messages) -> Figure:
    """A panel as it stands.

    Args:
        panel: a key of `PANELS`. messages: as in `Dashboard.messages`.

    Raises:
        PreconditionNotMet: nothing has happened yet that it could show.
    """
    has, drawn_by = PANELS[panel]
    unseen = (messages.get("state") or {}).get("subject", {}).get("unseen")
    if unseen and panel in WATCHED:
        raise PreconditionNotMet(f"there is nothing to show under {panel!r}. {unseen}")
    if not has(messages):
        raise PreconditionNotMet(f"there is nothing to show under {panel!r} yet: run a step")
    return drawn_by(all_printable(messages))


def _has(kind: str) -> Callable[[Messages], Any]:
    return lambda messages: messages.get(kind)


PANELS: dict[str, tuple[Callable[[Messages], Any], Callable[[Messages], Figure]]] = {
    "graph": (_has("graph"), lambda messages: graph(messages["graph"], typical_step(messages))),
    "feeds": (newest_fed, lambda messages: feeds(newest_fed(messages) or {})),
    "scopes": (_has("scopes"), lambda messages: scopes(messages["scopes"])),
    "timeline": (typical_step, lambda messages: timeline(typical_step(messages) or {}, messages.get("graph"))),
    "curves": (_has("curves"), lambda messages: curves(messages["curves"])),
}
