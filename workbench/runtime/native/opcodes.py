"""The instructions of vector code: `destination = function(operands)` on blocks of float32.

Truth values are 1.0 and 0.0; `select` takes its first choice where the condition is not 0.
"""

from __future__ import annotations

FUNCTIONS = (
    "copy", "negative", "absolute", "square", "sqrt", "reciprocal", "floor", "ceil", "trunc", "rint", "sign",
    "exp", "log", "tanh", "erf", "logical_not",
    "add", "subtract", "multiply", "divide", "maximum", "minimum",
    "greater", "greater_equal", "less", "less_equal", "equal", "not_equal",
    "logical_and", "logical_or", "logical_xor",
    "select",
)  # fmt: skip
NUMBER = {name: number for number, name in enumerate(FUNCTIONS)}
COLUMN_SUM = len(FUNCTIONS)  # adds the rows of a block to `extra` floats

# Leaves: what fills a slot
ADVANCES = 0  # slot points into the array itself
SCALAR = 1  # an array of one number, filled in once
TILED = 2  # an array that repeats, filled in once: the block is a multiple of it
GATHERED = 3  # any strides, filled in for every block
TRUTHS = 4  # bytes, filled in for every block

# A row: what every row begins with, these words, then slots (addresses of blocks), leaves, instructions, stores
TOTAL, BLOCK, LEAVES, INSTRUCTIONS, STORES, SLOTS = range(2, 8)
HEAD_WORDS = 8
LEAF_WORDS = 12  # kind, slot, buffer, address, 4 sizes, 4 strides; in elements, bytes for TRUTHS
INSTRUCTION_WORDS = 6  # function, destination, three operands, extra; of COLUMN_SUM an address and the length of a row
