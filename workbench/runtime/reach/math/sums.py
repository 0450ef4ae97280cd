"""Sums of rows and of columns, extremes of rows."""

from __future__ import annotations

from typing import Any

from workbench.runtime.reach.declare import FLOAT, reaches
from workbench.runtime.reach.divide import divides, owns


@divides("rows", x=(FLOAT, "width"), out=(FLOAT,))
@reaches("x", "out")
def sum_rows(x: Any, out: Any, rows: int, width: int, count: int) -> Any:
    return FLOAT * rows * width, FLOAT * rows


@divides("outer", x=(FLOAT, "rows", "width"), out=(FLOAT, "width"))
@owns("partial")
@reaches("x", "out", "partial")
def sum_columns(
    x: Any, out: Any, partial: Any, columns: int, outer: int, rows: int, width: int, count: int
) -> Any:  # fmt: skip
    return FLOAT * outer * rows * width, FLOAT * outer * width, FLOAT * min(columns, width)


@reaches("x", "out")
def sum_squares(x: Any, out: Any, count: int) -> Any:
    return FLOAT * count, FLOAT


@divides("rows", x=(FLOAT, "width"), out=(FLOAT,))
@reaches("x", "out")
def extreme_of_rows(x: Any, out: Any, rows: int, width: int, sign: float) -> Any:
    return FLOAT * rows * width, FLOAT * rows
