"""Sparse gradients on a simulated GPU: made, appended, merged and put, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from tests.cuda.kernels.device_run import run_kernel
from workbench.cuda.compile import compile_cubin
from workbench.cuda.kernels.embedding import MOST_RANKED
from workbench.cuda.kernels.numbers import NoKernel
from workbench.cuda.kernels.sparse_rows import append_kernels, gradient_rows_kernel, merge_kernels, put_rows_kernel
from workbench.framework.values.dtype import as_dtype

NEAR = {"float32": 1e-6, "float64": 1e-14, "float16": 2e-3, "bfloat16": 1.6e-2}
SIZES = [(1, 1, 1, 1), (9, 40, 40, 5), (300, 700, 650, 3), (1000, 20, 0, 40), (5, 33, 7, 300)]
"""The height of a table, rows at most, rows there are, and their width."""
STATUS = np.zeros(1, np.int32)


def values_of(shape: tuple[int, ...], dtype: str, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(as_dtype(dtype).numpy)


def count_of(number: int) -> np.ndarray:
    return np.array([number])


@pytest.mark.parametrize("dtype", NEAR)
def test_a_row_for_every_id(dtype: str) -> None:
    kernel = gradient_rows_kernel(dtype, "int32")
    ids, g = np.random.default_rng(0).integers(0, 9, 40).astype("i4"), values_of((40, 5), dtype)
    outs = [((40,), "i8"), (g.shape, g.dtype), ((1,), "i8")]
    for padding in (-1, 3):
        how = kernel.launch(40, 5, 9, padding)
        numbers, values, counted, status = run_kernel(kernel.kernel, how, [ids, g, *outs, STATUS], 1)[0][2:]
        np.testing.assert_array_equal(numbers, ids)
        np.testing.assert_array_equal(values, np.where((ids == padding)[:, None], g.dtype.type(0), g))
        assert (counted[0], status[0]) == (40, 0)
    ids[7] = 9
    assert run_kernel(kernel.kernel, kernel.launch(40, 5, 9, -1), [ids, g, *outs, STATUS])[0][-1][0] == 1


def merged(
    numbers: np.ndarray, values: np.ndarray, count: int, seed: int = 0
) -> tuple[np.ndarray, np.ndarray, int]:  # fmt: skip
    most, width = values.shape
    kernels = merge_kernels(values.dtype)
    rank, place, add_up = kernels.launches(most, width)
    spare = [np.zeros(most, kind) for kind in ("i8", "i4", "i4")]
    after = run_kernel(kernels.rank, rank, [numbers, count_of(count), *spare], seed)[0]
    ordered, order, is_new = after[2:]
    operands = [numbers, count_of(count), is_new, np.zeros(most, "i4")]
    places = run_kernel(kernels.place, place, operands, seed)[0][3]
    outs = [((most,), "i8"), (values.shape, values.dtype), ((1,), "i8")]
    operands = [values, count_of(count), ordered, order, places, *outs]
    numbers, sums, kept = run_kernel(kernels.add_up, add_up, operands, seed)[0][5:]
    return numbers, sums, int(kept[0])


@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_every_row_once(sizes: tuple[int, int, int, int]) -> None:
    height, most, count, width = sizes
    numbers = np.random.default_rng(1).integers(0, height, most)
    for dtype in ("float32", "bfloat16"):
        values = values_of((most, width), dtype)
        own, sums, kept = merged(numbers, values, count, seed=1)
        want = np.unique(numbers[:count])
        assert kept == len(want)
        np.testing.assert_array_equal(own[:kept], want)
        table = np.zeros((height, width))
        np.add.at(table, numbers[:count], values[:count].astype("f8"))
        np.testing.assert_allclose(sums[:kept].astype("f8"), table[want], NEAR[dtype], 4 * NEAR[dtype])
        assert not own[kept:].any()
        assert not sums[kept:].astype("f8").any()


def test_bits_are_the_same_whatever_the_order_of_threads() -> None:
    numbers, values = np.random.default_rng(2).integers(0, 4, 300), values_of((300, 3), "float32")
    assert len({merged(numbers, values, 290, seed)[1].tobytes() for seed in range(4)}) == 1


def test_rows_are_put_behind_others() -> None:
    kernels = append_kernels("float32")
    to_numbers, to_values, total = np.zeros(30, "i8"), np.zeros((30, 4), "f"), count_of(99)
    wanted: list[int] = []
    for turn, count in enumerate((7, 0, 12)):
        numbers, values = np.arange(15) + 100 * turn, values_of((15, 4), "float32", turn)
        rows, counting = kernels.launches(15, 4, 30, is_first=turn == 0)
        operands = [numbers, values, count_of(count), to_numbers, to_values, total, STATUS]
        after = run_kernel(kernels.rows, rows, operands, seed=turn)[0]
        to_numbers, to_values = after[3:5]
        assert after[6][0] == 0
        total = run_kernel(kernels.count, counting, [count_of(count), total])[0][1]
        wanted += list(numbers[:count])
        assert total[0] == len(wanted)
        np.testing.assert_array_equal(to_values[len(wanted) - count : len(wanted)], values[:count])
    np.testing.assert_array_equal(to_numbers[:19], wanted)
    rows, _ = kernels.launches(15, 4, 30, is_first=False)
    operands = [numbers, values, count_of(12), to_numbers, to_values, total, STATUS]
    assert run_kernel(kernels.rows, rows, operands)[0][6][0] == 1, "there is room for 11 more"


def test_rows_are_put_into_a_table() -> None:
    kernel = put_rows_kernel("float16")
    table, values = values_of((20, 5), "float16"), values_of((8, 5), "float16", 1)
    numbers = np.random.default_rng(0).permutation(20)[:8]
    how = kernel.launch(8, 5, 20)
    want = table.copy()
    want[numbers[:6]] = values[:6]
    after = run_kernel(kernel.kernel, how, [values, numbers, count_of(6), table, STATUS], seed=1)[0]
    np.testing.assert_array_equal(after[3], want)
    assert after[4][0] == 0
    for wrong, count in ((20, 6), (-1, 6), (0, 9)):
        numbers[2] = wrong
        after = run_kernel(kernel.kernel, how, [values, numbers, count_of(count), table, STATUS])[0]
        assert after[4][0] == 1


def test_too_many_rows_are_refused() -> None:
    with pytest.raises(NoKernel):
        merge_kernels("float32").launches(MOST_RANKED + 1, 5)
    with pytest.raises(NoKernel):
        merge_kernels("int64")


@pytest.mark.parametrize("architecture", ["sm_70", "sm_90", "sm_100"])
def test_they_compile_for_the_architectures_we_claim(architecture: str) -> None:
    merge, append = merge_kernels("bfloat16"), append_kernels("float16")
    kernels = [merge.rank, merge.place, merge.add_up, append.rows, append.count]
    for kernel in (*kernels, gradient_rows_kernel("bfloat16").kernel, put_rows_kernel("float16").kernel):
        assert compile_cubin(kernel.source, architecture)
