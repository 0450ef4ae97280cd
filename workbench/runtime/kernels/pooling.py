"""Maxima and averages over windows of planes, and their gradients; windows are told by `native.pooling_words`."""

from __future__ import annotations

from workbench.runtime.kernels.functions import maximum
from workbench.runtime.kernels.intrinsics import FLOATS, INT, INTS, floats, function
from workbench.runtime.kernels.pairs import max_of_groups, max_of_lines, share_to_groups, share_to_lines
from workbench.runtime.kernels.registry import kernel
from workbench.runtime.kernels.tiles import accumulate, clear, declare, move
from workbench.runtime.kernels.vectors import map_vectors
from workbench.runtime.native.pooling_words import HEIGHT, OUT_HEIGHT, OUT_WIDTH, PLANES, TABLE, WIDTH

keep_larger = declare(3, lambda v, x, out, count: map_vectors(v.builder, maximum, out, [out, x], count))
"""(x, out, count): the larger of floats and others."""


@function
def window(size, h, w):
    """First and end of its rows, and of its columns."""
    rows, columns = TABLE, TABLE + 2 * size[OUT_HEIGHT]
    return (
        size[rows + h], size[rows + size[OUT_HEIGHT] + h],
        size[columns + w], size[columns + size[OUT_WIDTH] + w],
    )  # fmt: skip


@kernel(INTS, INT, FLOATS, INT)
def max_pool(size, x, out, line_address):
    """Maxima, NaN if there is one; line: as long as a row, for the maxima of columns."""
    line, at = floats(line_address), 0
    for p in range(size[PLANES]):
        for h in range(size[OUT_HEIGHT]):
            first, end, _, _ = window(size, h, 0)
            source = x + 4 * (p * size[HEIGHT] + first) * size[WIDTH]
            move(source, line_address, size[WIDTH])
            for _ in range(first + 1, end):
                source += 4 * size[WIDTH]
                keep_larger(source, line_address, size[WIDTH])
            for w in range(size[OUT_WIDTH]):
                _, _, start, stop = window(size, h, w)
                most = line[start]
                for i in range(start + 1, stop):
                    most = most if most >= line[i] or most != most else line[i]
                out[at] = most
                at += 1
    return 0


@kernel(INTS, FLOATS, FLOATS, INT)
def max_pool_grad(size, x, g, out_address):
    """The gradient of a window goes to the first of its largest entries."""
    out, at = floats(out_address), 0
    clear(out_address, size[PLANES] * size[HEIGHT] * size[WIDTH])
    for p in range(size[PLANES]):
        for h in range(size[OUT_HEIGHT]):
            for w in range(size[OUT_WIDTH]):
                first, end, start, stop = window(size, h, w)
                best = (p * size[HEIGHT] + first) * size[WIDTH] + start
                for row in range(first, end):
                    here = (p * size[HEIGHT] + row) * size[WIDTH]
                    for i in range(here + start, here + stop):
                        best = i if x[i] > x[best] or (x[i] != x[i] and x[best] == x[best]) else best
                out[best] += g[at]
                at += 1
    return 0


@kernel(INTS, INT, FLOATS, FLOATS, INT)
def average_pool(size, x, counts, out, line_address):
    """Averages; counts: what to divide by, per window; line: as in `max_pool`."""
    line, at = floats(line_address), 0
    for p in range(size[PLANES]):
        for h in range(size[OUT_HEIGHT]):
            first, end, _, _ = window(size, h, 0)
            source = x + 4 * (p * size[HEIGHT] + first) * size[WIDTH]
            move(source, line_address, size[WIDTH])
            for _ in range(first + 1, end):
                source += 4 * size[WIDTH]
                accumulate(source, line_address, size[WIDTH])
            for w in range(size[OUT_WIDTH]):
                _, _, start, stop = window(size, h, w)
                total = line[start]
                for i in range(start + 1, stop):
                    total += line[i]
                out[at] = total / counts[h * size[OUT_WIDTH] + w]
                at += 1
    return 0


@kernel(INTS, FLOATS, FLOATS, INT)
def average_pool_grad(size, g, counts, out_address):
    """Every window's share to each of its entries."""
    out, at = floats(out_address), 0
    clear(out_address, size[PLANES] * size[HEIGHT] * size[WIDTH])
    for p in range(size[PLANES]):
        for h in range(size[OUT_HEIGHT]):
            for w in range(size[OUT_WIDTH]):
                first, end, start, stop = window(size, h, w)
                share = g[at] / counts[h * size[OUT_WIDTH] + w]
                for row in range(first, end):
                    here = (p * size[HEIGHT] + row) * size[WIDTH]
                    for i in range(here + start, here + stop):
                        out[i] += share
                at += 1
    return 0


# Windows of 2 x 2 side by side


@kernel(INTS, INT, INT)
def max_pool_lines(size, x, out):
    """`max_pool` line by line."""
    pitch = 4 * size[WIDTH]
    lines, planes = lines_at_once(size)
    for _ in range(planes):
        max_of_lines(x, pitch, out, lines, size[OUT_WIDTH])
        x += size[HEIGHT] * pitch
        out += 4 * size[OUT_HEIGHT] * size[OUT_WIDTH]
    return 0


@kernel(INTS, INT, INT, INT)
def max_pool_lines_grad(size, x, g, out):
    """`max_pool_grad` line by line."""
    pitch = 4 * size[WIDTH]
    lines, planes = lines_at_once(size)
    clear_beside_windows(size, out)
    for _ in range(planes):
        share_to_lines(x, pitch, g, out, lines, size[OUT_WIDTH])
        x += size[HEIGHT] * pitch
        g += 4 * size[OUT_HEIGHT] * size[OUT_WIDTH]
        out += size[HEIGHT] * pitch
    return 0


@kernel(INTS, INT, INT, INT, INT, INT)
def max_pool_groups(size, table, groups, planes, x, out):
    """`max_pool` of groups of windows, which repeat after so many planes."""
    for _ in range(0, size[PLANES], planes):
        max_of_groups(x, 4 * size[WIDTH], out, table, groups)
        x += 4 * planes * size[HEIGHT] * size[WIDTH]
        out += 4 * planes * size[OUT_HEIGHT] * size[OUT_WIDTH]
    return 0


@kernel(INTS, INT, INT, INT, INT, INT, INT)
def max_pool_groups_grad(size, table, groups, planes, x, g, out):
    """`max_pool_grad` of groups of windows."""
    clear_beside_windows(size, out)
    for _ in range(0, size[PLANES], planes):
        share_to_groups(x, 4 * size[WIDTH], g, out, table, groups)
        x += 4 * planes * size[HEIGHT] * size[WIDTH]
        g += 4 * planes * size[OUT_HEIGHT] * size[OUT_WIDTH]
        out += 4 * planes * size[HEIGHT] * size[WIDTH]
    return 0


@function
def lines_at_once(size):
    """Planes without a line left over are one."""
    if size[HEIGHT] == 2 * size[OUT_HEIGHT]:
        return size[PLANES] * size[OUT_HEIGHT], 1
    return size[OUT_HEIGHT], size[PLANES]


@function
def clear_beside_windows(size, out):
    """Zeros, if some of the image belongs to no window."""
    if size[HEIGHT] != 2 * size[OUT_HEIGHT] or size[WIDTH] != 2 * size[OUT_WIDTH]:
        clear(out, size[PLANES] * size[HEIGHT] * size[WIDTH])
