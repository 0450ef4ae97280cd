"""Sparse gradients: what they mean as arrays, and that merging keeps it."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from workbench.errors import InvalidArgument
from workbench.framework.values.rows import Rows, add, concat
from workbench.framework.values.spec import spec_of


def by_loop(g: Rows) -> np.ndarray:
    """The dense gradient, one row after the other."""
    out = np.zeros(g.shape)
    for row, value in zip(g.rows.tolist(), g.values, strict=True):
        out[row] = out[row] + value
    return out


@st.composite
def gradients(draw: st.DrawFn, height: int | None = None) -> Rows:
    height = height or draw(st.integers(1, 9))
    rows = draw(st.lists(st.integers(0, height - 1), max_size=20))
    seed = draw(st.integers(0, 2**31))
    # Whole numbers: their sums are exact, so the order of adding does not matter here.
    values = np.random.default_rng(seed).integers(-50, 50, (len(rows), 3)).astype(np.float64)
    return Rows(np.array(rows, np.int64), values, height)


@given(gradients())
def test_to_dense_sums_repeated_rows(g: Rows) -> None:
    np.testing.assert_array_equal(g.to_dense(np), by_loop(g))
    assert g.to_dense(np).shape == g.shape


@given(gradients())
def test_merge_has_every_row_once_in_order_and_means_the_same(g: Rows) -> None:
    merged = g.merge(np)
    assert merged.rows.tolist() == sorted(set(g.rows.tolist()))
    assert merged.rows.dtype == np.int64
    np.testing.assert_array_equal(by_loop(merged), by_loop(g))


@given(st.integers(1, 6).flatmap(lambda h: st.lists(gradients(h), min_size=1, max_size=4)))
def test_concat_is_the_sum_and_keeps_the_order_of_parts(parts: list[Rows]) -> None:
    whole = concat(np, parts)
    assert whole.rows.tolist() == [r for p in parts for r in p.rows.tolist()]
    np.testing.assert_array_equal(by_loop(whole), sum(by_loop(p) for p in parts))


@given(gradients(), st.floats(-4, 4))
def test_scale(g: Rows, factor: float) -> None:
    np.testing.assert_allclose(g.scale(factor).to_dense(np), by_loop(g) * factor, atol=1e-12)


def test_add_of_sparse_and_dense_is_dense() -> None:
    g = Rows(np.array([1, 1]), np.ones((2, 2), np.float32), 3)
    total = add(np, [g, np.full((3, 2), 5, np.float32), g])
    np.testing.assert_array_equal(total, [[5, 5], [9, 9], [5, 5]])
    assert isinstance(add(np, [g, g]), Rows)
    assert not isinstance(add(np, [np.ones((3, 2)), np.ones((3, 2))]), Rows)


def test_merging_is_reproducible_to_the_bit() -> None:
    rng = np.random.default_rng(0)
    rows, values = rng.integers(0, 5, 300), rng.standard_normal((300, 4)).astype(np.float32)
    first = Rows(rows, values, 5).merge(np)
    again = Rows(rows.copy(), values.copy(), 5).merge(np)
    assert first.values.tobytes() == again.values.tobytes()


def test_float16_values_are_added_in_float32() -> None:
    g = Rows(np.zeros(4096, np.int64), np.ones((4096, 1), np.float16), 1)
    merged = g.merge(np)
    assert merged.values.tolist() == [[4096.0]]  # by halves it would stop at 2048
    assert merged.dtype == np.float16


def test_scale_and_astype_keep_or_change_the_dtype() -> None:
    g = Rows(np.array([0]), np.ones((1, 2), np.float16), 2)
    assert g.scale(np.float64(0.5)).dtype == np.float16
    assert g.astype(np.float32).dtype == np.float32
    assert g.scale(np.array([0.5], np.float32)).values.tolist() == [[0.5, 0.5]]


def test_spec() -> None:
    spec = spec_of(Rows(np.array([2]), np.ones((1, 4), np.float32), 7))
    assert (spec.shape, spec.dtype.name, spec.kind) == ((7, 4), "float32", "rows")


def test_rows_and_values_have_to_match() -> None:
    with pytest.raises(InvalidArgument, match=r"rows \[2\] and values \[3, 4\]"):
        Rows(np.array([0, 1]), np.ones((3, 4)), 5)
    with pytest.raises(InvalidArgument, match=r"rows \[1, 2\]"):
        Rows(np.array([[0, 1]]), np.ones((1, 4)), 5)


@pytest.mark.parametrize("row", [5, -1])
def test_a_row_outside_the_table_is_refused(row: int) -> None:
    with pytest.raises(InvalidArgument, match=rf"has row {row}\n  expected: 0 <= row < 5"):
        Rows(np.array([0, row, 3]), np.ones((3, 1)), 5).to_dense(np)


def test_parts_of_different_tables_are_refused() -> None:
    a, b = (Rows(np.array([0]), np.ones((1, 2)), h) for h in (3, 4))
    with pytest.raises(InvalidArgument, match="different shapes"):
        concat(np, [a, b])
    with pytest.raises(InvalidArgument, match="different shapes"):
        add(np, [a, np.ones((4, 2))])
    with pytest.raises(InvalidArgument, match="at least one"):
        add(np, [])


def test_values_of_a_row_are_added_in_the_order_they_occur() -> None:
    """Whatever else is between them, and however many there are: float32 tells in which order."""
    rng = np.random.default_rng(0)
    rows = np.repeat([4, 0, 2, 7], [1, 5, 16, 40])
    rng.shuffle(rows)
    values = (rng.standard_normal((len(rows), 3)) * 10.0 ** rng.integers(-6, 7, (len(rows), 1))).astype(np.float32)
    merged = Rows(rows, values, 9).merge(np)
    assert merged.rows.tolist() == [0, 2, 4, 7]
    for row, total in zip(merged.rows, merged.values, strict=True):
        expected = np.zeros(3, np.float32)
        for value in values[rows == row]:
            expected += value
        np.testing.assert_array_equal(total, expected)
