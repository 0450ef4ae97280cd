"""From the rows of a plan to what its threads run: pieces of tapes where there are kernels, calls where not."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from workbench.executors.failures import Explained
from workbench.executors.lowering.bound_values import BoundValues
from workbench.executors.lowering.numpy.fused_all_reduce_update import FusedReductions
from workbench.executors.lowering.numpy.lower import lower
from workbench.executors.lowering.operands import Call, Cell, Context, Scratch
from workbench.executors.lowering.spans import Span, SpanCall, find_spans
from workbench.executors.lowering.tape.flow.memory import handing_over
from workbench.executors.lowering.tape.segment import NativeFlag, Segment
from workbench.executors.lowering.tape.team import Helper, ThreadTeam
from workbench.executors.lowering.tape.writer import TapeWriter
from workbench.executors.lowering.thread_program import PythonRow, ThreadProgram
from workbench.executors.planning.plan import Plan, Row
from workbench.executors.planning.schedule import seconds
from workbench.executors.workers.pool import Flag, WorkerPool
from workbench.graph.ssa import Node, Uses
from workbench.runtime.native.tape import Tape

_SHORT = 5e-4  # seconds of a commit, as estimated: others would save less than it takes to have them do it undisturbed


class RowLowering:
    """Of one binding.

    Args:
        context: what rows are bound to.
        diverge: called with an update that a kernel has declined.
        scratch: memory for the temporaries of rows, by thread.

    Attributes:
        plan: whose rows they are.
        flags: those between its threads. calls_blas: whether kernels call the BLAS.
    """

    def __init__(
        self,
        plan: Plan,
        pool: WorkerPool,
        context: Context,
        values: BoundValues,
        reductions: FusedReductions,
        diverge: Callable[[Node], None],
        scratch: dict[int, Scratch],
    ) -> None:
        self.plan, self._pool, self._context, self._values = plan, pool, context, values
        self._reductions, self._diverge, self._scratch = reductions, diverge, scratch
        self._kept = {v for _, values in plan.fetches for v in values}.union(plan.staged, plan.feeds)
        self.flags: list[Flag | NativeFlag] = []
        self.calls_blas = False

    def programs(self, rows: Sequence[Row], with_waits: bool, apart: bool) -> list[ThreadProgram]:
        """One program per thread; a short commit has but one.

        Args:
            with_waits: threads wait for each other's results, as they do but for the commit.
            apart: every row is a call of its own, so that one can look between them.
        """
        threaded = with_waits or (_are_long(rows) and _independent(rows))
        count = 1 + max((row.thread for row in rows), default=0) if threaded else 1
        programs = [ThreadProgram() for _ in range(count)]
        writers = [self._writer(thread, apart) for thread in range(count)]
        team = self._team(writers, apart) if threaded else None
        if writers[0] is not None and count == 1 and not self._context.comm.computes_here:
            writers[0].overlap(Uses(self.plan.graph.nodes).readers_of)
        waits, raised = self._signals(rows, apart) if with_waits else ({}, {})
        spans = self._spans(rows, threaded, lambda row: apart or row.node in waits)
        for row in rows:
            thread = row.thread if threaded else 0
            awaited, announced = waits.get(row.node, []), raised.get(row.node, [])
            span = spans.get(row.node)
            if span is not None:
                if row is span[0]:
                    _cut(writers[thread], programs[thread])
                    up = [flag.up for each in span for flag in raised.get(each.node, [])]
                    calls = self.calls_of_span(span, thread)
                    programs[thread].add(PythonRow(row, [f.wait for f in awaited], calls, up, span))
                continue
            with Explained(row.node, self.plan.graph, self.plan.shapes.specs):
                if not _is_written(writers[thread], programs[thread], row, awaited, announced, apart):
                    calls = self.calls_in_python(row, thread)
                    programs[thread].add(PythonRow(row, [f.wait for f in awaited], calls, [f.up for f in announced]))
        for writer, program in zip(writers, programs, strict=True):
            if writer is not None:
                _cut(writer, program)
                writer.finish()
                self.calls_blas |= writer.calls_blas
        return [*programs, *(_program_of(segment) for segment in (team.segments(self.by_numpy) if team else ()))]

    @property
    def is_apart(self) -> bool:
        """Whether every row is a call of its own in any case."""
        return self._pool.control is None

    def anew(self) -> RowLowering:
        """What lowers the same rows once more: loops and branches of other programs keep what is theirs."""
        other = copy(self)
        other._context = replace(self._context, memories={})
        return other

    def on_host(self, rows: Sequence[Row]) -> list[ThreadProgram]:
        """The speculation with rows on the host that a device has declined; the kernels here see to that themselves."""
        raise NotImplementedError(f"no device has declined {rows}")

    def bring_home(self, arrays: Sequence[np.ndarray]) -> None:
        """Have on the host what a speculation has made: it is there."""

    def release(self, freed: dict[int, int]) -> None:
        """Give back the memory that control flow and stretches have of their own; adds the bytes, by device."""
        for place, held in self._context.held:
            freed[place] += held.release()
        if self._context.stretches is not None:
            self._context.stretches.release(freed)

    @property
    def holds_memory(self) -> bool:
        """Whether blocks of control flow have memory of their own."""
        return bool(self._context.held)

    @property
    def held_bytes(self) -> int:
        """Of the memory that they have just now."""
        return sum(held.nbytes for _, held in self._context.held)

    def calls_in_python(self, row: Row, thread: int) -> list[Call]:
        """What runs a row without a native form."""
        calls = lower(row, self._context)
        return [*self._handing_over(row), *calls, *self._letting_go(row)]

    def calls_of_span(self, span: Span, thread: int) -> list[Call]:
        """What runs rows of unknown sizes."""
        letting_go = [call for row in span for call in self._letting_go(row)]
        return [SpanCall(span, self._context, self._kept), *letting_go]

    def _spans(self, rows: Sequence[Row], threaded: bool, begins_anew: Callable[[Row], bool]) -> dict[Node, Span]:
        """Of every row in a span, that."""
        if self._pool.control is None or self._context.stretches is None:
            return {}
        by_thread: dict[int, list[Row]] = {}
        for row in rows:
            by_thread.setdefault(row.thread if threaded else 0, []).append(row)
        spans = [span for own in by_thread.values() for span in find_spans(own, begins_anew)]
        return {row.node: span for span in spans for row in span}

    def written(self, row: Row, thread: int, tape: Tape) -> bool:
        """Write one row alone to a tape; False if it has no native form."""
        assert self._pool.control is not None
        writer = TapeWriter(self._pool, self._context, self._scratch_of(thread), self.by_numpy, tape)
        is_native = writer.add(row)
        writer.cut()
        self.calls_blas |= writer.calls_blas
        return is_native

    def take(self, flags: Sequence[Flag | NativeFlag], calls_blas: bool) -> None:
        """Programs were filled in that another lowering has written, with these flags."""
        self.flags, self.calls_blas = list(flags), calls_blas

    def _writer(self, thread: int, apart: bool) -> TapeWriter | None:
        if self._pool.control is None:
            return None
        tape, scratch = self._tape(thread), self._scratch_of(thread)
        return TapeWriter(self._pool, self._context, scratch, self.by_numpy, tape, joined=not apart)

    def _tape(self, thread: int) -> Tape:
        """A new one of a thread."""
        assert self._pool.control is not None
        return Tape(self._pool.control.kernels)

    def _team(self, writers: Sequence[TapeWriter | None], apart: bool) -> ThreadTeam | None:
        """Those that share the work of the first thread, if that is planned: then there is no other."""
        shares, leader = self.plan.shares, writers[0]
        if apart or leader is None or shares.threads == 1:
            return None
        helpers = [Helper(self._tape(thread), self._scratch_of(thread)) for thread in range(1, shares.threads)]
        team = ThreadTeam(leader.tape, helpers, shares, self._pool, self._native_flag)
        leader.share_with(team)
        return team

    def _native_flag(self, what: str) -> NativeFlag:
        flag = NativeFlag(self._pool, what)
        self.flags.append(flag)
        return flag

    def _scratch_of(self, thread: int) -> Scratch:
        return self._scratch.setdefault(thread, Scratch())

    def by_numpy(self, row: Row) -> list[Call]:
        """What runs a row a kernel has declined."""
        calls = lower(row, self._context)
        return [*self._handing_over(row), *calls, partial(self._diverge, row.node)]

    def _handing_over(self, row: Row) -> list[Call]:
        """What control flow in kernels has kept, to one that runs in Python."""
        return handing_over(row, self._context)

    def _signals(self, rows: Sequence[Row], apart: bool) -> tuple[dict[Node, list[Any]], dict[Node, list[Any]]]:
        """Flags for every result that goes to another thread: who waits for them, and who raises them.

        Where somebody looks between the rows, those wait, too, that leave their work to updates.
        """
        run = {row.node for row in rows}
        waits: dict[Node, list[Any]] = {}
        raised: dict[Node, list[Any]] = {}
        for node, others in self.plan.waits_without(() if apart else self._reductions.collectives).items():
            for other in others:
                if node in run and other in run:
                    flag = self._flag(f"op {other.type!r} on {self.plan.graph.places[other.place]}")
                    self.flags.append(flag)
                    waits.setdefault(node, []).append(flag)
                    raised.setdefault(other, []).append(flag)
        return waits, raised

    def _flag(self, what: str) -> Flag | NativeFlag:
        return Flag(self._pool, what) if self._pool.control is None else NativeFlag(self._pool, what)

    def _letting_go(self, row: Row) -> list[Call]:
        """Objects nobody reads after this row."""
        cells = self._values.cells
        if not cells or not self.plan.memory_options.reuse:
            return []
        last = self.plan.last_reader
        dying = [
            cells[v] for v in row.node.reads if v in cells and last.get(v) is row.node and v not in self._kept
        ]  # fmt: skip
        return [partial(_let_go, dying)] if dying else []


def _is_written(
    writer: TapeWriter | None, program: ThreadProgram, row: Row, awaited: list[Any], announced: list[Any], apart: bool
) -> bool:
    """Whether kernels run a row; else the tape so far is one piece."""
    if writer is None:
        return False
    is_native = writer.add(row, awaited, announced)
    if not is_native:
        _cut(writer, program)
    elif apart and (segment := writer.cut()) is not None:
        program.add(PythonRow(row, [], [segment], []))
    return is_native


def _program_of(segment: Segment) -> ThreadProgram:
    program = ThreadProgram()
    program.add(segment)
    return program


def _cut(writer: TapeWriter | None, program: ThreadProgram) -> None:
    """The tape so far is one piece."""
    segment = None if writer is None else writer.cut()
    if segment is not None:
        program.add(segment)


def _let_go(cells: list[Cell]) -> None:
    for cell in cells:
        cell.value = None


def _are_long(rows: Sequence[Row]) -> bool:
    return sum(seconds(row.cost) for row in rows) > _SHORT


def _independent(rows: Sequence[Row]) -> bool:
    """Whether rows of different threads neither read nor write what another one writes."""
    owner: dict[tuple[str, int], int] = {}
    for row in rows:
        for value in row.node.writes:
            if owner.setdefault((value.name, value.place), row.thread) != row.thread:
                return False
    return all(owner.get((v.name, v.place), row.thread) == row.thread for row in rows for v in row.node.reads)
