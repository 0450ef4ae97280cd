"""Copies of programs (rules P-20 … P-24). Time grows with the size of the program, not faster.

A copy shares nothing but names with its original, and learning-rate schedulers, which belong to the
learning-rate variable of that name wherever it is used. Streams of random ops are kept: a copy draws the same
numbers.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from workbench.framework.names import EMPTY
from workbench.framework.program.block import Block
from workbench.framework.program.operator import Operator
from workbench.framework.program.program import Program
from workbench.framework.program.roles import BACKWARD, LOSS_GRAD, LR_SCHED, OPTIMIZE
from workbench.framework.program.variable import Parameter, Variable
from workbench.framework.values.spec import STACK

IS_TEST = "is_test"
SAVE, SAVED_SUFFIX = "save", "_saved"  # attributes with which control flow is asked to keep values for its gradient
_TRAINING = BACKWARD | OPTIMIZE | LR_SCHED
_ATOMS = (bool, int, float, str, type(None))


def clone(program: Program) -> Program:
    """A copy of everything, backward and update operators included (P-20)."""
    return copy_program(program, program.blocks, lambda op: True, lambda variable: True)


def clone_for_test(program: Program) -> Program:
    """A copy for evaluation (P-21): nothing of the backward and the updates, every `is_test` set.

    A program without a backward keeps all its operators and variables.
    """
    made = _without_training(program) if _is_trained(program) else clone(program)
    for op in made.all_ops():
        if IS_TEST in op.attrs:
            op.attrs[IS_TEST] = True
    return made


def _is_trained(program: Program) -> bool:
    return any(op.role == LOSS_GRAD for op in program.all_ops())


def _without_training(program: Program) -> Program:
    def is_kept(op: Operator) -> bool:
        return not op.role & _TRAINING

    return keep_operators(program, is_kept)


def keep_operators(program: Program, is_kept: Callable[[Operator], bool], also: Iterable[Variable] = ()) -> Program:
    """A copy with the operators that `is_kept` accepts, the blocks they run and the variables they name.

    Args:
        also: variables of the global block to keep although no operator names them.
    """
    blocks = _blocks_run(program, is_kept)
    wanted = {id(v) for v in also}
    dropped: set[int] = set()
    for block in blocks:
        for op in block.ops:
            found = _named(op)
            (wanted if is_kept(op) else dropped).update(map(id, found))
    if program.rng_step and any(_draws(op) for block in blocks for op in block.ops if is_kept(op)):
        wanted.add(id(program.global_block().vars.get(program.rng_step)))

    def is_wanted(variable: Variable) -> bool:
        # Blocks are given values by name, so there what nothing names may still be used.
        return id(variable) in wanted or (variable.block.idx > 0 and id(variable) not in dropped)

    made = copy_program(program, blocks, is_kept, is_wanted)
    _forget_unread_saves(made)
    return made


def _named(op: Operator) -> list[Variable]:
    """The variables that an operator reads or writes."""
    found = (op.block.find_var(name) for name in (*op.input_arg_names, *op.output_arg_names) if name != EMPTY)
    return [variable for variable in found if variable is not None]


def _draws(op: Operator) -> bool:
    return "rng" in op.record.needs


def _blocks_run(program: Program, is_kept: Callable[[Operator], bool]) -> list[Block]:
    """The global block, the blocks that kept operators run and those around them, in order."""
    found = {0}
    waiting = [program.global_block()]
    while waiting:
        for op in waiting.pop().ops:
            for inner in op.blocks() if is_kept(op) else ():
                while inner.idx not in found:
                    found.add(inner.idx)
                    waiting.append(inner)
                    inner = inner.parent or program.global_block()
    return [program.blocks[i] for i in sorted(found)]


def _forget_unread_saves(program: Program) -> None:
    """Take back what `append_backward` asked of control flow, where nothing reads it any more (P-22)."""
    read = {name for op in program.all_ops() for name in op.input_arg_names}
    for op in program.all_ops():
        saves = [name for name in op.output_arg_names if _is_stack(op.block, name)]
        if saves and read.isdisjoint(saves):
            asked = (k for k in op.record.attrs if k == SAVE or k.endswith(SAVED_SUFFIX))
            op.attrs.update({k: op.record.attrs[k] for k in asked})


def _is_stack(block: Block, name: str) -> bool:
    variable = block.find_var(name)
    return variable is not None and variable.kind == STACK


def copy_program(
    program: Program,
    blocks: Iterable[Block],
    is_kept: Callable[[Operator], bool],
    is_wanted: Callable[[Variable], bool],
) -> Program:
    """A copy of some blocks (the parents of all among them), with some of their operators and variables."""
    made = Program()
    twins = {-1: -1}
    made.blocks = []
    for block in blocks:
        twins[block.idx] = len(made.blocks)
        made.blocks.append(Block(made, len(made.blocks), twins[block.parent_idx]))
    by_old = {old: made.blocks[new] for old, new in twins.items() if new >= 0}
    for block, twin in zip(blocks, made.blocks):
        twin.inputs = list(block.inputs)
        twin.vars = {name: copy_variable(v, twin) for name, v in block.vars.items() if is_wanted(v)}
        twin.ops = [_copy_operator(op, twin, by_old) for op in block.ops if is_kept(op)]
    _copy_fields(program, made, by_old)
    return made


def _copy_fields(program: Program, made: Program, twins: dict[int, Block]) -> None:
    known = made.global_block().vars
    made.name, made.origin, made.streams = program.name, program.origin, program.streams
    made.random_seed = program.random_seed
    made.rng_step = program.rng_step if program.rng_step in known else ""
    made.attributes = copy_value(program.attributes, twins)
    made.lr_schedulers = {name: s for name, s in program.lr_schedulers.items() if name in known}


def copy_variable(variable: Variable, block: Block) -> Variable:
    """The same variable in another block."""
    made = copy.copy(variable)
    made.block = block
    if isinstance(made, Parameter):
        made.optimize_attr = dict(made.optimize_attr)
        made.regularizer = copy.deepcopy(made.regularizer)
    return made


def _copy_operator(op: Operator, block: Block, twins: dict[int, Block]) -> Operator:
    return Operator(
        block,
        op.type,
        {slot: list(names) for slot, names in op.inputs.items()},
        {slot: list(names) for slot, names in op.outputs.items()},
        {k: v if isinstance(v, _ATOMS) else copy_value(v, twins) for k, v in op.attrs.items()},
        op.site,
    )


def copy_value(value: Any, twins: dict[int, Block]) -> Any:
    """A copy of an attribute's value; Blocks become their twins."""
    if isinstance(value, _ATOMS):
        return value
    if isinstance(value, Block):
        return twins[value.idx]
    if isinstance(value, list | tuple):
        items = [copy_value(v, twins) for v in value]
        return items if isinstance(value, list) else tuple(items)
    if isinstance(value, dict):
        return {key: copy_value(v, twins) for key, v in value.items()}
    return value.copy() if isinstance(value, np.ndarray) else copy.deepcopy(value)
