"""Floating-point arithmetic as a GPU rounds it: once, in the mode that the instruction names.

Whatever is narrower than float64 is computed in float64, rounded there *to odd* (the last bit is set where something
was cut off), and rounded once more to its own width. With two bits to spare this is one correct rounding, in any mode.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np

_SPLITTER = 134217729.0  # 2^27 + 1, which cuts a float64 into halves whose products are exact
NARROW = {"f32": np.float32, "f16": np.float16}


def add_exactly(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return a + b rounded to nearest, and what that left out (Knuth)."""
    total = a + b
    back = total - a
    return total, (a - (total - back)) + (b - back)


def multiply_exactly(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return a * b rounded to nearest, and what that left out (Dekker); neither may be huge or tiny."""
    product = a * b
    high_a, high_b = _high(a), _high(b)
    low_a, low_b = a - high_a, b - high_b
    return product, low_a * low_b - (((product - high_a * high_b) - low_a * high_b) - high_a * low_b)


def _high(a: np.ndarray) -> np.ndarray:
    scaled = _SPLITTER * a
    return scaled - (scaled - a)


def to_odd(total: np.ndarray, rest: np.ndarray) -> np.ndarray:
    """Round total + rest to odd, where `total` is the sum rounded to nearest."""
    total = np.asarray(total, np.float64)
    bits = total.view(np.int64)
    inexact = (rest != 0) & np.isfinite(total) & np.isfinite(rest) & (bits & 1 == 0)
    if not inexact.any():
        return total
    outward = (rest > 0) == (total > 0)
    outward |= total == 0
    return np.where(inexact, bits + np.where(outward, 1, -1), bits).view(np.float64)


def sum_to_odd(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return to_odd(*add_exactly(a, b))


def narrow(kind: str, exact: np.ndarray, mode: str = "rn") -> np.ndarray:
    """Round float64 values, themselves rounded to odd, to a narrower kind; the result is still float64."""
    rounded = nearest(kind, exact)
    if mode == "rn":
        return rounded
    away = {
        "rz": np.abs(rounded) > np.abs(exact),
        "rm": rounded > exact,
        "rp": rounded < exact,
    }[mode]
    if not away.any():
        return rounded
    towards = {"rz": np.zeros_like(exact), "rm": np.full_like(exact, -np.inf), "rp": np.full_like(exact, np.inf)}[mode]
    return np.where(away, _step(kind, rounded, towards), rounded)


def nearest(kind: str, exact: np.ndarray) -> np.ndarray:
    """Round to nearest, ties to even; the result is float64."""
    if kind == "bf16":
        return widen("bf16", bfloat16_bits(exact))
    return np.asarray(exact).astype(NARROW[kind]).astype(np.float64)


def _step(kind: str, value: np.ndarray, towards: np.ndarray) -> np.ndarray:
    """Return the next value of a kind in a direction."""
    if kind != "bf16":
        width = NARROW[kind]
        return np.nextafter(value.astype(width), towards.astype(width)).astype(np.float64)
    bits = bfloat16_bits(value).astype(np.int32)
    outward = (towards > value) == (value > 0)
    return widen("bf16", (bits + np.where(outward, 1, -1)).astype(np.uint16))


def bfloat16_bits(exact: np.ndarray) -> np.ndarray:
    """Round float64 to the 16 bits of the nearest bfloat16, ties to even."""
    exact = np.asarray(exact, np.float64)
    single = exact.astype(np.float32)
    bits = single.view(np.uint32)
    cut = (single != exact) & np.isfinite(single) & (bits & 1 == 0)
    if cut.any():  # to odd, or what was cut off here could make a tie of what is none
        outward = np.abs(exact) > np.abs(single)
        bits = np.where(cut, bits + np.where(outward, 1, -1).astype(np.uint32), bits)
    rounded = (bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))) >> np.uint32(16)
    return np.where(np.isnan(single), np.uint32(0x7FFF), rounded).astype(np.uint16)


def widen(kind: str, bits: np.ndarray) -> np.ndarray:
    """Return 16-bit floats as float64."""
    if kind == "bf16":
        return (bits.astype(np.uint32) << np.uint32(16)).view(np.float32).astype(np.float64)
    return bits.view(np.float16).astype(np.float64)


def flush(value: np.ndarray) -> np.ndarray:
    """Make denormal float32 numbers zeros of their sign, as `.ftz` does."""
    tiny = np.abs(value) < np.finfo(np.float32).tiny
    return np.where(tiny, np.copysign(value.dtype.type(0), value), value) if np.any(tiny) else value


def fused32(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    """Return a * b + c of float32 (or narrower) operands, rounded to odd in float64."""
    return sum_to_odd(np.asarray(a, np.float64) * np.asarray(b, np.float64), np.asarray(c, np.float64))


def fused64(a: np.ndarray, b: np.ndarray, c: np.ndarray, mode: str = "rn") -> np.ndarray:
    """Return a * b + c of float64 operands, rounded once (Boldo and Melquiond)."""
    a, b, c = np.broadcast_arrays(*(np.asarray(value, np.float64) for value in (a, b, c)))
    high, low = multiply_exactly(a, b)
    carry, rest = add_exactly(c, low)
    total, lost = add_exactly(high, carry)
    result = np.asarray(total + sum_to_odd(rest, lost))
    product = np.where(np.isinf(c) & np.isfinite(a) & np.isfinite(b), 0.0, a * b)  # no overflow meets an infinite c
    plain = product + c
    strange = ~np.isfinite(result) | ~np.isfinite(plain)
    result = np.where(strange, plain, result)
    hard = _hard(a, b, c, high)
    if mode != "rn":
        hard = np.isfinite(plain)
    for at in zip(*np.nonzero(np.atleast_1d(hard))):
        where = at if result.ndim else ()
        result[where] = _fraction_rounded(
            Fraction(float(a[where])) * Fraction(float(b[where])) + Fraction(float(c[where])), mode, float(plain[where])
        )
    return result


def _hard(a: np.ndarray, b: np.ndarray, c: np.ndarray, product: np.ndarray) -> np.ndarray:
    """Say where the quick form could overflow or lose bits below the smallest number, so fractions have to do."""
    finite = np.isfinite(a) & np.isfinite(b) & np.isfinite(c)
    big = (np.abs(a) > 1e290) | (np.abs(b) > 1e290) | (np.abs(product) > 1e300) | (np.abs(c) > 1e300)
    small = (np.abs(product) < 1e-260) & (a != 0) & (b != 0)
    return finite & (big | small)


def _fraction_rounded(exact: Fraction, mode: str, zero: float) -> float:
    if exact == 0:
        return zero
    try:
        value = exact.numerator / exact.denominator  # Python divides whole numbers with one rounding
    except OverflowError:
        value = np.inf if exact > 0 else -np.inf
    if mode == "rn" or Fraction(value) == exact:
        return value
    above = Fraction(value) > exact
    down = mode == "rm" or (mode == "rz" and exact > 0)
    if above == down:
        return float(np.nextafter(value, -np.inf if down else np.inf))
    return value


def directed64(total: np.ndarray, rest: np.ndarray, mode: str) -> np.ndarray:
    """Round total + rest in a direction, where `total` is the sum rounded to nearest."""
    if mode == "rn":
        return total
    down = {"rm": np.ones_like(total, bool), "rp": np.zeros_like(total, bool), "rz": total > 0}[mode]
    wrong = np.where(down, rest < 0, rest > 0) & np.isfinite(total)
    return np.where(wrong, np.nextafter(total, np.where(down, -np.inf, np.inf)), total)
