"""Sparse gradients: rows of a table and their numbers, of which a word tells how many there are.

A row may come several times, which means the sum. Nothing here takes time that depends on how high the table is, and
sums are taken in the order in which rows come.
"""

from __future__ import annotations

from workbench.runtime.kernels.arguments import Ints, Reals
from workbench.runtime.kernels.index.labels import labels_fit
from workbench.runtime.kernels.intrinsics import address_of, behind, function, ints
from workbench.runtime.kernels.math.sums import add, fill
from workbench.runtime.kernels.registry import kernel
from workbench.runtime.kernels.tensor.transposes import copy_floats
from workbench.runtime.words.codes import DECLINED, DONE
from workbench.runtime.words.rows import DIGIT, DIGITS


@kernel()
def rows_of(
    ids: Ints("count"), g: Reals("count", "width"), numbers: Ints("count"), values: Reals("count", "width"),
    counted: Ints(1), count, height, width, padding,
):  # fmt: skip
    """The gradient of a table: a row for every id, zeros where that is `padding`."""
    if not labels_fit(ids, count, height, 0):
        return DECLINED
    for i in range(count):
        numbers[i] = ids[i]
        to = behind(values, width * i)
        if ids[i] == padding:
            fill((to,), (), (0.0,), width)
        else:
            copy_floats(behind(g, width * i), to, width)
    counted[0] = count
    return DONE


@kernel()
def join_rows(
    numbers: Ints("most"), values: Reals("most", "width"), counted: Ints(1), to_numbers: Ints("room"),
    to_values: Reals("room", "width"), to_counted: Ints(1), is_first, most, room, width,
):  # fmt: skip
    """Put rows behind those that are there; there are none before the first."""
    before = 0 if is_first else to_counted[0]
    count = counted[0]
    for i in range(count):
        to_numbers[before + i] = numbers[i]
    copy_floats(values, behind(to_values, width * before), count * width)
    to_counted[0] = before + count
    return DONE


@function
def sort_by_number(numbers, order, other, tally, count):
    """Where rows are, in ascending order of their numbers, equal ones as they come; the address of the result."""
    largest = 0
    for i in range(count):
        order[i] = i
        largest = max(largest, numbers[i])
    source, target = address_of(order), address_of(other)
    shift = 0
    while largest >> shift:
        _sort_by_digit(numbers, ints(source), ints(target), tally, count, shift)
        source, target = target, source
        shift += DIGIT
    return source


@function
def _sort_by_digit(numbers, source, target, tally, count, shift):
    for digit in range(DIGITS):
        tally[digit] = 0
    for i in range(count):
        tally[(numbers[i] >> shift) & (DIGITS - 1)] += 1
    begin = 0
    for digit in range(DIGITS):
        begin, tally[digit] = begin + tally[digit], begin
    for i in range(count):
        at = source[i]
        digit = (numbers[at] >> shift) & (DIGITS - 1)
        target[tally[digit]] = at
        tally[digit] += 1


@kernel()
def merge_rows(
    numbers: Ints("most"), values: Reals("most", "width"), counted: Ints(1), order: Ints("most"),
    other: Ints("most"), tally: Ints("DIGITS"), merged: Ints("most"), sums: Reals("most", "width"), kept: Ints(1),
    most, width,
):  # fmt: skip
    """Every row once, in ascending order; behind the last one there is room for `most`, filled with zeros."""
    count, last = counted[0], -1
    sorted_ = ints(sort_by_number(numbers, order, other, tally, count))
    for i in range(count):
        at = sorted_[i]
        value = behind(values, width * at)
        if last >= 0 and merged[last] == numbers[at]:
            total = behind(sums, width * last)
            add((total,), (total, value), (), width)
        else:
            last += 1
            merged[last] = numbers[at]
            copy_floats(value, behind(sums, width * last), width)
    kept[0] = last + 1
    for i in range(last + 1, most):
        merged[i] = 0
    fill((behind(sums, width * (last + 1)),), (), (0.0,), (most - last - 1) * width)
    return DONE


@kernel()
def put_rows(
    values: Reals("most", "width"), numbers: Ints("most"), counted: Ints(1), out: Reals("height", "width"), most,
    height, width,
):  # fmt: skip
    """out[numbers[i]] = values[i]; no number comes twice."""
    if not 0 <= counted[0] <= most or not labels_fit(numbers, counted[0], height, 0):
        return DECLINED
    for i in range(counted[0]):
        copy_floats(behind(values, width * i), behind(out, width * numbers[i]), width)
    return DONE
