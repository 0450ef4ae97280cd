"""When the rows of a step ran. The step that is stamped is the one that runs: the same pieces of tape, the same calls.

Pieces of tapes are told where to write their stamps, a ring per thread, and are walked as ever; between calls in Python
somebody looks at the clock. Afterwards the stamps are read as spans.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from time import perf_counter_ns

import numpy as np

from workbench.executors.lowering.binding import Binding
from workbench.executors.lowering.tape.segment import NativeFlag, Segment
from workbench.executors.lowering.thread_program import PythonRow, ThreadProgram
from workbench.executors.planning.plan import Row
from workbench.runtime.native.stamps import Ring, stamp_clock
from workbench.runtime.words.stamp import ROW, TIME

_SPARE = 64  # entries beyond one for every row and piece
_SHORTEST = 200  # ns: a look at a flag that is up is no wait
_OTHERS = ("the other threads",)


@dataclass(frozen=True)
class Span:
    """When rows ran that are one call, most often a single one; or when their thread waited.

    Attributes:
        start, end: in ns of `time.perf_counter_ns`.
        awaited: what it waited for before these rows, or behind them at the end of a phase; empty where they ran.
    """

    rows: tuple[Row, ...]
    thread: int
    start: int
    end: int
    awaited: tuple[str, ...] = ()


class Stamps:
    """The stamps of one binding.

    Args:
        phases: the programs of its speculation and of its commit, one per thread.

    Attributes:
        programs: by phase, what is run instead of them; those that are nothing but a piece of a tape are the same.
    """

    def __init__(self, binding: Binding, *phases: Sequence[ThreadProgram]) -> None:
        control = binding.pool.control
        flags = {flag.address: flag.what for flag in binding.lowering.flags if isinstance(flag, NativeFlag)}
        self._phases = [[_Stamped(program, flags) for program in phase] for phase in phases]
        self.programs = [[stamped.program for stamped in phase] for phase in self._phases]
        self._rings: list[Ring] = []
        if control is not None:
            self._clock = stamp_clock(control.kernels)
            threads = [[phase[n] for phase in self._phases if n < len(phase)] for n in range(max(map(len, phases)))]
            rows = [sum(stamped.rows for stamped in own) for own in threads]
            self._rings = [Ring(self._clock, count + _SPARE) for count in rows]
        units = [(n, unit) for phase in self._phases for n, stamped in enumerate(phase) for unit in stamped.units]
        self._pieces = [(unit.unit, self._rings[n].address) for n, unit in units if isinstance(unit, _Piece)]
        self._calls = [unit for _, unit in units if isinstance(unit, _Calls)]

    def begin(self) -> None:
        """The next step is stamped."""
        for ring in self._rings:
            ring.empty()
        for segment, ring_address in self._pieces:
            segment.stamp_into(ring_address)
        for calls in self._calls:
            calls.forget()

    def end(self) -> None:
        """Those that follow are not."""
        for segment, _ in self._pieces:
            segment.stamp_into(0)

    def spans(self) -> list[Span]:
        """When rows ran and threads waited, of those that have come to their end; by phase and thread, in order."""
        entries = [ring.entries() for ring in self._rings]
        for own in entries:
            own[:, TIME] = self._clock.nanoseconds(own[:, TIME])
        spans: list[Span] = []
        for phase in self._phases:
            threads = [
                [*stamped.spans(n, entries[n] if entries else None)] for n, stamped in enumerate(phase)
            ]  # fmt: skip
            spans += [span for own in _to_the_last(threads) for span in own]
        return spans


class _Stamped:
    """A thread's program in one phase of the step, with looks at the clock."""

    def __init__(self, program: ThreadProgram, flags: dict[int, str]) -> None:
        self.units = [
            _Piece(unit, flags) if isinstance(unit, Segment) else _Calls(unit) for unit in program.units
        ]  # fmt: skip
        self.rows = sum(unit.count for unit in self.units)
        self.program = program
        if not all(isinstance(unit, _Piece) for unit in self.units):
            self.program = ThreadProgram()
            for unit in self.units:
                self.program.add(unit.unit)

    def spans(self, thread: int, entries: np.ndarray | None) -> Iterator[Span]:
        for unit in self.units:
            for rows, awaited, begun, start, end in unit.times(entries):
                if awaited and start - begun > _SHORTEST:
                    yield Span(rows, thread, begun, start, awaited)
                yield Span(rows, thread, start, end)


_Times = tuple[tuple[Row, ...], tuple[str, ...], int, int, int]  # rows, what they wait for; when they do, begin, end


class _Piece:
    """A piece of a tape, which is stamped by those who walk it."""

    def __init__(self, segment: Segment, flags: dict[int, str]) -> None:
        self.unit, self._layout = segment, segment.layout()
        self.count = len(self._layout.rows) + 1
        self._awaited = [
            tuple(flags[flag] for flag in self._layout.flags[first:work] if flag in flags)
            for first, work, _ in self._layout.spans
        ]

    def times(self, entries: np.ndarray | None) -> Iterator[_Times]:
        times = self._begun(entries)
        for mark, awaited, (first, work, end) in zip(self.unit.marks, self._awaited, self._layout.spans, strict=True):
            if times:
                yield mark.rows, awaited, times[first], times[work], times[end]

    def _begun(self, entries: np.ndarray | None) -> list[int]:
        """When each row began, and the last one ended; of those left out, because others did their work, the next."""
        rows = self._layout.rows
        assert entries is not None
        if not len(rows):
            return []
        mine = np.flatnonzero((entries[:, ROW] >= rows[0]) & (entries[:, ROW] <= rows[-1]))
        if not len(mine) or mine[-1] + 1 == len(entries):
            return []  # it did not come to its end
        begun = np.full(len(rows) + 1, np.iinfo(np.int64).max)
        begun[np.searchsorted(rows, entries[mine, ROW])] = entries[mine, TIME]
        begun[-1] = entries[mine[-1] + 1, TIME]
        starts: list[int] = np.minimum.accumulate(begun[::-1])[::-1].tolist()
        return starts


class _Calls:
    """A row that runs in Python."""

    count = 0

    def __init__(self, row: PythonRow) -> None:
        self._times: list[int] = []
        self._row = row.row
        self._awaited = tuple(wait.__self__.what for wait in row.waits)  # type: ignore[attr-defined]
        look = self._look
        self.unit = row._replace(waits=[look, *row.waits, look], calls=[*row.calls, look])

    def _look(self) -> None:
        self._times.append(perf_counter_ns())

    def forget(self) -> None:
        """What the last step did is over."""
        self._times.clear()

    def times(self, entries: np.ndarray | None) -> Iterator[_Times]:
        if len(self._times) == 3:
            begun, start, end = self._times
            yield (self._row,), self._awaited, begun, start, end


def _to_the_last(threads: Sequence[list[Span]]) -> Iterator[list[Span]]:
    """The spans of the threads of a phase, which all wait for the last of them before anything else is done."""
    last = max((own[-1].end for own in threads if own), default=0)
    for own in threads:
        yield own
        if own and last - own[-1].end > _SHORTEST:
            yield [Span(own[-1].rows, own[-1].thread, own[-1].end, last, _OTHERS)]
