"""Element-wise work on whole numbers (int64) and truth values, one element after the other: there are few of them."""

from __future__ import annotations

from workbench.runtime.kernels.intrinsics import ROW, function, ints, truths
from workbench.runtime.kernels.registry import kernel
from workbench.runtime.words import whole as w
from workbench.runtime.words.codes import DONE, ROW_ARGUMENTS


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
    return a


@kernel(ROW)
def whole_steps(row):
    """Steps over numbers of up to so many elements; see `words.whole`."""
    head = ROW_ARGUMENTS
    values = ints(row[head + w.VALUES])
    inputs, constants, steps, results = row[head + 1], row[head + 2], row[head + 3], row[head + 4]
    first = head + w.HEAD
    middle = first + w.PART * inputs + constants
    last = middle + w.PART * steps
    for i in range(constants):
        values[inputs + i] = row[first + w.PART * inputs + i]
    for element in range(row[head + w.COUNT]):
        for i in range(inputs):
            at = first + w.PART * i
            there = row[at + w.ADDRESS] + element * row[at + w.DISTANCE]
            if row[at + w.IS_WHOLE]:
                values[i] = ints(there)[0]
            else:
                values[i] = truths(there)[0]
        for i in range(steps):
            at = middle + w.PART * i
            a, b, c = values[row[at + w.FIRST]], values[row[at + w.SECOND]], values[row[at + w.THIRD]]
            found = result_of(row[at + w.FUNCTION], a, b, c)
            if row[at + w.IS_TRUTH]:
                found = int(found != 0)
            values[inputs + constants + i] = found
        for i in range(results):
            at = last + w.PART * i
            there = row[at + w.ADDRESS] + element * row[at + w.DISTANCE]
            if row[at + w.IS_WHOLE]:
                ints(there)[0] = values[row[at + w.VALUE]]
            else:
                truths(there)[0] = values[row[at + w.VALUE]]
    return DONE
