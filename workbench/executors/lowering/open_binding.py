"""A binding whose sizes are open: its tapes are written once, as formulas, and filled in for every shape.

Rules of the tape run on arrays without memory (`meta`); words that depend on sizes or addresses become `Size`s. For new
sizes the conditions under which the rules took their decisions are looked at, all at once, and words are worked out
likewise. Only what runs in kernels from end to end is lowered so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from workbench.executors.lowering.binding import Binding, Ground, bind
from workbench.executors.lowering.bound_values import BoundValues
from workbench.executors.lowering.meta import MetaArray, MetaMemory, MetaScratch
from workbench.executors.lowering.operands import Scratch
from workbench.executors.lowering.programs import RowLowering
from workbench.executors.lowering.tape.segment import NativeFlag, Segment
from workbench.executors.lowering.tape.writer import TapeWriter
from workbench.executors.lowering.thread_program import ThreadProgram
from workbench.executors.planning.open_plan import Filled, OpenPlan
from workbench.executors.planning.plan import Given, Row
from workbench.executors.planning.sizes import Formulas, Number, Size, Sizes, Turn, Unsettled, at
from workbench.graph.ssa import Node, Value
from workbench.runtime.device import DeviceMemory
from workbench.runtime.native.image import Kernels
from workbench.runtime.native.tape import Tape, address


class OpenTape(Tape):
    """A tape whose words may be `Size`s.

    Attributes:
        numbers: those that are in memory, float32, from the address `begin` on, a cache line apart.
    """

    def __init__(self, kernels: Kernels, sizes: Sizes) -> None:
        super().__init__(kernels)
        self.words = []
        self.numbers: list[Number] = []
        self.begin = sizes.address(64, Turn())

    def number(self, x: Any) -> Any:
        self.numbers.append(x)
        return MetaArray(self.begin + 64 * (len(self.numbers) - 1), (1,), (4,), np.float32)

    def table(self) -> int:
        """It is nowhere yet."""
        return 0


class _OpenWriter(TapeWriter):
    def add(self, row: Row, waits: Sequence[NativeFlag] = (), raised: Sequence[NativeFlag] = ()) -> bool:
        if not super().add(row, waits, raised):
            raise Unsettled(f"{row.node} does not run in kernels")
        return True


class _OpenLowering(RowLowering):
    """Writes tapes whose words may be `Size`s, and nothing else."""

    sizes: Sizes
    tapes: list[OpenTape]
    scratches: dict[int, MetaScratch]

    def begin(self, sizes: Sizes) -> None:
        self.sizes, self.tapes, self.scratches = sizes, [], {}

    def _scratch_of(self, thread: int) -> Any:
        return self.scratches.setdefault(thread, MetaScratch(self.sizes))

    def _writer(self, thread: int, apart: bool) -> TapeWriter:
        assert self._pool.control is not None
        self.tapes.append(OpenTape(self._pool.control.kernels, self.sizes))
        scratch = self._scratch_of(thread)
        return _OpenWriter(self._pool, self._context, scratch, self.by_numpy, not apart, self.tapes[-1])


class _MetaValues(BoundValues):
    """Arrays without memory, those of the scope too."""

    __slots__ = ()

    def array(self, value: Value) -> Any:
        found: Any = super().array(value)
        if type(found) is MetaArray:
            return found
        return MetaArray(address(found), found.shape, found.strides, found.dtype)


class OpenBinding:
    """Makes bindings for all shapes for which one plan is right.

    Args:
        plan: is closed here.
        ground: what it is bound to.

    Raises:
        Unsettled: it is no task for this: something is not known before the step runs, or runs in Python.
    """

    def __init__(self, plan: OpenPlan, ground: Ground) -> None:
        if ground.pool.control is None or ground.reads.objects or ground.unread:
            raise Unsettled("something travels as an object")
        form, self._plan, self._ground = plan.plan, plan, ground
        arenas: Any = {place: MetaMemory() for place in range(form.graph.devices)}
        values = _MetaValues(form, arenas, ground.reductions, ground.reads.arrays, {})
        lowering = ground.lowering(form, values, {}, _OpenLowering)
        assert isinstance(lowering, _OpenLowering)
        self._lowering = lowering
        lowering.begin(plan.sizes)
        apart = not form.memory_options.reuse
        self._speculative = lowering.programs(form.rows, with_waits=True, apart=apart)
        self._commit = lowering.programs(form.commit, with_waits=False, apart=apart)
        if values.cells or not all(program.is_native for program in (*self._speculative, *self._commit)):
            raise Unsettled("something travels as an object, or is looked at between rows")
        self._storage = ground.storage(ground.writes(form, values))
        plan.close()
        self._scratch_ends = {thread: list(scratch.ends) for thread, scratch in lowering.scratches.items()}
        self._words = [Formulas(plan.sizes, tape.words) for tape in lowering.tapes]
        self._tape_of = {id(tape): n for n, tape in enumerate(lowering.tapes)}
        self._pieces = form.memory.storage.pieces

    @property
    def sizes(self) -> Sizes:
        """What is open."""
        return self._plan.sizes

    @property
    def is_for_one_shape(self) -> bool:
        """Whether some number has to be equal to another."""
        return any(condition.kind == "=" and condition.holds for condition in self.sizes.conditions)

    def is_current(self) -> bool:
        """Whether the scopes still hold the storage this is bound to."""
        return self._storage.is_current()

    def try_fill(self, given: Given) -> Filled | None:
        """The plan for these feeds; None if this is not right for them."""
        return self._plan.fill(given)

    def bind(
        self, filled: Filled, arenas: Mapping[int, DeviceMemory], scratch: dict[int, Scratch]
    ) -> Binding:  # fmt: skip
        """A plan that was filled in on memory."""
        unknowns = self._addresses(filled, arenas, scratch)
        tapes = [self._tape(n, unknowns) for n in range(len(self._words))]

        def programs(lowering: RowLowering) -> tuple[list[ThreadProgram], list[ThreadProgram]]:
            lowering.take(self._lowering.flags, self._lowering.calls_blas)
            first, last = (
                [self._program(lowering, program, tapes) for program in phase]
                for phase in (self._speculative, self._commit)
            )
            return first, last

        return bind(filled.plan, self._ground, arenas, scratch, programs)

    def _addresses(
        self, filled: Filled, arenas: Mapping[int, DeviceMemory], scratch: dict[int, Scratch]
    ) -> list[int]:  # fmt: skip
        """All unknowns, with memory where it is."""
        unknowns = list(filled.unknowns)
        begins = {place: address(arena.array(0, (0,), np.uint8)) for place, arena in arenas.items()}
        for unknown, piece in self._plan.addresses.items():
            unknowns[unknown] += begins[self._pieces[piece].place]
        for thread, ends in self._scratch_ends.items():
            room = scratch.setdefault(thread, Scratch())
            room.restart()
            unknowns[_number_of(self._lowering.scratches[thread].begin)] = address(
                room((max([at(end, unknowns) for end in ends], default=0),), np.uint8)
            )
        return unknowns

    def _tape(self, n: int, unknowns: list[int]) -> Tape:
        """A tape with its words."""
        form = self._lowering.tapes[n]
        tape = Tape(form.kernels)
        tape.kept = [*form.kept]
        numbers = np.empty((len(form.numbers) + 1, 16), np.float32)
        numbers[:-1, 0] = [at(number, unknowns) for number in form.numbers]
        raw = np.empty(numbers.nbytes + 64, np.uint8)
        start = -address(raw) % 64
        raw[start : start + numbers.nbytes] = numbers.reshape(-1).view(np.uint8)
        unknowns[_number_of(form.begin)] = address(tape.keep(raw)) + start
        tape.words = tape.keep(self._words[n](unknowns))
        return tape

    def _program(self, lowering: RowLowering, form: ThreadProgram, tapes: Sequence[Tape]) -> ThreadProgram:
        def rows() -> Mapping[Node, Row]:
            return {row.node: row for row in (*lowering.plan.rows, *lowering.plan.commit)}

        program = ThreadProgram()
        for unit in form.units:
            assert isinstance(unit, Segment)
            tape = tapes[self._tape_of[id(unit.tape)]]
            program.add(unit.on(tape, address(tape.words), lowering.by_numpy, rows))
        return program


def _number_of(size: Size) -> int:
    """Of an unknown."""
    ((term, _),) = size.terms.items()
    return term[0]
