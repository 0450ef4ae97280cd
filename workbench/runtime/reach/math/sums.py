"""Sums of squares."""

from __future__ import annotations

from typing import Any

from workbench.runtime.reach.declare import FLOAT, reaches


@reaches("x", "out")
def sum_squares(x: Any, out: Any, count: int) -> Any:
    return FLOAT * count, FLOAT
