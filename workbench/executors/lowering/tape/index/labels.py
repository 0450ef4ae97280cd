"""Parts of tables that integers name, and the gradients of tables, as rows of a tape."""

from __future__ import annotations

from typing import Any

import numpy as np

from workbench.executors.lowering.tape.registry import native
from workbench.executors.lowering.tape.rules import (
    FLOATS,
    as_int64,
    copy,
    operands,
    require,
    require_dense,
    require_integers,
)
from workbench.executors.lowering.tape.sparse import SparseOperand, memories
from workbench.executors.lowering.tape.writer import TapeWriter
from workbench.executors.planning.plan import Row
from workbench.framework.values.spec import normalize_axis
from workbench.ops.index.composed.labelled import LABELLED_LOOKUP
from workbench.ops.index.embedding import LOOKUP_TABLE, NO_PADDING, added_row, taken_row
from workbench.ops.index.gather import GATHER

_HALF_WORD = 4  # bytes of what entries are moved in


def unit_of(*arrays: Any) -> int:
    """How many words an entry has, of arrays of one dtype that lie row by row."""
    dtype = arrays[0].dtype
    require(all(isinstance(a, np.ndarray) and a.flags.c_contiguous and a.size > 0 for a in arrays))
    require(dtype.itemsize in (_HALF_WORD, 2 * _HALF_WORD), all(a.dtype == dtype for a in arrays))
    return dtype.itemsize // _HALF_WORD


def take(
    writer: TapeWriter, table: np.ndarray, ids: np.ndarray, out: np.ndarray, axis: int = 0, padding: int = NO_PADDING
) -> None:
    """The parts of a table along an axis that ids name."""
    unit_of(table, out)
    writer.row(*taken_row(table, as_int64(writer, ids), out, padding, axis))


@native(LOOKUP_TABLE.backward, LABELLED_LOOKUP.backward, sparse=True)
def lookup_grad(writer: TapeWriter, row: Row) -> None:
    (out,), (_, ids, g) = operands(writer, row)
    require(g is not None)
    padding = row.node.attrs["padding_idx"]
    if isinstance(out, SparseOperand):
        _note_rows(writer, g, ids, out, padding)
    else:
        require_dense(g, out)
        writer.row(*added_row(g, as_int64(writer, ids), out, padding))


def _note_rows(writer: TapeWriter, g: np.ndarray, ids: np.ndarray, out: SparseOperand, padding: int) -> None:
    """A row of the gradient for every id."""
    require_dense(g)
    require_integers(ids)
    memories([], [out])
    rows = out.make(ids.size)
    writer.row(
        "rows_of", ids, g, rows.numbers, rows.values, rows.counted, ids.size, rows.height, rows.width, padding
    )  # fmt: skip


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
    require(out.dtype in FLOATS)
    take(writer, x.transpose(order), index, parts, int(np.flatnonzero(order == axis)[0]))
    copy(writer, parts, seen)
