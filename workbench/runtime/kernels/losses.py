"""Means, and softmax with cross entropy of class labels."""

from __future__ import annotations

import math

from workbench.runtime.kernels.intrinsics import FLOATS, INT, INTS, REORDERED, function
from workbench.runtime.kernels.registry import kernel
from workbench.runtime.kernels.scalars import exp
from workbench.runtime.native.words import DECLINED

CHUNK = 4096


@function(fastmath=REORDERED)
def sum_of(x, start, end):
    """The sum of a few thousand floats, in as many parts as a register has."""
    total = x[start] - x[start]
    for i in range(start, end):
        total += x[i]
    return total


@kernel(FLOATS, FLOATS, INT)
def mean_of_all(x, out, count):
    """The mean; chunks are added up in double precision."""
    total = 0.0
    for start in range(0, count, CHUNK):
        total += sum_of(x, start, min(start + CHUNK, count))
    out[0] = total / count
    return 0


@function
def labels_fit(label, rows, classes, ignored):
    for i in range(rows):
        if (label[i] < 0 or label[i] >= classes) and label[i] != ignored:
            return False
    return True


@kernel(FLOATS, INTS, FLOATS, FLOATS, INT, INT, INT)
def cross_entropy(logits, label, softmax, loss, rows, classes, ignored):
    """softmax[i] = exp(logits[i] - max) / sum; loss[i] = log sum - (logits[i, label[i]] - max), 0 where ignored."""
    if not labels_fit(label, rows, classes, ignored):
        return DECLINED
    for i in range(rows):
        o = i * classes
        most = logits[o]
        for j in range(1, classes):
            most = max(most, logits[o + j])
        picked = logits[o + label[i]] - most if label[i] != ignored else most - most
        for j in range(classes):
            softmax[o + j] = exp(logits[o + j] - most)
        total = sum_of(softmax, o, o + classes)
        for j in range(classes):
            softmax[o + j] /= total
        loss[i] = math.log(total) - picked if label[i] != ignored else 0.0
    return 0


@kernel(FLOATS, INTS, FLOATS, FLOATS, INT, INT, INT)
def cross_entropy_grad(softmax, label, g, out, rows, classes, ignored):
    """out[i, j] = g[i] (softmax[i, j] - [j == label[i]]), 0 where ignored."""
    if not labels_fit(label, rows, classes, ignored):
        return DECLINED
    for i in range(rows):
        o = i * classes
        factor = g[i] if label[i] != ignored else g[i] - g[i]
        for j in range(classes):
            out[o + j] = softmax[o + j] * factor
        if label[i] != ignored:
            out[o + label[i]] -= factor
    return 0
