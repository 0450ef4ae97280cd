"""Tapes that are written once for all sizes, as formulas; with gaps for the rows that have to know their sizes.

Rules of the tape run on arrays without memory (`meta`); words that depend on sizes or addresses become `Size`s. What a
rule cannot do without looking at a size - tables of a convolution - leaves a gap, which the same rule fills for every
shape.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from workbench.executors.lowering.bound_values import BoundValues
from workbench.executors.lowering.meta import MetaArray, MetaScratch
from workbench.executors.lowering.operands import Call, Cell
from workbench.executors.lowering.programs import RowLowering
from workbench.executors.lowering.rows_memory import OpenRowsCell
from workbench.executors.lowering.spans import Span
from workbench.executors.lowering.tape.registry import Rule
from workbench.executors.lowering.tape.segment import NativeFlag
from workbench.executors.lowering.tape.writer import TapeWriter
from workbench.executors.planning.plan import Row
from workbench.executors.planning.sizes.size import Sizes
from workbench.executors.planning.sizes.unknowns import Equal, Number, Turn, Unsettled
from workbench.framework.values.spec import ROWS
from workbench.graph.ssa import Node, Value
from workbench.runtime.native.image import Kernels
from workbench.runtime.native.tape import Tape, address


class Gap(NamedTuple):
    """Where one word stands for a row of the plan that is written when sizes are known."""

    at: int
    node: Node


NUMBERS: dict[np.dtype[Any], int] = {np.dtype(np.float32): 0, np.dtype(np.float64): 1}
"""A number is in memory as each of these: where in its cache line, in elements."""


class OpenTape(Tape):
    """A tape whose words may be `Size`s.

    Attributes:
        numbers: those that are in memory from the address `begin` on, a cache line apart, see `NUMBERS`.
        gaps: in order. thread: whose tape it is.
    """

    def __init__(self, kernels: Kernels, sizes: Sizes, thread: int) -> None:
        super().__init__(kernels)
        self.words = []
        self.numbers: list[Number] = []
        self.begin = sizes.address(64, Turn())
        self.gaps: list[Gap] = []
        self.thread = thread

    def number(self, x: Any, dtype: Any = np.float32) -> Any:
        self.numbers.append(x)
        kind = np.dtype(dtype)
        at = 64 * (len(self.numbers) - 1) + NUMBERS[kind] * kind.itemsize
        return MetaArray(self.begin + at, (1,), (kind.itemsize,), kind)

    def leave_gap(self, node: Node) -> None:
        """For a row of the plan."""
        self.gaps.append(Gap(len(self), node))
        self.words.append(0)

    def table(self) -> int:
        """It is nowhere yet."""
        return 0


class _OpenWriter(TapeWriter):
    """Leaves gaps where sizes have to be known."""

    tape: OpenTape
    scratches: dict[int, MetaScratch]  # of all threads
    sizes: Sizes

    def add(self, row: Row, waits: Sequence[NativeFlag] = (), raised: Sequence[NativeFlag] = ()) -> bool:
        before, decided, sizes = self._state(), self.sizes.decided, self.sizes
        numbers, ends = len(self.tape.numbers), [(scratch, len(scratch.ends)) for scratch in self.scratches.values()]
        try:
            is_written = super().add(row, waits, raised)
            if len(sizes.had_to_be_known) == decided.known:
                return is_written
        except Equal:
            raise
        except Unsettled:
            pass
        self._restore(before)
        del self.tape.numbers[numbers:]
        for scratch, count in ends:
            del scratch.ends[count:]
        sizes.go_back(decided)
        self._leave_gap(row, waits, raised)
        return True

    def _grows(self, rule: Rule) -> bool:
        return False  # what a rule has written may have to be taken back

    def _leave_gap(self, row: Row, waits: Sequence[NativeFlag], raised: Sequence[NativeFlag]) -> None:
        self._flush()
        for flag in waits:
            self.tape.row("wait", flag.array, self._control.array)
        self._join_team()
        self._rows.append(row)
        self.tape.leave_gap(row.node)
        self._flush()
        for flag in raised:
            self.tape.row("signal", flag.array, self._control.array)
        self._begin = len(self.tape)
        self._safepoint(row)


class OpenLowering(RowLowering):
    """Writes tapes whose words may be `Size`s; what runs in Python is left to the lowering for a shape.

    Attributes:
        sizes: what is open. tapes, scratches: what it has written, and the temporaries of each thread.
    """

    sizes: Sizes
    tapes: list[OpenTape]
    scratches: dict[int, MetaScratch]

    def begin(self, sizes: Sizes) -> None:
        """Write formulas of these."""
        self.sizes, self.tapes, self.scratches = sizes, [], {}
        self._context.weights = _NoWeights()

    def calls_in_python(self, row: Row, thread: int) -> list[Call]:
        """Nothing yet."""
        return []

    def calls_of_span(self, span: Span, thread: int) -> list[Call]:
        """Nothing yet."""
        return []

    def _scratch_of(self, thread: int) -> Any:
        return self.scratches.setdefault(thread, MetaScratch(self.sizes))

    def _writer(self, thread: int, apart: bool) -> TapeWriter:
        tape, scratch = self._tape(thread), self._scratch_of(thread)
        writer = _OpenWriter(self._pool, self._context, scratch, self.by_numpy, tape, not apart)
        writer.sizes, writer.scratches = self.sizes, self.scratches
        return writer

    def _tape(self, thread: int) -> OpenTape:
        assert self._pool.control is not None
        self.tapes.append(OpenTape(self._pool.control.kernels, self.sizes, thread))
        return self.tapes[-1]


class _NoWeights(Sequence[float]):
    """The devices' shares of the batch: they depend on the shapes of the feeds."""

    def __len__(self) -> int:
        return 0

    def __getitem__(self, place: Any) -> Any:
        raise Unsettled("a device's share of the batch has to be known")


class MetaValues(BoundValues):
    """Arrays without memory, those of the scope too."""

    __slots__ = ()

    def array(self, value: Value) -> Any:
        array: Any = super().array(value)
        if type(array) is MetaArray:
            return array
        return MetaArray(address(array), array.shape, array.strides, array.dtype)

    def _new_cell(self, value: Value) -> Cell:
        return OpenRowsCell() if value.spec.kind == ROWS else super()._new_cell(value)
