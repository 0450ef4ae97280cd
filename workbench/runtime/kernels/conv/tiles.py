"""Micro-kernels of convolution: sums held in registers while the taps go by, written in LLVM's own terms.

A convolution is one sum per output, over *taps*: (channel, row, column) of the filter. The image has its border of
zeros already, so that a tap is nothing but a distance in it, the same for all outputs. What fills the sixteen lanes of
a register differs:

    pixel_tile      lanes are sixteen neighbouring pixels; the weight of a tap is the same for all
    channel_tile    lanes are sixteen output channels; the pixel of a tap is the same for all
    pixel_filter_tile, channel_filter_tile      the gradient of the filter, likewise

Of images that hold a pixel of sixteen samples in every sixteen floats `pixel_tile` computes a pixel of sixteen samples
instead of sixteen pixels.

Addresses and distances are in bytes, counts in elements.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from inspect import Parameter, Signature
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from workbench.runtime.kernels.intrinsics import INT
from workbench.runtime.kernels.tensor.transposes import transposed
from workbench.runtime.kernels.vectors import (
    F32,
    I64,
    MASK,
    WIDTH,
    Arithmetic,
    Vectors,
    as_address,
    loop,
    map_vectors,
    vectors_of,
)
from workbench.runtime.words.convolution import (
    AHEAD,
    BACK,
    END_TAP,
    FIRST_TAP,
    PIXELS,
    PLACE,
    POSITION_WORDS,
    TAP_WORDS,
    TARGET,
    WEIGHT,
)

BYTES = 4 * WIDTH  # of a register
TAP_BYTES = 8 * TAP_WORDS


def declare(count: int, body: Callable[..., None]) -> Any:
    """A function of `count` addresses and numbers, without a result; `body(v, *arguments)` builds it.

    In place of addresses it takes pointers; the vectors are of what these point to.
    """

    def emitted(context: Any, *arguments: Any) -> Any:
        kinds = [kind if isinstance(kind, types.CPointer) else INT for kind in arguments]

        def generate(c: Any, builder: Any, signature: Any, args: Any) -> Any:
            body(vectors_of(builder, kinds), *[as_address(builder, x) for x in args])
            return c.get_dummy_value()

        return types.void(*kinds), generate

    names = ["context", *(f"a{i}" for i in range(count))]
    emitted.__signature__ = Signature([Parameter(n, Parameter.POSITIONAL_OR_KEYWORD) for n in names])  # type: ignore[attr-defined]
    return intrinsic(emitted)


class _Memory:
    """Words and floats at addresses plus constant distances."""

    def __init__(self, v: Vectors) -> None:
        self.v, self.builder = v, v.builder

    def at(self, address: Any, distance: int) -> Any:
        return self.builder.add(address, I64(distance)) if distance else address

    def word(self, address: Any, index: int = 0) -> Any:
        return self.builder.load(self.builder.inttoptr(self.at(address, 8 * index), I64.as_pointer()))

    def splat(self, address: Any, index: int = 0) -> Any:
        """One float in all lanes."""
        one = self.builder.load(self.builder.inttoptr(self.at(address, 4 * index), F32.as_pointer()))
        return self.v.splat(one)

    def vector(self, address: Any, index: int = 0) -> Any:
        return self.v.load(self.at(address, BYTES * index))

    def taps(self, positions: Any, count: int) -> tuple[Any, Any]:
        """The taps that matter to some of so many positions."""
        first, last = self.word(positions, FIRST_TAP), self.word(positions, END_TAP)
        for i in range(1, count):
            at = POSITION_WORDS * i
            other, end = self.word(positions, at + FIRST_TAP), self.word(positions, at + END_TAP)
            first = self.builder.select(self.builder.icmp_signed("<", other, first), other, first)
            last = self.builder.select(self.builder.icmp_signed(">", end, last), end, last)
        return first, last


def _lanes(count: int) -> Any:
    return ir.Constant(MASK, [i < count for i in range(WIDTH)])


def pixel_tile(rows: int, vectors: int) -> Any:
    """A tile of `rows` output channels and `vectors` times sixteen pixels.

    The function takes (image, positions, taps, packed, out, plane): `packed` holds the weights [taps, rows], `plane` is
    the distance of output channels. The tables of positions and taps are told in `words.convolution`.
    """

    def body(v: Vectors, image: Any, positions: Any, taps: Any, packed: Any, out: Any, plane: Any) -> None:
        m, b = _Memory(v), v.builder
        bases = [b.add(image, m.word(positions, POSITION_WORDS * i + PLACE)) for i in range(vectors)]
        first, last = m.taps(positions, vectors)
        taps = b.add(taps, b.mul(first, I64(TAP_BYTES)))

        def step(k: Any, *sums: Any) -> Sequence[Any]:
            tap = b.add(taps, b.mul(k, I64(TAP_BYTES)))
            ahead = m.word(tap, AHEAD)
            xs = [v.load(b.add(base, ahead)) for base in bases]
            weights = b.add(packed, b.mul(m.word(tap, WEIGHT), I64(rows)))
            products: list[Any] = []
            for r in range(rows):
                w = m.splat(weights, r)
                products += [v.fma(w, x, sums[r * vectors + i]) for i, x in enumerate(xs)]
            return products

        sums = loop(b, b.sub(last, first), [v.number(0.0)] * (rows * vectors), step)
        for i in range(vectors):
            mask = v.first_lanes(m.word(positions, POSITION_WORDS * i + PIXELS))
            target = b.add(out, m.word(positions, POSITION_WORDS * i + TARGET))
            for r in range(rows):
                v.store(sums[r * vectors + i], b.add(target, b.mul(plane, I64(r))), mask)

    return declare(6, body)


def channel_tile(spans: int, pixels: int, vectors: int) -> Any:
    """A tile of `spans` times `pixels` neighbouring pixels and `vectors` times sixteen output channels.

    The function takes (image, positions, taps, packed, out, plane, channels): `packed` holds the weights
    [taps, 16 * vectors]; only `channels` of them are written.
    """

    def body(
        v: Vectors, image: Any, positions: Any, taps: Any, packed: Any, out: Any, plane: Any, channels: Any
    ) -> None:
        m, b = _Memory(v), v.builder
        bases = [b.add(image, m.word(positions, POSITION_WORDS * i + PLACE)) for i in range(spans)]
        first, last = m.taps(positions, spans)
        taps = b.add(taps, b.mul(first, I64(TAP_BYTES)))
        packed = b.add(packed, b.mul(first, I64(BYTES * vectors)))

        def step(k: Any, *sums: Any) -> Sequence[Any]:
            back = m.word(b.add(taps, b.mul(k, I64(TAP_BYTES))), BACK)
            weights = b.add(packed, b.mul(k, I64(BYTES * vectors)))
            ws = [m.vector(weights, i) for i in range(vectors)]
            products: list[Any] = []
            for base in bases:
                place = b.sub(base, back)  # a difference is no part of an address: with two registers fmas are slower
                for p in range(pixels):
                    x = m.splat(place, p)
                    products += [v.fma(x, w, sums[len(products) + i]) for i, w in enumerate(ws)]
            return products

        sums = loop(b, b.sub(last, first), [v.number(0.0)] * (spans * pixels * vectors), step)
        inside = _lanes(pixels)
        for s in range(spans):
            target = b.add(out, m.word(positions, POSITION_WORDS * s + TARGET))
            for i in range(vectors):
                tile = [sums[(s * pixels + p) * vectors + i] for p in range(pixels)]
                for r, channel in enumerate(transposed(v, tile)):
                    with b.if_then(b.icmp_signed(">", channels, I64(i * WIDTH + r)), likely=True):
                        v.store(channel, b.add(target, b.mul(plane, I64(i * WIDTH + r))), inside)

    return declare(7, body)


def pixel_filter_tile(rows: int, lines: int, columns: int) -> Any:
    """Gradients of `lines` rows of the filter, `columns` long, for `rows` output channels.

    The function takes (g, plane, height, width, image, lines, down, sums, row): rows of the gradient g, `plane` is the
    distance of its channels; `lines` are distances in the image, `down` that of its rows an output row apart. `sums`
    holds sixteen parts of every gradient [rows, lines, columns, 16], which are added to; `row` is the distance of rows.
    """

    def body(
        v: Vectors, g: Any, plane: Any, height: Any, width: Any, image: Any, offsets: Any, down: Any, sums: Any,
        distance: Any,
    ) -> None:  # fmt: skip
        m, b = _Memory(v), v.builder
        parts = [
            m.at(b.add(sums, b.mul(distance, I64(r))), BYTES * i) for r in range(rows) for i in range(lines * columns)
        ]
        bases = [b.add(image, m.word(offsets, i)) for i in range(lines)]
        whole, rest = b.sdiv(width, I64(WIDTH)), b.srem(width, I64(WIDTH))
        mask = v.first_lanes(rest)
        pitch = b.mul(width, I64(4))

        def products(at: Any, line: Any, mask: Any, held: Sequence[Any]) -> list[Any]:
            gs = [v.load(b.add(at, b.mul(plane, I64(r))), mask) for r in range(rows)]
            totals = list(held)
            for i, base in enumerate(bases):
                place = b.add(base, line)
                for j in range(columns):
                    x = v.load(m.at(place, 4 * j), mask)
                    for r in range(rows):
                        n = (r * lines + i) * columns + j
                        totals[n] = v.fma(gs[r], x, totals[n])
            return totals

        def row(h: Any, *held: Any) -> Sequence[Any]:
            at, line = b.add(g, b.mul(h, pitch)), b.mul(h, down)

            def step(i: Any, *held: Any) -> Sequence[Any]:
                offset = b.mul(i, I64(BYTES))
                return products(b.add(at, offset), b.add(line, offset), None, held)

            held = loop(b, whole, held, step)
            offset = b.mul(whole, I64(BYTES))
            return products(b.add(at, offset), b.add(line, offset), mask, held)

        for part, total in zip(parts, loop(b, height, [v.load(p) for p in parts], row), strict=True):
            v.store(total, part)

    return declare(9, body)


def channel_filter_tile(lines: int, columns: int) -> Any:
    """Gradients of `lines` rows of the filter, `columns` long, for sixteen output channels in the lanes.

    The function takes (g, height, width, image, lines, down, left, sums): the gradient g as [pixels, 16]; `down` and
    minus `left` are distances in the image an output pixel apart. `sums` [lines, columns, 16] is added to.
    """

    def body(
        v: Vectors, g: Any, height: Any, width: Any, image: Any, offsets: Any, down: Any, left: Any, sums: Any
    ) -> None:
        m, b = _Memory(v), v.builder
        bases = [b.add(image, m.word(offsets, i)) for i in range(lines)]
        pitch = b.mul(width, I64(BYTES))

        def row(h: Any, *held: Any) -> Sequence[Any]:
            at, line = b.add(g, b.mul(h, pitch)), b.mul(h, down)
            places = [b.add(base, line) for base in bases]

            def step(w: Any, *held: Any) -> Sequence[Any]:
                y, offset = v.load(b.add(at, b.mul(w, I64(BYTES)))), b.mul(w, left)
                products: list[Any] = []
                for place in places:
                    here = b.sub(place, offset)  # as in `channel_tile`
                    products += [v.fma(m.splat(here, j), y, held[len(products) + j]) for j in range(columns)]
                return products

            return loop(b, width, held, step)

        totals = loop(b, height, [m.vector(sums, i) for i in range(lines * columns)], row)
        for i, total in enumerate(totals):
            v.store(total, m.at(sums, BYTES * i))

    return declare(8, body)


# Transposing


def _interleave(v: Vectors, source: Any, plane: Any, valid: Any, pixels: Any, out: Any) -> None:
    m, b = _Memory(v), v.builder
    last = b.sub(valid, I64(1))

    def row_of(r: int) -> Any:
        inside = b.icmp_signed("<", I64(r), valid)
        return b.add(source, b.mul(plane, b.select(inside, I64(r), last)))

    rows = [row_of(r) for r in range(WIDTH)]

    def block(i: Any) -> Sequence[Any]:
        offset = b.mul(i, I64(BYTES))
        mask = v.first_lanes(b.sub(pixels, b.mul(i, I64(WIDTH))))
        tile = [v.load(b.add(row, offset), mask) for row in rows]
        for r, column in enumerate(transposed(v, tile)):
            v.store(column, m.at(b.add(out, b.mul(offset, I64(WIDTH))), BYTES * r))
        return ()

    loop(b, b.sdiv(b.add(pixels, I64(WIDTH - 1)), I64(WIDTH)), (), block)


interleave = declare(5, _interleave)
"""(source, plane, valid, pixels, out): `valid` planes of pixels as [pixels, 16]; those missing repeat the last.

Room for a multiple of sixteen pixels is written.
"""

move = declare(3, lambda v, source, out, count: map_vectors(v, lambda v, x: x, out, [source], count))
"""(source, out, count): copy numbers."""

accumulate = declare(3, lambda v, x, out, count: map_vectors(v, Arithmetic.add, out, [out, x], count))
"""(x, out, count): add numbers to others."""


def _clear(v: Arithmetic, out: Any, count: Any) -> None:
    kind = ir.FunctionType(ir.VoidType(), [ir.IntType(8).as_pointer(), ir.IntType(8), I64, ir.IntType(1)])
    function = cgutils.get_or_insert_function(v.builder.module, kind, "llvm.memset.p0.i64")
    place = v.builder.inttoptr(out, ir.IntType(8).as_pointer())
    v.builder.call(function, [place, ir.IntType(8)(0), v.builder.mul(count, I64(v.item)), ir.IntType(1)(0)])


clear = declare(2, _clear)
"""(out, count): zeros."""
