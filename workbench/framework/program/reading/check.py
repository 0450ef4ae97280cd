"""Is a program well formed? Run after building and, in tests, after every pass.

`problems` lists everything that is wrong, in words; `check_program` raises if there is anything. A program
that passes can be run as far as the program itself goes; only data can still fail.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from workbench.errors import EnforceNotMet, InvalidArgument, did_you_mean, one_of
from workbench.framework.names import EMPTY
from workbench.framework.op.record import OPS, Op, Slot, grad_slot, look_up
from workbench.framework.outside import is_from_outside
from workbench.framework.program.block import Block
from workbench.framework.program.infer import infer_specs
from workbench.framework.program.operator import Operator
from workbench.framework.program.program import Program
from workbench.framework.program.reading.order import order_problems
from workbench.framework.program.roles import BACKWARD, ROLE, ROLE_VAR
from workbench.framework.program.variable import Variable
from workbench.framework.values.constants import plain
from workbench.framework.values.spec import Spec, agree


def check_program(program: Program) -> None:
    """Raise unless the program is well formed.

    Raises:
        InvalidArgument: listing every problem.
    """
    faults = problems(program)
    if faults:
        count = "a problem" if len(faults) == 1 else f"{len(faults)} problems"
        raise InvalidArgument(f"{program!r} has {count}:\n" + "\n".join(f"- {text}" for text in faults))


def problems(program: Program) -> list[str]:
    """What is wrong with a program, one text per problem, [] if nothing is."""
    faults = list(_tree(program))
    if faults:
        return faults  # without a sound tree of blocks names cannot be looked up
    for block in program.blocks:
        for key, variable in block.vars.items():
            faults.extend(_variable(block, key, variable))
        faults.extend(_block_inputs(block))
        for op in block.ops:
            faults.extend(f"{operator_label(op)}: {text}" for text in _operator(op))
    faults.extend(_counter(program))
    faults.extend(order_problems(program))
    return faults


def _counter(program: Program) -> Iterator[str]:
    variable = program.global_block().vars.get(program.rng_step)
    if variable is not None and (variable.shape != (1,) or variable.dtype.name != "int64"):
        yield f"the step counter {program.rng_step!r} is declared as {variable.spec}; expected int64[1]"


def operator_label(op: Operator) -> str:
    """Type, block and the user's line of an operator."""
    return f"op {op.type!r} in block {op.block.idx}" + (f" ({op.site})" if op.site else "")


# Blocks and variables


def _tree(program: Program) -> Iterator[str]:
    for index, block in enumerate(program.blocks):
        if block.idx != index:
            yield f"block {index} has the number {block.idx}"
        if block.program is not program:
            yield f"block {index} belongs to another program"
        if not (block.parent_idx == -1 if index == 0 else 0 <= block.parent_idx < index):
            yield f"block {index} has the parent {block.parent_idx}; expected one before it (-1 for block 0)"
        for op in block.ops:
            if op.block is not block:
                yield f"op {op.type!r} stands in block {index} but belongs to another one"
    if not program.blocks:
        yield "there is no block"


def _variable(block: Block, key: str, variable: Variable) -> Iterator[str]:
    label = f"variable {key!r} of block {block.idx}"
    if variable.name != key or variable.block is not block:
        yield f"{label} is {variable.name!r} of block {variable.block.idx}"
    if variable.persistable and block.idx > 0:
        yield f"{label} is persistable; persistable variables belong to block 0"
    if variable.persistable and variable.is_selected_rows() and variable.op is not None:
        yield f"{label} is persistable and a sparse gradient; scopes hold arrays, so fetch it instead"
    hidden = block.parent.find_var(key) if block.parent is not None else None
    if hidden is not None and (hidden.persistable or hidden.is_data):
        yield f"{label} hides {hidden!r}, so that the block cannot read it"
    bad = [dim for dim in variable.shape if not isinstance(dim, int) or dim < -1]
    if bad:
        yield f"{label} has the dimension {bad[0]!r}; expected an int >= 0, or -1 for unknown"
    elif variable.is_parameter and -1 in variable.shape:
        yield f"{label} is a parameter of unknown size, {variable.spec}"


def _block_inputs(block: Block) -> Iterator[str]:
    for name in block.inputs:
        if name not in block.vars:
            yield f"block {block.idx} is given a value for {name!r}, which it does not declare"


# Operators


def _operator(op: Operator) -> Iterator[str]:
    record = look_up(op.type)
    if record is None:
        yield f"there is no such op.{did_you_mean(op.type, OPS)}"
        return
    faults = [
        *_slots(op, "input", record.inputs, op.operands),
        *_slots(op, "output", record.outputs, op.outputs),
        *_purpose(op, record),
        *_attributes(op, record),
        *_role(op),
    ]
    yield from faults
    if not faults:
        yield from _outputs(op, record)


def _slots(op: Operator, what: str, slots: tuple[Slot, ...], given: Mapping[str, list[str]]) -> Iterator[str]:
    known = {slot.name: slot for slot in slots}
    for name in given:
        if name not in known:
            yield f"there is no {what} {name!r}; there is {one_of(known)}"
    for slot in slots:
        yield from _slot(op, what, slot, given.get(slot.name))


def _purpose(op: Operator, record: Op) -> Iterator[str]:
    if record.outputs and not op.output_arg_names and not op.blocks():
        yield f"it writes nothing; its outputs are {', '.join(slot.name for slot in record.outputs)}"


def _slot(op: Operator, what: str, slot: Slot, names: list[str] | None) -> Iterator[str]:
    if names is None:
        if what == "input" and not slot.optional:
            yield f"the {what} {slot.name} is missing"
        return
    if not isinstance(names, list) or not all(isinstance(n, str) for n in names):
        yield f"the {what} {slot.name} is not a list of names but {names!r}"
        return
    if len(names) != 1 and not slot.is_list:
        yield f"the {what} {slot.name} takes one variable, got {len(names)}"
    for name in names:
        if name == EMPTY:
            if what == "input" and not (slot.optional or slot.is_list):
                yield f"the {what} {slot.name} is empty"
        elif op.block.find_var(name) is None:
            hint = did_you_mean(name, op.block.vars)
            yield f"the {what} {slot.name} names {name!r}, which is not declared.{hint}"
    if what == "output" and len(set(names) - {EMPTY}) < len([n for n in names if n != EMPTY]):
        yield f"the {what} {slot.name} names one variable twice"


def _attributes(op: Operator, record: Op) -> Iterator[str]:
    for key, default in record.attrs.items():
        if key not in op.attrs:
            yield f"the attribute {key!r} is missing"
        elif not _fits(op.attrs[key], default):
            got = op.attrs[key]
            yield f"the attribute {key!r} is of type {_type(default)}, got {_type(got)} {got!r}"
    for key, value in op.attrs.items():
        if key not in record.attrs and key not in (ROLE, ROLE_VAR):
            yield f"there is no attribute {key!r}.{did_you_mean(key, record.attrs)}"
        if isinstance(value, Block):
            yield from _sub_block(op, key, value)


def _sub_block(op: Operator, key: str, block: Block) -> Iterator[str]:
    blocks = op.block.program.blocks
    if block.idx >= len(blocks) or blocks[block.idx] is not block:
        yield f"the attribute {key!r} holds a block of another program"
        return
    homes = [op.block]
    if op.role & BACKWARD:  # of an operator in a gradient block: its blocks are beside it, inside the forward block
        homes.append(op.block.parent or op.block)
    around = block.parent
    while around is not None and around not in homes:
        around = around.parent
    if around is None:
        yield f"the attribute {key!r} holds block {block.idx}, which is not inside block {op.block.idx}"


def _type(value: Any) -> str:
    return type(plain(value)).__name__


def _fits(value: Any, default: Any) -> bool:
    """Whether a value has the type of the default; None stands for any type, an int or bool will do for a float."""
    value = plain(value)
    if default is None or type(value) is type(default):
        return True
    if isinstance(default, list | tuple):
        return isinstance(value, list | tuple | np.ndarray)
    return isinstance(default, float) and isinstance(value, int)


def _role(op: Operator) -> Iterator[str]:
    if ROLE not in op.attrs:
        yield "the attribute 'op_role' is missing"
    elif not isinstance(op.attrs[ROLE], int) or op.attrs[ROLE] < 0:
        yield f"op_role is an int >= 0, got {op.attrs[ROLE]!r}"
    names = op.attrs.get(ROLE_VAR) or []
    if len(names) % 2:
        yield f"op_role_var lists pairs of parameter and gradient, got {len(names)} names"
    for name in names if not op.is_served else ():
        if op.block.find_var(name) is None:
            yield f"op_role_var names {name!r}, which is not declared"


def _outputs(op: Operator, record: Op) -> list[str]:
    """Compare what the op's rule says of its outputs with their declarations."""
    if EMPTY in op.input_arg_names:
        return []  # rules are not asked about gradients that do not exist
    try:
        specs = infer_specs(record, op.block, op.inputs, op.call_attrs(), op.site)
        return list(_compare(op, record, specs))
    except EnforceNotMet as error:
        return ["; ".join(line.strip() for line in str(error).splitlines())]
    except Exception as error:
        if is_from_outside(error):
            raise
        # The rule stumbles over an attribute it did not expect.
        return [f"its shape rule fails with {type(error).__name__}: {error}"]


def _compare(op: Operator, record: Op, specs: tuple[Any, ...]) -> Iterator[str]:
    for slot, spec in zip(record.outputs, specs):
        names = op.outputs.get(slot.name)
        if names is None:
            continue
        if spec is None:
            yield from _gradient_of_nothing(op, record, slot, names)
            continue
        inferred_specs = spec if isinstance(spec, list) else [spec]
        if len(inferred_specs) != len(names):
            yield f"the output {slot.name} has {len(inferred_specs)} values, got {len(names)} names"
        for name, inferred in zip(names, inferred_specs):
            yield from _declaration(op, slot, name, inferred)


def _gradient_of_nothing(op: Operator, record: Op, slot: Slot, names: Sequence[str]) -> Iterator[str]:
    """A backward op has nothing to write for an optional input of its op that is not there."""
    receivers = record.forward_of.inputs if record.forward_of is not None else ()
    absent = {grad_slot(s.name): s.name for s in receivers if s.optional and not op.operands.get(s.name)}
    if slot.name in absent and any(name != EMPTY for name in names):
        yield f"the output {slot.name} is the gradient of {absent[slot.name]}, which is not given"


def _declaration(op: Operator, slot: Slot, name: str, inferred: Spec | None) -> Iterator[str]:
    variable = op.block.find_var(name) if name != EMPTY else None
    if variable is None or inferred is None:
        return
    if not agree(variable.spec, inferred):
        yield f"the output {slot.name} is {name!r}, declared as {variable.spec}, but the op makes {inferred}"
