"""Pooling as rows of a tape."""

from __future__ import annotations

from operator import index
from typing import Any, NamedTuple

import numpy as np

from workbench.executors.lowering.tape.conv.layouts import channels_first
from workbench.executors.lowering.tape.registry import native
from workbench.executors.lowering.tape.rules import FLOAT, operands, require, require_dense
from workbench.executors.lowering.tape.writer import TapeWriter
from workbench.executors.planning.plan import Row
from workbench.ops.conv.pools.pool import POOL, SPREAD
from workbench.ops.conv.pools.pooling import Windows, bins, sliding
from workbench.ops.conv.windows import both_pads
from workbench.runtime.native.tape import Pointer, pointer
from workbench.runtime.words import pooling as words

LANES = 16
_PAIR = 2
_FULL = 4 / 3  # a line by itself if it fills three quarters of its registers
_NARROWEST = 8  # floats of a line of which three, or parts of them, fill a register
_MOST_PLANES = 16
_STRIP_BYTES = 2**18  # what a strip may take up, so that it stays in the second cache
_LINE = 64  # bytes of a line of a cache


@native(POOL)
def pool2d(writer: TapeWriter, row: Row) -> None:
    (out,), (x,) = operands(writer, row)
    with channels_first(writer, row, reads=[x], writes=[out]) as (x, out):
        _pool(writer, row, x, out)


def _pool(writer: TapeWriter, row: Row, x: np.ndarray, out: np.ndarray) -> None:
    require_dense(x, out)
    if writer.images is not None:
        writer.images.pool(row, x, out)
        return
    windows = _windows(row, x.shape, out.shape)
    planes = x.shape[0] * x.shape[1]
    if row.node.attrs["pooling_type"] == "avg":
        memory, size = _strips(writer, planes, windows, out.dtype)
        writer.row("average_pool", size, x, _factors(writer, windows, out.dtype), out, memory)
    elif out.dtype == FLOAT and _are_pairs(windows):
        kernel, *told = _pairs(writer, planes, windows)
        writer.row(kernel, *told, x, out)
    else:
        memory, size = _strips(writer, planes, windows, out.dtype)
        writer.row("max_pool", size, x, out, memory)


@native(POOL.backward, SPREAD)
def pool2d_grad(writer: TapeWriter, row: Row) -> None:
    (out,), (x, g) = operands(writer, row)
    needed = None if row.node.attrs["pooling_type"] == "avg" else x
    with channels_first(writer, row, reads=[needed, g], writes=[out]) as (image, g, out):
        _spread(writer, row, image, g, out)


def _spread(writer: TapeWriter, row: Row, x: Any, g: Any, out: np.ndarray) -> None:
    """The gradient of the input; averages do not ask for the input itself."""
    require_dense(g, out)
    if writer.images is not None:
        writer.images.spread(row, x, g, out)
        return
    windows = _windows(row, out.shape, g.shape)
    planes = out.shape[0] * out.shape[1]
    if row.node.attrs["pooling_type"] == "avg":
        memory, size = _strips(writer, planes, [w.turned_round() for w in windows], out.dtype)
        writer.row("average_pool_grad", size, g, _factors(writer, windows, out.dtype), out, memory)
        return
    require_dense(x, g)
    if out.dtype == FLOAT and _are_pairs(windows):
        kernel, *told = _pairs(writer, planes, windows)
        writer.row(f"{kernel}_grad", *told, x, g, out)
    else:
        memory, size = _gradient_strips(writer, planes, windows, out.dtype)
        writer.row("max_pool_grad", size, x, g, out, memory)


class WindowAxis(NamedTuple):
    """Windows along one dimension, cut off by its ends.

    Attributes:
        starts, ends: of windows, none of them before that of an earlier window.
        size: of the dimension.
        counts: what averages divide by, per window.
        of_nan: where a maximum is that is NaN, see `words.pooling`.
    """

    starts: np.ndarray
    ends: np.ndarray
    size: int
    counts: np.ndarray
    of_nan: int

    def turned_round(self) -> WindowAxis:
        """The windows that have an entry as its window, none where there are no such."""
        entries = np.arange(self.size)
        starts, ends = (np.searchsorted(a, entries, side="right") for a in (self.ends, self.starts))
        return WindowAxis(starts, ends, len(self.starts), np.ones(self.size), words.IS_NOWHERE)


def _axis(windows: Windows) -> WindowAxis:
    starts, ends = np.maximum(windows.starts, 0), windows.ends
    require(bool((ends > starts).all()))
    of_nan = words.IS_FIRST if windows.is_whole else words.IS_LAST if windows.is_even else words.IS_NOWHERE
    return WindowAxis(starts, ends, windows.size, windows.counts, of_nan)


def _windows(row: Row, image: tuple[int, ...], out: tuple[int, ...]) -> list[WindowAxis]:
    """The windows along height and width."""
    return [_axis(w) for w in _windows_of(image[2:], out[2:], row.node.attrs)]


def _windows_of(dims: tuple[int, ...], counts: tuple[int, ...], attrs: dict[str, Any]) -> list[Windows]:
    dims, counts = tuple(map(index, dims)), tuple(map(index, counts))  # tables are made of them
    if attrs["global_pooling"] or attrs["adaptive"]:
        return [bins(d, c) for d, c in zip(dims, counts, strict=True)]
    pads = both_pads(dims, attrs["ksize"], attrs["strides"], attrs["paddings"], attrs["padding_algorithm"])
    sizes = zip(dims, counts, attrs["ksize"], attrs["strides"], pads, strict=True)
    return [sliding(d, c, k, s, p, attrs["exclusive"]) for d, c, k, s, p in sizes]


def _factors(writer: TapeWriter, windows: list[WindowAxis], dtype: np.dtype[Any]) -> np.ndarray:
    """What sums are multiplied by, per window."""
    return writer.tape.keep((1 / np.outer(windows[0].counts, windows[1].counts)).astype(dtype))


def _strips(
    writer: TapeWriter, planes: int, windows: list[WindowAxis], dtype: np.dtype[Any]
) -> tuple[Pointer, np.ndarray]:
    """The memory for a strip of output rows of sixteen planes, and the size kernels are told."""
    height, width = windows
    lines = len(height.starts)
    strip = _strip(lines, height.size * width.size // lines + len(width.starts), dtype)
    rows = max(int(height.ends[min(h + strip, lines) - 1] - height.starts[h]) for h in range(0, lines, strip))
    pixels = (rows + 1) * width.size + strip * len(width.starts)
    return _memory(writer, pixels, dtype), _size(writer, planes, windows, strip)


def _gradient_strips(
    writer: TapeWriter, planes: int, windows: list[WindowAxis], dtype: np.dtype[Any]
) -> tuple[Pointer, np.ndarray]:
    """The same for a strip of rows of the image."""
    height, width = windows
    count, having = len(width.starts), height.turned_round()
    strip = _strip(height.size, 2 * width.size + 3 * count, dtype)
    most = 0
    for start in range(0, height.size, strip):
        end = min(start + strip, height.size)
        first, stop = int(having.starts[start]), int(having.ends[end - 1])
        top = min(start, int(height.starts[first])) if first < stop else start
        bottom = max(end, int(height.ends[stop - 1])) if first < stop else end
        rows = bottom - top
        most = max(most, rows * width.size + (2 * rows + 1 + stop - first) * count + (end - start) * width.size)
    return _memory(writer, most, dtype), _size(writer, planes, windows, strip)


def _strip(lines: int, pixels: int, dtype: np.dtype[Any]) -> int:
    """How many lines a strip has if each takes up so many pixels."""
    return min(lines, max(1, _STRIP_BYTES // (LANES * dtype.itemsize * pixels)))


def _memory(writer: TapeWriter, pixels: int, dtype: np.dtype[Any]) -> Pointer:
    """Memory for so many pixels, each beginning where a line of a cache does."""
    return pointer(writer.temporary((pixels + 1, LANES), dtype)).aligned(_LINE)


def _size(writer: TapeWriter, planes: int, windows: list[WindowAxis], strip: int = 0) -> np.ndarray:
    """What kernels are told, see `words.pooling`."""
    height, width = windows
    having = height.turned_round()
    runs = _runs(width)
    sizes = [height.size, width.size, len(height.starts), len(width.starts)]
    head = [planes, *sizes, strip, height.of_nan, width.of_nan, len(runs)]
    assert len(head) == words.TABLE
    tables = [table for axis in (height, having) for table in (axis.starts, axis.ends)] + [np.ravel(runs)]
    return writer.tape.keep(np.concatenate([head, *tables]).astype(np.int64))


def _runs(axis: WindowAxis) -> list[list[int]]:
    """Windows of equal length at equal distances, see `pooling_words.RUN_WORDS`."""
    starts, lengths = axis.starts.tolist(), (axis.ends - axis.starts).tolist()
    runs: list[list[int]] = []
    for i, (start, length) in enumerate(zip(starts, lengths, strict=True)):
        if runs and length == runs[-1][words.LENGTH]:
            step, count = start - starts[i - 1], runs[-1][words.COUNT]
            if count == 1 or step == runs[-1][words.STEP]:
                runs[-1][words.STEP :] = step, count + 1
                continue
        runs.append([start, length, 0, 1])
    return runs


def _are_pairs(windows: list[WindowAxis]) -> bool:
    """Whether windows are 2 x 2 and lie side by side, and lines are not too short to be treated by themselves.

    A single window of everything is none of those: its NaN are elsewhere.
    """
    are_pairs = all(
        w.of_nan == words.IS_LAST
        and (w.starts == np.arange(len(w.starts)) * _PAIR).all()
        and (w.ends - w.starts == _PAIR).all()
        for w in windows
    )
    return are_pairs and len(windows[1].starts) * _PAIR >= _NARROWEST


def _pairs(writer: TapeWriter, planes: int, windows: list[WindowAxis]) -> tuple[Any, ...]:
    """The kernel for pairs, and what it is told of them."""
    size, lines, count = _size(writer, planes, windows), *(len(w.starts) for w in windows)
    if count * _FULL >= -(-count // LANES) * LANES:
        return "max_pool_lines", size
    period = _period(planes, lines * count)
    groups = _groups(period, (windows[0].size, windows[1].size), (lines, count))
    return "max_pool_groups", size, writer.tape.keep(groups), len(groups), period


def _period(planes: int, windows: int) -> int:
    """A number of planes that divides all, is not large and has few lanes to spare in its groups of windows."""
    fitting = [p for p in range(1, _MOST_PLANES + 1) if planes % p == 0]
    return min(fitting, key=lambda p: -(-p * windows // LANES) / p)


def _groups(planes: int, image: tuple[int, ...], out: tuple[int, ...]) -> np.ndarray:
    """All windows of so many planes by sixteens, see `pooling_words.GROUP_WORDS`."""
    plane, row, column = np.indices((planes, *out)).reshape(3, -1)
    starts = (plane * image[0] + row * _PAIR) * image[1] + column * _PAIR
    floats = np.stack([starts, starts + 1], axis=1).ravel()
    groups = []
    for first in range(0, len(starts), LANES):
        halves = [floats[at : at + LANES] for at in (_PAIR * first, _PAIR * first + LANES)]
        pieces = [word for half in halves for word in _pieces(half)]
        groups.append([_mask(np.arange(len(starts[first : first + LANES]))), *pieces])
    return np.array(groups, np.int64)


def _pieces(floats: np.ndarray) -> list[int]:
    """Where lanes lie: (bytes to what is lane 0, mask of lanes) of every piece."""
    distances = floats - np.arange(len(floats))
    pieces = [word for d in np.unique(distances) for word in (int(4 * d), _mask(np.flatnonzero(distances == d)))]
    assert len(pieces) <= 2 * words.PIECES
    return pieces + [0] * (2 * words.PIECES - len(pieces))


def _mask(lanes: np.ndarray) -> int:
    return int((1 << lanes).sum())
