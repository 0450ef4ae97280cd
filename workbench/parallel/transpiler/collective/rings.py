"""What collective modes share: who takes part, and a startup program that makes rings and equal parameters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from workbench.errors import InvalidArgument
from workbench.framework.program.block import Block
from workbench.framework.program.program import Program
from workbench.framework.program.roles import FORWARD, ROLE
from workbench.framework.values.spec import RAW
from workbench.ops.distributed.collectives import C_ALLREDUCE_SUM, C_BROADCAST, C_SYNC_CALC_STREAM, C_SYNC_COMM_STREAM
from workbench.ops.distributed.groups import C_COMM_INIT, C_GEN_NCCL_ID


@dataclass(frozen=True)
class RingMembers:
    """Who takes part.

    Attributes:
        endpoints: addresses of all. rank: which one this is. current: its address. rings: how many communicators.
    """

    endpoints: Sequence[str]
    rank: int
    current: str
    rings: int

    @property
    def size(self) -> int:
        return len(self.endpoints)


def require_members(members: RingMembers) -> None:
    """Several of them, this one among them.

    Raises:
        InvalidArgument: otherwise (`ValueError` in Paddle).
    """
    if members.size < 2:
        raise InvalidArgument(f"a collective mode takes two trainers or more, got {list(members.endpoints)}")
    if isinstance(members.rank, bool) or not isinstance(members.rank, int) or members.rank < 0:
        raise InvalidArgument(f"trainer_id is the rank of this trainer, an int >= 0, got {members.rank!r}")
    if members.current not in members.endpoints:
        raise InvalidArgument(
            f"current_endpoint is one of the trainers' {list(members.endpoints)}, got {members.current!r}"
        )


def make_rings(startup: Program, members: RingMembers) -> None:
    """Have a startup program make the communicators, and rank 0's parameters everybody's.

    States of optimizers are not sent: initialisers make the same of them everywhere.
    """
    block = startup.global_block()
    others = [endpoint for endpoint in members.endpoints if endpoint != members.current]
    parameters = startup.all_parameters()
    for ring in range(members.rings):
        name = f"nccl_id_{ring}"
        block.create_var(name, dtype="uint8", kind=RAW, persistable=True, stop_gradient=True)
        told = {"rank": members.rank, "endpoint": members.current, "other_endpoints": others, ROLE: FORWARD}
        block.append_op(C_GEN_NCCL_ID.type, {}, {"Out": name}, told)
        member = {"nranks": members.size, "rank": members.rank, "ring_id": ring, ROLE: FORWARD}
        block.append_op(C_COMM_INIT.type, {"X": name}, {}, member)
    for number, parameter in enumerate(parameters):
        attrs = {"ring_id": number % members.rings, "root": 0, ROLE: FORWARD}
        block.append_op(C_BROADCAST.type, {"X": parameter}, {"Out": parameter}, attrs)
    if parameters:
        wait_for_rings(block, len(block.ops), parameters[-1].name, members.rings, FORWARD)


def all_reduce(block: Block, at: int, name: str, ring: int, role: int) -> None:
    """Insert the sum of a variable over all trainers."""
    attrs = {"ring_id": ring, ROLE: role}
    block.insert_op(at, C_ALLREDUCE_SUM.type, inputs={"X": name}, outputs={"Out": name}, attrs=attrs)


def wait_for_computing(block: Block, at: int, name: str, role: int) -> None:
    """Insert what has collectives wait until a variable is there."""
    attrs = {ROLE: role}
    block.insert_op(at, C_SYNC_CALC_STREAM.type, inputs={"X": name}, outputs={"Out": name}, attrs=attrs)


def wait_for_rings(block: Block, at: int, name: str, rings: int, role: int) -> None:
    """Insert what has readers wait until the collectives of every ring are done."""
    for ring in range(rings):
        attrs = {"ring_id": ring, ROLE: role}
        block.insert_op(at + ring, C_SYNC_COMM_STREAM.type, inputs={"X": name}, outputs={"Out": name}, attrs=attrs)
