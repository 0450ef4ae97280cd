"""Rows of a plan that run as one call: a piece of a tape, or flags between pieces and Python."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from functools import partial
from operator import setitem
from typing import NamedTuple

import numpy as np

from workbench.executors.operands import Call
from workbench.executors.plan import Row
from workbench.executors.team import Stopped, Team
from workbench.framework.quiet import quietly
from workbench.runtime.native.control import lines
from workbench.runtime.native.tape import Tape, address
from workbench.runtime.native.words import (
    AGAIN,
    AT,
    CONTROL,
    DECLINED,
    END,
    STAMP,
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


class Segment:
    """A piece of a tape.

    Args:
        marks: in the order of the tape; the first is where the piece begins.
        end: where it ends, in words.
        by_numpy: the calls that do a row with NumPy: what is run when a kernel declines its data, to say why.
    """

    def __init__(
        self, tape: Tape, marks: Sequence[Mark], end: int, team: Team, by_numpy: Callable[[Row], Sequence[Call]]
    ) -> None:
        assert team.control is not None
        self.tape, self.team, self.marks, self.end = tape, team, list(marks), end
        self._by_numpy, self._run = by_numpy, team.control.run
        self._array = lines(STATE_WORDS)
        self._words = self._array.data
        self.address = address(self._array)
        self._words[CONTROL] = team.control.address
        self._words[END] = end
        self._starts = [mark.at for mark in self.marks]
        self._words[START] = self._starts[0]
        self._stamps: np.ndarray | None = None
        self.rewind()

    def settle(self, table: int) -> None:
        """Say where the tape is, once it is complete."""
        self._words[TABLE] = table

    def rewind(self) -> None:
        """The next run begins at the first row."""
        self.rewinding()()

    def rewinding(self) -> Call:
        """`rewind` as a C function."""
        return partial(setitem, self._words, AT, self._words[START])

    @property
    def begun(self) -> bool:
        """Whether it has come beyond its first row, and not been wound back."""
        return self._words[AT] != self._words[START]

    @property
    def done(self) -> bool:
        """Whether it has come to its end."""
        return self._words[AT] >= self.end

    def __call__(self) -> None:
        """Run it, or what is left of it after an error.

        Raises:
            Stopped: another thread failed. Unavailable: the deadline passed.
        """
        status = self._run(self.address)
        while status:
            self.answer(status)
            status = self._run(self.address)
        self.rewind()

    def answer(self, status: int) -> None:
        """Do what has to be done before it can go on."""
        if status == DECLINED:
            mark = bisect_right(self._starts, self._words[AT]) - 1
            quietly(partial(self._run_by_numpy, self.marks[mark]))
            self._words[AT] = self._starts[mark + 1] if mark + 1 < len(self._starts) else self.end
        elif status == STOPPED:
            raise Stopped("another thread")
        elif status == AGAIN:
            self.team.doze()
        else:
            self.team.look()

    def _run_by_numpy(self, mark: Mark) -> None:
        for row in mark.rows:
            for call in self._by_numpy(row):
                call()

    @property
    def rows(self) -> list[Row]:
        return [row for mark in self.marks for row in mark.rows]

    @property
    def row(self) -> Row:
        """The row it is at, or has stopped at."""
        mark = max(bisect_right(self._starts, self._words[AT]) - 1, 0)
        return self.marks[mark].rows[0]

    # Time stamps

    def stamped(self) -> Segment:
        """The same piece, which notes when each row of the tape begins."""
        made = Segment(self.tape, self.marks, self.end, self.team, self._by_numpy)
        made.settle(self._words[TABLE])
        made._stamps = np.zeros(_rows_between(self.tape, self._starts[0], self.end) + 1, np.int64)
        made._words[STAMPS] = address(made._stamps)
        return made

    def clear_stamps(self) -> None:
        """Forget the times of the last run."""
        if self._stamps is not None:
            self._stamps[:] = 0
            self._words[STAMP] = 0

    def spans(self) -> list[tuple[Mark, int, int]]:
        """When the rows of each mark ran, in ns of the monotonic clock; only of those that have come to their end.

        What a row waits for another thread before it begins is no part of it.
        """
        if self._stamps is None:
            return []
        found, wait = [], self.tape.kernels.addresses["wait"]
        number, at = 0, self._starts[0]
        for mark, end in zip(self.marks, [*self._starts[1:], self.end], strict=True):
            while at < end and self.tape.words[at] == wait:
                at, number = at + self.tape.words[at + 1], number + 1
            first = number
            while at < end:
                at, number = at + self.tape.words[at + 1], number + 1
            if not self._stamps[number]:
                break
            found.append((mark, int(self._stamps[first]), int(self._stamps[number])))
        return found


def _rows_between(tape: Tape, at: int, end: int) -> int:
    count = 0
    while at < end:
        at, count = at + tape.words[at + 1], count + 1
    return count


class NativeFlag:
    """Raised by one thread, awaited by others, once per step; from a tape or from Python.

    Its word holds the number of the last step in which it was raised, so nobody has to take it down.
    """

    def __init__(self, team: Team, what: str) -> None:
        assert team.control is not None
        self.team, self.what = team, what
        self._control = team.control
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
            self.team.doze(self.what)

    def lower(self) -> None:
        """Nothing to do: the next step has another number."""

