"""nccl2 mode: the startup program makes communicators, the program itself stays as it is (T-20, T-21)."""

from __future__ import annotations

from collections.abc import Sequence

from workbench.framework.program.program import Program
from workbench.framework.program.roles import FORWARD, ROLE
from workbench.framework.values.spec import RAW
from workbench.ops.distributed.groups import GEN_NCCL_ID
from workbench.parallel.transpiler.config import DistributeTranspilerConfig

IDENTITY = "NCCLID"
ATTRIBUTE = "nccl2"


def append_identity(
    startup: Program, main: Program, config: DistributeTranspilerConfig, trainer: int, endpoints: Sequence[str]
) -> None:
    """Append one `gen_nccl_id`, with a variable for each communicator.

    The main program records who its trainers are; `ParallelExecutor(num_trainers=, trainer_id=)` makes the collectives.
    """
    block = startup.global_block()
    numbers = range(config.nccl_comm_num)
    names = [IDENTITY, *(f"{IDENTITY}_{i}" for i in numbers[1:])]
    if config.use_hierarchical_allreduce:
        names += [f"Hierarchical_{where}_{IDENTITY}_{i}" for i in numbers for where in ("inter", "exter")]
    for name in names:
        block.create_var(name, dtype="uint8", kind=RAW, persistable=True, stop_gradient=True)
    attrs = {
        "trainers": list(endpoints),
        "trainer_id": trainer,
        "nccl_comm_num": config.nccl_comm_num,
        "use_hierarchical_allreduce": config.use_hierarchical_allreduce,
        "hierarchical_allreduce_inter_nranks": config.hierarchical_allreduce_inter_nranks,
        ROLE: FORWARD,
    }
    block.append_op(GEN_NCCL_ID.type, {}, {"NCCLID": IDENTITY}, attrs)
    main.attributes[ATTRIBUTE] = {"trainers": list(endpoints)}
