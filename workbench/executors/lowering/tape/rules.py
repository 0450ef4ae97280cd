"""What rules are written with: the operands of a row, what they require of them, and rows that many rules need."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from workbench.executors.lowering.tape.sparse import SparseOperand
from workbench.executors.lowering.tape.transposes import strided_copy
from workbench.executors.lowering.tape.vector_code import Unsuitable
from workbench.executors.lowering.tape.writer import TapeWriter
from workbench.executors.planning.plan import Row
from workbench.framework.expr.expr import Expr
from workbench.framework.expr.lowered import lower
from workbench.framework.values.spec import ROWS

Arrays = Sequence[Any]

FLOAT = np.dtype(np.float32)


def operands(writer: TapeWriter, row: Row) -> tuple[list[Any], list[Any]]:
    """The arrays of a row, outputs and inputs, in the slots of its op; for sparse gradients `SparseOperand`s."""
    return _slots(writer, row.node.outputs), _slots(writer, row.node.inputs)


def _slots(writer: TapeWriter, slots: Sequence[Any]) -> list[Any]:
    array = writer.context.array
    return [
        [None if v is None else SparseOperand(writer, v) if v.spec.kind == ROWS else array(v) for v in slot]
        if isinstance(slot, list)
        else None if slot is None
        else SparseOperand(writer, slot) if slot.spec.kind == ROWS
        else array(slot)
        for slot in slots
    ]  # fmt: skip


def require(*conditions: bool) -> None:
    """Go on only if all hold."""
    if not all(conditions):
        raise Unsuitable


def require_plain(*arrays: np.ndarray) -> None:
    """All are float32, lie in memory row by row, and have elements."""
    for a in arrays:
        require(isinstance(a, np.ndarray), a.dtype == FLOAT, a.flags.c_contiguous, a.size > 0)


def fill(writer: TapeWriter, out: np.ndarray, number: float) -> None:
    """One number everywhere."""
    require(out.dtype == FLOAT)
    form = lower([Expr("constant", value=np.float32(number), dtype=FLOAT)], [])
    writer.vector(form, out.shape, [], [out])


def expression(writer: TapeWriter, body: Callable[..., Any], outs: Arrays, ins: Arrays) -> None:
    """`outs = body(*ins)`, a body of element-wise functions of expressions; shapes broadcast."""
    inputs = [None if a is None else Expr("input", value=i, dtype=a.dtype) for i, a in enumerate(ins)]
    results = body(*inputs)
    results = list(results) if isinstance(results, tuple) else [results]
    form = lower(results, [None if a is None else a.dtype for a in ins])
    writer.vector(form, outs[0].shape, ins, outs)


def move(writer: TapeWriter, source: np.ndarray, out: np.ndarray) -> None:
    """The bytes of an array as they are."""
    require(source.shape == out.shape, source.dtype == out.dtype, out.nbytes > 0)
    require(source.flags.c_contiguous, out.flags.c_contiguous)
    writer.row("move_bytes", source, out, out.nbytes)


def copy(writer: TapeWriter, source: np.ndarray, out: np.ndarray) -> None:
    """Any strides to any strides."""
    require(source.dtype == FLOAT, out.dtype == FLOAT, source.shape == out.shape)
    strided = strided_copy(source, out) if out.size else None
    if strided is not None:
        writer.row(*strided)
    else:
        expression(writer, lambda x: x, [out], [source])
