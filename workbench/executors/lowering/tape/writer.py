"""The *tape* lowering: rows of a plan become rows of a table that compiled kernels work through.

What has no native form stays a NumPy call and cuts the tape in two. The rules, which kernels an op takes, are noted in
`registry`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from workbench.executors.lowering.operands import Call, Context, Scratch, objects_of
from workbench.executors.lowering.tape.registry import (
    OBJECTS,
    Rule,
    rules_of,
    takes_sparse,
    writes_once,
)
from workbench.executors.lowering.tape.segment import Mark, NativeFlag, Segment
from workbench.executors.lowering.tape.team import LateRow, ThreadTeam
from workbench.executors.lowering.tape.vector_code import Unsuitable, VectorCode, dtype_for
from workbench.executors.planning.plan import Row
from workbench.executors.planning.schedule import seconds
from workbench.executors.workers.pool import WorkerPool
from workbench.framework.expr.lowered import Lowered, Unlowerable
from workbench.framework.values.spec import ROWS
from workbench.graph.ssa import Node, Value
from workbench.runtime.comm.sum_row import SumRow
from workbench.runtime.footprint import OutOfBounds, kernel_for
from workbench.runtime.native.blas import gemm_address
from workbench.runtime.native.tape import Tape
from workbench.runtime.words.window import SLOTS

LOOK_UP = 2e-3  # estimated seconds between moments at which Ctrl-C is answered


class OpenSum(NamedTuple):
    """A sum over processes to which this one has contributed, and of which it has not taken the result."""

    row: Row
    sum: SumRow


class _State(NamedTuple):
    """What a row that turns out to have no native form must leave as it was."""

    words: int
    pending: VectorCode | None
    rows: list[Row]
    marks: int
    begin: int
    room: tuple[int, int]
    since_look_up: float
    team: Any
    held: int
    open_sums: tuple[OpenSum, ...]


def _can_be_written(row: Row) -> bool:
    """Whether the rule of a row can do without the arrays of what travels as an object."""
    node = row.node
    return node.type in OBJECTS or all(v.spec.kind == ROWS and takes_sparse(node) for v in objects_of(row))


class TapeWriter:
    """Writes the tape of one thread, piece by piece.

    Args:
        pool: whose thread it is.
        scratch: memory rows share.
        by_numpy: the calls that do a row with NumPy.
        tape: what it writes to.
        joined: element-wise ops that follow each other become one row.

    Attributes:
        context: what rows are bound to.
        calls_blas: whether some row may call the BLAS.
        takes_integers: whether element-wise work may be on integers.
        images: what does convolutions and pooling in place of the kernels of the tape; None: they do.
    """

    takes_integers = False
    images: Any = None

    def __init__(
        self,
        pool: WorkerPool,
        context: Context,
        scratch: Scratch,
        by_numpy: Callable[[Row], Sequence[Call]],
        tape: Tape,
        joined: bool = True,
    ) -> None:
        assert pool.control is not None
        self.pool, self.context, self.scratch, self.joined = pool, context, scratch, joined
        self._by_numpy, self._control = by_numpy, pool.control
        self.tape = tape
        self.calls_blas = False
        self._team: ThreadTeam | None = None
        self._segments: list[Segment] = []
        self._marks: list[Mark] = []
        self._rows: list[Row] = []  # whose mark is not set yet
        self._begin = 0  # where it will be
        self._vector: VectorCode | None = None
        self._own = False  # whether the current row is part of it
        self._may_grow = False  # whether it is added to where it is, for nothing has to be taken back
        self._is_on_stand_ins = False  # whether the current row works on copies of operands
        self._since_look_up = 0.0
        self._readers: Callable[[Value], Sequence[Node]] | None = None
        self._open_sums: list[OpenSum] = []

    def overlap(self, readers: Callable[[Value], Sequence[Node]]) -> None:
        """From now on sums over processes go on beside the rows behind them, up to the one that reads the result.

        All rows are of this thread, so that what is handed in first is taken first.

        Args:
            readers: who reads a value.
        """
        self._readers = readers

    def share_with(self, team: ThreadTeam) -> None:
        """From now on others do blocks of its rows."""
        self._team = team

    def add(self, row: Row, waits: Sequence[NativeFlag] = (), raised: Sequence[NativeFlag] = ()) -> bool:
        """Write a row of the plan; False, and nothing written, if it has no native form."""
        rules = rules_of(row.node) if row.node.writes else []
        if not rules or not _can_be_written(row):
            return False
        before = self._state()
        if self._open_sums:
            self._take_those_of(row)
        if self._team is not None and self._team.late:
            self._finish_those_of(row)
        if waits:
            self._flush()
        for flag in waits:
            self.tape.row("wait", flag.array, self._control.array)
        self._rows.append(row)
        if not any(self._writes(rule, row) for rule in rules):
            self._restore(before)
            return False
        if raised or not self.joined or self._vector is None:
            self._flush()
        for flag in raised:
            self.tape.row("signal", flag.array, self._control.array)
        if not self._rows:
            self._begin = len(self.tape)
        self._safepoint(row)
        return True

    def _writes(self, rule: Rule, row: Row) -> bool:
        """Write a row by a rule; False, and nothing written, if that does not suit it."""
        before = self._state()
        self._own, self._may_grow = False, self._grows(rule)
        try:
            rule(self, row)
        except (Unsuitable, OutOfBounds, Unlowerable):
            self._restore(before)
            return False
        return True

    def on_stand_ins(self, rule: Rule, row: Row, stand_ins: Mapping[Value, np.ndarray]) -> None:
        """Write a row by a rule on other arrays than those of its operands, temporaries of the row."""
        own = self.context

        def array(value: Value) -> np.ndarray:
            stand_in = stand_ins.get(value)
            return own.array(value) if stand_in is None else stand_in

        self.context, self._is_on_stand_ins = replace(own, array=array), True
        try:
            rule(self, row)
        finally:
            self.context, self._is_on_stand_ins = own, False

    def _grows(self, rule: Rule) -> bool:
        """Whether element-wise work may be added to where it is: the rule writes once, and nothing if it cannot."""
        return writes_once(rule)

    def _state(self) -> _State:
        """What to go back to."""
        team = None if self._team is None else self._team.state
        return _State(
            len(self.tape), self._vector, list(self._rows), len(self._marks), self._begin, self.scratch.used,
            self._since_look_up, team, len(self.context.held), tuple(self._open_sums),
        )  # fmt: skip

    def _restore(self, state: _State) -> None:
        self.tape.truncate(state.words)
        del self._marks[state.marks :], self.context.held[state.held :]
        self._vector, self._rows, self._begin = state.pending, state.rows, state.begin
        self.scratch.used, self._since_look_up = state.room, state.since_look_up
        self._open_sums = list(state.open_sums)
        if self._team is not None:
            self._team.restore(state.team)

    def _safepoint(self, row: Row) -> None:
        self._since_look_up += seconds(row.cost)
        if self._since_look_up > LOOK_UP:
            self._flush()
            self.tape.row("look_up")
            self._begin, self._since_look_up = len(self.tape), 0.0

    # What rules call

    def row(self, kernel: str, *arguments: Any) -> None:
        """A row of the tape; what it points to is given as arrays, see `Tape.row`."""
        self._end_vector()
        if self._team is None:
            self.tape.row(kernel, *arguments)
        else:
            self._team.row(self._rows, kernel_for(kernel, arguments), arguments)

    def late_row(self, number: int, kernel: str, *arguments: Any) -> None:
        """A row that makes one result of the current row, all of it: others may do it while this thread goes on.

        Args:
            number: of the result's slot. arguments: it brings along no results of other rows that are temporaries.
        """
        self._end_vector()
        row = self._rows[-1]
        value = row.node.outputs[number]
        own = not self._is_on_stand_ins  # else the row works on temporaries
        if self._team is not None and own and self._team.may_be_late(row, value):
            self._team.leave(row, value, kernel_for(kernel, arguments), arguments)
        else:
            self.row(kernel, *arguments)

    def independent(self, kernel: str, rows: Sequence[Sequence[Any]]) -> None:
        """Rows of one kernel that may run at the same time, each with the memory for temporaries it is given or other.

        Args:
            rows: the arguments of each.
        """
        self._end_vector()
        if self._team is not None:
            self._team.independent(self._rows, kernel_for(kernel, rows[0]), rows)
            return
        for arguments in rows:
            self.tape.row(kernel, *arguments)

    def vector(self, form: Lowered, shape: tuple[int, ...], arrays: Sequence[Any], outs: Sequence[Any]) -> None:
        """Element-wise work on arrays of a shape, see `VectorCode.add`.

        Raises:
            Unsuitable: it has no native form; nothing has been written.
        """
        read = [a for i, a in enumerate(arrays) if i in form.read]
        dtype = dtype_for(form, [*read, *outs])
        if not self._joins(form, shape, dtype, arrays, outs):
            vector_code = VectorCode(shape, dtype)
            vector_code.add(form, arrays, outs)
            self._end_vector()
            self._vector = vector_code
        self._own = True

    def _joins(
        self, form: Lowered, shape: tuple[int, ...], dtype: np.dtype[Any], arrays: Sequence[Any], outs: Sequence[Any]
    ) -> bool:  # fmt: skip
        pending = self._vector
        if pending is None or not pending.accepts(shape, len(form.steps), dtype):
            return False
        if not self._may_grow:
            pending = pending.copy()
        try:
            pending.add(form, arrays, outs)
        except Unsuitable:
            return False
        self._vector = pending
        return True

    def exchange(self, row: Row, sum_row: SumRow) -> None:
        """A sum over processes, the current row."""
        overlaps = self._overlaps(row, sum_row)
        self.tape.keep(sum_row.label)
        current = self._rows.pop()
        while self._open_sums and not (overlaps and self._open_rounds + sum_row.rounds <= SLOTS):
            self._take(1)
        self._rows.append(current)
        if overlaps:
            self.row("hand_in", *sum_row.arguments(self._control.array, self._open_rounds))
            self._open_sums.append(OpenSum(row, sum_row))
        else:
            self.row("sum_processes", *sum_row.arguments(self._control.array))

    def _overlaps(self, row: Row, sum_row: SumRow) -> bool:
        """Whether a sum may go on beside other rows: its memory is its own until somebody reads it."""
        readers = self._readers
        if readers is None or not self.joined or sum_row.rounds > SLOTS or not sum_row.is_in_place:
            return False
        return all(readers(value) for value in row.node.writes)

    @property
    def _open_rounds(self) -> int:
        return sum(sum_row.rounds for _, sum_row in self._open_sums)

    def _take(self, count: int) -> None:
        """Write the rows that take the results of so many open sums, between the rows of the plan."""
        for row, sum_row in self._open_sums[:count]:
            self._flush()
            self._rows.append(row)
            self.row("sum_processes", *sum_row.arguments(self._control.array))
            self._flush()
        del self._open_sums[:count]

    def _take_those_of(self, row: Row) -> None:
        """Those whose results a row touches, and so all before them."""
        touched = {*row.node.reads, *row.node.writes}
        positions = [n for n, (other, _) in enumerate(self._open_sums) if not touched.isdisjoint(other.node.writes)]
        if positions:
            self._take(positions[-1] + 1)

    def _finish_those_of(self, row: Row) -> None:
        """The late results that a row touches, and those that are due."""
        assert self._team is not None
        late, due = self._team.late, self._team.due_at(row)
        touched = {*row.node.reads, *row.node.writes}
        self._finish([late_row for value, late_row in late.items() if value in touched or late_row.row.node is due])

    def _finish(self, late_rows: Sequence[LateRow]) -> None:
        """Have late results, given in the order they were left: helpers begin with the first ones."""
        for late in reversed(late_rows):
            self._flush()
            self._rows.append(late.row)
            assert self._team is not None
            self._team.finish(late)
            self._flush()

    def gemm(self, item: int) -> int:
        """The address of the BLAS's product of float32, or of float64, for a row that calls it.

        Args:
            item: bytes of an element.
        """
        address = gemm_address(item)
        if address is None:
            raise Unsuitable
        self.calls_blas = True
        return address

    def temporary(self, shape: Sequence[int], dtype: Any = np.float32) -> np.ndarray:
        """Memory for use until the end of the row of the plan."""
        return self.scratch(shape, dtype)

    # Pieces

    def _end_vector(self) -> None:
        """Write the element-wise work there is; if none of it is the current row's, that begins behind it."""
        if self._vector is not None and not self._own:
            current = self._rows.pop()
            self._set_mark()  # not more: the current row may have asked for memory already
            self._rows.append(current)
        self._emit_vector()

    def _emit_vector(self) -> None:
        pending, self._vector = self._vector, None
        if pending is None:
            return
        if self._team is None:
            pending.emit(self.tape, self._floats)
        else:
            self._team.vector(self._rows, pending, self._floats)

    def _floats(self, floats: Any) -> np.ndarray:
        return self.scratch((floats,), np.float32)

    def _flush(self) -> None:
        """End the row of the tape that is being put together; its memory is free again."""
        self._set_mark()
        self.scratch.restart()

    def _set_mark(self) -> None:
        self._emit_vector()
        if self._rows:
            self._marks.append(Mark(self._begin, tuple(self._rows)))
        self._rows, self._begin = [], len(self.tape)

    def _join_team(self) -> None:
        """Go on when the others have done what they share with this thread, and what was left to them."""
        if self._team is not None:
            self._team.join()
            self._finish(list(self._team.late.values()))

    def cut(self) -> Segment | None:
        """The piece since the last cut; None if there is nothing in it."""
        self._flush()
        self._take(len(self._open_sums))
        self._join_team()
        self._begin = len(self.tape)
        marks, self._marks = self._marks, []
        if not marks:
            return None
        segment = Segment(self.tape, marks, len(self.tape), self.pool, self._by_numpy)
        self._segments.append(segment)
        return segment

    def finish(self) -> None:
        """Now the tape is complete."""
        table = self.tape.table()
        for segment in self._segments:
            segment.settle(table)
