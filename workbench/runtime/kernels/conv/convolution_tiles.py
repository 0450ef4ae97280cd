"""The micro-kernels of convolution as kernels: rules choose them by name, other kernels call them by address.

- sums_pixels_RxV: R output channels, V times sixteen pixels at once
- sums_channels_SxPxV: S times P pixels, V times sixteen output channels
- lines_pixels_RxLxC: gradients of R output channels, L lines of C columns at once
- lines_channels_LxC: gradients of sixteen output channels
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from workbench.runtime.kernels.conv.tiles import channel_filter_tile, channel_tile, pixel_filter_tile, pixel_tile
from workbench.runtime.kernels.intrinsics import ROW
from workbench.runtime.kernels.registry import inner_kernel
from workbench.runtime.words.convolution import (
    AT_LINES,
    AT_POSITIONS,
    AT_TAPS,
    CHANNELS,
    COUNT,
    DOWN,
    GRADIENT,
    GRADIENT_HEIGHT,
    GRADIENT_PLANE,
    GRADIENT_WIDTH,
    IMAGE,
    LEFTWARDS,
    LINE_COUNT,
    LINE_IMAGE,
    OUT,
    PACKED,
    PLANE,
    POSITION_WORDS,
    SUMS,
    SUMS_ROW,
)


def _declare(name: str, body: Callable[..., Any]) -> None:
    body.__name__ = name
    inner_kernel(ROW)(body)


def _sums_pixels(rows: int, vectors: int) -> None:
    tile = pixel_tile(rows, vectors)

    def body(row):
        for i in range(0, row[COUNT], vectors):
            positions = row[AT_POSITIONS] + 8 * POSITION_WORDS * i
            tile(row[IMAGE], positions, row[AT_TAPS], row[PACKED], row[OUT], row[PLANE])
        return 0

    _declare(f"sums_pixels_{rows}x{vectors}", body)


def _sums_channels(spans: int, pixels: int, vectors: int) -> None:
    tile = channel_tile(spans, pixels, vectors)

    def body(row):
        for i in range(0, row[COUNT], spans):
            positions = row[AT_POSITIONS] + 8 * POSITION_WORDS * i
            tile(row[IMAGE], positions, row[AT_TAPS], row[PACKED], row[OUT], row[PLANE], row[CHANNELS])
        return 0

    _declare(f"sums_channels_{spans}x{pixels}x{vectors}", body)


def _lines_pixels(rows: int, lines: int, columns: int) -> None:
    tile = pixel_filter_tile(rows, lines, columns)

    def body(row):
        for i in range(0, row[LINE_COUNT], lines):
            tile(
                row[GRADIENT], row[GRADIENT_PLANE], row[GRADIENT_HEIGHT], row[GRADIENT_WIDTH], row[LINE_IMAGE],
                row[AT_LINES] + 8 * i, row[DOWN], row[SUMS] + 64 * columns * i, row[SUMS_ROW],
            )  # fmt: skip
        return 0

    _declare(f"lines_pixels_{rows}x{lines}x{columns}", body)


def _lines_channels(lines: int, columns: int) -> None:
    tile = channel_filter_tile(lines, columns)

    def body(row):
        for i in range(0, row[LINE_COUNT], lines):
            tile(
                row[GRADIENT], row[GRADIENT_HEIGHT], row[GRADIENT_WIDTH], row[LINE_IMAGE], row[AT_LINES] + 8 * i,
                row[DOWN], row[LEFTWARDS], row[SUMS] + 64 * columns * i,
            )  # fmt: skip
        return 0

    _declare(f"lines_channels_{lines}x{columns}", body)


for size in ((6, 4), (6, 2), (4, 4), (1, 8)):
    _sums_pixels(*size)
for count in (7, 8, 10, 14):
    _sums_channels(2, count, 1)
    _sums_channels(1, count, 2)
for width in (3, 5):
    _lines_pixels(3, 1, width)
    _lines_pixels(1, 3, width)
_lines_channels(3, 5)
_lines_channels(6, 3)
