"""Vector code on float64, float16 and bfloat16: functions against longer numbers, halves against NumPy's rounding."""

from __future__ import annotations

from functools import cache
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from scipy.special import erf

from tests.native.kernels.vector_rows import compute, form_of, run
from workbench.framework.expr.expr import Recording as xp

BFLOAT16, FLOAT16 = np.dtype(ml_dtypes.bfloat16), np.dtype(np.float16)
HALVES = pytest.mark.parametrize("half", [BFLOAT16, FLOAT16], ids=str)
BOUNDS = {
    "exp": 1.0, "expm1": 2.0, "log": 1.0, "log1p": 1.5, "log2": 1.5, "log10": 1.5, "tanh": 3.0, "erf": 5.0, "sin": 1.0,
    "cos": 1.0, "sqrt": 0.5, "reciprocal": 0.5,
}  # fmt: skip
"""Units in the last place, against 80 bits where the machine has them."""

SPECIAL = np.array(
    [
        0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 5e-324, -5e-324, 2.2250738585072014e-308, 1.7976931348623157e308,
        709.782712893384, 709.782712893385, -708.4, -745.13, -745.14, -746.0, 0.5, 2.0, -3.0, 20.0, -20.0, 40.0, 1e-20,
    ]
)  # fmt: skip


@cache
def doubles() -> np.ndarray:
    """Of all magnitudes, what is special, and the neighbourhood of 1."""
    rng = np.random.default_rng(0)
    spread = rng.integers(0, 2**64, 20_000, dtype=np.uint64).view(np.float64)
    usual = rng.standard_normal(20_000) * 10 ** rng.uniform(-8, 3, 20_000)
    return np.concatenate([SPECIAL, spread, usual, 1 + rng.standard_normal(2_000) * 1e-9])


@pytest.mark.parametrize("name", BOUNDS)
def test_functions_of_float64_are_within_their_bounds(name: str) -> None:
    x = doubles()
    with np.errstate(all="ignore"):
        longer = x if name in ("erf", "sin", "cos") else x.astype(np.longdouble)
        expected = erf(x) if name == "erf" else getattr(np, name)(longer)
        rounded = expected.astype(np.float64)
    computed = compute(getattr(xp, name), x)
    finite = np.isfinite(rounded) & np.isfinite(computed)
    unit = np.spacing(np.maximum(np.abs(rounded[finite]), np.finfo(np.float64).tiny))
    off = np.abs(computed[finite] - expected[finite]) / unit
    assert off.max() <= BOUNDS[name], x[finite][np.argmax(off)]
    np.testing.assert_array_equal(computed[~finite], rounded[~finite])
    zero = (computed == 0) & (rounded == 0)
    np.testing.assert_array_equal(np.signbit(computed[zero]), np.signbit(rounded[zero]))


def test_powers_and_extremes_of_float64() -> None:
    x = doubles()
    y = np.random.default_rng(1).permutation(x)
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(compute(xp.power, np.abs(x), y), np.power(np.abs(x), y), rtol=1e-15, atol=5e-324)
    np.testing.assert_array_equal(compute(xp.maximum, x, y), np.maximum(x, y))


@pytest.mark.parametrize("count", [1, 15, 17, 31, 33, 64, 65, 129, 2049, 5000])
def test_float64_of_any_layout(count: int) -> None:
    """Chains and long functions in blocks; strided, repeated, single and added up."""
    rng = np.random.default_rng(count)
    x, row, one = rng.standard_normal((count, 6)).T, rng.standard_normal(count), rng.standard_normal(1)
    out, truths = np.empty((6, count)), np.empty((6, count), bool)
    form = form_of(lambda x, row, one: (xp.exp(-xp.abs(x)) * row + one, x > row), [x, row, one])
    assert run(out.shape, [(form, [x, row, one], [out, truths])]) == [True]
    np.testing.assert_allclose(out, np.exp(-np.abs(x)) * row + one, rtol=1e-14, atol=1e-15)
    np.testing.assert_array_equal(truths, x > row)
    if 1 < count <= 2048:
        total = np.empty(count)
        assert run(x.shape, [(form_of(lambda x, row: x * row, [x, row]), [x, row], [total])]) == [True]
        np.testing.assert_allclose(total, (x * row).sum(0), rtol=1e-12, atol=1e-12)


def test_float32_becomes_float64_and_back() -> None:
    x = np.concatenate([SPECIAL, np.random.default_rng(0).standard_normal(300)])
    with np.errstate(all="ignore"):
        short = x.astype(np.float32)
    wide, back = np.empty(x.shape), np.empty(x.shape, np.float32)
    assert run(x.shape, [(form_of(lambda x: x.astype("float64"), [short]), [short], [wide])]) == [True]
    np.testing.assert_array_equal(wide, short)
    assert run(x.shape, [(form_of(lambda x: x.astype("float32"), [x]), [x], [back])]) == [True]
    np.testing.assert_array_equal(back, short)


def copied(source: np.ndarray, out: np.ndarray) -> np.ndarray:
    assert run(out.shape, [(form_of(lambda x: x, [source]), [source], [out])]) == [True]
    return out


@HALVES
def test_every_half_is_read_as_what_it_is(half: np.dtype[Any]) -> None:
    every = np.arange(1 << 16, dtype=np.uint16).view(half)
    np.testing.assert_array_equal(copied(every, np.empty(every.shape, np.float32)), every.astype(np.float32))


@HALVES
def test_halves_are_rounded_as_numpy_does(half: np.dtype[Any]) -> None:
    """All magnitudes; what lies between two halves, and just beside it; infinities and NaN."""
    every = np.arange(1 << 16, dtype=np.uint16).view(half).astype(np.float32)
    near = every[np.isfinite(every)].view(np.uint32)[:, None] + np.uint32([0, 1, 0xFFF, 0x1000, 0x1001, 0x7FFF, 0x8000])
    spread = np.arange(0, 1 << 32, 30011, dtype=np.uint64).astype(np.uint32)
    x = np.concatenate([near.ravel(), (near.ravel() + np.uint32(0x8001)), spread]).view(np.float32)
    computed = copied(x, np.empty(x.shape, half))
    with np.errstate(all="ignore"):
        expected = x.astype(half)
    number = ~np.isnan(x)
    np.testing.assert_array_equal(computed.view(np.uint16)[number], expected.view(np.uint16)[number])
    assert np.isnan(computed[~number].astype(np.float32)).all()


@HALVES
def test_a_row_reads_results_as_they_were_rounded(half: np.dtype[Any]) -> None:
    """Two ops in one row: the second sees what the first has stored."""
    rng = np.random.default_rng(0)
    x, y = (rng.standard_normal((300, 7)).astype(half).T for _ in "xy")
    product, total = np.empty(x.shape, half), np.empty(x.shape, half)
    ops = [(form_of(lambda a, b: a * b, [x, y]), [x, y], [product])]
    ops += [(form_of(lambda a, b: a + b, [product, y[:, :1]]), [product, y[:, :1]], [total])]
    assert run(x.shape, ops) == [True, True]
    expected = (x.astype(np.float32) * y.astype(np.float32)).astype(half)
    np.testing.assert_array_equal(product, expected)
    sums = expected.astype(np.float32) + y[:, :1].astype(np.float32)
    np.testing.assert_array_equal(total, sums.astype(half))
    assert (total != (x.astype(np.float32) * y.astype(np.float32) + y[:, :1].astype(np.float32)).astype(half)).any()


def test_numbers_that_no_kernel_brings_together_are_refused() -> None:
    x, out = np.ones(20), np.empty(20, BFLOAT16)
    assert run(x.shape, [(form_of(lambda x: x, [x]), [x], [out])]) == [False]
