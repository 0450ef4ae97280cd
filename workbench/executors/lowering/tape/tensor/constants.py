"""Tensors that are the same at every step, worked out when they are bound: values, ranges, identity matrices, sizes."""

from __future__ import annotations

import math

import numpy as np

from workbench.executors.lowering.tape.registry import native
from workbench.executors.lowering.tape.rules import move, operands, require
from workbench.executors.lowering.tape.writer import TapeWriter
from workbench.executors.planning.plan import Row
from workbench.ops.tensor.assign import ASSIGN_VALUE
from workbench.ops.tensor.creation import EYE, LINSPACE, RANGE
from workbench.ops.tensor.shape import SHAPE, SIZE


@native(ASSIGN_VALUE, RANGE, LINSPACE, EYE, integers=True)
def constant(writer: TapeWriter, row: Row) -> None:
    """The op itself says what the values are; they are copied, as the result may be written over in a step."""
    (out,), _ = operands(writer, row)
    values = np.array(row.node.record.forward(np, **row.node.attrs), order="C")
    require(values.size > 0, values.shape == out.shape, values.dtype == out.dtype)
    move(writer, writer.tape.keep(values), out)


@native(SHAPE, SIZE, integers=True)
def sizes(writer: TapeWriter, row: Row) -> None:
    """What is known where a step is bound; of sizes that are open a row is written for every shape."""
    (out,), (x,) = operands(writer, row)
    require(x.ndim > 0)
    shape = tuple(map(int, x.shape))
    values = np.array(shape if row.node.record is SHAPE else math.prod(shape), out.dtype).reshape(out.shape)
    move(writer, writer.tape.keep(values), out)
