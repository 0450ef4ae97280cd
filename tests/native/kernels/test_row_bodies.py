"""What bodies of row programs may ask for: kernels give what NumPy gives, or there are none."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from workbench.framework.rows.arrays import numpy_form
from workbench.framework.rows.kernel import COLUMNS, LINES, PLANES, RowKernel
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


def run(kernel: RowKernel, *arrays: np.ndarray, sizes: tuple[int, ...] = (1, ROWS * WIDTH, ROWS, WIDTH)) -> None:
    """Compile a kernel, and run it on rows that lie in lines, or of other sizes."""
    llvm, ir = pytest.importorskip("llvmlite.binding"), pytest.importorskip("llvmlite.ir")
    from workbench.runtime.kernels.rows.generator import write_kernel
    from workbench.runtime.native.build import PREFIX, _machine, _optimise

    written = ir.Module()
    write_kernel(written, kernel, PREFIX)
    module = llvm.parse_assembly(str(written))
    _optimise(module)
    (at,) = addresses_of([_machine().emit_object(module)], [PREFIX + kernel.name]).values()
    kept = np.empty(kernel.kept_elements(sizes) or 1, f"f{kernel.item}")
    words = np.array([0, 0, *(a.ctypes.data for a in (*arrays, kept)), *sizes], np.int64)
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


RUNNING: dict[str, Callable[..., Any]] = {
    "both ways": lambda rows, x: rows.running_sum(rows.tanh(rows.running_sum(x)), reverse=True),
    "there and back": lambda rows, x: rows.running_max(x) - rows.running_max(x, reverse=True) + rows.running_min(x),
    "scanned and reduced": lambda rows, x: rows.running_sum(x) / rows.sum(rows.abs(rows.running_sum(x) + x)),
    "reduced and scanned": lambda rows, x: rows.running_sum((x - rows.mean(x)) * 0.1, exclusive=True),
    "backwards beside a sum": lambda rows, x: rows.running_sum(x, reverse=True) * rows.sum(x * x),
    "a number of the row": lambda rows, x: rows.running_sum(rows.mean(x)) + x,
    "recurring": lambda rows, x: rows.recur(rows.tanh(x), x) + rows.recur(rows.before(x, 0.5) * 0.3, x, reverse=True),
    "beside each other": lambda rows, x: rows.after(x, -7.0) - rows.before(x, 9.0) * rows.max(x),
    "smallest to come": lambda rows, x: rows.maximum(rows.running_min(x, reverse=True, exclusive=True), x) - x,
    "grown and added": lambda rows, x: rows.running_logsumexp(x * 9.0) + rows.running_logsumexp(x, reverse=True),
    "normalised": lambda rows, x: rows.exp(rows.running_sum(x) - rows.max(rows.running_sum(x))),
}


@pytest.mark.parametrize(
    ("name", "layout", "item"),
    [*((name, layout, 4) for name in RUNNING for layout in (LINES, COLUMNS)), ("both ways", LINES, 8)],
)
def test_what_runs_along_rows(name: str, layout: str, item: int) -> None:
    """Forwards, backwards and both, beside reductions, in rows of one element, of parts of vectors, and of chunks."""
    program = replace(program_of(RUNNING[name], *ELEMENTS), layouts=(LINES, COLUMNS))
    kernel = RowKernel(program, RowForm((True,), ()), layout, item=item)
    assert is_written(kernel)
    for count, width in ((3, 1), (3, 2), (3, 16), (3, 37), (2, 4097), (1, 9000), (70, 5), (130, 40)):
        shape = (count, width) if layout == LINES else (1, width, count)
        x = (np.random.default_rng(count).normal(size=shape) * 0.5).astype(f"f{item}")
        out = np.full_like(x, 7)
        run(kernel, x, out, sizes=(1, x.size, count, width) if layout == LINES else (1, width, count, count))
        expected = numpy_form(program)(np, x.astype(np.longdouble))
        scale = np.abs(np.where(np.isfinite(expected), expected, 0)).max()
        np.testing.assert_allclose(out, expected.astype("f8"), 1e-5 if item == 4 else 1e-13, scale * 8.0**-item)


@pytest.mark.parametrize("layout", [LINES, COLUMNS, PLANES])
@pytest.mark.parametrize("what", ["planes", "across"])
def test_what_runs_along_rows_stays_in_them(what: str, layout: str) -> None:
    """A sum over rows of what runs along them, and rows that lie in several planes, are left to NumPy."""
    place = Operand("Out", Per.PLACE) if what == "across" else Operand("Out")
    body = (
        (lambda rows, x: rows.across(rows.running_sum(x))) if what == "across" else (lambda rows, x: rows.after(x, 1.0))
    )
    program = RowProgram("tried", body, (Operand("X"),), (place,), axes=lambda rank, attrs: (1,))
    kernel = RowKernel(program, RowForm((True,), ()), layout, what == "across")
    assert is_written(kernel) == (what == "planes" and layout != PLANES)


def test_neighbours_are_those_of_inputs() -> None:
    for name in ("before", "after"):
        program = program_of(lambda rows, x, name=name: getattr(rows, name)(x + 1.0, 0.0), *ELEMENTS)
        with pytest.raises(TypeError, match="inputs as they are"):
            is_written(kernel_of(program))


@pytest.mark.parametrize("scan", ["running_sum", "running_prod", "running_max", "running_min"])
def test_truth_values_do_not_run_along_rows(scan: str) -> None:
    program = program_of(lambda rows, x: getattr(rows, scan)(x > 0), *ELEMENTS)
    with pytest.raises(TypeError, match=r"astype\(x\.dtype\)"):
        is_written(kernel_of(program))


@pytest.mark.parametrize("reduction", ["sum", "mean", "prod", "across"])
def test_truth_values_are_not_added_up(reduction: str) -> None:
    program = program_of(lambda rows, x: getattr(rows, reduction)(x > 0), *ELEMENTS)
    with pytest.raises(TypeError, match=r"astype\(x\.dtype\)"):
        is_written(kernel_of(program))
