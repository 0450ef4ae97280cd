"""What rules are written with: the operands of a row, what they require of them, and rows that many rules need."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from workbench.executors.lowering.tape.sparse import SparseOperand
from workbench.executors.lowering.tape.transposes import moved_entries, strided_copy
from workbench.executors.lowering.tape.vector_code import Unsuitable
from workbench.executors.lowering.tape.writer import TapeWriter
from workbench.executors.planning.plan import Row
from workbench.framework.expr.expr import Expr
from workbench.framework.expr.lowered import lower
from workbench.framework.values.dtype import HALVES
from workbench.framework.values.spec import ROWS
from workbench.runtime.native.tape import address

Arrays = Sequence[Any]

FLOAT, DOUBLE = np.dtype(np.float32), np.dtype(np.float64)
INTEGER = np.dtype(np.int64)
FLOATS = (FLOAT, DOUBLE)  # what kernels compute with


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


def require_dense(*arrays: np.ndarray) -> None:
    """The same, but all may be float64."""
    for a in arrays:
        require(isinstance(a, np.ndarray), a.dtype in FLOATS, a.dtype == arrays[0].dtype)
        require(a.flags.c_contiguous, a.size > 0)


def require_floating(*arrays: np.ndarray) -> None:
    """All are of one floating dtype, which element-wise work takes."""
    for a in arrays:
        require(isinstance(a, np.ndarray), a.dtype == arrays[0].dtype, computed_in(a.dtype) in FLOATS)


def computed_in(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """What numbers of a dtype are computed in: float16 and bfloat16 in float32."""
    return FLOAT if dtype.char in HALVES else dtype


def require_integers(*arrays: Any) -> None:
    """All are int64 and lie in memory one after the other."""
    for a in arrays:
        require(isinstance(a, np.ndarray), a.dtype == INTEGER, a.flags.c_contiguous, a.size > 0)


def as_int64(writer: TapeWriter, index: Any) -> Any:
    """Integers as int64."""
    require(index.dtype in (INTEGER, np.dtype(np.int32)), index.flags.c_contiguous, index.size > 0)
    if index.dtype == INTEGER:
        return index
    wide = writer.temporary(index.shape, INTEGER)
    writer.row("wide_integers", index, wide, index.size)
    return wide


def fill(writer: TapeWriter, out: np.ndarray, number: float) -> None:
    """One number everywhere."""
    require_floating(out)
    dtype = computed_in(out.dtype)
    form = lower([Expr("constant", value=dtype.type(number), dtype=dtype)], [])
    writer.vector(form, out.shape, [], [out])


def expression(writer: TapeWriter, body: Callable[..., Any], outs: Arrays, ins: Arrays) -> None:
    """`outs = body(*ins)`, a body of element-wise functions of expressions; shapes broadcast."""
    dtypes = [None if a is None else computed_in(a.dtype) for a in ins]
    inputs = [None if d is None else Expr("input", value=i, dtype=d) for i, d in enumerate(dtypes)]
    results = body(*inputs)
    results = list(results) if isinstance(results, tuple) else [results]
    form = lower(results, dtypes)
    writer.vector(form, outs[0].shape, ins, outs)


def move(writer: TapeWriter, source: np.ndarray, out: np.ndarray) -> None:
    """The bytes of an array as they are."""
    require(source.shape == out.shape, source.dtype == out.dtype, out.nbytes > 0)
    require(source.flags.c_contiguous, out.flags.c_contiguous)
    writer.row("move_bytes", source, out, out.nbytes)


def copy(writer: TapeWriter, source: np.ndarray, out: np.ndarray) -> None:
    """Any strides to any strides."""
    require(source.shape == out.shape)
    if computed_in(out.dtype) not in FLOATS:
        _move_entries(writer, source, out)
        return
    require_floating(source, out)
    strided = strided_copy(source, out) if out.size and out.dtype in FLOATS else None
    if strided is not None:
        writer.row(*strided)
    else:
        expression(writer, lambda x: x, [out], [source])


def _move_entries(writer: TapeWriter, source: np.ndarray, out: np.ndarray) -> None:
    """What is not computed with, such as integers: bytes, to any strides."""
    require(source.dtype == out.dtype, out.nbytes > 0)
    if address(source) == address(out) and source.strides == out.strides:
        return  # it shows the same memory
    moved = moved_entries(source, out)
    if moved is None:
        raise Unsuitable
    writer.row(*moved)


def repeat(writer: TapeWriter, x: np.ndarray, out: np.ndarray) -> None:
    """An array that broadcasts to the shape of `out`."""
    if computed_in(out.dtype) in FLOATS:
        expression(writer, lambda x: x, [out], [x])
        return
    require(type(x) is np.ndarray)
    _move_entries(writer, np.broadcast_to(x, out.shape), out)
