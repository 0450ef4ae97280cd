"""Progress bars of a notebook: drawn as HTML, which stays in a saved notebook, where a widget would not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from IPython.display import DisplayHandle
from tqdm.std import tqdm

from workbench.experiments.training.loops.progress import draw_bars_with
from workbench.framework.text.printable import escape

WIDTH = 320  # of a bar, in pixels
_TEXT = "{desc}: {n_fmt}/{total_fmt} [{elapsed}<{remaining}, {rate_fmt}{postfix}]"

_undo: list[Callable[[], None]] = []


class HtmlBar(tqdm):
    """A bar that is an output of the cell in which it was made, replaced in place from any thread."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options, gui=True)  # tqdm itself prints nothing
        self._shown = DisplayHandle()
        if not self.disable:
            self._shown.display(self._bundle(), raw=True)

    def display(self, *_: Any, **__: Any) -> None:
        """Draw it as it stands."""
        self._shown.update(self._bundle(), raw=True)

    def clear(self, *_: Any, **__: Any) -> None:
        """It stands in nobody's way."""

    def close(self) -> None:
        """Draw it for the last time."""
        if not self.disable:
            self.display()
        super().close()

    def _bundle(self) -> dict[str, str]:
        told = self.format_dict
        line = self.format_meter(**{**told, "bar_format": _TEXT if self.total else None})
        bar = ""
        if self.total:
            bar = (
                f'<progress value="{self.n}" max="{self.total}" style="width:{WIDTH}px; margin-right:24px"></progress>'
            )
        return {"text/html": f"<div>{bar}<span>{escape(line)}</span></div>", "text/plain": self.format_meter(**told)}


def draw_bars(shell: Any) -> None:
    """Draw bars in a notebook's shell; a terminal goes on with tqdm's."""
    if getattr(shell, "kernel", None) is not None and not _undo:
        _undo.append(draw_bars_with(HtmlBar))


def draw_bars_as_before() -> None:
    """Take that back."""
    while _undo:
        _undo.pop()()
