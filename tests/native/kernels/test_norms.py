"""Layer normalisation of rows and batch normalisation of planes, against the definitions in double precision."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.native.kernels.test_sums import SEEDS, near, numbers
from tests.native.one_row import run_row
from workbench.runtime.words.codes import DONE

ROWS, WIDTHS = st.integers(1, 70), st.one_of(st.integers(2, 70), st.sampled_from([512, 4100]))
EPSILON = 1e-5


def layer_norm(x: np.ndarray, scale: np.ndarray, bias: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    y, mean, variance = np.empty_like(x), np.empty(len(x), np.float32), np.empty(len(x), np.float32)
    assert run_row("layer_norm", x, scale, bias, y, mean, variance, *x.shape, EPSILON) == DONE
    return y, mean, variance


@settings(max_examples=60, deadline=None)
@given(rows=ROWS, width=WIDTHS, seed=SEEDS, offset=st.sampled_from([0, 100]))
def test_layer_norm(rows: int, width: int, seed: int, offset: int) -> None:
    x, scale, bias = numbers(seed, rows, width) + np.float32(offset), numbers(seed + 1, width), numbers(seed + 2, width)
    y, mean, variance = layer_norm(x, scale, bias)
    wide = x.astype(np.float64)
    near(mean, wide.mean(1), np.abs(wide).mean(1))
    np.testing.assert_allclose(variance, wide.var(1), rtol=1e-5, atol=1e-9 * (1 + offset) ** 2)
    normal = (wide - wide.mean(1, keepdims=True)) / np.sqrt(wide.var(1, keepdims=True) + EPSILON)
    steep = np.abs(scale) / np.sqrt(wide.var(1, keepdims=True) + EPSILON)  # of an error in x
    np.testing.assert_array_less(
        np.abs(y - (normal * scale + bias)), 1e-5 + 3e-7 * (1 + offset) * steep + 1e-5 * np.abs(normal * scale)
    )


@pytest.mark.parametrize("special", [np.inf, np.nan])
def test_layer_norm_of_what_is_not_finite(special: float) -> None:
    x, ones = numbers(0, 5, 33), np.ones(33, np.float32)
    x[2, 30] = special
    y, _, _ = layer_norm(x, ones, ones)
    assert np.isnan(y[2]).all() and np.isfinite(np.delete(y, 2, 0)).all()


@settings(max_examples=40, deadline=None)
@given(rows=st.sampled_from([1, 3, 64, 65, 200]), width=st.sampled_from([2, 16, 33, 512]), seed=SEEDS)
def test_layer_norm_grad(rows: int, width: int, seed: int) -> None:
    x, g, scale = numbers(seed, rows, width), numbers(seed + 1, rows, width), numbers(seed + 2, width)
    wide, g_wide = x.astype(np.float64), g.astype(np.float64)
    mean, variance = (a.astype(np.float32) for a in (wide.mean(1), wide.var(1)))
    g_x, g_scale, g_bias = np.empty_like(x), np.empty(width, np.float32), np.empty(width, np.float32)
    partial = np.full(2 * width + 1, 7, np.float32)
    row = (x, g, scale, mean, variance, g_x, g_scale, g_bias, partial, rows, width, EPSILON)
    assert run_row("layer_norm_grad", *row) == DONE
    assert partial[-1] == 7
    inverse = 1 / np.sqrt(variance.astype(np.float64)[:, None] + EPSILON)
    normal = (wide - mean[:, None]) * inverse
    near(g_bias, g_wide.sum(0), np.abs(g_wide).sum(0))
    near(g_scale, (g_wide * normal).sum(0), np.abs(g_wide * normal).sum(0), 40)
    inner = g_wide * scale
    expected = inner - inner.mean(1, keepdims=True) - normal * (inner * normal).mean(1, keepdims=True)
    size = inverse * np.abs(inner).max(1, keepdims=True) * (1 + np.abs(normal).max(1, keepdims=True) ** 2)
    near(g_x, expected * inverse, size, 10)


# Planes

SHAPES = st.tuples(st.integers(1, 9), st.integers(1, 5), st.one_of(st.integers(1, 70), st.sampled_from([900, 5000])))


@settings(max_examples=60, deadline=None)
@given(shape=SHAPES, seed=SEEDS)
def test_plane_moments(shape: tuple[int, int, int], seed: int) -> None:
    x = numbers(seed, *shape) + np.float32(3)
    mean, variance = np.empty(shape[1], np.float32), np.empty(shape[1], np.float32)
    assert run_row("plane_moments", x, mean, variance, *shape, shape[1]) == DONE
    wide = x.astype(np.float64)
    np.testing.assert_allclose(mean, wide.mean((0, 2)), rtol=2e-6)
    np.testing.assert_allclose(variance, wide.var((0, 2)), rtol=1e-5, atol=1e-11)


@settings(max_examples=30, deadline=None)
@given(shape=SHAPES, seed=SEEDS)
def test_plane_shift(shape: tuple[int, int, int], seed: int) -> None:
    x, (mean, slope, bias) = numbers(seed, *shape), numbers(seed + 1, 3, shape[1])
    y = np.empty_like(x)
    assert run_row("plane_shift", x, mean, slope, bias, y, *shape) == DONE
    expected = (x.astype(np.float64) - mean[:, None]) * slope[:, None] + bias[:, None]
    np.testing.assert_allclose(y, expected, rtol=1e-5, atol=2e-6)


@settings(max_examples=40, deadline=None)
@given(shape=SHAPES, seed=SEEDS)
def test_plane_gradients(shape: tuple[int, int, int], seed: int) -> None:
    x, g, per_channel = numbers(seed, *shape), numbers(seed + 1, *shape), numbers(seed + 2, 5, shape[1])
    mean, inverse, along, level, slope = per_channel
    g_scale, g_bias, g_x = np.empty(shape[1], np.float32), np.empty(shape[1], np.float32), np.empty_like(x)
    assert run_row("plane_sums", x, g, mean, inverse, g_scale, g_bias, *shape, shape[1]) == DONE
    wide, g_wide = x.astype(np.float64), g.astype(np.float64)
    normal = (wide - mean[:, None]) * inverse[:, None]
    near(g_bias, g_wide.sum((0, 2)), np.abs(g_wide).sum((0, 2)))
    near(g_scale, (g_wide * normal).sum((0, 2)), np.abs(g_wide * normal).sum((0, 2)), 40)
    row = (x, g, mean, inverse, along, level, slope, g_x, *shape)
    assert run_row("plane_gradients", *row) == DONE
    expected = (g_wide - level[:, None] - normal * along[:, None]) * slope[:, None]
    np.testing.assert_allclose(g_x, expected, rtol=1e-4, atol=1e-5)
