"""Softmax and cross entropy of labels, against the definitions in double precision."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.native.kernels.test_sums import SEEDS, numbers
from tests.native.one_row import run_row
from workbench.runtime.words.codes import DECLINED, DONE

ROWS, WIDTHS = st.integers(1, 40), st.one_of(st.integers(1, 70), st.sampled_from([1000, 4100]))


def softmax(x: np.ndarray) -> np.ndarray:
    out, beside = np.full(x.shape, 7, np.float32), np.zeros((2, len(x)), np.float32)
    assert run_row("softmax", x, out, beside[0], beside[1], *x.shape) == DONE
    return out


def exact_softmax(x: np.ndarray) -> np.ndarray:
    """Exact but for x - max, whose rounding counts |x - max| times."""
    with np.errstate(all="ignore"):
        grown = np.exp((x - x.max(-1, keepdims=True)).astype(np.float64))
        return np.asarray(grown / grown.sum(-1, keepdims=True))


@settings(max_examples=60, deadline=None)
@given(rows=ROWS, width=WIDTHS, seed=SEEDS, scale=st.sampled_from([1.0, 10.0, 1000.0]))
def test_softmax(rows: int, width: int, seed: int, scale: float) -> None:
    x = numbers(seed, rows, width) * np.float32(scale)
    shares = softmax(x)
    np.testing.assert_allclose(shares, exact_softmax(x), rtol=2e-6, atol=2e-38)
    np.testing.assert_allclose(shares.sum(1), 1, rtol=1e-5)


@pytest.mark.parametrize("place", [0, 5, 16, 20])
@pytest.mark.parametrize("special", [-np.inf, np.inf, np.nan])
def test_softmax_of_what_is_not_finite(special: float, place: int) -> None:
    """A masked place is exactly 0; infinity and NaN make all of their row NaN, as in NumPy."""
    x = numbers(place, 3, 21)
    x[1, place] = special
    shares, expected = softmax(x), exact_softmax(x)
    np.testing.assert_allclose(shares, expected, rtol=2e-6)
    if special == -np.inf:
        assert shares[1, place] == 0
    else:
        assert np.isnan(shares[1]).all()
    assert np.isnan(softmax(np.full((1, 21), -np.inf, np.float32))).all()


def test_softmax_decays_to_zero() -> None:
    x = np.zeros((1, 300), np.float32)
    x[0, 1:] = -np.linspace(0, 120, 299)
    shares, expected = softmax(x), exact_softmax(x)
    np.testing.assert_allclose(shares, expected, rtol=2e-6, atol=2e-38)
    assert (shares[x < -88] == 0).all()


@settings(max_examples=40, deadline=None)
@given(rows=ROWS, width=WIDTHS, seed=SEEDS)
def test_softmax_grad(rows: int, width: int, seed: int) -> None:
    y, g = softmax(numbers(seed, rows, width)), numbers(seed + 1, rows, width)
    out = np.empty_like(y)
    assert run_row("softmax_grad", y, g, out, rows, width) == DONE
    wide, g_wide = y.astype(np.float64), g.astype(np.float64)
    np.testing.assert_allclose(out, wide * (g_wide - (wide * g_wide).sum(1, keepdims=True)), rtol=1e-5, atol=1e-7)


def cross_entropy(x: np.ndarray, label: np.ndarray, ignored: int = -100) -> tuple[int, np.ndarray, np.ndarray]:
    """Status, softmax and loss; memory beside starts with rubbish."""
    p, loss, beside = np.full(x.shape, 7, np.float32), np.full(len(x), 7, np.float32), np.full(len(x), 9, np.float32)
    return run_row("cross_entropy", x, label, p, loss, beside, *x.shape, ignored), p, loss


@settings(max_examples=40, deadline=None)
@given(rows=ROWS, width=WIDTHS, seed=SEEDS, scale=st.sampled_from([1.0, 50.0]))
def test_cross_entropy(rows: int, width: int, seed: int, scale: float) -> None:
    x = numbers(seed, rows, width) * np.float32(scale)
    label = np.random.default_rng(seed).integers(0, width, rows)
    label[seed % rows] = ignored = -7
    status, p, loss = cross_entropy(x, label, ignored)
    assert status == DONE
    np.testing.assert_allclose(p, exact_softmax(x), rtol=2e-6, atol=2e-38)
    wide = x.astype(np.float64)
    top = wide.max(1)
    expected = np.log(np.exp(wide - top[:, None]).sum(1)) - (wide[np.arange(rows), label.clip(0)] - top)
    np.testing.assert_allclose(loss, np.where(label == ignored, 0, expected), rtol=2e-6, atol=1e-6)


@settings(max_examples=30, deadline=None)
@given(rows=ROWS, width=st.integers(1, 70), seed=SEEDS)
def test_cross_entropy_grad(rows: int, width: int, seed: int) -> None:
    p, g = softmax(numbers(seed, rows, width)), numbers(seed + 1, rows)
    label = np.random.default_rng(seed).integers(0, width, rows)
    label[seed % rows] = ignored = -7
    out = np.full(p.shape, 7, np.float32)
    assert run_row("cross_entropy_grad", p, label, g, out, rows, width, ignored) == DONE
    factor = np.where(label == ignored, 0, g)[:, None]
    expected = factor * (p.astype(np.float64) - (np.arange(width) == label[:, None]))
    np.testing.assert_allclose(out, expected, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("bad", [-1, 5, 2**40])
def test_labels_out_of_range_are_declined_before_anything_is_written(bad: int) -> None:
    x, label = numbers(0, 4, 5), np.array([0, 1, 2, bad])
    status, p, loss = cross_entropy(x, label)
    assert status == DECLINED and (p == 7).all() and (loss == 7).all()
    out = np.full((4, 5), 7, np.float32)
    assert run_row("cross_entropy_grad", p, label, loss, out, 4, 5, -100) == DECLINED
    assert (out == 7).all()
