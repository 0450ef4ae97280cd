"""The page in the notebook: an anywidget that shows what a publisher sends."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import anywidget

from workbench import assets
from workbench.notebook.dashboard.messages import Message, encode

_ASSETS = Path(assets.__file__).parent


class Page(anywidget.AnyWidget):
    """The front end of `assets/`; it keeps nothing, so that a page that is loaded again just asks.

    Args:
        take: is called with every message of the page.
    """

    _esm = _ASSETS / "dashboard.js"
    _css = _ASSETS / "dashboard.css"

    def __init__(self, take: Callable[[Message], None]) -> None:
        super().__init__()
        self.on_msg(lambda _, content, buffers: take(content))

    def post(self, message: Message) -> None:
        """Send a message to all views."""
        content, buffers = encode(message)
        self.send(content, buffers)

    def view(self, **options: Any) -> dict[str, Any]:
        """What a front end shows it by."""
        found: Any = super()._repr_mimebundle_(**options)
        return dict(found[0] if isinstance(found, tuple) else found or {})
