"""Vector code: element-wise work block by block, each instruction one function of a whole block."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types
from numba.extending import intrinsic

from workbench.runtime.kernels.arguments import Floats, Ints, Words
from workbench.runtime.kernels.functions import BODIES
from workbench.runtime.kernels.intrinsics import (
    INT,
    address_of,
    doubles,
    float_bits,
    float_of_bits,
    floats,
    function,
    halves,
    ints,
    truths,
)
from workbench.runtime.kernels.math.chain import chain_of
from workbench.runtime.kernels.registry import kernel
from workbench.runtime.kernels.vectors import I64, Arithmetic, BlockOperand, Doubles, Vectors, add_rows, map_long
from workbench.runtime.words.codes import DECLINED
from workbench.runtime.words.opcodes import (
    ADVANCES,
    BFLOAT16S,
    BLOCK,
    CHAIN,
    CODE_WORDS,
    COLUMN_SUM,
    FLOAT16S,
    FLOAT32S,
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
    vector_of_doubles_touched,
    vector_touched,
)

_BYTES = 256  # of a round of long functions: several registers, as one step of a function waits for the one before


def long_functions(numbers: type[Arithmetic]) -> Any:
    """A function of kernels that runs one long function on a count of numbers of one kind."""

    @intrinsic
    def run_long(context: Any, number: Any, out: Any, a: Any, a_mask: Any, b: Any, b_mask: Any, count: Any) -> Any:
        def generate(cx: Any, builder: Any, signature: Any, args: Any) -> Any:
            number, out, *words, count = args
            operands = [BlockOperand(*words[i : i + 2]) for i in (0, 2)]
            behind = builder.append_basic_block("behind")
            switch = builder.switch(number, behind)
            v = numbers(builder, _BYTES // numbers.item)
            for name, operand_count in LONG.items():
                block = builder.append_basic_block(name)
                switch.add_case(I64(LONG_NUMBER[name]), block)
                builder.position_at_end(block)
                map_long(v, BODIES[name], out, operands[:operand_count], count)
                builder.branch(behind)
            builder.position_at_end(behind)
            return cx.get_dummy_value()

        return types.void(INT, INT, INT, INT, INT, INT, INT), generate

    return run_long


def column_sums(numbers: type[Arithmetic]) -> Any:
    """See `vectors.add_rows`."""

    @intrinsic
    def sum_columns(context: Any, out: Any, rows: Any, width: Any, count: Any, is_first: Any) -> Any:
        def generate(cx: Any, builder: Any, signature: Any, args: Any) -> Any:
            add_rows(numbers(builder), *args)
            return cx.get_dummy_value()

        return types.void(INT, INT, INT, INT, types.boolean), generate

    return sum_columns


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


def gather_as(number_of: Any) -> Any:
    """`gather(out, source, leaf, start, count)`: elements `start` … of an array of any strides, to `out`.

    Args:
        number_of: an element as a number.
    """

    @function
    def gather(out, source, leaf, start, count):
        stride = leaf[12]
        at, i1, i2, i3 = place_of(leaf, start)
        done = 0
        while done < count:
            n = min(leaf[8] - i3, count - done)
            if stride == 1:
                for j in range(n):
                    out[done + j] = number_of(source[at + j])
            elif stride == 0:
                x = number_of(source[at])
                for j in range(n):
                    out[done + j] = x
            else:
                for j in range(n):
                    out[done + j] = number_of(source[at + j * stride])
            done += n
            at, i1, i2 = next_run(leaf, at, i1, i2, i3)
            i3 = 0

    return gather


def scatter_as(element_of: Any) -> Any:
    """`scatter(source, out, leaf, start, count)`: `gather` the other way round."""

    @function
    def scatter(source, out, leaf, start, count):
        stride = leaf[12]
        at, i1, i2, i3 = place_of(leaf, start)
        done = 0
        while done < count:
            n = min(leaf[8] - i3, count - done)
            if stride == 1:
                for j in range(n):
                    out[at + j] = element_of(source[done + j])
            else:
                for j in range(n):
                    out[at + j * stride] = element_of(source[done + j])
            done += n
            at, i1, i2 = next_run(leaf, at, i1, i2, i3)
            i3 = 0

    return scatter


# Elements as numbers, and numbers that have the value of an element as one


@function
def as_it_is(x):
    return x


@function
def of_bfloat16(bits):
    return float_of_bits(np.uint32(bits) << np.uint32(16))


@function
def as_bfloat16(x):
    return np.uint16(float_bits(x) >> np.uint32(16))


@function
def of_float16(bits):
    """By a product, which also brings numbers below the least normal one to where they belong."""
    wide = np.uint32(bits)
    size = wide & np.uint32(0x7FFF)
    x = float_bits(float_of_bits(size << np.uint32(13)) * np.float32(2.0**112))
    x = np.uint32(0x7F800000) | (size << np.uint32(13)) if size >= np.uint32(0x7C00) else x
    return float_of_bits(x | ((wide & np.uint32(0x8000)) << np.uint32(16)))


@function
def as_float16(x):
    """Numbers below the least normal one, 2^-14, have the bits behind the point of their sum with 1/2."""
    bits = float_bits(x)
    size = bits & np.uint32(0x7FFFFFFF)
    small = float_bits(float_of_bits(size) + np.float32(0.5)) - np.uint32(0x3F000000)
    other = (size - np.uint32(112 << 23)) >> np.uint32(13)
    half = small if size < np.uint32(0x38800000) else other
    half = np.uint32(0x7C00) if size >= np.uint32(0x7F800000) else half
    half = np.uint32(0x7E00) if size > np.uint32(0x7F800000) else half
    return np.uint16(half | ((bits >> np.uint32(16)) & np.uint32(0x8000)))


@function
def as_float32(x):
    return np.float32(x)


gather, scatter = gather_as(as_it_is), scatter_as(as_it_is)
gather_bfloat16s, scatter_bfloat16s = gather_as(of_bfloat16), scatter_as(as_bfloat16)
gather_float16s, scatter_float16s = gather_as(of_float16), scatter_as(as_float16)
scatter_float32s = scatter_as(as_float32)


@function
def gather_shorter_floats(out, leaf, start, count):
    if leaf[0] == BFLOAT16S:
        gather_bfloat16s(out, halves(leaf[4]), leaf, start, count)
    elif leaf[0] == FLOAT16S:
        gather_float16s(out, halves(leaf[4]), leaf, start, count)


@function
def scatter_shorter_floats(source, leaf, start, count):
    if leaf[0] == BFLOAT16S:
        scatter_bfloat16s(source, halves(leaf[4]), leaf, start, count)
    elif leaf[0] == FLOAT16S:
        scatter_float16s(source, halves(leaf[4]), leaf, start, count)


@function
def gather_shorter_doubles(out, leaf, start, count):
    if leaf[0] == FLOAT32S:
        gather(out, floats(leaf[4]), leaf, start, count)


@function
def scatter_shorter_doubles(source, leaf, start, count):
    if leaf[0] == FLOAT32S:
        scatter_float32s(source, floats(leaf[4]), leaf, start, count)


@function
def store_truths(source, address, count):
    out = truths(address)
    for i in range(count):
        out[i] = source[i] != 0


def reading_of(numbers: type[Arithmetic], at: Any, gather_shorter: Any) -> tuple[Any, Any]:
    """Functions of a leaf: the first fills what does not change from block to block, the second what is read next."""
    item = numbers.item

    @function
    def fill_once(leaf):
        out, source = at(leaf[2]), at(leaf[4])
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
        """Of results, it tells where the next block goes."""
        if leaf[0] == ADVANCES:
            slots[leaf[1]] = leaf[4] + item * start
        elif leaf[0] == GATHERED:
            gather(at(leaf[2]), at(leaf[4]), leaf, start, count)
        elif leaf[0] == TRUTHS:
            gather(at(leaf[2]), truths(leaf[4]), leaf, start, count)
        else:
            gather_shorter(at(leaf[2]), leaf, start, count)

    return fill_once, fill


def code_of(numbers: type[Arithmetic]) -> Any:
    """A function that runs instructions on a block."""
    run_chain, run_long, sum_columns = chain_of(numbers), long_functions(numbers), column_sums(numbers)

    @function
    def run_code(code, end, slots_address, start, count):
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

    return run_code


def vector_of(numbers: type[Arithmetic], at: Any, gather_shorter: Any, scatter_shorter: Any) -> Any:
    """The body of a kernel for vector code.

    Args:
        numbers: what it works on. at: an address as a pointer to such numbers.
        gather_shorter, scatter_shorter: of arrays of shorter numbers.
    """
    fill_once, fill = reading_of(numbers, at, gather_shorter)
    run_code = code_of(numbers)

    @function
    def run(row):
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
                source = at(ints(slots)[leaf[1]])
                if leaf[0] == GATHERED:
                    scatter(source, at(leaf[4]), leaf, start, count)
                elif leaf[0] == TRUTHS:
                    store_truths(source, leaf[4] + start, count)
                else:
                    scatter_shorter(source, leaf, start, count)

    return run


run_floats = vector_of(Vectors, floats, gather_shorter_floats, scatter_shorter_floats)
run_doubles = vector_of(Doubles, doubles, gather_shorter_doubles, scatter_shorter_doubles)


@kernel()
def vector(row: Words(vector_touched)):
    """Element-wise work on float32; the words of the row are those of `words.opcodes`."""
    run_floats(row)
    return 0


@kernel()
def vector_of_doubles(row: Words(vector_of_doubles_touched)):
    """The same on float64."""
    run_doubles(row)
    return 0


@kernel()
def require_equal_words(word: Ints(1), others: Ints(("count", "8 * stride")), count, stride):
    """The same of the bits of float64."""
    for i in range(count):
        if others[i * stride] != word[0]:
            return DECLINED
    return 0


@kernel()
def require_equal(number: Floats(1), others: Floats(("count", "4 * stride")), count, stride):
    """DECLINED unless all others are the same as one number."""
    for i in range(count):
        if others[i * stride] != number[0]:
            return DECLINED
    return 0
