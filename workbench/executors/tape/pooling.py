"""Pooling as rows of a tape."""

from __future__ import annotations

from typing import Any

import numpy as np

from workbench.executors.plan import Row
from workbench.executors.tape.rules import native, operands, require, require_plain
from workbench.executors.tape.writer import TapeWriter
from workbench.ops.pooling import Windows, bins, sliding
from workbench.ops.windows import NCHW, both_pads
from workbench.runtime.native import pooling_words as words
from workbench.runtime.native.tape import address

LANES = 16
_PAIR = 2
_FULL = 4 / 3  # a line by itself if it fills three quarters of its registers
_NARROWEST = 8  # floats of a line of which three, or parts of them, fill a register
_MOST_PLANES = 16


@native("pool2d")
def pool2d(writer: TapeWriter, row: Row) -> None:
    (out,), (x,) = operands(writer, row)
    require_plain(x, out)
    windows, size = _windows(writer, row, x.shape, out.shape)
    if row.node.attrs["pooling_type"] == "avg":
        line = writer.temporary((x.shape[3],))
        writer.row("average_pool", size, address(x), _counts(writer, windows), address(out), address(line))
    elif _are_pairs(windows):
        kernel, *table = _pairs(writer, x.shape, out.shape)
        writer.row(kernel, size, *table, address(x), address(out))
    else:
        line = writer.temporary((x.shape[3],))
        writer.row("max_pool", size, address(x), address(out), address(line))


@native("pool2d_grad")
def pool2d_grad(writer: TapeWriter, row: Row) -> None:
    (out,), (x, g) = operands(writer, row)
    _spread(writer, row, x, g, out)


@native("pool2d_spread")
def pool2d_spread(writer: TapeWriter, row: Row) -> None:
    (out,), (x, g) = operands(writer, row)
    _spread(writer, row, x, g, out)


def _spread(writer: TapeWriter, row: Row, x: Any, g: Any, out: np.ndarray) -> None:
    """The gradient of the input; averages do not ask for the input itself."""
    require_plain(g, out)
    windows, size = _windows(writer, row, out.shape, g.shape)
    if row.node.attrs["pooling_type"] == "avg":
        writer.row("average_pool_grad", size, address(g), _counts(writer, windows), address(out))
        return
    require_plain(x)
    if _are_pairs(windows):
        kernel, *table = _pairs(writer, x.shape, g.shape)
        writer.row(f"{kernel}_grad", size, *table, address(x), address(g), address(out))
    else:
        writer.row("max_pool_grad", size, address(x), address(g), address(out))


def _windows(writer: TapeWriter, row: Row, image: tuple[int, ...], out: tuple[int, ...]) -> tuple[list[Windows], int]:
    """The windows of a plane along height and width, and the address of what kernels are told of them."""
    require(row.node.attrs["data_format"] == NCHW)
    windows = _windows_of(image[2:], out[2:], row.node.attrs)
    tables = [t for w in windows for t in (np.maximum(w.starts, 0), w.ends)]
    require(all((end > start).all() for start, end in zip(tables[::2], tables[1::2], strict=True)))
    head = [image[0] * image[1], *image[2:], *out[2:]]
    assert len(head) == words.TABLE
    return windows, writer.tape.keep(np.concatenate([head, *tables]).astype(np.int64))


def _windows_of(dims: tuple[int, ...], counts: tuple[int, ...], attrs: dict[str, Any]) -> list[Windows]:
    if attrs["global_pooling"] or attrs["adaptive"]:
        return [bins(d, c) for d, c in zip(dims, counts, strict=True)]
    pads = both_pads(dims, attrs["ksize"], attrs["strides"], attrs["paddings"], attrs["padding_algorithm"])
    sizes = zip(dims, counts, attrs["ksize"], attrs["strides"], pads, strict=True)
    return [sliding(d, c, k, s, p, attrs["exclusive"]) for d, c, k, s, p in sizes]


def _counts(writer: TapeWriter, windows: list[Windows]) -> int:
    return writer.tape.keep(np.outer(windows[0].counts, windows[1].counts).astype(np.float32))


def _are_pairs(windows: list[Windows]) -> bool:
    """Whether windows are 2 x 2 and lie side by side."""
    return all(
        (w.starts == np.arange(len(w.starts)) * _PAIR).all() and (w.ends - w.starts == _PAIR).all() for w in windows
    )


def _pairs(writer: TapeWriter, image: tuple[int, ...], out: tuple[int, ...]) -> tuple[Any, ...]:
    """The kernel for pairs, and what it is told of them."""
    count = out[3]
    if count * _FULL >= -(-count // LANES) * LANES or count * _PAIR < _NARROWEST:
        return ("max_pool_lines",)
    planes = _period(image[0] * image[1], out[2] * count)
    groups = _groups(planes, image[2:], out[2:])
    return "max_pool_groups", writer.tape.keep(groups), len(groups), planes


def _period(planes: int, windows: int) -> int:
    """A number of planes that divides all, is not large and has few lanes to spare in its groups of windows."""
    fitting = [p for p in range(1, _MOST_PLANES + 1) if planes % p == 0]
    return min(fitting, key=lambda p: -(-p * windows // LANES) / p)


def _groups(planes: int, image: tuple[int, ...], out: tuple[int, ...]) -> np.ndarray:
    """All windows of so many planes by sixteens, see `pooling_words.GROUP_WORDS`."""
    plane, row, column = np.indices((planes, *out)).reshape(3, -1)
    starts = (plane * image[0] + row * _PAIR) * image[1] + column * _PAIR
    floats = np.stack([starts, starts + 1], axis=1).ravel()
    found = []
    for first in range(0, len(starts), LANES):
        halves = [floats[at : at + LANES] for at in (_PAIR * first, _PAIR * first + LANES)]
        pieces = [word for half in halves for word in _pieces(half)]
        found.append([_mask(np.arange(len(starts[first : first + LANES]))), *pieces])
    return np.array(found, np.int64)


def _pieces(floats: np.ndarray) -> list[int]:
    """Where lanes lie: (bytes to what is lane 0, mask of lanes) of every piece."""
    distances = floats - np.arange(len(floats))
    found = [word for d in np.unique(distances) for word in (int(4 * d), _mask(np.flatnonzero(distances == d)))]
    assert len(found) <= 2 * words.PIECES
    return found + [0] * (2 * words.PIECES - len(found))


def _mask(lanes: np.ndarray) -> int:
    return int((1 << lanes).sum())
