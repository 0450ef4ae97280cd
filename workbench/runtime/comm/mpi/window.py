"""The memory that the processes of a group on one machine share: words that count, room for what travels.

Every process owns a segment, which only it writes and all read. A segment holds words on cache lines of their own,
what the process said when it gave up, and a ring of slots, each with a label and room for `SLOT_BYTES`:

    words                                   what the owner has done, see `Word`
    reason                                  why it gave up
    label, label, …                         which collective a slot's contents belong to
    slot, slot, …

A word is published after what it speaks of: `publish` and `seen` put a memory barrier in between.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from enum import IntEnum
from typing import Any
from zlib import crc32

import numpy as np

from workbench.runtime.words import window as words
from workbench.runtime.words.window import DATA, LABEL_BYTES, LABELS, SEGMENT_BYTES, SLOT_BYTES, SLOTS


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


_WORDS_END = words.SEGMENT_WORDS * words.LINE * 8


class SharedSegment:
    """One process's part of the window.

    Attributes:
        words: indexed by `Word`, shared by all processes.
        slots: uint8 `[SLOT_BYTES]`, one per place in the ring.
        address: where it begins.
    """

    def __init__(self, memory: np.ndarray) -> None:
        self._words = memory[:_WORDS_END].view(np.int64)
        self.words: memoryview = self._words[:: words.LINE].data
        self._reason = memory[_WORDS_END:LABELS]
        labels = memory[LABELS:DATA].reshape(SLOTS, LABEL_BYTES)
        self._labels = [label.data for label in labels]
        self._marks = [label[:8].view(np.int64).data for label in labels]
        self.address: int = memory.__array_interface__["data"][0]
        self.slots: list[np.ndarray] = list(memory[DATA:].reshape(SLOTS, SLOT_BYTES))

    def put_label(self, slot: int, label: bytes) -> None:
        """Say which collective the slot's contents belong to, see `label_of`."""
        self._labels[slot][: len(label)] = label

    def mark(self, slot: int) -> int:
        """What tells a collective from another one."""
        return self._marks[slot][0]

    def label(self, slot: int) -> str:
        """The collective the slot's contents belong to, in words."""
        return bytes(self._labels[slot][8:]).partition(b"\0")[0].decode("utf-8", "replace")

    @property
    def reason(self) -> str:
        """Why the owner gave up."""
        return self._reason[: self.words[Word.REASON]].tobytes().decode("utf-8", "replace")

    def say(self, reason: str, culprit: int | None = None) -> None:
        """Write down why the owner gives up, and which rank failed if it is not the owner."""
        self.words[Word.CULPRIT] = 0 if culprit is None else culprit + 1
        text = reason.encode()[: words.REASON_BYTES]
        self._reason[: len(text)] = np.frombuffer(text, np.uint8)
        self.words[Word.REASON] = len(text)


def label_of(text: str) -> bytes:
    """What is put beside the contents of a slot: a number that tells collectives apart, and words."""
    return crc32(text.encode()).to_bytes(8, "little") + text.encode()[: LABEL_BYTES - 9] + b"\0"


class Window:
    """The segments of a group whose processes are on one machine.

    Args:
        comm: an MPI communicator of these processes; all of them make the window together.

    Attributes:
        segments: by rank in the group. own: this process's, whose rank is `rank`.
    """

    def __init__(self, comm: Any) -> None:
        from mpi4py import MPI

        info = MPI.Info.Create({"alloc_shared_noncontig": "true"})  # so that each segment begins at a page
        self._window: Any = MPI.Win.Allocate_shared(SEGMENT_BYTES, 1, info, comm)
        info.Free()
        self._window.Lock_all()
        self.rank: int = comm.rank
        self.barrier = self._window.Sync  # of memory: what was written before is seen by who sees what comes after
        self.segments = [self._segment(rank) for rank in range(comm.size)]
        self.own = self.segments[comm.rank]
        for word in Word:
            self.own.words[word] = 0
        self.own.words[Word.PID] = os.getpid()
        self.barrier()
        comm.Barrier()  # all words are 0 now

    def _segment(self, rank: int) -> SharedSegment:
        return SharedSegment(np.frombuffer(self._window.Shared_query(rank)[0], np.uint8)[:SEGMENT_BYTES])

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

    def typed(self, slot: int, dtype: Any, starts: Sequence[int], count: int) -> list[list[np.ndarray]]:
        """Pieces of a slot as arrays `[count]`: by rank, then by where in the slot they start, in bytes."""
        nbytes = count * dtype.itemsize
        return [[s.slots[slot][at : at + nbytes].view(dtype) for at in starts] for s in self.segments]

    def free(self) -> None:
        """Give the memory back; all processes do it together, and none is in the middle of anything."""
        self.segments.clear()
        del self.own
        self._window.Unlock_all()
        self._window.Free()
