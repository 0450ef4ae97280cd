"""single_process_multi_thread: gradients are summed over the devices of one process (T-32)."""

from __future__ import annotations

from workbench.framework.program.program import Program
from workbench.framework.program.roles import FORWARD, ROLE
from workbench.ops.distributed.groups import C_COMM_INIT_ALL
from workbench.parallel.transpiler.collective.grad_allreduce import GradAllReduce
from workbench.parallel.transpiler.collective.rings import RingMembers


class SingleProcessMultiThread(GradAllReduce):
    """Sums gradients over the devices of this process: one ring, and devices begin with equal parameters anyway."""

    MODE = "single_process_multi_thread"

    def __init__(self) -> None:
        super().__init__(1)

    def _require(self, members: RingMembers) -> None:
        """Any number of addresses will do."""

    def _transpile_startup_program(self, startup: Program, members: RingMembers) -> None:
        startup.global_block().append_op(C_COMM_INIT_ALL.type, {}, {}, {"ring_id": 0, ROLE: FORWARD})
