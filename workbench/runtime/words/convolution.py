"""What convolutions are, as words of tables: the numbers their rules and their kernels agree on."""

from __future__ import annotations

from typing import Any

from workbench.runtime.footprint import FLOAT, require_inside

# A convolution
(
    SAMPLES, GROUPS,
    PLANES, HEIGHT, WIDTH,  # of the images; channels of a group
    ROWS, COLUMNS, TOP, LEFT,  # of images with their border: sizes, and where the image lies in it (negative: cropped)
    KERNELS, OUT_HEIGHT, OUT_WIDTH,  # of the output; channels of a group
    KERNEL_HEIGHT, KERNEL_WIDTH, STRIDE_HEIGHT, STRIDE_WIDTH, DILATION_HEIGHT, DILATION_WIDTH,
    FILTER_GROUP, FILTER_ROW, FILTER_PLANE,  # distances in the filter: of groups, of output and of input channels
    FIRST_WEIGHT, WEIGHT_STEP,  # of the weights of a channel, in the order of taps
    TAPS, POSITIONS, LINES, PARTS,  # lengths of tables
    BLOCK,  # output rows whose windows are unfolded at once
    SIZE_WORDS,
) = range(29)  # fmt: skip

# A part: output channels that one micro-kernel takes. Its address, the first channel, how many, and of how many lanes
PART_KERNEL, PART_FIRST, PART_COUNT, PART_WIDTH = range(4)
PART_WORDS = 4

# A position: sixteen pixels, or some, of one row. Where in the image, where in the output, which taps matter to it (the
# first, and the one past the last), and how many pixels there are
PLACE, TARGET, FIRST_TAP, END_TAP, PIXELS = range(5)
POSITION_WORDS = 5

# A tap: its distance in the image in bytes, minus that, and four times the number of its weights
AHEAD, BACK, WEIGHT = range(3)
TAP_WORDS = 3

# The row of a micro-kernel, of sums …
IMAGE, AT_POSITIONS, COUNT, AT_TAPS, PACKED, OUT, PLANE, CHANNELS = range(2, 10)
# … of gradients of the filter …
GRADIENT, GRADIENT_PLANE, GRADIENT_HEIGHT, GRADIENT_WIDTH, LINE_IMAGE, AT_LINES, LINE_COUNT = range(2, 9)
DOWN, LEFTWARDS, SUMS, SUMS_ROW = range(9, 13)
# … and of unfolding
SIZES, PIXELS_OF, UNFOLDED, START, END_ROW = range(2, 7)
ROW_WORDS = 13


# What kernels touch; sizes are those of a table. First in numbers

LANES = 16  # of a register
REGISTER = FLOAT * LANES  # bytes


def in_sample(size: Any) -> int:
    """Of a sample that goes in."""
    return int(size[GROUPS] * size[PLANES] * size[HEIGHT] * size[WIDTH])


def in_plane(size: Any) -> int:
    """Of an output channel of a sample."""
    return int(size[OUT_HEIGHT] * size[OUT_WIDTH])


def in_result(size: Any) -> int:
    """Of what a sample becomes."""
    return int(size[GROUPS] * size[KERNELS]) * in_plane(size)


def in_filter(size: Any) -> int:
    """Of the filter."""
    return int(size[GROUPS] * size[KERNELS] * size[TAPS])


def in_images(size: Any, unfolding: int) -> int:
    """Of the images of a group. Those that are their columns themselves have as many pixels as the output."""
    if unfolding:
        return int(size[PLANES] * size[HEIGHT] * size[WIDTH])
    return int(size[TAPS]) * in_plane(size)


def in_columns(size: Any, unfolding: int) -> int:
    """Of the windows that are unfolded at once."""
    block = min(int(size[BLOCK]), int(size[OUT_HEIGHT]))
    return int(size[TAPS] * block * size[OUT_WIDTH]) if unfolding else 0


def in_windows_of_plane(size: Any) -> int:
    """Of the columns of a channel, of all samples."""
    return int(size[SAMPLES] * size[KERNEL_HEIGHT] * size[KERNEL_WIDTH]) * in_plane(size)


# In bytes, of float32


def sample_bytes(size: Any) -> int:
    """Of a sample that goes in."""
    return FLOAT * in_sample(size)


def plane_bytes(size: Any) -> int:
    """Of an output channel of a sample."""
    return FLOAT * in_plane(size)


def result_bytes(size: Any) -> int:
    """Of what a sample becomes."""
    return FLOAT * in_result(size)


def filter_bytes(size: Any) -> int:
    """Of the filter."""
    return FLOAT * in_filter(size)


def strided_filter_bytes(size: Any, weights: Any) -> int:
    """Of a filter with the distances of the table, as far as it is packed."""
    require_inside("a weight of a convolution", int(weights.min(initial=0)) >= 0)
    most = (size[GROUPS] - 1) * size[FILTER_GROUP] + (size[KERNELS] - 1) * size[FILTER_ROW] + weights.max(initial=0)
    return FLOAT * (int(most) + 1)


def parts_bytes(size: Any, parts: Any) -> int:
    """Of the table of parts, whose output channels are there."""
    of = parts.reshape(-1, PART_WORDS)
    first, count, width = of[:, PART_FIRST], of[:, PART_COUNT], of[:, PART_WIDTH]
    inside = (first >= 0).all() and (first + count <= size[KERNELS]).all() and (count <= width).all()
    require_inside("a part of a convolution", bool(inside), len(of) == size[PARTS])
    return int(parts.nbytes)


def packed_bytes(size: Any, parts: Any) -> int:
    """Of a filter that is packed by parts."""
    return FLOAT * int(size[GROUPS] * size[TAPS] * parts.reshape(-1, PART_WORDS)[:, PART_WIDTH].sum())


def tiles_extent(size: Any, positions: Any, taps: Any, plane: int) -> tuple[int, int]:
    """What micro-kernels read of an image with its border.

    Args:
        plane: bytes of what they write to.
    """
    at, of = positions.reshape(-1, POSITION_WORDS), taps.reshape(-1, TAP_WORDS)
    used = (at[:, FIRST_TAP] < at[:, END_TAP]) & (at[:, FIRST_TAP] >= 0)
    require_inside(
        "a position of a convolution",
        len(at) == size[POSITIONS],
        bool((at[:, END_TAP] <= len(of)).all()),
        bool(((of[:, WEIGHT] >= 0) & (of[:, WEIGHT] < FLOAT * size[TAPS])).all()),
        bool((at[:, TARGET] >= 0).all()),
    )
    target = int((at[:, TARGET] + FLOAT * at[:, PIXELS]).max(initial=0))
    require_inside("a pixel of a convolution", target <= plane)
    if not used.any():
        return 0, _bordered(size)
    places, ahead = at[used, PLACE], of[:, AHEAD]
    first, end = int(places.min() + ahead.min()), int(places.max() + ahead.max()) + REGISTER
    return min(first, 0), max(end, _bordered(size))


def require_lanes_of_samples(size: Any) -> None:
    """Of a convolution whose sizes count sixteen floats to a pixel."""
    pixels, plane = int(size[HEIGHT] * size[WIDTH]) // LANES, plane_bytes(size) // FLOAT
    require_inside("a sample of a convolution", min(pixels, plane, int(size[SAMPLES])) >= LANES)


def lane_sums_bytes(size: Any, parts: Any) -> int:
    """Of the sums of sixteen samples, of the output channels of a part."""
    return LANES * int(parts.reshape(-1, PART_WORDS)[:, PART_COUNT].max(initial=0)) * plane_bytes(size)


def lines_extent(size: Any, lines: Any) -> tuple[int, int]:
    """What the gradient of a filter reads of an image with its border."""
    down = size[COLUMNS] * size[STRIDE_HEIGHT] * (size[OUT_HEIGHT] - 1)
    right = size[STRIDE_WIDTH] * (size[OUT_WIDTH] - 1) + size[KERNEL_WIDTH]
    end = int(lines.max(initial=0) + FLOAT * (down + right))
    return min(int(lines.min(initial=0)), 0), max(end, _bordered(size))


def turned_plane_bytes(size: Any) -> int:
    """Of an output channel whose pixels are turned, register by register."""
    return REGISTER * LANES * -(-plane_bytes(size) // REGISTER)


def filter_sums_bytes(size: Any, lanes: int) -> int:
    """Sixteen numbers for every one of a filter's gradient; of every sixteen kernels one where they are the lanes."""
    blocks = -(-int(size[KERNELS]) // lanes)
    return REGISTER * int(size[GROUPS] * blocks * size[KERNEL_WIDTH] * size[LINES])


def _bordered(size: Any) -> int:
    return FLOAT * int(size[PLANES] * size[ROWS] * size[COLUMNS] + LANES)
