"""Convolutions as rows of a tape: which form each takes (see `kernels.conv`)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from workbench.executors.lowering.tape.conv import together
from workbench.executors.lowering.tape.conv.convolution_tables import (
    LANES,
    PIXELS,
    bordered,
    channel_parts,
    channel_positions,
    filter_parts,
    lines_of,
    pixel_parts,
    pixel_positions,
    sample_positions,
    sizes_of,
    sizes_of_lanes,
    taps_of,
    turned_round,
    useful,
    weights_in_order,
    weights_turned,
)
from workbench.executors.lowering.tape.math.sums import PARTIAL
from workbench.executors.lowering.tape.registry import native
from workbench.executors.lowering.tape.rules import operands, require, require_plain
from workbench.executors.lowering.tape.writer import TapeWriter
from workbench.executors.planning.plan import Row
from workbench.ops.conv.convolutions.conv import (
    BACKPROP_FILTER,
    BACKPROP_INPUT,
    CONV2D,
    CONV2D_TRANSPOSE,
    DEPTHWISE_CONV2D,
)
from workbench.ops.conv.convolutions.convolve import Geometry
from workbench.ops.conv.windows import NCHW, SAME, both_pads, extent
from workbench.runtime.words import convolution as words

BLOCK_BYTES = 256 << 10  # of unfolded windows: they stay in the second cache
MOST_SUMS = 1 << 20  # bytes of parts of a filter's gradient
LEAST_FILLED = 0.25  # of the lanes: below, micro-kernels are no better than products of columns

# What micro-kernels reach of the processor's peak where nothing is in vain: loads are what holds them up
PIXELS_SPEED, SAMPLES_SPEED = 0.75, 0.7
ONE_CHANNEL, TWO_CHANNELS = 0.57, 0.7  # vectors of channels: a pixel is loaded for each fma, or for two of them
TURNING = 20  # taps that would take as long as turning what goes in and what comes out
LEAST = 0.17
MOST_IMAGE, MOST_STRIDED = 1 << 20, 8 << 20  # bytes of sixteen samples of a group; where only products would be left
MOST_SAMPLES = 0.75  # of the lanes
# Of products of columns, as measured on one core with AVX-512, in large products' flops
FEW_PIXELS, FILTER_BYTES = 64, 4 << 10  # of one sample; of the filter for each of them, which is read for every sample
LARGE_FILTER = 1 << 20  # bytes: sums in registers for every one of its numbers leave the second cache
UNFOLDING = 36  # output channels whose products take as long as unfolding
PIXELS_IN_VAIN, FILTERS_IN_VAIN = 2, 50  # of micro-kernels of gradients: of every sample, and once

LARGE = 1 << 22  # terms in a filter's gradient, from which on it is made of blocks of samples
MOST_BLOCKS, TERMS = 8, 512  # how many; terms in every number of a block, at least
PRODUCTS = ("columns", "together")
COLUMNS = (3, 5)  # of kernels whose gradients have a micro-kernel


# Rules


@native(CONV2D, DEPTHWISE_CONV2D)
def conv2d(writer: TapeWriter, row: Row) -> None:
    (out,), (x, w) = operands(writer, row)
    convolve(writer, _geometry(x.shape, w.shape, out.shape, row.node.attrs), x, w, out)


@native(CONV2D.backward, DEPTHWISE_CONV2D.backward)
def conv2d_grad(writer: TapeWriter, row: Row) -> None:
    (g_x, g_w), (x, w, g) = operands(writer, row)
    require(g is not None)
    geo = _geometry(x.shape, w.shape, g.shape, row.node.attrs)
    require_plain(*(a for a in (g_x, g_w, x, w, g) if a is not None))
    if g_x is not None:
        input_gradient(writer, geo, g, w, g_x)
    if g_w is not None:
        filter_gradient(writer, geo, x, g, g_w)


@native(BACKPROP_INPUT)
def backprop_input(writer: TapeWriter, row: Row) -> None:
    (out,), (g, w, _) = operands(writer, row)
    input_gradient(writer, _geometry(out.shape, w.shape, g.shape, row.node.attrs), g, w, out)


@native(BACKPROP_FILTER)
def backprop_filter(writer: TapeWriter, row: Row) -> None:
    (out,), (x, g, _) = operands(writer, row)
    filter_gradient(writer, _geometry(x.shape, out.shape, g.shape, row.node.attrs), x, g, out)


@native(CONV2D_TRANSPOSE)
def conv2d_transpose(writer: TapeWriter, row: Row) -> None:
    (out,), (x, w) = operands(writer, row)
    require(row.node.attrs["padding_algorithm"] != SAME)  # means something else there
    input_gradient(writer, _geometry(out.shape, w.shape, x.shape, row.node.attrs), x, w, out)


@native(CONV2D_TRANSPOSE.backward)
def conv2d_transpose_grad(writer: TapeWriter, row: Row) -> None:
    (g_x, g_w), (x, w, g) = operands(writer, row)
    require(g is not None, row.node.attrs["padding_algorithm"] != SAME)
    geo = _geometry(g.shape, w.shape, x.shape, row.node.attrs)
    require_plain(*(a for a in (g_x, g_w, x, w, g) if a is not None))
    if g_x is not None:
        convolve(writer, geo, g, w, g_x)
    if g_w is not None:
        filter_gradient(writer, geo, g, x, g_w)


def _geometry(image: Any, filter: Any, out: Any, attrs: dict[str, Any]) -> Geometry:
    """Of a convolution with these shapes."""
    require(attrs["data_format"] == NCHW)
    strides, dilations = tuple(attrs["strides"]), tuple(attrs["dilations"])
    spans = [extent(k, d) for k, d in zip(filter[2:], dilations, strict=True)]
    pads = both_pads(image[2:], spans, strides, attrs["paddings"], attrs["padding_algorithm"])
    sizes: Any = (*image, filter[0], filter[2:], strides, dilations, pads, attrs["groups"], out[2:])
    return Geometry(*sizes)


# What a convolution is made of


def convolve(writer: TapeWriter, geo: Geometry, x: np.ndarray, w: np.ndarray, out: np.ndarray) -> None:
    """The convolution of `x` (n, c, h, w) with `w` (kernels, c / groups, kh, kw)."""
    require_plain(x, w, out)
    form = form_of(geo)
    if form == "together":
        together.convolve(writer, geo, x, w, out)
    elif form == "columns":
        _by_columns(writer, "convolve_columns", geo, x, w, out)
    else:
        _by_tiles(writer, form, geo, weights_in_order(geo), x, w, out)


def input_gradient(writer: TapeWriter, geo: Geometry, g: np.ndarray, w: np.ndarray, out: np.ndarray) -> None:
    """The gradient of the input: where strides are 1 a convolution of `g` with the filter turned round."""
    require_plain(g, w, out)
    form, turned = input_form_of(geo), turned_round(geo)
    if form == "together":
        together.input_gradient(writer, geo, g, w, out)
    elif turned is None or form == "columns":
        _by_columns(writer, "input_gradient_columns", geo, g, w, out)
    else:
        _by_tiles(writer, form, turned, weights_turned(geo), g, w, out)


def filter_gradient(writer: TapeWriter, geo: Geometry, x: np.ndarray, g: np.ndarray, out: np.ndarray) -> None:
    """The gradient of the filter: of blocks of samples, then added up."""
    require_plain(x, g, out)
    form, samples = filter_form_of(geo), sample_blocks(geo)
    if form == "together":
        together.filter_gradient(writer, geo, x, g, out)
        return
    if form == "columns":
        _filter_gradient_by_columns(writer, geo, samples, x, g, out)
        return
    lines, parts = lines_of(geo), filter_parts(writer.tape.kernels.addresses, form, geo)
    size = writer.tape.keep(sizes_of(geo, LINES=lines.size, PARTS=len(parts)))
    blocks, across = geo.kernels // geo.groups, None
    if form == "channels":
        blocks, pixels = len(parts), geo.out[0] * geo.out[1]
        across = writer.temporary((-(-pixels // LANES) * LANES, LANES))
    sums = writer.temporary((len(samples), geo.groups * blocks * lines.size * geo.kernel[1] * LANES))
    total = writer.temporary(sums.shape[1:]) if len(samples) > 1 else sums[0]
    told = writer.tape.keep(parts), writer.tape.keep(lines), _image(writer, geo), across
    row = _row(writer)
    writer.independent(
        "filter_gradient",
        [(_of(writer, size, s), x[s], g[s], *told, part, row) for s, part in zip(samples, sums, strict=True)],
    )
    _add_up(writer, sums, total)
    writer.row("add_up_lanes" if form == "pixels" else "take_lanes", size, total, out)


def _filter_gradient_by_columns(
    writer: TapeWriter, geo: Geometry, samples: Sequence[slice], x: np.ndarray, g: np.ndarray, out: np.ndarray
) -> None:
    parts = writer.temporary((len(samples), out.size)) if len(samples) > 1 else [out]
    size, blas, *rest = _columns(writer, "filter_gradient_columns", geo)
    writer.independent(
        "filter_gradient_columns",
        [(_of(writer, size, s), blas, x[s], g[s], part, *rest) for s, part in zip(samples, parts, strict=True)],
    )
    _add_up(writer, parts, out)


def _of(writer: TapeWriter, size: np.ndarray, samples: slice) -> np.ndarray:
    """The sizes of a convolution of some of its samples."""
    some = writer.tape.keep(size.copy())
    some[words.SAMPLES] = samples.stop - samples.start
    return some


def sample_blocks(geo: Geometry) -> list[slice]:
    """The samples whose gradients of the filter are added up by themselves.

    Their number follows from the shapes alone, because bits differ. One more adds as many numbers as the filter has, so
    each has much to do for every number.
    """
    terms, count = geo.samples * geo.out[0] * geo.out[1], 1
    if terms * geo.kernels * geo.taps >= LARGE:
        count = 1 << (max(min(MOST_BLOCKS, terms // TERMS, geo.samples), 1).bit_length() - 1)
    return [slice(*pair) for pair in pairwise(geo.samples * number // count for number in range(count + 1))]


def _add_up(writer: TapeWriter, parts: Any, out: np.ndarray) -> None:
    if len(parts) > 1:
        writer.row("sum_columns", parts, out, writer.temporary((PARTIAL,)), PARTIAL, 1, len(parts), out.size, 1)


# Which form


def form_of(geo: Geometry) -> str:
    """The form of a convolution: lanes are "samples", "pixels" or output "channels", or see `products_of`.

    1 x 1 kernels are products anyway. Otherwise columns are worth it only where registers would stay all but empty: the
    BLAS is three times as slow with them as with large matrices. Neighbouring pixels are in neighbouring lanes only
    where strides are 1; samples are in lanes wherever their pixels are.
    """
    if geo.kernel == (1, 1):
        return products_of(geo)
    if geo.strides[1] != 1:
        return "samples" if suits_samples(geo) else products_of(geo)
    kernels, width = geo.kernels // geo.groups, geo.out[1]
    spans = max((_filled(width, p) for p in PIXELS if p <= width), default=0.0)
    speeds = {
        "channels": (TWO_CHANNELS if kernels > LANES else ONE_CHANNEL) * _filled(kernels, LANES) * spans * useful(geo),
        "pixels": PIXELS_SPEED * _filled(width, LANES) * useful(geo),
        "samples": SAMPLES_SPEED * geo.taps / (geo.taps + TURNING) if suits_samples(geo) else 0.0,
    }
    best = max(speeds, key=lambda form: speeds[form])
    return best if speeds[best] >= LEAST else products_of(geo)


def products_of(geo: Geometry) -> str:
    """Whether products are those of the "columns" of each sample, or of many of them "together"."""
    pixels = geo.out[0] * geo.out[1]
    if geo.groups > 1 or pixels > FEW_PIXELS or geo.samples * pixels < LANES:
        return "columns"
    return "together" if 4 * geo.kernels * geo.taps >= FILTER_BYTES * pixels else "columns"


def input_form_of(geo: Geometry) -> str:
    """The same of the gradient of the input: the form of the convolution that gives it, if there is one."""
    turned = turned_round(geo)
    form = "columns" if turned is None else form_of(turned)
    return products_of(geo) if form in PRODUCTS else form


def filter_form_of(geo: Geometry) -> str:
    """The same of the gradient of a filter; pixels have to be loaded once more for every channel there."""
    kernels = geo.kernels // geo.groups
    if geo.kernel[1] not in COLUMNS or geo.dilations[1] != 1:
        return products_of(geo)
    pixels = 0.6 * _filled(geo.out[1], LANES)
    if geo.strides[1] != 1 or 4 * LANES * geo.kernels * geo.taps > MOST_SUMS:
        pixels = 0.0
    channels = _filled(kernels, LANES)
    if max(pixels, channels) < LEAST_FILLED:
        return products_of(geo)
    if 4 * geo.kernels * geo.taps >= LARGE_FILTER and _moves_sums(geo):
        return products_of(geo)
    return "channels" if channels > pixels else "pixels"


def _moves_sums(geo: Geometry) -> bool:
    """Whether a filter's gradient in registers would take longer than products, for it is loaded and stored anew."""
    pixels = geo.out[0] * geo.out[1]
    return pixels / (pixels + PIXELS_IN_VAIN + FILTERS_IN_VAIN / geo.samples) < 0.9 * geo.kernels / (
        geo.kernels + UNFOLDING
    )


def suits_samples(geo: Geometry) -> bool:
    """Whether lanes can be samples: there are enough, and sixteen of them stay in a cache, the second if it can be."""
    rows, columns = bordered(geo)
    size = 4 * LANES * geo.channels // geo.groups * rows * columns
    most = MOST_IMAGE if geo.strides[1] == 1 else MOST_STRIDED
    if geo.kernel == (1, 1) or geo.samples < LANES or _filled(geo.samples, LANES) < MOST_SAMPLES or size > most:
        return False
    return min(geo.height * geo.width, geo.out[0] * geo.out[1]) >= LANES


def _filled(count: int, size: int) -> float:
    """The share that is used of so many tiles of a size as hold a count."""
    return count / (-(-count // size) * size)


# Columns


def _by_columns(writer: TapeWriter, kernel: str, geo: Geometry, a: np.ndarray, b: np.ndarray, out: np.ndarray) -> None:
    """Products of matrices; 1 x 1 kernels need no columns."""
    size, blas, *rest = _columns(writer, kernel, geo)
    writer.row(kernel, size, blas, a, b, out, *rest)


def _columns(writer: TapeWriter, kernel: str, geo: Geometry) -> tuple[Any, ...]:
    """What such a kernel is told before its arrays, and behind them."""
    plain = geo.kernel == (1, 1) and geo.strides == (1, 1) and not geo.is_padded
    block = geo.out[0] if plain else max(1, min(geo.out[0], BLOCK_BYTES // (4 * geo.taps * geo.out[1])))
    size, walk, unfolded = writer.tape.keep(sizes_of(geo, BLOCK=block)), 0, None
    if not plain:
        walk = writer.tape.kernels.addresses["fold" if kernel == "input_gradient_columns" else "unfold"]
        unfolded = writer.temporary((geo.taps, block, geo.out[1]))
    return size, writer.sgemm, walk, unfolded, _row(writer)


# Tiles


def _by_tiles(
    writer: TapeWriter, form: str, geo: Geometry, weights: tuple[np.ndarray, int, int], x: np.ndarray, w: np.ndarray,
    out: np.ndarray,
) -> None:  # fmt: skip
    """Sums in registers.

    Args:
        weights: where each tap's is in the filter, and the distances of groups and of output channels.
    """
    keep, addresses = writer.tape.keep, writer.tape.kernels.addresses
    places, group, kernel = weights
    distances = {"FILTER_GROUP": group, "FILTER_ROW": kernel}
    if form == "samples":
        _by_samples(writer, geo, places, distances, x, w, out)
        return
    positions, tile = pixel_positions(geo) if form == "pixels" else channel_positions(geo)
    parts = pixel_parts(addresses, geo, tile) if form == "pixels" else channel_parts(addresses, geo, tile)
    size = keep(sizes_of(geo, **distances, POSITIONS=len(positions), PARTS=len(parts)))
    table = keep(parts)
    packed = writer.temporary((geo.groups * int(parts[:, words.PART_WIDTH].sum()) * geo.taps,))
    image = _image(writer, geo)  # before the first row is written: that may end the use of earlier memory
    writer.row("pack_filter", size, w, table, keep(places), packed)
    writer.row(
        "convolve", size, x, packed, out, table, keep(positions), keep(taps_of(geo)), image, _row(writer),
    )  # fmt: skip


def _by_samples(
    writer: TapeWriter, geo: Geometry, places: np.ndarray, distances: dict[str, int], x: np.ndarray, w: np.ndarray,
    out: np.ndarray,
) -> None:  # fmt: skip
    """Sums in registers whose lanes are samples."""
    keep = writer.tape.keep
    parts = pixel_parts(writer.tape.kernels.addresses, geo, 4)
    most = int(parts[:, words.PART_COUNT].max())
    positions, taps = sample_positions(geo, 8 if 1 in parts[:, words.PART_COUNT] else 4)
    size = keep(sizes_of_lanes(geo, **distances, POSITIONS=len(positions), PARTS=len(parts)))
    table, packed = keep(parts), writer.temporary((geo.kernels * geo.taps,))
    image, turned = _lane_images(writer, geo)
    sums = writer.temporary((most, *geo.out, LANES))
    writer.row("pack_filter", size, w, table, keep(places), packed)
    writer.row(
        "convolve_samples", size, x, packed, out, table, keep(positions), keep(taps), image, turned,
        sums, _row(writer),
    )  # fmt: skip


def _lane_images(writer: TapeWriter, geo: Geometry) -> tuple[np.ndarray, np.ndarray]:
    """Memory for a group of sixteen samples, with its border and without."""
    rows, columns = bordered(geo)
    planes = geo.channels // geo.groups
    image = writer.temporary((planes * rows * columns + 1, LANES))
    return image, writer.temporary((planes * geo.height * geo.width, LANES))


def _row(writer: TapeWriter) -> np.ndarray:
    """The row of micro-kernels, or of unfolding."""
    return writer.tape.keep(np.zeros(words.ROW_WORDS, np.int64))


def _image(writer: TapeWriter, geo: Geometry) -> np.ndarray:
    """Memory for the image of a group, with its border."""
    rows, columns = bordered(geo)
    return writer.temporary((geo.channels // geo.groups * rows * columns + LANES,))
