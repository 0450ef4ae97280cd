"""Row programs as rows of a tape: one rule for every op that is declared by such a body."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from workbench.executors.lowering.tape.registry import ANY_ROWS, native
from workbench.executors.lowering.tape.rules import FLOATS, INTEGER, copy, operands, require, require_dense
from workbench.executors.lowering.tape.writer import TapeWriter
from workbench.executors.planning.plan import Row
from workbench.framework.op.record import Op
from workbench.framework.rows.kernel import COLUMNS, LINES, PLANES
from workbench.framework.rows.program import RowForm, RowProgram
from workbench.framework.rows.recording import Per
from workbench.framework.values.spec import groups_of
from workbench.graph.ssa import Node
from workbench.runtime.row_kernels import row_kernel

Arrays = Sequence[Any]
Place = tuple[str, tuple[Any, Any, Any, Any]]


@native(ANY_ROWS, integers=True)
def any_row_program(writer: TapeWriter, row: Row) -> None:
    """The kernels of the op's program; one that is declared outside the package has none, NumPy runs its body."""
    _require_own_dtype(row.node)
    outs, ins = operands(writer, row)
    write_op(writer, row.node.record, outs, ins, row.node.attrs)


def _require_own_dtype(node: Node) -> None:
    """Results have the dtype of the elements: the body is given these as they are, not cast to another one before."""
    assert node.record.rows is not None
    program = node.record.rows.chosen(node.attrs)
    first = next(v for v, x in zip(node.inputs, program.inputs, strict=True) if v is not None and x.per is Per.ELEMENT)
    shown = zip(node.outputs, program.outputs, strict=True)
    own = [v for v, x in shown if not (v is None or x.is_wide or x.is_integer or x.like)]
    require(all(v.spec.dtype is first.spec.dtype for v in own))


def write_op(writer: TapeWriter, record: Op, outs: Arrays, ins: Arrays, attrs: dict[str, Any]) -> None:
    """The rows of an op's program.

    Args:
        outs, ins: one per output and input; None for outputs nobody wants and inputs that are absent.
    """
    assert record.rows is not None
    program = record.rows.chosen(attrs)
    form = program.form(ins, attrs)
    results = program.traced(form).results
    wanted = [out if result is not None else None for out, result in zip(outs, results, strict=True)]
    require(all(result is not None or out is None for out, result in zip(outs, results, strict=True)))
    shape = _shape(program, outs, ins)
    axes = program.axes(len(shape), attrs)
    for is_across in (False, True):
        targets = [o for o, x in zip(wanted, program.outputs, strict=True) if (x.per is Per.PLACE) == is_across]
        if any(o is not None for o in targets):
            _write(writer, program, form, is_across, wanted, ins, attrs, shape, axes)


def _shape(program: RowProgram, outs: Arrays, ins: Arrays) -> tuple[Any, ...]:
    """That of the elements."""
    full = [a for a, x in zip((*ins, *outs), (*program.inputs, *program.outputs), strict=True) if x.per is Per.ELEMENT]
    return next(a.shape for a in full if a is not None)


def _write(
    writer: TapeWriter, program: RowProgram, form: RowForm, is_across: bool, outs: Arrays, ins: Arrays,
    attrs: dict[str, Any], shape: tuple[Any, ...], axes: Sequence[int],
) -> None:  # fmt: skip
    kept = [a for a in range(len(shape)) if a not in axes]
    place = _place(shape, kept if is_across else axes)
    turn = None
    if place is None or place[0] not in program.layouts:
        turn = (*kept, *axes)
        turned = tuple(shape[a] for a in turn)
        last = range(len(kept), len(shape))
        place = _place(turned, range(len(kept)) if is_across else last)
    assert place is not None
    layout, sizes = place
    dtype = _dtype(program, outs, ins)
    kernel = row_kernel(program, form, layout, is_across, dtype.itemsize, dtype == INTEGER)
    require(kernel.name in writer.tape.kernels.addresses)  # an op that is declared outside the package has none
    given = [_brought(writer, ins[n], x, dtype, shape, axes, turn) for n, x in enumerate(program.inputs)
             if n in {number for number, _ in kernel.inputs}]  # fmt: skip
    targets, back = [], []
    for n, _ in kernel.outputs:
        array, after = _room(writer, outs[n], program.outputs[n], dtype, shape, axes, turn)
        targets.append(array)
        back.append(after)
    elements = kernel.kept_elements(sizes)
    beside = writer.temporary((elements,), dtype) if kernel.kept else None
    integers = [int(attrs[name]) for name in program.integers]
    require(all(-(2**31) <= n < 2**31 for n in integers))  # kernels compare labels as int32
    told = [float(attrs[name]) for name in program.numbers] + integers
    writer.row(kernel.name, *given, *targets, beside, *told, *sizes)
    for after in back:
        after()


def _dtype(program: RowProgram, outs: Arrays, ins: Arrays) -> np.dtype[Any]:
    """That of the elements, which kernels compute in."""
    dtypes = [a.dtype for a in (*ins, *outs) if a is not None and a.dtype != INTEGER]
    require(bool(dtypes) or program.takes_wholes)  # whole numbers alone are mostly left to NumPy
    require(all(dtype in FLOATS for dtype in dtypes[:1]))
    return dtypes[0] if dtypes else INTEGER


def _place(shape: Sequence[Any], axes: Sequence[int]) -> Place | None:
    """Where rows along some axes lie in an array that is contiguous; None where that has to be turned first."""
    groups = groups_of(shape, axes)
    summed = [is_summed for _, is_summed in groups]
    sizes = [size for size, _ in groups]
    if summed in ([], [True], [False], [False, True]):
        width = prod(size for size, is_summed in groups if is_summed)
        rows = prod(size for size, is_summed in groups if not is_summed)
        return LINES, (1, rows * width, rows, width)
    if summed == [True, False, True]:
        batch, rows, width = sizes
        return PLANES, (batch, rows * width, rows, width)
    if summed == [True, False]:
        return COLUMNS, (1, sizes[0], sizes[1], sizes[1])
    if summed == [False, True, False]:
        return COLUMNS, (sizes[0], sizes[1], sizes[2], sizes[2])
    return None


def _brought(
    writer: TapeWriter, array: Any, x: Any, dtype: Any, shape: tuple[Any, ...], axes: Sequence[int],
    turn: Sequence[int] | None,
) -> Any:  # fmt: skip
    """An operand as the kernel reads it."""
    require(array is not None)
    _require_dense(array, INTEGER if x.is_integer else dtype)
    _require_size(array, x, shape, axes)
    if turn is None or x.per is not Per.ELEMENT:
        return array
    seen = array.transpose(turn)
    beside = writer.temporary(seen.shape, dtype)
    copy(writer, seen, beside)
    return beside


def _room(
    writer: TapeWriter, out: Any, x: Any, dtype: Any, shape: tuple[Any, ...], axes: Sequence[int],
    turn: Sequence[int] | None,
) -> tuple[np.ndarray, Callable[[], None]]:  # fmt: skip
    """Where the kernel writes an output, and what brings it to its place afterwards."""
    dtype = INTEGER if x.is_integer else dtype
    if out is None:
        return writer.temporary((_size(x, shape, axes),), dtype), _nothing
    _require_dense(out, dtype)
    _require_size(out, x, shape, axes)
    if turn is None or x.per is not Per.ELEMENT:
        return out, _nothing
    seen = out.transpose(turn)
    beside = writer.temporary(seen.shape, dtype)
    return beside, lambda: copy(writer, beside, seen)


def _require_dense(array: Any, dtype: np.dtype[Any]) -> None:
    """It has a dtype and lies in memory row by row."""
    if dtype == INTEGER:
        require(isinstance(array, np.ndarray), array.dtype == INTEGER, array.flags.c_contiguous)
    else:
        require_dense(array)
        require(array.dtype == dtype)


def _nothing() -> None:
    """The output is where it belongs."""


def _size(x: Any, shape: tuple[Any, ...], axes: Sequence[int]) -> Any:
    if x.per is Per.ELEMENT:
        return prod(shape)
    return prod(d for a, d in enumerate(shape) if (a in axes) == (x.per is Per.PLACE))


def _require_size(array: Any, x: Any, shape: tuple[Any, ...], axes: Sequence[int]) -> None:
    require(array.size == _size(x, shape, axes))
