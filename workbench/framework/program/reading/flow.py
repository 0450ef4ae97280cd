"""What an operator reads and writes outside the blocks it runs."""

from __future__ import annotations

from workbench.framework.names import EMPTY
from workbench.framework.program.block import Block
from workbench.framework.program.operator import Operator
from workbench.framework.program.variable import Variable


def reads(op: Operator) -> list[Variable]:
    """The variables an operator reads, those captured by its blocks included."""
    return _resolve(op.block, op.input_arg_names) + [v for v, written in _captures(op) if not written]


def writes(op: Operator) -> list[Variable]:
    """The variables an operator writes, those its blocks write outside themselves included."""
    return _resolve(op.block, op.output_arg_names) + [v for v, written in _captures(op) if written]


def _resolve(block: Block, names: list[str]) -> list[Variable]:
    variables = (block.find_var(name) for name in names if name != EMPTY)
    return [variable for variable in variables if variable is not None]


def _captures(op: Operator) -> list[tuple[Variable, bool]]:
    """Variables from around the operator that its blocks use, and whether they are written."""
    captures = []
    inside = _blocks_inside(op)
    for block in inside.values():
        for inner in block.ops:
            for names, written in ((inner.input_arg_names, False), (inner.output_arg_names, True)):
                captures += [(v, written) for v in _resolve(block, names) if _is_around(v.block, op)]
    return captures


def _is_around(block: Block, op: Operator) -> bool:
    """Whether an operator sees a block's variables."""
    around: Block | None = op.block
    while around is not None:
        if around is block:
            return True
        around = around.parent
    return False


def _blocks_inside(op: Operator) -> dict[int, Block]:
    inside: dict[int, Block] = {}
    waiting = op.blocks()
    while waiting:
        block = waiting.pop()
        if block.idx not in inside:
            inside[block.idx] = block
            waiting.extend(inner for o in block.ops for inner in o.blocks())
    return inside
