"""single_process_multi_thread: gradients are summed over the devices of one process (T-32)."""

from __future__ import annotations

from workbench.framework.program.program import Program
from workbench.framework.program.roles import FORWARD, ROLE
from workbench.ops.distributed.groups import C_COMM_INIT_ALL
from workbench.parallel.transpiler.collective.grad_allreduce import sum_gradients
from workbench.parallel.transpiler.collective.rings import RingMembers


def transpile_single_process(main: Program, startup: Program, members: RingMembers) -> None:
    """Rewrite a program and its startup program. There is one ring; devices begin with equal parameters anyway.

    Raises:
        PreconditionNotMet: the program has no backward.
    """
    startup.global_block().append_op(C_COMM_INIT_ALL.type, {}, {}, {"ring_id": 0, ROLE: FORWARD})
    sum_gradients(main, members.size, 1)
