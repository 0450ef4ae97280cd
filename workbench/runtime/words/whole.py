"""Functions of whole numbers and truth values, as `whole_steps` counts them."""

from __future__ import annotations

from typing import Any

from workbench.runtime.footprint import WORD, Touched, require_inside

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


def whole_touched(*words: Any) -> list[Touched]:
    """What a row touches: its inputs and results, and the memory for values."""
    count, inputs, constants, steps, results = words[:VALUES]
    held = inputs + constants + steps
    touched: list[Touched] = [(VALUES, 0, WORD * held)]
    middle = HEAD + PART * inputs + constants
    last = middle + PART * steps
    for at in (*range(HEAD, HEAD + PART * inputs, PART), *range(last, last + PART * results, PART)):
        item = WORD if words[at + IS_WHOLE] else 1
        distance = words[at + DISTANCE]
        require_inside("a row of whole numbers", distance >= 0, 0 <= words[at + VALUE] < held)
        touched.append((at + ADDRESS, 0, (count - 1) * distance + item if count else 0))
    for number, at in enumerate(range(middle, last, PART)):
        before = inputs + constants + number
        require_inside("a row of whole numbers", all(0 <= words[at + k] < before for k in (FIRST, SECOND, THIRD)))
    return touched
