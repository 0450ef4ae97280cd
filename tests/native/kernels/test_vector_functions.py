"""The functions of vector code against float64, over all magnitudes and at their limits."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest
from scipy.special import erf

from tests.native.kernels.vector_rows import compute, form_of, run
from workbench.framework.expr.expr import Recording as xp

BOUNDS = {
    "exp": 0.9, "expm1": 1.5, "log": 0.9, "log1p": 1.5, "log2": 1.2, "log10": 1.0, "tanh": 2.7, "erf": 3.1, "sin": 0.6,
    "cos": 0.6,
}  # fmt: skip
"""Units in the last place; the docstrings of `kernels.functions` say the same."""

SPECIAL = np.float32(
    [
        0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 1e-45, -1e-45, 1.1754944e-38, -1.1754944e-38, 3.4028235e38,
        -3.4028235e38, 88.72283, 88.72284, -87.33655, -103.97208, -103.97209, -104.0, 0.625, -0.625, 4.0, -4.0,
        0.70710678, 1.4142135, 16777216.0, 2.8147498e14, 2.9e14, 0.5, 2.0, 3.0, -3.0, 2.5, -2.5,
    ]
)  # fmt: skip


@cache
def numbers() -> np.ndarray:
    """Every thousandth float32, what is special, and the neighbourhood of 1 and of 0.5."""
    spread = np.arange(0, 1 << 32, 1000, dtype=np.uint64).astype(np.uint32).view(np.float32)
    steps = np.arange(-3000, 3000, dtype=np.float32) * np.float32(6e-8)
    return np.concatenate([spread, SPECIAL, 1 + steps, steps - 1, steps / 2 + np.float32(0.5)])


def errors(computed: np.ndarray, expected: np.ndarray) -> Any:
    """In units in the last place; infinite where one is finite and the other is not, or other than NaN."""
    with np.errstate(all="ignore"):
        rounded = expected.astype(np.float32)
        finite = np.isfinite(rounded) & np.isfinite(computed)
        unit = np.spacing(np.maximum(np.abs(rounded), np.float32(1.1754944e-38))).astype(np.float64)
        off = np.abs(computed.astype(np.float64) - expected) / unit
    same = (computed == rounded) | (np.isnan(computed) & np.isnan(rounded))
    return np.where(finite, off, np.where(same, 0.0, np.inf))


def assert_within(computed: np.ndarray, expected: np.ndarray, bound: float, *operands: np.ndarray) -> None:
    off = errors(computed, expected)
    worst = int(np.argmax(off))
    at = [float(a[worst]) for a in operands]
    assert off[worst] <= bound, f"{off[worst]} ulp at {at}: got {computed[worst]!r}, not {expected[worst]!r}"
    zero = (computed == 0) & (expected == 0)
    np.testing.assert_array_equal(np.signbit(computed[zero]), np.signbit(expected[zero]))


@pytest.mark.parametrize("name", BOUNDS)
def test_functions_are_within_their_bounds(name: str) -> None:
    x = numbers()
    with np.errstate(all="ignore"):
        wide = erf(x.astype(np.float64)) if name == "erf" else getattr(np, name)(x.astype(np.float64))
    assert_within(compute(getattr(xp, name), x), wide, BOUNDS[name], x)


@pytest.mark.parametrize("name", ["erf", "tanh"])
def test_functions_with_limits_stay_between_them(name: str) -> None:
    x = np.linspace(3, 11, 200_000, dtype=np.float32)
    computed = compute(getattr(xp, name), x)
    assert computed.max() == 1
    np.testing.assert_array_equal(compute(getattr(xp, name), -x), -computed)


@pytest.mark.parametrize("count", [1, 15, 17, 63, 64, 65, 129])
def test_functions_give_the_same_bits_wherever_a_number_is(count: int) -> None:
    """The last few numbers of an array are worked on under a mask."""
    x = np.random.default_rng(0).standard_normal(200).astype(np.float32)
    for name in BOUNDS:
        whole = compute(getattr(xp, name), x)
        np.testing.assert_array_equal(compute(getattr(xp, name), x[-count:]), whole[-count:])


def test_powers_are_within_their_bound() -> None:
    rng = np.random.default_rng(0)
    x = numbers()
    y = (rng.standard_normal(x.size) * 10 ** rng.uniform(-3, 2, x.size)).astype(np.float32)
    y[::5] = np.round(y[::5])
    pairs = np.array(np.meshgrid(SPECIAL, SPECIAL), np.float32).reshape(2, -1)
    x, y = np.concatenate([x, pairs[0]]), np.concatenate([y, pairs[1]])
    with np.errstate(all="ignore"):
        wide = np.power(x.astype(np.float64), y.astype(np.float64))
    assert_within(compute(xp.power, x, y), wide, 0.51, x, y)


@pytest.mark.parametrize("exponent", [2.0, 0.5, -1.0, 3.0, 1.0, 0.0, -0.5])
def test_powers_with_a_given_exponent(exponent: float) -> None:
    x = numbers()
    with np.errstate(all="ignore"):
        wide = np.power(x.astype(np.float64), exponent)  # by the square root and its like, as in float32
    assert_within(compute(lambda x: xp.power(x, exponent), x), wide, 0.51, x)


EXACT = (
    "negative", "abs", "square", "sqrt", "reciprocal", "floor", "ceil", "trunc", "rint", "sign", "add", "subtract",
    "multiply", "divide",
)  # fmt: skip
TRUTHS = (
    "logical_not", "isnan", "isinf", "isfinite", "greater", "greater_equal", "less", "less_equal", "equal", "not_equal",
    "logical_and", "logical_or", "logical_xor",
)  # fmt: skip


def operands(name: str) -> list[np.ndarray]:
    """As many as the function takes; the pairs of special numbers are among them."""
    x = numbers()[::7]
    if getattr(np, name).nin == 1:
        return [x]
    pairs = np.array(np.meshgrid(SPECIAL, SPECIAL), np.float32).reshape(2, -1)
    return [np.concatenate([x, pairs[0]]), np.concatenate([np.random.default_rng(0).permutation(x), pairs[1]])]


@pytest.mark.parametrize("name", EXACT)
def test_arithmetic_has_the_bits_of_numpy(name: str) -> None:
    arrays = operands(name)
    with np.errstate(all="ignore"):
        expected = getattr(np, name)(*arrays)
    computed = compute(getattr(xp, name), *arrays)
    number = ~(np.isnan(computed) & np.isnan(expected))
    np.testing.assert_array_equal(computed[number].view(np.uint32), expected[number].view(np.uint32))


@pytest.mark.parametrize("name", TRUTHS)
def test_comparisons_and_logic(name: str) -> None:
    arrays = operands(name)
    out = np.empty(arrays[0].shape, bool)
    assert run(out.shape, [(form_of(getattr(xp, name), arrays), arrays, [out])]) == [True]
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(out, getattr(np, name)(*arrays))


@pytest.mark.parametrize("name", ["maximum", "minimum"])
def test_extremes_pass_on_nan(name: str) -> None:
    """Of two zeros either may come out, as in NumPy."""
    arrays = operands(name)
    np.testing.assert_array_equal(compute(getattr(xp, name), *arrays), getattr(np, name)(*arrays))


@pytest.mark.parametrize(
    "body",
    [
        lambda a, b: a + b,
        lambda a, b: a * b,
        lambda a, b: xp.maximum(a, b),
        lambda a, b: xp.equal(a + b, a),
        lambda a, b: xp.logical_xor(a, b) + b,
        lambda a, b: xp.where(a, b, a),
    ],
)
def test_truth_values_are_no_numbers(body: Callable[..., Any]) -> None:
    a, b = np.array([0, 0, 1, 1] * 9, bool), np.array([0, 1, 0, 1] * 9, bool)
    form, out = form_of(body, [a, b]), np.empty(a.shape, bool)
    assert run(a.shape, [(form, [a, b], [out])]) == [True]
    (expected,) = form.evaluate([a, b])
    np.testing.assert_array_equal(out, expected)


def test_bytes_are_read_as_numbers() -> None:
    x, mask = np.linspace(-1, 1, 256, dtype=np.float32), np.arange(256, dtype=np.uint8)
    np.testing.assert_array_equal(compute(lambda x, m: x * m, x, mask), x * mask)
    np.testing.assert_array_equal(compute(lambda x, m: x * m.astype("float32"), x, mask), x * mask)
