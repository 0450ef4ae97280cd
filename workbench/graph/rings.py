"""Programs that exchange values by operators of their own, as transpilers of collective modes write them."""

from __future__ import annotations

from workbench.errors import Unimplemented
from workbench.framework.program.operator import Operator
from workbench.framework.program.program import Program
from workbench.ops.distributed.collectives import C_ALLREDUCE_SUM, C_BROADCAST, C_SYNC_CALC_STREAM, C_SYNC_COMM_STREAM

RING_OPS = frozenset({C_ALLREDUCE_SUM, C_BROADCAST, C_SYNC_CALC_STREAM, C_SYNC_COMM_STREAM})
_COLLECTIVES = (C_ALLREDUCE_SUM, C_BROADCAST)


def rings_of(program: Program) -> list[int]:
    """Numbers of the rings that a program goes round; none of most programs."""
    numbers = (op.attrs["ring_id"] for op in program.global_block().ops if op.record in _COLLECTIVES)
    return sorted(set(numbers))


def refuse_inner_collectives(op: Operator) -> None:
    """Collectives are no part of branches and loops, which trainers may go through differently.

    Raises:
        Unimplemented: names the operator.
    """
    for block in op.blocks():
        for inner in block.ops:
            if inner.record in _COLLECTIVES:
                raise Unimplemented(
                    f"op {inner.type!r} exchanges values inside the {op.type!r} at {op.site}: trainers may go another "
                    "way through control flow each"
                )
            refuse_inner_collectives(inner)
