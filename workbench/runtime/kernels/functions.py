"""The functions of vector code. Errors are in units in the last place of float32, measured over all magnitudes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from workbench.runtime.kernels.vectors import Vectors

LOG2_E = 1.44269504088896341
LN2_HIGH, LN2_LOW = 0.693359375, -2.12194440e-4  # their sum is ln 2; the first has few bits
MINIMAL = 1.17549435e-38  # the least normal number


def maximum(v: Vectors, a: Any, b: Any) -> Any:
    """The larger; NaN if one is."""
    return v.select(v.is_nan(a), a, v.select(v.compare(">", a, b), a, b))


def minimum(v: Vectors, a: Any, b: Any) -> Any:
    """The smaller; NaN if one is."""
    return v.select(v.is_nan(a), a, v.select(v.compare("<", a, b), a, b))


def exp(v: Vectors, x: Any) -> Any:
    """e to the power x, within 1.1 ulp; underflows gradually."""
    inside = v.select(v.compare("<", x, 89.0), x, 89.0)
    inside = v.select(v.compare(">", inside, -104.0), inside, -104.0)
    n = v.call("rint", v.multiply(inside, LOG2_E))
    r = v.fma(n, -LN2_HIGH, inside)
    r = v.fma(n, -LN2_LOW, r)
    p = v.polynomial(
        r, (1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1)
    )
    p = v.add(v.fma(p, v.multiply(r, r), r), 1.0)
    number = v.to_integers(n)
    half = v.builder.ashr(number, v.integer(1))
    for part in (half, v.builder.sub(number, half)):
        p = v.multiply(p, v.floats(v.builder.shl(v.builder.add(part, v.integer(127)), v.integer(23))))
    return v.select(v.is_nan(x), x, p)


def log(v: Vectors, x: Any) -> Any:
    """The natural logarithm, within 1 ulp (polynomial of Cephes' logf)."""
    tiny = v.compare("<", x, MINIMAL)
    scaled = v.select(tiny, v.multiply(x, 2.0**25), x)
    bits = v.bits(scaled)
    exponent = v.builder.sub(v.builder.ashr(bits, v.integer(23)), v.integer(126))
    m = v.floats(v.builder.or_(v.builder.and_(bits, v.integer(0x007FFFFF)), v.integer(0x3F000000)))  # [0.5, 1)
    e = v.subtract(v.to_floats(exponent), v.select(tiny, 25.0, 0.0))
    low = v.compare("<", m, 0.70710678)
    e = v.subtract(e, v.select(low, 1.0, 0.0))
    m = v.subtract(v.select(low, v.add(m, m), m), 1.0)
    z = v.multiply(m, m)
    p = v.polynomial(
        m,
        (
            7.0376836292e-2, -1.1514610310e-1, 1.1676998740e-1, -1.2420140846e-1, 1.4249322787e-1,
            -1.6668057665e-1, 2.0000714765e-1, -2.4999993993e-1, 3.3333331174e-1,
        ),
    )  # fmt: skip
    y = v.multiply(v.multiply(p, m), z)
    y = v.fma(e, LN2_LOW, y)
    y = v.fma(z, -0.5, y)
    found = v.fma(e, LN2_HIGH, v.add(m, y))
    found = v.select(v.compare("==", x, 0.0), float("-inf"), found)
    found = v.select(v.compare("==", x, float("inf")), x, found)
    negative = v.compare("<", x, 0.0)
    return v.select(v.builder.or_(negative, v.is_nan(x)), float("nan"), found)


def tanh(v: Vectors, x: Any) -> Any:
    """The hyperbolic tangent: a polynomial near 0 (Cephes' tanhf), 1 - 2 / (exp(2|x|) + 1) elsewhere."""
    size = v.call("fabs", x)
    z = v.multiply(x, x)
    near = v.polynomial(
        z, (-5.70498872745e-3, 2.06390887954e-2, -5.37397155531e-2, 1.33314422036e-1, -3.33332819422e-1)
    )
    near = v.fma(v.multiply(near, z), x, x)
    far = v.subtract(1.0, v.divide(2.0, v.add(exp(v, v.add(size, size)), 1.0)))
    far = v.call("copysign", far, x)
    return v.select(v.compare("<", size, 0.625), near, far)


def erf(v: Vectors, x: Any) -> Any:
    """The error function: an odd polynomial below 1, 1 - exp(-polynomial) above; within 2.5 ulp."""
    size = v.call("fabs", x)
    t = v.select(v.compare("<", size, 4.0), size, 4.0)
    u = v.multiply(t, t)
    near = v.polynomial(
        u,
        (
            7.88911211e-05, -0.000802083906, 0.00518953509, -0.0268544445, 0.112836002, -0.376126271, 1.12837917,
        ),
    )  # fmt: skip
    q = v.polynomial(
        t, (-0.000210185268, 0.00318314261, -0.0227861648, 0.105096788, 0.635846311, 1.1284756)
    )  # fmt: skip
    far = v.call("copysign", v.subtract(1.0, exp(v, v.multiply(v.multiply(q, t), -1.0))), x)
    found = v.select(v.compare("<", u, 1.0), v.multiply(near, x), far)
    return v.select(v.is_nan(x), x, found)


def sign(v: Vectors, x: Any) -> Any:
    """-1, 0 or 1; NaN of NaN."""
    one = v.select(v.compare(">", x, 0.0), 1.0, v.select(v.compare("<", x, 0.0), -1.0, 0.0))
    return v.select(v.is_nan(x), x, one)


def _comparison(sign: str) -> Callable[..., Any]:
    return lambda v, a, b: v.truth(v.compare(sign, a, b))


def _both(name: str) -> Callable[..., Any]:
    return lambda v, a, b: v.truth(getattr(v.builder, name)(v.is_true(a), v.is_true(b)))


BODIES: dict[str, Callable[..., Any]] = {
    "copy": lambda v, x: x,
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
    "exp": exp,
    "log": log,
    "tanh": tanh,
    "erf": erf,
    "logical_not": lambda v, x: v.truth(v.compare("==", x, 0.0)),
    "add": Vectors.add,
    "subtract": Vectors.subtract,
    "multiply": Vectors.multiply,
    "divide": Vectors.divide,
    "maximum": maximum,
    "minimum": minimum,
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
}
ARGUMENTS = {name: 3 if name == "select" else 2 for name in BODIES}
ARGUMENTS |= dict.fromkeys(list(BODIES)[: list(BODIES).index("add")], 1)
