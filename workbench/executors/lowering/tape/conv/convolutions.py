"""Convolutions as rows of a tape: each takes the form `forms` chooses (see `kernels.conv`)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from operator import index
from typing import Any

import numpy as np

from workbench.executors.lowering.tape.conv import together, winograd
from workbench.executors.lowering.tape.conv.convolution_tables import (
    LANES,
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
    weights_in_order,
    weights_turned,
)
from workbench.executors.lowering.tape.conv.forms import filter_form_of, form_of, input_form_of
from workbench.executors.lowering.tape.conv.layouts import channels_first
from workbench.executors.lowering.tape.conv.unfolding import block_rows, is_plain
from workbench.executors.lowering.tape.math.sums import sum_axes
from workbench.executors.lowering.tape.registry import native
from workbench.executors.lowering.tape.rules import operands, require, require_dense
from workbench.executors.lowering.tape.writer import TapeWriter
from workbench.executors.planning.plan import Row
from workbench.ops.conv.convolutions.conv import (
    BACKPROP_FILTER,
    BACKPROP_INPUT,
    CONV2D,
    CONV2D_TRANSPOSE,
    DEPTHWISE_CONV2D,
    WINOGRAD,
)
from workbench.ops.conv.convolutions.convolve import Geometry
from workbench.ops.conv.windows import SAME, both_pads, extent
from workbench.runtime.footprint import kernel_of
from workbench.runtime.words import convolution as words

MOST_BLOCKS, TERMS = 8, 512  # of a filter's gradient; terms in every number of a block, at least
LARGE = 1 << 22  # terms in a filter's gradient, from which on it is made of blocks of samples


# Rules


@native(CONV2D, DEPTHWISE_CONV2D)
def conv2d(writer: TapeWriter, row: Row) -> None:
    (out,), (x, w) = operands(writer, row)
    with channels_first(writer, row, reads=[x], writes=[out]) as (x, out):
        geo = _geometry(x.shape, w.shape, out.shape, row.node.attrs)
        convolve(writer, geo, x, w, out, form_of(geo, WINOGRAD in row.node.attrs, out.itemsize))


@native(CONV2D.backward, DEPTHWISE_CONV2D.backward)
def conv2d_grad(writer: TapeWriter, row: Row) -> None:
    (g_x, g_w), (x, w, g) = operands(writer, row)
    require(g is not None)
    with channels_first(writer, row, reads=[x, g], writes=[g_x]) as (x, g, g_x):
        geo = _geometry(x.shape, w.shape, g.shape, row.node.attrs)
        require_dense(*(a for a in (g_x, g_w, x, w, g) if a is not None))
        if g_x is not None:
            input_gradient(writer, geo, g, w, g_x, input_form_of(geo, WINOGRAD in row.node.attrs, g.itemsize))
        if g_w is not None:
            filter_gradient(writer, geo, x, g, g_w)


@native(BACKPROP_INPUT)
def backprop_input(writer: TapeWriter, row: Row) -> None:
    (out,), (g, w, _) = operands(writer, row)
    with channels_first(writer, row, reads=[g], writes=[out]) as (g, out):
        input_gradient(writer, _geometry(out.shape, w.shape, g.shape, row.node.attrs), g, w, out)


@native(BACKPROP_FILTER)
def backprop_filter(writer: TapeWriter, row: Row) -> None:
    (out,), (x, g, _) = operands(writer, row)
    with channels_first(writer, row, reads=[x, g]) as (x, g):
        filter_gradient(writer, _geometry(x.shape, out.shape, g.shape, row.node.attrs), x, g, out)


@native(CONV2D_TRANSPOSE)
def conv2d_transpose(writer: TapeWriter, row: Row) -> None:
    (out,), (x, w) = operands(writer, row)
    require(row.node.attrs["padding_algorithm"] != SAME)  # means something else there
    with channels_first(writer, row, reads=[x], writes=[out]) as (x, out):
        input_gradient(writer, _geometry(out.shape, w.shape, x.shape, row.node.attrs), x, w, out)


@native(CONV2D_TRANSPOSE.backward)
def conv2d_transpose_grad(writer: TapeWriter, row: Row) -> None:
    (g_x, g_w), (x, w, g) = operands(writer, row)
    require(g is not None, row.node.attrs["padding_algorithm"] != SAME)
    with channels_first(writer, row, reads=[x, g], writes=[g_x]) as (x, g, g_x):
        geo = _geometry(g.shape, w.shape, x.shape, row.node.attrs)
        require_dense(*(a for a in (g_x, g_w, x, w, g) if a is not None))
        if g_x is not None:
            convolve(writer, geo, g, w, g_x)
        if g_w is not None:
            filter_gradient(writer, geo, g, x, g_w)


def _geometry(image: Any, filter: Any, out: Any, attrs: dict[str, Any]) -> Geometry:
    """Of a convolution with these shapes, channels first."""
    image, filter, out = (tuple(map(index, shape)) for shape in (image, filter, out))  # tables are made of them
    strides, dilations = tuple(attrs["strides"]), tuple(attrs["dilations"])
    spans = [extent(k, d) for k, d in zip(filter[2:], dilations, strict=True)]
    pads = both_pads(image[2:], spans, strides, attrs["paddings"], attrs["padding_algorithm"])
    sizes: Any = (*image, filter[0], filter[2:], strides, dilations, pads, attrs["groups"], out[2:])
    return Geometry(*sizes)


# What a convolution is made of


def convolve(writer: TapeWriter, geo: Geometry, x: np.ndarray, w: np.ndarray, out: np.ndarray, form: str = "") -> None:
    """The convolution of `x` (n, c, h, w) with `w` (kernels, c / groups, kh, kw).

    Args:
        form: one of `forms.convolve_forms`; if not given, the quickest but Winograd's.
    """
    require_dense(x, w, out)
    if writer.images is not None:
        writer.images.convolve(geo, x, w, out)
        return
    form = form or form_of(geo, item=x.itemsize)
    if form == "together":
        together.convolve(writer, geo, x, w, out)
    elif form == "winograd":
        winograd.convolve(writer, geo, winograd.filter_in_order(geo), x, w, out)
    elif form == "columns":
        _by_columns(writer, "convolve_columns", geo, x, w, out)
    else:
        _by_tiles(writer, form, geo, weights_in_order(geo), x, w, out)


def input_gradient(
    writer: TapeWriter, geo: Geometry, g: np.ndarray, w: np.ndarray, out: np.ndarray, form: str = ""
) -> None:
    """The gradient of the input: where strides are 1 a convolution of `g` with the filter turned round."""
    require_dense(g, w, out)
    if writer.images is not None:
        writer.images.input_gradient(geo, g, w, out)
        return
    form, turned = form or input_form_of(geo, item=g.itemsize), turned_round(geo)
    if form == "together":
        together.input_gradient(writer, geo, g, w, out)
    elif turned is None or form == "columns":
        _by_columns(writer, "input_gradient_columns", geo, g, w, out)
    elif form == "winograd":
        winograd.convolve(writer, turned, winograd.filter_turned(geo), g, w, out)
    else:
        _by_tiles(writer, form, turned, weights_turned(geo), g, w, out)


def filter_gradient(
    writer: TapeWriter, geo: Geometry, x: np.ndarray, g: np.ndarray, out: np.ndarray, form: str = ""
) -> None:
    """The gradient of the filter: of blocks of samples, then added up."""
    require_dense(x, g, out)
    if writer.images is not None:
        writer.images.filter_gradient(geo, x, g, out)
        return
    form, samples = form or filter_form_of(geo, x.itemsize), sample_blocks(geo)
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
    parts = writer.temporary((len(samples), out.size), out.dtype) if len(samples) > 1 else [out]
    size, blas, *rest = _columns(writer, "filter_gradient_columns", geo, out.dtype)
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
        sum_axes(writer, parts.reshape(len(parts), -1), (0,), out.reshape(-1))


# Columns


def _by_columns(writer: TapeWriter, kernel: str, geo: Geometry, a: np.ndarray, b: np.ndarray, out: np.ndarray) -> None:
    """Products of matrices; 1 x 1 kernels need no columns."""
    size, blas, *rest = _columns(writer, kernel, geo, out.dtype)
    writer.row(kernel, size, blas, a, b, out, *rest)


def _columns(writer: TapeWriter, kernel: str, geo: Geometry, dtype: np.dtype[Any]) -> tuple[Any, ...]:
    """What such a kernel is told before its arrays, and behind them."""
    block = block_rows(geo, dtype.itemsize)
    size, walk, unfolded = writer.tape.keep(sizes_of(geo, BLOCK=block)), 0, None
    if not is_plain(geo):
        name = "fold" if kernel == "input_gradient_columns" else "unfold"
        walk = writer.tape.kernels.addresses[kernel_of(name, dtype.itemsize)]
        unfolded = writer.temporary((geo.taps, block, geo.out[1]), dtype)
    return size, writer.gemm(dtype.itemsize), walk, unfolded, _row(writer)


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
