"""A recorded program in two: what computes the outputs, and what computes gradients from them and from saved values."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from workbench.autodiff.backward import gradients
from workbench.errors import Unimplemented
from workbench.framework.names import EMPTY
from workbench.framework.program.block import Block
from workbench.framework.program.guard import program_guard, static_mode
from workbench.framework.program.operator import Operator
from workbench.framework.program.program import Program
from workbench.framework.program.variable import Variable
from workbench.framework.values.spec import STACK


@dataclass(frozen=True)
class Partition:
    """A program and its gradients.

    Attributes:
        forward, backward: the two programs.
        saved: what the second is fed of the values of the first; reads: the persistable variables it reads.
        given: what it is fed as gradients, one per output.
        gradients: what it gives, one per input; None where no output depends on it.
    """

    forward: Program
    backward: Program
    saved: list[str]
    reads: list[str]
    given: list[str]
    gradients: list[str | None]


def partitioned(
    program: Program,
    startup: Program,
    outputs: Sequence[Variable],
    inputs: Sequence[Variable],
    arguments: Sequence[str],
) -> Partition:
    """Append the gradients of outputs by inputs, and take both apart.

    Args:
        arguments: names of the data that stays part of the forward program, read or not.

    What a branch or a loop keeps for its gradient stays inside of one program: the second one runs it again, from the
    values it was given.

    Raises:
        Unimplemented: a branch or loop to be run again draws random numbers, which would be others.
    """
    block = program.global_block()
    forward_ops = set(map(id, block.ops))
    with static_mode(), program_guard(program, startup):
        given = [_given(block, output) for output in outputs]
        grads = gradients(list(outputs), list(inputs), given)
    backward_ops = [op for op in block.ops if id(op) not in forward_ops]
    later = set(map(id, backward_ops))
    again = [op for op in block.ops if id(op) in forward_ops and _is_run_again(op, _read_from_outside(backward_ops))]
    once = forward_ops.difference(map(id, again))
    names = {variable.name for variable in given}
    needed = [name for name in _read_from_outside([*again, *backward_ops]) if name not in names]
    saved = [name for name in needed if not block.var(name).persistable]
    forward = program.keep_operators(lambda op: id(op) not in later, [block.var(name) for name in arguments])
    backward = program.keep_operators(lambda op: id(op) not in once, given)
    for name in saved:
        variable = backward.global_block().var(name)
        variable.is_data, variable.stop_gradient = True, True
    reads = [name for name in needed if block.var(name).persistable]
    return Partition(
        forward, backward, saved, reads, [v.name for v in given], [None if v is None else v.name for v in grads]
    )


def _is_run_again(op: Operator, read: Sequence[str]) -> bool:
    """Whether gradients read what an operator has kept of its passes.

    Raises:
        Unimplemented: it draws random numbers.
    """
    if not any(name in read and op.block.var(name).kind == STACK for name in op.output_arg_names):
        return False
    if any(inner.draws for inner in _inside(op)):
        raise Unimplemented(
            "the gradient of a loop or branch that draws random numbers cannot be taken outside of the function that "
            f"was recorded; record the whole step with jit.capture\n  at {op.site}"
        )
    return True


def _inside(op: Operator) -> Iterator[Operator]:
    """The operators of the blocks that an operator runs."""
    for block in op.blocks():
        for inner in block.ops:
            yield inner
            yield from _inside(inner)


def _given(block: Block, output: Variable) -> Variable:
    return block.create_var(f"{output.name}@GRAD@GIVEN", output.shape, output.dtype, stop_gradient=True, is_data=True)


def _read_from_outside(ops: Sequence[Operator]) -> list[str]:
    """What operators read that none of them has written before."""
    written, outside = {EMPTY}, dict[str, None]()
    for op in ops:
        outside.update(dict.fromkeys(name for name in op.input_arg_names if name not in written))
        written.update(op.output_arg_names)
    return list(outside)
