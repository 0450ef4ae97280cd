"""Convolutions after Winograd, as numbers their rules and their kernels agree on."""

from __future__ import annotations

TILES = 64  # of a block, 2 x 2 outputs each
ELEMENTS = 16  # of a tile and of a filter that are transformed
ROWS = 4  # output channels of the micro-kernel
CHUNK = 32  # output channels whose sums are there at once

# A piece: tiles of one row. The sample, the row and column of the first pixel, the first tile in the block, how many
PIECE_SAMPLE, PIECE_ROW, PIECE_COLUMN, PIECE_FIRST, PIECE_COUNT = range(5)
PIECE_WORDS = 5

# Memory for a block, in bytes
APART = 64  # more than elements take: were their distance a power of two, sixteen would share a set of the cache
PATCH_BYTES = 4 * (TILES + 16)  # of an element of a channel; the last register goes beyond
LINE_BYTES = 4 * (2 * TILES + 32)  # of a row of pixels of all tiles, likewise
SUM_BYTES = 4 * TILES * CHUNK + APART  # of an element of some output channels
AT_PATCHES = 8 * PIECE_WORDS * TILES  # pieces come first
AT_LINES = AT_PATCHES + ELEMENTS * PATCH_BYTES
AT_SUMS = AT_LINES + 2 * LINE_BYTES
AT_INPUTS = AT_SUMS + ELEMENTS * SUM_BYTES


def input_bytes(channels: int) -> int:
    """Of an element of all channels."""
    return 4 * TILES * channels + APART


def room_bytes(channels: int) -> int:
    """Of all."""
    return AT_INPUTS + ELEMENTS * input_bytes(channels)


def packed_bytes(channels: int, kernels: int) -> int:
    """Of a filter that is packed."""
    return kernels // ROWS * ELEMENTS * (4 * ROWS * channels + APART)
