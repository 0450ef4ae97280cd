"""Recomputing: values between checkpoints are not kept for the backward pass, but computed once more in it.

The forward operators are cut into segments, each of which ends with a checkpoint. What a backward operator reads of a
segment it reads of a copy, made by copies of the segment's operators in front of the first backward operator that needs
one of them. The copies read checkpoints, feeds, persistable variables, and what several segments read (a mask, say):
that is kept, or its first reader would have everything computed again that it is made of. A random op draws the same
numbers again, for its copy has the same stream; so all gradients have the same bits. What comes after the last
checkpoint is needed at once, and is kept.

`program.attributes[AFTER]` says after which value each copy is made, for schedules that would make them early, when
they would only take memory (`graph.passes.recompute_late`).

Source: Chen et al., "Training Deep Nets with Sublinear Memory Cost", 2016.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from workbench.errors import InvalidArgument, InvalidType, NotFound, did_you_mean
from workbench.framework.names import EMPTY
from workbench.framework.program.block import Block
from workbench.framework.program.operator import Operator
from workbench.framework.program.roles import BACKWARD, LR_SCHED, OPTIMIZE, ROLE, ROLE_VAR
from workbench.framework.program.variable import Variable

SUFFIX = "@RECOMPUTED"
AFTER = "recomputed_after"


def checkpoint_names(block: Block, checkpoints: Sequence[Any]) -> list[str]:
    """The names of checkpoints, each once.

    Raises:
        InvalidType: neither Variables nor names. NotFound: a name the block does not have.
        InvalidArgument: no operator of the block computes it.
    """
    written = {name for op in block.ops for name in op.output_arg_names}
    names = []
    for given in checkpoints:
        if not isinstance(given, Variable | str):
            raise InvalidType(f"checkpoints are Variables or their names, got {given!r}")
        name = given if isinstance(given, str) else given.name
        if not block.has_var(name):
            raise NotFound(f"the checkpoint {name!r} is no variable of the program.{did_you_mean(name, block.vars)}")
        if name not in written:
            raise InvalidArgument(f"the checkpoint {name!r} is computed by no operator; it is there anyway")
        names.append(name)
    return list(dict.fromkeys(names))


def recompute_between(block: Block, begin: int, checkpoints: Sequence[str]) -> int:
    """Have the backward operators, from position `begin` on, read recomputed values instead of kept ones.

    Returns:
        how many operators were copied.
    """
    forward = [op for op in block.ops[:begin] if not op.role & (BACKWARD | OPTIMIZE | LR_SCHED)]
    segments, rest = _segments(forward, set(checkpoints))
    kept = set(checkpoints) | _shared([*segments, rest])
    return sum(_Recomputation(block, begin, forward, segment, kept).insert() for segment in reversed(segments))


def _segments(
    forward: Sequence[Operator], checkpoints: set[str]
) -> tuple[list[list[Operator]], list[Operator]]:  # fmt: skip
    """The operators up to each checkpoint, and those after the last one."""
    segments: list[list[Operator]] = [[]]
    for op in forward:
        segments[-1].append(op)
        if checkpoints.intersection(op.output_arg_names):
            segments.append([])
    return segments[:-1], segments[-1]


def _shared(parts: Sequence[Sequence[Operator]]) -> set[str]:
    """What is computed in one part and read in another."""
    home = {name: number for number, part in enumerate(parts) for op in part for name in op.output_arg_names}
    read = ((name, number) for number, part in enumerate(parts) for op in part for name in op.input_arg_names)
    return {name for name, number in read if home.get(name, number) != number}


class _Recomputation:
    """Of one segment."""

    def __init__(
        self, block: Block, begin: int, forward: Sequence[Operator], segment: Sequence[Operator], kept: set[str]
    ) -> None:
        self.block, self.begin, self.kept = block, begin, kept
        writes = Counter(name for op in forward for name in op.output_arg_names)
        self.again = {name for name, count in writes.items() if count > 1}  # these have several values
        self.ops = [op for op in segment if self._can_be_repeated(op)]
        self.own = {name for op in self.ops for name in op.output_arg_names if self._is_temporary(name)}

    def insert(self) -> int:
        """Put the copies in place; how many there are."""
        readers = [op for op in self.block.ops[self.begin :] if self.own.intersection(_values_read(op))]
        if not readers:
            return 0
        wanted = {name for op in readers for name in _values_read(op)} & self.own
        ops = self._needed(wanted)
        names = self._named(name for op in ops for name in op.output_arg_names if name in self.own)
        position = self.block.ops.index(readers[0])
        copies = [self._copy(op, names) for op in ops]
        for op in self.block.ops[position:]:
            _read_instead(op, names)
        self.block.ops[position:position] = copies
        self._note(copies, self.block.ops[position - 1])
        self.block.program.touch()
        return len(copies)

    def _can_be_repeated(self, op: Operator) -> bool:
        """Control flow is kept, and so is what reads a value that is overwritten later."""
        others = set(op.input_arg_names) - set(op.output_arg_names)
        return not op.blocks() and not others & self.again

    def _is_temporary(self, name: str) -> bool:
        variable = self.block.var_recursive(name)
        return not (variable.persistable or variable.is_data or name in self.kept or name in self.again)

    def _needed(self, wanted: Iterable[str]) -> list[Operator]:
        needed, last_first = set(wanted), []
        for op in reversed(self.ops):
            if needed.intersection(op.output_arg_names):
                last_first.append(op)
                needed.update(name for name in op.input_arg_names if name in self.own)
        return last_first[::-1]

    def _named(self, names: Iterable[str]) -> dict[str, str]:
        """A new variable for each."""
        fresh_of = {}
        for name in names:
            fresh, old = name + SUFFIX, self.block.var_recursive(name)
            while self.block.find_var(fresh) is not None:
                fresh = "grad/" + fresh
            self.block.add_var(Variable(self.block, fresh, old.shape, old.dtype, old.kind, stop_gradient=True))
            fresh_of[name] = fresh
        return fresh_of

    def _copy(self, op: Operator, names: dict[str, str]) -> Operator:
        inputs = {slot: [names.get(n, n) for n in given] for slot, given in op.inputs.items()}
        outputs = {slot: [names.get(n, EMPTY) for n in given] for slot, given in op.outputs.items()}
        attrs = {key: value for key, value in op.attrs.items() if key != ROLE_VAR} | {ROLE: BACKWARD}
        return Operator(self.block, op.type, inputs, outputs, attrs, op.site)

    def _note(self, copies: Sequence[Operator], before: Operator) -> None:
        """Which value the copies come after: a gradient that is there when the first of them is needed."""
        notes = self.block.program.attributes.setdefault(AFTER, {})
        notes.update({op.output_arg_names[0]: before.output_arg_names[0] for op in copies})


def _values_read(op: Operator) -> list[str]:
    """What an operator reads the value of, not only the shape."""
    shapes = op.record.shape_only
    return [name for slot, names in op.inputs.items() if slot not in shapes for name in names if name != EMPTY]


def _read_instead(op: Operator, names: dict[str, str]) -> None:
    """Read copies, for their shapes too: so nothing looks at what is not kept."""
    op.inputs = {slot: [names.get(name, name) for name in given] for slot, given in op.inputs.items()}
