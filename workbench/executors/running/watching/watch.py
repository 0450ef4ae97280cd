"""The same calls as ever with a look between them: at the clock, or for NaN and Inf in what a row has made."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from workbench.errors import EnforceNotMet
from workbench.events import OpInfo
from workbench.executors.lowering.binding import Binding
from workbench.executors.lowering.tape.segment import Segment
from workbench.executors.lowering.thread_program import ThreadProgram
from workbench.executors.planning.plan import Row
from workbench.executors.running.watching.exchanges import Exchanges
from workbench.executors.running.watching.stamps import Stamps
from workbench.framework.program.failures import not_finite
from workbench.framework.values.rows import Patch, Rows
from workbench.graph.ssa import Node, Value


class Watched(NamedTuple):
    """What is run in place of a binding's own programs while somebody watches.

    Attributes:
        speculative, commit: programs, one per thread.
        stamps: when rows run; None if nobody wants to know.
    """

    speculative: Sequence[ThreadProgram]
    commit: Sequence[ThreadProgram]
    stamps: Stamps | None = None


class Watching:
    """What those who watch the steps of a binding need, made when it is first asked for."""

    def __init__(self, binding: Binding) -> None:
        self._binding = binding
        self._watched: dict[tuple[bool, bool], Watched] = {}
        self._infos: dict[Node, OpInfo] = {}

    def programs(self, clock: bool, finite: bool) -> Watched:
        """The programs with looks in them; only the speculative phase looks for NaN.

        A parameter that an update makes infinite is found where the next step reads it: the commit cannot be refused.

        Args:
            clock: note when each row begins and ends.
            finite: raise ExecutionError, naming op, device and line, for the first row that makes a NaN or an Inf.
        """
        watched = self._watched.get((clock, finite))
        if watched is None:
            watched = self._watched[clock, finite] = _watched(self._binding, clock, finite)
        return watched

    @cached_property
    def exchanges(self) -> Exchanges:
        """The collectives of the binding."""
        return Exchanges(self._binding)

    @cached_property
    def numbers(self) -> dict[Node, int]:
        """The nodes, as in the printed graph."""
        return {node: number for number, node in enumerate(self._binding.plan.graph.nodes)}

    def info(self, first: Node, make: Callable[[], OpInfo]) -> OpInfo:
        """What is told of the call that begins with a node."""
        info = self._infos.get(first)
        if info is None:
            info = self._infos[first] = make()
        return info

    def rewind(self) -> None:
        """After a step that failed: pieces of tapes begin at their first row again."""
        for watched in self._watched.values():
            for program in watched.speculative:
                program.rewind()


def _watched(binding: Binding, clock: bool, finite: bool) -> Watched:
    speculative, commit = binding.speculative, binding.commit
    if finite:
        speculative = [_checked(binding, program) for program in binding.looked_between()]
    if not clock:
        return Watched(speculative, commit)
    stamps = Stamps(binding, speculative, commit)
    speculative, commit = stamps.programs
    return Watched(speculative, commit, stamps)


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
            raise blemish(self.binding, self.row, value, data)


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


def blemish(binding: Binding, row: Row, value: Value, data: np.ndarray) -> EnforceNotMet:
    """The error for a value that holds NaN or Inf."""
    where = f" on {binding.plan.graph.places[value.place]}"
    return not_finite(row.node.type, where, value.name, data, row.node.site)
