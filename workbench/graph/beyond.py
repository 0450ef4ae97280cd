"""Which operators exchange values with other processes, as transpilers write them."""

from __future__ import annotations

from collections.abc import Sequence

from workbench.framework.op.record import OPS
from workbench.framework.program.program import Program
from workbench.framework.program.remote import CLIENT, SERVER
from workbench.framework.values.place import Place
from workbench.graph.build import written_graph
from workbench.graph.rings import RING_OPS
from workbench.graph.settings import Settings
from workbench.graph.ssa import Graph
from workbench.ops.distributed.collectives import C_ALLREDUCE_SUM, C_BROADCAST

RINGS = "rings"
BETWEEN_PROCESSES = frozenset({C_ALLREDUCE_SUM.type, C_BROADCAST.type})
"""Collectives of operators' own."""


def meets_servers(type: str) -> bool:
    """Whether an op of this type is a server, or exchanges values with servers."""
    record = OPS.get(type)
    return record is not None and (CLIENT in record.needs or SERVER in record.needs)


def graph_beyond(program: Program, places: Sequence[Place], settings: Settings) -> Graph | None:
    """The graph of a program that exchanges values with other processes, as it is written; None of all others."""
    records = {op.record for op in program.global_block().ops}
    if records.isdisjoint(RING_OPS) and not any({CLIENT, SERVER, RINGS} & set(record.needs) for record in records):
        return None
    return written_graph(program, places, settings)
