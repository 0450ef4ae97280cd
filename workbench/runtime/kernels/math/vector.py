"""Vector code: element-wise work block by block, each instruction one function of a whole block."""

from __future__ import annotations

from typing import Any

from numba import types
from numba.extending import intrinsic

from workbench.runtime.kernels.arguments import Floats, Words
from workbench.runtime.kernels.functions import BODIES
from workbench.runtime.kernels.intrinsics import INT, address_of, floats, function, ints, truths
from workbench.runtime.kernels.math.chain import run_chain
from workbench.runtime.kernels.registry import kernel
from workbench.runtime.kernels.vectors import I64, BlockOperand, add_rows, map_long
from workbench.runtime.words.codes import DECLINED
from workbench.runtime.words.opcodes import (
    ADVANCES,
    BLOCK,
    CHAIN,
    CODE_WORDS,
    COLUMN_SUM,
    GATHERED,
    HEAD_WORDS,
    LEAF_WORDS,
    LEAVES,
    LONG,
    LONG_NUMBER,
    SCALAR,
    SLOT_WORDS,
    SLOTS,
    STORES,
    TILED,
    TOTAL,
    TRUTHS,
    vector_touched,
)

LANES = 64  # of long functions: several registers, as one step of a function waits long for the one before


@intrinsic
def run_long(context: Any, number: Any, out: Any, a: Any, a_mask: Any, b: Any, b_mask: Any, count: Any) -> Any:
    """Run one long function on `count` floats."""

    def generate(cx: Any, builder: Any, signature: Any, args: Any) -> Any:
        number, out, *words, count = args
        operands = [BlockOperand(*words[i : i + 2]) for i in (0, 2)]
        behind = builder.append_basic_block("behind")
        switch = builder.switch(number, behind)
        for name, operand_count in LONG.items():
            block = builder.append_basic_block(name)
            switch.add_case(I64(LONG_NUMBER[name]), block)
            builder.position_at_end(block)
            map_long(builder, BODIES[name], out, operands[:operand_count], count, LANES)
            builder.branch(behind)
        builder.position_at_end(behind)
        return cx.get_dummy_value()

    return types.void(INT, INT, INT, INT, INT, INT, INT), generate


@intrinsic
def sum_columns(context: Any, out: Any, rows: Any, width: Any, count: Any, is_first: Any) -> Any:
    """See `vectors.add_rows`."""

    def generate(cx: Any, builder: Any, signature: Any, args: Any) -> Any:
        add_rows(builder, *args)
        return cx.get_dummy_value()

    return types.void(INT, INT, INT, INT, types.boolean), generate


@function
def place_of(leaf, start):
    """Element `start` of an array of any strides: where it is, and its indices but the first."""
    d1, d2, d3 = leaf[6], leaf[7], leaf[8]
    i3 = start % d3
    rest = start // d3
    i2 = rest % d2
    rest = rest // d2
    i1 = rest % d1
    return (rest // d1) * leaf[9] + i1 * leaf[10] + i2 * leaf[11] + i3 * leaf[12], i1, i2, i3


@function
def next_run(leaf, at, i1, i2, i3):
    """From anywhere in a run along the last dimension to the begin of the next one."""
    at += leaf[11] - i3 * leaf[12]
    i2 += 1
    if i2 == leaf[7]:
        i2 = 0
        at += leaf[10] - leaf[7] * leaf[11]
        i1 += 1
        if i1 == leaf[6]:
            i1 = 0
            at += leaf[9] - leaf[6] * leaf[10]
    return at, i1, i2


@function
def gather(out, source, leaf, start, count):
    """Elements `start` … of an array of any strides, to `out`."""
    stride = leaf[12]
    at, i1, i2, i3 = place_of(leaf, start)
    done = 0
    while done < count:
        n = min(leaf[8] - i3, count - done)
        if stride == 1:
            for j in range(n):
                out[done + j] = source[at + j]
        elif stride == 0:
            x = source[at]
            for j in range(n):
                out[done + j] = x
        else:
            for j in range(n):
                out[done + j] = source[at + j * stride]
        done += n
        at, i1, i2 = next_run(leaf, at, i1, i2, i3)
        i3 = 0


@function
def scatter(source, leaf, start, count):
    """`gather` the other way round."""
    out, stride = floats(leaf[4]), leaf[12]
    at, i1, i2, i3 = place_of(leaf, start)
    done = 0
    while done < count:
        n = min(leaf[8] - i3, count - done)
        if stride == 1:
            for j in range(n):
                out[at + j] = source[done + j]
        else:
            for j in range(n):
                out[at + j * stride] = source[done + j]
        done += n
        at, i1, i2 = next_run(leaf, at, i1, i2, i3)
        i3 = 0


@function
def store_truths(source, address, count):
    out = truths(address)
    for i in range(count):
        out[i] = source[i] != 0


@function
def fill_once(leaf):
    """What does not change from block to block."""
    out, source = floats(leaf[2]), floats(leaf[4])
    if leaf[0] == SCALAR:
        x = source[0]
        for i in range(leaf[3]):
            out[i] = x
    elif leaf[0] == TILED:
        period = leaf[8]
        for begin in range(0, leaf[3], period):
            for i in range(period):
                out[begin + i] = source[i]


@function
def fill(leaf, slots, start, count):
    """What is read next, or, of results, where the next block goes."""
    if leaf[0] == ADVANCES:
        slots[leaf[1]] = leaf[4] + 4 * start
    elif leaf[0] == GATHERED:
        gather(floats(leaf[2]), floats(leaf[4]), leaf, start, count)
    elif leaf[0] == TRUTHS:
        gather(floats(leaf[2]), truths(leaf[4]), leaf, start, count)


@function
def run_code(code, end, slots_address, start, count):
    """Run the instructions on a block."""
    slots = ints(slots_address)
    while code < end:
        word = ints(code)
        if word[0] == CHAIN:
            run_chain(code + 16, code + 8 * word[1], slots_address, count)
        elif word[0] == COLUMN_SUM:
            sum_columns(word[2], slots[word[3]], word[4], count, start == 0)
        else:
            a, b = word[3], word[4]
            run_long(word[0], slots[word[2]], slots[a], slots[a + 1], slots[b], slots[b + 1], count)
        code += 8 * word[1]


@kernel()
def vector(row: Words(vector_touched)):
    """Element-wise work; the words of the row are those of `native.opcodes`."""
    total, block = row[TOTAL], row[BLOCK]
    slots = address_of(row) + 8 * HEAD_WORDS
    leaves = slots + 8 * SLOT_WORDS * row[SLOTS]
    code = leaves + 8 * LEAF_WORDS * row[LEAVES]
    stores = code + 8 * row[CODE_WORDS]
    for k in range(row[LEAVES]):
        fill_once(ints(leaves + 8 * LEAF_WORDS * k))
    for start in range(0, total, block):
        count = min(block, total - start)
        for k in range(row[LEAVES]):
            fill(ints(leaves + 8 * LEAF_WORDS * k), ints(slots), start, count)
        run_code(code, stores, slots, start, count)
        for k in range(row[STORES]):
            leaf = ints(stores + 8 * LEAF_WORDS * k)
            source = floats(ints(slots)[leaf[1]])
            if leaf[0] == GATHERED:
                scatter(source, leaf, start, count)
            else:
                store_truths(source, leaf[4] + start, count)
    return 0


@kernel()
def require_equal(number: Floats(1), others: Floats(("count", "4 * stride")), count, stride):
    """DECLINED unless all others are the same as one number."""
    for i in range(count):
        if others[i * stride] != number[0]:
            return DECLINED
    return 0
