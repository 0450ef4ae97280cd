"""The memory that the processes of a group share: words that count, room for what travels.

Every process owns a segment, which only it writes and all read. A segment holds words on cache lines of their own,
what the process said when it gave up, and a ring of slots, each with a label and room for `SLOT_BYTES`:

    words                                   what the owner has done, see `Word`
    reason                                  why it gave up
    label, label, …                         which collective a slot's contents belong to
    slot, slot, …

A word is published after what it speaks of: `publish` and `all_reached` put a memory barrier in between.

Processes on several machines share no memory. There every machine has copies of the segments whose owners are
elsewhere, which its leader keeps up (`relay`): late, but never with a word ahead of what it speaks of, on which alone
those rely who read them. `fence` is for who needs more.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from enum import IntEnum
from typing import Any
from zlib import crc32

import numpy as np

from workbench.runtime.comm.mpi.memory.nodes import NodeLayout
from workbench.runtime.comm.mpi.memory.peers import STATES, state_of
from workbench.runtime.words import window as words
from workbench.runtime.words.window import DATA, LABEL_BYTES, LABELS, SEGMENT_BYTES, SLOT_BYTES, SLOTS

_LOOK = 1e-4  # seconds between two looks at whether a fence is through


class Word(IntEnum):
    """Words of a segment, see `words.window`."""

    POSTED = words.POSTED
    TAKEN = words.TAKEN
    GAVE_UP = words.GAVE_UP
    LEFT = words.LEFT
    BEGUN = words.BEGUN
    PID = words.PID
    VOTE = words.VOTE
    VERDICT = words.VERDICT
    REASON = words.REASON
    CULPRIT = words.CULPRIT
    FENCE = words.FENCE
    ENDED = words.ENDED
    STATE_THERE = words.STATE_THERE


_WORDS_END = words.SEGMENT_WORDS * words.LINE * 8


class SharedSegment:
    """One process's part of the window.

    Attributes:
        words: indexed by `Word`, shared by all processes.
        slots: uint8 `[SLOT_BYTES]`, one per place in the ring.
        labels: uint8 `[LABEL_BYTES]`, one per slot.
        saying: uint8, room for the reason.
        address: where it begins.
    """

    def __init__(self, memory: np.ndarray) -> None:
        self._words = memory[:_WORDS_END].view(np.int64)
        self.words: memoryview = self._words[:: words.LINE].data
        self.saying = memory[_WORDS_END:LABELS]
        self.labels: list[np.ndarray] = list(memory[LABELS:DATA].reshape(SLOTS, LABEL_BYTES))
        self._labels = [label.data for label in self.labels]
        self._marks = [label[:8].view(np.int64).data for label in self.labels]
        self._given = [label[8:16].view(np.int64).data for label in self.labels]
        self._threads = [label[-8:].view(np.int64).data for label in self.labels]
        self.address: int = memory.__array_interface__["data"][0]
        self.slots: list[np.ndarray] = list(memory[DATA:].reshape(SLOTS, SLOT_BYTES))

    def put_label(self, slot: int, label: bytes, thread: int = 0) -> None:
        """Say which collective the slot's contents belong to, see `label_of`, and which thread's, see `threads`."""
        self._labels[slot][: len(label)] = label
        self._threads[slot][0] = thread

    def thread(self, slot: int) -> int:
        """The mark of the thread whose contents the slot has."""
        return self._threads[slot][0]

    def mark(self, slot: int) -> int:
        """What tells a collective from another one."""
        return self._marks[slot][0]

    def given(self, slot: int) -> int:
        """How many bytes of the slot its contents take at most."""
        return self._given[slot][0]

    def label(self, slot: int) -> str:
        """The collective the slot's contents belong to, in words."""
        return bytes(self._labels[slot][16:]).partition(b"\0")[0].decode("utf-8", "replace")

    @property
    def reason(self) -> str:
        """Why the owner gave up."""
        return self.saying[: self.words[Word.REASON]].tobytes().decode("utf-8", "replace")

    def say(self, reason: str, culprit: int | None = None) -> None:
        """Write down why the owner gives up, and which rank failed if it is not the owner."""
        self.words[Word.CULPRIT] = 0 if culprit is None else culprit + 1
        text = reason.encode()[: words.REASON_BYTES]
        self.saying[: len(text)] = np.frombuffer(text, np.uint8)
        self.words[Word.REASON] = len(text)

    def snapshot(self) -> np.ndarray:
        """All words as they were at one moment."""
        read = self._words[:: words.LINE].copy()
        while not np.array_equal(again := self._words[:: words.LINE].copy(), read):
            read = again
        return read


def label_of(text: str, nbytes: int = 0, said: str | None = None) -> bytes:
    """What is put beside the contents of a slot: a number that tells collectives apart, their size, and words.

    Args:
        nbytes: how many bytes of the slot this process fills at most. said: the words, `text` unless given.
    """
    numbers = crc32(text.encode()).to_bytes(8, "little") + nbytes.to_bytes(8, "little")
    return numbers + (said or text).encode()[: LABEL_BYTES - 25] + b"\0"


class Window:
    """The segments of a group.

    Args:
        comm: an MPI communicator of its processes; all of them make the window together.

    Attributes:
        segments: by rank in the group. own: this process's, whose rank is `rank`.
        nodes: the machines the processes are on.
    """

    def __init__(self, comm: Any) -> None:
        from mpi4py import MPI

        self._comm, self.nodes = comm, NodeLayout(comm)
        self.rank: int = comm.rank
        copies = len(self.nodes.elsewhere) * SEGMENT_BYTES + comm.size * 8 if self.nodes.is_led else 0
        info = MPI.Info.Create({"alloc_shared_noncontig": "true"})  # so that each segment begins at a page
        self._window: Any = MPI.Win.Allocate_shared(SEGMENT_BYTES + copies, 1, info, self.nodes.here)
        info.Free()
        self._window.Lock_all()
        self.barrier = self._window.Sync  # of memory: what was written before is seen by who sees what comes after
        here, elsewhere = self.nodes.beside(self.rank), self.nodes.elsewhere
        of_leader = self._memory(0)
        copied = of_leader[SEGMENT_BYTES : SEGMENT_BYTES * (1 + len(elsewhere))].reshape(-1, SEGMENT_BYTES)
        owned = {rank: self._segment(number) for number, rank in enumerate(here)}
        owned |= {rank: SharedSegment(memory) for rank, memory in zip(elsewhere, copied)}
        self.segments = [owned[rank] for rank in range(comm.size)]
        self.own = self.segments[comm.rank]
        at = SEGMENT_BYTES * (1 + len(elsewhere))
        self._passed = of_leader[at : at + comm.size * 8].view(np.int64)  # by rank: fences all machines have seen
        for segment in (self.own, *(owned[rank] for rank in elsewhere if self.nodes.is_led)):
            for word in Word:
                segment.words[word] = 0
        self._passed[...] = 0
        self.own.words[Word.PID] = os.getpid()
        self.barrier()
        comm.Barrier()  # all words are 0 now

    def _segment(self, number: int) -> SharedSegment:
        """That of a process on this machine."""
        return SharedSegment(self._memory(number)[:SEGMENT_BYTES])

    def _memory(self, number: int) -> np.ndarray:
        """What a process on this machine has put up, uint8."""
        return np.frombuffer(self._window.Shared_query(number)[0], np.uint8)

    def publish(self, word: Word, value: int) -> None:
        """Set a word of this process; who sees it sees all that was written before."""
        self.barrier()
        self.own.words[word] = value

    def all_reached(self, word: Word, value: int) -> bool:
        """Whether every process's word is at least `value`; what they wrote before can be read then."""
        for segment in self.segments:
            if segment.words[word] < value:
                return False
        self.barrier()
        return True

    def behind(self, word: Word, value: int) -> list[int]:
        """The ranks whose word is less than `value`."""
        return [rank for rank, segment in enumerate(self.segments) if segment.words[word] < value]

    def fence(self, patience: float) -> bool:
        """Return when all machines see what this process has published, and what they had published then is seen here.

        Args:
            patience: seconds.

        Returns:
            whether it is so.
        """
        self.barrier()
        if self.nodes.is_one:
            return True
        number = self.own.words[Word.FENCE] + 1
        self.publish(Word.FENCE, number)
        end = time.monotonic() + patience
        while self._passed[self.rank] < number:
            if time.monotonic() > end:
                return False
            time.sleep(_LOOK)
        self.barrier()
        return True

    def let_pass(self, rank: int, number: int) -> None:
        """A fence of a process on this machine is seen everywhere; said by the leader."""
        self._passed[rank] = number

    def state_of(self, rank: int) -> str:
        """What is the matter with a process, see `peers.state_of`; of those elsewhere what their leader has told."""
        segment = self.segments[rank]
        pid = segment.words[Word.PID]
        return state_of(pid) if pid else STATES[segment.words[Word.STATE_THERE]]

    def typed(self, slot: int, dtype: Any, starts: Sequence[int], count: int) -> list[list[np.ndarray]]:
        """Pieces of a slot as arrays `[count]`: by rank, then by where in the slot they start, in bytes."""
        nbytes = count * dtype.itemsize
        return [[s.slots[slot][at : at + nbytes].view(dtype) for at in starts] for s in self.segments]

    def free(self) -> None:
        """Give the memory back; all processes do it together, and none is in the middle of anything."""
        self.segments.clear()
        del self.own, self._passed
        self._window.Unlock_all()
        self._window.Free()
        self.nodes.free()
