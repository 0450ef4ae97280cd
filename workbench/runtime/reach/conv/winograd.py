"""Convolutions after Winograd."""

from __future__ import annotations

from typing import Any

from workbench.runtime.reach.declare import FLOAT, WORD, reaches, require_inside
from workbench.runtime.reach.divide import divides_by_table, owns
from workbench.runtime.words.convolution import (
    AHEAD,
    END_TAP,
    FILTER_PLANE,
    FILTER_ROW,
    FIRST_TAP,
    FIRST_WEIGHT,
    HEIGHT,
    KERNELS,
    OUT_HEIGHT,
    OUT_WIDTH,
    PIXELS,
    PLACE,
    PLANES,
    POSITION_WORDS,
    ROW_WORDS,
    SAMPLES,
    SIZE_WORDS,
    TAP_WORDS,
    TARGET,
    WEIGHT,
    WEIGHT_STEP,
    WIDTH,
)
from workbench.runtime.words.winograd import ROWS, TILES, packed_bytes, room_bytes

LANES, TAPS = 16, 9
_SIZE, _ROW, _TILES = WORD * SIZE_WORDS, WORD * ROW_WORDS, FLOAT * TILES


def _sample(size: Any) -> int:
    """Bytes of a sample that goes in."""
    return FLOAT * int(size[PLANES] * size[HEIGHT] * size[WIDTH])


def _result(size: Any) -> int:
    """Bytes of what it becomes."""
    return FLOAT * int(size[KERNELS] * size[OUT_HEIGHT] * size[OUT_WIDTH])


def _packed(size: Any) -> int:
    return packed_bytes(int(size[PLANES]), int(size[KERNELS]))


def _require_fours(size: Any) -> None:
    require_inside("an output channel of a convolution", size[KERNELS] % ROWS == 0)


def _filter(size: Any) -> int:
    """Bytes of what an output channel is made with."""
    return FLOAT * int(size[FILTER_ROW])


def _packed_filter(size: Any) -> int:
    return packed_bytes(int(size[PLANES]), ROWS) // ROWS


def _samples_of_block(size: Any) -> int:
    """With fewer samples there would be no tiles for some lanes."""
    return -(-TILES // (-(-int(size[OUT_HEIGHT]) // 2) * -(-int(size[OUT_WIDTH]) // 2)))


@divides_by_table(KERNELS, LANES, w=_filter, packed=_packed_filter)
@owns("turned")
@reaches("size", "w", "packed", "turned")
def pack_winograd(size: Any, w: Any, packed: Any, turned: Any) -> Any:
    _require_fours(size)
    first, step = int(size[FIRST_WEIGHT]), int(size[WEIGHT_STEP])
    require_inside("a weight of a convolution", (first, step) in ((0, 1), (TAPS - 1, -1)))
    last = (size[KERNELS] - 1) * size[FILTER_ROW] + (size[PLANES] - 1) * size[FILTER_PLANE]
    return _SIZE, FLOAT * (int(last) + TAPS), _packed(size), FLOAT * LANES * LANES


@divides_by_table(SAMPLES, _samples_of_block, x=_sample, out=_result)
@owns("room", "row")
@reaches("size", "x", "packed", "out", "positions", "taps", "room", "row")
def convolve_winograd(
    size: Any, x: Any, packed: Any, out: Any, micro: int, positions: Any, taps: Any, room: Any, row: Any
) -> Any:
    _require_fours(size)
    _require_in_block(int(size[PLANES]), positions.reshape(-1, POSITION_WORDS), taps.reshape(-1, TAP_WORDS))
    samples = int(size[SAMPLES])
    return (
        _SIZE, samples * _sample(size), _packed(size), samples * _result(size), positions.nbytes, taps.nbytes,
        room_bytes(int(size[PLANES])), _ROW,
    )  # fmt: skip


def _require_in_block(channels: int, positions: Any, taps: Any) -> None:
    register = FLOAT * LANES
    require_inside(
        "a position of a convolution",
        len(positions) == TILES // LANES,
        len(taps) == channels,
        bool((positions[:, FIRST_TAP] >= 0).all() and (positions[:, END_TAP] <= channels).all()),
        bool((positions[:, PIXELS] <= LANES).all()),
        *(
            bool((at >= 0).all() and (at + register <= _TILES).all())
            for at in (positions[:, PLACE], positions[:, TARGET])
        ),
        bool((taps[:, AHEAD] >= 0).all() and (taps[:, AHEAD] < _TILES * channels).all()),
        bool((taps[:, WEIGHT] >= 0).all() and (taps[:, WEIGHT] < FLOAT * channels).all()),
    )
