"""Convolutions after Winograd, as numbers their rules and their kernels agree on."""

from __future__ import annotations

from typing import Any

from workbench.runtime.footprint import FLOAT, require_inside
from workbench.runtime.words import convolution as table

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


# What kernels touch, as tables of `words.convolution` say

TAPS = 9


def require_weights(size: Any) -> None:
    """Weights of a channel lie in the order of taps, or the other way round."""
    first, step = int(size[table.FIRST_WEIGHT]), int(size[table.WEIGHT_STEP])
    require_inside("a weight of a convolution", (first, step) in ((0, 1), (TAPS - 1, -1)))


def require_fours(size: Any) -> None:
    """Output channels are there by fours."""
    require_inside("an output channel of a convolution", size[table.KERNELS] % ROWS == 0)


def samples_of_block(size: Any) -> int:
    """With fewer samples there would be no tiles for some lanes."""
    return -(-TILES // (-(-int(size[table.OUT_HEIGHT]) // 2) * -(-int(size[table.OUT_WIDTH]) // 2)))


def require_in_block(channels: int, positions: Any, taps: Any) -> None:
    """Positions and taps of the micro-kernel lie in the memory for a block."""
    positions, taps = positions.reshape(-1, table.POSITION_WORDS), taps.reshape(-1, table.TAP_WORDS)
    register = table.REGISTER
    require_inside(
        "a position of a convolution",
        len(positions) == TILES // table.LANES,
        len(taps) == channels,
        bool((positions[:, table.FIRST_TAP] >= 0).all() and (positions[:, table.END_TAP] <= channels).all()),
        bool((positions[:, table.PIXELS] <= table.LANES).all()),
        *(
            bool((at >= 0).all() and (at + register <= (FLOAT * TILES)).all())
            for at in (positions[:, table.PLACE], positions[:, table.TARGET])
        ),
        bool((taps[:, table.AHEAD] >= 0).all() and (taps[:, table.AHEAD] < (FLOAT * TILES) * channels).all()),
        bool((taps[:, table.WEIGHT] >= 0).all() and (taps[:, table.WEIGHT] < FLOAT * channels).all()),
    )
