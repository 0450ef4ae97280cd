"""Kernels whose integers name rows or elements; they look at the integers before they use them.

Zero always passes there, so that what it names has to exist.
"""

from __future__ import annotations

from typing import Any

from workbench.runtime.reach.declare import FLOAT, WORD, reaches
from workbench.runtime.reach.divide import divides

_SHORT = 4  # bytes of an int32


@divides("outer", table=(FLOAT, "height", "width"), out=(FLOAT, "count", "width"))
@reaches("table", "ids", "out")
def take_rows(
    table: Any, ids: Any, out: Any, outer: int, height: int, count: int, width: int, padding: int
) -> Any:  # fmt: skip
    return FLOAT * outer * max(height, 1) * width, WORD * count, FLOAT * outer * count * width


@reaches("x", "ids", "out")
def add_rows(
    x: Any, ids: Any, out: Any, outer: int, height: int, count: int, width: int, padding: int
) -> Any:  # fmt: skip
    return FLOAT * outer * count * width, WORD * count, FLOAT * outer * max(height, 1) * width


@reaches("x", "label", "out")
def pick_label(x: Any, label: Any, out: Any, outer: int, classes: int, inner: int, ignored: int) -> Any:
    return FLOAT * outer * classes * inner, WORD * outer * inner, FLOAT * outer * inner


@reaches("x", "label", "out")
def place_label(x: Any, label: Any, out: Any, outer: int, classes: int, inner: int, ignored: int) -> Any:
    return FLOAT * outer * inner, WORD * outer * inner, FLOAT * outer * classes * inner


@reaches("label", "out")
def one_hot(label: Any, out: Any, count: int, classes: int) -> Any:
    return WORD * count, FLOAT * count * max(classes, 1)


@reaches("label", "out")
def count_labels(label: Any, out: Any, count: int, ignored: int) -> Any:
    return WORD * count, FLOAT


@reaches("x", "out")
def floats_of(x: Any, out: Any, count: int) -> Any:
    return WORD * count, FLOAT * count


@reaches("x", "out", "indices")
def best_of_rows(x: Any, out: Any, indices: Any, rows: int, width: int, k: int) -> Any:
    before = min(k - 1, 0)  # the worst of those held is looked at even where none is to be
    return FLOAT * rows * width, (FLOAT * before, FLOAT * rows * k), (WORD * before, WORD * rows * k)


@reaches("indices", "label", "share", "correct", "total")
def accuracy(indices: Any, label: Any, share: Any, correct: Any, total: Any, rows: int, k: int) -> Any:
    return WORD * rows * k, WORD * rows, FLOAT, _SHORT, _SHORT
