"""Conversions between types, and instructions that move single bits and bytes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from workbench.cuda.simulated.ptx import floats
from workbench.cuda.simulated.ptx.arithmetic import (
    HALVES,
    MODES,
    computes,
    decodes,
    rounded,
    saturate,
)
from workbench.cuda.simulated.ptx.module import DTYPES, WIDTHS, PtxInstruction
from workbench.cuda.simulated.ptx.operands import OperandScope, Step, kind_of
from workbench.errors import Unimplemented

_WHOLE_MODES: dict[str, Callable[[Any], Any]] = {"rni": np.rint, "rzi": np.trunc, "rmi": np.floor, "rpi": np.ceil}


def _is_float(kind: str) -> bool:
    return kind in ("f32", "f64") or kind in HALVES


@decodes("cvt")
def decode_conversion(one: PtxInstruction, scope: OperandScope) -> Step:
    into, source = one.opcode[-2:]
    if into in ("f16x2", "bf16x2"):
        return _convert_pair(one, scope, into, source)
    if not _is_float(into):
        function = _float_to_whole(one, into, source) if _is_float(source) else _whole_to_whole(one, into, source)
    else:
        function = _float_to_float(one, into, source) if _is_float(source) else _whole_to_float(one, into)
    return computes(one, scope, function, source, into)


def _convert_pair(one: PtxInstruction, scope: OperandScope, into: str, source: str) -> Step:
    """Two float32 values become a pair; the first operand is the upper half."""
    half, mode, relu = (
        into[:-2],
        next((MODES[part] for part in one.opcode if part in MODES), "rn"),
        "relu" in one.opcode,
    )

    def pair(high: Any, low: Any) -> Any:
        value = np.stack(np.broadcast_arrays(low, high), axis=-1).astype(np.float64)
        result = floats.narrow(half, value, mode)
        return np.fmax(result, 0) if relu else result

    return computes(one, scope, pair, source, into)


def _float_to_whole(one: PtxInstruction, into: str, source: str) -> Callable[[Any], Any]:
    """Round as told, clamp to what the type holds; NaN becomes 0."""
    name = next((part for part in one.opcode if part in _WHOLE_MODES), "rzi")
    rounding, dtype = _WHOLE_MODES[name], DTYPES[into]
    low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
    flushed = "ftz" in one.opcode

    def convert(value: Any) -> Any:
        value = np.asarray(value)
        whole = rounding(floats.flush(value) if flushed else value).astype(np.float64)
        too_low, too_high = whole <= float(low), whole >= float(high)
        inside: Any = np.where(too_low | too_high | np.isnan(whole), 0.0, whole).astype(dtype)
        result = np.where(too_high, dtype(high), np.where(too_low, dtype(low), inside))
        return np.where(np.isnan(whole), dtype(0), result)

    return convert


def _whole_to_whole(one: PtxInstruction, into: str, source: str) -> Callable[[Any], Any]:
    dtype = DTYPES[into]
    if "sat" not in one.opcode:
        return lambda value: np.asarray(value).astype(dtype)
    low = max(np.iinfo(dtype).min, np.iinfo(DTYPES[source]).min)
    high = min(np.iinfo(dtype).max, np.iinfo(DTYPES[source]).max)
    return lambda value: np.clip(value, low, high).astype(dtype)


def _whole_to_float(one: PtxInstruction, into: str) -> Callable[[Any], Any]:
    mode = next((MODES[part] for part in one.opcode if part in MODES), "rn")

    def convert(value: Any) -> Any:
        exact = _exact_whole(np.asarray(value), mode if into == "f64" else "odd")
        return exact if into == "f64" else rounded(into, exact, mode)

    return convert


def _exact_whole(value: np.ndarray, mode: str) -> np.ndarray:
    """Return integers as float64: rounded in a mode, or to odd for a second rounding; 64 bits may not fit."""
    near = value.astype(np.float64)
    if value.dtype.itemsize < 8:
        return near
    half = value >> value.dtype.type(32)
    low = (value & value.dtype.type(0xFFFFFFFF)).astype(np.float64)
    total, rest = floats.add_exactly(half.astype(np.float64) * 2.0**32, low)
    return floats.to_odd(total, rest) if mode == "odd" else floats.directed64(total, rest, mode)


def _float_to_float(one: PtxInstruction, into: str, source: str) -> Callable[[Any], Any]:
    whole = next((_WHOLE_MODES[part] for part in one.opcode if part in _WHOLE_MODES), None)
    mode = next((MODES[part] for part in one.opcode if part in MODES), "rn")
    flushed, saturated, positive = "ftz" in one.opcode, "sat" in one.opcode, "relu" in one.opcode
    dtype = DTYPES[into] if into in ("f32", "f64") else np.float64

    def convert(value: Any) -> Any:
        value = np.asarray(value)
        if flushed and source == "f32":
            value = floats.flush(value)
        if whole is not None and into == source:
            value = whole(value)
        if WIDTHS[into] < WIDTHS[source] or (into != source and WIDTHS[into] == 2):
            value = rounded(into, value, mode)
        value = np.asarray(value, dtype)
        value = saturate(value) if saturated else value
        value = np.where(value > 0, value, dtype(0)) if positive else value
        return floats.flush(value) if flushed and into == "f32" else value

    return convert


@decodes("popc")
def decode_population(one: PtxInstruction, scope: OperandScope) -> Step:
    return computes(one, scope, lambda a: np.bitwise_count(a).astype(np.uint32), kind_of(one), "u32")


@decodes("clz")
def decode_leading_zeros(one: PtxInstruction, scope: OperandScope) -> Step:
    kind = kind_of(one)
    return computes(one, scope, lambda a: (8 * WIDTHS[kind] - _length(a, WIDTHS[kind])).astype(np.uint32), kind, "u32")


def _length(a: Any, width: int) -> np.ndarray:
    """Return the number of bits up to the highest one that is set."""
    spread = np.asarray(a).copy()
    by = 1
    while by < 8 * width:
        spread |= spread >> spread.dtype.type(by)
        by *= 2
    return np.bitwise_count(spread).astype(np.int64)


@decodes("bfind")
def decode_find(one: PtxInstruction, scope: OperandScope) -> Step:
    kind = kind_of(one)
    width, amount = WIDTHS[kind], "shiftamt" in one.opcode

    def find(a: Any) -> Any:
        a = np.asarray(a)
        a = np.where(a < 0, ~a, a) if kind[0] == "s" else a
        at = _length(a.astype(DTYPES[f"u{8 * width}"]), width) - 1
        at = np.where((at >= 0) & amount, 8 * width - 1 - at, at)
        return at.astype(np.int32).view(np.uint32)

    return computes(one, scope, find, kind, "u32")


@decodes("brev")
def decode_reverse(one: PtxInstruction, scope: OperandScope) -> Step:
    kind = kind_of(one)
    bits, dtype = 8 * WIDTHS[kind], DTYPES[kind]

    def reverse(a: Any) -> Any:
        result = np.zeros_like(np.asarray(a))
        for at in range(bits):
            result |= (a >> dtype(at) & dtype(1)) << dtype(bits - 1 - at)
        return result

    return computes(one, scope, reverse, kind)


@decodes("bfe")
def decode_extract(one: PtxInstruction, scope: OperandScope) -> Step:
    kind = kind_of(one)
    bits, signed = 8 * WIDTHS[kind], kind[0] == "s"
    unsigned = DTYPES[f"u{bits}"]

    def extract(a: Any, start: Any, count: Any) -> Any:
        value: Any = np.asarray(a).view(unsigned)
        start, count = (start & np.uint32(255)).astype(np.int64), (count & np.uint32(255)).astype(np.int64)
        moved = np.where(start < bits, value >> np.minimum(start, bits - 1).astype(unsigned), unsigned(0))
        field = moved & _mask(count, bits)
        if not signed:
            return field
        last = np.minimum(start + count - 1, bits - 1)
        negative = (value >> np.maximum(last, 0).astype(unsigned) & unsigned(1)).astype(bool) & (count > 0)
        reach = np.clip(last - start + 1, 0, bits)
        return np.where(negative, field | ~_mask(reach, bits), field).astype(unsigned).view(DTYPES[kind])

    return computes(one, scope, extract, [kind, "u32", "u32"], kind)


def _mask(count: Any, bits: int) -> np.ndarray:
    """Return numbers whose lowest `count` bits are set."""
    dtype = DTYPES[f"u{bits}"]
    ones = dtype((1 << bits) - 1)
    return np.where(np.asarray(count) >= bits, ones, ~(ones << np.minimum(count, bits - 1).astype(dtype))).astype(dtype)


@decodes("bfi")
def decode_insert(one: PtxInstruction, scope: OperandScope) -> Step:
    kind = kind_of(one)
    bits, dtype = 8 * WIDTHS[kind], DTYPES[kind]

    def insert(a: Any, b: Any, start: Any, count: Any) -> Any:
        start, count = (start & np.uint32(255)).astype(np.int64), (count & np.uint32(255)).astype(np.int64)
        by = np.minimum(start, bits - 1).astype(dtype)
        mask = np.where(start < bits, _mask(count, bits) << by, dtype(0))
        return (b & ~mask) | (a << by & mask)

    return computes(one, scope, insert, [kind, kind, "u32", "u32"], kind)


@decodes("bmsk")
def decode_bit_mask(one: PtxInstruction, scope: OperandScope) -> Step:
    clamps = "clamp" in one.opcode

    def mask(start: Any, count: Any) -> Any:
        start, count = np.asarray(start, np.int64), np.asarray(count, np.int64)
        start, count = (start, count) if clamps else (start & 31, count & 31)
        return np.where(start < 32, _mask(np.minimum(count, 32), 32) << np.minimum(start, 31).astype(np.uint32), 0)

    return computes(one, scope, lambda a, b: mask(a, b).astype(np.uint32), "u32")


@decodes("prmt")
def decode_permute(one: PtxInstruction, scope: OperandScope) -> Step:
    mode = one.opcode[-1] if one.opcode[-1] != "b32" else ""
    if mode:
        raise Unimplemented(f"{one} has no simulated form")

    def permute(a: Any, b: Any, selector: Any) -> Any:
        both = np.asarray(b, np.uint64) << np.uint64(32) | np.asarray(a, np.uint64)
        result: Any = np.uint64(0)
        for at in range(4):
            chosen = np.asarray(selector, np.uint64) >> np.uint64(4 * at)
            byte = both >> ((chosen & np.uint64(7)) * np.uint64(8)) & np.uint64(255)
            sign = np.where(byte >= 128, np.uint64(255), np.uint64(0))
            byte = np.where(chosen & np.uint64(8), sign, byte)
            result = result | byte << np.uint64(8 * at)
        return result.astype(np.uint32)

    return computes(one, scope, permute, "b32")


@decodes("sad")
def decode_difference(one: PtxInstruction, scope: OperandScope) -> Step:
    return computes(one, scope, lambda a, b, c: np.where(a > b, a - b, b - a) + c, kind_of(one))


@decodes("dp4a")
def decode_dot_product(one: PtxInstruction, scope: OperandScope) -> Step:
    first, second = one.opcode[-2:]

    def dot(a: Any, b: Any, c: Any) -> Any:
        total = np.asarray(c, np.int64)
        for at in range(4):
            x, y = (np.asarray(value) >> np.uint32(8 * at) & np.uint32(255) for value in (a, b))
            x = x.astype(np.uint8).astype(np.int8) if first[0] == "s" else x
            y = y.astype(np.uint8).astype(np.int8) if second[0] == "s" else y
            total = total + x.astype(np.int64) * y.astype(np.int64)
        return (total & 0xFFFFFFFF).astype(np.uint32)

    return computes(one, scope, dot, ["b32", "b32", "b32"], "b32")
