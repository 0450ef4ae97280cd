"""The making of communicators, as transpilers append it to startup programs (T-20, T-30, T-32).

One member makes the identity of a group, the others learn it (`gen_nccl_id`, `c_gen_nccl_id`); with it all of them
enter (`c_comm_init`). Where the processes were started together, as ranks of an MPI job, they are a group already: the
operators then compare who they are with what the program says, and a group goes by its number.
"""

from __future__ import annotations

from typing import Any

from workbench.framework.op.declare import op
from workbench.framework.values.dtype import uint8
from workbench.framework.values.spec import RAW, Spec

IDENTITY_BYTES = 128  # of an NCCL communicator, which other groups keep to
IDENTITY = Spec((), uint8, RAW)


@op(
    "gen_nccl_id",
    "-> NCCLID",
    attrs={
        "trainers": [],
        "trainer_id": 0,
        "nccl_comm_num": 1,
        "use_hierarchical_allreduce": False,
        "hierarchical_allreduce_inter_nranks": 0,
    },
    infer=lambda **attrs: IDENTITY,
    needs="rings",
)
def GEN_NCCL_ID(xp: Any, rings: Any, **attrs: Any) -> Any:
    """Identities of the communicators of all trainers, one for each of `nccl_comm_num` (and of a hierarchy)."""
    return rings.identity(attrs["trainers"], attrs["trainer_id"], IDENTITY_BYTES)


@op(
    "c_gen_nccl_id",
    "-> Out",
    attrs={"rank": 0, "endpoint": "", "other_endpoints": []},
    infer=lambda **attrs: IDENTITY,
    needs="rings",
)
def C_GEN_NCCL_ID(xp: Any, rings: Any, rank: int, endpoint: str, other_endpoints: list[str]) -> Any:
    """The identity of one communicator."""
    endpoints = list(other_endpoints)
    endpoints.insert(rank, endpoint)
    return rings.identity(endpoints, rank, IDENTITY_BYTES)


@op("c_comm_init", "X ->", attrs={"nranks": 1, "rank": 0, "ring_id": 0}, infer=lambda x, **attrs: (), needs="rings")
def C_COMM_INIT(xp: Any, identity: Any, rings: Any, nranks: int, rank: int, ring_id: int) -> Any:
    """Enter a communicator as member `rank` of `nranks`; it is ring `ring_id` from now on."""
    rings.enter(ring_id, nranks, rank)
    return ()


@op("c_comm_init_all", "->", attrs={"devices": [], "ring_id": 0}, infer=lambda **attrs: (), needs="rings")
def C_COMM_INIT_ALL(xp: Any, rings: Any, devices: list[int], ring_id: int) -> Any:
    """Make a communicator of the devices of this process; it is ring `ring_id` from now on."""
    rings.enter_all(ring_id, devices)
    return ()
