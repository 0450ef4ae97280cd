"""Paths that users give."""

from __future__ import annotations

import os
from typing import Any

from workbench.errors import InvalidArgument, InvalidType


def path_text(given: Any, what: str = "path") -> str:
    """A path as text.

    Args:
        what: the name of the argument.

    Raises:
        InvalidType: no str or os.PathLike of one. InvalidArgument: there is a NUL in it, as in no file's name.
    """
    text = os.fspath(given) if isinstance(given, str | os.PathLike) else None
    if not isinstance(text, str):
        raise InvalidType(f"{what} is a str or an os.PathLike, got {type(given).__name__}")
    if "\0" in text:
        raise InvalidArgument(f"{what} names no file: there is a NUL in {text!r}")
    return text
