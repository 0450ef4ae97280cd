"""Attention, a few queries after the other: their scores, what a softmax makes of them, and the sums of values.

Every number comes of the same operations in the same order as from the kernels of the single ops, so its bits are
theirs; the scores of all queries are never there at the same time. Keys at the end that a mask hides from all of these
queries are left out where their weights are sure to be 0. All strides are in bytes.
"""

from __future__ import annotations

import math

import numpy as np

from workbench.runtime.kernels.arguments import Address, Along
from workbench.runtime.kernels.functions import decay
from workbench.runtime.kernels.intrinsics import REAL, floats, function
from workbench.runtime.kernels.math.small_products import copy_panel, multiply
from workbench.runtime.kernels.math.sums import CHUNK, fill, squares
from workbench.runtime.kernels.registry import kernel
from workbench.runtime.kernels.sweeps import ADDED, CONTRACTED, LARGEST, LARGEST_NUMBER, sweep
from workbench.runtime.kernels.tensor.transposes import transpose_matrix
from workbench.runtime.kernels.vectors import Vectors
from workbench.runtime.words import attention as attention_words
from workbench.runtime.words.attention import TALL
from workbench.runtime.words.product import PANEL

F = np.float32
VANISHING = 200.0  # e to the power -88 is 0 to kernels; the rest is for roundings of what is large

largest = sweep(lambda v, x: x, LARGEST, together=2)
largest_number = sweep(lambda v, x: x, LARGEST_NUMBER, together=2)
grow = sweep(lambda v, x, most: (decay(v, v.subtract(x, most)),) * 2, ADDED, together=2)
scale = sweep(Vectors.multiply)
product_sum = sweep(lambda v, y, g: v.builder.fmul(y, g, flags=("contract",)), CONTRACTED, together=4)
times = sweep(lambda v, x, number: (v.multiply(x, number),) * 2, LARGEST_NUMBER, together=2)
over = sweep(lambda v, x, number: (v.divide(x, number),) * 2, LARGEST_NUMBER, together=2)
times_masked = sweep(lambda v, x, m, number: (v.add(v.multiply(x, number), m),) * 2, LARGEST_NUMBER, together=2)
over_masked = sweep(lambda v, x, m, number: (v.add(v.divide(x, number), m),) * 2, LARGEST_NUMBER, together=2)
through_times = sweep(lambda v, y, g, along, by: v.multiply(v.multiply(y, v.subtract(g, along)), by))
through_over = sweep(lambda v, y, g, along, by: v.divide(v.multiply(y, v.subtract(g, along)), by))

padded, pitch_of = function(attention_words.padded), function(attention_words.pitch)


@function
def grown_sum(x, out, most, width):
    """exp(x - most), and its sum."""
    total = 0.0
    for start in range(0, width, CHUNK):
        at = 4 * start
        total += grow((out + at,), (x + at,), (most,), min(CHUNK, width - start))
    return total


@function
def copy_panels(b, b_row, b_col, k, n, panels):
    """B[k, n] as panels of at most 64 columns, one behind the other; the rows of each lie one after the other."""
    for begin in range(0, n, PANEL):
        width = min(PANEL, n - begin)
        copy_panel(b + begin * b_col, b_row, b_col, k, width, panels + 4 * begin * k, 4 * padded(width))


@function
def multiply_panels(a, a_row, a_col, panels, length, c, c_row, m, n, k):
    """`C[m, n] = A[m, k] B[k, n]` with B as panels of so many rows, of which the first k count."""
    for begin in range(0, n, PANEL):
        width = min(PANEL, n - begin)
        right = panels + 4 * begin * length
        multiply(a, a_row, a_col, right, 4 * padded(width), 4, c + 4 * begin, c_row, m, width, k, 0, 0, 0)


@function
def weigh(row, mask, by, divides, n):
    """A row of products becomes the weights of the values: its softmax after scaling and masking."""
    if mask != 0:
        most = over_masked((row,), (row, mask), (by,), n) if divides else times_masked((row,), (row, mask), (by,), n)
    else:
        most = over((row,), (row,), (by,), n) if divides else times((row,), (row,), (by,), n)
    total = F(grown_sum(row, row, most, n))
    scale((row,), (row,), (F(1) / total,), n)


@function
def sum_of_squares(x, row, col, rows, columns):
    """Of a matrix whose rows or columns lie side by side."""
    count, length, step = (rows, columns, row) if col == 4 else (columns, rows, col)
    total = 0.0
    for i in range(count):
        total += squares(x + i * step, (), length)
    return total


@function
def keys_in_reach(mask, mask_row, rows, n, most, beside):
    """How many keys from the first on can have weights in these rows, in whole panels.

    Args:
        most: no score is larger, nor smaller than its negative; NaN or infinite where nothing is known.
        beside: memory for a number per row.
    """
    if mask == 0 or not most < math.inf:
        return n
    least = floats(beside)
    for i in range(rows):
        seen = largest_number((), (mask + i * mask_row,), (), n)
        least[i] = seen - F(2.02 * most + VANISHING + 1e-6 * abs(seen))
    reach = n
    while reach > 0:
        begin = (reach - 1) // PANEL * PANEL
        for i in range(rows):
            if not largest((), (mask + i * mask_row + 4 * begin,), (), reach - begin) < least[i]:
                return reach
        reach = begin
    return n


@function
def weights_of(q, q_row, q_col, keys, mask, mask_row, rows, n, d, by, divides, weights, pitch):
    """The weights of a few queries; `keys`: all of them, transposed, by panels."""
    multiply_panels(q, q_row, q_col, keys, d, weights, pitch, rows, n, d)
    for i in range(rows):
        weigh(weights + i * pitch, mask + i * mask_row, by, divides, n)


@function
def gradient_through(weights, g, by, divides, n):
    """What comes to a row of products of what comes to its weights, in place."""
    along = 0.0
    for start in range(0, n, CHUNK):
        along += product_sum((), (weights + 4 * start, g + 4 * start), (), min(CHUNK, n - start))
    if divides:
        through_over((g,), (weights, g), (F(along), by), n)
    else:
        through_times((g,), (weights, g), (F(along), by), n)


@function
def bound(x, y, factor):
    """What no sum of products of rows of two matrices exceeds, given the sums of their squares; see Cauchy, Schwarz."""
    return math.sqrt(x) * math.sqrt(y) * abs(factor)


@kernel(words=attention_words, divides=("n0", "n1", Along("m", unit=TALL)))
def attention(
    q: Address(("m", "q_row if q_col == 4 else 4"), ("d", "q_col"), ("n0", "q0"), ("n1", "q1")), q_row, q_col,
    k: Address(("n", "k_row if k_col == 4 else 4"), ("d", "k_col"), ("n0", "k0"), ("n1", "k1")), k_row, k_col,
    v: Address(("n", "v_row if v_col == 4 else 4"), ("e", "v_col"), ("n0", "v0"), ("n1", "v1")), v_row, v_col,
    mask: Address(("m", "mask_row"), ("n", 4), ("n0", "mask0"), ("n1", "mask1"), optional=True), mask_row,
    out: Address(("m", "out_row"), ("e", 4), ("n0", "out0"), ("n1", "out1")), out_row, m, n, d, e, by: REAL, divides,
    memory: Address("forward_memory(n, d, e)", own=True), n0, q0, k0, v0, mask0, out0, n1, q1, k1, v1, mask1, out1,
):  # fmt: skip
    """`Out[m, e] = softmax(Q[m, d] K[n, d]' * by + Mask[m, n]) V[n, e]` for a batch of n0 x n1.

    Of queries, keys and values rows or columns lie side by side, of mask and result columns.

    Args:
        mask: 0 if there is none.
        by, divides: products are multiplied by that number, or divided.
        memory: `forward_memory` floats.
    """
    keys, pitch = memory, 4 * pitch_of(n)
    values = keys + 4 * d * padded(n)
    weights = values + 4 * n * padded(e)
    factor = 1 / by if divides else by
    for i in range(n0 * n1):
        x, y = i // n1, i % n1
        here, there = k + x * k0 + y * k1, v + x * v0 + y * v1
        copy_panels(here, k_col, k_row, d, n, keys)
        copy_panels(there, v_row, v_col, n, e, values)
        size_k, size_v = 0.0, 0.0
        if mask != 0:
            size_k, size_v = sum_of_squares(here, k_row, k_col, n, d), sum_of_squares(there, v_row, v_col, n, e)
        for begin in range(0, m, TALL):
            count, q_here = min(TALL, m - begin), q + x * q0 + y * q1 + begin * q_row
            masked, masked_row, reach = 0, 0, n
            if mask != 0:
                masked, masked_row = mask + x * mask0 + y * mask1 + begin * mask_row, mask_row
                most = bound(sum_of_squares(q_here, q_row, q_col, count, d), size_k, factor) + 0 * size_v
                reach = keys_in_reach(masked, mask_row, count, n, most, weights)
            weights_of(
                q_here, q_row, q_col, keys, masked, masked_row, count, reach, d, by, divides, weights, pitch
            )  # fmt: skip
            to = out + x * out0 + y * out1 + begin * out_row
            multiply_panels(weights, pitch, 4, values, n, to, out_row, count, e, reach)
    return 0


@function
def add_products(a, a_col, b, b_row, c, c_row, reach, whole, n, k):
    """`C[reach, n] += A[k, reach]' B[k, n]`, at most DEPTH terms; rows of A and B lie in memory one after the other.

    Args:
        whole: C has so many rows, and there is nothing in it yet; 0 if there is.
    """
    multiply(a, 4, a_col, b, b_row, 4, c, c_row, reach, n, k, 0 if whole else 1, 0, 0)
    for i in range(reach, whole):
        fill((c + i * c_row,), (), (F(0),), n)


@kernel(words=attention_words, divides=("n0", "n1"))
def attention_grad(
    q: Address(("m", "q_row if q_col == 4 else 4"), ("d", "q_col"), ("n0", "q0"), ("n1", "q1")), q_row, q_col,
    k: Address(("n", "k_row if k_col == 4 else 4"), ("d", "k_col"), ("n0", "k0"), ("n1", "k1")), k_row, k_col,
    v: Address(("n", "v_row if v_col == 4 else 4"), ("e", "v_col"), ("n0", "v0"), ("n1", "v1")), v_row, v_col,
    mask: Address(("m", "mask_row"), ("n", 4), ("n0", "mask0"), ("n1", "mask1"), optional=True), mask_row,
    g: Address(("m", "g_row if g_col == 4 else 4"), ("e", "g_col"), ("n0", "g0"), ("n1", "g1")), g_row, g_col,
    gq: Address(("m", "gq_row"), ("d", 4), ("n0", "gq0"), ("n1", "gq1"), optional=True), gq_row,
    gk: Address(("n", "gk_row if gk_col == 4 else 4"), ("d", "gk_col"), ("n0", "gk0"), ("n1", "gk1"), optional=True),
    gk_row, gk_col, gv: Address(("n", "gv_row"), ("e", 4), ("n0", "gv0"), ("n1", "gv1"), optional=True), gv_row, m,
    n, d, e, by: REAL, divides, memory: Address("backward_memory(n, d, e)", own=True), n0, q0, k0, v0, mask0, g0,
    gq0, gk0, gv0, n1, q1, k1, v1, mask1, g1, gq1, gk1, gv1,
):  # fmt: skip
    """The gradients of queries, keys and values of what comes to the result of `attention`; 0 for those nobody wants.

    Weights are computed once more. Columns of the gradients lie side by side, or rows of that of the keys.

    Args:
        memory: `backward_memory` floats.
    """
    keys, pitch = memory, 4 * pitch_of(n)
    turned_values = keys + 4 * d * padded(n)
    keys_by_rows = turned_values + 4 * e * padded(n)
    weights = keys_by_rows + 4 * n * padded(d)
    through = weights + TALL * pitch
    queries = through + TALL * pitch
    arriving = queries + 4 * TALL * padded(d)
    beside = arriving + 4 * TALL * padded(e)
    factor = 1 / by if divides else by
    for i in range(n0 * n1):
        x, y = i // n1, i % n1
        here, there = k + x * k0 + y * k1, v + x * v0 + y * v1
        copy_panels(here, k_col, k_row, d, n, keys)
        copy_panels(here, k_row, k_col, n, d, keys_by_rows)
        copy_panels(there, v_col, v_row, e, n, turned_values)
        to_k, to_k_row = (gk + x * gk0 + y * gk1, gk_row) if gk_col == 4 else (beside, 4 * d)
        size_k, size_v = 0.0, 0.0
        if mask != 0:
            size_k, size_v = sum_of_squares(here, k_row, k_col, n, d), sum_of_squares(there, v_row, v_col, n, e)
        for begin in range(0, m, TALL):
            count = min(TALL, m - begin)
            q_here, g_here = q + x * q0 + y * q1 + begin * q_row, g + x * g0 + y * g1 + begin * g_row
            masked, masked_row, reach = 0, 0, n
            if mask != 0:
                masked, masked_row = mask + x * mask0 + y * mask1 + begin * mask_row, mask_row
                most = bound(sum_of_squares(q_here, q_row, q_col, count, d), size_k, factor)
                most += 0 * bound(sum_of_squares(g_here, g_row, g_col, count, e), size_v, 1.0)
                reach = keys_in_reach(masked, mask_row, count, n, most, weights)
            weights_of(
                q_here, q_row, q_col, keys, masked, masked_row, count, reach, d, by, divides, weights, pitch
            )  # fmt: skip
            multiply_panels(g_here, g_row, g_col, turned_values, e, through, pitch, count, reach, e)
            if gv != 0:
                copy_panel(g_here, g_row, g_col, count, e, arriving, 4 * padded(e))
                add_products(
                    weights, pitch, arriving, 4 * padded(e), gv + x * gv0 + y * gv1, gv_row, reach,
                    n if begin == 0 else 0, e, count,
                )  # fmt: skip
            for j in range(count):
                gradient_through(weights + j * pitch, through + j * pitch, by, divides, reach)
            if gq != 0:
                to = gq + x * gq0 + y * gq1 + begin * gq_row
                multiply_panels(through, pitch, 4, keys_by_rows, n, to, gq_row, count, d, reach)
            if gk != 0:
                copy_panel(q_here, q_row, q_col, count, d, queries, 4 * padded(d))
                add_products(
                    through, pitch, queries, 4 * padded(d), to_k, to_k_row, reach, n if begin == 0 else 0, d, count
                )
        if gk != 0 and gk_col != 4:
            transpose_matrix(beside, 4 * d, gk + x * gk0 + y * gk1, gk_col, n, d)
    return 0
