"""The pictures that are left of a page: all of its panels, in a notebook that is saved, exported or printed."""

from __future__ import annotations

import threading
from base64 import b64encode
from collections.abc import Mapping
from typing import Any

from workbench.errors import PreconditionNotMet
from workbench.notebook.dashboard.page.view import PanelView
from workbench.notebook.messages import Message

_ALT = {
    "graph": "the graph of a step",
    "curves": "what was recorded, over the steps",
    "feeds": "what each device was fed",
    "scopes": "memory of temporaries over the steps",
    "timeline": "a step on the clock",
}


class StillPictures:
    """Panels as HTML, drawn when steps come to rest.

    Drawing takes a second, which a loop of short steps would notice. So while steps go on only the graph is drawn, when
    it is another one; it stands beside the other pictures of the same graph, and none of them contradicts the words.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._drawn: dict[str, str] = {}  # by panel
        self._of: Any = None  # which graph they are of

    def html(self, messages: Mapping[str, Any], goes_on: bool) -> str:
        """All that there is to see, the graph first.

        Args:
            messages: what is shown, as in `Dashboard.messages`. goes_on: steps follow each other.
        """
        with self._lock:
            graph = _graph_of(messages)
            if graph != self._of:
                self._drawn, self._of = {}, graph
            wanted = [panel for panel in ("graph",) if panel not in self._drawn] if goes_on else _ALT
            self._drawn.update({panel: _image(panel, messages) for panel in wanted})
            return "".join(self._drawn.get(panel, "") for panel in _ALT)


def _graph_of(messages: Mapping[str, Any]) -> tuple[Any, ...]:
    graph: Message = messages.get("graph") or {}
    return graph.get("id"), graph.get("strategy"), tuple(graph.get("devices", ()))


def _image(panel: str, messages: Mapping[str, Any]) -> str:
    """A panel as an image; empty where there is nothing to see yet."""
    from workbench.notebook.figures.write import small_png

    if not _has_values(panel, messages):
        return ""
    try:
        picture = b64encode(small_png(PanelView(panel, messages).figure())).decode("ascii")
    except PreconditionNotMet:
        return ""
    return f'<div><img alt="{_ALT[panel]}" src="data:image/png;base64,{picture}"></div>'


def _has_values(panel: str, messages: Mapping[str, Any]) -> bool:
    """Whether a panel is more than a frame: memory and curves have one before the first step."""
    if panel == "scopes":
        return len(messages["scopes"]["memory"]["step"]) > 0
    if panel == "curves":
        return any(len(part["step"]) for run in messages["curves"] for part in (run["rate"], *run["series"].values()))
    return True
