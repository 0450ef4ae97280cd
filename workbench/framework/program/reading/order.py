"""Every value is written before it is read; what is read first comes from outside, what is written first is made."""

from __future__ import annotations

from collections.abc import Iterator

from workbench.framework.names import EMPTY
from workbench.framework.op.record import OPS
from workbench.framework.program.block import Block
from workbench.framework.program.operator import Operator
from workbench.framework.program.program import Program
from workbench.framework.program.variable import Variable


def order_problems(program: Program) -> Iterator[str]:
    """The reads of variables that nothing can have written by then.

    Persistable variables live in the scope and data is fed; all others have to be written by an operator
    before, in the block or around it, or be given to the block by the operator that runs it.
    """
    yield from _Walk().block(program.global_block())


def feeds_of(block: Block) -> dict[str, Operator]:
    """The data that operators of a block read before one has written it, each with its first reader."""
    feeds: dict[str, Operator] = {}
    written: set[str] = set()
    for op in block.ops:
        for name in op.value_names if op.type in OPS else op.input_arg_names:
            if name in block.vars and block.vars[name].is_data and name not in written:
                feeds.setdefault(name, op)
        written.update(op.output_arg_names)
    return feeds


def written_first(block: Block) -> frozenset[str]:
    """Names that operators of a block write before any of them reads them."""
    seen: set[str] = set()
    written: list[str] = []
    for op in block.ops:
        seen.update(op.input_arg_names)
        written.extend(name for name in op.output_arg_names if name not in seen)
        seen.update(op.output_arg_names)
    return frozenset(written)


def is_startup(program: Program) -> bool:
    """Whether a program takes nothing from outside and leaves persistable variables behind, or has nothing to do."""
    block = program.global_block()
    if not block.ops:
        return True
    written: set[str] = set()
    for op in block.ops:
        if not written.issuperset(op.input_arg_names):
            return False
        written.update(op.output_arg_names)
    return any(name in written and variable.persistable for name, variable in block.vars.items())


class _Walk:
    """Goes through the program in the order it runs; each block is entered where it is first run."""

    def __init__(self) -> None:
        self.written: set[int] = set()
        self.entered: set[int] = set()

    def block(self, block: Block) -> Iterator[str]:
        if block.idx in self.entered:
            return
        self.entered.add(block.idx)
        self.written.update(id(block.vars[name]) for name in block.inputs if name in block.vars)
        for op in block.ops:
            yield from self.operator(op)

    def operator(self, op: Operator) -> Iterator[str]:
        for name in op.value_names if op.type in OPS else op.input_arg_names:
            variable = op.block.find_var(name) if name != EMPTY else None
            if variable is not None and not self.has_value(variable):
                place = f" ({op.site})" if op.site else ""
                label = f"op {op.type!r} in block {op.block.idx}{place}"
                yield f"{label}: reads {name!r} before anything writes it"
                self.written.add(id(variable))  # one report per variable
        for inner in op.blocks():
            yield from self.block(inner)
        self.written.update(id(op.block.find_var(name)) for name in op.output_arg_names)

    def has_value(self, variable: Variable) -> bool:
        return variable.persistable or variable.is_data or id(variable) in self.written
