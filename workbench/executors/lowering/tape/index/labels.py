"""Tables, class labels and accuracy as rows of a tape: what integers name."""

from __future__ import annotations

from typing import Any

import numpy as np

from workbench.executors.lowering.tape.registry import native
from workbench.executors.lowering.tape.rules import (
    INTEGER,
    copy,
    dense,
    operands,
    require,
    require_integers,
    require_plain,
    sizes_along,
)
from workbench.executors.lowering.tape.sparse import SparseOperand, memories
from workbench.executors.lowering.tape.writer import TapeWriter
from workbench.executors.planning.plan import Row
from workbench.framework.values.spec import normalize_axis
from workbench.ops.index.composed.labelled import LABELLED_LOOKUP, LABELLED_ONE_HOT
from workbench.ops.index.embedding import LOOKUP_TABLE, NO_PADDING, ONE_HOT, scatter_rows
from workbench.ops.index.gather import GATHER
from workbench.ops.index.label import count_labels, pick_label, place_label
from workbench.ops.loss.metric import ACCURACY

_HALF_WORD = 4  # bytes of what entries are moved in


def named(writer: TapeWriter, index: Any) -> Any:
    """An index as int64."""
    require(index.dtype in (INTEGER, np.dtype(np.int32)), index.flags.c_contiguous, index.size > 0)
    if index.dtype == INTEGER:
        return index
    wide = writer.temporary(index.shape, INTEGER)
    writer.row("wide_integers", index, wide, index.size)
    return wide


def unit_of(*arrays: Any) -> int:
    """How many words an entry has, of arrays of one dtype that lie row by row."""
    dtype = arrays[0].dtype
    require(all(isinstance(a, np.ndarray) and a.flags.c_contiguous and a.size > 0 for a in arrays))
    require(dtype.itemsize in (_HALF_WORD, 2 * _HALF_WORD), all(a.dtype == dtype for a in arrays))
    return dtype.itemsize // _HALF_WORD


# Tables


def take(
    writer: TapeWriter, table: np.ndarray, ids: np.ndarray, out: np.ndarray, axis: int = 0, padding: int = NO_PADDING
) -> None:
    """The parts of a table along an axis that ids name."""
    outer, height, width = sizes_along(table, axis)
    width *= unit_of(table, out)
    writer.row("take_rows", table, named(writer, ids), out, outer, height, ids.size, width, padding)


def _add(
    writer: TapeWriter, x: np.ndarray, ids: np.ndarray, out: np.ndarray, axis: int = 0, padding: int = NO_PADDING
) -> None:
    """The gradient of `take`."""
    require_plain(x, out)
    outer, height, width = sizes_along(out, axis)
    writer.row("add_rows", x, named(writer, ids), out, outer, height, ids.size, width, padding)


@native(LOOKUP_TABLE, LABELLED_LOOKUP)
def lookup(writer: TapeWriter, row: Row) -> None:
    (out,), (table, ids) = operands(writer, row)
    take(writer, table, ids, out, padding=row.node.attrs["padding_idx"])


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
    require_integers(ids)
    memories([], [out])
    rows = out.make(ids.size)
    writer.row(
        "rows_of", ids, g, rows.numbers, rows.values, rows.counted, ids.size, rows.height, rows.width, padding
    )  # fmt: skip


@native(scatter_rows)
def scatter_rows_row(writer: TapeWriter, row: Row) -> None:
    (out,), (ids, x, _) = operands(writer, row)
    _add(writer, x, ids, out, padding=row.node.attrs["padding_idx"])


@native(scatter_rows.backward)
def scatter_rows_grad(writer: TapeWriter, row: Row) -> None:
    (out,), (ids, _, _, g) = operands(writer, row)
    require(g is not None)
    take(writer, dense(writer, g), ids, out, padding=row.node.attrs["padding_idx"])


@native(GATHER, integers=True)
def gather(writer: TapeWriter, row: Row) -> None:
    (out,), (x, index) = operands(writer, row)
    axis = normalize_axis(row.node.attrs["axis"], x.ndim)
    if x.flags.c_contiguous or index.ndim != 1:
        take(writer, x, index, out, axis)
        return
    require(type(x) is np.ndarray, type(out) is np.ndarray)  # where strides are open, nobody knows their order
    # Of a transposed table only the few parts that are named are copied, not the whole.
    order = np.argsort([-stride for stride in x.strides], kind="stable")
    seen = out.transpose(order)
    parts = writer.temporary(seen.shape, out.dtype)
    require(out.dtype == np.float32)
    take(writer, x.transpose(order), index, parts, int(np.flatnonzero(order == axis)[0]))
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
    sizes = sizes_along(x, attrs["axis"])
    writer.row("pick_label", x, named(writer, label), out, *sizes, attrs["ignore_index"])


def _place(writer: TapeWriter, x: np.ndarray, label: np.ndarray, out: np.ndarray, attrs: dict[str, Any]) -> None:
    """Numbers where labels point, zeros elsewhere."""
    require_plain(x, out)
    sizes = sizes_along(out, attrs["axis"])
    writer.row("place_label", x, named(writer, label), out, *sizes, attrs["ignore_index"])


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


@native(place_label.backward)
def place_label_grad(writer: TapeWriter, row: Row) -> None:
    (out,), (label, _, _, g) = operands(writer, row)
    require(g is not None)
    _pick(writer, g, label, out, row.node.attrs)


@native(ONE_HOT, LABELLED_ONE_HOT)
def one_hot(writer: TapeWriter, row: Row) -> None:
    (out,), (x,) = operands(writer, row)
    require(not row.node.attrs["allow_out_of_range"])
    require_plain(out)
    writer.row("one_hot", named(writer, x), out, x.size, row.node.attrs["depth"])


@native(count_labels)
def count_labels_row(writer: TapeWriter, row: Row) -> None:
    (out,), (label,) = operands(writer, row)
    require_plain(out)
    writer.row("count_labels", named(writer, label), out, label.size, row.node.attrs["ignore_index"])


# Accuracy


@native(ACCURACY, integers=True)
def accuracy(writer: TapeWriter, row: Row) -> None:
    (share, *counts), (_, indices, label) = operands(writer, row)
    share = writer.temporary((1,)) if share is None else share
    counts = [writer.temporary((1,), np.int32) if count is None else count for count in counts]
    require_plain(share)
    require_integers(indices, label)
    writer.row("accuracy", indices, label, share, *counts, *indices.shape)
