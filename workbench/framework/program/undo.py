"""Building is all or nothing: what a failing layer or `minimize` has appended is taken back."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice

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
