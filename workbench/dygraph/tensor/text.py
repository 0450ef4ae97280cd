"""The text of a tensor's values, as Paddle writes them."""

from __future__ import annotations

from typing import Any

import numpy as np

WIDTH, EDGE, LARGE, DIGITS = 80, 3, 1000, 8
INDENT = 7  # of every line but the first: the length of "Tensor("


def values_text(array: Any, indent: int = INDENT) -> str:
    """The elements of an array in nested brackets; of more than a thousand the first and last three of each row.

    Args:
        indent: blanks before every line but the first.
    """
    array = np.asarray(array)
    if array.size == 0:
        return "[]"
    if array.dtype.kind == "V":
        array = array.astype(np.float32)  # bfloat16
    is_short = array.size > LARGE
    shown = _edges(array) if is_short else array
    texts = [_element(v) for v in shown.reshape(-1)]
    width = max(map(len, texts))
    signed = array.dtype.kind in "fi" and bool((shown < 0).any())
    cells = [_aligned(v, text, width, signed) for v, text in zip(shown.reshape(-1), texts, strict=True)]
    if not array.shape:
        return texts[0]
    grid: Any = np.array(cells, object).reshape(shown.shape)
    return _nested(grid, array.shape, indent, is_short)


def _edges(array: np.ndarray) -> np.ndarray:
    for axis, size in enumerate(array.shape):
        if size > 2 * EDGE:
            array = np.take(array, [*range(EDGE), *range(-EDGE, 0)], axis=axis)
    return array


def _element(value: Any) -> str:
    if value.dtype.kind != "f":
        return str(value)
    if (np.isfinite(value) and float(value).is_integer()) or np.isinf(value):
        return f"{value:.0f}."
    return f"{value:.{DIGITS}f}"


def _aligned(value: Any, text: str, width: int, signed: bool) -> str:
    """The text filled up to the width of the widest one; with a blank for the sign where others have one."""
    if len(text) >= width:
        return text
    if signed and not value < 0:
        text = " " + text
    return text.ljust(width)


def _nested(grid: Any, shape: tuple[int, ...], indent: int, is_short: bool) -> str:
    cut = is_short and shape[0] > 2 * EDGE
    if len(shape) == 1:
        return _row(list(grid), indent, cut)
    rows = [_nested(part, shape[1:], indent + 1, is_short) for part in grid]
    if cut:
        rows = [*rows[:EDGE], "...", *rows[EDGE:]]
    between = "," + "\n" * (len(shape) - 1) + " " * (indent + 1)
    return "[" + between.join(rows) + "]"


def _row(cells: list[str], indent: int, cut: bool) -> str:
    per_line = max(1, (WIDTH - indent) // (len(cells[0]) + 2))
    if cut:
        cells = [*cells[:EDGE], "...", *cells[EDGE:]]
    lines = [", ".join(cells[i : i + per_line]) for i in range(0, len(cells), per_line)]
    return "[" + (",\n" + " " * (indent + 1)).join(lines) + "]"
