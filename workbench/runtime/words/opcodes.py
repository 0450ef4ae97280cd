"""The instructions of vector code, which works on blocks of float32, or of float64.

Truth values are 1.0 and 0.0; `select` takes its first choice where the condition is not 0. Short functions are run in
chains: a few vectors stay in registers, the *accumulator*, while one function after the other is applied to them, and
only what is needed later is stored. Long functions run over a whole block each.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from workbench.runtime.footprint import DOUBLE, FLOAT, OutOfBounds, Touched

SHORT = {
    "negative": 1, "absolute": 1, "square": 1, "sqrt": 1, "reciprocal": 1, "floor": 1, "ceil": 1, "trunc": 1,
    "rint": 1, "sign": 1, "logical_not": 1, "isnan": 1, "isinf": 1, "isfinite": 1,
    "add": 2, "subtract": 2, "multiply": 2, "divide": 2, "maximum": 2, "minimum": 2, "copysign": 2,
    "greater": 2, "greater_equal": 2, "less": 2, "less_equal": 2, "equal": 2, "not_equal": 2,
    "logical_and": 2, "logical_or": 2, "logical_xor": 2, "select": 3,
    "to_bfloat16": 1, "to_float16": 1, "to_float32": 1,
}  # fmt: skip
OF_ONE_KIND = {"to_bfloat16": 4, "to_float16": 4, "to_float32": 8}
"""Functions that round to a shorter kind of numbers: the bytes of the numbers they are there for."""
LONG = {
    "exp": 1, "expm1": 1, "log": 1, "log1p": 1, "log2": 1, "log10": 1, "tanh": 1, "erf": 1, "sin": 1, "cos": 1,
    "power": 2,
}  # fmt: skip
OPERANDS = SHORT | LONG
NAMES = {"abs": "absolute", "where": "select"}  # what expressions call what vector code calls otherwise
OF_TRUTHS = {
    "add": "logical_or", "multiply": "logical_and", "bitwise_and": "logical_and", "bitwise_or": "logical_or",
    "bitwise_xor": "logical_xor",
}  # fmt: skip
"""What functions of numbers are where all operands are truth values."""

MIRRORED = {
    "add": "add", "multiply": "multiply", "equal": "equal", "not_equal": "not_equal", "logical_and": "logical_and",
    "logical_or": "logical_or", "logical_xor": "logical_xor", "greater": "less", "less": "greater",
    "greater_equal": "less_equal", "less_equal": "greater_equal",
}  # fmt: skip
"""`f(a, b)` has the bits of `MIRRORED[f](b, a)`, so the accumulator can always be the first operand."""

CASES = tuple(
    (name, place) for name, count in SHORT.items() for place in range(1 if name in MIRRORED else count)
)  # what a link of a chain does: a function, and which operand of it is the accumulator
CASE = {case: number for number, case in enumerate(CASES)}
LOAD, STORE = len(CASES), len(CASES) + 1
LINK_WORDS = 3  # what it does, and up to two slots

# Instructions: a number, how many words there are, then
CHAIN = 0  # its links
COLUMN_SUM = 1  # an address, a slot, numbers per row: the rows of the block are added to that many numbers
LONG_NUMBER = {name: number for number, name in enumerate(LONG, 2)}  # slots of the result and of operands

# Leaves: what fills a slot
ADVANCES = 0  # slot points into the array itself
SCALAR = 1  # an array of one number, filled in once
TILED = 2  # an array that repeats, filled in once
GATHERED = 3  # any strides, filled in for every block
TRUTHS = 4  # bytes of any strides, filled in for every block; results lie one after the other
BFLOAT16S, FLOAT16S = 5, 6  # shorter numbers of any strides, filled in for every block of float32
FLOAT32S = 7  # the same for blocks of float64
ITEMS = {TRUTHS: 1, BFLOAT16S: 2, FLOAT16S: 2, FLOAT32S: 4}
"""Bytes of an element of these; all others are as long as the numbers that are worked on."""

# Slots: the address of a block, and a mask for the distance from there in bytes. With the mask `item * n - 1` a block
# is n numbers again and again; n is a power of two, and at least REPEATED.
SLOT_WORDS = 2
REPEATED = 128
WHOLE = -1  # the mask of a block that does not repeat

# A row: what every row begins with, these words, then slots, leaves, instructions, stores. Leaves, instructions and
# stores name a slot by where it is among the words of the slots.
TOTAL, BLOCK, LEAVES, CODE_WORDS, STORES, SLOTS = range(2, 8)
HEAD_WORDS = 8
LEAF_WORDS = 13  # kind, slot, buffer, numbers to fill, address, 4 sizes, 4 strides in elements

VECTOR = {4: "vector", 8: "vector_of_doubles"}  # the kernel, by the bytes of the numbers it works on

_BUFFER, _FILLED, _ADDRESS, _SIZES, _STRIDES = 2, 3, 4, 5, 9  # of a leaf
_SHORTER = {FLOAT: (TRUTHS, BFLOAT16S, FLOAT16S), DOUBLE: (TRUTHS, FLOAT32S)}  # what is brought to their size
_HEAD = HEAD_WORDS - 2  # words of a row before the slots; kernel and length come first


def vector_touched(*words: Any) -> Sequence[Touched]:
    """What a row touches: its slots, leaves, instructions and stores, read as the kernel reads them."""
    return _touched(words, FLOAT)


def vector_of_doubles_touched(*words: Any) -> Sequence[Touched]:
    """The same of a row that works on float64."""
    return _touched(words, DOUBLE)


def _touched(words: Sequence[Any], item: int) -> Sequence[Touched]:
    """Args: item: bytes of the numbers that are worked on."""
    total, block, leaves, code, stores, slots = words[:_HEAD]
    touched: list[Touched] = []
    at = _HEAD
    for place in range(at, at + SLOT_WORDS * slots, SLOT_WORDS):
        mask = words[place + 1]
        if words[place] is None:  # a leaf says where it is
            touched.append((place, 0, 0))
        else:
            touched.append((place, 0, item * block if mask == WHOLE else mask + 1))
    at += SLOT_WORDS * slots
    for place in range(at, at + LEAF_WORDS * leaves, LEAF_WORDS):
        _note_leaf(words, place, total, block, item, touched)
    at += LEAF_WORDS * leaves
    _note_sums(words, at, at + code, item, touched)
    at += code
    for place in range(at, at + LEAF_WORDS * stores, LEAF_WORDS):
        touched += [(place + _BUFFER, 0, 0), (place + _ADDRESS, *_span_of_leaf(words, place, total, item))]
    if at + LEAF_WORDS * stores != len(words):
        raise OutOfBounds(f"vector code of {at + LEAF_WORDS * stores} words, got {len(words)}")
    return touched


def _note_leaf(words: Sequence[Any], at: int, total: int, block: int, item: int, touched: list[Touched]) -> None:
    kind = words[at]
    filled = words[at + _FILLED] if kind in (SCALAR, TILED) else 0 if kind == ADVANCES else block
    touched.append((at + _BUFFER, 0, item * filled))
    touched.append((at + _ADDRESS, *_span_of_leaf(words, at, total, item)))


def _span_of_leaf(words: Sequence[Any], at: int, total: int, item: int) -> tuple[int, int]:
    """The bytes of the array of a leaf or a store."""
    kind = words[at]
    if kind == ADVANCES:
        return 0, item * total
    if kind == SCALAR:
        return 0, item
    if kind == TILED:
        return 0, item * words[at + _STRIDES - 1]
    if kind != GATHERED and kind not in _SHORTER[item]:
        raise OutOfBounds(f"vector code has no leaf of kind {kind}")
    first, last, count, item = 0, 0, 1, ITEMS.get(kind, item)
    for size, stride in zip(words[at + _SIZES : at + _STRIDES], words[at + _STRIDES : at + LEAF_WORDS], strict=True):
        distance, count = (size - 1) * stride, count * size
        if distance < 0:
            first += distance
        else:
            last += distance
    if count != total:
        raise OutOfBounds(f"vector code of {total} elements reads an array as {count}")
    return item * first, item * (last + 1)


def _note_sums(words: Sequence[Any], at: int, end: int, item: int, touched: list[Touched]) -> None:
    """Where rows are added up."""
    while at < end:
        if words[at] == COLUMN_SUM:
            touched.append((at + 2, 0, item * words[at + 4]))
        at += words[at + 1]
