"""How elements become one number: in the lanes of vectors, across them, and from stretch to stretch."""

from __future__ import annotations

from typing import Any

from workbench.framework.expr.expr import Expr
from workbench.runtime.kernels import functions
from workbench.runtime.kernels.sweeps import CONTRACTED, LARGEST, LARGEST_NUMBER, Fold, across
from workbench.runtime.kernels.vectors import Vectors

__all__ = ["across", "combined", "fold_of"]

SMALLEST = Fold(float("inf"), functions.minimum)
MULTIPLIED = Fold(1.0, Vectors.multiply)
_FOLDS = {
    "row_sum": CONTRACTED, "row_prod": MULTIPLIED, "row_max": LARGEST, "row_min": SMALLEST, "row_top": LARGEST_NUMBER,
}  # fmt: skip


def fold_of(part: Expr) -> Fold:
    """What a reduction does with vectors."""
    return _FOLDS[part.function]


def combined(builder: Any, part: Expr, total: Any, more: Any) -> Any:
    """What was reduced so far with one more number, both float64; NaN once there was one."""
    if part.function == "row_sum":
        return builder.fadd(total, more)
    if part.function == "row_prod":
        return builder.fmul(total, more)
    sign = "<" if part.function == "row_min" else ">"
    further = builder.select(builder.fcmp_unordered(sign, more, total), more, total)
    return builder.select(builder.fcmp_unordered("uno", total, total), total, further)
