"""Products in register tiles, transposes and copies against NumPy in double precision."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.native.one_row import run_row
from workbench.runtime.native.blas import gemm_address
from workbench.runtime.words.codes import DONE
from workbench.runtime.words.product import DEPTH, PANEL, left_pitch

SIZES = st.one_of(st.integers(1, 40), st.sampled_from([47, 48, 49, 63, 64, 65, 100, 130]))
TERMS = st.one_of(SIZES, st.sampled_from([DEPTH, DEPTH + 1, 2 * DEPTH + 3]))
GUARD = np.float32(-7.25)


def placed(
    rows: int, cols: int, flipped: bool, shift: int, gap: int, seed: int = 0, dtype: Any = np.float32
) -> np.ndarray:
    """A matrix of random numbers `shift` numbers behind a cache line, its lines `gap` numbers apart."""
    lines, length = (cols, rows) if flipped else (rows, cols)
    pitch = length + gap
    raw = np.full(lines * pitch + 64, GUARD, dtype)
    start = -raw.__array_interface__["data"][0] // raw.itemsize % 16 + shift
    matrix = raw[start : start + lines * pitch].reshape(lines, pitch)[:, :length]
    matrix[...] = np.random.default_rng(seed).standard_normal(matrix.shape)
    return matrix.T if flipped else matrix


def surroundings(view: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """All the memory a view is part of, and a copy in which the view is marked."""
    whole = view
    while whole.base is not None:
        whole = whole.base
    return whole, whole.copy()


def multiply(
    a: np.ndarray, b: np.ndarray, c: np.ndarray, adds: bool = False, left: bool = False, panel: bool = False
) -> None:
    (m, k), n = a.shape, b.shape[1]
    rows = np.empty((m, left_pitch(k)), np.float32) if left else None
    columns = np.empty((min(k, DEPTH), PANEL), np.float32) if panel else None
    numbers = m, n, k, int(adds), rows, columns, 1, 0, 0, 0, 1, 0, 0, 0
    assert run_row("product", a, *a.strides, b, *b.strides, c, c.strides[0], *numbers) == DONE


def bound(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """What rounding may do to a sum of so many products, generously."""
    return 2e-7 * (a.shape[1] + 2) * (abs(a.astype(float)) @ abs(b.astype(float))) + 1e-6


@settings(max_examples=150, deadline=None)
@given(
    m=SIZES, n=SIZES, k=TERMS, flips=st.tuples(st.booleans(), st.booleans()),
    shifts=st.tuples(*[st.integers(0, 15)] * 3), gaps=st.tuples(*[st.sampled_from([0, 1, 16])] * 3),
    adds=st.booleans(), copies=st.tuples(st.booleans(), st.booleans()),
)  # fmt: skip
def test_a_product_is_that_of_numpy(
    m: int, n: int, k: int, flips: Any, shifts: Any, gaps: Any, adds: bool, copies: Any
) -> None:
    a, b = placed(m, k, flips[0], shifts[0], gaps[0], 1), placed(k, n, flips[1], shifts[1], gaps[1], 2)
    c = placed(m, n, False, shifts[2], gaps[2], 3)
    expected = a.astype(float) @ b.astype(float) + (c if adds else 0.0)
    left = copies[0] and a.strides[0] == 4
    panel = copies[1] or b.strides[1] != 4
    if panel and 4 not in b.strides:
        return
    if not adds:
        c[...] = np.nan
    memory, _ = surroundings(c)
    inside = np.zeros(memory.shape, bool)
    offset = (c.__array_interface__["data"][0] - memory.__array_interface__["data"][0]) // 4
    inside[offset + np.add.outer(np.arange(m) * c.strides[0] // 4, np.arange(n))] = True
    multiply(a, b, c, adds, left, panel)
    assert (abs(c - expected) <= bound(a, b)).all()
    assert (memory[~inside] == GUARD).all()


@settings(max_examples=60, deadline=None)
@given(m=SIZES, n=SIZES, k=TERMS, shifts=st.tuples(*[st.integers(0, 15)] * 3))
@example(m=64, n=64, k=64, shifts=(1, 2, 3))
def test_how_operands_lie_changes_no_bit(m: int, n: int, k: int, shifts: Any) -> None:
    """Nor do tiles and parts of sums: rows, columns and DEPTH terms alone give the bits they give together."""
    a, b, c = placed(m, k, False, 0, 0, 1), placed(k, n, False, 0, 0, 2), placed(m, n, False, 0, 0)
    multiply(a, b, c)
    for flip_a, flip_b, copies in ((True, False, False), (False, True, True), (True, True, True)):
        a2, b2 = placed(m, k, flip_a, shifts[0], 1), placed(k, n, flip_b, shifts[1], 1)
        a2[...], b2[...] = a, b
        c2 = placed(m, n, False, shifts[2], 3)
        multiply(a2, b2, c2, left=copies and flip_a, panel=copies)
        assert (c2 == c).all()
    parts = placed(m, n, False, 0, 0)
    for done in range(0, k, DEPTH):
        multiply(a[:, done : done + DEPTH], b[done : done + DEPTH], parts, adds=done > 0)
    assert (parts == c).all()
    row, columns = placed(1, n, False, 0, 0), placed(m, n - n // 3, False, 0, 0)
    multiply(a[m // 2 : m // 2 + 1], b, row)
    multiply(a, b[:, n // 3 :], columns)
    assert (row == c[m // 2]).all() and (columns == c[:, n // 3 :]).all()


def test_infinities_and_nan_stay_where_they_are() -> None:
    a, b, c = placed(9, 20, False, 0, 0), placed(20, 33, True, 0, 0), placed(9, 33, False, 0, 0)
    a[3, 5], b[7, 20] = np.inf, np.nan
    multiply(a, b, c, panel=True)
    clean = np.isfinite(a.astype(float) @ b.astype(float))
    assert (np.isfinite(c) == clean).all()


@pytest.mark.parametrize(
    ("kernel", "dtype"), [("product", np.float32), ("gemm_batch", np.float32), ("gemm_batch", np.float64)]
)
def test_batches(kernel: str, dtype: Any) -> None:
    """[B, H, s, d] seen in [B, s, H, d], the right side the same for all H."""
    rng = np.random.default_rng(0)
    a = rng.standard_normal((3, 20, 2, 8), dtype).transpose(0, 2, 1, 3)
    b = rng.standard_normal((3, 1, 8, 17), dtype)
    c = np.full((3, 2, 20, 17), np.nan, dtype)
    loops = 3, a.strides[0], b.strides[0], c.strides[0], 2, a.strides[1], 0, c.strides[1]
    if kernel == "product":
        strides = a, *a.strides[2:], b, *b.strides[2:], c, c.strides[2]
        status = run_row(kernel, *strides, 20, 17, 8, 0, None, None, *loops)
    else:
        item = c.itemsize
        target = gemm_address(item)
        status = run_row(kernel, a, 111, a.strides[2] // item, b, 111, 17, c, 17, 20, 17, 8, 0, target, *loops)
    assert status == DONE
    error = 1e-5 if dtype is np.float32 else 1e-14
    np.testing.assert_allclose(c, a.astype(float) @ b.astype(float), rtol=error, atol=error)


@settings(max_examples=100, deadline=None)
@given(
    rows=SIZES, cols=SIZES, shifts=st.tuples(*[st.integers(0, 15)] * 2), gap=st.sampled_from([0, 1, 16]),
    dtype=st.sampled_from([np.float32, np.float64]),
)  # fmt: skip
def test_a_transpose_moves_every_element(rows: int, cols: int, shifts: Any, gap: int, dtype: Any) -> None:
    source = placed(rows, cols, False, shifts[0], gap, dtype=dtype)
    out = placed(cols, rows, False, shifts[1], gap, dtype=dtype)
    memory, before = surroundings(out)
    loops = 1, 0, 0, 1, 0, 0, 1, 0, 0
    assert run_row("transpose", source, source.strides[0], out, out.strides[0], rows, cols, *loops) == DONE
    assert (out == source.T).all()
    out[...] = GUARD
    before[before != GUARD] = GUARD
    assert (memory == before).all()


@settings(max_examples=40, deadline=None)
@given(batch=st.tuples(*[st.integers(1, 4)] * 3), rows=st.integers(1, 20), cols=st.integers(1, 40))
def test_transposes_and_copies_of_batches(batch: Any, rows: int, cols: int) -> None:
    rng = np.random.default_rng(1)
    source = rng.standard_normal((*batch, rows, cols), np.float32)
    out = np.full((batch[2], cols, *batch[:2], rows), np.nan, np.float32).transpose(2, 3, 0, 4, 1)
    loops = [(n, s, o) for n, s, o in zip(batch, source.strides, out.strides, strict=False)]
    flat = [number for loop in loops for number in loop]
    assert run_row("transpose", source, source.strides[3], out, out.strides[4], rows, cols, *flat) == DONE
    assert (out == source).all()
    copied = np.full((rows, *batch, cols), np.nan, np.float32)
    first = copied[rows - 1]
    loops = [(n, s, o) for n, s, o in zip(batch, source.strides, first.strides, strict=False)]
    flat = [number for loop in loops for number in loop]
    assert run_row("copy_rows", source[..., rows - 1, :], first, cols, *flat) == DONE
    assert (first == source[..., rows - 1, :]).all() and np.isnan(copied[: rows - 1]).all()
