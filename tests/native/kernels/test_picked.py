"""Entries picked, put and added one by one, and rows in order; against NumPy's indexing and sorting."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.native.kernels.test_sums import SEEDS, numbers
from tests.native.one_row import run_row
from workbench.runtime.words.codes import DECLINED, DONE

SMALL = st.integers(1, 6)
DTYPES = st.sampled_from([np.float32, np.int32, np.int64, np.float64])
REALS = st.sampled_from([np.float32, np.float64])
ERROR: dict[Any, float] = {np.float32: 1e-5, np.float64: 1e-14}


def entries(seed: int, dtype: Any, *shape: int) -> np.ndarray:
    """Numbers of which every bit counts."""
    return (1e6 * np.random.default_rng(seed).standard_normal(shape)).astype(dtype)


def unit(dtype: Any) -> int:
    return np.dtype(dtype).itemsize // 4


@settings(max_examples=60, deadline=None)
@given(outer=SMALL, height=SMALL, count=SMALL, inner=SMALL, dtype=DTYPES, real=REALS, seed=SEEDS)
def test_one_index_per_entry(
    outer: int, height: int, count: int, inner: int, dtype: Any, real: Any, seed: int
) -> None:  # fmt: skip
    x, index = entries(seed, dtype, outer, height, inner), _index(seed, height, outer, count, inner)
    sizes = outer, height, count, inner
    out = np.zeros((outer, count, inner), dtype)
    assert run_row("take_along", x, index, out, *sizes, unit(dtype)) == DONE
    np.testing.assert_array_equal(out, np.take_along_axis(x, index, 1))

    values, result, expected = entries(seed + 1, dtype, outer, count, inner), x.copy(), x.copy()
    alone, alone_expected = x.copy(), np.zeros_like(x)
    assert run_row("put_along", values, index, result, *sizes, unit(dtype), 0) == DONE
    assert run_row("put_along", values, index, alone, *sizes, unit(dtype), 1) == DONE
    for at in np.ndindex(*index.shape):  # of several the last
        expected[at[0], index[at], at[2]] = alone_expected[at[0], index[at], at[2]] = values[at]
    np.testing.assert_array_equal(result, expected)
    np.testing.assert_array_equal(alone, alone_expected)

    more = numbers(seed + 2, outer, count, inner, dtype=real)
    total = numbers(seed, outer, height, inner, dtype=real).copy()
    exact, alone = np.stack([total.astype(np.float64), np.zeros(total.shape)]), total.copy()
    assert run_row("add_along", more, index, total, *sizes, 0) == DONE
    assert run_row("add_along", more, index, alone, *sizes, 1) == DONE
    for at in np.ndindex(*index.shape):
        exact[:, at[0], index[at], at[2]] += more[at]
    np.testing.assert_allclose([total, alone], exact, rtol=ERROR[real], atol=ERROR[real])


def _index(seed: int, height: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, height, shape)


@settings(max_examples=60, deadline=None)
@given(
    outer=SMALL, height=SMALL, count=SMALL, width=st.sampled_from([1, 2, 15, 16, 64]), dtype=DTYPES, real=REALS,
    seed=SEEDS,
)  # fmt: skip
def test_rows(outer: int, height: int, count: int, width: int, dtype: Any, real: Any, seed: int) -> None:
    out, ids = entries(seed, dtype, outer, height, width), _index(seed, height, count)
    values, expected = entries(seed + 1, dtype, outer, count, width), out.copy()
    sizes = outer, height, count, width * unit(dtype)
    assert run_row("put_rows_at", values, ids, out, *sizes) == DONE
    for i, number in enumerate(ids):
        expected[:, number] = values[:, i]
    np.testing.assert_array_equal(out, expected)
    assert run_row("clear_rows_at", ids, out, *sizes) == DONE
    expected[:, ids] = 0
    np.testing.assert_array_equal(out, expected)

    total = numbers(seed, outer, height, width, dtype=real).copy()
    more = numbers(seed + 1, outer, count, width, dtype=real)
    exact = total.astype(np.float64)
    assert run_row("add_rows_at", more, ids, total, outer, height, count, width) == DONE
    for i, number in enumerate(ids):
        exact[:, number] += more[:, i]
    np.testing.assert_allclose(total, exact, rtol=ERROR[real], atol=ERROR[real])


@settings(max_examples=40, deadline=None)
@given(sizes=st.lists(SMALL, min_size=1, max_size=4), count=SMALL, seed=SEEDS)
def test_coordinates_and_narrow_integers(sizes: list[int], count: int, seed: int) -> None:
    index = np.stack([_index(seed + k, size, count) for k, size in enumerate(sizes)], axis=1)
    out = np.zeros(count, np.int64)
    assert run_row("number_entries", index, np.array(sizes), out, count, len(sizes)) == DONE
    np.testing.assert_array_equal(out, np.ravel_multi_index(tuple(index.T), sizes))
    narrow, wide = entries(seed, np.int32, count), np.zeros(count, np.int64)
    assert run_row("wide_integers", narrow, wide, count) == DONE
    np.testing.assert_array_equal(wide, narrow)


@pytest.mark.parametrize("bad", [-1, 3, 2**40])
def test_a_number_that_names_nothing_is_declined(bad: int) -> None:
    x, ids = numbers(0, 2, 3, 4), np.array([0, bad])
    index = np.zeros((2, 2, 4), np.int64)
    index[1, 0, 3] = bad
    out, kept = x.copy(), x.copy()
    part = np.ascontiguousarray(x[:, :2])
    assert run_row("take_along", x, index, out[:, :2].copy(), 2, 3, 2, 4, 1) == DECLINED
    assert run_row("put_along", part, index, out, 2, 3, 2, 4, 1, 1) == DECLINED
    assert run_row("add_along", part, index, out, 2, 3, 2, 4, 1) == DECLINED
    assert run_row("put_rows_at", part, ids, out, 2, 3, 2, 4) == DECLINED
    assert run_row("clear_rows_at", ids, out, 2, 3, 2, 4) == DECLINED
    assert run_row("add_rows_at", part, ids, out, 2, 3, 2, 4) == DECLINED
    coordinates = np.array([[0, 0], [1, bad]])
    assert run_row("number_entries", coordinates, np.array([2, 3]), np.zeros(2, np.int64), 2, 2) == DECLINED
    np.testing.assert_array_equal(out, kept)  # and nothing has been written


@settings(max_examples=80, deadline=None)
@given(
    rows=SMALL, width=st.integers(1, 70), inner=SMALL, kept=st.integers(1, 70), descending=st.booleans(), dtype=REALS,
    seed=SEEDS,
)  # fmt: skip
def test_rows_in_order(
    rows: int, width: int, inner: int, kept: int, descending: bool, dtype: Any, seed: int
) -> None:  # fmt: skip
    """Along the middle one of three dimensions."""
    rng = np.random.default_rng(seed)
    x = (1 + rng.integers(-4, 4, (rows, width, inner)) * np.finfo(dtype).eps).astype(dtype)  # many are equal
    x[rng.random(x.shape) < 0.1] = np.nan
    x[rng.random(x.shape) < 0.1] = -0.0
    kept = min(kept, width)
    out, indices = np.zeros((rows, kept, inner), dtype), np.zeros((rows, kept, inner), np.int64)
    spare = np.zeros((2, width), np.int64)
    assert run_row("sort_rows", x, out, indices, spare, rows, width, inner, kept, int(descending)) == DONE
    if descending:
        order = np.flip(width - 1 - np.argsort(np.flip(x, 1), axis=1, kind="stable"), 1)
    else:
        order = np.argsort(x, axis=1, kind="stable")
    np.testing.assert_array_equal(indices, order[:, :kept])
    assert out.tobytes() == np.take_along_axis(x, order, 1)[:, :kept].tobytes()


@settings(max_examples=60, deadline=None)
@given(sizes=st.tuples(SMALL, SMALL, SMALL, SMALL), order=st.permutations(range(4)), dtype=DTYPES, seed=SEEDS)
def test_entries_of_any_strides(sizes: tuple[int, ...], order: list[int], dtype: Any, seed: int) -> None:
    x = entries(seed, dtype, *sizes).transpose(order)[::-1]
    out = np.zeros(x.shape, dtype)
    loops = [word for dim in zip(x.shape, x.strides, out.strides, strict=True) for word in dim]
    assert run_row("move_entries", x, out, out.itemsize, *loops) == DONE
    np.testing.assert_array_equal(out, x)
