"""Entries that integers name one by one, or by several coordinates: picked, put, added.

Numbers that name nothing are declined before anything is written. What is only moved is moved in words of 32 bits, so
that it may be of any dtype of 4 or 8 bytes: `unit` is how many of them an entry has.
"""

from __future__ import annotations

import numpy as np

from workbench.runtime.kernels.arguments import Ints, Ints32, Reals
from workbench.runtime.kernels.index.labels import labels_fit
from workbench.runtime.kernels.intrinsics import function
from workbench.runtime.kernels.registry import kernel
from workbench.runtime.words.codes import DECLINED


@kernel()
def wide_integers(x: Ints32("count"), out: Ints("count"), count):
    """out[i] = x[i], an int32, as int64."""
    for i in range(count):
        out[i] = np.int64(x[i])
    return 0


@kernel()
def number_entries(index: Ints("count", "depth"), sizes: Ints("depth"), out: Ints("count"), count, depth):
    """The number of every entry, whose coordinates are a row of `index`, in an array of these sizes."""
    for i in range(count):
        for k in range(depth):
            if index[i * depth + k] < 0 or index[i * depth + k] >= sizes[k]:
                return DECLINED
    for i in range(count):
        number = 0
        for k in range(depth):
            number = number * sizes[k] + index[i * depth + k]
        out[i] = number
    return 0


@function
def move_words(source, first, out, begin, count):
    for n in range(count):
        out[begin + n] = source[first + n]


@kernel()
def take_along(
    x: Ints32("outer", "max(height, 1)", "inner", "unit", moved=True), index: Ints("outer", "count", "inner"),
    out: Ints32("outer", "count", "inner", "unit", moved=True), outer, height, count, inner, unit,
):  # fmt: skip
    """out[o, j, i] = x[o, index[o, j, i], i]."""
    if not labels_fit(index, outer * count * inner, height, 0):
        return DECLINED
    for o in range(outer):
        for j in range(count):
            for i in range(inner):
                at = (o * count + j) * inner + i
                move_words(x, ((o * height + index[at]) * inner + i) * unit, out, at * unit, unit)
    return 0


@kernel()
def put_along(
    x: Ints32("outer", "count", "inner", "unit", moved=True), index: Ints("outer", "count", "inner"),
    out: Ints32("outer", "max(height, 1)", "inner", "unit", moved=True), outer, height, count, inner, unit, clears,
):  # fmt: skip
    """out[o, index[o, j, i], i] = x[o, j, i], of several the last; all else stays, or becomes 0 if it `clears`."""
    if not labels_fit(index, outer * count * inner, height, 0):
        return DECLINED
    for n in range(outer * height * inner * unit if clears else 0):
        out[n] = np.int32(0)
    for o in range(outer):
        for j in range(count):
            for i in range(inner):
                at = (o * count + j) * inner + i
                move_words(x, at * unit, out, ((o * height + index[at]) * inner + i) * unit, unit)
    return 0


@kernel()
def add_along(
    x: Reals("outer", "count", "inner"), index: Ints("outer", "count", "inner"),
    out: Reals("outer", "max(height, 1)", "inner"), outer, height, count, inner, clears,
):  # fmt: skip
    """out[o, index[o, j, i], i] += x[o, j, i], in the order of x; to 0 if it `clears`."""
    if not labels_fit(index, outer * count * inner, height, 0):
        return DECLINED
    for n in range(outer * height * inner if clears else 0):
        out[n] = 0.0
    for o in range(outer):
        for j in range(count):
            for i in range(inner):
                at = (o * count + j) * inner + i
                out[(o * height + index[at]) * inner + i] += x[at]
    return 0


@kernel()
def put_rows_at(
    x: Ints32("outer", "count", "width", moved=True), ids: Ints("count"),
    out: Ints32("outer", "max(height, 1)", "width", moved=True), outer, height, count, width,
):  # fmt: skip
    """out[o, ids[i]] = x[o, i], rows of `width` words, of several the last; all else stays."""
    if not labels_fit(ids, count, height, 0):
        return DECLINED
    for o in range(outer):
        for i in range(count):
            move_words(x, (o * count + i) * width, out, (o * height + ids[i]) * width, width)
    return 0


@kernel()
def clear_rows_at(
    ids: Ints("count"), out: Ints32("outer", "max(height, 1)", "width", moved=True), outer, height, count, width
):  # fmt: skip
    """out[o, ids[i]] = 0, rows of `width` words; all else stays."""
    if not labels_fit(ids, count, height, 0):
        return DECLINED
    for o in range(outer):
        for i in range(count):
            first = (o * height + ids[i]) * width
            for n in range(width):
                out[first + n] = np.int32(0)
    return 0


@kernel()
def add_rows_at(
    x: Reals("outer", "count", "width"), ids: Ints("count"), out: Reals("outer", "max(height, 1)", "width"), outer,
    height, count, width,
):  # fmt: skip
    """out[o, ids[i]] += x[o, i], in the order of i."""
    if not labels_fit(ids, count, height, 0):
        return DECLINED
    for o in range(outer):
        for i in range(count):
            first, to = (o * count + i) * width, (o * height + ids[i]) * width
            for n in range(width):
                out[to + n] += x[first + n]
    return 0
