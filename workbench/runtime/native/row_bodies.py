"""Which row programs kernels are made of: those whose bodies ask for nothing but what vector code has."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from workbench.framework.expr.expr import Expr, in_order
from workbench.framework.rows.kernel import PLANES, RowKernel, all_kernels
from workbench.framework.rows.recording import ACROSS, AT, BESIDE, FOLDS, LAST_PLACE, PICK, PRODUCTS, SCANS, SUMS
from workbench.runtime.row_kernels import row_kernel
from workbench.runtime.words.opcodes import NAMES, OF_TRUTHS, OPERANDS


def all_row_kernels() -> list[RowKernel]:
    """Every kernel of every program that has been declared, each with what it touches.

    A body that asks for what kernels do not have is left to NumPy.
    """
    kernels = [k for k in all_kernels() if is_written(k)]
    return [row_kernel(k.program, k.form, k.layout, k.is_across, k.item, k.is_whole) for k in kernels]


def is_written(kernel: RowKernel) -> bool:
    """Whether kernels can do what a body asks for."""
    results = [result for result in kernel.traced.results if result is not None]
    parts = in_order(results)
    if kernel.is_whole and not all(p.function in ("input", SUMS, PRODUCTS) for p in parts):
        return False
    return all(map(_is_known, parts)) and _runs_along_rows(kernel, parts)


def _runs_along_rows(kernel: RowKernel, parts: Sequence[Expr]) -> bool:
    """Whether what runs along rows does so within lines or columns, and places of it are nothing but results."""
    if not any(p.function in (*SCANS, BESIDE) for p in parts):
        return True
    added = in_order([p for p in parts if p.function == ACROSS])
    read = [arg for p in parts for arg in p.args]
    return (
        kernel.layout != PLANES
        and not any(p.function in (*SCANS, BESIDE) for p in added)
        and not any(p.function == LAST_PLACE for p in read)
    )


def _is_known(part: Expr) -> bool:
    """Whether kernels have a function for a part: of numbers of one kind, and of integers only to compare them."""
    integers = [arg for arg in part.args if arg.dtype == np.int64]
    if part.function == "cast":
        (given,) = part.args
        return not integers and (given.dtype == bool or part.dtype in (bool, given.dtype))
    if not part.args or part.function in (AT, PICK, BESIDE):
        return True
    if integers:
        numbers = [arg for arg in part.args if arg.function in ("number", "constant")]
        return part.function in ("equal", "not_equal") and len(numbers) == 1
    name = NAMES.get(part.function, part.function)
    if all(arg.dtype == bool for arg in part.args):
        name = OF_TRUTHS.get(name, name)
    return name in OPERANDS or name in (*FOLDS, ACROSS, *SCANS)
