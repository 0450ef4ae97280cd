"""Softmax and cross entropy of class labels, along rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from workbench.runtime.kernels.functions import LN2_HIGH, LN2_LOW, LOG2_E, log
from workbench.runtime.kernels.intrinsics import FLOATS, INT, INTS, address_of, floats, function
from workbench.runtime.kernels.math.sums import CHUNK
from workbench.runtime.kernels.registry import kernel
from workbench.runtime.kernels.sweeps import ADDED, LARGEST_NUMBER, sweep
from workbench.runtime.kernels.vectors import Vectors
from workbench.runtime.words.codes import DECLINED

F = np.float32
NEAR = 2048  # floats that stay in the first cache
WHOLE = 1.5 * 2**23 + 127
EXP = (1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1)


def decay(v: Vectors, x: Any) -> Any:
    """e to the power x for x <= 0, within 1.1 ulp; 0 below the least normal number, NaN of NaN.

    Adding WHOLE rounds to a whole number, whose bits then are the last ones of the sum, moved by the exponent's bias.
    """
    inside = v.select(v.compare("<", x, -88.0), -88.0, x)
    moved = v.fma(inside, LOG2_E, WHOLE)
    n = v.subtract(moved, WHOLE)
    r = v.fma(n, -LN2_LOW, v.fma(n, -LN2_HIGH, inside))
    p = v.polynomial(r, EXP)
    p = v.add(v.fma(p, v.multiply(r, r), r), 1.0)
    return v.multiply(p, v.from_bits(v.builder.shl(v.bits(moved), v.integer(23))))


# A row that holds NaN becomes NaN by its sum, so its largest number need not be.
largest_number = sweep(lambda v, x: x, LARGEST_NUMBER, together=2)
grow = sweep(lambda v, x, most: (decay(v, v.subtract(x, most)),) * 2, ADDED, together=2)
scale = sweep(Vectors.multiply)
product_sum = sweep(lambda v, y, g: v.multiply(y, g), ADDED, together=2)
through = sweep(lambda v, y, g, along: v.multiply(y, v.subtract(g, along)))


@function
def softmax_of(x, out, most, total, rows, width):
    """softmax of rows, their largest numbers, and the sums of exp(x - largest).

    Several short rows take each step together: what one row waits for, the next one fills.
    """
    mosts, totals = floats(most), floats(total)
    step = max(1, NEAR // width)
    for begin in range(0, rows, step):
        end = min(begin + step, rows)
        for i in range(begin, end):
            mosts[i] = largest_number((), (x + 4 * i * width,), (), width)
        for i in range(begin, end):
            totals[i] = grown_sum(x + 4 * i * width, out + 4 * i * width, mosts[i], width)
        for i in range(begin, end):
            o = out + 4 * i * width
            scale((o,), (o,), (F(1) / totals[i],), width)


@function
def grown_sum(x, out, most, width):
    total = 0.0
    for start in range(0, width, CHUNK):
        at = 4 * start
        total += grow((out + at,), (x + at,), (most,), min(CHUNK, width - start))
    return total


@kernel(INT, INT, INT, INT, INT, INT)
def softmax(x, out, most, total, rows, width):
    """out[i] = exp(x[i] - max) / sum; `most`, `total`: memory for a number per row."""
    softmax_of(x, out, most, total, rows, width)
    return 0


@kernel(INT, INT, INT, INT, INT)
def softmax_grad(y, g, out, rows, width):
    """out[i] = y[i] (g[i] - sum of y[i] g[i])."""
    for i in range(rows):
        o = 4 * i * width
        along = 0.0
        for start in range(0, width, CHUNK):
            at = o + 4 * start
            along += product_sum((), (y + at, g + at), (), min(CHUNK, width - start))
        through((out + o,), (y + o, g + o), (F(along),), width)
    return 0


@function
def labels_fit(label, rows, classes, ignored):
    for i in range(rows):
        if (label[i] < 0 or label[i] >= classes) and label[i] != ignored:
            return False
    return True


logarithms = sweep(lambda v, total, picked: v.subtract(log(v, total), picked))


@kernel(FLOATS, INTS, INT, INT, INT, INT, INT, INT)
def cross_entropy(logits, label, softmax, loss, beside, rows, classes, ignored):
    """softmax[i] of logits[i]; loss[i] = log sum - (logits[i, label[i]] - max), 0 where ignored.

    `beside`: memory for a number per row.
    """
    if not labels_fit(label, rows, classes, ignored):
        return DECLINED
    softmax_of(address_of(logits), softmax, beside, loss, rows, classes)
    totals, scores = floats(loss), floats(beside)
    for i in range(rows):
        if label[i] == ignored:
            totals[i], scores[i] = F(1), F(0)
        else:
            scores[i] = logits[i * classes + label[i]] - scores[i]
    logarithms((loss,), (loss, beside), (), rows)
    return 0


@kernel(INT, INTS, FLOATS, FLOATS, INT, INT, INT)
def cross_entropy_grad(softmax, label, g, out, rows, classes, ignored):
    """out[i, j] = g[i] (softmax[i, j] - [j == label[i]]), 0 where ignored."""
    if not labels_fit(label, rows, classes, ignored):
        return DECLINED
    for i in range(rows):
        o = i * classes
        factor = g[i] if label[i] != ignored else F(0)
        scale((address_of(out) + 4 * o,), (softmax + 4 * o,), (factor,), classes)
        if label[i] != ignored:
            out[o + label[i]] -= factor
    return 0
