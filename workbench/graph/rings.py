"""Programs that exchange values by operators of their own, as transpilers of collective modes write them."""

from __future__ import annotations

from workbench.framework.program.program import Program
from workbench.ops.distributed.collectives import C_ALLREDUCE_SUM, C_BROADCAST, C_SYNC_CALC_STREAM, C_SYNC_COMM_STREAM

RING_OPS = frozenset({C_ALLREDUCE_SUM, C_SYNC_CALC_STREAM, C_SYNC_COMM_STREAM})
_COLLECTIVES = (C_ALLREDUCE_SUM, C_BROADCAST)


def rings_of(program: Program) -> list[int]:
    """Numbers of the rings that a program goes round; none of most programs."""
    numbers = (op.attrs["ring_id"] for op in program.global_block().ops if op.record in _COLLECTIVES)
    return sorted(set(numbers))
