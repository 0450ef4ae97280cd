"""Ops as rows of a tape on copies of their operands, where these do not suit the rule of an op.

Element-wise work takes all dtypes and strides itself. Other rules take float32, and mostly arrays that lie in memory
row by row. In place of float16 and bfloat16 they get float32: such ops are computed in float32 and rounded once, which
is what defines their results. In place of arrays with other strides, such as `x[:, ::2]`, they get dense copies.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from workbench.executors.lowering.operands import objects_of
from workbench.executors.lowering.tape.registry import IN_FLOAT32, ON_DENSE, native, rule_of
from workbench.executors.lowering.tape.rules import copy, expression, require
from workbench.executors.lowering.tape.writer import TapeWriter
from workbench.executors.planning.plan import Row
from workbench.framework.values.dtype import HALVES
from workbench.framework.values.spec import ROWS
from workbench.graph.ssa import Value

Fill = Callable[[TapeWriter, np.ndarray, np.ndarray], None]  # (writer, source, out)


@native(IN_FLOAT32)
def in_float32(writer: TapeWriter, row: Row) -> None:
    """The rule of an op on float32 in place of its halves."""

    def is_half(array: np.ndarray) -> bool:
        return array.dtype.char in HALVES

    def fill(writer: TapeWriter, source: np.ndarray, out: np.ndarray) -> None:
        expression(writer, lambda x: x, [out], [source])

    is_drawn = "rng" in row.node.record.needs  # what is drawn has the bits of its dtype
    require(not is_drawn or any(v.spec.dtype.numpy.char in HALVES for v in row.node.reads))
    _write(writer, row, is_half, np.dtype(np.float32), fill)


@native(ON_DENSE)
def on_dense(writer: TapeWriter, row: Row) -> None:
    """The rule of an op on dense arrays in place of those with other strides."""

    def is_strided(array: np.ndarray) -> bool:
        return not array.flags.c_contiguous

    _write(writer, row, is_strided, None, copy)


def _write(
    writer: TapeWriter, row: Row, is_unsuitable: Callable[[np.ndarray], bool], dtype: np.dtype[Any] | None, fill: Fill
) -> None:
    """Copy what does not suit into temporary memory, of a dtype or of its own; back what is written there."""
    rule, node = rule_of(row.node), row.node
    require(rule is not None)
    assert rule is not None
    arrays = {value: writer.context.array(value) for value in _with_memory(row)}
    stand_ins = {
        value: writer.temporary(array.shape, dtype or array.dtype)
        for value, array in arrays.items()
        if is_unsuitable(array)
    }
    require(bool(stand_ins))
    content = set(node.value_reads)
    for value in node.reads:
        if value in stand_ins and value in content and arrays[value].size:
            fill(writer, arrays[value], stand_ins[value])
            content.remove(value)
    writer.on_stand_ins(rule, row, stand_ins)
    for value in node.writes:
        if value in stand_ins and arrays[value].size:
            fill(writer, stand_ins[value], arrays[value])


def _with_memory(row: Row) -> list[Value]:
    """The operands that are arrays."""
    objects = set(objects_of(row))
    values = dict.fromkeys((*row.node.reads, *row.node.writes))
    return [value for value in values if value.spec.kind != ROWS and value not in objects]
