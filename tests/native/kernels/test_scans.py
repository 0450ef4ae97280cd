"""Running sums, products, extremes and logarithms, against NumPy's `accumulate` and float64; and their gradients.

Down columns one element is joined after the other, as NumPy does: bits are the same. In lines products and extremes are
the same as well; of sums it is the error that is bounded.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.native.kernels.test_sums import SEEDS, numbers
from tests.native.one_row import run_row
from workbench.framework.op.record import Op
from workbench.framework.rows.kernel import COLUMNS, LINES
from workbench.ops.math.reductions.cumulative import CUMMAX, CUMMIN, CUMPROD, CUMSUM, LOGCUMSUMEXP
from workbench.runtime.row_kernels import row_kernel
from workbench.runtime.words.codes import DONE

SIZES = st.tuples(
    st.integers(1, 5), st.sampled_from([1, 2, 3, 15, 16, 17, 31, 33, 100]), st.sampled_from([1, 2, 7, 16, 83, 200])
)
SPECIAL = [0.0, -0.0, 1.0, -1.0, 3e38, -3e38, 1e-40, np.inf, -np.inf, np.nan]
NUMBERS = st.sampled_from(SPECIAL) | st.floats(-4, 4, width=32)
Sizes = tuple[int, int, int]


def scan(op: Op, *arrays: np.ndarray, back: bool = False, **attrs: Any) -> list[np.ndarray]:
    """The outputs of an op along the middle axis, or of its gradient; in columns, or in lines where there are none."""
    program, (outer, n, inner) = op.grad_rows if back else op.rows, arrays[0].shape
    assert program is not None
    dtype, form = arrays[0].dtype, program.form(arrays, op.attrs | attrs)
    layout, sizes = (COLUMNS, (outer, n, inner, inner)) if inner > 1 else (LINES, (1, outer * n, outer, n))
    kernel = row_kernel(program, form, layout, False, dtype.itemsize, dtype == np.int64)
    outs = [np.full_like(arrays[0], 7, np.int64 if x.is_integer else dtype) for _, x in kernel.outputs]
    assert run_row(kernel.name, *(arrays[n] for n, _ in kernel.inputs), *outs, None, *sizes) == DONE
    return outs


def same(a: np.ndarray, b: np.ndarray) -> bool:
    """Equal numbers, NaN where there is NaN, and zeros of the same sign."""
    return bool(np.array_equal(a, b, equal_nan=True) and np.array_equal(np.signbit(a[a == 0]), np.signbit(b[b == 0])))


@settings(max_examples=80, deadline=None)
@given(sizes=SIZES, exclusive=st.booleans(), reverse=st.booleans(), is_double=st.booleans(), seed=SEEDS)
def test_sums(sizes: Sizes, exclusive: bool, reverse: bool, is_double: bool, seed: int) -> None:
    x = numbers(seed, *sizes).astype(np.float64 if is_double else np.float32)
    (out,) = scan(CUMSUM, x, exclusive=exclusive, reverse=reverse)
    order = x[:, ::-1] if reverse else x
    order = np.concatenate([np.zeros_like(x[:, :1]), order[:, :-1]], 1) if exclusive else order
    got = out[:, ::-1] if reverse else out
    if sizes[2] > 1:
        assert same(got, np.cumsum(order, 1, x.dtype))
    error = np.abs(got - np.cumsum(order, 1, np.longdouble))
    assert (error <= 2 * np.finfo(x.dtype).eps * (np.cumsum(np.abs(order), 1, np.longdouble) + 1e-30) * 7).all()
    (back,) = scan(CUMSUM, np.zeros_like(x), x, back=True, exclusive=exclusive, reverse=not reverse)
    assert same(back, out)


@settings(max_examples=60, deadline=None)
@given(sizes=SIZES, exclusive=st.booleans(), reverse=st.booleans(), seed=SEEDS)
def test_whole_numbers(sizes: Sizes, exclusive: bool, reverse: bool, seed: int) -> None:
    """They wrap around, as in NumPy."""
    x = np.random.default_rng(seed).integers(-(2**62), 2**62, sizes)
    order = x[:, ::-1] if reverse else x
    order = np.concatenate([0 * x[:, :1], order[:, :-1]], 1) if exclusive else order
    (out,) = scan(CUMSUM, x, exclusive=exclusive, reverse=reverse)
    assert np.array_equal(out[:, ::-1] if reverse else out, np.cumsum(order, 1))
    assert np.array_equal(scan(CUMPROD, x)[0], np.cumprod(x, 1))


@settings(max_examples=60, deadline=None)
@given(sizes=SIZES, is_double=st.booleans(), seed=SEEDS)
def test_products(sizes: Sizes, is_double: bool, seed: int) -> None:
    """Numbers that are too large or too small on the way are so where NumPy's are, and nowhere else."""
    random = np.random.default_rng(seed)
    x = (numbers(seed, *sizes) * 10.0 ** random.integers(-30, 30, sizes)).astype(np.float64 if is_double else "f4")
    x[random.random(sizes) < 0.01] = 0
    with np.errstate(all="ignore"):
        assert same(scan(CUMPROD, x)[0], np.cumprod(x, 1))


@settings(max_examples=60, deadline=None)
@given(sizes=SIZES, is_least=st.booleans(), is_double=st.booleans(), seed=SEEDS)
def test_extremes(sizes: Sizes, is_least: bool, is_double: bool, seed: int) -> None:
    """Ties go to the last place; once there is NaN it stays, and so does every NaN a place where it is met."""
    rng = np.random.default_rng(seed)
    x = rng.integers(-4, 4, sizes).astype(np.float64 if is_double else np.float32)
    x[rng.random(sizes) < 0.03] = np.nan
    x[rng.random(sizes) < 0.03] = rng.choice([np.inf, -np.inf])
    out, places = scan(CUMMIN if is_least else CUMMAX, x)
    expected = (np.minimum if is_least else np.maximum).accumulate(x, axis=1)
    np.testing.assert_array_equal(out, expected)
    met = np.where((x == expected) | np.isnan(x), np.arange(sizes[1])[:, None], 0)
    np.testing.assert_array_equal(places, np.maximum.accumulate(met, axis=1))


@settings(max_examples=150, deadline=None)
@given(values=st.lists(NUMBERS, min_size=1, max_size=40), columns=st.sampled_from([1, 3]))
def test_numbers_of_all_kinds(values: list[float], columns: int) -> None:
    """Zeros of both signs, infinities, NaN, numbers that nearly overflow: what NumPy makes of them."""
    x = np.repeat(np.array(values, np.float32)[None, :, None], columns, 2)
    wide = x.astype(np.float64)
    with np.errstate(all="ignore"):
        assert same(scan(CUMPROD, x)[0], np.cumprod(x, 1))
        assert np.array_equal(scan(CUMMAX, x)[0], np.maximum.accumulate(x, 1), equal_nan=True)
        expected = np.logaddexp.accumulate(wide, 1)
        np.testing.assert_allclose(scan(LOGCUMSUMEXP, x)[0], expected, rtol=2e-6, atol=2e-6)
        sums = np.cumsum(wide, 1)
    if (
        np.nanmax(np.abs(np.where(np.isfinite(sums), sums, 0))) < 1e38
        and np.abs(wide[np.isfinite(wide)]).max(initial=0) < 1e38
    ):
        np.testing.assert_allclose(scan(CUMSUM, x)[0], sums, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("columns", [1, 3])
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_long_rows(dtype: str, columns: int) -> None:
    """Whatever a chunk is: what runs along a row goes on through all of it."""
    x = numbers(3, 2, 9001, columns).astype(dtype)
    eps, wide = np.finfo(dtype).eps, x.astype(np.longdouble)
    for reverse in (False, True):
        order = wide[:, ::-1] if reverse else wide
        exact, size = np.cumsum(order, 1), np.cumsum(np.abs(order), 1)
        got = scan(CUMSUM, x, reverse=reverse)[0]
        assert (np.abs((got[:, ::-1] if reverse else got) - exact) <= eps * np.sqrt(9001) * size).all()
    np.testing.assert_allclose(scan(LOGCUMSUMEXP, x)[0], np.log(np.cumsum(np.exp(wide), 1)).astype("f8"), 60 * eps)
    assert same(scan(CUMPROD, 1 + x * dtype_of(x, 1e-3))[0], np.cumprod(1 + x * dtype_of(x, 1e-3), 1))


def dtype_of(x: np.ndarray, number: float) -> Any:
    return x.dtype.type(number)


def slope_of_products(x: np.ndarray, g: np.ndarray) -> np.ndarray:
    """Of every element the products it takes part in without it, term by term."""
    total = np.zeros(x.shape)
    for i in range(x.shape[1]):
        others = x.astype(np.float64)
        others[:, i] = 1.0
        total[:, i] = (g * np.cumprod(others, 1))[:, i:].sum(1)
    return total


@settings(max_examples=60, deadline=None)
@given(sizes=SIZES, zeros=st.sampled_from([0.0, 0.03, 0.3]), is_double=st.booleans(), seed=SEEDS)
def test_gradients_of_products(sizes: Sizes, zeros: float, is_double: bool, seed: int) -> None:
    """Exact where elements are 0, however many."""
    random, dtype = np.random.default_rng(seed), np.float64 if is_double else np.float32
    x = (random.choice([1, -1], sizes) * random.uniform(0.7, 1.2, sizes)).astype(dtype)
    x[random.random(sizes) < zeros] = 0
    g = numbers(seed, *sizes).astype(dtype)
    (got,) = scan(CUMPROD, x, np.cumprod(x, 1), g, back=True)
    expected, size = slope_of_products(x, g), slope_of_products(np.abs(x), np.abs(g))
    assert (np.abs(got - expected) <= 4 * sizes[1] * np.finfo(dtype).eps * size).all()


@settings(max_examples=60, deadline=None)
@given(sizes=SIZES, spread=st.sampled_from([1.0, 30.0, 200.0]), seed=SEEDS)
def test_gradients_of_logarithms(sizes: Sizes, spread: float, seed: int) -> None:
    """Shares of later results, as small as they may be; nothing of what is masked in front."""
    x, g = numbers(seed, *sizes).astype("f8") * spread, numbers(seed + 1, *sizes).astype("f8")
    x[:, : seed % sizes[1]] = np.where(seed % 2, x[:, : seed % sizes[1]], -np.inf)
    y = np.logaddexp.accumulate(x, 1)
    (got,) = scan(LOGCUMSUMEXP, x, y, g, back=True)
    with np.errstate(invalid="ignore", over="ignore"):
        shares = np.exp(x[:, None] - y[:, :, None])  # [outer, result, element, inner]
        shares *= np.tril(np.ones((sizes[1],) * 2))[:, :, None]
    expected, size = ((np.where(shares > 0, shares, 0) * a[:, :, None]).sum(1) for a in (g, np.abs(g)))
    seen = x > -np.inf
    assert (
        np.abs(got - expected)[seen] <= 1e-12 * (1 + np.abs(x).max(where=seen, initial=0)) * size[seen] + 1e-300
    ).all()
    assert not np.isnan(got).any()
