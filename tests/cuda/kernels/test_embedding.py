"""Embeddings and the gradient of their table on a simulated GPU."""

from __future__ import annotations

import numpy as np
import pytest

from tests.cuda.kernels.device_run import run_kernel
from workbench.cuda.compile import compile_cubin
from workbench.cuda.kernels.embedding import MOST_RANKED, look_up_kernel, table_gradient
from workbench.cuda.kernels.numbers import NoKernel
from workbench.framework.values.dtype import as_dtype

NEAR = {"float32": 1e-6, "float64": 1e-14, "float16": 1e-3, "bfloat16": 8e-3}


def look_up(table: np.ndarray, ids: np.ndarray, padding: int = -1) -> tuple[np.ndarray, int]:
    one = look_up_kernel(table.dtype, ids.dtype)
    how = one.launch(ids.size, *table.shape, padding)
    out = ((ids.size, table.shape[1]), table.dtype)
    after, _ = run_kernel(one.kernel, how, [table, ids, out, np.zeros(1, np.int32)], seed=1)
    return after[2], int(after[3][0])


def gradient(g: np.ndarray, ids: np.ndarray, height: int, padding: int = -1, seed: int = 0) -> np.ndarray:
    both = table_gradient(g.dtype, ids.dtype)
    rank, add_up = both.launches(ids.size, height, g.shape[1], padding)
    (_, ordered, order), _ = run_kernel(both.rank, rank, [ids, (ids.shape, "i8"), (ids.shape, "i4")], seed)
    np.testing.assert_array_equal(order, np.argsort(ids, kind="stable"))
    np.testing.assert_array_equal(ordered, np.sort(ids))
    after, _ = run_kernel(both.add_up, add_up, [g, ordered, order, ((height, g.shape[1]), g.dtype)], seed)
    return after[3]


@pytest.mark.parametrize("dtype", NEAR)
@pytest.mark.parametrize("kind", ["int64", "int32"])
def test_rows_by_ids(dtype: str, kind: str) -> None:
    rng = np.random.default_rng(1)
    for height, width, count in [(1, 1, 1), (11, 7, 300), (50, 64, 9)]:
        table = rng.standard_normal((height, width)).astype(as_dtype(dtype).numpy)
        ids = rng.integers(0, height, count).astype(kind)
        rows, status = look_up(table, ids, padding=3)
        want = np.where((ids == 3)[:, None], table.dtype.type(0), table[ids])
        np.testing.assert_array_equal(rows, want)
        assert status == 0


@pytest.mark.parametrize("bad", [-1, 5, 2**40])
def test_ids_that_are_no_rows_are_told_and_read_nothing(bad: int) -> None:
    table = np.ones((5, 3), np.float32)
    rows, status = look_up(table, np.array([2, bad]))
    assert status == 1
    assert rows[0].tolist() == [1, 1, 1]


@pytest.mark.parametrize("dtype", NEAR)
def test_the_gradient_of_the_table(dtype: str) -> None:
    rng = np.random.default_rng(2)
    for height, width, count in [(1, 1, 1), (9, 5, 700), (40, 300, 20)]:
        g = rng.standard_normal((count, width)).astype(as_dtype(dtype).numpy)
        ids = rng.integers(0, height, count)
        want = np.zeros((height, width))
        np.add.at(want, ids, g.astype(np.float64))
        want[height // 2] = 0
        got = gradient(g, ids, height, padding=height // 2).astype(np.float64)
        np.testing.assert_allclose(got, want, rtol=NEAR[dtype], atol=NEAR[dtype])


def test_bits_are_the_same_whatever_the_order_of_threads() -> None:
    rng = np.random.default_rng(3)
    g, ids = rng.standard_normal((500, 6)).astype("f") * 1e3, rng.integers(0, 4, 500)
    first = gradient(g, ids, 4)
    assert all(gradient(g, ids, 4, seed=seed).tobytes() == first.tobytes() for seed in range(1, 5))


def test_whole_rows_move_whole_sectors() -> None:
    table, ids = np.ones((40, 64), np.float32), np.random.default_rng(0).integers(0, 40, 100)
    one = look_up_kernel("float32")
    out = ((100, 64), "f")
    _, counted = run_kernel(one.kernel, one.launch(100, 40, 64), [table, ids, out, np.zeros(1, np.int32)], seed=1)
    assert counted.stores.sectors == counted.stores.ideal
    assert counted.loads.sectors <= 1.1 * counted.loads.ideal


def test_too_many_ids_are_refused() -> None:
    with pytest.raises(NoKernel):
        table_gradient("float32").launches(MOST_RANKED + 1, 5, 5)


@pytest.mark.parametrize("architecture", ["sm_70", "sm_90", "sm_100"])
def test_they_compile_for_the_architectures_we_claim(architecture: str) -> None:
    both = table_gradient("bfloat16", "int32")
    for kernel in (both.rank, both.add_up, look_up_kernel("float16").kernel):
        assert compile_cubin(kernel.source, architecture)
