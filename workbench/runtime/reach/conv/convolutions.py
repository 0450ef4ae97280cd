"""Convolutions: what they touch follows from the tables they are told by, see `words.convolution`."""

from __future__ import annotations

from typing import Any

from workbench.runtime.reach.declare import FLOAT, WORD, reaches, require_inside
from workbench.runtime.reach.divide import divides_by_table, owns
from workbench.runtime.words.convolution import (
    AHEAD,
    BLOCK,
    COLUMNS,
    END_TAP,
    FILTER_GROUP,
    FILTER_ROW,
    FIRST_TAP,
    GROUPS,
    HEIGHT,
    KERNEL_HEIGHT,
    KERNEL_WIDTH,
    KERNELS,
    LINES,
    OUT_HEIGHT,
    OUT_WIDTH,
    PART_COUNT,
    PART_FIRST,
    PART_WIDTH,
    PART_WORDS,
    PARTS,
    PIXELS,
    PLACE,
    PLANES,
    POSITION_WORDS,
    POSITIONS,
    ROW_WORDS,
    ROWS,
    SAMPLES,
    SIZE_WORDS,
    STRIDE_HEIGHT,
    STRIDE_WIDTH,
    TAP_WORDS,
    TAPS,
    TARGET,
    WEIGHT,
    WIDTH,
)

LANES = 16
REGISTER = FLOAT * LANES
_SIZE, _ROW = WORD * SIZE_WORDS, WORD * ROW_WORDS


def _input(size: Any) -> int:
    return FLOAT * int(size[SAMPLES] * size[GROUPS] * size[PLANES] * size[HEIGHT] * size[WIDTH])


def _plane(size: Any) -> int:
    return FLOAT * int(size[OUT_HEIGHT] * size[OUT_WIDTH])


def _output(size: Any) -> int:
    return int(size[SAMPLES] * size[GROUPS] * size[KERNELS]) * _plane(size)


def _sample(size: Any) -> int:
    """Bytes of a sample that goes in."""
    return FLOAT * int(size[GROUPS] * size[PLANES] * size[HEIGHT] * size[WIDTH])


def _sample_of_lanes(size: Any) -> int:
    return _sample(size) // LANES


def _result(size: Any) -> int:
    """Bytes of what a sample becomes."""
    return int(size[GROUPS] * size[KERNELS]) * _plane(size)


def _filter(size: Any) -> int:
    return FLOAT * int(size[GROUPS] * size[KERNELS] * size[TAPS])


def _bordered(size: Any) -> int:
    return FLOAT * int(size[PLANES] * size[ROWS] * size[COLUMNS] + LANES)


def _require_parts(size: Any, parts: Any) -> None:
    of = parts.reshape(-1, PART_WORDS)
    first, count, width = of[:, PART_FIRST], of[:, PART_COUNT], of[:, PART_WIDTH]
    inside = (first >= 0).all() and (first + count <= size[KERNELS]).all() and (count <= width).all()
    require_inside("a part of a convolution", bool(inside), len(of) == size[PARTS])


def _packed(size: Any, parts: Any) -> int:
    return FLOAT * int(size[GROUPS] * size[TAPS] * parts.reshape(-1, PART_WORDS)[:, PART_WIDTH].sum())


def _reach_of_tiles(size: Any, positions: Any, taps: Any) -> tuple[int, int, int]:
    """The first byte of the image micro-kernels read, the one past the last, and how far into a plane they write."""
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
    if not used.any():
        return 0, 0, target
    places, ahead = at[used, PLACE], of[:, AHEAD]
    return int(places.min() + ahead.min()), int(places.max() + ahead.max()) + REGISTER, target


@reaches("size", "w_address", "parts", "weights", "packed")
def pack_filter(size: Any, w_address: Any, parts: Any, weights: Any, packed: Any) -> Any:
    _require_parts(size, parts)
    require_inside("a weight of a convolution", int(weights.min(initial=0)) >= 0)
    most = (size[GROUPS] - 1) * size[FILTER_GROUP] + (size[KERNELS] - 1) * size[FILTER_ROW] + weights.max(initial=0)
    return _SIZE, FLOAT * (int(most) + 1), parts.nbytes, WORD * int(size[TAPS]), _packed(size, parts)


@divides_by_table(SAMPLES, x=_sample, out=_result)
@owns("image", "row")
@reaches("size", "x", "packed", "out", "parts", "positions", "taps", "image", "row")
def convolve(
    size: Any, x: Any, packed: Any, out: Any, parts: Any, positions: Any, taps: Any, image: Any, row: Any
) -> Any:
    _require_parts(size, parts)
    first, end, target = _reach_of_tiles(size, positions, taps)
    require_inside("a pixel of a convolution", target <= _plane(size))
    return (
        _SIZE, _input(size), _packed(size, parts), _output(size), parts.nbytes, positions.nbytes, taps.nbytes,
        (min(first, 0), max(end, _bordered(size))), _ROW,
    )  # fmt: skip


@divides_by_table(SAMPLES, LANES, x=_sample_of_lanes, out=_result)
@owns("image", "turned", "sums", "row")
@reaches("size", "x", "packed", "out", "parts", "positions", "taps", "image", "turned", "sums", "row")
def convolve_samples(
    size: Any, x: Any, packed: Any, out: Any, parts: Any, positions: Any, taps: Any, image: Any, turned: Any,
    sums: Any, row: Any,
) -> Any:  # fmt: skip
    """Its sizes count sixteen floats to a pixel."""
    _require_parts(size, parts)
    pixels, plane = int(size[HEIGHT] * size[WIDTH]) // LANES, _plane(size)
    first, end, target = _reach_of_tiles(size, positions, taps)
    require_inside(
        "a sample of a convolution", min(pixels, plane // FLOAT, int(size[SAMPLES])) >= LANES, target <= LANES * plane
    )
    most = int(parts.reshape(-1, PART_WORDS)[:, PART_COUNT].max(initial=0))
    return (
        _SIZE, _input(size) // LANES, _packed(size, parts), _output(size), parts.nbytes, positions.nbytes, taps.nbytes,
        (min(first, 0), max(end, _bordered(size))), REGISTER * int(size[PLANES]) * pixels, LANES * most * plane, _ROW,
    )  # fmt: skip


def _sums(size: Any, lanes: int) -> int:
    """Sixteen numbers for every one of a filter's gradient; of every sixteen kernels one where they are the lanes."""
    blocks = -(-int(size[KERNELS]) // lanes)
    return REGISTER * int(size[GROUPS] * blocks * size[KERNEL_WIDTH] * size[LINES])


@owns("image", "across", "row")
@reaches("size", "x", "g", "parts", "lines", "image", "across", "sums", "row")
def filter_gradient(
    size: Any, x: Any, g: Any, parts: Any, lines: Any, image: Any, across: Any, sums: Any, row: Any
) -> Any:
    _require_parts(size, parts)
    down = size[COLUMNS] * size[STRIDE_HEIGHT] * (size[OUT_HEIGHT] - 1)
    right = size[STRIDE_WIDTH] * (size[OUT_WIDTH] - 1) + size[KERNEL_WIDTH]
    end = int(lines.max(initial=0) + FLOAT * (down + right))
    turned = REGISTER * LANES * -(-_plane(size) // REGISTER) if across is not None else 0
    return (
        _SIZE, _input(size), _output(size), parts.nbytes, WORD * int(size[LINES]),
        (min(int(lines.min(initial=0)), 0), max(end, _bordered(size))), turned,
        _sums(size, 1 if across is None else LANES), _ROW,
    )  # fmt: skip


@reaches("size", "sums", "out")
def add_up_lanes(size: Any, sums: Any, out: Any) -> Any:
    return _SIZE, _sums(size, 1), _filter(size)


@reaches("size", "sums", "out")
def take_lanes(size: Any, sums: Any, out: Any) -> Any:
    return _SIZE, _sums(size, LANES), _filter(size)


# Columns


def _image(size: Any, unfolding: int) -> int:
    """Images that are their columns themselves have as many pixels as the output."""
    if unfolding:
        return _input(size)
    before = int((size[SAMPLES] * size[GROUPS] - 1) * size[PLANES] * size[HEIGHT] * size[WIDTH])
    return FLOAT * before + int(size[TAPS]) * _plane(size)


def _columns(size: Any, unfolding: int) -> int:
    block = min(int(size[BLOCK]), int(size[OUT_HEIGHT]))
    return FLOAT * int(size[TAPS] * block * size[OUT_WIDTH]) if unfolding else 0


@divides_by_table(SAMPLES, x=_sample, out=_result)
@owns("unfolded", "row")
@reaches("size", "x", "w", "out", "unfolded", "row")
def convolve_columns(
    size: Any, blas: int, x: Any, w: Any, out: Any, unfolding: int, unfolded: Any, row: Any
) -> Any:  # fmt: skip
    return _SIZE, _image(size, unfolding), _filter(size), _output(size), _columns(size, unfolding), _ROW


@owns("unfolded", "row")
@reaches("size", "x", "g", "out", "unfolded", "row")
def filter_gradient_columns(
    size: Any, blas: int, x: Any, g: Any, out: Any, unfolding: int, unfolded: Any, row: Any
) -> Any:  # fmt: skip
    return _SIZE, _image(size, unfolding), _output(size), _filter(size), _columns(size, unfolding), _ROW


@divides_by_table(SAMPLES, g=_result, out=_sample)
@owns("unfolded", "row")
@reaches("size", "g", "w", "out", "unfolded", "row")
def input_gradient_columns(
    size: Any, blas: int, g: Any, w: Any, out: Any, folding: int, unfolded: Any, row: Any
) -> Any:  # fmt: skip
    return _SIZE, _output(size), _filter(size), _image(size, folding), _columns(size, folding), _ROW


def _plane_of_image(size: Any) -> int:
    return FLOAT * int(size[HEIGHT] * size[WIDTH])


def _windows_of_plane(size: Any) -> int:
    """Bytes of the columns of a channel, of all samples."""
    return int(size[SAMPLES] * size[KERNEL_HEIGHT] * size[KERNEL_WIDTH]) * _plane(size)


def _samples_apart(size: Any, sample: int) -> tuple[tuple[int, int], int]:
    """What is touched of images of which each has more planes than these, and of their columns."""
    planes = int(size[PLANES])
    end = (int(size[SAMPLES]) - 1) * sample + planes * _plane_of_image(size)
    return (0, end), planes * _windows_of_plane(size)


@divides_by_table(PLANES, x=_plane_of_image, columns=_windows_of_plane)
@reaches("size", "x", "columns")
def unfold_samples(size: Any, x: Any, columns: Any, sample: int) -> Any:
    return _SIZE, *_samples_apart(size, sample)


@divides_by_table(PLANES, x=_plane_of_image, columns=_windows_of_plane)
@reaches("size", "x", "columns")
def fold_samples(size: Any, x: Any, columns: Any, sample: int) -> Any:
    return _SIZE, *_samples_apart(size, sample)
