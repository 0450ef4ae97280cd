"""A notice where a loss is minimized once more."""

from __future__ import annotations

from workbench.errors import one_of
from workbench.framework.notice import tell
from workbench.framework.program.roles import LOSS_GRAD, OPTIMIZE
from workbench.framework.program.variable import Variable


def updated_for(loss: Variable) -> set[str]:
    """The parameters a program updates, if it has gradients of this loss already."""
    ops = loss.block.program.global_block().ops
    if not any(op.role == LOSS_GRAD and loss.grad_name in op.output_arg_names for op in ops):
        return set()
    return {name for op in ops if op.role & OPTIMIZE for name in op.inputs.get("Param", ())}


def tell_of_second_update(loss: Variable, twice: set[str]) -> None:
    """A notice where a loss is minimized once more: a cell was run twice, or it is meant."""
    if twice:
        tell(
            f"the program minimizes {loss.name!r} already: every step now computes its gradients twice and updates "
            f"{one_of(twice, limit=3)} twice. To change the optimizer, build the program again"
        )
