"""The instructions of vector code, which works on blocks of float32.

Truth values are 1.0 and 0.0; `select` takes its first choice where the condition is not 0. Short functions are run in
chains: a few vectors stay in registers, the *accumulator*, while one function after the other is applied to them, and
only what is needed later is stored. Long functions run over a whole block each.
"""

from __future__ import annotations

SHORT = {
    "negative": 1, "absolute": 1, "square": 1, "sqrt": 1, "reciprocal": 1, "floor": 1, "ceil": 1, "trunc": 1,
    "rint": 1, "sign": 1, "logical_not": 1, "isnan": 1, "isinf": 1, "isfinite": 1,
    "add": 2, "subtract": 2, "multiply": 2, "divide": 2, "maximum": 2, "minimum": 2, "copysign": 2,
    "greater": 2, "greater_equal": 2, "less": 2, "less_equal": 2, "equal": 2, "not_equal": 2,
    "logical_and": 2, "logical_or": 2, "logical_xor": 2, "select": 3,
}  # fmt: skip
LONG = {
    "exp": 1, "expm1": 1, "log": 1, "log1p": 1, "log2": 1, "log10": 1, "tanh": 1, "erf": 1, "sin": 1, "cos": 1,
    "power": 2,
}  # fmt: skip
OPERANDS = SHORT | LONG

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
COLUMN_SUM = 1  # an address, a slot, floats per row: the rows of the block are added to that many floats
LONG_NUMBER = {name: number for number, name in enumerate(LONG, 2)}  # slots of the result and of operands

# Leaves: what fills a slot
ADVANCES = 0  # slot points into the array itself
SCALAR = 1  # an array of one number, filled in once
TILED = 2  # an array that repeats, filled in once
GATHERED = 3  # any strides, filled in for every block
TRUTHS = 4  # bytes of any strides, filled in for every block; results lie one after the other

# Slots: the address of a block, and a mask for the distance from there in bytes. With the mask `4 * n - 1` a block is
# n floats again and again; n is a power of two, and at least REPEATED.
SLOT_WORDS = 2
REPEATED = 128
WHOLE = -1  # the mask of a block that does not repeat

# A row: what every row begins with, these words, then slots, leaves, instructions, stores. Leaves, instructions and
# stores name a slot by where it is among the words of the slots.
TOTAL, BLOCK, LEAVES, CODE_WORDS, STORES, SLOTS = range(2, 8)
HEAD_WORDS = 8
LEAF_WORDS = 13  # kind, slot, buffer, floats to fill, address, 4 sizes, 4 strides; in elements, bytes for TRUTHS
