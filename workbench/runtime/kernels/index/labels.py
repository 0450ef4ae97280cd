"""Rows and elements named by integers: tables, class labels, the best classes of a row.

Numbers that name nothing are declined before anything is written. All sizes are in elements.
"""

from __future__ import annotations

import numpy as np
from numba import types

from workbench.runtime.kernels.arguments import Address, Floats, Ints, Ints32, Reals
from workbench.runtime.kernels.intrinsics import behind, floats, function
from workbench.runtime.kernels.math.sums import add, fill
from workbench.runtime.kernels.registry import kernel
from workbench.runtime.kernels.tensor.transposes import copy_floats
from workbench.runtime.words.codes import DECLINED

F = np.float32
INTS32 = types.CPointer(types.int32)


@function
def labels_fit(label, rows, classes, ignored):
    for i in range(rows):
        if (label[i] < 0 or label[i] >= classes) and label[i] != ignored:
            return False
    return True


@kernel(divides=("outer",))
def take_rows(
    table: Address("outer", "max(height, 1)", "width", moved=True), ids: Ints("count"),
    out: Address("outer", "count", "width", moved=True), outer, height, count, width, padding,
):  # fmt: skip
    """out[o, i] = table[o, ids[i]], zeros where the id is `padding`; rows of `width`."""
    if not labels_fit(ids, count, height, 0):
        return DECLINED
    for o in range(outer):
        for i in range(count):
            to = out + 4 * width * (o * count + i)
            if ids[i] == padding:
                fill((to,), (), (0.0,), width)
            else:
                copy_floats(table + 4 * width * (o * height + ids[i]), to, width)
    return 0


@kernel()
def add_rows(
    x: Reals("outer", "count", "width"), ids: Ints("count"), out: Reals("outer", "max(height, 1)", "width"), outer,
    height, count, width, padding,
):  # fmt: skip
    """out[o, j] = the sum of x[o, i] with ids[i] == j, in the order of i; nothing is added where that is `padding`."""
    if not labels_fit(ids, count, height, 0):
        return DECLINED
    fill((out,), (), (0.0,), outer * height * width)
    for o in range(outer):
        for i in range(count):
            if ids[i] != padding:
                to = behind(out, width * (o * height + ids[i]))
                add((to,), (to, behind(x, width * (o * count + i))), (), width)
    return 0


@kernel()
def pick_label(
    x: Reals("outer", "classes", "inner"), label: Ints("outer", "inner"), out: Reals("outer", "inner"), outer,
    classes, inner, ignored,
):  # fmt: skip
    """out[o, i] = x[o, label[o, i], i], 0 where ignored."""
    if not labels_fit(label, outer * inner, classes, ignored):
        return DECLINED
    for o in range(outer):
        for i in range(inner):
            at = o * inner + i
            out[at] = x[(o * classes + label[at]) * inner + i] if label[at] != ignored else 0.0
    return 0


@kernel()
def place_label(
    x: Reals("outer", "inner"), label: Ints("outer", "inner"), out: Reals("outer", "classes", "inner"), outer,
    classes, inner, ignored,
):  # fmt: skip
    """out[o, label[o, i], i] = x[o, i], all else 0; nothing where ignored."""
    if not labels_fit(label, outer * inner, classes, ignored):
        return DECLINED
    fill((out,), (), (0.0,), outer * classes * inner)
    for o in range(outer):
        for i in range(inner):
            at = o * inner + i
            if label[at] != ignored:
                out[(o * classes + label[at]) * inner + i] = x[at]
    return 0


@kernel()
def one_hot(label: Ints("count"), out: Address("count", "max(classes, 1)"), count, classes):
    """out[i, label[i]] = 1, all else 0."""
    if not labels_fit(label, count, classes, 0):
        return DECLINED
    fill((out,), (), (0.0,), count * classes)
    target = floats(out)
    for i in range(count):
        target[i * classes + label[i]] = F(1)
    return 0


@kernel()
def count_labels(label: Ints("count"), out: Reals(1), count, ignored):
    """out[0] = how many labels are not ignored, at least 1."""
    counted = 0
    for i in range(count):
        counted += label[i] != ignored
    out[0] = max(counted, 1)
    return 0


@kernel()
def floats_of(x: Ints("count"), out: Reals("count"), count):
    """out[i] = x[i]."""
    for i in range(count):
        out[i] = x[i]
    return 0


@function
def goes_before(a, b):
    """Whether `a` comes before `b`: the larger first, NaN before all numbers."""
    return a > b or (a != a and b == b)


@kernel()
def best_of_rows(
    x: Reals("rows", "width"), out: Reals("rows", "k", begin="min(k - 1, 0)"),
    indices: Ints("rows", "k", begin="min(k - 1, 0)"), rows, width, k,
):  # fmt: skip
    """The k largest of every row in order and where they are, the first of equal ones first."""
    for i in range(rows):
        held = 0
        for j in range(width):
            number = x[i * width + j]
            if held == k and not goes_before(number, out[i * k + k - 1]):
                continue
            at = held if held < k else k - 1
            while at > 0 and goes_before(number, out[i * k + at - 1]):
                out[i * k + at], indices[i * k + at] = out[i * k + at - 1], indices[i * k + at - 1]
                at -= 1
            out[i * k + at], indices[i * k + at] = number, j
            held = min(held + 1, k)
    return 0


@kernel()
def accuracy(
    indices: Ints("rows", "k"), label: Ints("rows"), share: Floats(1), correct: Ints32(1), total: Ints32(1), rows, k,
):  # fmt: skip
    """How many rows have their label among the indices, their share, and the number of rows."""
    hits = 0
    for i in range(rows):
        hit = False
        for j in range(k):
            hit = hit or indices[i * k + j] == label[i]
        hits += hit
    correct[0], total[0] = np.int32(hits), np.int32(rows)
    share[0] = F(hits) / F(max(rows, 1))
    return 0
