"""How values stand in the file of runs: SQLite can hold them whatever a run is called, and reading checks them."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from workbench.errors import InvalidArgument

LARGEST = 2**63 - 1  # an INTEGER holds no more

_REAL = (int, float)
_SURROGATE = "\\ud"  # how JSON begins to write what is no character by itself, or half of one
_COLUMNS: dict[str, tuple[type, ...]] = {
    "id": (int,), "name": (str,), "begun": _REAL, "ended": (*_REAL, type(None)), "alive": _REAL, "state": (str,),
    "step": (int,), "steps": (int, type(None)), "seconds": _REAL, "error": (str, type(None)), "settings": (str,),
    "notes": (str,), "tags": (str,),
}  # fmt: skip


def text(value: Any) -> str:
    r"""A text that can be encoded: what `os.fsdecode` makes of bytes that are no UTF-8 becomes `\udce9` and such."""
    return str(value).encode("utf-8", "backslashreplace").decode()


def path(value: str) -> str | bytes:
    """A path, in bytes where it is no text; `path_of` gives it back whole."""
    return value if text(value) == value else os.fsencode(value)


def path_of(stored: str | bytes) -> str:
    """What `path` was given."""
    return os.fsdecode(stored)


def count(value: int | None) -> int | None:
    """A number of steps, as large as can be held."""
    return None if value is None else min(int(value), LARGEST)


def document(value: Any) -> str:
    """JSON, with texts as `text` makes them.

    Raises:
        InvalidArgument: something JSON has no word for.
    """
    try:
        text = json.dumps(value, allow_nan=False, sort_keys=isinstance(value, dict))
        return text if _SURROGATE not in text else json.dumps(value_of(text))
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidArgument(f"a run keeps what JSON can hold: {error}") from None


def value_of(document: str) -> Any:
    """What `document` was given; its texts can be encoded, whoever wrote the file.

    Raises:
        ValueError: it is no JSON.
    """
    value = json.loads(document)
    return _encodable(value) if _SURROGATE in document.lower() else value


def _encodable(value: Any) -> Any:
    if isinstance(value, str):
        return text(value)
    if isinstance(value, list):
        return [_encodable(one) for one in value]
    return {text(name): _encodable(one) for name, one in value.items()} if isinstance(value, dict) else value


def row_of(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row of the table of runs, with settings and tags as they were given.

    Raises:
        ValueError: it is not what was written.
    """
    fields = dict(row)
    for name, kinds in _COLUMNS.items():
        if not isinstance(fields[name], kinds):
            raise ValueError(f"run {fields['id']!r} has {fields[name]!r} as {name}")
    fields["settings"], fields["tags"] = value_of(fields["settings"]), value_of(fields["tags"])
    if not isinstance(fields["settings"], dict) or not isinstance(fields["tags"], list):
        raise ValueError(f"run {fields['id']!r} has no settings or tags")
    return fields


def numbers_of(start: Any, stored: Any) -> tuple[int, np.ndarray]:
    """A piece of values: the step before the first, and float64 values of consecutive steps.

    Raises:
        ValueError: it is not what was written.
    """
    if not isinstance(start, int) or start < 0 or not isinstance(stored, bytes):
        raise ValueError(f"a piece of values begins at {start!r}")
    return start, np.frombuffer(stored, "<f8")


def data_of(stored: str) -> dict[str, Any]:
    """What is known of a happening.

    Raises:
        ValueError: it is not what was written.
    """
    data = value_of(stored)
    if not isinstance(data, dict):
        raise ValueError(f"a happening has {data!r} as its data")
    return data


def why(error: Exception) -> str:
    """Why a file cannot be read or written, in the user's words."""
    said = str(error) or type(error).__name__
    reasons = {
        "locked": "another process has kept it locked",
        "disk is full": "the disk is full",
        "readonly": "it, or its folder, is read-only",
        "not a database": "it is damaged, or not a database",
        "malformed": "it is damaged",
        "decode to UTF-8": "it is damaged",
        "unable to open": "it cannot be opened; its folder may be read-only",
    }
    cause = next((reason for part, reason in reasons.items() if part in said), None)
    if cause is None and isinstance(error, ValueError | TypeError | KeyError | MemoryError):
        cause = "it is damaged"
    return f"{cause} ({said})" if cause else said
