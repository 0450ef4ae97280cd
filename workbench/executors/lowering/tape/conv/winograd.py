"""Convolutions after Winograd, see `kernels.conv.winograd`.

Tiles are of 2 x 2 outputs: their error is that of other forms (4e-7 of the largest result with 64 channels, 6e-7 with
512). Tiles of 4 x 4 would need half as many products again, but their error is ten to twenty times as large (1e-5).
"""

from __future__ import annotations

import numpy as np

from workbench.executors.lowering.tape.conv.convolution_tables import LANES, sizes_of
from workbench.executors.lowering.tape.math.products import lines_of
from workbench.executors.lowering.tape.writer import TapeWriter
from workbench.ops.conv.convolutions.convolve import Geometry
from workbench.runtime.words import convolution as words
from workbench.runtime.words.winograd import ROWS, TILES, packed_bytes, room_bytes

FLOAT_BYTES = 4


def suits_winograd(geo: Geometry) -> bool:
    """Whether it is a convolution by 3 x 3 neighbouring pixels whose output channels fill micro-kernels."""
    is_plain = geo.kernel == (3, 3) and geo.strides == geo.dilations == (1, 1) and geo.groups == 1
    return is_plain and geo.kernels % ROWS == 0


def filter_in_order(geo: Geometry) -> dict[str, int]:
    """Where weights are in the filter, as words of a convolution."""
    return {"FILTER_ROW": geo.taps, "FILTER_PLANE": 9, "FIRST_WEIGHT": 0, "WEIGHT_STEP": 1}


def filter_turned(geo: Geometry) -> dict[str, int]:
    """The same for `turned_round`, whose channels are the kernels of this convolution."""
    return {"FILTER_ROW": 9, "FILTER_PLANE": geo.taps, "FIRST_WEIGHT": 8, "WEIGHT_STEP": -1}


def convolve(
    writer: TapeWriter, geo: Geometry, weights: dict[str, int], x: np.ndarray, w: np.ndarray, out: np.ndarray
) -> None:
    """The convolution of `x` with `w`, whose weights are where `weights` tells."""
    keep, channels = writer.tape.keep, geo.channels
    size = keep(sizes_of(geo, **weights))
    packed = lines_of(writer, packed_bytes(channels, geo.kernels) // FLOAT_BYTES)
    room = lines_of(writer, room_bytes(channels) // FLOAT_BYTES)
    writer.row("pack_winograd", size, w, packed, lines_of(writer, LANES * LANES))
    writer.row(
        "convolve_winograd", size, x, packed, out, writer.tape.kernels.addresses[f"sums_pixels_{ROWS}x4"],
        keep(_positions(channels)), keep(_taps(channels)), room, keep(np.zeros(words.ROW_WORDS, np.int64)),
    )  # fmt: skip


def _positions(channels: int) -> np.ndarray:
    """Of `pixel_tile`: all tiles of a block."""
    return np.array([[4 * first, 4 * first, 0, channels, LANES] for first in range(0, TILES, LANES)], np.int64)


def _taps(channels: int) -> np.ndarray:
    """A channel is a tap."""
    numbers = np.arange(channels)
    return np.stack([4 * TILES * numbers, -4 * TILES * numbers, 4 * numbers], axis=-1)
