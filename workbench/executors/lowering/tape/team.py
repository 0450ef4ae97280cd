"""Threads that do blocks of the rows of one tape.

The leader's tape is complete. Where a row of it is shared it has all blocks of that, and the others have some of them
on tapes of their own: whoever comes to a block first does it. The others wait until the leader has come to the row, and
it goes on when all blocks are done; if no other thread gets a processor, it does them all itself.

Rows that make late results are left to the others, while the leader goes on. When somebody reads such a result, or a
few more have been left, it is due: then the leader waits for it, or makes it, if nobody has begun to. Where the helper
is not there, or has not come to what was left to it before, the leader makes it at once, while what it is made of is
still in the caches.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from workbench.executors.lowering.tape.segment import Mark, NativeFlag, Segment
from workbench.executors.lowering.tape.vector_code import VectorCode
from workbench.executors.planning.plan import Row
from workbench.executors.planning.shares import Shares
from workbench.executors.workers.pool import WorkerPool
from workbench.graph.ssa import Node, Value
from workbench.runtime.native.blocks import BlockRow, blocks_of
from workbench.runtime.native.tape import Tape

MakeFlag = Callable[[str], NativeFlag]
Memory = Callable[[Any], Any]
Write = Callable[[Tape, Any], None]
TeamState = tuple[list[NativeFlag], list[tuple[int, int]], int, int]


def _own(at: int, blocks: int, threads: int) -> range:
    """The blocks that are a thread's to begin with."""
    return range(blocks * at // threads, blocks * (at + 1) // threads)


def _leaders(blocks: int, threads: int) -> list[int]:
    """The order in which the leader tries blocks: its own, then the others, of which helpers come last to the last."""
    own = _own(0, blocks, threads)
    return [*own, *reversed(range(own.stop, blocks))]


def _helpers(at: int, blocks: int, threads: int) -> list[int]:
    """The same of a helper: its own, and those of the thread next to it."""
    return [*_own(at, blocks, threads), *reversed(_own((at + 1) % threads, blocks, threads))]


class Helper:
    """A thread beside the leader.

    Args:
        scratch: memory for the temporaries of its blocks.
    """

    def __init__(self, tape: Tape, scratch: Any) -> None:
        self.tape, self.scratch = tape, scratch
        self.marks: list[Mark] = []

    def begin(self, rows: tuple[Row, ...]) -> None:
        """A block of these rows of the plan comes next."""
        if not self.marks or self.marks[-1].rows != rows:
            self.marks.append(Mark(len(self.tape), rows))

    def memory(self, floats: Any) -> Any:
        """For temporaries of one block."""
        return self.scratch((floats,), np.float32)

    @property
    def state(self) -> tuple[int, int]:
        """What `restore` goes back to."""
        return len(self.tape), len(self.marks)

    def restore(self, words: int, marks: int) -> None:
        """Take back what was written since there were so many."""
        self.tape.truncate(words)
        del self.marks[marks:]


class LateRow(NamedTuple):
    """A row that makes late results, left to the helpers.

    Attributes:
        row: of the plan. value: the result. done: tells that it is there. write: writes the row to a tape.
        helper: whose it is. reached: tells that it has come to the row.
    """

    row: Row
    value: Value
    done: NativeFlag
    write: Write
    helper: Helper
    reached: NativeFlag


class ThreadTeam:
    """The helpers of a tape.

    Args:
        leader: the tape that is shared.
        shares: which rows have blocks, and which make late results.
        make_flag: makes a flag one thread raises and others wait for, given what they wait for.
    """

    def __init__(
        self,
        leader: Tape,
        helpers: Sequence[Helper],
        shares: Shares,
        pool: WorkerPool,
        make_flag: MakeFlag,
    ) -> None:
        assert pool.control is not None
        self._leader, self._helpers, self._shares, self._make_flag = leader, helpers, shares, make_flag
        self._pool, self._control = pool, pool.control.array
        self._open: list[NativeFlag] = []  # of blocks that may not be done yet
        self._left: list[LateRow] = []
        self._finished: list[LateRow] = []
        self.late: dict[Value, LateRow] = {}  # of those that are left, the ones that may not be there yet

    @property
    def state(self) -> TeamState:
        """What `restore` goes back to."""
        return list(self._open), [helper.state for helper in self._helpers], len(self._left), len(self._finished)

    def restore(self, state: TeamState) -> None:
        """Take back what was written since."""
        self._open, lengths, left, finished = state
        self.late.update((late.value, late) for late in self._finished[finished:])
        for late in self._left[left:]:
            del self.late[late.value]
        del self._left[left:], self._finished[finished:]
        for helper, length in zip(self._helpers, lengths, strict=True):
            helper.restore(*length)

    def row(self, rows: Sequence[Row], kernel: str, arguments: Sequence[Any]) -> None:
        """Write a row of the tape, in blocks if it is shared and divides.

        Args:
            rows: those of the plan that it is part of.
        """
        most = self._blocks_of(rows)
        blocks = blocks_of(kernel, arguments, most, self._threads) if most > 1 else None
        self.join()
        if blocks is None:
            self._leader.row(kernel, *arguments)
        else:
            self._divide(rows, [BlockRow(kernel, block).write for block in blocks], None)

    def independent(self, rows: Sequence[Row], kernel: str, blocks: Sequence[Sequence[Any]]) -> None:
        """Write rows of one kernel that have nothing to do with each other, as blocks if they are shared.

        Args:
            blocks: the arguments of each.
        """
        self.join()
        if len(blocks) > 1 and self._blocks_of(rows) > 1:
            self._divide(rows, [BlockRow(kernel, block).write for block in blocks], None)
            return
        for block in blocks:
            self._leader.row(kernel, *block)

    def vector(self, rows: Sequence[Row], code: VectorCode, memory: Memory) -> None:
        """The same with element-wise work.

        Args:
            memory: the leader's, for temporaries.
        """
        most = self._blocks_of(rows)
        blocks = code.blocks(most, self._threads) if most > 1 else None
        self.join()
        if blocks is None:
            code.emit(self._leader, memory)
        else:
            self._divide(rows, [block.emit for block in blocks], memory)

    @property
    def _threads(self) -> int:
        return 1 + len(self._helpers)

    def _blocks_of(self, rows: Sequence[Row]) -> int:
        return max((self._shares.blocks.get(row.node, 1) for row in rows), default=1)

    def _divide(self, rows: Sequence[Row], blocks: Sequence[Write], memory: Memory | None) -> None:
        """Write blocks.

        Args:
            blocks: called with a tape and memory for temporaries, each writes a row.
            memory: the leader's.
        """
        threads = min(self._threads, len(blocks))
        begin = self._make_flag("the thread it helps")
        self._open = [self._make_flag("a block of another thread") for _ in blocks]
        self._leader.row("signal", begin.array, self._control)
        for number in _leaders(len(blocks), threads):
            self._block(self._leader, number, blocks[number], memory)
        for at, helper in enumerate(self._helpers[: threads - 1], start=1):
            helper.begin(tuple(rows))
            helper.tape.row("wait", begin.array, self._control)
            for number in _helpers(at, len(blocks), threads):
                helper.scratch.restart()
                self._block(helper.tape, number, blocks[number], helper.memory)

    def _block(self, tape: Tape, number: int, write: Write, memory: Memory | None) -> None:
        tape.block(self._open[number].array, self._control, partial(write, tape, memory))

    def join(self) -> None:
        """Wait until all blocks are done."""
        for flag in self._open:
            self._leader.row("wait", flag.array, self._control)
        self._open = []

    # Late results

    def may_be_late(self, row: Row, value: Value) -> bool:
        """Whether it is planned that a row of the plan makes a result late."""
        return value in self._shares.late.get(row.node, ())

    def due_at(self, row: Row) -> Node | None:
        """The node whose late results are to be there when a row of the plan begins."""
        return self._shares.due.get(row.node)

    def leave(self, row: Row, value: Value, kernel: str, arguments: Sequence[Any]) -> None:
        """Leave a row of the tape to a helper, if that is there; what it reads is there.

        Args:
            value: the result that it makes, all of it.
        """
        self.join()
        begin, done = self._make_flag("the thread it helps"), self._make_flag("a late result of another thread")
        helper = self._helpers[len(self._left) % len(self._helpers)]
        reached = self._make_flag("a thread that helps")
        late = LateRow(row, value, done, BlockRow(kernel, arguments).write, helper, reached)
        before = next((other for other in reversed(self._left) if other.helper is helper), late)
        self._leader.row("signal", begin.array, self._control)
        self._leader.unless(before.reached.array, self._control, partial(self._make, late))
        helper.begin((row,))
        helper.tape.row("signal", reached.array, self._control)
        helper.tape.row("wait", begin.array, self._control)
        helper.scratch.restart()
        helper.tape.block(done.array, self._control, partial(late.write, helper.tape, helper.memory))
        self._left.append(late)
        self.late[value] = late

    def finish(self, late: LateRow) -> None:
        """Have a late result, by making it if no helper has begun to."""
        self.join()
        self._make(late)
        self._leader.row("wait", late.done.array, self._control)
        self._finished.append(self.late.pop(late.value))

    def _make(self, late: LateRow) -> None:
        """Have the leader make a late result, if nobody has begun to."""
        self._leader.block(late.done.array, self._control, partial(late.write, self._leader, None))

    def segments(self, by_numpy: Callable[[Row], Any]) -> list[Segment]:
        """What the helpers run, one piece each of those that have anything to do."""
        return [self._segment(helper, by_numpy) for helper in self._helpers if helper.marks]

    def _segment(self, helper: Helper, by_numpy: Callable[[Row], Any]) -> Segment:
        segment = Segment(helper.tape, helper.marks, len(helper.tape), self._pool, by_numpy)
        segment.settle(helper.tape.table())
        return segment
