"""Random streams, with the bits of `framework.values.random`: Philox4x64-10.

Source: Salmon et al., "Parallel Random Numbers: As Easy as 1, 2, 3", SC 2011.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from workbench.runtime.footprint import FLOAT
from workbench.runtime.kernels.arguments import Address, Ints, Reals
from workbench.runtime.kernels.intrinsics import INT, INTS, behind, function, item_of, truths
from workbench.runtime.kernels.registry import kernel
from workbench.runtime.kernels.vectors import I64, loop
from workbench.runtime.words import stream as stream_words
from workbench.runtime.words.stream import BITS, CHUNK, OP, PLACE, SEED, STEP, TRIP

I128, HALVES = ir.IntType(128), types.CPointer(types.uint32)
ROUNDS = 10
FACTORS = 0xD2E7470EE14C6C93, 0xCA5A826395121157
RAISES = 0x9E3779B97F4A7C15, 0xBB67AE8584CAA73B  # added to the key after every round
PER_BLOCK = 8  # float32 of the four words of a block
UNIT = np.float32(2.0**-BITS)


def _product(builder: Any, factor: int, x: Any) -> tuple[Any, Any]:
    """The high and the low word of a product."""
    wide = builder.mul(builder.zext(x, I128), I128(factor))
    return builder.trunc(builder.lshr(wide, I128(64)), I64), builder.trunc(wide, I64)


def _philox(builder: Any, key: Sequence[Any], counter: Sequence[Any]) -> Sequence[Any]:
    """The four words of a block."""
    a, b, c, d = counter
    for number in range(ROUNDS):
        first, second = (builder.add(k, I64(number * r % 2**64)) for k, r in zip(key, RAISES, strict=True))
        (high, low), (other_high, other_low) = _product(builder, FACTORS[0], a), _product(builder, FACTORS[1], c)
        a, b = builder.xor(builder.xor(other_high, b), first), other_low
        c, d = builder.xor(builder.xor(high, d), second), low
    return a, b, c, d


@intrinsic
def draw_blocks(context: Any, stream: Any, first: Any, count: Any, out: Any) -> Any:
    """`count` blocks of a stream from number `first` on, four words each; NumPy counts up before it draws."""

    def generate(cx: Any, builder: Any, signature: Any, args: Any) -> Any:
        stream, first, count, out = args
        key = [builder.load(builder.gep(stream, [I64(word)])) for word in (SEED, OP)]
        rest = [builder.load(builder.gep(stream, [I64(word)])) for word in (STEP, PLACE, TRIP)]
        first = builder.add(first, I64(1))

        def block(i: Any) -> Sequence[Any]:
            words = _philox(builder, key, [builder.add(first, i), *rest])
            at = builder.mul(i, I64(4))
            for n, word in enumerate(words):
                builder.store(word, builder.gep(out, [builder.add(at, I64(n))]))
            return ()

        loop(builder, count, (), block)
        return cx.get_dummy_value()

    return types.void(INTS, INT, INT, INTS), generate


@intrinsic
def halves_of(context: Any, words: Any) -> Any:
    """Words as halves of words, the lower ones first."""
    return HALVES(INTS), lambda c, b, s, args: b.bitcast(args[0], c.get_value_type(s.return_type))


@function
def compare(halves, least, out, count):
    for i in range(count):
        out[i] = halves[i] >> np.uint32(32 - BITS) >= least


@function
def scale(halves, out, count):
    for i in range(count):
        out[i] = np.float32(np.int32(halves[i] >> np.uint32(32 - BITS))) * UNIT


@function
def fraction(word):
    """A word as a float64 in [0, 1)."""
    return float(word >> 11 & 0x1FFFFFFFFFFFFF) * 2.0**-53


@function
def draw_chunk(stream, words, start, count):
    """The words of numbers `start` … `start + count - 1`."""
    draw_blocks(stream, start // PER_BLOCK, (count + PER_BLOCK - 1) // PER_BLOCK, words)
    return halves_of(words)


@kernel(words=stream_words)
def draw_truths(
    stream: Ints("KEY_WORDS"), words: Ints(extent="4 * 8 * -(-min(count, CHUNK) // 8)"),
    out: Address("count", item=1), count, least,
):  # fmt: skip
    """out[i] = whether number i of the stream is at least least / 2^BITS; `words`: memory for CHUNK numbers."""
    for start in range(0, count, CHUNK):
        n = min(CHUNK, count - start)
        compare(draw_chunk(stream, words, start, n), np.uint32(least), truths(out + start), n)
    return 0


@kernel(words=stream_words)
def draw_uniform(
    stream: Ints("KEY_WORDS"), words: Ints(extent="32 * -(-min(count, 4 * CHUNK // item) // (32 // item))"),
    out: Reals("count"), count,
):  # fmt: skip
    """out[i] = number i of the stream, in [0, 1); `words`: memory for CHUNK float32.

    Two float32 are made of a word, and a float64 of one.
    """
    if item_of(out) == FLOAT:
        for start in range(0, count, CHUNK):
            n = min(CHUNK, count - start)
            scale(draw_chunk(stream, words, start, n), behind(out, start), n)
        return 0
    for start in range(0, count, CHUNK // 2):
        n = min(CHUNK // 2, count - start)
        draw_blocks(stream, start // 4, (n + 3) // 4, words)
        for i in range(n):
            out[start + i] = fraction(words[i])
    return 0


@kernel(words=stream_words)
def draw_integers(
    stream: Ints("KEY_WORDS"), words: Ints(extent="8 * 4 * -(-min(count, CHUNK // 2) // 4)"), out: Ints("count"),
    count, low, span,
):  # fmt: skip
    """out[i] = low + word number i of the stream modulo span; `words`: memory for CHUNK numbers."""
    for start in range(0, count, CHUNK // 2):
        n = min(CHUNK // 2, count - start)
        draw_blocks(stream, start // 4, (n + 3) // 4, words)
        for i in range(n):
            out[start + i] = np.int64(np.uint64(words[i]) % np.uint64(span)) + low
    return 0


@kernel(words=stream_words)
def draw_chances(
    stream: Ints("KEY_WORDS"), words: Ints(extent="8 * 4 * -(-min(count, CHUNK // 2) // 4)"), x: Reals("count"),
    out: Reals("count"), count,
):  # fmt: skip
    """out[i] = 1 with probability x[i], else 0; `words`: memory for CHUNK numbers."""
    for start in range(0, count, CHUNK // 2):
        n = min(CHUNK // 2, count - start)
        draw_blocks(stream, start // 4, (n + 3) // 4, words)
        for i in range(n):
            out[start + i] = 1.0 if fraction(words[i]) < x[start + i] else 0.0
    return 0
