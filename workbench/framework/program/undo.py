"""Building is all or nothing: what a failing layer or `minimize` has appended is taken back."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from typing import Any

from workbench.framework.program.block import Block
from workbench.framework.program.program import Program


@contextmanager
def unchanged_on_error(*programs: Program) -> Iterator[None]:
    """If the `with` body raises, drop the operators, variables and blocks it appended to `programs`.

    Only additions at the end are taken back, and name counters stay where they are (names may skip a number).
    """
    marks = [_Mark(program) for program in programs]
    try:
        yield
    except BaseException:
        for mark in marks:
            mark.restore()
        raise


@contextmanager
def restored_on_error(*programs: Program) -> Iterator[None]:
    """If the `with` body raises, `programs` are as they were, whatever it inserted, removed, renamed or rewired.

    Name counters stay where they are. Keeps a copy of what is kept of every operator and variable.
    """
    kept = [_Copy(program) for program in programs]
    try:
        yield
    except BaseException:
        for one in kept:
            one.restore()
        raise


class _Mark:
    """How long a program was. Costs one entry per block, whatever the size of the blocks."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.blocks = [(block, len(block.ops), len(block.vars)) for block in program.blocks]
        self.current, self.streams, self.rng_step = program._current, program.streams, program.rng_step

    def restore(self) -> None:
        program = self.program
        del program.blocks[len(self.blocks) :]
        for block, n_ops, n_vars in self.blocks:
            del block.ops[n_ops:]
            _drop_newest(block, len(block.vars) - n_vars)
        program._current, program.streams, program.rng_step = self.current, self.streams, self.rng_step
        program.touch()


def _drop_newest(block: Block, count: int) -> None:
    for name in list(islice(reversed(block.vars), max(count, 0))):
        del block.vars[name]


_REWRITTEN = ("name", "shape", "dtype", "kind", "_persistable", "stop_gradient")  # fields of a Variable


class _Copy:
    """What a program was made of."""

    def __init__(self, program: Program) -> None:
        self.mark, self.schedulers = _Mark(program), dict(program.lr_schedulers)
        self.attributes = _copied(program.attributes)
        self.blocks = [
            (block, list(block.ops), dict(block.vars), list(block.inputs), block.parent_idx) for block in program.blocks
        ]
        self.ops = [
            (op, _copied(op.inputs), _copied(op.outputs), _copied(op.attrs))
            for block in program.blocks
            for op in block.ops
        ]
        self.vars = [
            (variable, [getattr(variable, field) for field in _REWRITTEN])
            for block in program.blocks
            for variable in block.vars.values()
        ]

    def restore(self) -> None:
        program = self.mark.program
        program.blocks[:] = [block for block, *_ in self.blocks]
        for block, ops, variables, inputs, parent_idx in self.blocks:
            block.ops, block.vars, block.inputs, block.parent_idx = ops, variables, inputs, parent_idx
        for op, read, wrote, attrs in self.ops:
            op.inputs, op.outputs, op.attrs = read, wrote, attrs
        for variable, values in self.vars:
            for field, value in zip(_REWRITTEN, values, strict=True):
                setattr(variable, field, value)
        program.attributes, program.lr_schedulers = self.attributes, self.schedulers
        self.mark.restore()


def _copied(given: dict[str, Any]) -> dict[str, Any]:
    """A dict, with dicts and lists in it of its own."""
    return {key: value.copy() if isinstance(value, dict | list) else value for key, value in given.items()}
