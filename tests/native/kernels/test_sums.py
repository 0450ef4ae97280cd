"""Sums of rows and columns, squares and extremes, against sums in double precision; truth values reduced."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.native.one_row import reduction, run_row
from workbench.framework.op.record import Op
from workbench.framework.rows.kernel import COLUMNS
from workbench.ops.math.reductions.extreme import REDUCE_MAX, REDUCE_MIN
from workbench.ops.math.reductions.reduce import REDUCE_SUM
from workbench.runtime.words.codes import DONE

SIZES = st.one_of(st.integers(1, 40), st.sampled_from([63, 64, 65, 255, 1024, 1025, 4096, 4097, 9000]))
SEEDS = st.integers(0, 2**32 - 1)


def numbers(seed: int, *shape: int, dtype: Any = np.float32) -> np.ndarray:
    """Of both signs, at an address that is no multiple of a cache line."""
    count = int(np.prod(shape))
    values = np.random.default_rng(seed).standard_normal(count + 3).astype(dtype)
    return values[seed % 4 :][:count].reshape(shape)


def near(sums: np.ndarray, exact: np.ndarray, size: np.ndarray, ulps: float = 20) -> None:
    """Within some roundings of the sum of absolute values."""
    assert (np.abs(sums - exact) <= ulps * 2**-24 * np.maximum(size, 1e-30)).all()


def of_lines(x: np.ndarray, op: Op = REDUCE_SUM) -> np.ndarray:
    out = np.full(len(x), np.nan, np.float32)
    assert run_row(*reduction(op, x, out, x.shape)) == DONE
    return out


def of_columns(x: np.ndarray) -> np.ndarray:
    """Of [outer, height, width]."""
    out = np.full(x.shape[0] * x.shape[2] + 1, np.nan, np.float32)
    assert run_row(*reduction(REDUCE_SUM, x, out, x.shape, COLUMNS)) == DONE
    assert np.isnan(out[-1])
    return out[:-1].reshape(len(x), x.shape[2])


@settings(max_examples=60, deadline=None)
@given(rows=st.integers(1, 5), width=SIZES, seed=SEEDS)
def test_rows(rows: int, width: int, seed: int) -> None:
    x = numbers(seed, rows, width)
    near(of_lines(x), x.astype(np.float64).sum(1), np.abs(x).sum(1))


@settings(max_examples=60, deadline=None)
@given(outer=st.integers(1, 3), rows=SIZES, width=st.integers(1, 200), seed=SEEDS)
def test_columns(outer: int, rows: int, width: int, seed: int) -> None:
    x = numbers(seed, outer, rows, width % (20 if rows > 1000 else 200) + 1)
    near(of_columns(x), x.astype(np.float64).sum(1), np.abs(x).sum(1))


def test_long_sums_stay_accurate() -> None:
    """Added up one by one, 2**22 numbers in float32 would be off by some per cent."""
    x = np.full((1, 2**22), 0.1, np.float32)
    exact = np.float64(x[0, 0]) * x.size
    np.testing.assert_allclose(of_lines(x), [exact], rtol=1e-6)
    np.testing.assert_allclose(of_columns(x.reshape(1, -1, 2)), [[exact / 2] * 2], rtol=1e-5)


@pytest.mark.parametrize("special", [np.inf, -np.inf, np.nan])
def test_what_is_not_finite_comes_through(special: float) -> None:
    for place in (0, 17, 63, 64):
        x = np.ones((2, 65), np.float32)
        x[1, place] = special
        np.testing.assert_array_equal(of_lines(x), [65, special])
        columns = of_columns(x[None])[0]
        np.testing.assert_array_equal(columns, [special if j == place else 2 for j in range(65)])


@settings(max_examples=30, deadline=None)
@given(size=SIZES, seed=SEEDS)
def test_squares(size: int, seed: int) -> None:
    x, out = numbers(seed, size), np.zeros(1, np.float32)
    assert run_row("sum_squares", x, out, size) == DONE
    np.testing.assert_allclose(out[0], (x.astype(np.float64) ** 2).sum(), rtol=2e-6)


@settings(max_examples=40, deadline=None)
@given(rows=st.integers(1, 4), width=st.integers(1, 70), seed=SEEDS, special=st.sampled_from([0, np.inf, np.nan]))
def test_extremes(rows: int, width: int, seed: int, special: float) -> None:
    x = numbers(seed, rows, width)
    x[0, seed % width] = special
    np.testing.assert_array_equal(of_lines(x, REDUCE_MAX), x.max(1))
    np.testing.assert_array_equal(of_lines(x, REDUCE_MIN), x.min(1))


@settings(max_examples=60, deadline=None)
@given(
    sizes=st.tuples(st.integers(1, 5), st.integers(1, 40), st.sampled_from([1, 2, 7, 16])),
    share=st.sampled_from([0.0, 0.05, 0.5, 0.95, 1.0]),
    is_any=st.booleans(),
    seed=SEEDS,
)
def test_truths(sizes: tuple[int, int, int], share: float, is_any: bool, seed: int) -> None:
    x = np.random.default_rng(seed).random(sizes) < share
    out = np.empty((sizes[0], sizes[2]), bool)
    assert run_row("all_or_any", x, out, *sizes, int(is_any)) == DONE
    np.testing.assert_array_equal(out, x.any(1) if is_any else x.all(1))
