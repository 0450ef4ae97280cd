"""Element-wise work on whole numbers and truth values."""

from __future__ import annotations

from typing import Any

from workbench.runtime.reach.declare import WORD, Touched, reaches_of_words, require_inside
from workbench.runtime.words import whole as w


@reaches_of_words
def whole_steps(*words: Any) -> list[Touched]:
    count, inputs, constants, steps, results = words[: w.VALUES]
    held = inputs + constants + steps
    touched: list[Touched] = [(w.VALUES, 0, WORD * held)]
    middle = w.HEAD + w.PART * inputs + constants
    last = middle + w.PART * steps
    for at in (*range(w.HEAD, w.HEAD + w.PART * inputs, w.PART), *range(last, last + w.PART * results, w.PART)):
        item = WORD if words[at + w.IS_WHOLE] else 1
        distance = words[at + w.DISTANCE]
        require_inside("a row of whole numbers", distance >= 0, 0 <= words[at + w.VALUE] < held)
        touched.append((at + w.ADDRESS, 0, (count - 1) * distance + item if count else 0))
    for number, at in enumerate(range(middle, last, w.PART)):
        before = inputs + constants + number
        require_inside("a row of whole numbers", all(0 <= words[at + k] < before for k in (w.FIRST, w.SECOND, w.THIRD)))
    return touched
