"""Maxima and averages over windows of planes, and their gradients; windows are told by `words.pooling`.

Sixteen planes are treated at once, a strip of rows after the other; windows of 2 x 2 side by side also otherwise.
"""

from __future__ import annotations

from workbench.runtime.kernels.arguments import Address, Along, Ints, Reals
from workbench.runtime.kernels.conv.pairs import max_of_groups, max_of_lines, share_to_groups, share_to_lines
from workbench.runtime.kernels.conv.tiles import clear
from workbench.runtime.kernels.conv.windows import (
    largest_of_columns,
    largest_of_windows,
    put_back,
    registers,
    scale,
    share_columns,
    share_rows,
    take,
    totals_of_windows,
    touching,
)
from workbench.runtime.kernels.intrinsics import behind, function
from workbench.runtime.kernels.registry import kernel
from workbench.runtime.kernels.vectors import WIDTH as LANES
from workbench.runtime.words import pooling as pooling_words
from workbench.runtime.words.pooling import (
    HEIGHT,
    OUT_HEIGHT,
    OUT_WIDTH,
    PLANES,
    STRIP,
    TABLE,
    WIDTH,
)


@function
def open_strip(size, x, p, start, memory):
    """The rows of sixteen planes that a strip's windows have, into memory.

    Returns: the end of the strip, the first of these rows and how many there are, memory for a line and for results.
    """
    end = min(start + size[STRIP], size[OUT_HEIGHT])
    first = size[TABLE + start]
    rows, plane = size[TABLE + size[OUT_HEIGHT] + end - 1] - first, size[HEIGHT] * size[WIDTH]
    take(behind(x, p * plane), plane, min(size[PLANES] - p, LANES), first * size[WIDTH], rows * size[WIDTH], memory)
    line = registers(memory, rows * size[WIDTH])
    return end, first, rows, line, registers(line, size[WIDTH])


@function
def close_strip(size, results, p, start, end, out):
    """A strip's results, where they belong."""
    plane, width, valid = size[OUT_HEIGHT] * size[OUT_WIDTH], size[OUT_WIDTH], min(size[PLANES] - p, LANES)
    put_back(results, plane, valid, start * width, (end - start) * width, behind(out, p * plane))


@kernel(words=pooling_words, divides=(Along("size[PLANES]", unit=LANES),))
def max_pool(
    size: Ints(extent="table_bytes(size)"), x: Reals("size[PLANES]", "size[HEIGHT]", "size[WIDTH]"),
    out: Reals("size[PLANES]", "size[OUT_HEIGHT]", "size[OUT_WIDTH]"),
    memory: Reals("in_strip(size)", own=True),
):  # fmt: skip
    """Maxima, NaN if there is one."""
    for p in range(0, size[PLANES], LANES):
        for start in range(0, size[OUT_HEIGHT], size[STRIP]):
            end, first, _, line, results = open_strip(size, x, p, start, memory)
            largest_of_windows(size, memory, first, start, end, line, results)
            close_strip(size, results, p, start, end, out)
    return 0


@kernel(words=pooling_words, divides=(Along("size[PLANES]", unit=LANES),))
def average_pool(
    size: Ints(extent="table_bytes(size)"), x: Reals("size[PLANES]", "size[HEIGHT]", "size[WIDTH]"),
    factors: Reals("size[OUT_HEIGHT]", "size[OUT_WIDTH]"),
    out: Reals("size[PLANES]", "size[OUT_HEIGHT]", "size[OUT_WIDTH]"),
    memory: Reals("in_strip(size)", own=True),
):  # fmt: skip
    """Averages; factors: what sums are multiplied by, per window."""
    for p in range(0, size[PLANES], LANES):
        for start in range(0, size[OUT_HEIGHT], size[STRIP]):
            end, first, _, line, results = open_strip(size, x, p, start, memory)
            totals_of_windows(size, memory, first, start, end, line, results)
            scale(results, behind(factors, start * size[OUT_WIDTH]), (end - start) * size[OUT_WIDTH])
            close_strip(size, results, p, start, end, out)
    return 0


@kernel(words=pooling_words, divides=(Along("size[PLANES]", unit=LANES),))
def average_pool_grad(
    size: Ints(extent="table_bytes(size)"), g: Reals("size[PLANES]", "size[HEIGHT]", "size[WIDTH]"),
    factors: Reals("size[HEIGHT]", "size[WIDTH]"),
    out: Reals("size[PLANES]", "size[OUT_HEIGHT]", "size[OUT_WIDTH]"),
    memory: Reals("in_strip(size)", own=True),
):  # fmt: skip
    """The gradient of averages: of every pixel, the sum of the shares of all windows that have it.

    size: as of pooling the other way round, where the windows of a pixel are a window.
    """
    for p in range(0, size[PLANES], LANES):
        for start in range(0, size[OUT_HEIGHT], size[STRIP]):
            end, first, rows, line, results = open_strip(size, g, p, start, memory)
            scale(memory, behind(factors, first * size[WIDTH]), rows * size[WIDTH])
            totals_of_windows(size, memory, first, start, end, line, results)
            close_strip(size, results, p, start, end, out)
    return 0


@kernel(words=pooling_words, divides=(Along("size[PLANES]", unit=LANES),))
def max_pool_grad(
    size: Ints(extent="table_bytes(size)"), x: Reals("size[PLANES]", "size[HEIGHT]", "size[WIDTH]"),
    g: Reals("size[PLANES]", "size[OUT_HEIGHT]", "size[OUT_WIDTH]"),
    out: Reals("size[PLANES]", "size[HEIGHT]", "size[WIDTH]"),
    memory: Reals("in_gradient_strip(size)", own=True),
):  # fmt: skip
    """The gradient of a window goes to the first of its largest entries."""
    for p in range(0, size[PLANES], LANES):
        for start in range(0, size[HEIGHT], size[STRIP]):
            gradient_of_strip(size, x, g, p, start, min(start + size[STRIP], size[HEIGHT]), out, memory)
    return 0


@function
def gradient_of_strip(size, x, g, p, start, end, out, memory):
    """The gradient of rows of sixteen planes: first to the maxima of the rows' windows, then within these."""
    valid, width, count = min(size[PLANES] - p, LANES), size[WIDTH], size[OUT_WIDTH]
    plane, windows = size[HEIGHT] * width, size[OUT_HEIGHT] * count
    first, stop, top, bottom = touching(size, start, end)
    rows = bottom - top
    maxima = registers(memory, rows * width)
    shares = registers(maxima, rows * count)
    tops = registers(shares, rows * count)
    given = registers(tops, count)
    results = registers(given, (stop - first) * count)
    take(behind(x, p * plane), plane, valid, top * width, rows * width, memory)
    take(behind(g, p * windows), windows, valid, first * count, (stop - first) * count, given)
    for r in range(rows):
        largest_of_columns(size, registers(memory, r * width), registers(maxima, r * count))
    clear(shares, LANES * rows * count)
    share_rows(size, maxima, top, given, first, stop, tops, shares)
    clear(results, LANES * (end - start) * width)
    for r in range(start, end):
        line, at = (r - top) * width, (r - top) * count
        share_columns(
            size, registers(memory, line), registers(maxima, at), registers(shares, at),
            registers(results, (r - start) * width),
        )  # fmt: skip
    put_back(results, plane, valid, start * width, (end - start) * width, behind(out, p * plane))


# Windows of 2 x 2 side by side


@kernel(words=pooling_words, divides=("size[PLANES]",), requires="require_pairs(size)")
def max_pool_lines(
    size: Ints(extent="table_bytes(size)"), x: Address("size[PLANES]", "size[HEIGHT]", "size[WIDTH]"),
    out: Address("size[PLANES]", "size[OUT_HEIGHT]", "size[OUT_WIDTH]"),
):  # fmt: skip
    """`max_pool` line by line."""
    pitch = 4 * size[WIDTH]
    lines, planes = lines_at_once(size)
    for _ in range(planes):
        max_of_lines(x, pitch, out, lines, size[OUT_WIDTH])
        x += size[HEIGHT] * pitch
        out += 4 * size[OUT_HEIGHT] * size[OUT_WIDTH]
    return 0


@kernel(words=pooling_words, divides=("size[PLANES]",), requires="require_pairs(size)")
def max_pool_lines_grad(
    size: Ints(extent="table_bytes(size)"), x: Address("size[PLANES]", "size[HEIGHT]", "size[WIDTH]"),
    g: Address("size[PLANES]", "size[OUT_HEIGHT]", "size[OUT_WIDTH]"),
    out: Address("size[PLANES]", "size[HEIGHT]", "size[WIDTH]"),
):  # fmt: skip
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


@kernel(
    words=pooling_words,
    divides=(Along("size[PLANES]", unit="planes"),),
    requires="require_groups(size, table, groups, planes)",
)
def max_pool_groups(
    size: Ints(extent="table_bytes(size)"), table: Address("groups", "GROUP_WORDS", item=8), groups, planes,
    x: Address("size[PLANES]", "size[HEIGHT]", "size[WIDTH]"),
    out: Address("size[PLANES]", "size[OUT_HEIGHT]", "size[OUT_WIDTH]"),
):  # fmt: skip
    """`max_pool` of groups of windows, which repeat after so many planes."""
    for _ in range(0, size[PLANES], planes):
        max_of_groups(x, 4 * size[WIDTH], out, table, groups)
        x += 4 * planes * size[HEIGHT] * size[WIDTH]
        out += 4 * planes * size[OUT_HEIGHT] * size[OUT_WIDTH]
    return 0


@kernel(
    words=pooling_words,
    divides=(Along("size[PLANES]", unit="planes"),),
    requires="require_groups(size, table, groups, planes)",
)
def max_pool_groups_grad(
    size: Ints(extent="table_bytes(size)"), table: Address("groups", "GROUP_WORDS", item=8), groups, planes,
    x: Address("size[PLANES]", "size[HEIGHT]", "size[WIDTH]"),
    g: Address("size[PLANES]", "size[OUT_HEIGHT]", "size[OUT_WIDTH]"),
    out: Address("size[PLANES]", "size[HEIGHT]", "size[WIDTH]"),
):  # fmt: skip
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
