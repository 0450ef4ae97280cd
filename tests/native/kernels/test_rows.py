"""Kernels of sparse gradients, against NumPy row by row."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.native.one_row import run_row
from workbench.framework.values.rows import Rows
from workbench.runtime.words.codes import DECLINED, DONE
from workbench.runtime.words.rows import DIGITS


def words(count: int) -> np.ndarray:
    return np.full(count, -7, np.int64)


def floats(*shape: int, dtype: Any = np.float32) -> np.ndarray:
    return np.full(shape, np.nan, dtype)


REALS = pytest.mark.parametrize("dtype", [np.float32, np.float64])


@REALS
@pytest.mark.parametrize("padding", [-1, 2])
def test_rows_of(padding: int, dtype: Any) -> None:
    ids, g = np.array([2, 0, 2, 8]), np.random.default_rng(0).standard_normal((4, 3)).astype(dtype)
    numbers, values, counted = words(4), floats(4, 3, dtype=dtype), words(1)
    assert run_row("rows_of", ids, g, numbers, values, counted, 4, 9, 3, padding) == DONE
    assert numbers.tolist() == ids.tolist() and counted.tolist() == [4]
    np.testing.assert_array_equal(values, np.where(ids[:, None] == padding, 0, g))


@pytest.mark.parametrize("bad", [-1, 9])
def test_rows_that_are_not_in_the_table_are_declined(bad: int) -> None:
    ids, g = np.array([2, bad]), np.ones((2, 3), np.float32)
    numbers, values, counted = words(2), floats(2, 3), words(1)
    assert run_row("rows_of", ids, g, numbers, values, counted, 2, 9, 3, -1) == DECLINED
    assert counted.tolist() == [-7] and np.isnan(values).all()
    table = floats(9, 3)
    assert run_row("put_rows", g, ids, np.array([2]), table, 2, 9, 3) == DECLINED
    assert run_row("put_rows", g, np.array([0, 1]), np.array([3]), table, 2, 9, 3) == DECLINED
    assert np.isnan(table).all()


@REALS
@pytest.mark.parametrize("highest", [1, 12, 300, 10**6, 10**12])
@pytest.mark.parametrize("count", [0, 1, 2, 70, 100])
def test_merge_rows(count: int, highest: int, dtype: Any) -> None:
    rng = np.random.default_rng((count, highest))
    most, width = 100, 17
    numbers = rng.integers(0, highest, most)
    values = (rng.standard_normal((most, width)) * 10.0 ** rng.integers(-6, 7, (most, 1))).astype(dtype)
    merged, sums, kept = words(most), floats(most, width, dtype=dtype), words(1)
    scratch = words(most), words(most), words(DIGITS)
    row = numbers, values, np.array([count]), *scratch, merged, sums, kept, most, width
    assert run_row("merge_rows", *row) == DONE
    expected = Rows(numbers[:count], values[:count], highest).merge(np)
    there = len(expected.rows)
    assert kept.tolist() == [there]
    np.testing.assert_array_equal(merged[:there], expected.rows)
    np.testing.assert_array_equal(sums[:there], expected.values)
    assert not merged[there:].any() and not sums[there:].any()


@REALS
def test_join_rows(dtype: Any) -> None:
    numbers, values, counted = words(5), floats(5, 2, dtype=dtype), words(1)
    parts = [(np.array([4, 1, 9]), 2), (np.array([1, 1]), 2)]
    for n, (own, count) in enumerate(parts):
        some = np.arange(2 * len(own), dtype=dtype).reshape(-1, 2) + 10 * n
        row = own, some, np.array([count]), numbers, values, counted, int(n == 0), len(own), 5, 2
        assert run_row("join_rows", *row) == DONE
    assert counted.tolist() == [4] and numbers.tolist() == [4, 1, 1, 1, -7]
    assert values[:4].tolist() == [[0, 1], [2, 3], [10, 11], [12, 13]] and np.isnan(values[4]).all()


@REALS
def test_put_rows(dtype: Any) -> None:
    table = np.zeros((5, 2), dtype)
    values = np.arange(6, dtype=dtype).reshape(3, 2) + 1
    assert run_row("put_rows", values, np.array([4, 1, 0]), np.array([2]), table, 3, 5, 2) == DONE
    assert table.tolist() == [[0, 0], [3, 4], [0, 0], [0, 0], [1, 2]]
