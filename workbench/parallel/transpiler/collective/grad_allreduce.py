"""grad_allreduce: gradients are summed over all trainers as soon as they are there (T-30)."""

from __future__ import annotations

from workbench.errors import PreconditionNotMet
from workbench.framework.program.block import Block
from workbench.framework.program.program import Program
from workbench.framework.program.roles import BACKWARD, LOSS_GRAD, OPTIMIZE, ROLE
from workbench.ops.math.arithmetic import SCALE
from workbench.parallel.transpiler.collective.collective import CollectiveTranspiler
from workbench.parallel.transpiler.collective.rings import (
    RingMembers,
    all_reduce,
    wait_for_computing,
    wait_for_rings,
)


class GradAllReduce(CollectiveTranspiler):
    """Sums gradients over all trainers.

    Args:
        nrings: how many communicators take turns.

    Example:
        >>> from workbench import fluid
        >>> loss = fluid.layers.mean(fluid.layers.fc(fluid.data("x", [None, 4]), 1))
        >>> updates, _ = fluid.optimizer.SGD(0.1).minimize(loss)
        >>> trainers = ["127.0.0.1:6170", "127.0.0.1:6171"]
        >>> fluid.transpiler.collective.GradAllReduce().transpile(None, None, 0, trainers, trainers[0], False)
        >>> [op.type for op in fluid.default_main_program().global_block().ops].count("c_allreduce_sum")
        2
    """

    MODE = "grad_allreduce"

    def __init__(self, nrings: int = 2) -> None:
        super().__init__(nrings)

    def _transpile_main_program(self, main: Program, members: RingMembers) -> None:
        sum_gradients(main, members.size, members.rings)


def sum_gradients(main: Program, trainers: int, rings: int) -> None:
    """Scale the loss gradient by `1 / trainers`, and sum gradients; rings take turns from the program's end on."""
    block = main.global_block()
    _scale_loss_gradient(block, trainers)
    ring, last = -1, ""
    for place in reversed(range(len(block.ops))):
        op = block.ops[place]
        gradients = [gradient for _, gradient in op.role_vars] if op.role & BACKWARD else []
        at = place + 1
        for number, gradient in enumerate(gradients):
            if number == 0:
                wait_for_computing(block, at, gradient, BACKWARD)
                at += 1
            ring = (ring + 1) % rings
            all_reduce(block, at, gradient, ring, BACKWARD)
            last = gradient
    if last:
        first = next((i for i, op in enumerate(block.ops) if op.role & OPTIMIZE), len(block.ops))
        wait_for_rings(block, first, last, rings, BACKWARD)


def _scale_loss_gradient(block: Block, trainers: int) -> None:
    places = [i for i, op in enumerate(block.ops) if op.role == LOSS_GRAD]
    if not places:
        raise PreconditionNotMet("the program has no backward: transpile it after optimizer.minimize(loss)")
    for place in reversed(places):
        (name,) = block.ops[place].output_arg_names
        attrs = {"scale": 1.0 / trainers, ROLE: BACKWARD}
        block.insert_op(place + 1, SCALE.type, inputs={"X": name}, outputs={"Out": name}, attrs=attrs)
