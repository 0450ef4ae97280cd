"""Images that lie channels last, for kernels that work on planes: they are turned on their way in and out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from workbench.executors.lowering.tape.rules import FLOATS, copy, require
from workbench.executors.lowering.tape.writer import TapeWriter
from workbench.executors.planning.plan import Row
from workbench.ops.conv.windows import NCHW, as_nchw


@contextmanager
def channels_first(
    writer: TapeWriter, row: Row, reads: Sequence[Any], writes: Sequence[Any] = ()
) -> Iterator[tuple[Any, ...]]:
    """The images of a row as (n, c, h, w), those read and then those written.

    With `data_format` NHWC they are temporaries: what is read is copied before, what is written behind. That costs
    one pass over the memory of each. What lies channels first all the same is not copied: images of one channel or
    one pixel, and views that a transposition gave.

    Args:
        reads, writes: arrays of the row in its data format, or None.
    """
    data_format = row.node.attrs["data_format"]
    if data_format == NCHW:
        yield (*reads, *writes)
        return
    require(*(a.dtype in FLOATS and a.size > 0 for a in (*reads, *writes) if a is not None))
    turned_reads = [None if a is None else as_nchw(a, data_format) for a in reads]
    turned_writes = [None if a is None else as_nchw(a, data_format) for a in writes]
    images = [_planes(writer, a) for a in turned_reads]
    results = [_planes(writer, a) for a in turned_writes]
    _copy_all(writer, turned_reads, images)
    yield (*images, *results)
    _copy_all(writer, results, turned_writes)


def _planes(writer: TapeWriter, turned: np.ndarray | None) -> np.ndarray | None:
    if turned is None or turned.flags.c_contiguous:
        return turned
    return writer.temporary(turned.shape, turned.dtype)


def _copy_all(writer: TapeWriter, sources: Sequence[Any], outs: Sequence[Any]) -> None:
    for source, out in zip(sources, outs, strict=True):
        if out is not source:
            copy(writer, source, out)
