"""A binding whose sizes are open: its tapes are written once, as formulas, and filled in for every shape.

For new sizes the conditions under which the rules took their decisions are looked at, all at once, and words are worked
out likewise. Rows that need their sizes (`open_tape`), and those that run in Python, are lowered for every shape.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

import numpy as np

from workbench.executors.failures import Explained
from workbench.executors.lowering.binding import Binding, Ground, bind
from workbench.executors.lowering.meta import MetaMemory
from workbench.executors.lowering.open_tape import NUMBERS, MetaValues, OpenLowering, OpenTape
from workbench.executors.lowering.operands import Scratch
from workbench.executors.lowering.programs import RowLowering
from workbench.executors.lowering.tape.segment import Segment
from workbench.executors.lowering.thread_program import PythonRow, ThreadProgram, in_python
from workbench.executors.planning.open_plan import Filled, OpenPlan
from workbench.executors.planning.plan import Given, Row
from workbench.executors.planning.sizes.formulas import Formulas
from workbench.executors.planning.sizes.size import number_of
from workbench.executors.planning.sizes.unknowns import Unsettled
from workbench.graph.ssa import Node
from workbench.runtime.device import DeviceMemory
from workbench.runtime.native.tape import Tape, address


class OpenBinding:
    """Makes bindings for all shapes for which one plan is right.

    Args:
        plan: is closed here.
        ground: what it is bound to.

    Raises:
        Unsettled: something has to be known. Fixed: some dimensions have to be what they are.
    """

    def __init__(self, plan: OpenPlan, ground: Ground) -> None:
        form, self._plan, self._ground = plan.plan, plan, ground
        plan.sizes.require_open()
        arenas: Any = {place: MetaMemory() for place in range(form.graph.devices)}
        values = MetaValues(form, arenas, ground.reductions, ground.reads.arrays, {})
        lowering = ground.lowering(form, values, {}, OpenLowering)
        assert isinstance(lowering, OpenLowering)
        self._lowering, self._apart = lowering, not form.memory_options.reuse
        lowering.begin(plan.sizes)
        self._speculative = lowering.programs(form.rows, with_waits=True, apart=self._apart)
        self._commit = lowering.programs(form.commit, with_waits=False, apart=self._apart)
        self._writes = ground.writes(form, values)
        self._storage = ground.storage(self._writes)
        plan.sizes.require_open()
        ends = {thread: list(dict.fromkeys(scratch.ends)) for thread, scratch in lowering.scratches.items()}
        plan.close([end for own in ends.values() for end in own])
        self._scratch_ends = {thread: len(own) for thread, own in ends.items()}
        self._tapes = lowering.tapes
        self._words = Formulas(plan.sizes, [n for tape in self._tapes for n in (*tape.words, *tape.numbers)])
        self._tape_of = {id(tape): n for n, tape in enumerate(lowering.tapes)}
        pieces = form.memory.storage.pieces
        self._places = [(unknown, pieces[piece].place) for unknown, piece in plan.addresses.items()]

    @property
    def in_python(self) -> set[Node]:
        """The nodes that no kernels run: what has no form for all sizes may have kernels for each of them."""
        return in_python((*self._speculative, *self._commit))

    def is_current(self) -> bool:
        """Whether the scopes still hold the storage this is bound to."""
        return self._storage.is_current()

    def try_fill(self, given: Given) -> Filled | None:
        """The plan for these feeds; None if this is not right for them."""
        return self._plan.fill(given)

    def bind(
        self,
        filled: Filled,
        arenas: Mapping[int, DeviceMemory],
        scratch: dict[int, Scratch],
        weights: Sequence[float],
    ) -> Binding:
        """A plan that was filled in on memory.

        Args:
            weights: see `ground_of`.

        Raises:
            Unsettled: a row does not run in kernels for these sizes, where it does for others.
        """

        def programs(lowering: RowLowering) -> tuple[list[ThreadProgram], list[ThreadProgram]]:
            unknowns = self._addresses(filled, arenas, scratch)
            lowering.take(self._lowering.flags, self._lowering.calls_blas)
            tapes = [FilledTape(form, unknowns) for form in self._tapes]
            numbers, begin = self._words(unknowns), 0
            for tape in tapes:
                begin = tape.write(numbers, begin, lowering, filled.plan.row)
            first, last = (
                [self._program(lowering, filled, program, thread, tapes) for thread, program in enumerate(phase)]
                for phase in (self._speculative, self._commit)
            )
            return first, last

        return bind(filled.plan, replace(self._ground, weights=weights), arenas, scratch, programs, self._writes)

    def _addresses(
        self, filled: Filled, arenas: Mapping[int, DeviceMemory], scratch: dict[int, Scratch]
    ) -> list[int]:  # fmt: skip
        """All unknowns, with memory where it is."""
        unknowns = list(filled.unknowns)
        begins = {place: address(arena.array(0, (0,), np.uint8)) for place, arena in arenas.items()}
        for unknown, place in self._places:
            unknowns[unknown] += begins[place]
        ends = iter(filled.more)
        for thread, count in self._scratch_ends.items():
            room = scratch.setdefault(thread, Scratch())
            room.restart()
            begin = room((max(islice(ends, count), default=0),), np.uint8)
            unknowns[number_of(self._lowering.scratches[thread].begin)] = address(begin)
        return unknowns

    def _program(
        self, lowering: RowLowering, filled: Filled, form: ThreadProgram, thread: int, tapes: Sequence[FilledTape]
    ) -> ThreadProgram:
        def segment(piece: Any) -> Segment:
            assert isinstance(piece, Segment)
            tape = tapes[self._tape_of[id(piece.tape)]]
            return piece.on(tape.tape, address(tape.tape.words), lowering.by_numpy, filled.plan.row, tape.moved)

        program = ThreadProgram()
        for unit in form.units:
            if isinstance(unit, Segment):
                program.add(segment(unit))
                continue
            row = filled.plan.row(unit.row.node)
            if unit.span:
                span = [filled.plan.row(each.node) for each in unit.span]
                calls = lowering.calls_of_span(span, thread)
                program.add(PythonRow(row, unit.waits, calls, unit.raised, span))
                continue
            with Explained(row.node, filled.plan.graph, filled.plan.shapes.specs):
                calls = [segment(call) for call in unit.calls] or lowering.calls_in_python(row, thread)
            program.add(PythonRow(row, unit.waits, calls, unit.raised))
        return program


class FilledTape:
    """A tape with its words.

    Args:
        form: with gaps. unknowns: of sizes and addresses; where its numbers are is noted there.

    Attributes:
        tape: complete once it is written.
    """

    def __init__(self, form: OpenTape, unknowns: list[int]) -> None:
        self._form, self.tape = form, Tape(form.kernels)
        self.tape.kept = [*form.kept]
        raw = np.empty(64 * len(form.numbers) + 64, np.uint8)
        start = -address(raw) % 64
        lines = self.tape.keep(raw)[start : start + 64 * len(form.numbers)].reshape(-1, 64)
        self._numbers = [lines.view(dtype)[:, place] for dtype, place in NUMBERS.items()]
        unknowns[number_of(form.begin)] = address(raw) + start
        self._gaps = [gap.at for gap in form.gaps]
        self._longer = [0]  # by how many words what lies behind so many gaps is moved

    def write(self, numbers: np.ndarray, begin: int, lowering: RowLowering, row: Callable[[Node], Row]) -> int:
        """Write words and numbers, which are there from a place on.

        Args:
            lowering: writes what fills the gaps. row: the rows of the plan.

        Returns:
            the place behind them.
        """
        form = self._form
        middle = begin + len(form)
        end = middle + len(form.numbers)
        for copies in self._numbers:
            copies[:] = numbers[middle:end]
        filled, pieces, behind = numbers[begin:middle], [], 0
        for gap in form.gaps:
            pieces += [filled[behind : gap.at], self._written(row(gap.node), lowering)]
            self._longer.append(self._longer[-1] + len(pieces[-1]) - 1)
            behind = gap.at + 1
        self.tape.words = self.tape.keep(np.concatenate([*pieces, filled[behind:]]) if pieces else filled)
        return end

    def moved(self, words: list[int]) -> list[int]:
        """Where words of the form are."""
        if not self._gaps:
            return words
        return [word + self._longer[bisect_left(self._gaps, word)] for word in words]

    def _written(self, row: Row, lowering: RowLowering) -> np.ndarray:
        alone = Tape(self._form.kernels)
        if not lowering.written(row, self._form.thread, alone):
            raise Unsettled(f"{row.node} does not run in kernels for these sizes")
        self.tape.kept += alone.kept
        self.tape.growing += alone.growing
        self.tape.desks += alone.desks
        return np.array(alone.words, np.int64)
