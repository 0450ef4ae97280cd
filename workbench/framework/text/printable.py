r"""Texts as they may be shown: in a terminal, on a page, in a picture, in a file.

Users choose the names of variables, feeds and runs, and any text is one. Not every text can be shown: halves of
characters cannot be encoded, XML takes no control characters, and a terminal obeys them. Such characters are written
as Python writes them in a string, `\x07`; line ends stay.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from html import escape as escaped
from typing import Any

_CONTROL = "\x00-\x09\x0b-\x1f\x7f-\x9f"  # but line ends
_DIRECTION = "\u202a-\u202e\u2066-\u2069"  # have what follows read from right to left
_NO_CHARACTERS = "\ud800-\udfff\ufffe\uffff"
_HIDDEN = re.compile(f"[{_CONTROL}{_DIRECTION}{_NO_CHARACTERS}]")


def printable(text: str) -> str:
    r"""The text with what cannot be shown written as in a Python string.

    Example:
        >>> print(printable("a\x07b $x$ \ud800"))
        a\x07b $x$ \ud800
    """
    return text if text.isprintable() else _HIDDEN.sub(_code, text)


def _code(match: re.Match[str]) -> str:
    return match[0].encode("unicode_escape").decode("ascii")


def escape(text: str) -> str:
    """The text for HTML and SVG, between tags or in an attribute."""
    return escaped(printable(text))


def all_printable(value: Any) -> Any:
    """The same for every text in lists and dictionaries, keys included; anything else is returned as it is."""
    if isinstance(value, str):
        return printable(value)
    if isinstance(value, Mapping):
        return {all_printable(name): all_printable(part) for name, part in value.items()}
    return [all_printable(part) for part in value] if isinstance(value, list | tuple) else value
