"""Convolutions by 3 x 3 filters with strides of 1 after Winograd: four outputs of a plane from sixteen products.

Of an output tile of 2 x 2 pixels, and the 4 x 4 pixels d it is made of, with the filter g:

    y = A' [(G g G') * (B' d B)] A        (* of elements, summed over channels)

where the transforms are sums of a few terms. Tiles of all samples follow each other, a block of them at a time, and
lanes are tiles; for each of the sixteen elements the sums over channels are products of matrices, which micro-kernels
of `convolution_tiles` compute. What a tile becomes does not depend on the block it is in.

Source: Lavin and Gray, "Fast Algorithms for Convolutional Neural Networks", 2016.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llvmlite import ir

from workbench.runtime.kernels.arguments import Address, Along, Ints
from workbench.runtime.kernels.conv.tiles import BYTES, declare
from workbench.runtime.kernels.intrinsics import address_of, call_row, function, ints
from workbench.runtime.kernels.registry import kernel
from workbench.runtime.kernels.tensor.transposes import turn_part
from workbench.runtime.kernels.vectors import I32, I64, Vectors, loop
from workbench.runtime.kernels.vectors import WIDTH as LANES
from workbench.runtime.words import convolution as convolution_words
from workbench.runtime.words import winograd as winograd_words
from workbench.runtime.words.convolution import (
    AT_POSITIONS,
    AT_TAPS,
    COUNT,
    FILTER_PLANE,
    FILTER_ROW,
    FIRST_WEIGHT,
    HEIGHT,
    IMAGE,
    KERNELS,
    LEFT,
    OUT,
    OUT_HEIGHT,
    OUT_WIDTH,
    PACKED,
    PLANE,
    PLANES,
    SAMPLES,
    TOP,
    WEIGHT_STEP,
    WIDTH,
)
from workbench.runtime.words.winograd import (
    APART,
    AT_INPUTS,
    AT_LINES,
    AT_PATCHES,
    AT_SUMS,
    CHUNK,
    ELEMENTS,
    LINE_BYTES,
    PATCH_BYTES,
    PIECE_COLUMN,
    PIECE_COUNT,
    PIECE_FIRST,
    PIECE_ROW,
    PIECE_SAMPLE,
    PIECE_WORDS,
    ROWS,
    SUM_BYTES,
    TILES,
)

FOUR = ir.VectorType(ir.FloatType(), ROWS)
TILE_BYTES = 4 * TILES


def _lanes(v: Vectors, a: Any, b: Any, numbers: Sequence[int]) -> Any:
    """Lanes of two registers: from 16 on of the second."""
    return v.builder.shuffle_vector(a, b, ir.Constant(ir.VectorType(I32, len(numbers)), list(numbers)))


def _of_pixels(v: Vectors, d: Sequence[Any]) -> list[Any]:
    """B' d."""
    return [v.subtract(d[0], d[2]), v.add(d[1], d[2]), v.subtract(d[2], d[1]), v.subtract(d[1], d[3])]


def _of_weights(v: Vectors, g: Sequence[Any]) -> list[Any]:
    """G g."""
    outer = v.add(g[0], g[2])
    return [g[0], v.multiply(v.add(outer, g[1]), 0.5), v.multiply(v.subtract(outer, g[1]), 0.5), g[2]]


def _of_products(v: Vectors, m: Sequence[Any]) -> list[Any]:
    """A' m."""
    return [v.add(v.add(m[0], m[1]), m[2]), v.subtract(v.subtract(m[1], m[2]), m[3])]


def _take_row(v: Vectors, source: Any, first: Any, width: Any, out: Any) -> None:
    b = v.builder

    def pixels(number: int) -> Any:
        column = b.add(first, I64(LANES * number))
        inside = b.and_(v.first_lanes(b.sub(width, column)), b.not_(v.first_lanes(b.neg(column))))
        return v.load(b.add(source, I64(BYTES * number)), inside)

    low, high, behind = (pixels(n) for n in range(3))
    even, odd = (_lanes(v, low, high, range(n, 2 * LANES, 2)) for n in range(2))
    next_even = _lanes(v, even, behind, [*range(1, LANES), LANES])
    next_odd = _lanes(v, odd, behind, [*range(1, LANES), LANES + 1])
    for n, x in enumerate(_of_pixels(v, [even, odd, next_even, next_odd])):
        v.store(x, b.add(out, I64(PATCH_BYTES * n)))


take_row = declare(4, _take_row)
"""(source, first, width, out): a row of the pixels of sixteen tiles, times B.

source: where the first of them would be; first: its column, of `width`; what is outside of these is zero.
out: four registers, PATCH_BYTES apart.
"""


def _take_columns(v: Vectors, patches: Any, out: Any, pitch: Any) -> None:
    b = v.builder

    def vector(i: Any) -> Sequence[Any]:
        offset = b.mul(i, I64(BYTES))
        source, target = b.add(patches, offset), b.add(out, offset)
        for n in range(4):
            d = [v.load(b.add(source, I64(PATCH_BYTES * (4 * r + n)))) for r in range(4)]
            for r, x in enumerate(_of_pixels(v, d)):
                v.store(x, b.add(target, b.mul(pitch, I64(4 * r + n))))
        return ()

    loop(b, I64(TILES // LANES), (), vector)


take_columns = declare(3, _take_columns)
"""(patches, out, pitch): B' times what rows were made into; elements are `pitch` apart."""


def _give_tiles(v: Vectors, sums: Any, pitch: Any, out: Any) -> None:
    b = v.builder

    def vector(i: Any) -> Sequence[Any]:
        source, target = b.add(sums, b.mul(i, I64(BYTES))), b.add(out, b.mul(i, I64(2 * BYTES)))
        columns = [
            _of_products(v, [v.load(b.add(source, b.mul(pitch, I64(4 * r + n)))) for r in range(4)]) for n in range(4)
        ]
        for row in range(2):
            even, odd = _of_products(v, [column[row] for column in columns])
            for half in range(2):
                numbers = [LANES // 2 * half + i // 2 + i % 2 * LANES for i in range(LANES)]
                v.store(_lanes(v, even, odd, numbers), b.add(target, I64(LINE_BYTES * row + BYTES * half)))
        return ()

    loop(b, I64(TILES // LANES), (), vector)


give_tiles = declare(3, _give_tiles)
"""(sums, pitch, out): the pixels of tiles, two rows LINE_BYTES apart."""


def _put_line(v: Vectors, source: Any, out: Any, count: Any) -> None:
    b = v.builder
    for n in range(2):
        mask = v.first_lanes(b.sub(count, I64(LANES * n)))
        v.store(v.load(b.add(source, I64(BYTES * n))), b.add(out, I64(BYTES * n)), mask)


put_line = declare(3, _put_line)
"""(source, out, count): copy at most 32 floats; as many are read."""


def _pack(v: Vectors, weights: Any, step: Any, out: Any, element: Any, part: Any, parts: Any) -> None:
    b = v.builder
    g = [v.load(b.add(weights, b.mul(step, I64(n)))) for n in range(9)]
    columns = [_of_weights(v, g[n::3]) for n in range(3)]
    elements = [x for r in range(4) for x in _of_weights(v, [column[r] for column in columns])]
    for number in range(LANES // ROWS):
        with b.if_then(b.icmp_signed("<", I64(number), parts), likely=True):
            place = b.add(out, b.mul(part, I64(number)))
            for n, x in enumerate(elements):
                four = _lanes(v, x, x, range(ROWS * number, ROWS * (number + 1)))
                at = b.inttoptr(b.add(place, b.mul(element, I64(n))), FOUR.as_pointer())
                b.store(four, at).align = 4


pack = declare(6, _pack)
"""(weights, step, out, element, part, parts): G g G' of sixteen filters, by fours.

weights: nine registers, `step` bytes apart. element, part: distances of elements and of fours, of which there are
`parts`.
"""


@kernel(
    words=(winograd_words, convolution_words),
    divides=(Along("size[KERNELS]", unit=LANES),),
    requires="require_fours(size), require_weights(size)",
)
def pack_winograd(
    size: Ints("SIZE_WORDS"),
    w: Address(("size[KERNELS]", "4 * size[FILTER_ROW]"), ("size[PLANES]", "4 * size[FILTER_PLANE]"), ("TAPS", 4)),
    packed: Address("size[KERNELS]", "packed_bytes(int(size[PLANES]), ROWS) // ROWS", item=1),
    turned: Address(LANES, LANES, own=True),
):  # fmt: skip
    """The filter as [kernels / 4, elements, channels, 4], APART between elements; turned: [16, 16], of one channel."""
    element, step = 4 * ROWS * size[PLANES] + APART, BYTES * size[WEIGHT_STEP]
    for first in range(0, size[KERNELS], LANES):
        count = min(LANES, size[KERNELS] - first)
        out = packed + first // ROWS * ELEMENTS * element
        source = w + 4 * first * size[FILTER_ROW]
        for _ in range(size[PLANES]):
            turn_part(source, 4 * size[FILTER_ROW], turned, BYTES, count, 9)
            pack(turned + BYTES * size[FIRST_WEIGHT], step, out, element, ELEMENTS * element, count // ROWS)
            source, out = source + 4 * size[FILTER_PLANE], out + 4 * ROWS
    return 0


@function
def cut(size, first, count, pieces):
    """Tiles that follow each other, in pieces of at most sixteen of a row; returns how many pieces."""
    down, across = (size[OUT_HEIGHT] + 1) // 2, (size[OUT_WIDTH] + 1) // 2
    number, done = 0, 0
    while done < count:
        row, column = (first + done) // across, (first + done) % across
        piece = ints(pieces + 8 * PIECE_WORDS * number)
        piece[PIECE_SAMPLE], piece[PIECE_ROW], piece[PIECE_COLUMN] = row // down, 2 * (row % down), 2 * column
        piece[PIECE_FIRST], piece[PIECE_COUNT] = done, min(LANES, across - column, count - done)
        done, number = done + piece[PIECE_COUNT], number + 1
    return number


@function
def take_channel(size, x, channel, pieces, count, patches):
    """Rows of a channel times B."""
    height, width = size[HEIGHT], size[WIDTH]
    for number in range(count):
        piece = ints(pieces + 8 * PIECE_WORDS * number)
        plane, first = piece[PIECE_SAMPLE] * size[PLANES] + channel, piece[PIECE_COLUMN] - size[LEFT]
        for r in range(4):
            row = piece[PIECE_ROW] + r - size[TOP]
            is_inside = 0 <= row < height
            source = x + 4 * ((plane * height + row) * width + first) if is_inside else x
            take_row(source, first, width if is_inside else 0, patches + 4 * PATCH_BYTES * r + 4 * piece[PIECE_FIRST])


@function
def put_channel(size, out, channel, pieces, count, lines):
    """Pixels of tiles to where they belong."""
    height, width = size[OUT_HEIGHT], size[OUT_WIDTH]
    for number in range(count):
        piece = ints(pieces + 8 * PIECE_WORDS * number)
        row, column = piece[PIECE_ROW], piece[PIECE_COLUMN]
        plane, source = piece[PIECE_SAMPLE] * size[KERNELS] + channel, lines + 8 * piece[PIECE_FIRST]
        pixels = min(2 * piece[PIECE_COUNT], width - column)
        target = out + 4 * ((plane * height + row) * width + column)
        put_line(source, target, pixels)
        if row + 1 < height:
            put_line(source + LINE_BYTES, target + 4 * width, pixels)


@kernel(
    words=(winograd_words, convolution_words),
    divides=(Along("size[SAMPLES]", unit="samples_of_block(size)"),),
    requires="require_fours(size), require_in_block(int(size[PLANES]), positions, taps)",
)
def convolve_winograd(
    size: Ints("SIZE_WORDS"), x: Address("size[SAMPLES]", "size[PLANES]", "size[HEIGHT]", "size[WIDTH]"),
    packed: Address("packed_bytes(int(size[PLANES]), int(size[KERNELS]))", item=1),
    out: Address("size[SAMPLES]", "size[KERNELS]", "size[OUT_HEIGHT]", "size[OUT_WIDTH]"), micro,
    positions: Address("positions.nbytes", item=1), taps: Address("taps.nbytes", item=1),
    room: Address("room_bytes(int(size[PLANES]))", item=1, own=True), row: Ints("ROW_WORDS", own=True),
):  # fmt: skip
    """A convolution by a filter that `pack_winograd` has packed.

    micro: the address of the micro-kernel; room: see `words.winograd`; row: that of micro-kernels.
    """
    channels, kernels = size[PLANES], size[KERNELS]
    tiles = size[SAMPLES] * ((size[OUT_HEIGHT] + 1) // 2) * ((size[OUT_WIDTH] + 1) // 2)
    inputs, sums, pitch = room + AT_INPUTS, room + AT_SUMS, TILE_BYTES * channels + APART
    weights = 4 * ROWS * channels + APART
    row[AT_POSITIONS], row[COUNT], row[AT_TAPS], row[PLANE] = positions, TILES // LANES, taps, TILE_BYTES
    for start in range(0, tiles, TILES):
        pieces = cut(size, start, min(TILES, tiles - start), room)
        for channel in range(channels):
            take_channel(size, x, channel, room, pieces, room + AT_PATCHES)
            take_columns(room + AT_PATCHES, inputs + TILE_BYTES * channel, pitch)
        row[PACKED] = packed
        for first in range(0, kernels, CHUNK):
            count = min(CHUNK, kernels - first)
            for k in range(0, count, ROWS):
                for element in range(ELEMENTS):
                    row[IMAGE], row[OUT] = inputs + pitch * element, sums + SUM_BYTES * element + TILE_BYTES * k
                    call_row(micro, address_of(row))
                    row[PACKED] += weights
            for k in range(count):
                give_tiles(sums + TILE_BYTES * k, SUM_BYTES, room + AT_LINES)
                put_channel(size, out, first + k, room, pieces, room + AT_LINES)
    return 0
