"""Rows of a plan that run as one call: a piece of a tape, or flags between pieces and Python."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from functools import cached_property, partial
from operator import setitem
from typing import NamedTuple

import numpy as np

from workbench.errors import ExecutionError
from workbench.executors.lowering.operands import Call
from workbench.executors.planning.plan import Row
from workbench.executors.workers.pool import Stopped, WorkerPool
from workbench.framework.quiet import quietly
from workbench.graph.ssa import Node
from workbench.runtime.native.control import lines
from workbench.runtime.native.tape import Tape, address
from workbench.runtime.words.codes import (
    AGAIN,
    ASKED,
    AT,
    CONTROL,
    DECLINED,
    ELSEWHERE,
    END,
    FULL,
    HELD,
    STAMPS,
    START,
    STATE_WORDS,
    STOPPED,
    TABLE,
)


class Mark(NamedTuple):
    """Where in a tape the rows of a plan begin; several rows of a plan can be one row of the tape."""

    at: int
    rows: tuple[Row, ...]


class TapeLayout(NamedTuple):
    """The rows of a piece of a tape.

    Attributes:
        rows: their addresses. flags: the addresses of those they wait for, 0 where they do not.
        spans: of every mark, as numbers of rows: where it begins to wait, to work, and where its work ends.
    """

    rows: np.ndarray
    flags: list[int]
    spans: list[tuple[int, int, int]]


class Segment:
    """A piece of a tape.

    Args:
        marks: in the order of the tape; the first is where the piece begins.
        end: where it ends, in words.
        by_numpy: the calls that do a row with NumPy: what is run when a kernel declines its data, to say why; or go on
            with it, where it waits for another process.
    """

    def __init__(
        self, tape: Tape, marks: Sequence[Mark], end: int, pool: WorkerPool, by_numpy: Callable[[Row], Sequence[Call]]
    ) -> None:
        self.marks = list(marks)
        self._begin(tape, [mark.at for mark in self.marks], end, pool, by_numpy)

    def _begin(
        self, tape: Tape, starts: list[int], end: int, pool: WorkerPool, by_numpy: Callable[[Row], Sequence[Call]]
    ) -> None:
        assert pool.control is not None
        self.tape, self.pool, self.end, self._starts = tape, pool, end, starts
        self._by_numpy, self._run = by_numpy, pool.control.run
        self._left: list[Call] = []  # of the calls that do a mark with NumPy, from the last one on
        self._array = lines(STATE_WORDS)
        self._words = self._array.data
        self.address = address(self._array)
        self._words[CONTROL] = pool.control.address
        self._words[END] = end
        self._words[START] = starts[0]
        self.rewind()

    def on(
        self,
        tape: Tape,
        table: int,
        by_numpy: Callable[[Row], Sequence[Call]],
        rows: Callable[[Node], Row],
        moved: Callable[[list[int]], list[int]],
    ) -> Segment:
        """The same piece of a tape with other numbers.

        Args:
            table: where that is. rows: the rows of its plan; called when somebody asks for them.
            moved: where in it words are, of where they are in this one.
        """
        other = _Refilled.__new__(_Refilled)
        other._form, other._rows_of = self.marks, rows
        *starts, end = moved([*self._starts, self.end])
        other._begin(tape, starts, end, self.pool, by_numpy)
        other.settle(table)
        return other

    def settle(self, table: int) -> None:
        """Say where the tape is, once it is complete."""
        self._words[TABLE] = table

    def rewind(self) -> None:
        """The next run begins at the first row."""
        self._words[AT] = self._words[START]
        self._left = []
        for desk in self.tape.desks:
            desk.clear()

    def rewinding(self) -> Call:
        """`rewind` as a C function."""
        return partial(setitem, self._words, AT, self._words[START])

    @property
    def begun(self) -> bool:
        """Whether it has come beyond its first row, and not been wound back."""
        return self._words[AT] != self._words[START]

    def ends(self) -> bool:
        """Whether it has come to its end; then the next run begins at the first row."""
        is_over: bool = self._words[AT] >= self.end
        if is_over:
            self._words[AT] = self._words[START]
        return is_over

    def __call__(self) -> None:
        """Run it, or what is left of it after an error.

        Raises:
            Stopped: another thread failed. Unavailable: the deadline passed.
        """
        if self._left:
            self._go_on_behind(self._mark)
        status = self._run(self.address)
        while status:
            self.answer(status)
            status = self._run(self.address)
        self._words[AT] = self._words[START]

    def answer(self, status: int) -> None:
        """Do what has to be done before it can go on."""
        if status in (DECLINED, ELSEWHERE):
            self._go_on_behind(self._mark)
        elif status == STOPPED:
            raise Stopped("another thread")
        elif status == AGAIN:
            self.pool.doze()
        elif status == FULL:
            self.tape.make_room()
        elif status == ASKED:
            self.tape.answer()
        elif status == HELD:
            return  # signals are answered, and it goes on
        else:
            self.pool.check()

    def _go_on_behind(self, mark: int) -> None:
        """Have NumPy do the rows of a mark, or say why nobody does.

        Raises:
            ExecutionError: NumPy did what a kernel has declined in a block, which others are at, too.
        """
        quietly(partial(self._run_by_numpy, self.marks[mark]))
        if self.tape.words[self._words[AT]] == self.tape.kernels.addresses["block"]:
            raise ExecutionError("a kernel has declined a block, and the op's calls raise nothing")
        self._words[AT] = self._starts[mark + 1] if mark + 1 < len(self._starts) else self.end

    def _run_by_numpy(self, mark: Mark) -> None:
        """Should a call raise, the next attempt goes on with that one: a commit is taken to its end."""
        if not self._left:
            self._left = [call for row in mark.rows for call in self._by_numpy(row)][::-1]
        while self._left:
            self._left[-1]()
            self._left.pop()

    @property
    def _mark(self) -> int:
        """The number of the mark it is at, or has stopped at."""
        return max(bisect_right(self._starts, self._words[AT]) - 1, 0)

    @property
    def rows(self) -> list[Row]:
        return [row for mark in self.marks for row in mark.rows]

    @property
    def row(self) -> Row:
        """The row it is at, or has stopped at."""
        return self.marks[self._mark].rows[0]

    # Time stamps

    def stamp_into(self, ring: int) -> None:
        """From now on note in the ring at this address when each row begins; 0: no more."""
        self._words[STAMPS] = ring

    def layout(self) -> TapeLayout:
        """Where its rows are, once the tape is complete."""
        words, names = self.tape.words, {a: name for name, a in self.tape.kernels.addresses.items()}
        rows: list[int] = []
        flags: list[int] = []
        spans: list[tuple[int, int, int]] = []
        at = self._starts[0]
        for end in [*self._starts[1:], self.end]:
            kinds = []
            first = len(rows)
            while at < end:
                kinds.append(names[words[at]])
                flags.append(words[at + 2] if kinds[-1] == "wait" else 0)
                rows.append(self._words[TABLE] + 8 * at)
                at += words[at + 1]
            work = first + next((n for n, kind in enumerate(kinds) if kind != "wait"), len(kinds))
            behind = next((n for n, kind in enumerate(reversed(kinds)) if kind not in _BESIDE), len(kinds))
            spans.append((first, work, max(first + len(kinds) - behind, work)))
        return TapeLayout(np.array(rows, np.int64), flags, spans)


class _Refilled(Segment):
    """A piece of a tape that was filled in; which rows its marks stand for is found out when somebody asks."""

    _form: list[Mark]
    _rows_of: Callable[[Node], Row]

    @cached_property
    def marks(self) -> list[Mark]:  # type: ignore[override]
        starts = zip(self._form, self._starts, strict=True)
        return [Mark(start, tuple([self._rows_of(row.node) for row in mark.rows])) for mark, start in starts]


_BESIDE = ("signal", "look_up")  # what stands behind the rows of a mark and is not their work


class NativeFlag:
    """Raised by one thread, awaited by others, once per step; from a tape or from Python.

    Its word holds the number of the last step in which it was raised, so nobody has to take it down.
    """

    def __init__(self, pool: WorkerPool, what: str) -> None:
        assert pool.control is not None
        self.pool, self.what = pool, what
        self._control = pool.control
        self.array = lines(8)
        self._words = self.array.data
        self.address = address(self.array)

    def up(self) -> None:
        """Announce it from Python."""
        self._words[0] = self._control.step

    def wait(self) -> None:
        """Wait for it in Python.

        Raises:
            Stopped: another thread failed. Unavailable: the deadline passed.
        """
        while status := self._control.wait_for(self.address, self._control.step, self._control.address):
            if status == STOPPED:
                raise Stopped(self.what)
            self.pool.doze(self.what)

    def lower(self) -> None:
        """Nothing to do: the next step has another number."""
