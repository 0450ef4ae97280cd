"""The same calls as ever with a look between them: at the clock, or for NaN and Inf in what a row has made."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from time import perf_counter_ns
from typing import Any

import numpy as np

from workbench.errors import ExecutionError, located
from workbench.executors.binding import Binding, Part, ThreadProgram
from workbench.executors.plan import Row
from workbench.executors.tape.segment import Segment
from workbench.framework.rows import Patch, Rows
from workbench.graph.ssa import Value


@dataclass(frozen=True)
class Span:
    """When rows ran that are one call, most often a single one, in ns of `time.perf_counter_ns`."""

    rows: tuple[Row, ...]
    thread: int
    start: int
    end: int


class Watched:
    """Thread programs with looks in them.

    Args:
        programs: of one part of a binding.
        clock: note when each row begins and ends.
        finite: raise ExecutionError, naming op, device and line, for the first row that makes a NaN or an Inf.
    """

    def __init__(self, binding: Binding, programs: Sequence[ThreadProgram], clock: bool, finite: bool) -> None:
        self.programs: list[ThreadProgram] = []
        self._times: list[list[int]] = []
        for program in programs:
            times: list[int] = []
            watched = ThreadProgram()
            for unit in program.units:
                if isinstance(unit, Segment):
                    watched.add(unit.stamped() if clock else unit)
                else:
                    watched.add(_with_looks(binding, unit, times if clock else None, finite))
            self.programs.append(watched)
            self._times.append(times)

    def begin(self) -> None:
        """Forget the times of the last run."""
        for times in self._times:
            times.clear()
        for program in self.programs:
            for unit in program.units:
                if isinstance(unit, Segment):
                    unit.clear_stamps()

    def spans(self) -> list[Span]:
        """When the rows ran that have come to their end."""
        found = []
        for thread, (program, times) in enumerate(zip(self.programs, self._times, strict=True)):
            pairs = zip(times[::2], times[1::2], strict=False)
            for unit in program.units:
                if isinstance(unit, Segment):
                    found += [Span(mark.rows, thread, start, end) for mark, start, end in unit.spans()]
                elif (pair := next(pairs, None)) is not None:
                    found.append(Span((unit.row,), thread, *pair))
        return found


def watched(binding: Binding, clock: bool, finite: bool) -> tuple[Watched, Watched]:
    """Both parts of a binding with looks in them, made once; only the speculative one looks for NaN.

    A parameter that an update makes infinite is found where the next step reads it: the commit cannot be refused.
    """
    found = binding.watched.get((clock, finite))
    if found is None:
        programs = binding.looked_between() if finite else binding.speculative
        speculative = Watched(binding, programs, clock, finite)
        found = speculative, Watched(binding, binding.commit, clock, False)
        binding.watched[clock, finite] = found
    for part in found:
        part.begin()
    return found


def _with_looks(binding: Binding, part: Part, times: list[int] | None, finite: bool) -> Part:
    calls = list(part.calls)
    if finite:
        calls.append(_Check(binding, part.row))
    if times is not None:
        clock = _Clock(times)
        calls = [clock, *calls, clock]
    return part._replace(calls=calls)


class _Clock:
    __slots__ = ("times",)

    def __init__(self, times: list[int]) -> None:
        self.times = times

    def __call__(self) -> None:
        self.times.append(perf_counter_ns())


class _Check:
    """Looks at everything a row has written."""

    def __init__(self, binding: Binding, row: Row) -> None:
        self.binding, self.row = binding, row

    def __call__(self) -> None:
        for value, data in blemished(self.binding, self.row):
            raise not_finite(self.row, value, data)


def blemished(binding: Binding, row: Row) -> Iterator[tuple[Value, np.ndarray]]:
    """What a row has written that holds a NaN or an Inf, with the numbers; of sparse gradients those of the rows."""
    for value in row.node.writes:
        data = numbers(binding.current(value))
        if data is not None and not np.isfinite(data).all():
            yield value, data


def numbers(found: Any) -> np.ndarray | None:
    """The floating-point numbers of a value, None if it has none."""
    data = found.values if isinstance(found, Rows | Patch) else found
    return data if isinstance(data, np.ndarray) and data.dtype.kind in "fV" else None


def not_finite(row: Row, value: Value, data: np.ndarray) -> ExecutionError:
    """The error for a value that holds NaN or Inf."""
    nans, infs = int(np.isnan(data).sum()), int(np.isinf(data).sum())
    error = ExecutionError(
        f"op {row.node.type!r} made {nans} NaN and {infs} Inf among the {data.size} elements of {value.name!r} on "
        f"device {value.place}\n  found because FLAGS_check_nan_inf is set\n  at {row.node.site}"
    )
    located(error)
    return error
