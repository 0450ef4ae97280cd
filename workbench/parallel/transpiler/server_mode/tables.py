"""Embedding tables that lie on servers only: trainers pull the rows of a batch and push gradients of those."""

from __future__ import annotations

from workbench.framework.program.block import Block
from workbench.framework.program.operator import Operator
from workbench.ops.distributed.tables import DISTRIBUTED_LOOKUP_TABLE
from workbench.ops.index.composed.labelled import LOOKUPS
from workbench.parallel.transpiler.server_mode.layout import Layout, Served


def pull_rows(block: Block, table: Served, layout: Layout) -> None:
    """Have look-ups of a table pull the rows they read; their backward stays what it is."""
    for place, op in enumerate(block.ops):
        if table.name not in op.input_arg_names:
            continue
        if op.record in LOOKUPS:
            block.ops[place] = _pulling(block, op, table, layout)
    block.program.touch()


def _pulling(block: Block, op: Operator, table: Served, layout: Layout) -> Operator:
    attrs = {
        "table_names": [shard.parameter for shard in table.shards],
        "height_sections": table.rows,
        "endpoints": table.endpoints,
        "trainer_id": layout.trainer,
        "lookup_table_version": op.type,
        "padding_idx": op.attr("padding_idx"),
        "width": table.shape[1],
        "op_role": op.role,
    }
    ins = {"Ids": op.input("Ids"), "W": op.input("W")}
    return block.make_op(DISTRIBUTED_LOOKUP_TABLE.type, ins, {"Outputs": op.output("Out")}, attrs)
