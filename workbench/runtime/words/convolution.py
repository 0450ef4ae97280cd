"""What convolutions are, as words of tables: the numbers their rules and their kernels agree on."""

from __future__ import annotations

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
