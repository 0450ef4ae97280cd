"""How far the clocks of processes are apart, measured by messages between them.

    offsets = clock_offsets(group)          # called by all; the answer is on rank 0
    own = read - offsets[rank].ns           # what rank 0's clock showed then, to within offsets[rank].within

One machine has one clock, several have not; nothing here relies on either.
"""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter_ns
from typing import NamedTuple

import numpy as np

from workbench.runtime.comm.mpi.group import ProcessGroup

_ROUNDS = 100  # the quickest counts: the others were held up somewhere
_TAG = 7301


class ClockOffset(NamedTuple):
    """By how many ns the clock of a rank is ahead of that of rank 0, and how far that may be from the truth."""

    ns: int
    within: int


def clock_offsets(group: ProcessGroup, clock: Callable[[], int] = perf_counter_ns) -> list[ClockOffset]:
    """Measure the clocks of all ranks against that of rank 0; every process of the group calls it.

    A rank reads its clock somewhere between a message to it and its answer, so the middle of the two is off by at most
    half the time between them.

    Args:
        clock: gives ns; `time.perf_counter_ns`, which events are stamped with, unless given.

    Returns:
        on rank 0 that of every rank, elsewhere nothing.

    Raises:
        PeerTimeout, PeerFailed: see `GroupWork.wait`.
    """
    read = np.zeros(1, np.int64)
    if group.rank:
        for _ in range(_ROUNDS):
            group.receive(read, 0, _TAG).wait()
            read[0] = clock()
            group.send(read, 0, _TAG).wait()
        return []
    return [ClockOffset(0, 0), *(_offset_of(group, rank, read, clock) for rank in range(1, group.size))]


def _offset_of(group: ProcessGroup, rank: int, read: np.ndarray, clock: Callable[[], int]) -> ClockOffset:
    rounds = []
    for _ in range(_ROUNDS):
        asked = clock()
        group.send(read, rank, _TAG).wait()
        group.receive(read, rank, _TAG).wait()
        told = clock()
        rounds.append((told - asked, int(read[0]) - (asked + told) // 2))
    trip, ahead = min(rounds)
    return ClockOffset(ahead, trip // 2 + 1)
