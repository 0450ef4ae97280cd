"""Convolutions of images [samples, channels, height, width], and gradients of their filters, in registers.

Images get a border of zeros and go through the micro-kernels of `convolution_tiles`. Filters are read through a table,
so that the gradient of the input is such a convolution, too: of the output's gradient, with the filter turned round.
What the convolution is, and in which parts it is done, is told by tables, see `words.convolution`.
"""

from __future__ import annotations

from workbench.runtime.kernels.arguments import Address, Floats, Ints
from workbench.runtime.kernels.conv.tiles import clear, interleave, move
from workbench.runtime.kernels.intrinsics import address_of, call_row, floats, function, ints
from workbench.runtime.kernels.registry import kernel
from workbench.runtime.words import convolution as convolution_words
from workbench.runtime.words.convolution import (
    AT_LINES,
    AT_POSITIONS,
    AT_TAPS,
    CHANNELS,
    COLUMNS,
    COUNT,
    DOWN,
    FILTER_GROUP,
    FILTER_ROW,
    GRADIENT,
    GRADIENT_HEIGHT,
    GRADIENT_PLANE,
    GRADIENT_WIDTH,
    GROUPS,
    HEIGHT,
    IMAGE,
    KERNEL_WIDTH,
    KERNELS,
    LEFT,
    LEFTWARDS,
    LINE_COUNT,
    LINE_IMAGE,
    LINES,
    OUT,
    OUT_HEIGHT,
    OUT_WIDTH,
    PACKED,
    PART_COUNT,
    PART_FIRST,
    PART_KERNEL,
    PART_WIDTH,
    PART_WORDS,
    PARTS,
    PLANE,
    PLANES,
    POSITIONS,
    ROWS,
    SAMPLES,
    STRIDE_HEIGHT,
    STRIDE_WIDTH,
    SUMS,
    SUMS_ROW,
    TAPS,
    TOP,
    WIDTH,
)

LANES = 16


@function
def place(size, x, image):
    """The planes of a group into images with a border, which is there."""
    height, width, top, left = size[HEIGHT], size[WIDTH], size[TOP], size[LEFT]
    rows, columns = size[ROWS], size[COLUMNS]
    planes, lines, length = size[PLANES], min(height, rows - top), min(width, columns - left)
    first_line, first = max(0, -top), max(0, -left)
    if width == columns and length - first == width and lines - first_line == rows == height:
        planes, lines, length = 1, 1, planes * height * width
    for p in range(planes):
        for h in range(first_line, lines):
            source = (p * height + h) * width + first
            target = (p * rows + h + top) * columns + left + first
            move(x + 4 * source, image + 4 * target, max(length - first, 0))


@function
def image_floats(size):
    return size[PLANES] * size[ROWS] * size[COLUMNS] + LANES


@function
def group_bytes(size):
    """Of the input."""
    return 4 * size[PLANES] * size[HEIGHT] * size[WIDTH]


@function
def plane_bytes(size):
    """Of the output."""
    return 4 * size[OUT_HEIGHT] * size[OUT_WIDTH]


@kernel(words=convolution_words)
def pack_filter(
    size: Ints("SIZE_WORDS"), w_address: Address("strided_filter_bytes(size, weights)", item=1),
    parts: Address("parts_bytes(size, parts)", item=1), weights: Ints("size[TAPS]"),
    packed: Address("packed_bytes(size, parts)", item=1),
):  # fmt: skip
    """The filter part by part, each as [taps, lanes], zeros where it has fewer channels."""
    for g in range(size[GROUPS]):
        for p in range(size[PARTS]):
            part = ints(parts + 8 * PART_WORDS * p)
            count, width, row = part[PART_COUNT], part[PART_WIDTH], size[FILTER_ROW]
            w, out = floats(w_address + 4 * (g * size[FILTER_GROUP] + part[PART_FIRST] * row)), floats(packed)
            for k in range(size[TAPS]):
                at = weights[k]
                for r in range(count):
                    out[k * width + r] = w[at + r * row]
                for r in range(count, width):
                    out[k * width + r] = 0
            packed += 4 * width * size[TAPS]
    return 0


@kernel(words=convolution_words, divides=("size[SAMPLES]",))
def convolve(
    size: Ints("SIZE_WORDS"), x: Address("size[SAMPLES]", "sample_bytes(size)", item=1),
    packed: Address("packed_bytes(size, parts)", item=1),
    out: Address("size[SAMPLES]", "result_bytes(size)", item=1), parts: Address("parts_bytes(size, parts)", item=1),
    positions: Address("positions.nbytes", item=1), taps: Address("taps.nbytes", item=1),
    image: Address(extent="tiles_extent(size, positions, taps, plane_bytes(size))", own=True),
    row: Ints("ROW_WORDS", own=True),
):  # fmt: skip
    """A convolution with strides of 1 along the width, by a filter that is packed.

    image: [planes, rows, columns] and sixteen floats; row: that of micro-kernels.
    """
    plane = plane_bytes(size)
    clear(image, image_floats(size))
    row[IMAGE], row[AT_POSITIONS], row[COUNT], row[AT_TAPS], row[PLANE] = image, positions, size[POSITIONS], taps, plane
    for n in range(size[SAMPLES]):
        row[PACKED] = packed
        for g in range(size[GROUPS]):
            group = n * size[GROUPS] + g
            place(size, x + group * group_bytes(size), image)
            for p in range(size[PARTS]):
                part = ints(parts + 8 * PART_WORDS * p)
                row[CHANNELS], row[OUT] = part[PART_COUNT], out + (group * size[KERNELS] + part[PART_FIRST]) * plane
                call_row(part[PART_KERNEL], address_of(row))
                row[PACKED] += 4 * part[PART_WIDTH] * size[TAPS]
    return 0


@kernel(words=convolution_words)
def filter_gradient(
    size: Ints("SIZE_WORDS"), x: Address("size[SAMPLES]", "sample_bytes(size)", item=1),
    g: Address("size[SAMPLES]", "result_bytes(size)", item=1), parts: Address("parts_bytes(size, parts)", item=1),
    lines: Address("size[LINES]", item=8), image: Address(extent="lines_extent(size, lines)", own=True),
    across: Address("turned_plane_bytes(size)", item=1, own=True, optional=True),
    sums: Address("filter_sums_bytes(size, 1 if across is None else LANES)", item=1),
    row: Ints("ROW_WORDS", own=True),
):  # fmt: skip
    """Sixteen parts, or channels, of every number of a filter's gradient.

    Lines are the rows of a kernel, one for every plane and row.

    lines: where each is in the image, in bytes; the last may be repeated;
    image, row: as in `convolve`;
    across: where lanes are channels, for the gradient of a part of a sample, [pixels made a multiple of sixteen, 16];
    sums: [groups, kernels, lines, columns, 16], for every sixteen kernels one where lanes are channels.
    """
    plane, kernels, lanes = plane_bytes(size), size[KERNELS], LANES if across != 0 else 1
    row[GRADIENT_PLANE], row[GRADIENT_HEIGHT], row[GRADIENT_WIDTH] = plane, size[OUT_HEIGHT], size[OUT_WIDTH]
    row[LINE_IMAGE], row[AT_LINES], row[LINE_COUNT] = image, lines, size[LINES]
    row[DOWN], row[LEFTWARDS] = 4 * size[COLUMNS] * size[STRIDE_HEIGHT], -4 * size[STRIDE_WIDTH]
    row[SUMS_ROW] = 4 * LANES * size[KERNEL_WIDTH] * size[LINES]
    blocks = (kernels + lanes - 1) // lanes
    clear(image, image_floats(size))
    clear(sums, size[GROUPS] * blocks * row[SUMS_ROW] // 4)
    for n in range(size[SAMPLES]):
        for group in range(size[GROUPS]):
            place(size, x + (n * size[GROUPS] + group) * group_bytes(size), image)
            for p in range(size[PARTS]):
                part = ints(parts + 8 * PART_WORDS * p)
                row[GRADIENT] = g + ((n * size[GROUPS] + group) * kernels + part[PART_FIRST]) * plane
                if across != 0:
                    interleave(row[GRADIENT], plane, part[PART_COUNT], plane // 4, across)
                    row[GRADIENT] = across
                row[SUMS] = sums + (group * blocks + part[PART_FIRST] // lanes) * row[SUMS_ROW]
                call_row(part[PART_KERNEL], address_of(row))
    return 0


@kernel(words=convolution_words)
def add_up_lanes(
    size: Ints("SIZE_WORDS"), sums: Floats(extent="filter_sums_bytes(size, 1)"),
    out: Floats(extent="filter_bytes(size)"),
):  # fmt: skip
    """Numbers of a filter's gradient from their sixteen parts."""
    row = LANES * size[KERNEL_WIDTH] * size[LINES]
    for r in range(size[GROUPS] * size[KERNELS]):
        for k in range(size[TAPS]):
            at = r * row + LANES * k
            total = sums[at]
            for lane in range(1, LANES):
                total += sums[at + lane]
            out[r * size[TAPS] + k] = total
    return 0


@kernel(words=convolution_words)
def take_lanes(
    size: Ints("SIZE_WORDS"), sums: Floats(extent="filter_sums_bytes(size, LANES)"),
    out: Floats(extent="filter_bytes(size)"),
):  # fmt: skip
    """Numbers of a filter's gradient whose lanes are channels."""
    row, kernels, taps = LANES * size[KERNEL_WIDTH] * size[LINES], size[KERNELS], size[TAPS]
    for group in range(size[GROUPS]):
        for r in range(kernels):
            at = (group * ((kernels + LANES - 1) // LANES) + r // LANES) * row + r % LANES
            for k in range(taps):
                out[(group * kernels + r) * taps + k] = sums[at + k * LANES]
    return 0
