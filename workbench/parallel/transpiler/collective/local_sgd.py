"""local_sgd: every trainer updates by itself, then what has changed is averaged (T-31)."""

from __future__ import annotations

from workbench.framework.program.block import Block
from workbench.framework.program.program import Program
from workbench.framework.program.roles import FORWARD, OPTIMIZE, ROLE
from workbench.ops.math.arithmetic import SCALE, SUB
from workbench.ops.tensor.assign import ASSIGN
from workbench.parallel.transpiler.collective.collective import CollectiveTranspiler
from workbench.parallel.transpiler.collective.rings import (
    RingMembers,
    all_reduce,
    wait_for_computing,
    wait_for_rings,
)
from workbench.parallel.transpiler.server_mode.layout import is_update_operator


class LocalSGD(CollectiveTranspiler):
    """Averages parameters over all trainers after every step; the state of optimizers stays each trainer's own.

    Args:
        nrings: how many communicators take turns.
    """

    MODE = "local_sgd"

    def __init__(self, nrings: int = 2) -> None:
        super().__init__(nrings)

    def snapshot_name(self, param_name: str) -> str:
        """What a parameter was after the latest averaging."""
        return snapshot(param_name)

    def _transpile_startup_program(self, startup: Program, members: RingMembers) -> None:
        super()._transpile_startup_program(startup, members)
        _keep_snapshots(startup)

    def _transpile_main_program(self, main: Program, members: RingMembers) -> None:
        _average(main, members)


def snapshot(name: str) -> str:
    """What a parameter was after the latest averaging."""
    return f"{name}@SNAPSHOT"


def _keep_snapshots(startup: Program) -> None:
    block = startup.global_block()
    for parameter in startup.all_parameters():
        _declare(block, parameter.name)
        block.append_op(ASSIGN.type, {"X": parameter}, {"Out": snapshot(parameter.name)}, {ROLE: FORWARD})


def _declare(block: Block, name: str) -> None:
    like = block.var(name)
    block.create_var(snapshot(name), like.shape, like.dtype, persistable=True, stop_gradient=True)


def _average(main: Program, members: RingMembers) -> None:
    """After every update the sum of what trainers have changed; at the end what follows from it."""
    block = main.global_block()
    ring, changed = -1, []
    for place in reversed(range(len(block.ops))):
        op = block.ops[place]
        if not is_update_operator(op):
            continue
        (name,) = op.input("Param")
        _declare(block, name)
        _subtract(block, place + 1, name)
        wait_for_computing(block, place + 2, name, OPTIMIZE)
        ring = (ring + 1) % members.rings
        all_reduce(block, place + 3, name, ring, OPTIMIZE)
        changed.append(name)
    if not changed:
        return
    wait_for_rings(block, len(block.ops), changed[-1], members.rings, OPTIMIZE)
    for name in reversed(changed):
        attrs = {"scale": 1.0 / members.size, ROLE: OPTIMIZE}
        block.append_op(SCALE.type, {"X": name}, {"Out": name}, attrs)
        _subtract(block, len(block.ops), name)
        block.append_op(ASSIGN.type, {"X": name}, {"Out": snapshot(name)}, {ROLE: OPTIMIZE})


def _subtract(block: Block, at: int, name: str) -> None:
    """A parameter becomes its snapshot less itself."""
    ins = {"X": snapshot(name), "Y": name}
    block.insert_op(at, SUB.type, inputs=ins, outputs={"Out": name}, attrs={ROLE: OPTIMIZE})
