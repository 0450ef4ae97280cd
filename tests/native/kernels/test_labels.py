"""What integers name: rows of tables, elements, the best of a row; against NumPy's indexing and sorting."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.native.kernels.test_sums import SEEDS, numbers
from tests.native.one_row import run_row
from workbench.runtime.words.codes import DECLINED, DONE

SMALL = st.integers(1, 9)
WIDTHS = st.sampled_from([1, 3, 15, 16, 17, 64, 100])
REALS = st.sampled_from([np.float32, np.float64])
ERROR: dict[Any, float] = {np.float32: 1e-6, np.float64: 1e-15}


@settings(max_examples=40, deadline=None)
@given(outer=SMALL, height=SMALL, count=SMALL, width=WIDTHS, padding=st.integers(-1, 3), dtype=REALS, seed=SEEDS)
def test_rows_of_tables(
    outer: int, height: int, count: int, width: int, padding: int, dtype: Any, seed: int
) -> None:  # fmt: skip
    table, ids = (
        numbers(seed, outer, height, width, dtype=dtype),
        np.random.default_rng(seed).integers(0, height, count),
    )
    out = np.full((outer, count, width), 7, dtype)
    words = width * (out.itemsize // 4)
    assert run_row("take_rows", table, ids, out, outer, height, count, words, padding) == DONE
    is_padding = (ids == padding)[:, None]
    np.testing.assert_array_equal(out, np.where(is_padding, 0, table[:, ids]))

    x, result = numbers(seed + 1, outer, count, width, dtype=dtype), np.full(table.shape, 7, dtype)
    assert run_row("add_rows", x, ids, result, outer, height, count, width, padding) == DONE
    expected = np.zeros(table.shape)
    for o in range(outer):
        np.add.at(expected[o], ids, np.where(is_padding, 0, x[o]))
    np.testing.assert_allclose(result, expected, rtol=ERROR[dtype], atol=2 * ERROR[dtype])


@settings(max_examples=40, deadline=None)
@given(outer=SMALL, classes=SMALL, inner=SMALL, dtype=REALS, seed=SEEDS)
def test_elements_of_labels(outer: int, classes: int, inner: int, dtype: Any, seed: int) -> None:
    x, label = (
        numbers(seed, outer, classes, inner, dtype=dtype),
        np.random.default_rng(seed).integers(0, classes, (outer, inner)),
    )
    label.flat[seed % label.size] = ignored = -7
    sizes = outer, classes, inner, ignored
    picked = np.full((outer, inner), 7, dtype)
    assert run_row("pick_label", x, label, picked, *sizes) == DONE
    expected = np.take_along_axis(x, label[:, None].clip(0), 1)[:, 0]
    np.testing.assert_array_equal(picked, np.where(label == ignored, 0, expected))

    placed = np.full(x.shape, 7, dtype)
    assert run_row("place_label", picked, label, placed, *sizes) == DONE
    here = np.arange(classes)[:, None] == label[:, None]
    np.testing.assert_array_equal(placed, np.where(here, picked[:, None], 0))

    count = np.zeros(1, dtype)
    assert run_row("count_labels", label, count, label.size, ignored) == DONE
    assert count[0] == max((label != ignored).sum(), 1)


@given(count=SMALL, classes=SMALL, seed=SEEDS)
def test_ones_at_labels(count: int, classes: int, seed: int) -> None:
    label, out = np.random.default_rng(seed).integers(0, classes, count), np.full((count, classes), 7, np.float32)
    label[0] = 0
    assert run_row("one_hot", label, out, count, classes) == DONE
    np.testing.assert_array_equal(out, np.eye(classes)[label])


@pytest.mark.parametrize("bad", [-1, 5, 2**40, -(2**62)])
def test_numbers_out_of_range_are_declined_before_anything_is_written(bad: int) -> None:
    x, ids, out = numbers(0, 4, 5), np.array([0, 1, 2, bad]), np.full((5, 5), 7, np.float32)
    assert run_row("take_rows", x, ids, out, 1, 5, 4, 1, -1) == DECLINED
    assert run_row("add_rows", x, ids, out, 1, 5, 4, 1, -1) == DECLINED
    assert run_row("pick_label", x, ids, out, 4, 5, 1, -100) == DECLINED
    assert run_row("place_label", x, ids, out, 4, 5, 1, -100) == DECLINED
    assert run_row("one_hot", ids, out, 4, 5) == DECLINED
    assert (out == 7).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_integers_as_floats(dtype: Any) -> None:
    x, out = np.array([0, -1, 2**24 + 1, 2**53 + 1, 2**62 + 1, -(2**63)]), np.zeros(6, dtype)
    assert run_row("floats_of", x, out, 6) == DONE
    np.testing.assert_array_equal(out, x.astype(dtype))


LEVELS = st.sampled_from([0.0, -0.0, 1.0, 2.0, -3.5, np.nan, np.inf, -np.inf])  # few: equal ones are what is hard


@settings(max_examples=80, deadline=None)
@given(
    rows=st.lists(st.lists(LEVELS, min_size=6, max_size=6), min_size=1, max_size=5), k=st.integers(1, 6), dtype=REALS
)
def test_the_best_of_rows(rows: list[list[float]], k: int, dtype: Any) -> None:
    x = np.array(rows, dtype)
    out, places = np.full((len(x), k), 7, dtype), np.full((len(x), k), -1)
    assert run_row("best_of_rows", x, out, places, *x.shape, k) == DONE
    keys = np.where(np.isnan(x), np.inf, x)
    order = np.lexsort((np.broadcast_to(np.arange(6), x.shape), -keys, ~np.isnan(x)))[:, :k]
    np.testing.assert_array_equal(places, order)
    np.testing.assert_array_equal(out, np.take_along_axis(x, order, 1))


@settings(max_examples=30, deadline=None)
@given(rows=SMALL, k=SMALL, seed=SEEDS)
def test_accuracy(rows: int, k: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    best, label = rng.integers(0, 6, (rows, k)), rng.integers(0, 6, rows)
    share, counts = np.zeros(1, np.float32), np.full(3, 7, np.int32)
    assert run_row("accuracy", best, label, share, counts, counts[1:], rows, k) == DONE
    hits = (best == label[:, None]).any(1).sum()
    assert share[0] == np.float32(hits) / np.float32(rows) and counts.tolist() == [hits, rows, 7]
