"""Convolutions with sixteen samples in the lanes of a register.

Images are turned so that every pixel is sixteen floats, of sixteen samples, and get their border of zeros then. All
that micro-kernels load begins at a cache line, whatever strides and dilations are, and no lane is idle where planes are
narrow; in return what goes in and what comes out is turned once. WIDTH, COLUMNS and LEFT count floats of such images.
"""

from __future__ import annotations

from workbench.runtime.kernels.arguments import Address, Along, Ints
from workbench.runtime.kernels.conv.convolutions import image_floats, place, plane_bytes
from workbench.runtime.kernels.conv.tiles import clear
from workbench.runtime.kernels.intrinsics import address_of, call_row, function, ints
from workbench.runtime.kernels.registry import kernel
from workbench.runtime.kernels.tensor.transposes import turn_block
from workbench.runtime.words import convolution as convolution_words
from workbench.runtime.words.convolution import (
    AT_POSITIONS,
    AT_TAPS,
    COLUMNS,
    COUNT,
    GROUPS,
    HEIGHT,
    IMAGE,
    KERNELS,
    LEFT,
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
    TAPS,
    TOP,
    WIDTH,
)

LANES = 16


@function
def turn_planes(source, sample, planes, pixels, out):
    """Planes of sixteen samples, `sample` bytes apart, as [planes, pixels, 16]; at least sixteen pixels."""
    for _ in range(planes):
        for i in range(0, pixels, LANES):
            at = min(i, pixels - LANES)
            turn_block(source + 4 * at, sample, out + 4 * LANES * at, 4 * LANES)
        source, out = source + 4 * pixels, out + 4 * LANES * pixels


@function
def turn_back(source, planes, pixels, out, sample):
    """Undo `turn_planes`."""
    for _ in range(planes):
        for i in range(0, pixels, LANES):
            at = min(i, pixels - LANES)
            turn_block(source + 4 * LANES * at, 4 * LANES, out + 4 * at, sample)
        source, out = source + 4 * LANES * pixels, out + 4 * pixels


@function
def turn_images(size, x, image, turned):
    """The group of sixteen samples that begins at x into images, whose border is there; turned: room for the planes."""
    planes, pixels = size[PLANES], size[HEIGHT] * size[WIDTH] // LANES
    sample = 4 * size[GROUPS] * planes * pixels
    is_moved = size[TOP] != 0 or size[LEFT] != 0
    is_bare = not is_moved and size[ROWS] == size[HEIGHT] and size[COLUMNS] == size[WIDTH]
    turn_planes(x, sample, planes, pixels, image if is_bare else turned)
    if not is_bare:
        place(size, turned, image)


@function
def group_address(size, x, n, group):
    """Of images that are not turned."""
    return x + (n * size[GROUPS] + group) * 4 * size[PLANES] * (size[HEIGHT] * size[WIDTH] // LANES)


@kernel(
    words=convolution_words,
    divides=(Along("size[SAMPLES]", unit=LANES),),
    requires="require_lanes_of_samples(size)",
)
def convolve_samples(
    size: Ints("SIZE_WORDS"), x: Address("size[SAMPLES]", "sample_bytes(size) // LANES", item=1),
    packed: Address("packed_bytes(size, parts)", item=1),
    out: Address("size[SAMPLES]", "result_bytes(size)", item=1), parts: Address("parts_bytes(size, parts)", item=1),
    positions: Address("positions.nbytes", item=1), taps: Address("taps.nbytes", item=1),
    image: Address(extent="tiles_extent(size, positions, taps, LANES * plane_bytes(size))", own=True),
    turned: Address("size[PLANES]", "size[HEIGHT] * size[WIDTH] // LANES", item=64, own=True),
    sums: Address("lane_sums_bytes(size, parts)", item=1, own=True), row: Ints("ROW_WORDS", own=True),
):  # fmt: skip
    """A convolution by a filter that is packed, of at least sixteen samples.

    image: as in `convolve`; turned: [planes, height, width]; sums: of the channels of a part [output pixels, 16];
    row: that of micro-kernels.
    """
    plane, pixels = plane_bytes(size), size[OUT_HEIGHT] * size[OUT_WIDTH]
    clear(image, image_floats(size))
    row[IMAGE], row[AT_POSITIONS], row[COUNT], row[AT_TAPS] = image, positions, size[POSITIONS], taps
    row[PLANE], row[OUT] = LANES * plane, sums
    for start in range(0, size[SAMPLES], LANES):
        n = min(start, size[SAMPLES] - LANES)
        row[PACKED] = packed
        for g in range(size[GROUPS]):
            turn_images(size, group_address(size, x, n, g), image, turned)
            target = out + (n * size[GROUPS] + g) * size[KERNELS] * plane
            for p in range(size[PARTS]):
                part = ints(parts + 8 * PART_WORDS * p)
                call_row(part[PART_KERNEL], address_of(row))
                turn_back(
                    sums, part[PART_COUNT], pixels, target + part[PART_FIRST] * plane,
                    size[GROUPS] * size[KERNELS] * plane,
                )  # fmt: skip
                row[PACKED] += 4 * part[PART_WIDTH] * size[TAPS]
    return 0
