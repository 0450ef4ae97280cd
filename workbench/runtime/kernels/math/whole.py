"""Element-wise work on whole numbers (int64) and truth values, one element after the other: there are few of them."""

from __future__ import annotations

from workbench.runtime.kernels.arguments import Words
from workbench.runtime.kernels.intrinsics import function, ints, truths
from workbench.runtime.kernels.registry import kernel
from workbench.runtime.words import whole as w
from workbench.runtime.words.codes import DONE, ROW_ARGUMENTS
from workbench.runtime.words.whole import whole_touched


@function
def divides(b):
    """Whether the processor divides every number by this one; to NumPy the quotient by 0 is 0, that by -1 is -a."""
    return b > 0 or b < -1


@function
def result_of(code, a, b, c):
    """One function of three numbers, of which it may not need all."""
    if code == w.ADD:
        return a + b
    if code == w.SUBTRACT:
        return a - b
    if code == w.MULTIPLY:
        return a * b
    if code == w.NEGATIVE:
        return -a
    if code == w.MAXIMUM:
        return max(a, b)
    if code == w.MINIMUM:
        return min(a, b)
    if code == w.LESS:
        return int(a < b)
    if code == w.LESS_EQUAL:
        return int(a <= b)
    if code == w.GREATER:
        return int(a > b)
    if code == w.GREATER_EQUAL:
        return int(a >= b)
    if code == w.EQUAL:
        return int(a == b)
    if code == w.NOT_EQUAL:
        return int(a != b)
    if code == w.AND:
        return int(a != 0 and b != 0)
    if code == w.OR:
        return int(a != 0 or b != 0)
    if code == w.XOR:
        return int((a != 0) != (b != 0))
    if code == w.NOT:
        return int(a == 0)
    if code == w.SELECT:
        return b if a != 0 else c
    if code == w.REMAINDER:
        return a % b if divides(b) else 0
    if code == w.FLOOR_DIVIDE:
        return a // b if divides(b) else a * b
    return a


@function
def evaluate(row, values, element):
    """The values of all steps for one element."""
    first = ROW_ARGUMENTS + w.HEAD
    inputs, constants, steps = row[ROW_ARGUMENTS + 1], row[ROW_ARGUMENTS + 2], row[ROW_ARGUMENTS + 3]
    for i in range(inputs):
        at = first + w.PART * i
        there = row[at + w.ADDRESS] + element * row[at + w.DISTANCE]
        if row[at + w.IS_WHOLE]:
            values[i] = ints(there)[0]
        else:
            values[i] = truths(there)[0]
    for i in range(steps):
        at = first + w.PART * (inputs + i) + constants
        a, b, c = values[row[at + w.FIRST]], values[row[at + w.SECOND]], values[row[at + w.THIRD]]
        value = result_of(row[at + w.FUNCTION], a, b, c)
        values[inputs + constants + i] = int(value != 0) if row[at + w.IS_TRUTH] else value


@kernel()
def whole_steps(row: Words(whole_touched)):
    """Steps over numbers of up to so many elements; see `words.whole`."""
    count, inputs, constants = row[ROW_ARGUMENTS], row[ROW_ARGUMENTS + 1], row[ROW_ARGUMENTS + 2]
    steps, results, values = row[ROW_ARGUMENTS + 3], row[ROW_ARGUMENTS + 4], ints(row[ROW_ARGUMENTS + w.VALUES])
    middle = ROW_ARGUMENTS + w.HEAD + w.PART * inputs
    for i in range(constants):
        values[inputs + i] = row[middle + i]
    for element in range(count):
        evaluate(row, values, element)
        for i in range(results):
            at = middle + constants + w.PART * (steps + i)
            there = row[at + w.ADDRESS] + element * row[at + w.DISTANCE]
            if row[at + w.IS_WHOLE]:
                ints(there)[0] = values[row[at + w.VALUE]]
            else:
                truths(there)[0] = values[row[at + w.VALUE]]
    return DONE
