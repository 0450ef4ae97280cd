"""What the program of a server says: whose gradients it takes, and which of its blocks update what with them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from workbench.errors import InvalidArgument
from workbench.framework.program.block import Block
from workbench.framework.program.operator import Operator
from workbench.framework.program.program import Program
from workbench.framework.program.roles import ROLE, ROLE_VAR
from workbench.framework.values.spec import ROWS, Spec
from workbench.ops.index.embedding import LOOKUP_TABLE
from workbench.ops.math.reductions.accumulate import INCREMENT
from workbench.parallel.transpiler.server_mode.fingerprint import ATTRIBUTE as FINGERPRINT

SYNC, ASYNC, HALF_ASYNC, GEO = range(4)
LR_COUNTER = "@LR_DECAY_COUNTER@"
TRAINER_ID = "@TRAINER_ID@"  # in a block that corrects late gradients: whose gradient it is (T-12)
_OF_TRAINER = ".trainer_"
ROW_NUMBERS, ROW_VALUES = "@ROWS", "@VALUES"  # of a sparse gradient, in messages and as feeds


@dataclass(frozen=True)
class Duty:
    """What a server is there for, read from its `listen_and_serv`.

    Attributes:
        endpoint: where it listens. trainers: how many there are.
        mode: what `listen_and_serv` names: SYNC, ASYNC, HALF_ASYNC or GEO.
        adds_up: steps are those of all trainers, whose gradients are added up; else each gradient is applied as it
            comes.
        blocks: of each gradient, by its name without a trainer's suffix, the block it is for.
        schedule: the block of the learning rate, None without a schedule.
        tables: of each sparse gradient the parameter.
        arrivals: the names that trainers push.
        rates: learning rates that schedulers of trainers set.
        fingerprint: of the program that was cut into parts for trainers and servers; "" where nobody knows.
    """

    program: Program
    endpoint: str
    trainers: int
    mode: int
    adds_up: bool
    blocks: dict[str, Block]
    schedule: Block | None
    tables: dict[str, str]
    arrivals: frozenset[str]
    rates: frozenset[str]
    fingerprint: str = ""

    def gradient_of(self, name: str) -> str:
        """The gradient that a trainer calls so: with or without its own suffix (T-4, T-5).

        Raises:
            InvalidArgument: the server has none of that name.
        """
        gradient = name.rpartition(_OF_TRAINER)[0] if name not in self.blocks and _OF_TRAINER in name else name
        if gradient not in self.blocks:
            known = ", ".join(sorted(self.blocks)[:8])
            raise InvalidArgument(f"no gradient {name[:200]!r} lives at {self.endpoint}; those that do: {known}")
        return gradient

    def incoming(self, gradient: str, trainer: int) -> str:
        """The variable in which the block of a gradient finds the part of one trainer."""
        own = f"{gradient}{_OF_TRAINER}{trainer}"
        return own if self.adds_up and _reads(self.blocks[gradient], own) else gradient

    def spec_of(self, gradient: str) -> Spec:
        """Shape and dtype of a gradient: those of the parameter, or the block of one, that it is for."""
        variable = self.blocks[gradient].find_var(self.parameter(gradient))
        assert variable is not None
        return variable.spec

    def parameter(self, gradient: str) -> str:
        """What a gradient is for."""
        return self.tables.get(gradient) or _parameter(self.blocks[gradient], gradient)

    def persistables(self) -> list[str]:
        """What the server keeps from step to step; what is pushed to it is not."""
        pushed = {*self.blocks, *self.arrivals}
        return [variable.name for variable in self.program.persistables() if variable.name not in pushed]


def duty_of(program: Program, op: Operator) -> Duty:
    """What the operator that serves asks for.

    Raises:
        InvalidArgument: a block that is not there, or a gradient without one.
    """
    attrs = op.attrs
    listed: list[Block] = list(attrs["optimize_blocks"])
    by_number = {block.idx: block for block in program.blocks}
    blocks, tables = {}, {}
    for pair in attrs["grad_to_block_id"]:
        gradient, _, number = pair.rpartition(":")
        if not number.isdecimal() or int(number) not in by_number:
            raise InvalidArgument(f"grad_to_block_id {pair!r}: the program has blocks {sorted(by_number)}")
        blocks[gradient] = by_number[int(number)]
    for pair in attrs["sparse_grad_to_param"]:
        gradient, _, parameter = pair.rpartition(":")
        tables[gradient] = parameter
    schedule = by_number.get(attrs["lr_decay_block_id"]) if attrs["lr_decay_block_id"] > 0 else None
    if not blocks and not listed:
        raise InvalidArgument(f"server {attrs['endpoint']} has no parameter; use as many servers as there are blocks")
    return Duty(
        program,
        attrs["endpoint"],
        attrs["Fanin"],
        int(attrs["distributed_mode"]),
        _adds_up(op, blocks, schedule),
        blocks,
        schedule,
        tables,
        frozenset(op.input("X")),
        frozenset(program.lr_schedulers),
        program.attributes.get(FINGERPRINT, ""),
    )


def _adds_up(op: Operator, blocks: Iterable[str], schedule: Block | None) -> bool:
    """Whether a step takes the gradients of all trainers: where it does, they come under the names of the trainers.

    One trainer's gradients bear no name of it; there, what counts is who counts the steps.
    """
    if op.attr("Fanin") > 1:
        return any(f"{gradient}{_OF_TRAINER}0" in op.input("X") for gradient in blocks)
    counts = schedule is not None and any(one.record is INCREMENT for one in schedule.ops)
    return counts or op.attr("distributed_mode") == SYNC


def _reads(block: Block, name: str) -> bool:
    return any(name in op.input_arg_names for op in block.ops)


def _parameter(block: Block, gradient: str) -> str:
    """What a gradient is for: the persistable variable that the last operator that has one writes.

    A block may be for several gradients, as clipping by their global norm has it: then of the operators whose roles
    name this one.
    """
    own = [op for op in block.ops if any(_is_of(told, gradient) for _, told in op.role_vars)]
    for op in reversed(own or block.ops):
        for name in op.output_arg_names:
            variable = block.find_var(name)
            if variable is not None and variable.persistable and name != gradient:
                return name
    raise InvalidArgument(f"the block of gradient {gradient!r} updates no parameter")


def _is_of(told: str, gradient: str) -> bool:
    """Whether trainers call a gradient so."""
    return told == gradient or told.startswith(gradient + _OF_TRAINER)


def updates(
    duty: Duty, blocks: Sequence[Block], given: Iterable[str], sparse: Sequence[str], kept: Iterable[str]
) -> Program:
    """A program of some of a server's blocks, one after the other, that runs like any other.

    What trainers push is in persistable variables, but for sparse gradients, whose rows are fed; what is made of it on
    the way to an update stays nowhere, so that one pass over the memory can do all of it.

    Args:
        blocks: in the order they run. given: names of dense gradients. sparse: gradients that come as rows.
        kept: names written here that other blocks read when they run for themselves.
    """
    program, stays = Program(), {*given, *kept, *duty.persistables()}
    program.random_seed = duty.program.random_seed
    for gradient in sparse:
        _add_rows(program, duty, gradient, stays)
    for block in blocks:
        for op in block.ops:
            if duty.adds_up and LR_COUNTER in op.output_arg_names:
                _count(program, op, stays)
            elif not op.output_arg_names or not {*sparse}.issuperset(op.output_arg_names):
                _add(program, op, stays)  # the sum and the mean of rows are there already
    return program


def _add(program: Program, op: Operator, stays: set[str]) -> None:
    here = program.global_block()
    for name in (*op.input_arg_names, *op.output_arg_names):
        _declare(program, op.block, name, stays)
    attrs = {name: value for name, value in op.attrs.items() if name != ROLE_VAR}  # it names variables of trainers
    here.ops.append(Operator(here, op.type, dict(op.inputs), dict(op.outputs), attrs, op.site))


def _count(program: Program, op: Operator, stays: set[str]) -> None:
    """One step more: of all trainers together, also where each of them tells of its own, which `op` adds up."""
    here = program.global_block()
    _declare(program, op.block, LR_COUNTER, stays)
    attrs = INCREMENT.complete({"step": 1.0}) | {ROLE: op.role}
    here.ops.append(Operator(here, INCREMENT.type, {"X": [LR_COUNTER]}, {"Out": [LR_COUNTER]}, attrs, op.site))


def _declare(program: Program, block: Block, name: str, stays: set[str]) -> None:
    here, variable = program.global_block(), block.find_var(name)
    if name not in here.vars and variable is not None:
        here.create_var(name, variable.shape, variable.dtype, variable.kind, persistable=name in stays)


def _add_rows(program: Program, duty: Duty, gradient: str, stays: set[str]) -> None:
    """Make a sparse gradient of what is fed."""
    here, table, spec = program.global_block(), duty.tables[gradient], duty.spec_of(gradient)
    _declare(program, duty.blocks[gradient], table, stays)
    numbers = here.create_var(gradient + ROW_NUMBERS, [-1], "int64", is_data=True)
    values = here.create_var(gradient + ROW_VALUES, [-1, *spec.shape[1:]], spec.dtype, is_data=True)
    here.create_var(gradient, spec.shape, spec.dtype, ROWS)
    ins: dict[str, Any] = {"W": table, "Ids": numbers, "Out@GRAD": values}
    here.append_op(LOOKUP_TABLE.grad_type, ins, {"W@GRAD": gradient}, {"is_sparse": True})
