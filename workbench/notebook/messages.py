"""Messages for the page: JSON, with the numbers of arrays beside it as buffers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from workbench.framework.text.printable import printable

Message = dict[str, Any]
DTYPES = ("int32", "float32", "float64", "uint8")


def encode(message: Mapping[str, Any]) -> tuple[Message, list[memoryview]]:
    """The message with `{"$": i, "dtype": …}` for its arrays, and these as buffers; its texts can be encoded."""
    buffers: list[memoryview] = []
    return _encoded(message, buffers), buffers


def _encoded(part: Any, buffers: list[memoryview]) -> Any:
    if isinstance(part, np.ndarray):
        buffers.append(memoryview(part.tobytes()))
        return {"$": len(buffers) - 1, "dtype": part.dtype.name}
    if isinstance(part, str):
        return printable(part)
    if isinstance(part, Mapping):
        return {_encoded(name, buffers): _encoded(inner, buffers) for name, inner in part.items()}
    if isinstance(part, list | tuple):
        return [_encoded(inner, buffers) for inner in part]
    if isinstance(part, float) and not math.isfinite(part):
        return None  # JSON has no such numbers
    return part


def column(values: Any, dtype: str) -> np.ndarray:
    """A column of numbers as the page takes them."""
    assert dtype in DTYPES, dtype
    return np.asarray(values, dtype)


class Table:
    """Texts by number, each once."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def number(self, text: str | None) -> int:
        """That of a text, -1 of None."""
        return -1 if text is None else self._numbers.setdefault(text, len(self._numbers))

    @property
    def texts(self) -> list[str]:
        """All of them, in the order of their numbers."""
        return list(self._numbers)
