"""Batch norm with an activation, and a sum between them, as rows of a tape: those of the ops they stand for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from workbench.executors.lowering.tape.registry import native
from workbench.executors.lowering.tape.rows import write_op
from workbench.executors.lowering.tape.rules import expression, operands, require, require_dense
from workbench.executors.lowering.tape.vector_code import Unsuitable
from workbench.executors.lowering.tape.writer import TapeWriter
from workbench.executors.planning.plan import Row
from workbench.framework.op.record import Op, find_op
from workbench.framework.op.traced import steps_of
from workbench.ops.nn.fused import FUSED_BATCH_NORM_ACT, FUSED_BN_ADD_ACTIVATION
from workbench.ops.nn.norm import BATCH_NORM

NO_GRADIENTS = (None,) * 4  # of the statistics


@native(FUSED_BATCH_NORM_ACT, joined=True)
def batch_norm_act(writer: TapeWriter, row: Row) -> None:
    (y, *statistics), ins = operands(writer, row)
    require_dense(y)
    write_op(writer, BATCH_NORM, (y, *statistics), ins, row.node.attrs)
    _write(writer, find_op(row.node.attrs["act_type"]), y, [y])


@native(FUSED_BN_ADD_ACTIVATION, joined=True)
def batch_norm_add_act(writer: TapeWriter, row: Row) -> None:
    (y, *statistics), (x, z, *channels) = operands(writer, row)
    require_dense(y, z)
    write_op(writer, BATCH_NORM, (y, *statistics), (x, *channels), row.node.attrs)
    expression(writer, lambda a, b: a + b, [y], [y, z])
    _write(writer, find_op(row.node.attrs["act_type"]), y, [y])


@native(FUSED_BATCH_NORM_ACT.backward, joined=True)
def batch_norm_act_grad(writer: TapeWriter, row: Row) -> None:
    outs, (x, scale, bias, mean, variance, y, saved_mean, inverse, g_y, *_) = operands(writer, row)
    g = _through_activation(writer, row, y, g_y, writer.temporary(x.shape, x.dtype))
    given = (x, scale, bias, mean, variance, saved_mean, inverse, g, *NO_GRADIENTS)
    write_op(writer, BATCH_NORM.backward, outs, given, row.node.attrs)


@native(FUSED_BN_ADD_ACTIVATION.backward, joined=True)
def batch_norm_add_act_grad(writer: TapeWriter, row: Row) -> None:
    (g_x, g_z, *outs), (x, _, scale, bias, mean, variance, y, saved_mean, inverse, g_y, *_) = operands(writer, row)
    g = _through_activation(writer, row, y, g_y, writer.temporary(x.shape, x.dtype) if g_z is None else g_z)
    given = (x, scale, bias, mean, variance, saved_mean, inverse, g, *NO_GRADIENTS)
    write_op(writer, BATCH_NORM.backward, (g_x, *outs), given, row.node.attrs)


def _through_activation(
    writer: TapeWriter, row: Row, y: np.ndarray, g_y: np.ndarray | None, out: np.ndarray
) -> np.ndarray:
    """The gradient of what was activated; the activations that are fused know it from their result."""
    require(g_y is not None)
    require_dense(y, out)
    record = find_op(find_op(row.node.attrs["act_type"]).grad_type)
    _write(writer, record, out, [y, y, g_y] if len(record.inputs) == 3 else [y, g_y])
    return out


def _write(writer: TapeWriter, record: Op, out: np.ndarray, ins: Sequence[Any]) -> None:
    form = steps_of(record, [out.dtype] * len(ins), record.attrs)
    if form is None:
        raise Unsuitable
    writer.vector(form, out.shape, ins, [out])
