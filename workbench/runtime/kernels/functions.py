"""The functions of vector code, of float32 and of float64. Errors are in units in the last place (ulp) of float32, over
all magnitudes; those of float64 are below 4.
"""

from __future__ import annotations

from collections.abc import Callable
from math import factorial
from typing import Any, NamedTuple

from workbench.framework.expr.erf import erf_formula
from workbench.runtime.kernels.vectors import Doubles, Vectors, call_lanes, call_some_lanes
from workbench.runtime.words.opcodes import NAMES

LOG2_E = 1.44269504088896341
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


class NumberFormat(NamedTuple):
    """What the functions have to know of a kind of numbers.

    Attributes:
        fraction: bits behind the point. bias: of exponents. least: the least normal number.
        whole: added to a small number it rounds it to a whole one, which is then in the last bits of the sum.
        ln2, log10_e, log10_2: in two parts, of which the first has few bits.
        tiny: below it exp(x) - 1 and log(1 + x) are x.
        underflow, overflow: exp(x) is 0 up to the one, infinite from the other on.
        flat: tanh is 1 from there on. growth: (exp(r) - 1 - r) / r^2 for r between -0.35 and 0.35.
        root_of_half: the bits of sqrt(1/2).
    """

    fraction: int
    bias: int
    least: float
    ln2: tuple[float, float]
    log10_e: tuple[float, float]
    log10_2: tuple[float, float]
    tiny: float
    underflow: float
    overflow: float
    flat: float
    growth: tuple[float, ...]
    root_of_half: int

    @property
    def whole(self) -> float:
        return 1.5 * 2**self.fraction


SINGLE = NumberFormat(
    fraction=23, bias=127, least=1.17549435e-38,
    ln2=(0.693359375, -2.12194440e-4),
    log10_e=(4.3359375e-1, 7.00731903251827651129e-4),
    log10_2=(3.0078125e-1, 2.48745663981195213739e-4),
    tiny=2.0**-25, underflow=-104.0, overflow=89.0, flat=9.1,
    growth=(0.0013820689637213945, 0.008368675597012043, 0.04166826605796814, 0.1666652113199234, 0.4999999403953552),
    root_of_half=0x3F3504F3,
)  # fmt: skip
"""Growth has the least relative error of exp(r), 2^-28."""

DOUBLE = NumberFormat(
    fraction=52, bias=1023, least=2.2250738585072014e-308,
    ln2=(6.93147180369123816490e-01, 1.90821492927058770002e-10),
    log10_e=(4.34294481878168880939e-01, 2.50829467116452752298e-11),
    log10_2=(3.01029995663611771306e-01, 3.69423907715893078616e-13),
    tiny=2.0**-54, underflow=-746.0, overflow=710.0, flat=20.0,
    growth=tuple(1 / factorial(k) for k in range(14, 1, -1)),
    root_of_half=0x3FE6A09E667F3BCD,
)  # fmt: skip


def _format(v: Any) -> NumberFormat:
    return DOUBLE if v.item == Doubles.item else SINGLE


# Rounding to shorter numbers: what comes out has the value of one


def to_float32(v: Any, x: Any) -> Any:
    """The nearest float32 of a float64."""
    return v.widened(v.rounded(x)) if v.item == Doubles.item else x


def to_bfloat16(v: Vectors, x: Any) -> Any:
    """The nearest bfloat16, of two the even one; NaN is quiet and has its sign."""
    b, bits = v.builder, v.bits(x)
    odd = b.and_(b.lshr(bits, v.integer(16)), v.integer(1))
    nearest = b.and_(b.add(b.add(bits, v.integer(0x7FFF)), odd), v.integer(-0x10000))
    quiet = b.or_(b.and_(bits, v.integer(-(1 << 31))), v.integer(0x7FC00000))
    return v.select(v.is_nan(x), v.from_bits(quiet), v.from_bits(nearest))


def to_float16(v: Vectors, x: Any) -> Any:
    """The nearest float16, of two the even one; infinity from 65520 on.

    Adding 1/2 moves what is below the least normal number, 2^-14, to where the last bit counts 2^-24.
    """
    b, size = v.builder, v.call("fabs", x)
    bits = v.bits(size)
    odd = b.and_(b.lshr(bits, v.integer(13)), v.integer(1))
    nearest = v.from_bits(b.and_(b.add(b.add(bits, v.integer(0xFFF)), odd), v.integer(-0x2000)))
    small = v.subtract(v.add(size, 0.5), 0.5)
    rounded = v.select(v.compare("<", size, 2.0**-14), small, nearest)
    rounded = v.select(v.compare(">=", size, 65520.0), INFINITE, rounded)
    return v.call("copysign", v.select(v.is_nan(x), x, rounded), x)


# Exponentials


def _whole_part(v: Vectors, x: Any, per_whole: float, offset: int = 0) -> tuple[Any, Any]:
    """x / ln 2, each x counting `per_whole` times, as a whole number n and the rest.

    Returns: integers whose last bits are n + offset + BIAS, so that moved into the exponent they are 2^(n + offset);
        and x less n ln 2 / per_whole.
    """
    p = _format(v)
    sum_of = p.whole + p.bias + offset
    moved = v.fma(x, LOG2_E * per_whole, sum_of)
    n = v.subtract(moved, sum_of)
    high, low = p.ln2
    return v.bits(moved), v.fma(n, -low / per_whole, v.fma(n, -high / per_whole, x))


def _power_of_two(v: Vectors, bits: Any) -> Any:
    """Of what `_whole_part` gives."""
    return v.from_bits(v.builder.shl(bits, v.integer(_format(v).fraction)))


def exp(v: Vectors, x: Any) -> Any:
    """e to the power x, within 0.9 ulp; underflows gradually, since 2^n is multiplied by in two parts."""
    p = _format(v)
    x = v.bounded(x, p.underflow, p.overflow)
    bits, r = _whole_part(v, x, 1.0)
    half = v.bits(v.fma(x, LOG2_E / 2, p.whole + p.bias))
    rest = v.builder.add(v.builder.sub(bits, half), v.integer(p.bias))
    grown = v.multiply(v.polynomial(r, (*p.growth, 1.0, 1.0)), _power_of_two(v, half))
    return v.multiply(grown, _power_of_two(v, rest))


DECAY = (1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1)


def decay(v: Vectors, x: Any) -> Any:
    """e to the power x for x <= 0, within 1.1 ulp; NaN of NaN. Of float32 it is 0 below the least normal number."""
    if v.item == Doubles.item:
        return exp(v, x)
    bits, r = _whole_part(v, v.select(v.compare("<", x, -88.0), -88.0, x), 1.0)
    p = v.polynomial(r, DECAY)
    p = v.add(v.fma(p, v.multiply(r, r), r), 1.0)
    return v.multiply(p, _power_of_two(v, bits))


def expm1(v: Vectors, x: Any) -> Any:
    """exp(x) - 1, within 1.5 ulp: twice (2^(n - 1) (exp(r) - 1) + 2^(n - 1) - 1 / 2), where 2^n may be too large."""
    p = _format(v)
    bits, r = _whole_part(v, v.bounded(x, -40.0, p.overflow), 1.0, offset=-1)
    half = _power_of_two(v, bits)
    grown = v.fma(v.polynomial(r, p.growth), v.multiply(r, r), r)
    half_result = v.fma(half, grown, v.subtract(half, 0.5))
    return v.select(v.compare("<", v.call("fabs", x), p.tiny), x, v.add(half_result, half_result))


def tanh(v: Vectors, x: Any) -> Any:
    """The hyperbolic tangent, within 2.7 ulp: h / (h + 1), h being (exp(2 |x|) - 1) / 2; 1 from some number on."""
    p = _format(v)
    size = v.at_most(v.call("fabs", x), p.flat)
    bits, r = _whole_part(v, size, 2.0)
    power = _power_of_two(v, bits)
    half_growth = [2.0 ** (len(p.growth) - i) * c for i, c in enumerate(p.growth)]  # (exp(2 r) - 1 - 2 r) / (2 r^2)
    grown = v.fma(v.polynomial(r, half_growth), v.multiply(r, r), r)
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
    """The error function, within 3.1 ulp; 1 from ERF_END on, and nowhere more. Of float64 by Cody's fractions."""
    if v.item == Doubles.item:
        given = _Computed(v, x)
        return erf_formula(given, given).x
    size = v.at_most(v.call("fabs", x), ERF_END)
    ratio = v.polynomial(v.fma(size, ERF_SCALE, ERF_SHIFT), ERF)
    return v.call("copysign", v.at_most(v.multiply(ratio, size), 1.0), x)


class _Computed:
    """A vector with Python's operators, and the functions of vectors as an `xp`: for formulas written for arrays."""

    def __init__(self, v: Any, x: Any) -> None:
        self.v, self.x = v, x

    def __getattr__(self, name: str) -> Any:
        def call(*operands: Any) -> _Computed:
            given = [self.v.number(o.x if isinstance(o, _Computed) else o) for o in operands]
            return _Computed(self.v, BODIES[NAMES.get(name, name)](self.v, *given))

        return call

    def __neg__(self) -> _Computed:
        return self.negative(self)

    def __add__(self, other: Any) -> _Computed:
        return self.add(self, other)

    def __rsub__(self, other: Any) -> _Computed:
        return self.subtract(other, self)

    def __mul__(self, other: Any) -> _Computed:
        return self.multiply(self, other)

    def __rmul__(self, other: Any) -> _Computed:
        return self.multiply(other, self)

    def __truediv__(self, other: Any) -> _Computed:
        return self.divide(self, other)

    def __le__(self, other: Any) -> _Computed:
        return self.less_equal(self, other)


# Logarithms


def _log_parts(v: Vectors, x: Any) -> tuple[Any, Any]:
    """e and m with x = (m + 1) 2^e and m + 1 between sqrt(1/2) and sqrt(2), of positive x."""
    p, b = _format(v), v.builder
    tiny, more = v.compare("<", x, p.least), p.fraction + 2
    above = b.sub(v.bits(v.select(tiny, v.multiply(x, 2.0**more), x)), v.integer(p.root_of_half))
    e = v.to_floats(b.ashr(above, v.integer(p.fraction)))
    m = v.from_bits(b.add(b.and_(above, v.integer((1 << p.fraction) - 1)), v.integer(p.root_of_half)))
    return v.select(tiny, v.subtract(e, float(more)), e), v.subtract(m, 1.0)


LOG_SERIES = (
    1.479819860511658591e-01, 1.531383769920937332e-01, 1.818357216161805012e-01, 2.222219843214978396e-01,
    2.857142874366239149e-01, 3.999999999940941908e-01, 6.666666666666735130e-01,
)  # fmt: skip
"""(log(1 + m) - 2 s) / s as a polynomial in s^2, s being m / (2 + m): that of fdlibm's log."""


def _log_rest(v: Vectors, m: Any) -> Any:
    """log(1 + m) - m, by the polynomial of Cephes' logf, of float64 by that of fdlibm's log."""
    z = v.multiply(m, m)
    if v.item == Doubles.item:
        s = v.divide(m, v.add(m, 2.0))
        q, half = v.multiply(s, s), v.multiply(z, 0.5)
        return v.fma(s, v.fma(q, v.polynomial(q, LOG_SERIES), half), v.builder.fneg(half))
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
    high, low = _format(v).ln2
    y = v.fma(e, low, _log_rest(v, m))
    return v.fma(e, high, v.add(m, y))


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
    p = _format(v)
    most = float(p.bias - 1)
    scale = _power_of_two(v, v.builder.sub(v.integer(p.bias), v.to_integers(v.within(e, -most, most))))
    logarithm = _natural(v, e, v.fma(lost, scale, m))
    tiny = v.compare("<", v.call("fabs", x), p.tiny)
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
    (high, low), (of_two, of_two_low) = _format(v).log10_e, _format(v).log10_2
    z = v.multiply(v.add(m, y), low)
    z = v.fma(y, high, z)
    z = v.fma(m, high, z)
    z = v.fma(e, of_two_low, z)
    return _at_limits(v, x, v.fma(e, of_two, z))


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
    return call_some_lanes(v, library, x, is_far, d.rounded(value))


def sin(v: Vectors, x: Any) -> Any:
    """The sine, within 0.6 ulp; of very large numbers, and of float64, by the C library."""
    if v.item == Doubles.item:
        return call_lanes(v, "sin", [x])
    return v.select(v.compare("==", x, 0.0), x, _circular(v, x, 0, "sin"))


def cos(v: Vectors, x: Any) -> Any:
    """The cosine, within 0.6 ulp; of very large numbers, and of float64, by the C library."""
    if v.item == Doubles.item:
        return call_lanes(v, "cos", [x])
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
    """x to the power y, within 0.51 ulp, with the limits of C's pow; of float64 by the C library."""
    if v.item == Doubles.item:
        return call_lanes(v, "pow", [x, y])
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
    "to_bfloat16": to_bfloat16,
    "to_float16": to_float16,
    "to_float32": to_float32,
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
