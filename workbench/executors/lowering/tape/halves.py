"""Ops on float16 and bfloat16 as rows of a tape: in float32, rounded once, which is what defines their results.

Element-wise work reads and writes such arrays itself. Whatever else has a rule for float32 gets its operands as float32
in temporary memory, and what it writes there is rounded into the results.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from workbench.executors.lowering.tape.registry import IN_FLOAT32, native, rule_of
from workbench.executors.lowering.tape.rules import expression, require
from workbench.executors.lowering.tape.writer import TapeWriter
from workbench.executors.planning.plan import Row
from workbench.framework.values.dtype import HALVES
from workbench.framework.values.spec import ROWS
from workbench.graph.ssa import Value

Pair = tuple[np.ndarray, np.ndarray]  # an array of halves, and the same in float32


@native(IN_FLOAT32)
def in_float32(writer: TapeWriter, row: Row) -> None:
    """The rule of an op on float32 in place of its halves."""
    rule, node = rule_of(row.node), row.node
    read = _halves(writer, node.reads)
    written = _halves(writer, node.writes)
    require(rule is not None, bool(read) or "rng" not in node.record.needs)  # what is drawn has the bits of its dtype
    assert rule is not None
    content = set(node.value_reads)
    for value, (half, wide) in read.items():
        if value in content and half.size:
            expression(writer, lambda x: x, [wide], [half])
    pairs, context = read | written, writer.context

    def array(value: Value) -> np.ndarray:
        pair = pairs.get(value)
        return context.array(value) if pair is None else pair[1]

    writer.context = replace(context, array=array)
    try:
        rule(writer, row)
    finally:
        writer.context = context
    for half, wide in written.values():
        if half.size:
            expression(writer, lambda x: x, [half], [wide])


def _halves(writer: TapeWriter, values: Sequence[Value]) -> dict[Value, Pair]:
    """Those that are halves, each with memory for as many float32."""
    halves: dict[Value, Pair] = {}
    for value in values:
        if value.spec.kind != ROWS and value.spec.dtype.numpy.char in HALVES and value not in halves:
            array: Any = writer.context.array(value)
            halves[value] = array, writer.temporary(array.shape)
    return halves
