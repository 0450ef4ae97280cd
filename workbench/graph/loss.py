"""The loss a program trains: which it is, and whether the user named the right one (X-4)."""

from __future__ import annotations

from weakref import WeakKeyDictionary

from workbench.errors import InvalidArgument, InvalidType, described, did_you_mean
from workbench.framework.program.program import Program
from workbench.framework.program.roles import LOSS_GRAD

SCALED_LOSSES = "scaled_losses"
"""The attribute of a program that says of which losses those it differentiates are multiples, `{multiple: loss}`."""

_losses: WeakKeyDictionary[Program, tuple[int, str | None]] = WeakKeyDictionary()  # with the version they are of


def loss_gradients(program: Program) -> list[str]:
    """Names of the variables that hold the gradient of a loss."""
    ops = program.global_block().ops
    return [name for op in ops if op.role == LOSS_GRAD for name in op.output_arg_names]


def loss_of(program: Program) -> str | None:
    """The loss whose gradient the program computes; None if it computes none."""
    version, loss = _losses.get(program, (-1, None))
    if version != program.version:
        version, gradients = program.version, loss_gradients(program)
        loss = gradients[0].removesuffix("@GRAD") if gradients else None
        _losses[program] = version, loss
    return loss


def labelled_loss(program: Program) -> dict[str, str]:
    """What is recorded of a program unless something else is asked for: {"loss": its loss}, empty if it has none."""
    loss = loss_of(program)
    return {"loss": loss} if loss else {}


def has_backward(program: Program) -> bool:
    """Whether some op of the program belongs to a backward pass (X-4)."""
    return any(op.type.endswith("_grad") for op in program.all_ops())


def check_loss(program: Program, loss_name: str | None) -> None:
    """Refuse a loss that cannot be trained (X-4; design section 6: an unknown name is an error)."""
    if loss_name is None or (isinstance(loss_name, str) and not loss_name):
        if has_backward(program):
            raise MissingLoss(
                "loss_name is missing: the program has a backward pass, whose gradients are scaled by the loss; pass "
                "loss_name=loss.name"
            )
        return
    if not isinstance(loss_name, str):
        raise InvalidType(f"loss_name is the name of a variable, as in loss.name; got {described(loss_name)}")
    if not program.global_block().has_var(loss_name):
        raise InvalidArgument(f"loss_name {loss_name!r} is no variable of the program.{perhaps(loss_name, program)}")
    losses = losses_of(program)
    meant = program.attributes.get(SCALED_LOSSES, {})
    if losses and loss_name not in losses and loss_name not in (meant.get(loss) for loss in losses):
        raise InvalidArgument(
            f"loss_name {loss_name!r} is not the loss the backward pass starts from, which is {losses[0]!r}"
        )


def losses_of(program: Program) -> list[str]:
    """The variables whose gradients the backward passes of the program start from."""
    return [name.removesuffix("@GRAD") for name in loss_gradients(program)]


def perhaps(name: str, program: Program) -> str:
    """What somebody may have meant by a name that the program does not have: one like it, or the loss.

    Users know a loss by the name of their Python variable, which is not its name in the program.
    """
    close = did_you_mean(name, program.global_block().vars)
    losses = losses_of(program)
    return close or (f" Its loss is called {losses[0]!r}." if losses else "")


class MissingLoss(InvalidArgument, AssertionError):
    """Paddle asserts it (X-4)."""
