"""Functions of whole numbers and truth values, as `whole_steps` counts them."""

from __future__ import annotations

FUNCTIONS = (
    "copy", "add", "subtract", "multiply", "negative", "maximum", "minimum", "less", "less_equal", "greater",
    "greater_equal", "equal", "not_equal", "logical_and", "logical_or", "logical_xor", "logical_not", "select",
    "remainder", "floor_divide",
)  # fmt: skip
(
    COPY, ADD, SUBTRACT, MULTIPLY, NEGATIVE, MAXIMUM, MINIMUM, LESS, LESS_EQUAL, GREATER,
    GREATER_EQUAL, EQUAL, NOT_EQUAL, AND, OR, XOR, NOT, SELECT,
    REMAINDER, FLOOR_DIVIDE,
) = range(len(FUNCTIONS))  # fmt: skip

# A row: elements, inputs, constants, steps, results, memory for values; then five words of each, but one of a constant
COUNT, INPUTS, CONSTANTS, STEPS, RESULTS, VALUES = range(6)
HEAD, PART = 6, 5
ADDRESS, IS_WHOLE, DISTANCE, VALUE = range(4)  # of an input or a result: IS_WHOLE: int64, not bytes; bytes to the next
FUNCTION, FIRST, SECOND, THIRD, IS_TRUTH = range(5)  # of a step; IS_TRUTH: its result is 0 or 1
