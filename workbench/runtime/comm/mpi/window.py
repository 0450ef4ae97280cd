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

SLOTS = 8
SLOT_BYTES = 1 << 18
"""Measured with 2 processes and 25 MiB: 128 to 512 KiB alike, 64 KiB and 2 MiB 20 % slower (caches of 2 MiB)."""

LABEL_BYTES = 256
_REASON_BYTES = 2048
_LINE = 8  # int64 words of a cache line


class Word(IntEnum):
    """Words of a segment, each the only one of its cache line; counts go on from step to step."""

    POSTED = 0  # rounds whose contribution lies in a slot
    TAKEN = 1  # rounds whose result has been taken
    GAVE_UP = 2  # the epoch in which the owner gave up, 0 if it never did
    LEFT = 3  # epochs the owner has left: it does nothing of them any more
    BEGUN = 4  # epochs the owner has begun
    PID = 5
    VOTE = 6  # number of the last vote in which the owner has said yes
    VERDICT = 7  # of the first process: twice the number of the last vote that was decided, plus one for a yes
    REASON = 8  # bytes of the reason
    CULPRIT = 9  # the rank that failed, plus one; 0 if it is the owner


_WORDS_END = len(Word) * _LINE * 8
_LABELS = _WORDS_END + _REASON_BYTES
_DATA = _LABELS + SLOTS * LABEL_BYTES
SEGMENT_BYTES = _DATA + SLOTS * SLOT_BYTES


class SharedSegment:
    """One process's part of the window.

    Attributes:
        words: indexed by `Word`, shared by all processes.
        slots: uint8 `[SLOT_BYTES]`, one per place in the ring.
    """

    def __init__(self, memory: np.ndarray) -> None:
        self._words = memory[:_WORDS_END].view(np.int64)
        self.words: memoryview = self._words[::_LINE].data
        self._reason = memory[_WORDS_END:_LABELS]
        labels = memory[_LABELS:_DATA].reshape(SLOTS, LABEL_BYTES)
        self._labels = [label.data for label in labels]
        self._marks = [label[:8].view(np.int64).data for label in labels]
        self.slots: list[np.ndarray] = list(memory[_DATA:].reshape(SLOTS, SLOT_BYTES))

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
        text = reason.encode()[:_REASON_BYTES]
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
