"""How long every form of a convolution takes, computed from its shape.

What a form does is counted, and every kind of thing that is counted takes so many nanoseconds: `NANOSECONDS`, of one
core with AVX-512, as `tests.benchmarks.bench_convolutions --fit` fits them to measured times. Nothing is measured while
programs run: forms round differently, so a stopwatch that chose among them would choose the bits of results.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from workbench.executors.lowering.tape.conv.convolution_tables import (
    LANES,
    bordered,
    columns_inside,
    pixels_of_span,
    rows_inside,
    split_by_height,
)
from workbench.executors.lowering.tape.conv.unfolding import block_rows, is_plain, sample_blocks_of_columns
from workbench.ops.conv.convolutions.convolve import Geometry
from workbench.runtime.words import winograd

Counts = dict[str, float]

FAR_IMAGE = 1 << 19  # bytes of sixteen samples' planes: more are not in the second cache when they are needed again
FAR_SUMS, FAR_COLUMNS, FAR_FILTER = 1 << 20, 1 << 20, 2 << 20
LONG_FILTER = 1 << 10  # taps: weights of neighbouring channels are in different pages
SMALL_PRODUCT = 10**6  # terms: the BLAS copies no operands then

NANOSECONDS: Mapping[str, Mapping[str, float]] = {
    "channels": {
        "channel": 1.32, "far weight": 0.452, "fma": 0.292, "line": 3, "pixel": 0.0238, "vector": 6.05,
        "weight": 0.32,
    },
    "pixels": {
        "far weight": 0.266, "fma": 0.301, "line": 1.72, "low fma": 0.56, "pixel": 0.0656, "vector": 0.996,
        "weight": 0.709,
    },
    "samples": {
        "far fma": 0.0328, "far weight": 0, "fma": 0.305, "group": 356, "low fma": 0.574, "pixel": 0.186,
        "turned": 4.41, "turned back": 2.03, "weight": 2.68,
    },
    "winograd": {
        "channel": 90.9, "far filter": 6, "filter": 4.8, "fma": 0.315, "piece": 25.7, "sum": 252,
    },
    "columns": {
        "call": 0.021, "fma": 0.287, "left": 0.263, "line": 6.01, "result": 0.18, "right": 0.206,
        "small fma": 0.313, "small left": 0.0157, "small result": 0.0362, "small right": 0.0779,
        "strided entry": 0.195,
    },
    "together": {
        "call": 1700, "far entry": 0.166, "fma": 0.316, "left": 0, "line": 4.9, "result": 0.144,
        "right": 0.103, "strided entry": 0.304,
    },
    "input columns": {
        "call": 40.1, "fma": 0.301, "left": 0.243, "line": 7.23, "result": 0.0614, "right": 0.276,
        "small fma": 0.273, "small left": 0.00846, "small result": 0.0983, "small right": 0.0361,
        "strided entry": 0.225,
    },
    "input together": {
        "call": 1750, "far entry": 0.0892, "fma": 0.337, "left": 0, "line": 3.73, "result": 0.122,
        "right": 0.16, "strided entry": 0.284,
    },
    "filter channels": {
        "far sum": 0.537, "fma": 0.299, "line": 0, "number": 0.793, "pixel": 0.0676, "sum": 0.383,
        "turned": 1.74,
    },
    "filter pixels": {
        "gradient": 0.301, "line": 2.08, "number": 2.62, "pixel": 0.17, "row": 1.11, "step": 2.85, "sum": 1.69,
    },
    "filter columns": {
        "call": 314, "fma": 0.295, "left": 0.334, "line": 8.15, "result": 0.083, "right": 0.547,
        "small fma": 0.369, "small left": 0, "small result": 0.0555, "small right": 0, "strided entry": 0.167,
    },
    "filter together": {
        "call": 1090, "far entry": 0.152, "fma": 0.304, "left": 0.0995, "line": 4.85, "result": 0.0454,
        "right": 0.216, "strided entry": 0.378,
    },
}  # fmt: skip
"""By form, of one of everything that is counted."""


def nanoseconds(form: str, geo: Geometry) -> float:
    """What a form, a key of `COUNTED`, takes."""
    takes = NANOSECONDS[form]
    return sum(takes[kind] * count for kind, count in COUNTED[form](geo).items())


# Sums in registers


def _channels(geo: Geometry) -> Counts:
    """The convolution with output channels in the lanes."""
    kernels, size = geo.kernels // geo.groups, pixels_of_span(geo)
    vectors = 2 * (kernels // (2 * LANES)) + -(-(kernels % (2 * LANES)) // LANES)
    spans = geo.samples * geo.groups * -(-geo.out[1] // size)
    rows = spans * (geo.out[0] + geo.out[0] % 2)
    return {
        "fma": vectors * size * spans * _taps_of_rows(geo),
        "vector": vectors * rows, "channel": kernels * rows, **_image(geo), **_packed(geo),
    }  # fmt: skip


def _taps_of_rows(geo: Geometry) -> int:
    """Of all output rows together, those in the border above and below left out."""
    return rows_inside(geo) * geo.taps // geo.kernel[0]


def _image(geo: Geometry) -> Counts:
    """Images get their border."""
    rows, columns = bordered(geo)
    planes = geo.samples * geo.channels
    return {"line": planes * min(rows, geo.height), "pixel": planes * rows * columns}


def _packed(geo: Geometry) -> Counts:
    weights = geo.kernels * geo.taps
    return {"weight": weights, "far weight": weights if geo.taps > LONG_FILTER else 0}


def _pixels(geo: Geometry) -> Counts:
    """With neighbouring pixels in the lanes."""
    kernels, positions = geo.kernels // geo.groups, geo.out[0] * -(-geo.out[1] // LANES)
    high, low = split_by_height(kernels)
    tiles = geo.samples * geo.groups * -(-positions // 4) * 4
    taps = tiles * _taps_of_rows(geo) / geo.out[0]
    return {
        "fma": high * taps, "low fma": low * taps,
        "vector": tiles * kernels, **_image(geo), **_packed(geo),
    }  # fmt: skip


def _samples(geo: Geometry) -> Counts:
    """With samples in the lanes."""
    (high, low), blocks = split_by_height(geo.kernels // geo.groups), -(-geo.samples // LANES)
    taps = blocks * geo.channels * rows_inside(geo) * columns_inside(geo)
    rows, columns = bordered(geo)
    is_far = 4 * LANES * geo.channels // geo.groups * rows * columns > FAR_IMAGE
    return {
        "fma": high * taps, "low fma": low * taps, "far fma": is_far * high * taps,
        "group": blocks * geo.groups, "turned": blocks * geo.channels * geo.height * geo.width,
        "turned back": blocks * geo.kernels * geo.out[0] * geo.out[1],
        "pixel": blocks * geo.channels * rows * columns, **_packed(geo),
    }  # fmt: skip


def _filter_channels(geo: Geometry) -> Counts:
    """The gradient of a filter with output channels in the lanes."""
    parts = geo.groups * -(-geo.kernels // geo.groups // LANES)
    height = {3: 6, 5: 3}[geo.kernel[1]]
    entries = -(-_lines(geo) // height) * height * geo.kernel[1]
    pixels, sums = geo.out[0] * geo.out[1], geo.samples * parts * entries
    return {
        "fma": geo.samples * parts * entries * pixels, "sum": sums,
        "far sum": sums if 4 * LANES * parts * entries > FAR_SUMS else 0,
        "turned": geo.samples * parts * pixels, **_image(geo), "number": geo.kernels * geo.taps,
    }  # fmt: skip


def _lines(geo: Geometry) -> int:
    return geo.channels // geo.groups * geo.kernel[0]


def _filter_pixels(geo: Geometry) -> Counts:
    """The same with neighbouring pixels in the lanes."""
    threes, ones = divmod(geo.kernels // geo.groups, 3)
    tiles = geo.samples * geo.groups * (threes * _lines(geo) + ones * -(-_lines(geo) // 3))
    rows = tiles * geo.out[0]
    return {
        "step": rows * (geo.out[1] // LANES + 1),
        "row": rows, "sum": tiles * 3 * geo.kernel[1], "gradient": geo.samples * geo.kernels * geo.out[0] * geo.out[1],
        **_image(geo), "number": geo.kernels * geo.taps,
    }  # fmt: skip


# Winograd


def _winograd(geo: Geometry) -> Counts:
    """The convolution by tiles of 2 x 2 pixels, many of which are a block."""
    rows, across = geo.samples * -(-geo.out[0] // 2), -(-geo.out[1] // 2)
    blocks, filters = -(-rows * across // winograd.TILES), geo.kernels * geo.channels
    pieces = rows * -(-across // LANES) + blocks
    is_far = winograd.packed_bytes(geo.channels, geo.kernels) > FAR_FILTER
    return {
        "fma": blocks * winograd.TILES // LANES * winograd.ELEMENTS * filters, "channel": blocks * geo.channels,
        "sum": blocks * geo.kernels, "piece": pieces * geo.channels, "filter": filters,
        "far filter": filters if is_far else 0,
    }  # fmt: skip


# Products


def _columns(geo: Geometry) -> Counts:
    """The convolution as products of the columns of each sample."""
    calls, pixels = _calls(geo)
    return {**_by_blas(calls, geo.kernels // geo.groups, pixels, geo.taps), **_unfolded(geo)}


def _input_columns(geo: Geometry) -> Counts:
    calls, pixels = _calls(geo)
    return {**_by_blas(calls, geo.taps, pixels, geo.kernels // geo.groups), **_unfolded(geo)}


def _filter_columns(geo: Geometry) -> Counts:
    calls, pixels = _calls(geo)
    return {**_by_blas(calls, geo.kernels // geo.groups, geo.taps, pixels), **_unfolded(geo)}


def _calls(geo: Geometry) -> tuple[int, float]:
    """How many products there are, and pixels in each of them."""
    blocks = -(-geo.out[0] // block_rows(geo))
    return geo.samples * geo.groups * blocks, geo.out[0] * geo.out[1] / blocks


def _by_blas(calls: int, m: float, n: float, k: float) -> Counts:
    """So many times `[m, k] @ [k, n]`."""
    size = "small " if m * n * k <= SMALL_PRODUCT else ""
    return {
        "call": calls, f"{size}fma": calls * m * n * k / LANES,
        f"{size}left": calls * m * k, f"{size}right": calls * n * k, f"{size}result": calls * m * n,
    }  # fmt: skip


def _unfolded(geo: Geometry) -> Counts:
    """Windows are unfolded, or what was is folded."""
    if is_plain(geo):
        return {}
    lines = geo.samples * geo.groups * geo.taps * geo.out[0]
    return {"line": lines, "strided entry": lines * geo.out[1] if geo.strides[1] != 1 else 0}


def _together(geo: Geometry) -> Counts:
    """As products of the columns of many samples."""
    return {**_by_tiles(geo, geo.kernels, _windows(geo), geo.taps), **_unfolded_together(geo)}


def _input_together(geo: Geometry) -> Counts:
    return {**_by_tiles(geo, geo.taps, _windows(geo), geo.kernels), **_unfolded_together(geo)}


def _filter_together(geo: Geometry) -> Counts:
    return {**_by_tiles(geo, geo.kernels, geo.taps, _windows(geo)), **_unfolded_together(geo)}


def _windows(geo: Geometry) -> int:
    return geo.samples * geo.out[0] * geo.out[1]


def _by_tiles(geo: Geometry, m: int, n: int, k: int) -> Counts:
    """`[m, k] @ [k, n]` in register tiles."""
    return {
        "call": sample_blocks_of_columns(geo), "fma": m * -(-n // LANES) * k,
        "left": m * k, "right": n * k, "result": m * n,
    }  # fmt: skip


def _unfolded_together(geo: Geometry) -> Counts:
    entries = geo.taps * _windows(geo)
    return {
        "line": entries / geo.out[1], "far entry": entries if 4 * entries > FAR_COLUMNS else 0,
        "strided entry": entries if geo.strides[1] != 1 else 0,
    }  # fmt: skip


COUNTED: Mapping[str, Callable[[Geometry], Counts]] = {
    "channels": _channels, "pixels": _pixels, "samples": _samples, "winograd": _winograd, "columns": _columns,
    "together": _together, "input columns": _input_columns, "input together": _input_together,
    "filter channels": _filter_channels, "filter pixels": _filter_pixels, "filter columns": _filter_columns,
    "filter together": _filter_together,
}  # fmt: skip
"""What forms are made of; the gradient of an input in registers is a convolution, see `turned_round`."""
