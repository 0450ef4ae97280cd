"""Clipping of sparse gradients as rows of a tape; that of dense ones are sums and element-wise ops."""

from __future__ import annotations

from workbench.executors.lowering.tape.registry import native
from workbench.executors.lowering.tape.rules import expression, operands, require
from workbench.executors.lowering.tape.sparse import SparseOperand, memories, merged_into
from workbench.executors.lowering.tape.writer import TapeWriter
from workbench.executors.planning.plan import Row
from workbench.framework.expr.expr import Recording
from workbench.ops.math.clip import CLIP
from workbench.ops.update.gradient_clip import clip_rows, multiply_rows


@native(multiply_rows, sparse=True)
def multiply(writer: TapeWriter, row: Row) -> None:
    (out,), (x, factor) = operands(writer, row)
    require(factor.dtype == x.dtype)
    (rows,) = memories([x], [out])
    scaled = out.make(rows.most, rows)
    expression(writer, lambda x, factor: x * factor, [scaled.values], [rows.values, factor.reshape(())])


@native(clip_rows, sparse=True)
def clip(writer: TapeWriter, row: Row) -> None:
    (out,), (x,) = operands(writer, row)
    require(isinstance(out, SparseOperand))  # else the bounds move what is 0
    low, high = row.node.attrs["min"], row.node.attrs["max"]
    values = merged_into(writer, x, out).values
    expression(writer, lambda x: CLIP.forward(Recording, x, min=low, max=high), [values], [values])
