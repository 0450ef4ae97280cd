"""Single instructions against exact arithmetic: whole numbers of Python, fractions rounded once, NumPy in float64."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from workbench.cuda.simulated.memory import AddressSpace
from workbench.cuda.simulated.ptx import launch, parse
from workbench.cuda.simulated.ptx.module import BITS, DTYPES, WIDTHS

REGISTER = {"pred": "pred", 1: "b16", 2: "b16", 4: "b32", 8: "b64"}


def execute(body: str, into: str, **given: tuple[str, np.ndarray]) -> np.ndarray:
    """Run instructions for each element: `%a`, `%b`, … hold the inputs, `%d` is the result of type `into`."""
    size = len(next(iter(given.values()))[1])
    lines = [".reg .b64 %base, %at, %thread; .reg .b32 %tid; .reg .pred %p, %q; .reg .b32 %t, %u; .reg .b64 %w;"]
    lines += ["mov.u32 %tid, %tid.x;", "cvt.u64.u32 %thread, %tid;"]
    parameters = [*given, "d"]
    for name, (kind, _) in given.items():
        lines += [f".reg .{REGISTER[WIDTHS[kind]]} %{name};", *_at(name, WIDTHS[kind])]
        lines += [f"ld.global.b{8 * WIDTHS[kind]} %{name}, [%at];"]
    lines += [f".reg .{REGISTER[WIDTHS[into]]} %d;", body, *_at("d", WIDTHS[into])]
    lines += [f"st.global.b{8 * WIDTHS[into]} [%at], %d;", "ret;"]
    head = ", ".join(f".param .u64 p_{name}" for name in parameters)
    entry = parse(f".visible .entry k({head}) {{ {' '.join(lines)} }}")["k"]
    memory = AddressSpace(1 << 24)
    args = []
    for kind, values in given.values():
        bits = np.ascontiguousarray(values).view(BITS[WIDTHS[kind]])
        args.append(memory.allocate(bits.nbytes))
        memory.write(args[-1], bits)
    args.append(memory.allocate(size * WIDTHS[into]))
    launch(entry, memory, (1,), (size,), args)
    result = np.frombuffer(memory.read(args[-1], size * WIDTHS[into]), BITS[WIDTHS[into]])
    return result.view(DTYPES.get(into, BITS[WIDTHS[into]]))


def _at(name: str, width: int) -> list[str]:
    return [f"ld.param.u64 %base, [p_{name}];", f"mad.lo.s64 %at, %thread, {width}, %base;"]


# ----------------------------------------------------------------------------------------------- exact references


FORMATS = {"f16": (11, -14, 15), "bf16": (8, -126, 127), "f32": (24, -126, 127), "f64": (53, -1022, 1023)}
"""Digits of the significand, smallest and largest exponent."""


def round_fraction(exact: Fraction, kind: str, mode: str) -> float:
    """Round to a format by the definition of IEEE 754; a result of zero is not signed."""
    digits, least, most = FORMATS[kind]
    if exact == 0:
        return 0.0
    size, negative = abs(exact), exact < 0
    exponent = size.numerator.bit_length() - size.denominator.bit_length()
    if Fraction(2) ** exponent > size:
        exponent -= 1
    unit = Fraction(2) ** (max(exponent, least) - digits + 1)
    whole, rest = divmod(size, unit)
    up = {
        "rn": rest * 2 > unit or (rest * 2 == unit and whole % 2 == 1),
        "rz": False,
        "rm": negative and rest > 0,
        "rp": not negative and rest > 0,
    }[mode]
    value = (whole + up) * unit
    if value >= Fraction(2) ** (most + 1):
        largest = float((Fraction(2) - Fraction(2) ** (1 - digits)) * Fraction(2) ** most)
        outward = mode == "rn" or (mode == "rm" and negative) or (mode == "rp" and not negative)
        return (-1 if negative else 1) * (np.inf if outward else largest)
    return -float(value) if negative else float(value)


def as_float(kind: str, bits: np.ndarray) -> np.ndarray:
    if kind == "bf16":
        return (bits.view(np.uint16).astype(np.uint32) << 16).view(np.float32).astype(np.float64)
    return bits.view(DTYPES[kind]).astype(np.float64)


def operands(kind: str, seed: int, count: int = 400) -> np.ndarray:
    """Finite numbers of a format as its bits: of like size, far apart, denormal, with few digits."""
    rng = np.random.default_rng(seed)
    digits, least, most = FORMATS[kind]
    exponent = np.where(rng.random(count) < 0.5, rng.integers(-3, 4, count), rng.integers(least - 6, most // 2, count))
    value = np.ldexp(rng.integers(1, 1 << min(digits, 30), count).astype(np.float64), exponent - min(digits, 30))
    value *= rng.choice([-1.0, 1.0], count)
    value[rng.random(count) < 0.05] = 0
    if kind == "bf16":
        return (value.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
    return value.astype(DTYPES[kind]).view(BITS[WIDTHS[kind]])


def assert_same_numbers(kind: str, result: np.ndarray, wanted: list[float], what: str) -> None:
    values = as_float(kind, result)
    wrong = np.flatnonzero(values != np.array(wanted))
    assert not wrong.size, (
        f"{what}: {wrong.size} differ, number {wrong[0]}: {values[wrong[0]]!r}, not {wanted[wrong[0]]!r}"
    )


EXACT: dict[str, Callable[..., Fraction]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": lambda a, b: a / b,
    "fma": lambda a, b, c: a * b + c,
}
ROUNDINGS = [
    (f"{name}.{mode}", kind)
    for name in ("add", "sub", "mul", "fma", "div")
    for kind in ("f16", "bf16", "f32", "f64")
    for mode in ("rn", "rz", "rm", "rp")
    if (WIDTHS[kind] > 2 or (mode == "rn" and name != "div"))
    if (name, kind, mode != "rn") != ("div", "f64", True)
]


@pytest.mark.parametrize(("opcode", "kind"), ROUNDINGS)
def test_arithmetic_rounds_once(opcode: str, kind: str) -> None:
    name, mode = opcode.split(".")
    count = 3 if name == "fma" else 2
    given = {letter: (kind, operands(kind, at)) for at, letter in enumerate("abc"[:count])}
    if name == "div":
        given["b"] = (kind, np.where(as_float(kind, given["b"][1]) == 0, operands(kind, 9), given["b"][1]))
        given["b"][1][as_float(kind, given["b"][1]) == 0] = given["b"][1][0]
    result = execute(f"{opcode}.{kind} %d, {', '.join('%' + letter for letter in given)};", kind, **given)
    columns = [[Fraction(float(v)) for v in as_float(kind, bits)] for _, bits in given.values()]
    wanted = [round_fraction(EXACT[name](*row), kind, mode) for row in zip(*columns)]
    assert_same_numbers(kind, result, wanted, opcode)


def test_fused_products_of_near_opposites_keep_every_bit() -> None:
    rng = np.random.default_rng(0)
    for kind in ("f32", "f64"):
        a, b = (rng.standard_normal(400).astype(DTYPES[kind]) for _ in "ab")
        c = -(a * b)
        result = execute(f"fma.rn.{kind} %d, %a, %b, %c;", kind, a=(kind, a), b=(kind, b), c=(kind, c))
        wanted = [
            round_fraction(Fraction(float(x)) * Fraction(float(y)) + Fraction(float(z)), kind, "rn")
            for x, y, z in zip(a, b, c)
        ]
        assert_same_numbers(kind, result, wanted, kind)


@pytest.mark.parametrize("mode", ["rn", "rz", "rm", "rp"])
@pytest.mark.parametrize(
    ("into", "source"), [("f32", "f64"), ("f16", "f32"), ("bf16", "f32"), ("f16", "f64"), ("f32", "f32")]
)
def test_conversions_between_floats_round_once(into: str, source: str, mode: str) -> None:
    if into == source:
        values = np.array([0.5, 1.5, 2.5, -0.5, -1.5, 1e9, 0.49999997, -0.7, 8388607.5], np.float32)
        result = execute(f"cvt.{mode}i.f32.f32 %d, %a;", "f32", a=("f32", values))
        wanted = {"rn": np.rint, "rz": np.trunc, "rm": np.floor, "rp": np.ceil}[mode](values)
        np.testing.assert_array_equal(result, wanted)
        return
    if WIDTHS[into] == 2 and mode in ("rm", "rp"):
        pytest.skip("PTX has no such conversion")
    bits = operands(source, 4)
    result = execute(f"cvt.{mode}.{into}.{source} %d, %a;", into, a=(source, bits))
    wanted = [round_fraction(Fraction(float(v)), into, mode) for v in as_float(source, bits)]
    assert_same_numbers(into, result, wanted, f"{into} from {source}")


@pytest.mark.parametrize("mode", ["rn", "rz", "rm", "rp"])
@pytest.mark.parametrize(
    ("into", "source"), [("f32", "s64"), ("f32", "u64"), ("f64", "s64"), ("f64", "u64"), ("f32", "u32"), ("f16", "s32")]
)
def test_whole_numbers_become_floats_with_one_rounding(into: str, source: str, mode: str) -> None:
    rng = np.random.default_rng(1)
    info = np.iinfo(DTYPES[source])
    values = rng.integers(info.min, info.max, 400, DTYPES[source], endpoint=True)
    values >>= rng.integers(0, 8 * WIDTHS[source] - 1, 400).astype(DTYPES[source])
    values[:3] = info.min, info.max, info.max - 1
    result = execute(f"cvt.{mode}.{into}.{source} %d, %a;", into, a=(source, values))
    assert_same_numbers(into, result, [round_fraction(Fraction(int(v)), into, mode) for v in values], into)


@pytest.mark.parametrize("into", ["s8", "u8", "s16", "u16", "s32", "u32", "s64", "u64"])
@pytest.mark.parametrize("source", ["f32", "f64", "f16"])
def test_floats_become_whole_numbers_within_bounds(into: str, source: str) -> None:
    values = np.array([0.5, 1.5, -2.5, 300, -300, 7e4, -7e4, 5e9, -5e9, 3e19, -3e19, np.inf, -np.inf, np.nan, 0.9])
    with np.errstate(over="ignore"):
        values = values.astype(DTYPES[source])
    info = np.iinfo(DTYPES[into])
    for mode, rounding in {"rni": np.rint, "rzi": np.trunc, "rmi": np.floor, "rpi": np.ceil}.items():
        result = execute(f"cvt.{mode}.{into}.{source} %d, %a;", into, a=(source, values))
        wanted = [
            0
            if np.isnan(v)
            else int(min(max(rounding(float(v)), info.min), info.max))
            if np.isfinite(v)
            else (info.max if v > 0 else info.min)
            for v in values
        ]
        assert [int(v) for v in result] == [min(max(w, info.min), info.max) for w in wanted]


WHOLE: dict[str, Callable[..., int]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul.lo": lambda a, b: a * b,
    "min": min,
    "max": max,
    "div": lambda a, b: (abs(a) // abs(b)) * (1 if (a < 0) == (b < 0) else -1),
    "rem": lambda a, b: (abs(a) % abs(b)) * (-1 if a < 0 else 1),
}


@pytest.mark.parametrize("kind", ["s16", "u16", "s32", "u32", "s64", "u64"])
@pytest.mark.parametrize("name", [*WHOLE, "mul.hi", "mul.wide", "mad.lo", "mad.hi", "mad.wide"])
def test_whole_arithmetic(name: str, kind: str) -> None:
    bits = 8 * WIDTHS[kind]
    if "wide" in name and bits == 64:
        pytest.skip("PTX has no such product")
    into = f"{kind[0]}{2 * bits}" if "wide" in name else kind
    a, b = whole_operands(kind, 1), whole_operands(kind, 2)
    b[b == 0] = 3
    c = whole_operands(into, 3)
    given = {"a": (kind, a), "b": (kind, b)} | ({"c": (into, c)} if name.startswith("mad") else {})
    result = execute(f"{name}.{kind} %d, {', '.join('%' + letter for letter in given)};", into, **given)
    for at, row in enumerate(zip(a.tolist(), b.tolist(), c.tolist())):
        x, y, z = row
        product = x * y >> bits if "hi" in name else x * y
        exact = product + z if name.startswith("mad") else product if "." in name else WHOLE[name](x, y)
        assert int(result[at]) == wrapped(exact, into), (name, kind, row)


def whole_operands(kind: str, seed: int, count: int = 300) -> np.ndarray:
    rng = np.random.default_rng(seed)
    info = np.iinfo(DTYPES[kind])
    values = rng.integers(info.min, info.max, count, DTYPES[kind], endpoint=True)
    values >>= rng.integers(0, 8 * WIDTHS[kind], count).astype(DTYPES[kind])
    values[:4] = info.min, info.max, 1, 0
    return values


def wrapped(value: int, kind: str) -> int:
    bits = 8 * WIDTHS[kind]
    value &= (1 << bits) - 1
    return value - (1 << bits) if kind[0] == "s" and value >> (bits - 1) else value


def test_division_by_zero_is_all_ones() -> None:
    a, zero = np.array([7, 0, 9], np.uint32), np.zeros(3, np.uint32)
    given = {"a": ("u32", a), "b": ("u32", zero)}
    assert execute("div.u32 %d, %a, %b;", "u32", **given).tolist() == [2**32 - 1] * 3


@pytest.mark.parametrize("kind", ["b32", "b64", "s32", "s64", "u32", "u64"])
def test_shifts_beyond_the_width(kind: str) -> None:
    a = whole_operands(kind, 1)
    by = np.random.default_rng(2).integers(0, 80, a.size).astype(np.uint32)
    given = {"a": (kind, a), "b": ("u32", by)}
    bits = 8 * WIDTHS[kind]
    if kind[0] == "b":
        result = execute(f"shl.{kind} %d, %a, %b;", kind, **given)
        assert result.tolist() == [(int(v) << int(n)) & ((1 << bits) - 1) for v, n in zip(a, by)]
    else:
        result = execute(f"shr.{kind} %d, %a, %b;", kind, **given)
        assert result.tolist() == [int(v) >> int(n) for v, n in zip(a, by)]


def bit_fields(a: int, start: int, count: int, bits: int, signed: bool) -> int:
    """`bfe` by its definition in the manual, bit by bit."""
    last = min(start + count - 1, bits - 1)
    sign = 0 if not signed or count == 0 else a >> last & 1
    result = 0
    for at in range(bits):
        bit = a >> (at + start) & 1 if at < count and at + start < bits else sign
        result |= bit << at
    return result


@pytest.mark.parametrize("kind", ["u32", "s32", "u64", "s64"])
def test_bit_fields(kind: str) -> None:
    rng = np.random.default_rng(0)
    bits = 8 * WIDTHS[kind]
    a = (
        rng.integers(0, 1 << bits, 400, np.uint64 if bits == 64 else np.uint32)
        if bits < 64
        else rng.integers(0, 2**64 - 1, 400, np.uint64)
    )
    start, count = (rng.integers(0, bits + 8, 400).astype(np.uint32) for _ in "ab")
    result = execute(f"bfe.{kind} %d, %a, %b, %c;", f"u{bits}", a=(kind, a), b=("u32", start), c=("u32", count))
    wanted = [bit_fields(int(v), int(s), int(n), bits, kind[0] == "s") for v, s, n in zip(a, start, count)]
    assert result.tolist() == wanted
    result = execute(
        f"bfi.b{bits} %d, %a, %e, %b, %c;",
        f"u{bits}",
        a=(kind, a),
        b=("u32", start),
        c=("u32", count),
        e=(kind, a[::-1].copy()),
    )
    for at in range(400):
        field = ((1 << int(count[at])) - 1) << int(start[at]) & ((1 << bits) - 1)
        low = int(a[::-1][at]) & ~field
        assert int(result[at]) == low | (int(a[at]) << int(start[at]) & field)


BITWISE: list[tuple[str, str, Callable[..., int]]] = [
    ("popc.b32 %d, %a;", "u32", lambda a, b: a.bit_count()),
    ("clz.b32 %d, %a;", "u32", lambda a, b: 32 - a.bit_length()),
    ("brev.b32 %d, %a;", "u32", lambda a, b: int(f"{a:032b}"[::-1], 2)),
    ("bfind.u32 %d, %a;", "u32", lambda a, b: (a.bit_length() - 1) % 2**32),
    ("bfind.shiftamt.u32 %d, %a;", "u32", lambda a, b: (32 - a.bit_length()) if a else 2**32 - 1),
    ("lop3.b32 %d, %a, %b, 15, 0xCA;", "u32", lambda a, b: (a & b) | (~a & 15)),
    ("not.b32 %d, %a;", "u32", lambda a, b: ~a & 0xFFFFFFFF),
    ("cnot.b32 %d, %a;", "u32", lambda a, b: int(a == 0)),
    ("shf.l.wrap.b32 %d, %a, %b, 7;", "u32", lambda a, b: ((b << 32 | a) << 7 >> 32) & 0xFFFFFFFF),
    ("shf.r.clamp.b32 %d, %a, %b, 40;", "u32", lambda a, b: b),
    ("shf.r.wrap.b32 %d, %a, %b, 40;", "u32", lambda a, b: (b << 32 | a) >> 8 & 0xFFFFFFFF),
    ("prmt.b32 %d, %a, %b, 0x5410;", "u32", lambda a, b: (b & 0xFFFF) << 16 | a & 0xFFFF),
    ("prmt.b32 %d, %a, %b, 0x7632;", "u32", lambda a, b: b & 0xFFFF0000 | a >> 16),
    ("prmt.b32 %d, %a, %b, 0x0008;", "u32", lambda a, b: (a & 255) * 0x01010100 | (255 if a & 128 else 0)),
    ("mov.b64 %w, {%a, %b}; mov.b64 {%t, %u}, %w; sub.u32 %d, %u, %t;", "u32", lambda a, b: (b - a) % 2**32),
    ("add.cc.u32 %t, %a, %b; addc.u32 %d, 0, 0;", "u32", lambda a, b: (a + b) >> 32),
    ("sub.cc.u32 %t, %a, %b; subc.u32 %d, 5, 0;", "u32", lambda a, b: 5 - (a < b)),
    ("mad.lo.cc.u32 %t, %a, %b, %b; madc.hi.u32 %d, %a, %b, 0;", "u32", lambda a, b: (a * b + b) >> 32),
    ("setp.lt.u32 %p, %a, %b; selp.b32 %d, 1, 2, %p;", "u32", lambda a, b: 1 if a < b else 2),
    ("setp.lt.s32 %p|%q, %a, %b; selp.b32 %d, 1, 2, %q;", "u32", lambda a, b: 2 if sign(a) < sign(b) else 1),
    ("setp.hs.u32 %p, %a, %b; @!%p mov.u32 %d, 4; @%p mov.u32 %d, 9;", "u32", lambda a, b: 9 if a >= b else 4),
    ("{ .reg .b32 %a; mov.b32 %a, 3; } add.u32 %d, %a, %b;", "u32", lambda a, b: (a + b) % 2**32),
    ("sad.u32 %d, %a, %b, 1;", "u32", lambda a, b: (abs(a - b) + 1) % 2**32),
    ("cvt.sat.u8.u32 %t, %a; cvt.u32.u8 %d, %t;", "u32", lambda a, b: min(a, 255)),
    ("cvt.s32.s8 %d, %a;", "u32", lambda a, b: ((a & 255) - 256 * (a >> 7 & 1)) % 2**32),
    ("bmsk.clamp.b32 %d, 4, 9;", "u32", lambda a, b: 0x1FF0),
    (
        "dp4a.u32.u32 %d, %a, %b, 7;",
        "u32",
        lambda a, b: (7 + sum((a >> s & 255) * (b >> s & 255) for s in (0, 8, 16, 24))) % 2**32,
    ),
]


def sign(value: int) -> int:
    return value - (1 << 32) if value >> 31 else value


@pytest.mark.parametrize(("body", "into", "function"), BITWISE, ids=[body for body, _, _ in BITWISE])
def test_bits(body: str, into: str, function: Callable[..., int]) -> None:
    a, b = whole_operands("u32", 5), whole_operands("u32", 6)
    a[5:8], b[5:8] = a[10:13], a[10:13]
    result = execute(body, into, a=("u32", a), b=("u32", b))
    assert result.tolist() == [function(int(x), int(y)) for x, y in zip(a, b)]


FLOATS: list[tuple[str, Callable[..., Any]]] = [
    ("min.f32 %d, %a, %b;", np.fmin),
    ("max.f32 %d, %a, %b;", np.fmax),
    ("min.NaN.f32 %d, %a, %b;", np.minimum),
    ("max.NaN.f32 %d, %a, %b;", np.maximum),
    ("abs.f32 %d, %a;", lambda a, b: np.abs(a)),
    ("neg.f32 %d, %a;", lambda a, b: -a),
    ("copysign.f32 %d, %a, %b;", lambda a, b: np.copysign(b, a)),
    ("sqrt.rn.f32 %d, %a;", lambda a, b: np.sqrt(a)),
    ("rcp.rn.f32 %d, %a;", lambda a, b: np.float32(1) / a),
    ("add.sat.f32 %d, %a, %b;", lambda a, b: np.where(np.isnan(a + b), 0, np.clip(a + b, 0, 1))),
    ("cvt.sat.f32.f32 %d, %a;", lambda a, b: np.where(np.isnan(a), 0, np.clip(a, 0, 1))),
    ("add.ftz.f32 %d, %a, %b;", lambda a, b: flushed(flushed(a) + flushed(b))),
    ("mul.ftz.f32 %d, %a, %b;", lambda a, b: flushed(flushed(a) * flushed(b))),
    ("setp.eq.f32 %p, %a, %b; selp.f32 %d, 0f3F800000, 0f00000000, %p;", lambda a, b: a == b),
    ("setp.ne.f32 %p, %a, %b; selp.f32 %d, 0f3F800000, 0f00000000, %p;", lambda a, b: (a < b) | (a > b)),
    ("setp.neu.f32 %p, %a, %b; selp.f32 %d, 0f3F800000, 0f00000000, %p;", lambda a, b: a != b),
    ("setp.ltu.f32 %p, %a, %b; selp.f32 %d, 0f3F800000, 0f00000000, %p;", lambda a, b: ~(a >= b)),
    ("setp.nan.f32 %p, %a, %b; selp.f32 %d, 0f3F800000, 0f00000000, %p;", lambda a, b: np.isnan(a) | np.isnan(b)),
    ("testp.subnormal.f32 %p, %a; selp.f32 %d, 0f3F800000, 0f00000000, %p;", lambda a, b: (a != 0) & (flushed(a) == 0)),
]


def flushed(values: np.ndarray) -> np.ndarray:
    return np.where(np.abs(values) < np.float32(2.0**-126), np.copysign(np.float32(0), values), values)


@pytest.mark.parametrize(("body", "function"), FLOATS, ids=[body for body, _ in FLOATS])
def test_floats_with_all_their_special_values(body: str, function: Callable[..., Any]) -> None:
    special = [0.0, -0.0, 1, -1, np.inf, -np.inf, np.nan, 1e-40, -1e-42, 2.0**-126, 3e38, 0.3, 2.5]
    grid = np.array(np.meshgrid(special, special), np.float32).reshape(2, -1)
    a, b = (np.ascontiguousarray(row) for row in grid)
    result = execute(body, "f32", a=("f32", a), b=("f32", b))
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(result, np.asarray(function(a, b), np.float32))


@pytest.mark.parametrize(
    ("name", "function", "relative", "absolute"),
    [
        ("ex2", np.exp2, 2.0**-22, 0),
        ("lg2", np.log2, 2.0**-22, 2.0**-22),
        ("rcp", lambda a: 1 / a, 2.0**-23, 0),
        ("sqrt", np.sqrt, 2.0**-23, 0),
        ("rsqrt", lambda a: 1 / np.sqrt(a), 2.0**-22.4, 0),
        ("sin", np.sin, 0, 2.0**-20.5),
        ("cos", np.cos, 0, 2.0**-20.5),
        ("tanh", np.tanh, 2.0**-10.9, 0),
    ],
)
def test_approximations_are_wrong_by_what_is_stated(name: str, function: Any, relative: float, absolute: float) -> None:
    a = np.random.default_rng(0).uniform(0.01, 3, 1000).astype(np.float32)
    result = execute(f"{name}.approx.f32 %d, %a;", "f32", a=("f32", a)).astype(np.float64)
    exact = function(a.astype(np.float64))
    assert (np.abs(result - exact) <= relative * np.abs(exact) + absolute).all()
    assert (result != exact.astype(np.float32)).mean() > 0.1, "an approximation that is exact hides what hardware shows"


@pytest.mark.parametrize("kind", ["f16x2", "bf16x2"])
def test_pairs_of_halves(kind: str) -> None:
    half = kind[:-2]
    a, b, c = (operands(half, seed) for seed in (1, 2, 3))
    given = {name: (kind, bits.view(np.uint32)) for name, bits in zip("abc", (a, b, c))}
    result = execute(f"fma.rn.{kind} %d, %a, %b, %c;", "b32", **given).view(np.uint16)
    columns = [[Fraction(float(v)) for v in as_float(half, bits)] for bits in (a, b, c)]
    wanted = [round_fraction(x * y + z, half, "rn") for x, y, z in zip(*columns)]
    assert_same_numbers(half, result, wanted, kind)


def test_long_sums_and_products_of_doubles_at_the_edges() -> None:
    a = np.array([1e300, 1e-300, 5e-324, 1e308, 1.5e-310, -1e200, 1e-160])
    b = np.array([1e10, 1e-20, 0.5, 10, 3e5, 1e200, 1e-160])
    c = np.array([-1e309, 1e-310, 5e-324, -np.inf, 2e-308, 1e300, -4e-320])
    with np.errstate(over="ignore"):
        given = {name: ("f64", values) for name, values in zip("abc", (a, b, c))}
    result = execute("fma.rn.f64 %d, %a, %b, %c;", "f64", **given)
    for x, y, z, value in zip(a, b, c, result):
        if np.isfinite(z):
            assert value == round_fraction(Fraction(float(x)) * Fraction(float(y)) + Fraction(float(z)), "f64", "rn")
        else:
            assert value == z
