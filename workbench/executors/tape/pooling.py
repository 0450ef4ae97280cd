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

_PAIR = 2


@native("pool2d")
def pool2d(writer: TapeWriter, row: Row) -> None:
    (out,), (x,) = operands(writer, row)
    require_plain(x, out)
    windows, size = _windows(writer, row, x.shape, out.shape)
    if row.node.attrs["pooling_type"] == "avg":
        line = writer.temporary((x.shape[3],))
        writer.row("average_pool", size, address(x), _counts(writer, windows), address(out), address(line))
    elif _are_pairs(windows):
        writer.row("max_pool_2x2", size, address(x), address(out))
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
    kernel = "max_pool_2x2_grad" if _are_pairs(windows) else "max_pool_grad"
    writer.row(kernel, size, address(x), address(g), address(out))


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
