"""Convolutions of images with few pixels: the windows of many samples are the columns of one product.

Of one sample alone there would be so few columns that the filter is read anew for every handful of terms. What goes in
or comes out has channels in front of samples; blocks of samples follow from the shapes alone, because bits differ.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from workbench.executors.lowering.tape.conv import unfolding
from workbench.executors.lowering.tape.conv.convolution_tables import sizes_of
from workbench.executors.lowering.tape.math.products import TapeRow, product_rows, write
from workbench.executors.lowering.tape.rules import copy, move
from workbench.executors.lowering.tape.writer import TapeWriter
from workbench.ops.conv.convolutions.convolve import Geometry


class _SampleBlock(NamedTuple):
    """Some samples.

    Attributes:
        columns: of their windows [taps, samples * pixels]. across: what goes in or comes out, [kernels, samples,
            pixels], and flat: the same as a matrix.
        size: the words of the convolution; bytes: of a sample that is unfolded.
    """

    samples: slice
    columns: np.ndarray
    across: np.ndarray
    size: np.ndarray
    bytes: int

    @property
    def flat(self) -> np.ndarray:
        return self.across.reshape(len(self.across), -1)


def convolve(writer: TapeWriter, geo: Geometry, x: np.ndarray, w: np.ndarray, out: np.ndarray) -> None:
    """The convolution of `x` (n, c, h, w) with `w` (kernels, c, kh, kw)."""
    for block in _blocks(writer, geo, out.dtype):
        product = product_rows(writer, w.reshape(geo.kernels, geo.taps), block.columns, block.flat)
        writer.row("unfold_samples", block.size, x[block.samples], block.columns, block.bytes)
        write(writer, product)
        _copy(writer, block.across.swapaxes(0, 1), _by_channels(out, block))


def input_gradient(writer: TapeWriter, geo: Geometry, g: np.ndarray, w: np.ndarray, out: np.ndarray) -> None:
    """The gradient of the input."""
    for block in _blocks(writer, geo, out.dtype):
        product = product_rows(writer, w.reshape(geo.kernels, geo.taps).T, block.flat, block.columns)
        _copy(writer, _by_channels(g, block).swapaxes(0, 1), block.across)
        write(writer, product)
        writer.row("fold_samples", block.size, out[block.samples], block.columns, block.bytes)


def filter_gradient(writer: TapeWriter, geo: Geometry, x: np.ndarray, g: np.ndarray, out: np.ndarray) -> None:
    """The gradient of the filter."""
    for block in _blocks(writer, geo, out.dtype):
        product = _sum_over_windows(writer, block, out.reshape(geo.kernels, geo.taps))
        _copy(writer, _by_channels(g, block).swapaxes(0, 1), block.across)
        writer.row("unfold_samples", block.size, x[block.samples], block.columns, block.bytes)
        write(writer, product)


def _sum_over_windows(writer: TapeWriter, block: _SampleBlock, out: np.ndarray) -> list[TapeRow]:
    """Blocks are added up."""
    return product_rows(writer, block.flat, block.columns.T, out, adds=block.samples.start > 0)


def _blocks(writer: TapeWriter, geo: Geometry, dtype: np.dtype[Any]) -> Iterator[_SampleBlock]:
    """All samples, of numbers of a dtype; the blocks use the same memory, one after the other."""
    pixels = geo.out[0] * geo.out[1]
    count = unfolding.sample_blocks_of_columns(geo, dtype.itemsize)
    borders = [geo.samples * number // count for number in range(count + 1)]
    most = max(b - a for a, b in pairwise(borders))
    columns = writer.temporary((geo.taps * most * pixels,), dtype)
    across = writer.temporary((geo.kernels * most * pixels,), dtype)
    for begin, end in pairwise(borders):
        n = end - begin
        size = writer.tape.keep(sizes_of(geo._replace(samples=n)))
        yield _SampleBlock(
            slice(begin, end), columns[: geo.taps * n * pixels].reshape(geo.taps, n * pixels),
            across[: geo.kernels * n * pixels].reshape(geo.kernels, n, pixels), size,
            dtype.itemsize * geo.channels * geo.height * geo.width,
        )  # fmt: skip


def _by_channels(array: np.ndarray, block: _SampleBlock) -> np.ndarray:
    """Those samples, [samples, kernels, pixels]."""
    return array[block.samples].reshape(-1, len(block.across), block.across.shape[2])


def _copy(writer: Any, source: np.ndarray, out: np.ndarray) -> None:
    if source.flags.c_contiguous and out.flags.c_contiguous:
        move(writer, source, out)
    else:
        copy(writer, source, out)
