"""The functions of vector code. Errors are in units in the last place (ulp) of float32, over all magnitudes."""

from __future__ import annotations

from collections.abc import Callable
from math import factorial
from typing import Any

from workbench.runtime.kernels.vectors import Doubles, Vectors, call_lanes

LOG2_E = 1.44269504088896341
LN2_HIGH, LN2_LOW = 0.693359375, -2.12194440e-4  # their sum is ln 2; the first has few bits
MINIMAL = 1.17549435e-38  # the least normal number
INFINITE, NAN = float("inf"), float("nan")
PI_HALF, PI_HALF_REST = 1.5707963267948966, 6.123233995736766e-17  # their sum is pi / 2


def maximum(v: Vectors, a: Any, b: Any) -> Any:
    """The larger; NaN if one is."""
    return v.select(v.is_nan(a), a, v.select(v.compare(">", a, b), a, b))


def minimum(v: Vectors, a: Any, b: Any) -> Any:
    """The smaller; NaN if one is."""
    return v.select(v.is_nan(a), a, v.select(v.compare("<", a, b), a, b))


def sign(v: Vectors, x: Any) -> Any:
    """-1, 0 or 1; NaN of NaN."""
    one = v.select(v.compare(">", x, 0.0), 1.0, v.select(v.compare("<", x, 0.0), -1.0, 0.0))
    return v.select(v.is_nan(x), x, one)


# Exponentials

WHOLE = 1.5 * 2**23  # added to a small number it rounds it to a whole one, which is then in the last bits of the sum
BIAS = 127  # of exponents
GROWTH = (0.0013820689637213945, 0.008368675597012043, 0.04166826605796814, 0.1666652113199234, 0.4999999403953552)
"""(exp(r) - 1 - r) / r^2 for r between -0.35 and 0.35: least relative error of exp(r), 2^-28."""


def _whole_part(v: Vectors, x: Any, per_whole: float, offset: int = 0) -> tuple[Any, Any]:
    """x / ln 2, each x counting `per_whole` times, as a whole number n and the rest.

    Returns: integers whose last bits are n + offset + BIAS, so that moved into the exponent they are 2^(n + offset);
        and x less n ln 2 / per_whole.
    """
    sum_of = WHOLE + BIAS + offset
    moved = v.fma(x, LOG2_E * per_whole, sum_of)
    n = v.subtract(moved, sum_of)
    return v.bits(moved), v.fma(n, -LN2_LOW / per_whole, v.fma(n, -LN2_HIGH / per_whole, x))


def _power_of_two(v: Vectors, bits: Any) -> Any:
    """Of what `_whole_part` gives."""
    return v.from_bits(v.builder.shl(bits, v.integer(23)))


def exp(v: Vectors, x: Any) -> Any:
    """e to the power x, within 0.9 ulp; underflows gradually, since 2^n is multiplied by in two parts."""
    x = v.bounded(x, -104.0, 89.0)
    bits, r = _whole_part(v, x, 1.0)
    half = v.bits(v.fma(x, LOG2_E / 2, WHOLE + BIAS))
    rest = v.builder.add(v.builder.sub(bits, half), v.integer(BIAS))
    grown = v.multiply(v.polynomial(r, (*GROWTH, 1.0, 1.0)), _power_of_two(v, half))
    return v.multiply(grown, _power_of_two(v, rest))


DECAY = (1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1)


def decay(v: Vectors, x: Any) -> Any:
    """e to the power x for x <= 0, within 1.1 ulp; 0 below the least normal number, NaN of NaN.

    Adding WHOLE + BIAS rounds to a whole number: its bits are the last ones of the sum, moved by the exponent's bias.
    """
    inside = v.select(v.compare("<", x, -88.0), -88.0, x)
    moved = v.fma(inside, LOG2_E, WHOLE + BIAS)
    n = v.subtract(moved, WHOLE + BIAS)
    r = v.fma(n, -LN2_LOW, v.fma(n, -LN2_HIGH, inside))
    p = v.polynomial(r, DECAY)
    p = v.add(v.fma(p, v.multiply(r, r), r), 1.0)
    return v.multiply(p, v.from_bits(v.builder.shl(v.bits(moved), v.integer(23))))


def expm1(v: Vectors, x: Any) -> Any:
    """exp(x) - 1, within 1.5 ulp: twice (2^(n - 1) (exp(r) - 1) + 2^(n - 1) - 1 / 2), where 2^n may be too large."""
    bits, r = _whole_part(v, v.bounded(x, -20.0, 89.0), 1.0, offset=-1)
    half = _power_of_two(v, bits)
    grown = v.fma(v.polynomial(r, GROWTH), v.multiply(r, r), r)
    half_result = v.fma(half, grown, v.subtract(half, 0.5))
    return v.select(v.compare("<", v.call("fabs", x), 2.0**-25), x, v.add(half_result, half_result))


HALF_GROWTH = tuple(2.0 ** (5 - i) * c for i, c in enumerate(GROWTH))  # (exp(2 r) - 1 - 2 r) / (2 r^2)


def tanh(v: Vectors, x: Any) -> Any:
    """The hyperbolic tangent, within 2.7 ulp: h / (h + 1), h being (exp(2 |x|) - 1) / 2; 1 from 9.1 on."""
    size = v.at_most(v.call("fabs", x), 9.1)
    bits, r = _whole_part(v, size, 2.0)
    power = _power_of_two(v, bits)
    grown = v.fma(v.polynomial(r, HALF_GROWTH), v.multiply(r, r), r)
    h = v.fma(power, grown, v.fma(power, 0.5, -0.5))
    return v.call("copysign", v.divide(h, v.add(h, 1.0)), x)


ERF_END, ERF_SCALE, ERF_SHIFT = 3.92, 0.5, -1.1
ERF = (
    -0.004189108032733202, -0.005122590344399214, 0.022430328652262688, 0.013308001682162285, -0.06137789413332939,
    0.015727927908301353, 0.0822417214512825, -0.11003761738538742, 0.023133518174290657, 0.12092271447181702,
    -0.20202544331550598, 0.13965582847595215, 0.029973087832331657, -0.2078431397676468, 0.33189675211906433,
    -0.4043424427509308, 0.45369869470596313,
)  # fmt: skip
"""erf(x) / x for x from 0 to ERF_END, as a polynomial in ERF_SCALE x + ERF_SHIFT, whose powers stay small there: least
error in units in the last place of erf(x), 0.26."""


def erf(v: Vectors, x: Any) -> Any:
    """The error function, within 3.1 ulp; 1 from ERF_END on, and nowhere more."""
    size = v.at_most(v.call("fabs", x), ERF_END)
    ratio = v.polynomial(v.fma(size, ERF_SCALE, ERF_SHIFT), ERF)
    return v.call("copysign", v.at_most(v.multiply(ratio, size), 1.0), x)


# Logarithms

ROOT_OF_HALF = 0x3F3504F3  # the bits of sqrt(1/2)


def _log_parts(v: Vectors, x: Any) -> tuple[Any, Any]:
    """e and m with x = (m + 1) 2^e and m + 1 between sqrt(1/2) and sqrt(2), of positive x."""
    tiny, b = v.compare("<", x, MINIMAL), v.builder
    above = b.sub(v.bits(v.select(tiny, v.multiply(x, 2.0**25), x)), v.integer(ROOT_OF_HALF))
    e = v.to_floats(b.ashr(above, v.integer(23)))
    m = v.from_bits(b.add(b.and_(above, v.integer(0x007FFFFF)), v.integer(ROOT_OF_HALF)))
    return v.select(tiny, v.subtract(e, 25.0), e), v.subtract(m, 1.0)


def _log_rest(v: Vectors, m: Any) -> Any:
    """log(1 + m) - m, by the polynomial of Cephes' logf."""
    z = v.multiply(m, m)
    p = v.polynomial(
        m,
        (
            7.0376836292e-2, -1.1514610310e-1, 1.1676998740e-1, -1.2420140846e-1, 1.4249322787e-1,
            -1.6668057665e-1, 2.0000714765e-1, -2.4999993993e-1, 3.3333331174e-1,
        ),
    )  # fmt: skip
    return v.fma(z, -0.5, v.multiply(v.multiply(p, m), z))


def _natural(v: Vectors, e: Any, m: Any) -> Any:
    """log((1 + m) 2^e)."""
    y = v.fma(e, LN2_LOW, _log_rest(v, m))
    return v.fma(e, LN2_HIGH, v.add(m, y))


def _at_limits(v: Vectors, u: Any, logarithm: Any) -> Any:
    """The logarithm `found` of u, with what it is where u is no positive number."""
    logarithm = v.select(v.compare("<", u, INFINITE), logarithm, u)
    return v.select(v.compare(">", u, 0.0), logarithm, v.select(v.compare("==", u, 0.0), -INFINITE, NAN))


def log(v: Vectors, x: Any) -> Any:
    """The natural logarithm, within 0.9 ulp."""
    return _at_limits(v, x, _natural(v, *_log_parts(v, x)))


def log1p(v: Vectors, x: Any) -> Any:
    """log(1 + x), within 1.5 ulp: what 1 + x loses by rounding goes into m."""
    u = v.add(x, 1.0)
    big = v.subtract(u, 1.0)
    lost = v.add(v.subtract(1.0, v.subtract(u, big)), v.subtract(x, big))
    e, m = _log_parts(v, u)
    scale = v.power_of_two(v.builder.sub(v.integer(0), v.to_integers(v.within(e, -126.0, 126.0))))
    logarithm = _natural(v, e, v.fma(lost, scale, m))
    tiny = v.compare("<", v.call("fabs", x), 2.0**-25)
    return v.select(tiny, x, _at_limits(v, u, logarithm))


def log2(v: Vectors, x: Any) -> Any:
    """The logarithm to base 2, within 1.2 ulp."""
    e, m = _log_parts(v, x)
    y = _log_rest(v, m)
    more = v.fma(m, LOG2_E - 1.0, v.multiply(y, LOG2_E - 1.0))
    return _at_limits(v, x, v.add(v.add(v.add(more, y), m), e))


def log10(v: Vectors, x: Any) -> Any:
    """The logarithm to base 10, within 1.0 ulp; log10(e) and log10(2) are taken in two parts."""
    e, m = _log_parts(v, x)
    y = _log_rest(v, m)
    z = v.multiply(v.add(m, y), 7.00731903251827651129e-4)
    z = v.fma(y, 4.3359375e-1, z)
    z = v.fma(m, 4.3359375e-1, z)
    z = v.fma(e, 2.48745663981195213739e-4, z)
    return _at_limits(v, x, v.fma(e, 3.0078125e-1, z))


# In float64 on the way


def _series(*terms: float) -> tuple[float, ...]:
    return terms[::-1]


SINE = _series(*((-1) ** k / factorial(2 * k + 1) for k in range(1, 6)))
COSINE = _series(*((-1) ** k / factorial(2 * k) for k in range(1, 6)))
EXPONENTIAL = _series(*(1 / factorial(k) for k in range(10)))
LOGARITHM = _series(*(2.0 * LOG2_E / (2 * k + 1) for k in range(7)))
FAR = 2.0**48  # beyond it pi / 2 is not known well enough here


def _circular(v: Vectors, x: Any, quarters: int, library: str) -> Any:
    """sin(x + quarters * pi / 2) by Taylor's series about the nearest multiple of pi / 2."""
    d = Doubles(v.builder, v.lanes)
    wide = d.widened(x)
    n = d.call("rint", d.multiply(wide, 1.0 / PI_HALF))
    r = d.fma(n, -PI_HALF, wide)
    r = d.fma(n, -PI_HALF_REST, r)
    z = d.multiply(r, r)
    sine = d.fma(d.multiply(d.polynomial(z, SINE), z), r, r)
    cosine = d.fma(d.polynomial(z, COSINE), z, 1.0)
    n = d.add(n, float(quarters))
    turn = d.subtract(n, d.multiply(d.call("floor", d.multiply(n, 0.25)), 4.0))  # 0, 1, 2 or 3 quarters
    odd = d.either(d.compare("==", turn, 1.0), d.compare("==", turn, 3.0))
    value = d.select(odd, cosine, sine)
    value = d.select(d.compare(">=", turn, 2.0), v.builder.fneg(value), value)
    is_far = v.both(v.compare(">", v.call("fabs", x), FAR), v.compare("<", v.call("fabs", x), INFINITE))
    return call_lanes(v, library, x, is_far, d.rounded(value))


def sin(v: Vectors, x: Any) -> Any:
    """The sine, within 0.6 ulp; of very large numbers by the C library."""
    return v.select(v.compare("==", x, 0.0), x, _circular(v, x, 0, "sin"))


def cos(v: Vectors, x: Any) -> Any:
    """The cosine, within 0.6 ulp; of very large numbers by the C library."""
    return _circular(v, x, 1, "cos")


def _log2_of_size(d: Doubles, x: Any) -> Any:
    """log2 |x| of float32 in float64: 2 artanh((m - 1) / (m + 1)) / ln 2 + e."""
    b = d.builder
    size = d.call("fabs", d.widened(x))
    bits = d.bits(size)
    e = b.sitofp(b.sub(b.lshr(bits, d.integer(52)), d.integer(1023)), d.kind)
    m = d.from_bits(b.or_(b.and_(bits, d.integer((1 << 52) - 1)), d.integer(1023 << 52)))  # [1, 2)
    high = d.compare(">", m, 1.4142135623730951)
    m, e = d.select(high, d.multiply(m, 0.5), m), d.select(high, d.add(e, 1.0), e)
    s = d.divide(d.subtract(m, 1.0), d.add(m, 1.0))
    logarithm = d.fma(d.polynomial(d.multiply(s, s), LOGARITHM), s, e)
    logarithm = d.select(d.compare("==", size, 0.0), -INFINITE, logarithm)
    return d.select(d.compare("==", size, INFINITE), INFINITE, logarithm)


def power(v: Vectors, x: Any, y: Any) -> Any:
    """x to the power y, within 0.51 ulp, with the limits of C's pow."""
    d = Doubles(v.builder, v.lanes)
    is_one = v.compare("==", v.call("fabs", x), 1.0)
    t = d.multiply(_log2_of_size(d, x), d.widened(y))
    t = d.within(d.select(is_one, 0.0, t), -200.0, 200.0)
    n = d.call("rint", t)
    f = d.multiply(d.subtract(t, n), 0.6931471805599453)
    size = d.rounded(d.multiply(d.polynomial(f, EXPONENTIAL), d.power_of_two(n)))
    half = v.multiply(y, 0.5)
    is_whole = v.compare("==", v.call("floor", y), y)
    is_odd = v.both(is_whole, v.compare("!=", v.call("floor", half), half))
    size = v.select(is_odd, v.call("copysign", size, x), size)
    undefined = v.both(v.compare("<", x, 0.0), v.compare(">", x, -INFINITE), v.builder.not_(is_whole))
    size = v.select(v.either(undefined, v.is_nan(x), v.is_nan(y)), NAN, size)
    return v.select(v.either(v.compare("==", y, 0.0), v.compare("==", x, 1.0)), 1.0, size)


def _comparison(sign: str) -> Callable[..., Any]:
    return lambda v, a, b: v.truth(v.compare(sign, a, b))


def _both(name: str) -> Callable[..., Any]:
    return lambda v, a, b: v.truth(getattr(v.builder, name)(v.is_true(a), v.is_true(b)))


BODIES: dict[str, Callable[..., Any]] = {
    "negative": lambda v, x: v.builder.fneg(x),
    "absolute": lambda v, x: v.call("fabs", x),
    "square": lambda v, x: v.multiply(x, x),
    "sqrt": lambda v, x: v.call("sqrt", x),
    "reciprocal": lambda v, x: v.divide(1.0, x),
    "floor": lambda v, x: v.call("floor", x),
    "ceil": lambda v, x: v.call("ceil", x),
    "trunc": lambda v, x: v.call("trunc", x),
    "rint": lambda v, x: v.call("rint", x),
    "sign": sign,
    "logical_not": lambda v, x: v.truth(v.compare("==", x, 0.0)),
    "isnan": lambda v, x: v.truth(v.is_nan(x)),
    "isinf": lambda v, x: v.truth(v.compare("==", v.call("fabs", x), INFINITE)),
    "isfinite": lambda v, x: v.truth(v.compare("<", v.call("fabs", x), INFINITE)),
    "add": Vectors.add,
    "subtract": Vectors.subtract,
    "multiply": Vectors.multiply,
    "divide": Vectors.divide,
    "maximum": maximum,
    "minimum": minimum,
    "copysign": lambda v, a, b: v.call("copysign", a, b),
    "greater": _comparison(">"),
    "greater_equal": _comparison(">="),
    "less": _comparison("<"),
    "less_equal": _comparison("<="),
    "equal": _comparison("=="),
    "not_equal": _comparison("!="),
    "logical_and": _both("and_"),
    "logical_or": _both("or_"),
    "logical_xor": _both("xor"),
    "select": lambda v, mask, a, b: v.select(v.is_true(mask), a, b),
    "exp": exp,
    "expm1": expm1,
    "log": log,
    "log1p": log1p,
    "log2": log2,
    "log10": log10,
    "tanh": tanh,
    "erf": erf,
    "sin": sin,
    "cos": cos,
    "power": power,
}
