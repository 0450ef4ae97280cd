"""Arithmetic, logic, comparisons and selections: for each opcode, from an instruction to what executes it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from workbench.cuda.simulated.ptx import floats
from workbench.cuda.simulated.ptx.approximations import APPROXIMATE
from workbench.cuda.simulated.ptx.module import BITS, DTYPES, WIDTHS, PtxInstruction
from workbench.cuda.simulated.ptx.operands import Active, OperandScope, Step, kind_of, parts
from workbench.errors import Unimplemented

Decode = Callable[[PtxInstruction, OperandScope], Step]
DECODERS: dict[str, Decode] = {}
HALVES = ("f16", "bf16", "f16x2", "bf16x2")
MODES = {"rn": "rn", "rz": "rz", "rm": "rm", "rp": "rp", "rni": "rn", "rzi": "rz", "rmi": "rm", "rpi": "rp"}


def decodes(*opcodes: str) -> Callable[[Decode], Decode]:
    """Make a function the decoder of some opcodes."""

    def register(decode: Decode) -> Decode:
        DECODERS.update(dict.fromkeys(opcodes, decode))
        return decode

    return register


def mode_of(one: PtxInstruction) -> str:
    return next((MODES[part] for part in one.opcode if part in MODES), "rn")


def computes(
    one: PtxInstruction, scope: OperandScope, function: Callable[..., Any], kinds: str | list[str], into: str = ""
) -> Step:
    """Return what reads all operands but the first, applies `function` and writes the result."""
    kind = kinds if isinstance(kinds, str) else kinds[0]
    sources = one.operands[1:]
    given = [kinds] * len(sources) if isinstance(kinds, str) else kinds
    read = [scope.reader(operand, each) for operand, each in zip(sources, given)]
    write = scope.writer(one.operands[0], into or kind)
    if len(read) == 1:
        (x,) = read
        return lambda m, ix: write(m, ix, function(x(m, ix)))
    if len(read) == 2:
        x, y = read
        return lambda m, ix: write(m, ix, function(x(m, ix), y(m, ix)))
    return lambda m, ix: write(m, ix, function(*[each(m, ix) for each in read]))


@decodes("add", "sub", "mul")
def decode_sum(one: PtxInstruction, scope: OperandScope) -> Step:
    kind = kind_of(one)
    if kind[0] in "bsu" and kind not in HALVES:
        return (
            _whole_product(one, scope) if one.opcode[0] == "mul" else computes(one, scope, _WHOLE[one.opcode[0]], kind)
        )
    return computes(one, scope, _float_function(one, kind), kind)


_WHOLE = {"add": np.add, "sub": np.subtract}


def _float_function(one: PtxInstruction, kind: str) -> Callable[..., Any]:
    name, mode = one.opcode[0], mode_of(one)
    if kind == "f32" and mode == "rn":
        return finished(one, {"add": np.add, "sub": np.subtract, "mul": np.multiply}[name])
    if kind == "f64":
        return _directed(name, mode)
    return finished(one, lambda a, b: rounded(kind, _exactly(name, a, b), mode))


def _exactly(name: str, a: Any, b: Any) -> np.ndarray:
    a, b = np.asarray(a, np.float64), np.asarray(b, np.float64)
    return a * b if name == "mul" else floats.sum_to_odd(a, b if name == "add" else -b)


def _directed(name: str, mode: str) -> Callable[..., Any]:
    if mode == "rn":
        return {"add": np.add, "sub": np.subtract, "mul": np.multiply}[name]
    if name == "mul":
        return lambda a, b: floats.fused64(a, b, np.asarray(-0.0), mode)
    sign = 1.0 if name == "add" else -1.0
    return lambda a, b: floats.directed64(*floats.add_exactly(np.asarray(a), np.asarray(sign * b)), mode)


def rounded(kind: str, exact: Any, mode: str = "rn") -> Any:
    """Round to a kind; narrow results stay float64 until they are written."""
    if kind == "f32" and mode == "rn":
        return np.asarray(exact).astype(np.float32)
    kind = kind.removesuffix("x2")
    value = floats.narrow(kind, np.asarray(exact, np.float64), mode)
    return value.astype(np.float32) if kind == "f32" else value


def finished(one: PtxInstruction, function: Callable[..., Any]) -> Callable[..., Any]:
    """Add what `.ftz`, `.sat` and `.relu` do to operands and results."""
    flushed, saturated, positive = (
        "ftz" in one.opcode and "f32" in one.opcode,
        "sat" in one.opcode,
        "relu" in one.opcode,
    )
    if not (flushed or saturated or positive):
        return function

    def complete(*given: Any) -> Any:
        if flushed:
            given = tuple(floats.flush(np.asarray(value)) for value in given)
        result = function(*given)
        if flushed:
            result = floats.flush(np.asarray(result))
        if saturated:
            result = saturate(result)
        return np.fmax(result, 0) if positive else result

    return complete


def saturate(value: Any) -> Any:
    """Clamp to [0, 1]; NaN becomes 0."""
    value = np.asarray(value)
    clamped = np.fmin(np.fmax(value, value.dtype.type(0)), value.dtype.type(1))
    return np.where(clamped == 0, value.dtype.type(0), clamped)


def _whole_product(one: PtxInstruction, scope: OperandScope) -> Step:
    kind = kind_of(one)
    if "wide" in one.opcode:
        wide = f"{kind[0]}{16 * WIDTHS[kind]}"
        dtype = DTYPES[wide]
        return computes(one, scope, lambda a, b: np.multiply(a, b, dtype=dtype), kind, wide)
    if "hi" in one.opcode:
        return computes(one, scope, high_product(kind), kind)
    return computes(one, scope, np.multiply, kind)


def high_product(kind: str) -> Callable[[Any, Any], Any]:
    """Return what computes the upper half of products."""
    dtype, bits = DTYPES[kind], 8 * WIDTHS[kind]
    if bits < 64:
        wide = DTYPES[f"{kind[0]}{2 * bits}"]
        return lambda a, b: (np.multiply(a, b, dtype=wide) >> wide(bits)).astype(dtype)
    if kind[0] == "u":
        return _high64
    return lambda a, b: _signed_high64(np.asarray(a), np.asarray(b))


def _high64(a: Any, b: Any) -> Any:
    half, low = np.uint64(32), np.uint64(0xFFFFFFFF)
    a_high, a_low, b_high, b_low = a >> half, a & low, b >> half, b & low
    middle = a_high * b_low + (a_low * b_low >> half)
    return a_high * b_high + (middle >> half) + ((middle & low) + a_low * b_high >> half)


def _signed_high64(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    ua, ub = a.view(np.uint64), b.view(np.uint64)
    zero = np.uint64(0)
    return (_high64(ua, ub) - np.where(a < 0, ub, zero) - np.where(b < 0, ua, zero)).view(np.int64)


@decodes("mad")
def decode_mad(one: PtxInstruction, scope: OperandScope) -> Step:
    kind = kind_of(one)
    if kind[0] == "f":
        return decode_fma(one, scope)
    if "wide" in one.opcode:
        wide = f"{kind[0]}{16 * WIDTHS[kind]}"
        dtype = DTYPES[wide]
        return computes(one, scope, lambda a, b, c: np.multiply(a, b, dtype=dtype) + c, [kind, kind, wide], wide)
    product = high_product(kind) if "hi" in one.opcode else np.multiply
    return computes(one, scope, lambda a, b, c: product(a, b) + c, kind)


@decodes("mul24", "mad24")
def decode_24(one: PtxInstruction, scope: OperandScope) -> Step:
    kind = kind_of(one)
    shift = 8

    def product(a: Any, b: Any, c: Any = 0) -> Any:
        a, b = (np.asarray(value) << shift >> shift for value in (a, b))
        wide = np.multiply(a, b, dtype=DTYPES[f"{kind[0]}64"])
        return ((wide >> 16 if "hi" in one.opcode else wide) + c).astype(DTYPES[kind])

    return computes(one, scope, product, kind)


@decodes("fma")
def decode_fma(one: PtxInstruction, scope: OperandScope) -> Step:
    kind, mode = kind_of(one), mode_of(one)
    if kind == "f64":
        return computes(one, scope, lambda a, b, c: floats.fused64(a, b, c, mode), kind)
    return computes(one, scope, finished(one, lambda a, b, c: rounded(kind, floats.fused32(a, b, c), mode)), kind)


@decodes("div")
def decode_division(one: PtxInstruction, scope: OperandScope) -> Step:
    kind, mode = kind_of(one), mode_of(one)
    if kind[0] in "us":
        return computes(one, scope, lambda a, b: divide(np.asarray(a), np.asarray(b))[0], kind)
    if "approx" in one.opcode or "full" in one.opcode:
        return computes(one, scope, finished(one, APPROXIMATE["div"]), kind)
    if mode == "rn":
        return computes(one, scope, finished(one, np.divide), kind)
    if kind == "f32":
        return computes(one, scope, finished(one, lambda a, b: rounded(kind, _quotient_to_odd(a, b), mode)), kind)
    raise Unimplemented(f"{one} has no simulated form")


def _quotient_to_odd(a: Any, b: Any) -> np.ndarray:
    a, b = np.asarray(a, np.float64), np.asarray(b, np.float64)
    quotient = a / b
    rest = -floats.fused64(quotient, b, -a)
    return floats.to_odd(quotient, np.where(b < 0, -rest, rest))


def divide(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Divide whole numbers towards zero; by zero gives all ones and the dividend, as GPUs do."""
    zero = b == 0
    safe = np.where(zero, b.dtype.type(1), b)
    if a.dtype.kind == "u":
        quotient, rest = a // safe, a % safe
    else:
        quotient = a // safe
        rest = a - quotient * safe
        off = (rest != 0) & ((a < 0) != (safe < 0))
        quotient, rest = quotient + off, np.where(off, rest - safe, rest)
    ones = np.array(-1).astype(a.dtype)
    return np.where(zero, ones, quotient).astype(a.dtype), np.where(zero, a, rest).astype(a.dtype)


@decodes("rem")
def decode_remainder(one: PtxInstruction, scope: OperandScope) -> Step:
    return computes(one, scope, lambda a, b: divide(np.asarray(a), np.asarray(b))[1], kind_of(one))


@decodes("min", "max")
def decode_extreme(one: PtxInstruction, scope: OperandScope) -> Step:
    kind, least = kind_of(one), one.opcode[0] == "min"
    if kind[0] in "us":
        return computes(one, scope, np.minimum if least else np.maximum, kind)
    spreads = "NaN" in one.opcode
    choose = (np.minimum if least else np.maximum) if spreads else (np.fmin if least else np.fmax)

    def extreme(a: Any, b: Any) -> Any:
        a, b = np.broadcast_arrays(a, b)
        tie = (a == 0) & (b == 0)  # -0 is less than +0 here
        signed = np.where(np.signbit(a) == least, a, b)
        return np.where(tie, signed, choose(a, b))

    return computes(one, scope, finished(one, extreme), kind)


@decodes("neg", "abs")
def decode_sign(one: PtxInstruction, scope: OperandScope) -> Step:
    function: Any = np.negative if one.opcode[0] == "neg" else np.abs
    return computes(one, scope, finished(one, function), kind_of(one))


@decodes("and", "or", "xor")
def decode_logic(one: PtxInstruction, scope: OperandScope) -> Step:
    return computes(
        one, scope, {"and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor}[one.opcode[0]], kind_of(one)
    )


@decodes("not", "cnot")
def decode_not(one: PtxInstruction, scope: OperandScope) -> Step:
    if one.opcode[0] == "cnot":
        return computes(one, scope, lambda a: a == 0, kind_of(one))
    return computes(one, scope, np.invert, kind_of(one))


@decodes("lop3")
def decode_lop3(one: PtxInstruction, scope: OperandScope) -> Step:
    table = int(one.operands[4], 0)

    def function(a: Any, b: Any, c: Any) -> Any:
        result = np.zeros_like(a | b | c)
        for row in range(8):
            if table >> row & 1:
                result |= (a if row & 4 else ~a) & (b if row & 2 else ~b) & (c if row & 1 else ~c)
        return result

    read = [scope.reader(operand, "b32") for operand in one.operands[1:4]]
    write = scope.writer(one.operands[0], "b32")
    return lambda m, ix: write(m, ix, function(*[np.asarray(each(m, ix)) for each in read]))


@decodes("shl", "shr")
def decode_shift(one: PtxInstruction, scope: OperandScope) -> Step:
    kind, left = kind_of(one), one.opcode[0] == "shl"
    bits, dtype = 8 * WIDTHS[kind], DTYPES[kind]
    signed = kind[0] == "s"

    def shift(a: Any, by: Any) -> Any:
        near = np.minimum(by, bits - 1).astype(dtype)
        moved = np.left_shift(a, near) if left else np.right_shift(a, near)
        if signed and not left:
            return moved
        return np.where(by >= bits, dtype(0), moved)

    return computes(one, scope, shift, [kind, "u32"], kind)


@decodes("shf")
def decode_funnel(one: PtxInstruction, scope: OperandScope) -> Step:
    left, wraps = "l" in one.opcode, "wrap" in one.opcode

    def funnel(low: Any, high: Any, by: Any) -> Any:
        pair = np.asarray(high, np.uint64) << np.uint64(32) | np.asarray(low, np.uint64)
        by = (by & np.uint32(31)) if wraps else np.minimum(by, np.uint32(32))
        by = np.asarray(by, np.uint64)
        return (pair << by >> np.uint64(32) if left else pair >> by).astype(np.uint32)

    return computes(one, scope, funnel, "u32")


@decodes("setp")
def decode_comparison(one: PtxInstruction, scope: OperandScope) -> Step:
    kind, names = kind_of(one), parts_of_targets(one)
    compare = comparison(one.opcode[1], kind)
    combine = next((part for part in one.opcode[2:] if part in ("and", "or", "xor")), "")
    sources = one.operands[len(names) :]
    x, y = scope.reader(sources[0], kind), scope.reader(sources[1], kind)
    write = [scope.writer(name, "pred") for name in names]
    if kind in ("f16x2", "bf16x2"):
        return _compare_pairs(compare, x, y, write)
    also = scope.reader(sources[2], "pred") if combine else None
    logic: Any = {"and": np.logical_and, "or": np.logical_or, "xor": np.logical_xor}.get(combine)
    flushed = "ftz" in one.opcode
    if len(write) == 1 and logic is None and not flushed:
        (put,) = write
        return lambda m, ix: put(m, ix, compare(x(m, ix), y(m, ix)))

    def step(m: Any, ix: Active) -> None:
        a, b = x(m, ix), y(m, ix)
        if flushed:
            a, b = floats.flush(np.asarray(a)), floats.flush(np.asarray(b))
        result = compare(a, b)
        other = also(m, ix) if also else None
        for put, value in zip(write, (result, ~np.asarray(result))):
            put(m, ix, value if logic is None else logic(value, other))

    return step


def parts_of_targets(one: PtxInstruction) -> list[str]:
    """Return the predicates that a comparison writes: `%p` or `%p|%q`, whose bar the parser has taken away."""
    sources = 2 + any(part in ("and", "or", "xor") for part in one.opcode[2:])
    return list(one.operands[: len(one.operands) - sources])


def _compare_pairs(compare: Any, x: Any, y: Any, write: list[Any]) -> Step:
    def step(m: Any, ix: Active) -> None:
        result = compare(x(m, ix), y(m, ix))
        for at, put in enumerate(write):
            put(m, ix, result[..., at])

    return step


def comparison(name: str, kind: str) -> Callable[[Any, Any], Any]:
    """Return a comparison by its name in PTX; for floats `ltu` is true where an operand is NaN."""
    plain: dict[str, Any] = {
        "eq": np.equal,
        "ne": np.not_equal,
        "lt": np.less,
        "le": np.less_equal,
        "gt": np.greater,
        "ge": np.greater_equal,
        "lo": np.less,
        "ls": np.less_equal,
        "hi": np.greater,
        "hs": np.greater_equal,
        "num": lambda a, b: ~(np.isnan(a) | np.isnan(b)),
        "nan": lambda a, b: np.isnan(a) | np.isnan(b),
    }
    is_float = kind.startswith(("f", "bf"))
    if is_float and name == "ne":  # PTX's `ne` is false for NaN, unlike NumPy's
        return lambda a, b: (a < b) | (a > b)
    if name in plain:
        return plain[name]
    inner = comparison(name[:-1], kind)
    return lambda a, b: inner(a, b) | np.isnan(a) | np.isnan(b)


@decodes("set")
def decode_set(one: PtxInstruction, scope: OperandScope) -> Step:
    into, kind = one.opcode[-2:]
    compare = comparison(one.opcode[1], kind)
    if into in HALVES or into[0] == "f":
        return computes(one, scope, lambda a, b: np.where(compare(a, b), 1.0, 0.0), kind, into)
    ones: Any = np.array(-1).astype(DTYPES[into])
    return computes(one, scope, lambda a, b: np.where(compare(a, b), ones, DTYPES[into](0)), kind, into)


@decodes("selp")
def decode_select(one: PtxInstruction, scope: OperandScope) -> Step:
    kind = bits_kind(kind_of(one))
    return computes(one, scope, lambda a, b, chosen: np.where(chosen, a, b), [kind, kind, "pred"], kind)


def bits_kind(kind: str) -> str:
    """Return the type of the same width that moves bits unchanged."""
    return kind if kind == "pred" else f"b{8 * WIDTHS[kind]}"


@decodes("slct")
def decode_select_by_sign(one: PtxInstruction, scope: OperandScope) -> Step:
    kind, by = one.opcode[-2:]
    kind = bits_kind(kind)
    return computes(one, scope, lambda a, b, c: np.where(c >= 0, a, b), [kind, kind, by], kind)


@decodes("copysign")
def decode_copysign(one: PtxInstruction, scope: OperandScope) -> Step:
    return computes(one, scope, lambda sign, value: np.copysign(value, sign), kind_of(one))


@decodes("testp")
def decode_test(one: PtxInstruction, scope: OperandScope) -> Step:
    kind = kind_of(one)
    tiny = np.finfo(DTYPES[kind]).tiny
    tests: dict[str, Any] = {
        "finite": np.isfinite,
        "infinite": np.isinf,
        "number": lambda a: ~np.isnan(a),
        "notanumber": np.isnan,
        "normal": lambda a: np.isfinite(a) & (np.abs(a) >= tiny),
        "subnormal": lambda a: (a != 0) & (np.abs(a) < tiny),
    }
    return computes(one, scope, tests[one.opcode[1]], kind, "pred")


@decodes("sqrt", "rcp", "rsqrt", "ex2", "lg2", "sin", "cos", "tanh")
def decode_function(one: PtxInstruction, scope: OperandScope) -> Step:
    kind, name = kind_of(one), one.opcode[0]
    if "approx" in one.opcode:
        if kind == "f64":
            return computes(one, scope, _coarse64(name), kind)
        if kind in HALVES:
            inner = APPROXIMATE[name]
            return computes(one, scope, lambda a: rounded(kind, inner(np.asarray(a, np.float32))), kind)
        return computes(one, scope, finished(one, APPROXIMATE[name]), kind)
    if mode_of(one) != "rn" or name not in ("sqrt", "rcp"):
        return _directed_function(one, scope, kind, name)
    exact: Any = np.sqrt if name == "sqrt" else lambda a: a.dtype.type(1) / a
    return computes(one, scope, finished(one, lambda a: exact(np.asarray(a))), kind)


def _coarse64(name: str) -> Callable[[Any], Any]:
    """Return rcp or rsqrt as `.approx.ftz.f64` has it: only the upper 32 bits of operand and result are there."""
    upper = np.uint64(0xFFFFFFFF00000000)

    def function(a: Any) -> Any:
        a = (np.asarray(a).view(np.uint64) & upper).view(np.float64)
        result = 1.0 / (np.sqrt(a) if name == "rsqrt" else a)
        return (result.view(np.uint64) & upper).view(np.float64)

    return function


def _directed_function(one: PtxInstruction, scope: OperandScope, kind: str, name: str) -> Step:
    mode = mode_of(one)
    if kind != "f32" or name not in ("sqrt", "rcp"):
        raise Unimplemented(f"{one} has no simulated form")
    if name == "rcp":
        return computes(one, scope, finished(one, lambda a: rounded(kind, _quotient_to_odd(1.0, a), mode)), kind)

    def root(a: Any) -> Any:
        a = np.asarray(a, np.float64)
        value = np.sqrt(a)
        return rounded(kind, floats.to_odd(value, -floats.fused64(value, value, -a)), mode)

    return computes(one, scope, finished(one, root), kind)


@decodes("mov")
def decode_move(one: PtxInstruction, scope: OperandScope) -> Step:
    kind = kind_of(one)
    target, source = one.operands
    if target.startswith("{"):
        return _unpack(scope, parts(target), source, kind)
    if source.startswith("{"):
        return _pack(scope, target, parts(source), kind)
    kind = bits_kind(kind)
    return computes(one, scope, lambda a: a, kind)


def _unpack(scope: OperandScope, targets: list[str], source: str, kind: str) -> Step:
    width = WIDTHS[kind] // len(targets)
    read = scope.reader(source, f"b{8 * WIDTHS[kind]}")
    write = [scope.writer(name, f"b{8 * width}") for name in targets]
    whole, bits = BITS[WIDTHS[kind]], BITS[width]

    def step(m: Any, ix: Active) -> None:
        value = np.asarray(read(m, ix))
        pieces = [(value >> whole(8 * width * at)).astype(bits) for at in range(len(write))]
        for put, piece in zip(write, pieces):
            put(m, ix, piece)

    return step


def _pack(scope: OperandScope, target: str, sources: list[str], kind: str) -> Step:
    width, whole = WIDTHS[kind] // len(sources), BITS[WIDTHS[kind]]
    read = [scope.reader(name, f"b{8 * width}") for name in sources]
    write = scope.writer(target, f"b{8 * WIDTHS[kind]}")

    def step(m: Any, ix: Active) -> None:
        value = whole(0)
        for at, each in enumerate(read):
            value = value | np.asarray(each(m, ix)).astype(whole) << whole(8 * width * at)
        write(m, ix, value)

    return step
