"""Copying the blocks of programs (rules P-20 … P-24). Time grows with the size of the program, not faster.

A copy shares nothing but names with its original, and learning-rate schedulers, which belong to the
learning-rate variable of that name wherever it is used. Streams of random ops are kept: a copy draws the same
numbers.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from workbench.framework.names import EMPTY
from workbench.framework.program.block import Block
from workbench.framework.program.operator import Operator
from workbench.framework.program.roles import BACKWARD, LOSS_GRAD, LR_SCHED, OPTIMIZE
from workbench.framework.program.variable import Parameter, Variable
from workbench.framework.values.spec import STACK

IS_TEST = "is_test"
SAVE, SAVED_SUFFIX = "save", "_saved"  # attributes with which control flow is asked to keep values for its gradient
_TRAINING = BACKWARD | OPTIMIZE | LR_SCHED
Kept = Callable[[Operator], bool]
_ATOMS = (bool, int, float, str, type(None))


def is_trained(blocks: Iterable[Block]) -> bool:
    """Whether a program has a backward."""
    return any(op.role == LOSS_GRAD for block in blocks for op in block.ops)


def is_evaluated(op: Operator) -> bool:
    """Whether an operator is part of an evaluation: not of the backward and not of the updates."""
    return not op.role & _TRAINING


def set_is_test(blocks: Iterable[Block]) -> None:
    """Have every operator that can compute as in an evaluation do so."""
    for block in blocks:
        for op in block.ops:
            if IS_TEST in op.attrs:
                op.attrs[IS_TEST] = True


def blocks_run(blocks: Sequence[Block], is_kept: Kept) -> list[Block]:
    """The global block, the blocks that kept operators run and those around them, in order."""
    indices = {0}
    waiting = [blocks[0]]
    while waiting:
        for op in waiting.pop().ops:
            for inner in op.blocks() if is_kept(op) else ():
                while inner.idx not in indices:
                    indices.add(inner.idx)
                    waiting.append(inner)
                    inner = inner.parent or blocks[0]
    return [blocks[i] for i in sorted(indices)]


def draws(blocks: Iterable[Block], is_kept: Kept) -> bool:
    """Whether some kept operator draws random numbers."""
    return any("rng" in op.record.needs for block in blocks for op in block.ops if is_kept(op))


def named_variables(blocks: Iterable[Block], is_kept: Kept, also: Iterable[Variable]) -> Callable[[Variable], bool]:
    """Tells the variables to keep with the kept operators: what these name, and `also`."""
    wanted = {id(v) for v in also}
    dropped: set[int] = set()
    for block in blocks:
        for op in block.ops:
            (wanted if is_kept(op) else dropped).update(map(id, _named(op)))

    def is_wanted(variable: Variable) -> bool:
        # Blocks are given values by name, so there what nothing names may still be used.
        return id(variable) in wanted or (variable.block.idx > 0 and id(variable) not in dropped)

    return is_wanted


def _named(op: Operator) -> list[Variable]:
    """The variables that an operator reads or writes."""
    variables = (op.block.find_var(name) for name in (*op.input_arg_names, *op.output_arg_names) if name != EMPTY)
    return [variable for variable in variables if variable is not None]


def forget_unread_saves(blocks: Sequence[Block]) -> None:
    """Take back what `append_backward` asked of control flow, where nothing reads it any more (P-22)."""
    ops = [op for block in blocks for op in block.ops]
    read = {name for op in ops for name in op.input_arg_names}
    for op in ops:
        saves = [name for name in op.output_arg_names if _is_stack(op.block, name)]
        if saves and read.isdisjoint(saves):
            asked = (k for k in op.record.attrs if k == SAVE or k.endswith(SAVED_SUFFIX))
            op.attrs.update({k: op.record.attrs[k] for k in asked})


def _is_stack(block: Block, name: str) -> bool:
    variable = block.find_var(name)
    return variable is not None and variable.kind == STACK


def copy_blocks(
    blocks: Sequence[Block], home: Block, is_kept: Kept, is_wanted: Callable[[Variable], bool]
) -> dict[int, Block]:
    """Copies of blocks, with some of their operators and variables, by the index of the original.

    Args:
        blocks: the global block first, then others, each behind the one around it.
        home: the empty global block of another program. It becomes the copy of the first; the others are new.
    """
    copied_blocks = {blocks[0].idx: home}
    for number, block in enumerate(blocks[1:], start=1):
        copied_blocks[block.idx] = Block(home.program, number, copied_blocks[block.parent_idx].idx)
    for block in blocks:
        copied = copied_blocks[block.idx]
        copied.inputs = list(block.inputs)
        copied.vars = {name: copy_variable(v, copied) for name, v in block.vars.items() if is_wanted(v)}
        copied.ops = [_copy_operator(op, copied, copied_blocks) for op in block.ops if is_kept(op)]
    return copied_blocks


def copy_variable(variable: Variable, block: Block) -> Variable:
    """The same variable in another block."""
    copied = _copy_fields(variable)
    copied.block = block
    if isinstance(copied, Parameter):
        copied.optimize_attr = dict(copied.optimize_attr)
        copied.regularizer = copy.deepcopy(copied.regularizer)
    return copied


def _copy_fields(variable: Variable) -> Variable:
    """A shallow copy; what `copy.copy` takes apart and puts together costs as much as checking the program."""
    kind = type(variable)
    if kind is not Variable and kind is not Parameter:
        return copy.copy(variable)
    copied = object.__new__(kind)
    for name in (*Variable.__slots__, *(Parameter.__slots__ if kind is Parameter else ())):
        setattr(copied, name, getattr(variable, name))
    return copied


def _copy_operator(op: Operator, block: Block, copied_blocks: dict[int, Block]) -> Operator:
    return Operator(
        block,
        op.type,
        {slot: list(names) for slot, names in op.inputs.items()},
        {slot: list(names) for slot, names in op.outputs.items()},
        {k: v if isinstance(v, _ATOMS) else copy_value(v, copied_blocks) for k, v in op.attrs.items()},
        op.site,
    )


def copy_value(value: Any, copied_blocks: dict[int, Block]) -> Any:
    """A copy of an attribute's value; Blocks become their copies."""
    if isinstance(value, _ATOMS):
        return value
    if isinstance(value, Block):
        return copied_blocks[value.idx]
    if isinstance(value, list | tuple):
        items = [copy_value(v, copied_blocks) for v in value]
        return items if isinstance(value, list) else tuple(items)
    if isinstance(value, dict):
        return {key: copy_value(v, copied_blocks) for key, v in value.items()}
    return value.copy() if isinstance(value, np.ndarray) else copy.deepcopy(value)
