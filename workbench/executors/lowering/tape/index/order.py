"""Entries in order as rows of a tape."""

from __future__ import annotations

import numpy as np

from workbench.executors.lowering.tape.math.sums import with_last
from workbench.executors.lowering.tape.registry import native
from workbench.executors.lowering.tape.rules import (
    INTEGER,
    dense,
    expression,
    operands,
    require,
    require_integers,
    require_plain,
)
from workbench.executors.lowering.tape.writer import TapeWriter
from workbench.executors.planning.plan import Row
from workbench.framework.values.spec import normalize_axis
from workbench.ops.index.composed.labelled import LARGEST
from workbench.ops.index.order.sort import ARGSORT, TOP_K
from workbench.ops.math.reductions.extreme import ARG_MAX, ARG_MIN

MOST_BEST = 64  # of a row: each is compared with those found so far; more are sorted


@native(ARGSORT, integers=True)
def argsort(writer: TapeWriter, row: Row) -> None:
    (out, indices), (x,) = operands(writer, row)
    attrs = row.node.attrs
    require(x.ndim > 0, normalize_axis(attrs["axis"], x.ndim) == x.ndim - 1)
    _sort_rows(writer, x, out, indices, x.shape[-1], attrs["descending"])


@native(TOP_K, LARGEST, integers=True)
def top_k(writer: TapeWriter, row: Row) -> None:
    (out, indices), (x,) = operands(writer, row)
    attrs = TOP_K.attrs | row.node.attrs
    require(x.ndim > 0, normalize_axis(attrs["axis"], x.ndim) == x.ndim - 1)
    _sort_rows(writer, x, out, indices, attrs["k"], attrs["largest"])


def _sort_rows(
    writer: TapeWriter, x: np.ndarray, out: np.ndarray | None, indices: np.ndarray | None, kept: int, descending: bool
) -> None:
    """The first entries of every row in order, and where they are."""
    shape, width = (*x.shape[:-1], kept), x.shape[-1]
    out = writer.temporary(shape) if out is None else out
    indices = writer.temporary(shape, INTEGER) if indices is None else indices
    x = dense(writer, x)
    require_plain(x, out)
    require_integers(indices)
    if descending and kept <= MOST_BEST:
        writer.row("best_of_rows", x, out, indices, x.size // width, width, kept)
        return
    spare = writer.temporary((2, width), INTEGER)
    writer.row("sort_rows", x, out, indices, spare, x.size // width, width, kept, int(descending))


@native(ARG_MAX, ARG_MIN, integers=True)
def arg_best(writer: TapeWriter, row: Row) -> None:
    """The least number is the one whose negative is the largest."""
    (out,), (x,) = operands(writer, row)
    require_plain(x)
    require_integers(out)
    if row.node.record is ARG_MIN:
        negative = writer.temporary(x.shape)
        expression(writer, lambda x: -x, [negative], [x])
        x = negative
    axes = range(x.ndim) if row.node.attrs["flatten"] else [normalize_axis(row.node.attrs["axis"], x.ndim)]
    x, most = with_last(writer, x, axes), writer.temporary((out.size,))
    writer.row("best_of_rows", x, most, out, out.size, x.size // out.size, 1)
