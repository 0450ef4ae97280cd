"""Leaving out what a run does not need."""

from __future__ import annotations

from collections.abc import Iterable

from workbench.errors import NotFound, did_you_mean
from workbench.framework.program.operator import Operator
from workbench.framework.program.program import Program
from workbench.framework.program.reading.flow import reads, writes
from workbench.framework.program.variable import Variable


def prune(
    program: Program,
    targets: Iterable[str | Variable],
    feeds: Iterable[str] = (),
    keep_ops: Iterable[Operator] = (),
) -> Program:
    """A copy of `program` with the operators that the targets need, and no others (E-5).

    Args:
        targets: variables of the global block whose values are wanted as they are after a whole run.
        feeds: names of variables that are given; what would compute them is left out.
        keep_ops: operators of the global block to keep whatever they write (updates of parameters).

    Returns:
        a program with the variables its operators name, the targets and no others; a fed variable that
        nothing needs is gone.

    Raises:
        NotFound: a target is not in the global block.
    """
    block = program.global_block()
    wanted = [_target(program, target) for target in targets]
    given = set(feeds)
    always = {id(op) for op in keep_ops}
    needed = {v.name for v in wanted} - given
    kept: set[int] = set()
    for op in reversed(block.ops):
        written = {v.name for v in writes(op)}
        if id(op) not in always and needed.isdisjoint(written):
            continue
        kept.add(id(op))
        if not op.blocks():  # what a block writes outside itself it may also leave alone
            needed -= written
        needed.update(v.name for v in reads(op))
        needed -= given
    pruned = program.keep_operators(lambda op: op.block.idx > 0 or id(op) in kept, also=wanted)
    _take_as_data(pruned, given)
    return pruned


def _take_as_data(program: Program, given: set[str]) -> None:
    """What was computed and is given now comes from outside."""
    block = program.global_block()
    written = {variable.name for op in block.ops for variable in writes(op)}
    for name in given - written:
        if name in block.vars and not block.vars[name].persistable:
            block.vars[name].is_data = True


def _target(program: Program, target: str | Variable) -> Variable:
    name = target if isinstance(target, str) else target.name
    variable = program.global_block().vars.get(name)
    if variable is None:
        raise NotFound(f"there is no variable {name!r} to keep.{did_you_mean(name, program.global_block().vars)}")
    return variable
