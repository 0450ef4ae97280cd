"""Kernels of row programs: a function of LLVM for each form of a program and each way rows lie in memory."""

from __future__ import annotations

from typing import Any

from workbench.framework.rows.kernel import COLUMNS, RowKernel
from workbench.runtime.kernels.rows.columns import write_columns
from workbench.runtime.kernels.rows.lines import write_lines
from workbench.runtime.kernels.rows.writer import KernelWriter


def write_kernel(module: Any, kernel: RowKernel, prefix: str) -> None:
    """Add a kernel to a module of LLVM.

    Args:
        prefix: of the function's name.
    """
    (write_columns if kernel.layout == COLUMNS else write_lines)(KernelWriter(module, kernel, prefix))
