"""Transposes and copies; blocks of 16 x 16 float32 or 8 x 8 float64 are turned in registers. Strides are in bytes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from workbench.runtime.footprint import DOUBLE, FLOAT
from workbench.runtime.kernels.arguments import Address, Along, Bytes, Reals
from workbench.runtime.kernels.intrinsics import INT, address_of, bytes_behind, function, item_of
from workbench.runtime.kernels.registry import kernel
from workbench.runtime.kernels.vectors import (
    I32,
    I64,
    MASK,
    WIDTH,
    Arithmetic,
    Doubles,
    Vectors,
    as_address,
    map_vectors,
    vectors_of,
)

QUAD = ir.VectorType(ir.FloatType(), 4)
PER_LINE = 8  # float64 of a cache line
_LOW, _HIGH = (0, 4, 1, 5), (2, 6, 3, 7)  # of four lanes each of two registers, alternately
_FIRST, _LAST = (0, 1, 4, 5), (2, 3, 6, 7)


def _row(builder: Any, start: Any, pitch: Any, number: int) -> Any:
    return builder.add(start, builder.mul(pitch, I64(number)))


def _mix(v: Vectors, a: Any, b: Any, pattern: Sequence[int]) -> Any:
    """Of every four lanes of `a` and `b` those of the pattern: 0 to 3 of `a`, 4 to 7 of `b`."""
    lanes = [4 * quad + (p if p < 4 else WIDTH + p - 4) for quad in range(4) for p in pattern]
    return v.builder.shuffle_vector(a, b, ir.Constant(ir.VectorType(I32, WIDTH), lanes))


def _turned(v: Vectors, rows: Sequence[Any]) -> list[Any]:
    """Four registers whose quads are 4 x 4 matrices, with each of these transposed."""
    low, high = _mix(v, rows[0], rows[1], _LOW), _mix(v, rows[0], rows[1], _HIGH)
    low2, high2 = _mix(v, rows[2], rows[3], _LOW), _mix(v, rows[2], rows[3], _HIGH)
    return [_mix(v, a, b, pattern) for a, b in ((low, low2), (high, high2)) for pattern in (_FIRST, _LAST)]


def _quad_masks(builder: Any) -> list[Any]:
    """Masks of the second, third and fourth quad, of which LLVM does not know what they are.

    Loads that are merged into a register by such a mask need no shuffle; LLVM would make shuffles of known ones, and
    there is one port for these. A weak symbol could have another value, so it has to be read.
    """
    name = "workbench.one"
    one = builder.module.globals.get(name)
    if one is None:
        one = ir.GlobalVariable(builder.module, I64, name)
        one.linkage, one.initializer = "weak", I64(1)
    factor = builder.load(one)
    bits = [builder.trunc(builder.mul(factor, I64(0xF << 4 * quad)), ir.IntType(16)) for quad in (1, 2, 3)]
    return [builder.bitcast(b, MASK) for b in bits]


@intrinsic
def turn_block(context: Any, source: Any, source_pitch: Any, out: Any, out_pitch: Any) -> Any:
    """`out[j, i] = source[i, j]` for 16 x 16 floats."""

    def generate(cx: Any, builder: Any, signature: Any, args: Any) -> Any:
        source, source_pitch, out, out_pitch = args
        v, masks = Vectors(builder), _quad_masks(builder)
        everywhere = ir.Constant(ir.VectorType(I32, WIDTH), [0, 1, 2, 3] * 4)

        def quad(row: int, number: int) -> Any:
            """Four floats of a row, four times."""
            at = builder.add(_row(builder, source, source_pitch, row), I64(16 * number))
            loaded = builder.load(builder.inttoptr(at, QUAD.as_pointer()))
            loaded.align = 4
            return builder.shuffle_vector(loaded, ir.Constant(QUAD, ir.Undefined), everywhere)

        held: list[Any] = [None] * 16  # of every fourth row, by row and quad
        for row in range(WIDTH):  # a line after the other: sixteen of a bad pitch would push each other out
            for number in range(4):
                place = row % 4 * 4 + number
                loaded = quad(row, number)
                held[place] = builder.select(masks[row // 4 - 1], loaded, held[place]) if row >= 4 else loaded
        for number in range(4):
            for j, column in enumerate(_turned(v, held[number::4])):
                v.store(column, _row(builder, out, out_pitch, 4 * number + j))
        return cx.get_dummy_value()

    return types.void(INT, INT, INT, INT), generate


@intrinsic
def turn_part(context: Any, source: Any, source_pitch: Any, out: Any, out_pitch: Any, rows: Any, cols: Any) -> Any:
    """The same for at most 16 rows and 16 columns; nothing else is touched."""

    def generate(cx: Any, builder: Any, signature: Any, args: Any) -> Any:
        source, source_pitch, out, out_pitch, rows, cols = args
        v = Vectors(builder)
        row_mask, col_mask, nothing = v.first_lanes(rows), v.first_lanes(cols), ir.Constant(MASK, [0] * WIDTH)

        def mask(number: int, count: Any, given: Any) -> Any:
            return builder.select(builder.icmp_signed("<", I64(number), count), given, nothing)

        lines = [
            v.load(_row(builder, source, source_pitch, i), mask(i, rows, col_mask)) for i in range(WIDTH)
        ]  # fmt: skip
        turned = [_turned(v, lines[4 * group : 4 * group + 4]) for group in range(4)]  # [group][j]: quads of columns
        for j in range(4):
            for number, column in enumerate(_quads_turned(v, [turned[group][j] for group in range(4)])):
                at = 4 * number + j
                v.store(column, _row(builder, out, out_pitch, at), mask(at, cols, row_mask))
        return cx.get_dummy_value()

    return types.void(INT, INT, INT, INT, INT, INT), generate


def _quads_turned(v: Vectors, rows: Sequence[Any]) -> list[Any]:
    """Four registers as a 4 x 4 matrix of quads, transposed."""

    def halves(a: Any, b: Any, numbers: Sequence[int]) -> Any:
        lanes = [4 * (n % 4) + i + (WIDTH if n >= 4 else 0) for n in numbers for i in range(4)]
        return v.builder.shuffle_vector(a, b, ir.Constant(ir.VectorType(I32, WIDTH), lanes))

    low, high = halves(rows[0], rows[1], _LOW), halves(rows[0], rows[1], _HIGH)
    low2, high2 = halves(rows[2], rows[3], _LOW), halves(rows[2], rows[3], _HIGH)
    return [halves(a, b, pattern) for a, b in ((low, low2), (high, high2)) for pattern in (_FIRST, _LAST)]


@function
def transpose_matrix(source, source_pitch, out, out_pitch, rows, cols):
    """`out[j, i] = source[i, j]`; elements of a row lie side by side in both."""
    for i in range(0, rows, 16):
        for j in range(0, cols, 16):
            here, there = source + i * source_pitch + 4 * j, out + j * out_pitch + 4 * i
            if rows - i >= 16 and cols - j >= 16:
                turn_block(here, source_pitch, there, out_pitch)
            else:
                turn_part(here, source_pitch, there, out_pitch, min(rows - i, 16), min(cols - j, 16))


def transposed(v: Arithmetic, rows: Sequence[Any]) -> list[Any]:
    """As many registers as they have lanes, from at most so many: lane j of register i goes to lane i of register j.

    Pairs are interleaved in rounds: after each, twice as many lanes of a register come from one column.
    """
    lanes = v.lanes
    half, undefined = lanes // 2, ir.Constant(v.kind, ir.Undefined)
    turned = [*rows, *[undefined] * (lanes - len(rows))]
    low = ir.Constant(ir.VectorType(I32, lanes), [i // 2 + (i % 2) * lanes for i in range(lanes)])
    high = ir.Constant(ir.VectorType(I32, lanes), [half + i // 2 + (i % 2) * lanes for i in range(lanes)])
    for _ in range(lanes.bit_length() - 1):
        halves: list[Any] = []
        for a, b in zip(turned[:half], turned[half:], strict=True):
            halves += [v.builder.shuffle_vector(a, b, low), v.builder.shuffle_vector(a, b, high)]
        turned = halves
    return turned


@intrinsic
def turn_doubles(context: Any, source: Any, source_pitch: Any, out: Any, out_pitch: Any, rows: Any, cols: Any) -> Any:
    """`out[j, i] = source[i, j]` for at most 8 x 8 float64; nothing else is touched."""

    def generate(cx: Any, builder: Any, signature: Any, args: Any) -> Any:
        source, source_pitch, out, out_pitch, rows, cols = args
        v = Doubles(builder, PER_LINE)

        def mask(number: int, count: Any, lanes: Any) -> Any:
            return v.first_lanes(builder.select(builder.icmp_signed("<", I64(number), count), lanes, I64(0)))

        lines = [v.load(_row(builder, source, source_pitch, i), mask(i, rows, cols)) for i in range(PER_LINE)]
        for j, column in enumerate(transposed(v, lines)):
            v.store(column, _row(builder, out, out_pitch, j), mask(j, cols, rows))
        return cx.get_dummy_value()

    return types.void(INT, INT, INT, INT, INT, INT), generate


@function
def turn(source, source_pitch, out, out_pitch, rows, cols):
    """`transpose_matrix` of what pointers point to."""
    if item_of(source) == FLOAT:
        transpose_matrix(address_of(source), source_pitch, address_of(out), out_pitch, rows, cols)
        return
    for i in range(0, rows, PER_LINE):
        for j in range(0, cols, PER_LINE):
            here = address_of(source) + i * source_pitch + DOUBLE * j
            there = address_of(out) + j * out_pitch + DOUBLE * i
            turn_doubles(here, source_pitch, there, out_pitch, min(rows - i, PER_LINE), min(cols - j, PER_LINE))


@intrinsic
def copy_floats(context: Any, source: Any, out: Any, count: Any) -> Any:
    """`count` numbers of what pointers point to, float32 at addresses; memcpy would cost more than a short row."""
    kinds = source, out

    def generate(cx: Any, builder: Any, signature: Any, args: Any) -> Any:
        source, out = (as_address(builder, x) for x in args[:2])
        map_vectors(vectors_of(builder, kinds), lambda v, x: x, out, [source], args[2])
        return cx.get_dummy_value()

    return types.void(*kinds, INT), generate


@kernel(divides=("n0", "n1", "n2", Along("cols", unit=WIDTH), Along("rows", unit=WIDTH)))
def transpose(
    source: Reals(
        ("rows", "source_pitch"), ("cols", "item"), ("n0", "source0"), ("n1", "source1"), ("n2", "source2")
    ),
    source_pitch, out: Reals(("cols", "out_pitch"), ("rows", "item"), ("n0", "out0"), ("n1", "out1"), ("n2", "out2")),
    out_pitch, rows, cols, n0, source0, out0, n1, source1, out1, n2, source2, out2,
):  # fmt: skip
    """Transpose every matrix of a batch of n0 x n1 x n2, whose strides follow the sizes."""
    for i in range(n0):
        for j in range(n1):
            for k in range(n2):
                here = bytes_behind(source, i * source0 + j * source1 + k * source2)
                there = bytes_behind(out, i * out0 + j * out1 + k * out2)
                turn(here, source_pitch, there, out_pitch, rows, cols)
    return 0


@kernel(divides=("n0", "n1", "n2"))
def copy_rows(
    source: Address(("count", 4), ("n0", "source0"), ("n1", "source1"), ("n2", "source2")),
    out: Address(("count", 4), ("n0", "out0"), ("n1", "out1"), ("n2", "out2")), count, n0, source0, out0, n1,
    source1, out1, n2, source2, out2,
):  # fmt: skip
    """Copy n0 x n1 x n2 rows of `count` floats."""
    for i in range(n0):
        for j in range(n1):
            for k in range(n2):
                here = source + i * source0 + j * source1 + k * source2
                there = out + i * out0 + j * out1 + k * out2
                copy_floats(here, there, count)
    return 0


@kernel()
def move_entries(
    source: Bytes(("size", 1), ("n0", "source0"), ("n1", "source1"), ("n2", "source2"), ("n3", "source3")),
    out: Bytes(("size", 1), ("n0", "out0"), ("n1", "out1"), ("n2", "out2"), ("n3", "out3")), size, n0, source0, out0,
    n1, source1, out1, n2, source2, out2, n3, source3, out3,
):  # fmt: skip
    """Copy n0 x n1 x n2 x n3 entries of `size` bytes, such as integers or truth values."""
    for i in range(n0):
        for j in range(n1):
            for k in range(n2):
                for m in range(n3):
                    here = i * source0 + j * source1 + k * source2 + m * source3
                    there = i * out0 + j * out1 + k * out2 + m * out3
                    for b in range(size):
                        out[there + b] = source[here + b]
    return 0
