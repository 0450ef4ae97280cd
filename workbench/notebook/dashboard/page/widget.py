"""The page in the notebook: an anywidget that shows what a publisher sends."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import anywidget
import traitlets

from workbench import assets
from workbench.notebook.dashboard.page.line import line
from workbench.notebook.messages import Message, encode
from workbench.notebook.still import Still

_ASSETS = Path(assets.__file__).parent


class Page(anywidget.AnyWidget):
    """The front end of `assets/`; it keeps nothing, so that a page that is loaded again just asks.

    Args:
        take: is called with every message of the page and its buffers, on any thread; it must return at once.

    Attributes:
        still: what stands beside it.
    """

    # As texts: anywidget watches files, and what is told of their changes keeps every page, with its run, in memory.
    _esm = (_ASSETS / "dashboard.js").read_text("utf-8")
    _css = (_ASSETS / "dashboard.css").read_text("utf-8")
    _hides = traitlets.Unicode().tag(sync=True)  # a style sheet for the time that the page is there

    def __init__(self, take: Callable[[Message, Sequence[memoryview]], None]) -> None:
        self.still = Still()
        super().__init__(_hides=self.still.hidden)
        self.on_msg(lambda _, content, buffers: take(content, buffers))
        self._line = line()
        if self._line is not None:
            self._line.connect(self.comm.comm_id, take)

    def close(self) -> None:
        """Remove all views, and listen no more."""
        if self._line is not None and self.comm is not None:
            self._line.disconnect(self.comm.comm_id)
        layout: Any = self.layout
        super().close()
        layout.close()  # a widget of its own, which stays otherwise

    def post(self, message: Message) -> None:
        """Send a message to all views."""
        content, buffers = encode(message)
        self.send(content, buffers)

    def view(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """What a front end shows it by, and what it has to know for that (Colab: where widgets are loaded from)."""
        bundle: Any = super()._repr_mimebundle_()
        return bundle if isinstance(bundle, tuple) else (bundle or {}, {})
