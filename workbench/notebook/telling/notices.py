"""Notices in a notebook: plain lines below the cell. What goes to standard error looks like a failure there."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from workbench.framework.notice import Notice, speak_through
from workbench.framework.site import Site

_undo: list[Callable[[], None]] = []


def show_plainly(shell: Any) -> None:
    """Print notices, where a front end would show standard error in red; a terminal goes on as it was."""
    if getattr(shell, "kernel", None) is None or _undo:
        return
    before = warnings.showwarning

    def show(message: Any, category: Any, filename: str, lineno: int, file: Any = None, line: Any = None) -> None:
        if isinstance(category, type) and issubclass(category, Notice) and file is None:
            _print(f"{message}\n  at {Site(filename, lineno)}")
        else:
            before(message, category, filename, lineno, file, line)

    warnings.showwarning = show
    _undo.append(speak_through(_print))
    _undo.append(lambda: setattr(warnings, "showwarning", before) if warnings.showwarning is show else None)


def show_as_before() -> None:
    """Take that back."""
    while _undo:
        _undo.pop()()


def _print(text: str) -> None:
    print(f"Note: {text}", flush=True)
