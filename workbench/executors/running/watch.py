"""The same calls as ever with a look between them: at the clock, or for NaN and Inf in what a row has made."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from workbench.errors import ExecutionError, located
from workbench.executors.lowering.binding import Binding, ThreadProgram
from workbench.executors.lowering.tape.segment import Segment
from workbench.executors.planning.plan import Row
from workbench.executors.running.stamps import Stamps
from workbench.framework.values.rows import Patch, Rows
from workbench.graph.ssa import Value


class Watched(NamedTuple):
    """What a binding runs while somebody watches.

    Attributes:
        speculative, commit: programs, one per thread.
        stamps: when rows run; None if nobody wants to know.
    """

    speculative: list[ThreadProgram]
    commit: list[ThreadProgram]
    stamps: Stamps | None


def watched(binding: Binding, clock: bool, finite: bool) -> Watched:
    """The programs of a binding with looks in them, made once; only the speculative phase looks for NaN.

    A parameter that an update makes infinite is found where the next step reads it: the commit cannot be refused.

    Args:
        clock: note when each row begins and ends.
        finite: raise ExecutionError, naming op, device and line, for the first row that makes a NaN or an Inf.
    """
    programs = binding.watched.get((clock, finite))
    if programs is None:
        speculative = [_checked(binding, p) for p in binding.looked_between()] if finite else binding.speculative
        commit, stamps = binding.commit, None
        if clock:
            stamps = Stamps(binding, speculative, commit)
            speculative, commit = stamps.programs
        programs = binding.watched[clock, finite] = Watched(speculative, commit, stamps)
    return programs


def _checked(binding: Binding, program: ThreadProgram) -> ThreadProgram:
    """A program that looks at what each row has made."""
    checked = ThreadProgram()
    for unit in program.units:
        if isinstance(unit, Segment):
            checked.add(unit)
        else:
            checked.add(unit._replace(calls=[*unit.calls, _Check(binding, unit.row)]))
    return checked


class _Check:
    """Looks at everything a row has written."""

    def __init__(self, binding: Binding, row: Row) -> None:
        self.binding, self.row = binding, row

    def __call__(self) -> None:
        for value, data in blemished(self.binding, self.row):
            raise not_finite(self.binding, self.row, value, data)


def blemished(binding: Binding, row: Row) -> Iterator[tuple[Value, np.ndarray]]:
    """What a row has written that holds a NaN or an Inf, with the numbers; of sparse gradients those of the rows."""
    for value in row.node.writes:
        data = numbers(binding.current(value))
        if data is not None and not np.isfinite(data).all():
            yield value, data


def numbers(content: Any) -> np.ndarray | None:
    """The floating-point numbers of a value, None if it has none."""
    data = content.values if isinstance(content, Rows | Patch) else content
    return data if isinstance(data, np.ndarray) and data.dtype.kind in "fV" else None


def not_finite(binding: Binding, row: Row, value: Value, data: np.ndarray) -> ExecutionError:
    """The error for a value that holds NaN or Inf."""
    nans, infs = int(np.isnan(data).sum()), int(np.isinf(data).sum())
    error = ExecutionError(
        f"op {row.node.type!r} made {nans} NaN and {infs} Inf among the {data.size} elements of {value.name!r} on "
        f"{binding.plan.graph.places[value.place]}\n  found because FLAGS_check_nan_inf is set\n  at {row.node.site}"
    )
    located(error)
    return error
