"""What one thread runs in one phase of a step: pieces of tapes, and rows in Python between them."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from workbench.executors.lowering.operands import Call, DeviceWork
from workbench.executors.lowering.tape.segment import Segment
from workbench.executors.planning.plan import Row
from workbench.executors.workers.task import Task
from workbench.graph.ssa import Node


class PythonRow(NamedTuple):
    """A row that runs in Python: flags to wait for, its calls, flags to raise.

    Attributes:
        span: rows of unknown sizes that the calls run, of which it is the first; else none.
    """

    row: Row
    waits: list[Call]
    calls: list[Call]
    raised: list[Call]
    span: Sequence[Row] = ()

    @property
    def is_native(self) -> bool:
        """Whether kernels run it after all: a piece of a tape, apart so that one can look between them, or a device."""
        pieces = bool(self.calls) and all(isinstance(call, Segment) for call in self.calls)
        return pieces or any(isinstance(call, DeviceWork) for call in self.calls)


class ThreadProgram:
    """What one thread runs in one phase of the step: a task, and which row each of its calls belongs to."""

    def __init__(self) -> None:
        self.units: list[PythonRow | Segment] = []
        self.ends: list[int] = []
        self.task = Task([])

    def add(self, unit: PythonRow | Segment) -> None:
        self.task.calls += [unit] if isinstance(unit, Segment) else [*unit.waits, *unit.calls, *unit.raised]
        self.units.append(unit)
        self.ends.append(len(self.task.calls))
        self.task.piece = unit if isinstance(unit, Segment) and len(self.units) == 1 else None

    @property
    def is_native(self) -> bool:
        """Whether nothing of it runs in Python."""
        return all(isinstance(unit, Segment) and not unit.tape.desks for unit in self.units)

    def rewind(self) -> None:
        """After a step that failed: pieces of tapes begin at their first row again."""
        for call in self.task.calls:
            if isinstance(call, Segment):
                call.rewind()

    def row_of(self, call: int) -> Row:
        """The row a call belongs to; of a piece of a tape the one it is at."""
        return self.units[bisect_right(self.ends, call)].row

    def current_row(self) -> Row:
        """The row that is running now."""
        return self.row_of(max(self.task.done - 1, 0))

    def failed_row(self) -> Row | None:
        """The row whose call raised in the last run."""
        return self.row_of(self.task.done - 1) if self.task.done and not self.task.complete else None


def in_python(programs: Iterable[ThreadProgram]) -> set[Node]:
    """The nodes whose rows have no native form."""
    units = [unit for program in programs for unit in program.units]
    rows = [
        row for unit in units if isinstance(unit, PythonRow) and not unit.is_native for row in (unit.row, *unit.span)
    ]
    return {row.node for row in rows}
