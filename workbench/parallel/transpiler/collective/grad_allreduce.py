"""grad_allreduce: gradients are summed over all trainers as soon as they are there (T-30)."""

from __future__ import annotations

from workbench.errors import PreconditionNotMet
from workbench.framework.program.block import Block
from workbench.framework.program.program import Program
from workbench.framework.program.roles import BACKWARD, LOSS_GRAD, OPTIMIZE, ROLE
from workbench.ops.math.arithmetic import SCALE
from workbench.parallel.transpiler.collective.rings import (
    RingMembers,
    all_reduce,
    make_rings,
    require_members,
    wait_for_computing,
    wait_for_rings,
)


def transpile_grad_allreduce(main: Program, startup: Program, members: RingMembers) -> None:
    """Rewrite a program and its startup program.

    Raises:
        InvalidArgument: the members do not fit. PreconditionNotMet: the program has no backward.
    """
    require_members(members)
    make_rings(startup, members)
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
