"""Vector code: element-wise work block by block, each instruction one function of a whole block."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from workbench.runtime.kernels.functions import ARGUMENTS, BODIES
from workbench.runtime.kernels.intrinsics import FLOATS, INT, ROW, address_of, floats, function, ints, truths
from workbench.runtime.kernels.registry import kernel
from workbench.runtime.kernels.vectors import map_vectors
from workbench.runtime.native.opcodes import (
    ADVANCES,
    BLOCK,
    COLUMN_SUM,
    FUNCTIONS,
    GATHERED,
    HEAD_WORDS,
    INSTRUCTION_WORDS,
    INSTRUCTIONS,
    LEAF_WORDS,
    LEAVES,
    SCALAR,
    SLOTS,
    STORES,
    TILED,
    TOTAL,
    TRUTHS,
)
from workbench.runtime.native.words import DECLINED


@intrinsic
def apply(context: Any, number: Any, out: Any, a: Any, b: Any, c: Any, count: Any) -> Any:
    """Run one function of vector code on `count` floats."""

    def generate(cx: Any, builder: Any, signature: Any, args: Any) -> Any:
        number, out, *operands, count = args
        behind = builder.append_basic_block("behind")
        switch = builder.switch(number, behind)
        for i, name in enumerate(FUNCTIONS):
            block = builder.append_basic_block(name)
            switch.add_case(ir.Constant(ir.IntType(64), i), block)
            builder.position_at_end(block)
            map_vectors(builder, BODIES[name], out, operands[: ARGUMENTS[name]], count)
            builder.branch(behind)
        builder.position_at_end(behind)
        return cx.get_dummy_value()

    return types.void(INT, INT, INT, INT, INT, INT), generate


@function
def gather(out, leaf, start, count):
    """Elements `start` … of an array of any strides, to `out`."""
    source, d1, d2, d3 = floats(leaf[3]), leaf[5], leaf[6], leaf[7]
    s0, s1, s2, s3 = leaf[8], leaf[9], leaf[10], leaf[11]
    i3 = start % d3
    rest = start // d3
    i2 = rest % d2
    rest = rest // d2
    i1 = rest % d1
    i0 = rest // d1
    done = 0
    while done < count:
        n = min(d3 - i3, count - done)
        at = i0 * s0 + i1 * s1 + i2 * s2 + i3 * s3
        if s3 == 1:
            for j in range(n):
                out[done + j] = source[at + j]
        elif s3 == 0:
            x = source[at]
            for j in range(n):
                out[done + j] = x
        else:
            for j in range(n):
                out[done + j] = source[at + j * s3]
        done += n
        i3 = 0
        i2 += 1
        if i2 == d2:
            i2 = 0
            i1 += 1
            if i1 == d1:
                i1 = 0
                i0 += 1


@function
def scatter(source, leaf, start, count):
    """`gather` the other way round."""
    out, d1, d2, d3 = floats(leaf[3]), leaf[5], leaf[6], leaf[7]
    s0, s1, s2, s3 = leaf[8], leaf[9], leaf[10], leaf[11]
    i3 = start % d3
    rest = start // d3
    i2 = rest % d2
    rest = rest // d2
    i1 = rest % d1
    i0 = rest // d1
    for done in range(count):
        out[i0 * s0 + i1 * s1 + i2 * s2 + i3 * s3] = source[done]
        i3 += 1
        if i3 == d3:
            i3 = 0
            i2 += 1
            if i2 == d2:
                i2 = 0
                i1 += 1
                if i1 == d1:
                    i1 = 0
                    i0 += 1


@function
def load_truths(out, address, count):
    source = truths(address)
    for i in range(count):
        out[i] = source[i]


@function
def store_truths(source, address, count):
    out = truths(address)
    for i in range(count):
        out[i] = source[i] != 0


@function
def fill_once(leaf, block):
    """What does not change from block to block."""
    out = floats(leaf[2])
    if leaf[0] == SCALAR:
        x = floats(leaf[3])[0]
        for i in range(block):
            out[i] = x
    elif leaf[0] == TILED:
        source, period = floats(leaf[3]), leaf[7]
        for begin in range(0, block, period):
            for i in range(period):
                out[begin + i] = source[i]


@function
def add_rows(out, rows, width, count, is_first):
    """Add the rows of a block to `out`, the first to nothing."""
    begin = 0
    if is_first:
        for j in range(width):
            out[j] = rows[j]
        begin = width
    for start in range(begin, count, width):
        for j in range(width):
            out[j] += rows[start + j]


@kernel(ROW)
def vector(row):
    """Element-wise work; the words of the row are those of `native.opcodes`."""
    total, block = row[TOTAL], row[BLOCK]
    first_slot = address_of(row) + 8 * HEAD_WORDS
    slots = ints(first_slot)
    leaves = first_slot + 8 * row[SLOTS]
    code = leaves + 8 * LEAF_WORDS * row[LEAVES]
    stores = code + 8 * INSTRUCTION_WORDS * row[INSTRUCTIONS]
    for k in range(row[LEAVES]):
        leaf = ints(leaves + 8 * LEAF_WORDS * k)
        fill_once(leaf, block)
    for start in range(0, total, block):
        count = min(block, total - start)
        for k in range(row[LEAVES]):
            leaf = ints(leaves + 8 * LEAF_WORDS * k)
            if leaf[0] == ADVANCES:
                slots[leaf[1]] = leaf[3] + 4 * start
            elif leaf[0] == GATHERED:
                gather(floats(leaf[2]), leaf, start, count)
            elif leaf[0] == TRUTHS:
                load_truths(floats(leaf[2]), leaf[3] + start, count)
        for k in range(row[INSTRUCTIONS]):
            word = ints(code + 8 * INSTRUCTION_WORDS * k)
            if word[0] == COLUMN_SUM:
                add_rows(floats(word[1]), floats(slots[word[2]]), word[5], count, start == 0)
            else:
                apply(word[0], slots[word[1]], slots[word[2]], slots[word[3]], slots[word[4]], count)
        for k in range(row[STORES]):
            leaf = ints(stores + 8 * LEAF_WORDS * k)
            if leaf[0] == GATHERED:
                scatter(floats(slots[leaf[1]]), leaf, start, count)
            elif leaf[0] == TRUTHS:
                store_truths(floats(slots[leaf[1]]), leaf[3] + start, count)
    return 0


@kernel(FLOATS, INT, INT)
def require_equal(numbers, count, stride):
    """DECLINED unless all numbers are the same."""
    for i in range(1, count):
        if numbers[i * stride] != numbers[0]:
            return DECLINED
    return 0
