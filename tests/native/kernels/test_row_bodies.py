"""What bodies of row programs may ask for: kernels give what NumPy gives, or there are none."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from workbench.framework.rows.arrays import numpy_form
from workbench.framework.rows.kernel import LINES, RowKernel
from workbench.framework.rows.program import Operand, RowForm, RowProgram
from workbench.framework.rows.recording import Per
from workbench.runtime.native.objects import addresses_of
from workbench.runtime.native.row_bodies import is_written
from workbench.runtime.words.codes import DONE

ROWS, WIDTH = 5, 37
ELEMENTS = (Operand("X"), Operand("Out"))
LABELS = (Operand("X"), Operand("Label", Per.ROW, is_integer=True), Operand("Out"))


def program_of(body: Callable[..., Any], *operands: Operand) -> RowProgram:
    *inputs, out = operands
    return RowProgram("tried", body, tuple(inputs), (out,), axes=lambda rank, attrs: (1,), layouts=(LINES,))


def kernel_of(program: RowProgram) -> RowKernel:
    return RowKernel(program, RowForm((True,) * len(program.inputs), ()), LINES)


def run(kernel: RowKernel, *arrays: np.ndarray) -> None:
    """Compile a kernel, and run it on rows that lie in lines."""
    llvm, ir = pytest.importorskip("llvmlite.binding"), pytest.importorskip("llvmlite.ir")
    from workbench.runtime.kernels.rows.generator import write_kernel
    from workbench.runtime.native.build import PREFIX, _machine, _optimise

    written = ir.Module()
    write_kernel(written, kernel, PREFIX)
    module = llvm.parse_assembly(str(written))
    _optimise(module)
    (at,) = addresses_of([_machine().emit_object(module)], [PREFIX + kernel.name]).values()
    kept = np.empty(kernel.kept_elements((1, ROWS * WIDTH, ROWS, WIDTH)) or 1, np.float32)
    words = np.array([0, 0, *(a.ctypes.data for a in (*arrays, kept)), 1, ROWS * WIDTH, ROWS, WIDTH], np.int64)
    assert ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(at)(words.ctypes.data) == DONE


TRUTHS: dict[str, Callable[..., Any]] = {
    "sum": lambda rows, x: ((x > 0) + (x > 1)).astype(x.dtype),
    "product": lambda rows, x: ((x > 0) * (x < 1)).astype(x.dtype),
    "and": lambda rows, x: rows.where((x > 0) & (x < rows.max(x)), x, 0.0),
    "or": lambda rows, x: rows.where((x < 0) | (x > 1), x, 0.0),
    "either": lambda rows, x: rows.where((x > 0) ^ (x > 1), x, 0.0),
    "not": lambda rows, x: rows.where(~(x > 0), x, 0.0),
    "cast": lambda rows, x: rows.floor(x).astype("bool").astype(x.dtype),
    "counted": lambda rows, x: x * rows.mean((x > 0).astype(x.dtype)),
    "any": lambda rows, x: rows.where(rows.max(x > 2) + rows.max(x < -9), x, 0.0),
    "number": lambda rows, x: (x > 0) + (x > 1) * 1.0,
}


@pytest.mark.parametrize("name", TRUTHS)
def test_truth_values_are_what_they_are_to_numpy(name: str) -> None:
    program = program_of(TRUTHS[name], *ELEMENTS)
    x = np.random.default_rng(0).normal(size=(ROWS, WIDTH)).astype(np.float32) * 2
    out = np.full_like(x, 7)
    kernel = kernel_of(program)
    assert is_written(kernel)
    run(kernel, x, out)
    np.testing.assert_allclose(out, numpy_form(program)(np, x), rtol=1e-6)


BEYOND: dict[str, tuple[Callable[..., Any], tuple[Operand, ...]]] = {
    "a function there is no vector code for": (lambda rows, x: rows.arctan(x - rows.mean(x)), ELEMENTS),
    "whole numbers": (lambda rows, x: (x * 3.0).astype("int64").astype(x.dtype), ELEMENTS),
    "longer numbers": (lambda rows, x: rows.sum(x.astype("float64")) + x * 0.0, ELEMENTS),
    "arithmetic on labels": (lambda rows, x, label: x * label, LABELS),
    "labels as numbers": (lambda rows, x, label: x * label.astype(x.dtype), LABELS),
    "labels beside elements": (lambda rows, x, label: (x == label).astype(x.dtype), LABELS),
}


@pytest.mark.parametrize("what", BEYOND)
def test_what_kernels_cannot_do_is_left_to_numpy(what: str) -> None:
    body, operands = BEYOND[what]
    program = program_of(body, *operands)
    assert not is_written(kernel_of(program))
    given = [np.ones((3, 4), np.float32), np.ones((3, 1), np.int64)][: len(operands) - 1]
    assert numpy_form(program)(np, *given).shape == (3, 4)


@pytest.mark.parametrize("reduction", ["sum", "mean", "prod", "across"])
def test_truth_values_are_not_added_up(reduction: str) -> None:
    program = program_of(lambda rows, x: getattr(rows, reduction)(x > 0), *ELEMENTS)
    with pytest.raises(TypeError, match=r"astype\(x\.dtype\)"):
        is_written(kernel_of(program))
