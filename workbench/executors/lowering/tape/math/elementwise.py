"""Element-wise ops, views, and the nodes passes make of them, as rows of a tape."""

from __future__ import annotations

import math
from contextlib import suppress

import numpy as np

from workbench.executors.lowering.numpy.lower import call_attrs
from workbench.executors.lowering.tape.math.sums import add_up
from workbench.executors.lowering.tape.math.whole import is_whole, whole_steps
from workbench.executors.lowering.tape.registry import ANY_ELEMENTWISE, ANY_VIEW, native
from workbench.executors.lowering.tape.rules import (
    FLOATS,
    Arrays,
    computed_in,
    copy,
    fill,
    move,
    operands,
    require,
    require_dense,
)
from workbench.executors.lowering.tape.vector_code import Unsuitable
from workbench.executors.lowering.tape.writer import TapeWriter
from workbench.executors.planning.memory.aliases import shown_input
from workbench.executors.planning.plan import Row
from workbench.framework.expr.lowered import Lowered, lower
from workbench.framework.op.traced import steps_of
from workbench.framework.values.spec import broadcast_shapes
from workbench.graph.ssa import FUSED_ELEMENTWISE, SCALE_LOSS_GRAD

CHAINED = 512  # rows that are added up as they come, one after the other; rounding errors of more want blocks


@native(ANY_ELEMENTWISE)
def elementwise(writer: TapeWriter, row: Row) -> None:
    """An element-wise op or its backward op, by its traced body."""
    node = row.node
    outs, ins = operands(writer, row)
    require(all(a is None or isinstance(a, np.ndarray) for a in (*outs, *ins)))
    form = steps_of(node.record, tuple(None if a is None else computed_in(a.dtype) for a in ins), node.attrs)
    if form is None:
        raise Unsuitable
    form = form.only(tuple(out is not None for out in outs))
    if is_whole(form):
        whole_steps(writer, form, ins, outs)
        return
    read = [a for i, a in enumerate(ins) if i in form.read]
    shape = broadcast_shapes(*(a.shape for a in (*read, *outs) if a is not None))
    summed = {out.shape for out in outs if out is not None and out.shape != shape}
    # By shapes alone, so that the order of sums is: what has the shape of an operand may also have its memory.
    if all(_is_short(shape, part) and all(a.shape != part for a in read) for part in summed):
        with suppress(Unsuitable):
            writer.vector(form, shape, ins, outs)
            return
    _add_up_gradients(writer, form, shape, ins, outs)


def _is_short(shape: tuple[int, ...], part: tuple[int, ...]) -> bool:
    """Whether a part is the last dimensions of a shape, as it is of what is repeated row by row, for not many rows."""
    kept = part[next((i for i, d in enumerate(part) if d != 1), len(part)) :]
    at = len(shape) - len(kept)
    return kept == shape[at:] and math.prod(shape[:at]) <= CHAINED


def _add_up_gradients(writer: TapeWriter, form: Lowered, shape: tuple[int, ...], ins: Arrays, outs: Arrays) -> None:
    """The gradients of what was broadcast otherwise than by few rows: made in full, or there already, then added up."""
    wide, sums = list(outs), []
    for k, out in enumerate(outs):
        if out is None or out.shape == shape:
            continue
        require_dense(out)
        there = _passed_on(form, k, shape, ins, outs)
        if there is None:
            there = _same_result(form, k, shape, outs)
        wide[k] = writer.temporary(shape, out.dtype) if there is None else None
        sums.append((wide[k] if there is None else there, out))
    require(bool(sums))
    if any(out is not None for out in wide):
        writer.vector(form.only(tuple(out is not None for out in wide)), shape, ins, wide)
    for source, out in sums:
        add_up(writer, source, out)


def _same_result(form: Lowered, k: int, shape: tuple[int, ...], outs: Arrays) -> np.ndarray | None:
    """Where the row writes the same numbers in full for another result."""
    for out, r in zip(outs, form.results, strict=True):
        if out is not None and r == form.results[k] and out.shape == shape:
            return out if out.dtype in FLOATS and out.flags.c_contiguous else None
    return None


def _passed_on(form: Lowered, k: int, shape: tuple[int, ...], ins: Arrays, outs: Arrays) -> np.ndarray | None:
    """The input a result is, if it still is when the other results have been written."""
    number = form.results[k]
    if number is None or number >= len(ins) or ins[number].shape != shape:
        return None
    passed: np.ndarray = ins[number]
    others = [out for out, r in zip(outs, form.results, strict=True) if out is not None and r != number]
    kept = not any(np.may_share_memory(passed, out) for out in others)
    return passed if kept and passed.dtype in FLOATS and passed.flags.c_contiguous else None


@native(ANY_VIEW)
def view(writer: TapeWriter, row: Row) -> None:
    """An op that only looks at its input differently: nothing to do, or a copy of what it looks at."""
    node = row.node
    outs, ins = operands(writer, row)
    (out,) = [o for o in outs if o is not None]
    source = ins[shown_input(node.record)]
    if (source.size == out.size and np.may_share_memory(source, out)) or not out.size:
        return
    if node.record.view is not None and node.record.view.keeps_order and out.flags.c_contiguous:
        bring = copy if out.dtype in FLOATS else move
        bring(writer, source, out.reshape(source.shape))
        return
    seen = node.record.forward(np, *ins, **call_attrs(node))
    seen = seen[0] if isinstance(seen, tuple) else seen
    require(isinstance(seen, np.ndarray), np.may_share_memory(seen, source))
    copy(writer, seen, out)


@native(FUSED_ELEMENTWISE)
def fused_elementwise(writer: TapeWriter, row: Row) -> None:
    ((outs,), (ins,)) = operands(writer, row)
    form = lower(row.node.attrs["results"], [computed_in(a.dtype) for a in ins])
    writer.vector(form, outs[0].shape, ins, outs)


@native(SCALE_LOSS_GRAD)
def scale_loss_grad(writer: TapeWriter, row: Row) -> None:
    (out,), _ = operands(writer, row)
    fill(writer, out, writer.context.loss_factor(row.node))
