"""Where in the user's code something was built: a file or notebook cell, and a line."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

_PACKAGE = str(Path(__file__).resolve().parent.parent) + "/"
_ROOT = str(Path(__file__).resolve().parent.parent.parent)
_OURS = (_PACKAGE, _ROOT + "/magics/")
_formatters: list[Callable[[str], str | None]] = []


class Site(NamedTuple):
    """A file name as Python's tracebacks show it, and a line number (from 1)."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{file_label(self.file)}, line {self.line}"


def file_label(file: str) -> str:
    """The name a reader knows a source file by; the notebook layer adds `cell In[3]`."""
    for formatter in _formatters:
        label = formatter(file)
        if label:
            return label
    return file


def add_formatter(formatter: Callable[[str], str | None]) -> None:
    """Register a function that turns a source file name into a label, or returns None."""
    if formatter not in _formatters:
        _formatters.append(formatter)


def remove_formatter(formatter: Callable[[str], str | None]) -> None:
    """Take a formatter back; unknown ones are ignored."""
    if formatter in _formatters:
        _formatters.remove(formatter)


class _Ours(dict[str, bool]):
    """Whether a source file belongs to workbench, decided when a file is first seen."""

    def __missing__(self, file: str) -> bool:
        ours = self[file] = file.startswith((*_OURS, "<frozen"))
        return ours


OURS = _Ours()  # {source file: whether it is part of workbench}; for where a call of `is_ours` is too slow


def is_ours(file: str) -> bool:
    """Whether a source file is part of workbench (or of Python's import machinery)."""
    return OURS[file]


def caller() -> Site:
    """The nearest frame of the call stack that is not workbench's own code."""
    frame = sys._getframe(1)
    while OURS[frame.f_code.co_filename] and frame.f_back is not None:
        frame = frame.f_back
    return Site(frame.f_code.co_filename, frame.f_lineno)
