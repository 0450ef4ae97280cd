"""What stands beside a widget in a cell's output for when there is none: in a notebook opened again, on paper.

A widget ends with its kernel. JupyterLab prefers it all the same to whatever else its output holds, and then says
"model not found". So what is to be seen instead is an output of its own. It hides what is left of the widget, and the
widget hides it, by a style sheet that is on the page as long as the widget is.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import Any

from IPython.display import DisplayHandle, display

from workbench.framework.text.printable import escape

_CELL = ".jp-OutputArea-child"  # JupyterLab's element around an output and its prompt
_GONE = f"{_CELL}:has(+ {_CELL} .wb-still) > .jp-OutputArea-output:not(:has(*))"  # words where a widget would be
_STYLE = f"""<style>
{_GONE} {{ display: none; }}
.wb-still img {{ max-width: 100%; }}
.wb-still {{ animation: wb-still 0s 1.5s backwards; }}
@keyframes wb-still {{ from {{ opacity: 0; }} }}
</style>"""  # a widget takes a moment to come


class Still:
    """The output beside one widget.

    Attributes:
        hidden: a style sheet that hides it; the widget has it on the page.
    """

    def __init__(self) -> None:
        self._name = f"wb-still-{secrets.token_hex(8)}"
        self._shown: DisplayHandle | None = None
        self.hidden = f".{self._name}, {_CELL}:has(.{self._name}) {{ display: none !important; }}"

    @property
    def is_shown(self) -> bool:
        """Whether it stands somewhere."""
        return self._shown is not None

    def show(
        self, widget: tuple[dict[str, Any], dict[str, Any]], name: str, said: Sequence[str], words: str, seen: str
    ) -> None:
        """Show the widget and what stands beside it as outputs of the running cell.

        Args:
            widget: its mimebundle and metadata. name: the widget where there are no widgets, in a few words.
            said: why it is not here, in lines. words: what it shows, as text, seen: as HTML.
        """
        bundle, metadata = widget
        display({**bundle, "text/plain": name}, metadata=metadata, raw=True)
        self._shown = DisplayHandle()
        self._shown.display(self._bundle(said, words, seen), raw=True)

    def update(self, said: Sequence[str], words: str, seen: str) -> None:
        """Let something else stand beside the widget where it was shown last; from any thread."""
        if self._shown is not None:
            self._shown.update(self._bundle(said, words, seen), raw=True)

    def _bundle(self, said: Sequence[str], words: str, seen: str) -> dict[str, str]:
        lines = "".join(f"<div>{escape(line)}</div>" for line in said)
        html = f'{_STYLE}<div class="wb-still {self._name}">{lines}{seen}</div>'
        return {"text/html": html, "text/plain": "\n".join([*said, words])}
