"""Tables, class labels and accuracy as rows of a tape: what integers name."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from workbench.executors.lowering.tape.math.sums import with_last
from workbench.executors.lowering.tape.registry import native
from workbench.executors.lowering.tape.rules import FLOAT, copy, operands, require, require_dense, require_plain
from workbench.executors.lowering.tape.sparse import SparseOperand, memories
from workbench.executors.lowering.tape.writer import TapeWriter
from workbench.executors.planning.plan import Row
from workbench.framework.values.spec import normalize_axis
from workbench.ops.index.composed.labelled import LABELLED_LOOKUP, LABELLED_ONE_HOT, LARGEST
from workbench.ops.index.embedding import LOOKUP_TABLE, NO_PADDING, ONE_HOT, scatter_rows
from workbench.ops.index.gather import GATHER
from workbench.ops.index.label import count_labels, pick_label, place_label
from workbench.ops.index.order.sort import TOP_K
from workbench.ops.loss.metric import ACCURACY
from workbench.ops.math.reductions.extreme import ARG_MAX

MOST_BEST = 64  # of a row: each is compared with those found so far
INTEGER = np.dtype(np.int64)


def _require_integers(*arrays: Any) -> None:
    """All are int64 and lie in memory one after the other."""
    for a in arrays:
        require(isinstance(a, np.ndarray), a.dtype == INTEGER, a.flags.c_contiguous, a.size > 0)


# Tables


def _sizes(x: np.ndarray, axis: int) -> tuple[int, int, int]:
    """What comes before an axis, its size, and what comes behind it."""
    axis = normalize_axis(axis, x.ndim)
    return math.prod(x.shape[:axis]), x.shape[axis], math.prod(x.shape[axis + 1 :])


def _take(
    writer: TapeWriter, table: np.ndarray, ids: np.ndarray, out: np.ndarray, axis: int = 0, padding: int = NO_PADDING
) -> None:
    """The parts of a table along an axis that ids name."""
    require_dense(table, out)
    _require_integers(ids)
    outer, height, width = _sizes(table, axis)
    words = table.itemsize // FLOAT.itemsize  # of an element: they are only moved
    writer.row("take_rows", table, ids, out, outer, height, ids.size, words * width, padding)


def _add(
    writer: TapeWriter, x: np.ndarray, ids: np.ndarray, out: np.ndarray, axis: int = 0, padding: int = NO_PADDING
) -> None:
    """The gradient of `_take`."""
    require_plain(x, out)
    _require_integers(ids)
    outer, height, width = _sizes(out, axis)
    writer.row("add_rows", x, ids, out, outer, height, ids.size, width, padding)


@native(LOOKUP_TABLE, LABELLED_LOOKUP)
def lookup(writer: TapeWriter, row: Row) -> None:
    (out,), (table, ids) = operands(writer, row)
    _take(writer, table, ids, out, padding=row.node.attrs["padding_idx"])


@native(LOOKUP_TABLE.backward, LABELLED_LOOKUP.backward, sparse=True)
def lookup_grad(writer: TapeWriter, row: Row) -> None:
    (out,), (_, ids, g) = operands(writer, row)
    require(g is not None)
    padding = row.node.attrs["padding_idx"]
    if isinstance(out, SparseOperand):
        _note_rows(writer, g, ids, out, padding)
    else:
        _add(writer, g, ids, out, padding=padding)


def _note_rows(writer: TapeWriter, g: np.ndarray, ids: np.ndarray, out: SparseOperand, padding: int) -> None:
    """A row of the gradient for every id."""
    require_plain(g)
    _require_integers(ids)
    memories([], [out])
    rows = out.make(ids.size)
    writer.row(
        "rows_of", ids, g, rows.numbers, rows.values, rows.counted, ids.size, rows.height, rows.width, padding
    )  # fmt: skip


@native(scatter_rows)
def scatter_rows_row(writer: TapeWriter, row: Row) -> None:
    (out,), (ids, x, _) = operands(writer, row)
    _add(writer, x, ids, out, padding=row.node.attrs["padding_idx"])


@native(GATHER)
def gather(writer: TapeWriter, row: Row) -> None:
    (out,), (x, index) = operands(writer, row)
    axis = normalize_axis(row.node.attrs["axis"], x.ndim)
    if x.flags.c_contiguous or index.ndim != 1:
        _take(writer, x, index, out, axis)
        return
    require(type(x) is np.ndarray, type(out) is np.ndarray)  # where strides are open, nobody knows their order
    # Of a transposed table only the few parts that are named are copied, not the whole.
    order = np.argsort([-stride for stride in x.strides], kind="stable")
    seen = out.transpose(order)
    parts = writer.temporary(seen.shape)
    _take(writer, x.transpose(order), index, parts, int(np.flatnonzero(order == axis)[0]))
    copy(writer, parts, seen)


@native(GATHER.backward)
def gather_grad(writer: TapeWriter, row: Row) -> None:
    (out,), (_, index, g) = operands(writer, row)
    require(g is not None)
    _add(writer, g, index, out, row.node.attrs["axis"])


# Labels


def _pick(writer: TapeWriter, x: np.ndarray, label: np.ndarray, out: np.ndarray, attrs: dict[str, Any]) -> None:
    """The elements that labels name."""
    require_plain(x, out)
    _require_integers(label)
    sizes = _sizes(x, attrs["axis"])
    writer.row("pick_label", x, label, out, *sizes, attrs["ignore_index"])


def _place(writer: TapeWriter, x: np.ndarray, label: np.ndarray, out: np.ndarray, attrs: dict[str, Any]) -> None:
    """Numbers where labels point, zeros elsewhere."""
    require_plain(x, out)
    _require_integers(label)
    sizes = _sizes(out, attrs["axis"])
    writer.row("place_label", x, label, out, *sizes, attrs["ignore_index"])


@native(pick_label)
def pick_label_row(writer: TapeWriter, row: Row) -> None:
    (out,), (x, label) = operands(writer, row)
    _pick(writer, x, label, out, row.node.attrs)


@native(pick_label.backward)
def pick_label_grad(writer: TapeWriter, row: Row) -> None:
    (out,), (_, label, g) = operands(writer, row)
    require(g is not None)
    _place(writer, g, label, out, row.node.attrs)


@native(place_label)
def place_label_row(writer: TapeWriter, row: Row) -> None:
    (out,), (label, x, _) = operands(writer, row)
    _place(writer, x, label, out, row.node.attrs)


@native(ONE_HOT, LABELLED_ONE_HOT)
def one_hot(writer: TapeWriter, row: Row) -> None:
    (out,), (x,) = operands(writer, row)
    require(not row.node.attrs["allow_out_of_range"])
    require_plain(out)
    _require_integers(x)
    writer.row("one_hot", x, out, x.size, row.node.attrs["depth"])


@native(count_labels)
def count_labels_row(writer: TapeWriter, row: Row) -> None:
    (out,), (label,) = operands(writer, row)
    require_plain(out)
    _require_integers(label)
    writer.row("count_labels", label, out, label.size, row.node.attrs["ignore_index"])


# Accuracy


@native(TOP_K, LARGEST, integers=True)
def top_k(writer: TapeWriter, row: Row) -> None:
    (out, indices), (x,) = operands(writer, row)
    attrs = TOP_K.attrs | row.node.attrs
    k = attrs["k"]
    require(attrs["largest"], k <= MOST_BEST, normalize_axis(attrs["axis"], x.ndim) == x.ndim - 1)
    shape = (*x.shape[:-1], k)
    out = writer.temporary(shape) if out is None else out
    indices = writer.temporary(shape, INTEGER) if indices is None else indices
    require_plain(x, out)
    _require_integers(indices)
    writer.row("best_of_rows", x, out, indices, x.size // x.shape[-1], x.shape[-1], k)


@native(ARG_MAX, integers=True)
def arg_max(writer: TapeWriter, row: Row) -> None:
    (out,), (x,) = operands(writer, row)
    require_plain(x)
    _require_integers(out)
    axes = range(x.ndim) if row.node.attrs["flatten"] else [normalize_axis(row.node.attrs["axis"], x.ndim)]
    x, most = with_last(writer, x, axes), writer.temporary((out.size,))
    writer.row("best_of_rows", x, most, out, out.size, x.size // out.size, 1)


@native(ACCURACY, integers=True)
def accuracy(writer: TapeWriter, row: Row) -> None:
    (share, *counts), (_, indices, label) = operands(writer, row)
    share = writer.temporary((1,)) if share is None else share
    counts = [writer.temporary((1,), np.int32) if count is None else count for count in counts]
    require_plain(share)
    _require_integers(indices, label)
    writer.row("accuracy", indices, label, share, *counts, *indices.shape)
