"""Running sums, products and extremes, with the bits of NumPy's `accumulate`; truth values reduced."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.native.kernels.test_sums import SEEDS, numbers
from tests.native.one_row import run_row
from workbench.runtime.words.codes import DONE

SIZES = st.tuples(st.integers(1, 5), st.integers(1, 40), st.sampled_from([1, 2, 7, 16]))
Sizes = tuple[int, int, int]


@settings(max_examples=60, deadline=None)
@given(sizes=SIZES, exclusive=st.booleans(), reverse=st.booleans(), seed=SEEDS)
def test_sums(sizes: Sizes, exclusive: bool, reverse: bool, seed: int) -> None:
    whole = np.random.default_rng(seed).integers(-(2**50), 2**50, sizes)
    for kernel, x in (("running_sum", numbers(seed, *sizes)), ("running_whole_sum", whole)):
        out, totals = np.empty_like(x), np.empty(sizes[2], x.dtype)
        assert run_row(kernel, x, out, totals, *sizes, int(exclusive), int(reverse)) == DONE
        order = x[:, ::-1] if reverse else x
        expected = np.cumsum(order, axis=1, dtype=x.dtype)
        expected = expected - order if exclusive else expected
        assert out.tobytes() == np.ascontiguousarray(expected[:, ::-1] if reverse else expected).tobytes()


@settings(max_examples=60, deadline=None)
@given(sizes=SIZES, seed=SEEDS)
def test_products(sizes: Sizes, seed: int) -> None:
    x = numbers(seed, *sizes)
    out = np.empty_like(x)
    assert run_row("running_product", x, out, *sizes) == DONE
    assert out.tobytes() == np.cumprod(x, axis=1).tobytes()


@settings(max_examples=60, deadline=None)
@given(sizes=SIZES, is_least=st.booleans(), seed=SEEDS)
def test_extremes(sizes: Sizes, is_least: bool, seed: int) -> None:
    rng = np.random.default_rng(seed)
    x = rng.integers(-4, 4, sizes).astype(np.float32)
    x[rng.random(sizes) < 0.03] = np.nan
    out, places = np.empty_like(x), np.empty(sizes, np.int64)
    assert run_row("running_best", x, out, places, *sizes, int(is_least)) == DONE
    expected = (np.minimum if is_least else np.maximum).accumulate(x, axis=1)
    np.testing.assert_array_equal(out, expected)
    met = np.where((x == expected) | np.isnan(x), np.arange(sizes[1])[:, None], 0)
    np.testing.assert_array_equal(places, np.maximum.accumulate(met, axis=1))


@settings(max_examples=60, deadline=None)
@given(sizes=SIZES, share=st.sampled_from([0.0, 0.05, 0.5, 0.95, 1.0]), is_any=st.booleans(), seed=SEEDS)
def test_truths(sizes: Sizes, share: float, is_any: bool, seed: int) -> None:
    x = np.random.default_rng(seed).random(sizes) < share
    out = np.empty((sizes[0], sizes[2]), bool)
    assert run_row("all_or_any", x, out, *sizes, int(is_any)) == DONE
    np.testing.assert_array_equal(out, x.any(1) if is_any else x.all(1))
