"""Rows that are divided into blocks: together they do what the row does, bit by bit, whoever does them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

from tests.native.fences import Fenced
from tests.native.one_row import kernels, run_inner_row, run_tape, sum_rows
from workbench.runtime.division import borders
from workbench.runtime.footprint import FOOTPRINTS, kernel_of
from workbench.runtime.native.blas import gemm_address
from workbench.runtime.native.blocks import BlockRow, block_of, blocks_along, blocks_of
from workbench.runtime.native.control import Control, lines
from workbench.runtime.native.row_bodies import all_row_kernels
from workbench.runtime.native.tape import Tape
from workbench.runtime.words.attention import backward_memory, forward_memory
from workbench.runtime.words.product import DEPTH, PANEL, left_pitch

F = np.float32
Row = tuple[list[Any], list[np.ndarray]]  # arguments, and which of them are results


def floats(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(F)


def empty(*shape: int) -> np.ndarray:
    return np.full(shape, np.nan, F)


def product(copied: bool) -> Row:
    n0, n1, m, n, k = 6, 6, 220, 600, 30
    a, b, c = floats(n0, n1, m, k), floats(n0, n1, k, n), empty(n0, n1, m, n)
    strides = [(x.strides[0], x.strides[1]) for x in (a, b, c)]
    left = empty(m * left_pitch(k) + 16) if copied else None
    panel = empty(min(k, DEPTH) * PANEL + 16) if copied else None
    rows = a.strides[2], 4, b, b.strides[2], 4, c, c.strides[2]
    if copied:  # columns of the left side lie one after the other
        a = np.ascontiguousarray(a.swapaxes(-1, -2))
        rows = 4, a.strides[2], b, b.strides[2], 4, c, c.strides[2]
    loops = [n0, *(s[0] for s in strides), n1, *(s[1] for s in strides)]
    return [a, *rows, m, n, k, 0, left, panel, *loops], [c]


def gemm_batch(dtype: str = "f4") -> Row:
    n0, n1, m, n, k = 6, 6, 5, 7, 3
    a, b, c = (x.astype(dtype) for x in (floats(n0, n1, m, k), floats(n0, n1, k, n), empty(n0, n1, m, n)))
    loops = [n0, *(x.strides[0] for x in (a, b, c)), n1, *(x.strides[1] for x in (a, b, c))]
    return [a, 111, k, b, 111, n, c, n, m, n, k, 0, gemm_address(c.itemsize), *loops], [c]


def _apart(row: tuple[Any, ...]) -> tuple[str, list[Any]]:
    """A row's kernel and its arguments."""
    return row[0], list(row[1:])


def labels(rows: int, classes: int) -> np.ndarray:
    return np.random.default_rng(rows).integers(0, classes, rows)


def transpose(dtype: str = "f4") -> Row:
    x, out = floats(6, 6, 6, 150, 160).astype(dtype), empty(6, 6, 6, 160, 150).astype(dtype)
    loops = [n for axis in range(3) for n in (x.shape[axis], x.strides[axis], out.strides[axis])]
    return [x, x.strides[3], out, out.strides[3], 150, 160, *loops], [out]


def copy_rows() -> Row:
    x, out = floats(6, 6, 6, 37), empty(6, 6, 6, 37).transpose(2, 1, 0, 3)
    loops = [n for axis in range(3) for n in (x.shape[axis], x.strides[axis], out.strides[axis])]
    return [x, out, 37, *loops], [out]


def take_rows() -> Row:
    out = empty(6, 9, 37)
    return [floats(6, 20, 37), labels(9, 20), out, 6, 20, 9, 37, -1], [out]


def attention(masked: bool, gradients: bool) -> Row:
    n0, n1, m, n, d, e = 6, 6, 6 * 48, 70, 9, 11
    q, k, v, g = floats(n0, n1, m, d), floats(n0, n1, n, d), floats(n0, n1, n, e), floats(n0, n1, m, e)
    mask = np.broadcast_to(np.triu(np.full((m, n), -1e9, F), 1), (n0, n1, m, n)) if masked else None
    given = [q, 4 * d, 4, k, 4 * d, 4, v, 4 * e, 4, mask, 4 * n]
    if gradients:
        outs = [empty(*x.shape) for x in (q, k, v)]
        gq, gk, gv = outs
        given += [g, 4 * e, 4, gq, 4 * d, gk, 4 * d, 4, gv, 4 * e]
        arrays, memory = [q, k, v, mask, g, *outs], backward_memory(n, d, e)
    else:
        outs = [empty(*g.shape)]
        given += [*outs, 4 * e]
        arrays, memory = [q, k, v, mask, *outs], forward_memory(n, d, e)
    loops = [w for a, size in enumerate((n0, n1)) for w in (size, *(0 if x is None else x.strides[a] for x in arrays))]
    return [*given, m, n, d, e, 0.3, 0, empty(memory + 16), *loops], outs


def searched(rows: int, dtype: str = "f4") -> Row:
    edges, values = np.sort(floats(rows, 20)).astype(dtype), floats(rows, 300 // rows).astype(dtype)
    out = empty(*values.shape).astype(np.float64)  # of which the kernel makes whole numbers
    sizes = [20, 300] if rows == 1 else [rows, 20, 300 // rows]
    return [edges, values, out.view(np.int64), *sizes, 1], [out]


ROWS: dict[str, list[Callable[[], Row]]] = {
    "attention": [lambda: attention(False, False), lambda: attention(True, False)],
    "attention_grad": [lambda: attention(False, True), lambda: attention(True, True)],
    "product": [lambda: product(False), lambda: product(True)],
    "gemm_batch": [gemm_batch],
    "gemm_batch.f64": [lambda: gemm_batch("f8")],
    "transpose": [transpose],
    "transpose.f64": [lambda: transpose("f8")],
    "copy_rows": [copy_rows],
    "take_rows": [take_rows],
    "searchsorted": [lambda: searched(1)],
    "searchsorted.f64": [lambda: searched(1, "f8")],
    "searchsorted_rows": [lambda: searched(60)],
    "searchsorted_rows.f64": [lambda: searched(60, "f8")],
}


BY_TABLE = {
    "convolve", "convolve_samples", "max_pool_lines", "max_pool_lines_grad", "max_pool_groups", "max_pool_groups_grad",
    "convolve_winograd", "pack_winograd",
}  # fmt: skip
BY_TABLE |= {
    kernel_of(kernel, item)
    for kernel in (
        "convolve_columns", "input_gradient_columns", "unfold_samples", "fold_samples", "max_pool", "max_pool_grad",
        "average_pool", "average_pool_grad",
    )
    for item in (4, 8)
}  # fmt: skip


def test_every_kernel_that_divides_is_tried() -> None:
    row_kernels = {kernel.name for kernel in all_row_kernels()}  # which have tests of their own
    kernels()
    dividing = {name for name, footprint in FOOTPRINTS.items() if footprint.divisions}
    assert ROWS.keys() | BY_TABLE == dividing - row_kernels


def memory_of(tape: Tape, count: int) -> np.ndarray:
    """Memory that lives as long as a tape."""
    return tape.keep(empty(count))


@pytest.mark.parametrize("kernel", ROWS)
@pytest.mark.parametrize("most", [2, 3])
def test_blocks_do_what_the_row_does(kernel: str, most: int) -> None:
    for make in ROWS[kernel]:
        whole, expected = make()
        tape = Tape(kernels())
        tape.row(kernel, *whole)
        assert run_tape(tape) == 0
        assert all(np.isfinite(out).all() for out in expected)
        for division in FOOTPRINTS[kernel].divisions:
            arguments, outs = make()
            blocks = blocks_along(division, arguments, most, most)
            assert len(blocks) == most, "the example is too small"
            tape = Tape(kernels())
            memory = partial(memory_of, tape)
            for block in reversed(blocks):
                BlockRow(kernel, block).write(tape, memory)
            assert run_tape(tape) == 0
            for out, right in zip(outs, expected, strict=True):
                np.testing.assert_array_equal(out, right)


@pytest.mark.parametrize("kernel", ROWS)
def test_an_empty_block_touches_nothing(kernel: str) -> None:
    """Where sizes are open there are as many blocks for all of them: of short ones some have nothing to do."""
    kernels()
    for make in ROWS[kernel]:
        for division in FOOTPRINTS[kernel].divisions:
            arguments, outs = make()
            for at in (0, division.size(arguments)):
                block = list(block_of(division, arguments, at, at))
                fence = Fenced(0, at_end=True)  # where it points there may be no memory any more
                for moved, _ in division.moves:
                    block[moved] = None if block[moved] is None else fence.bytes
                assert run_inner_row(kernel, *block) == 0
            assert all(np.isnan(out).all() for out in outs)


def test_a_short_row_is_not_divided() -> None:
    x, out = floats(5, 3), empty(5)
    assert blocks_of(*_apart(sum_rows(x[:1], out, 1, 3)), 2, 2) is None
    assert blocks_of("look_up", [], 2, 2) is None


@pytest.mark.parametrize(("m", "n", "sizes"), [(128, 512, [128] * 4), (512, 192, [128] * 4), (64, 64, [32] * 2)])
def test_threads_share_a_product_along_the_dimension_that_divides_evenly(m: int, n: int, sizes: list[int]) -> None:
    kernels()
    a, b, c = floats(m, 8), floats(8, n), empty(m, n)
    row = [a, 32, 4, b, 4 * n, 4, c, 4 * n, m, n, 8, 0, None, None, *[1, 0, 0, 0] * 2]
    blocks = blocks_of("product", row, 4, 2)
    assert blocks is not None
    assert [block[9 if n > m else 8] for block in blocks] == sizes


@pytest.mark.parametrize(
    ("size", "unit", "most", "threads"),
    [(100, 1, 3, 3), (1000, 24, 4, 2), (256, 24, 4, 2), (256, 24, 3, 2), (6, 1, 3, 2), (1, 1, 2, 2), (50, 16, 8, 4)],
)
def test_borders(size: int, unit: int, most: int, threads: int) -> None:
    edges = borders(size, unit, most, threads)
    count = len(edges) - 1
    assert edges[0] == 0 and edges[-1] == size and count <= most
    assert all(edge % unit == 0 for edge in edges[:-1])
    units = -(-np.diff(edges) // unit)
    assert (units > 0).all()
    own = [units[count * thread // threads : count * (thread + 1) // threads].sum() for thread in range(threads)]
    assert max(own) == -(-sum(own) // threads), "a thread has more to do than it must"


def test_a_block_is_done_once_in_a_step() -> None:
    control, flag = Control(kernels()), lines(8)
    x, out = np.ones((2, 3), F), np.zeros(2, F)
    tape = Tape(kernels())
    for _ in range(2):
        tape.block(flag, control.array, lambda: tape.row(*sum_rows(x, out, 2, 3)))
    assert run_under(control, tape) == 0
    assert out.tolist() == [3, 3] and flag[0] == control.step
    x[:], taken = 2, flag[0]
    assert run_under(control, tape, begin=False) == 0
    assert out.tolist() == [3, 3], "it has been done in this step"
    assert run_under(control, tape) == 0
    assert out.tolist() == [6, 6] and flag[0] > taken


def test_a_row_inside_unless_is_run_in_steps_in_which_the_flag_is_not_up() -> None:
    control, flag = Control(kernels()), lines(8)
    x, out, behind = np.ones((2, 3), F), np.zeros(2, F), np.zeros(2, F)
    tape = Tape(kernels())
    tape.unless(flag, control.array, lambda: tape.row(*sum_rows(x, out, 2, 3)))
    tape.row(*sum_rows(x, behind, 2, 3))
    assert run_under(control, tape) == 0 and out.tolist() == [3, 3]
    flag[0], x[:] = control.step, 2
    assert run_under(control, tape, begin=False) == 0
    assert out.tolist() == [3, 3] and behind.tolist() == [6, 6]
    assert run_under(control, tape) == 0 and out.tolist() == [6, 6]


def run_under(control: Control, tape: Tape, begin: bool = True) -> int:
    """Run a tape in a step of this control, a new one or the same."""
    if begin:
        control.begin()
    return run_tape(tape, control)
