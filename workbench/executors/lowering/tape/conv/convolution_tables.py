"""The tables of convolutions: what kernels are told of them, see `words.convolution`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from workbench.ops.conv.convolutions.convolve import Geometry
from workbench.ops.conv.windows import extent
from workbench.runtime.words import convolution as words

LANES = 16
PIXELS = (14, 10, 8, 7)  # of the micro-kernels of channels


def bordered(geo: Geometry) -> tuple[int, int]:
    """Rows and columns of an image with its border: what windows reach."""
    sizes = zip(geo.out, geo.strides, geo.kernel, geo.dilations, strict=True)
    reach = [(o - 1) * s + extent(k, d) for o, s, k, d in sizes]
    return reach[0], reach[1]


def sizes_of_lanes(geo: Geometry, **more: int) -> np.ndarray:
    """The same where every pixel of an image is sixteen floats."""
    columns, left = bordered(geo)[1], geo.pads[1][0]
    return sizes_of(geo, WIDTH=LANES * geo.width, COLUMNS=LANES * columns, LEFT=LANES * left, **more)


def sizes_of(geo: Geometry, **more: int) -> np.ndarray:
    """The words of a convolution."""
    rows, columns = bordered(geo)
    named = {
        "SAMPLES": geo.samples, "GROUPS": geo.groups, "PLANES": geo.channels // geo.groups,
        "HEIGHT": geo.height, "WIDTH": geo.width, "ROWS": rows, "COLUMNS": columns,
        "TOP": geo.pads[0][0], "LEFT": geo.pads[1][0], "KERNELS": geo.kernels // geo.groups,
        "OUT_HEIGHT": geo.out[0], "OUT_WIDTH": geo.out[1], "TAPS": geo.taps,
        "KERNEL_HEIGHT": geo.kernel[0], "KERNEL_WIDTH": geo.kernel[1],
        "STRIDE_HEIGHT": geo.strides[0], "STRIDE_WIDTH": geo.strides[1],
        "DILATION_HEIGHT": geo.dilations[0], "DILATION_WIDTH": geo.dilations[1], **more,
    }  # fmt: skip
    sizes = np.zeros(words.SIZE_WORDS, np.int64)
    for name, number in named.items():
        sizes[getattr(words, name)] = number
    return sizes


def turned_round(geo: Geometry) -> Geometry | None:
    """The convolution of the output's gradient that gives the input's; None if strides are not 1."""
    if geo.strides != (1, 1):
        return None
    spans = [extent(k, d) for k, d in zip(geo.kernel, geo.dilations, strict=True)]
    wanted = (geo.height, geo.width)
    before = [span - 1 - pads[0] for span, pads in zip(spans, geo.pads, strict=True)]
    pads = [(b, w + span - 1 - b - o) for b, w, span, o in zip(before, wanted, spans, geo.out, strict=True)]
    return Geometry(
        geo.samples, geo.kernels, geo.out[0], geo.out[1], geo.channels, geo.kernel, geo.strides, geo.dilations,
        (pads[0], pads[1]), geo.groups, wanted,
    )  # fmt: skip


# Taps and positions


def _axes(geo: Geometry) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Numbers of the taps along (kernel row, channel, kernel column): the taps of a row follow each other."""
    i, c, j = np.ogrid[: geo.kernel[0], : geo.channels // geo.groups, : geo.kernel[1]]
    return i, c, j


def _places(geo: Geometry) -> np.ndarray:
    """Where each tap is in the image, in pixels [kernel rows, channels, kernel columns]."""
    i, c, j = _axes(geo)
    rows, columns = bordered(geo)
    return (c * rows + i * geo.dilations[0]) * columns + j * geo.dilations[1]


def taps_of(geo: Geometry) -> np.ndarray:
    """All taps in order."""
    return _taps(4 * _places(geo), np.arange(geo.taps))


def _taps(places: np.ndarray, numbers: np.ndarray) -> np.ndarray:
    return np.stack([places, -places, 4 * numbers.reshape(places.shape)], axis=-1).reshape(-1, words.TAP_WORDS)


def weights_in_order(geo: Geometry) -> tuple[np.ndarray, int, int]:
    """Where the weight of each tap is in the filter; the distances of groups and of output channels there."""
    i, c, j = _axes(geo)
    kh, kw = geo.kernel
    return ((c * kh + i) * kw + j).reshape(-1), geo.kernels // geo.groups * geo.taps, geo.taps


def weights_turned(geo: Geometry) -> tuple[np.ndarray, int, int]:
    """The same for `turned_round`, whose channels are the kernels of this convolution."""
    kh, kw = geo.kernel
    kernels = geo.kernels // geo.groups
    i, o, j = np.ogrid[:kh, :kernels, :kw]
    return (o * geo.taps + (kh - 1 - i) * kw + kw - 1 - j).reshape(-1), kernels * geo.taps, kh * kw


def inside(geo: Geometry, axis: int, positions: Sequence[int]) -> tuple[int, int]:
    """Rows (or columns) of a kernel that are in the image, not in its border, at some output position.

    The first, and one past the last; that is less where there are none.
    """
    size, taps = (geo.height, geo.width)[axis], []
    for p in positions:
        start = p * geo.strides[axis] - geo.pads[axis][0]
        taps += [i for i in range(geo.kernel[axis]) if 0 <= start + i * geo.dilations[axis] < size]
    return (min(taps), max(taps) + 1) if taps else (geo.kernel[axis], 0)


def _tap_range(geo: Geometry, h: int) -> tuple[int, int]:
    """The taps of an output row that are not in the border above or below the image: the first, one past the last."""
    of_row = geo.taps // geo.kernel[0]
    first, end = inside(geo, 0, [h])
    return first * of_row, end * of_row


def rows_inside(geo: Geometry) -> int:
    """Rows of kernels that are not in the border, of all output rows together."""
    return sum(max(end - first, 0) for first, end in (inside(geo, 0, [h]) for h in range(geo.out[0])))


def columns_inside(geo: Geometry) -> int:
    """The same of columns, along one output row."""
    return sum(max(end - first, 0) for first, end in (inside(geo, 1, [w]) for w in range(geo.out[1])))


def pixel_positions(geo: Geometry) -> tuple[np.ndarray, int]:
    """Positions of `pixel_tile`, and how many a tile of six channels takes."""
    _, columns = bordered(geo)
    ranges = [_tap_range(geo, h) for h in range(geo.out[0])]
    positions = [
        [4 * (h * geo.strides[0] * columns + w), 4 * (h * geo.out[1] + w), *ranges[h], min(LANES, geo.out[1] - w)]
        for h in range(geo.out[0])
        for w in range(0, geo.out[1], LANES)
    ]
    positions += [[0, 0, geo.taps, 0, 0]] * (-len(positions) % 8)
    return np.array(positions), 4 if len(set(ranges)) <= 5 else 2  # fewer together leave out more taps


def sample_positions(geo: Geometry, together: int) -> tuple[np.ndarray, np.ndarray]:
    """Positions of `pixel_tile` where lanes are samples, blocks of four pixels each, and the taps they name.

    Blocks have the shape that meets the border least. Those that meet the same columns of kernels share a list of taps,
    they follow each other and fill a multiple of `together` positions.
    """
    blocks = min(([*_blocks(geo, *shape)] for shape in ((1, 4), (2, 2), (4, 1))), key=lambda b: sum(map(_work, b)))
    lists: dict[tuple[int, int], list[_Block]] = {}
    for block in blocks:
        lists.setdefault(block.columns, []).append(block)
    _, columns = bordered(geo)
    positions, taps, begin = [], [], 0
    places, numbers = _places(geo), np.arange(geo.taps).reshape(geo.kernel[0], -1, geo.kernel[1])
    for (first, end), members in lists.items():
        of_row = max(end - first, 0) * numbers.shape[1]
        taps.append(_taps(4 * LANES * places[..., first:end], numbers[..., first:end]))
        members += members[-1:] * (-len(members) % (together // 4))
        for block in members:
            lines = [begin + line * of_row for line in block.rows]
            for h, w in block.pixels:
                place = h * geo.strides[0] * columns + w * geo.strides[1]
                positions.append([4 * LANES * place, 4 * LANES * (h * geo.out[1] + w), *lines, LANES])
        begin += of_row * geo.kernel[0]
    return np.array(positions), np.concatenate(taps)


class _Block(NamedTuple):
    """Output pixels, and the rows and columns of kernels that are not in the border for all of them."""

    pixels: list[tuple[int, int]]
    rows: tuple[int, int]
    columns: tuple[int, int]


def _work(block: _Block) -> int:
    return max(block.rows[1] - block.rows[0], 0) * max(block.columns[1] - block.columns[0], 0)


def _blocks(geo: Geometry, height: int, width: int) -> Iterator[_Block]:
    """All output pixels by blocks of a size; at the end some are in a block twice."""
    for h in range(0, geo.out[0], height):
        hs = [min(h + i, geo.out[0] - 1) for i in range(height)]
        rows = inside(geo, 0, hs)
        for w in range(0, geo.out[1], width):
            ws = [min(w + i, geo.out[1] - 1) for i in range(width)]
            yield _Block([(a, b) for a in hs for b in ws], rows, inside(geo, 1, ws))


def pixels_of_span(geo: Geometry) -> int:
    """Of `channel_tile`: the size with the fewest in vain."""
    width = geo.out[1]
    return min((p for p in PIXELS if p <= width), key=lambda p: -(-width // p) * p)


def channel_positions(geo: Geometry) -> tuple[np.ndarray, int]:
    """Spans of `channel_tile`, two rows by turns, and how many pixels each has; the last of a row overlaps."""
    _, columns = bordered(geo)
    height, width = geo.out
    pixels = pixels_of_span(geo)
    positions = [
        [4 * (row * geo.strides[0] * columns + w), 4 * (row * width + w), *_tap_range(geo, row), pixels]
        for h in range(0, height, 2)
        for w in (min(start, width - pixels) for start in range(0, width, pixels))
        for row in (h, min(h + 1, height - 1))
    ]
    return np.array(positions), pixels


def lines_of(geo: Geometry) -> np.ndarray:
    """Where every row of a kernel is in the image, in bytes; the last one repeated to a multiple of six."""
    rows, columns = bordered(geo)
    c, i = np.ogrid[: geo.channels // geo.groups, : geo.kernel[0]]
    offsets = (4 * (c * rows + i * geo.dilations[0]) * columns).reshape(-1)
    return np.pad(offsets, (0, -offsets.size % 6), "edge")


# Parts


def _split(count: int, sizes: tuple[int, ...]) -> list[tuple[int, int]]:
    """Numbers 0 … count - 1 in parts of these sizes, the largest first: (first, how many)."""
    pieces, first = [], 0
    while first < count:
        size = next(s for s in sizes if s <= count - first)
        pieces.append((first, size))
        first += size
    return pieces


def _parts(addresses: Mapping[str, int], named: list[tuple[str, int, int, int]]) -> np.ndarray:
    """The table of parts from (kernel, first channel, how many, lanes)."""
    return np.array([[addresses[name], *numbers] for name, *numbers in named], np.int64)


def pixel_parts(addresses: Mapping[str, int], geo: Geometry, vectors: int) -> np.ndarray:
    """By six where that leaves fewer behind, by four, and one by one."""
    kernels = geo.kernels // geo.groups
    names = {6: f"sums_pixels_6x{vectors}", 4: "sums_pixels_4x4", 1: "sums_pixels_1x8"}
    return _parts(addresses, [(names[count], first, count, count) for first, count in _by_height(kernels)])


def _by_height(kernels: int) -> list[tuple[int, int]]:
    return _split(kernels, (4, 1) if kernels % 4 == 0 else (6, 4, 1))


def split_by_height(kernels: int) -> tuple[int, int]:
    """How many output channels are in tiles of several, and how many in tiles of their own."""
    low = sum(count for _, count in _by_height(kernels) if count == 1)
    return kernels - low, low


def channel_parts(addresses: Mapping[str, int], geo: Geometry, pixels: int) -> np.ndarray:
    """By 32, what is left by sixteen where that is enough."""
    kernels, tiles = geo.kernels // geo.groups, []
    for first in range(0, kernels, 2 * LANES):
        count = min(kernels - first, 2 * LANES)
        wide = count > LANES
        name = f"sums_channels_1x{pixels}x2" if wide else f"sums_channels_2x{pixels}x1"
        tiles.append((name, first, count, 2 * LANES if wide else LANES))
    return _parts(addresses, tiles)


def filter_parts(addresses: Mapping[str, int], form: str, geo: Geometry) -> np.ndarray:
    """By sixteen, or by three and one by one where lanes are pixels."""
    kernels, columns = geo.kernels // geo.groups, geo.kernel[1]
    if form == "channels":
        name = {3: "lines_channels_6x3", 5: "lines_channels_3x5"}[columns]
        return _parts(
            addresses, [(name, first, min(kernels - first, LANES), LANES) for first in range(0, kernels, LANES)]
        )
    names = {3: f"lines_pixels_3x1x{columns}", 1: f"lines_pixels_1x3x{columns}"}
    return _parts(addresses, [(names[count], first, count, LANES) for first, count in _split(kernels, (3, 1))])
