"""A panel of a dashboard by itself: as the value of a cell a picture, printed a text."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from workbench.errors import InvalidArgument, PreconditionNotMet, one_of
from workbench.framework.paths import path_text

PANELS = ("graph", "feeds", "scopes", "timeline", "curves")


class PanelView:
    """A panel as it stands; as the value of a cell a picture, printed a text.

    Args:
        panel: "graph", "feeds", "scopes", "timeline" or "curves". messages: what is shown, as in `Dashboard.messages`.

    Raises:
        InvalidArgument: there is no such panel.
    """

    def __init__(self, panel: str, messages: Mapping[str, Any]) -> None:
        if panel not in PANELS:
            raise InvalidArgument(f"the dashboard has no panel {panel!r}; it has {one_of(PANELS)}")
        self.panel, self.messages = panel, messages

    def figure(self) -> Any:
        """As a matplotlib Figure.

        Raises:
            PreconditionNotMet: nothing has happened yet that it could show.
        """
        from workbench.notebook.figures.panels.draw import draw  # matplotlib takes a while to load

        return draw(self.panel, self.messages)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write it as .svg or .png.

        Raises:
            InvalidArgument: another kind of file. OSError: it cannot be written.
        """
        from workbench.notebook.figures.write import save

        path = path_text(path)  # before there is a figure
        save(self.figure(), path)

    def _repr_png_(self) -> bytes | None:
        from workbench.notebook.figures.write import small_png

        try:
            return small_png(self.figure())
        except PreconditionNotMet:
            return None  # there is its text

    def __repr__(self) -> str:
        from workbench.notebook.figures.text import describe

        return describe(self.messages)
