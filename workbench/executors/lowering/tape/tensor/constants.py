"""Tensors that are the same at every step, worked out when they are bound: given values, ranges, identity matrices."""

from __future__ import annotations

import numpy as np

from workbench.executors.lowering.tape.registry import native
from workbench.executors.lowering.tape.rules import move, operands, require
from workbench.executors.lowering.tape.writer import TapeWriter
from workbench.executors.planning.plan import Row
from workbench.ops.tensor.assign import ASSIGN_VALUE
from workbench.ops.tensor.creation import EYE, LINSPACE, RANGE


@native(ASSIGN_VALUE, RANGE, LINSPACE, EYE, integers=True)
def constant(writer: TapeWriter, row: Row) -> None:
    """The op itself says what the values are; they are copied, as the result may be written over in a step."""
    (out,), _ = operands(writer, row)
    values = np.array(row.node.record.forward(np, **row.node.attrs), order="C")
    require(values.size > 0, values.shape == out.shape, values.dtype == out.dtype)
    move(writer, writer.tape.keep(values), out)
