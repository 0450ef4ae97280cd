"""What rules do with sparse gradients: where they lie, what they are with every row once, and element-wise work on
tables of which only some rows have a gradient.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from workbench.executors.lowering.rows_memory import RowsCell, RowsMemory
from workbench.executors.lowering.tape.vector_code import Unsuitable
from workbench.executors.lowering.tape.writer import TapeWriter
from workbench.executors.planning.sizes.unknowns import Unsettled
from workbench.graph.ssa import Value
from workbench.ops.index.embedding import NO_PADDING
from workbench.runtime.words.rows import DIGITS

DTYPES = (np.dtype(np.float32), np.dtype(np.float64))  # that values may have
WORD = np.dtype(np.int64)
MOVED = 4  # bytes of what rows are moved in


class SparseOperand:
    """A sparse gradient that a row of the plan reads or makes."""

    def __init__(self, writer: TapeWriter, value: Value) -> None:
        self._context, self.value = writer.context, value

    @property
    def dtype(self) -> np.dtype[Any]:
        """Of the values."""
        return self.value.spec.dtype.numpy

    @property
    def cell(self) -> RowsCell:
        """Where it is kept."""
        cell = self._context.cell(self.value)
        assert isinstance(cell, RowsCell)
        return cell

    def make(self, most: int, numbered: RowsMemory | None = None) -> RowsMemory:
        """Memory for at most so many rows, see `RowsMemory`."""
        cell, before = self.cell, self.cell.memory
        memory = cell.room_for(most, self.value.spec.shape, self.dtype, numbered)
        if memory is not before:
            self._context.held.append((self.value.place, memory.arena))
        return memory

    def show(self, memory: RowsMemory) -> None:
        """It is what lies there."""
        self.cell.memory = memory


def memories(operands: Sequence[Any], makes: Sequence[Any] = ()) -> list[RowsMemory]:
    """Where sparse gradients are, once it is known that kernels make them.

    Args:
        makes: sparse gradients that kernels make of them.

    Raises:
        Unsuitable: Python makes one, or nobody has said what shape one has. Unsettled: sizes are open.
    """
    if not all(isinstance(x, SparseOperand) for x in (*operands, *makes)):
        raise Unsuitable
    dtypes = {x.dtype for x in (*operands, *makes)}
    if len(dtypes) > 1 or not dtypes.issubset(DTYPES):
        raise Unsuitable
    if any(size < 0 for out in makes for size in out.value.spec.shape):
        raise Unsuitable
    if not all(x.cell.is_in_memory for x in operands):
        raise Unsuitable
    for out in makes:
        out.cell.promise()
    there = [x.cell.memory for x in operands]
    if None in there:
        raise Unsettled("how many rows a sparse gradient has has to be known")
    return there


class Merged(NamedTuple):
    """A sparse gradient in which every row comes once, in ascending order; zeros, of row 0, behind the last one."""

    numbers: np.ndarray
    values: np.ndarray
    counted: np.ndarray


def merge(writer: TapeWriter, rows: RowsMemory, into: RowsMemory | None = None) -> Merged:
    """A row that merges a sparse gradient.

    Args:
        into: where to; if not given, memory for the row of the plan.
    """
    most = rows.most
    order, other = writer.temporary((most,), WORD), writer.temporary((most,), WORD)
    tally = writer.temporary((DIGITS,), WORD)
    if into is not None:
        merged = Merged(into.numbers, into.values, into.counted)
    else:
        values = writer.temporary(rows.values.shape, rows.values.dtype)
        merged = Merged(writer.temporary((most,), WORD), values, writer.temporary((1,), WORD))
    writer.row("merge_rows", rows.numbers, rows.values, rows.counted, order, other, tally, *merged, most, rows.width)
    return merged


def merged_into(writer: TapeWriter, x: SparseOperand, out: SparseOperand) -> RowsMemory:
    """Rows that merge a sparse gradient into what becomes another one."""
    (rows,) = memories([x], [out])
    merged = out.make(rows.most)
    merge(writer, rows, merged)
    return merged


def join(writer: TapeWriter, terms: Sequence[SparseOperand], outs: Sequence[SparseOperand]) -> None:
    """The sum of sparse gradients: their rows one after the other; all results are the same one."""
    parts = memories(terms, outs)
    first, *others = outs
    whole = first.make(sum(rows.most for rows in parts))
    for n, rows in enumerate(parts):
        writer.row(
            "join_rows", rows.numbers, rows.values, rows.counted, whole.numbers, whole.values, whole.counted,
            int(n == 0), rows.most, whole.most, rows.width,
        )  # fmt: skip
    for out in others:
        out.show(whole)


def picked(writer: TapeWriter, table: np.ndarray, rows: RowsMemory, merged: Merged) -> np.ndarray:
    """The rows of a table that have a gradient."""
    out = writer.temporary(merged.values.shape, table.dtype)
    width = rows.width * (table.itemsize // MOVED)
    writer.row("take_rows", table, merged.numbers, out, 1, rows.height, rows.most, width, NO_PADDING)
    return out


def put(writer: TapeWriter, values: np.ndarray, rows: RowsMemory, merged: Merged, table: np.ndarray) -> None:
    """Give them new values."""
    writer.row("put_rows", values, merged.numbers, merged.counted, table, rows.most, rows.height, rows.width)


def in_two_parts(
    writer: TapeWriter, rows: RowsMemory, tables: Sequence[Any], outs: Sequence[np.ndarray],
    compute: Callable[[tuple[int, ...], Any, Sequence[Any], Sequence[np.ndarray]], None], touched_only: bool = False,
) -> None:  # fmt: skip
    """Element-wise work on tables and a sparse gradient, without an array for that: where it has no row it is 0.

    Args:
        tables: the other operands; None for those that are absent. outs: arrays, which may be these.
        compute: writes the work of some rows, given a shape, their gradient, and as many of `tables` and `outs`.
        touched_only: rows without a gradient stay as they are: `outs` are tables.
    """
    merged = merge(writer, rows)
    some = [None if table is None else picked(writer, table, rows, merged) for table in tables]
    if not touched_only:
        compute(rows.shape, writer.tape.number(0.0, rows.values.dtype), tables, outs)
    results = [writer.temporary(merged.values.shape, out.dtype) for out in outs]
    compute(merged.values.shape, merged.values, some, results)
    for result, out in zip(results, outs, strict=True):
        put(writer, result, rows, merged, out)
