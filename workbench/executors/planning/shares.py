"""Which nodes several threads do together, where a step is one chain of nodes and some of them are large.

All other nodes are the first thread's. A shared node is divided into blocks, which threads take one after the other;
before the next node begins, all of them are done. Results that nobody reads for a while (`late`) are another thread's
to make, while the first one goes on. Memory is that of one thread, but for what such results are made of, and results
are the same: kernels compute the same bits however their rows are divided (`runtime.division`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from operator import attrgetter
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from workbench.executors.planning.late import LateResults, due_at, share_of_late
from workbench.executors.planning.schedule import (
    CALL,
    MARGIN,
    NATIVE_CALL,
    Schedule,
    alone,
    available,
    seconds,
    shared_schedule,
)
from workbench.framework.op.record import Cost
from workbench.graph.ssa import Node

BLOCK = 1e-5  # seconds of the least block: a smaller one costs more to hand out than it saves
LEAST = 1 << 14  # bytes a block moves: less does not divide
BLOCKS = 2  # of a thread: who is held up leaves some to others
LATE = 1e-6  # seconds of work that is left to another thread, at least
LEAVING = 2e-7  # until it has been told
MEETING = 1e-6  # until a thread has begun with blocks, or has seen that another one is done
START = 4e-5  # a step of several threads is no single call


@dataclass(frozen=True)
class Shares:
    """What threads share.

    Attributes:
        blocks: into how many every shared node is divided, at most. threads: how many take them.
        late: the results that others make while the first thread goes on, in the order of the schedule.
    """

    blocks: Mapping[Node, int]
    threads: int = 1
    late: LateResults = field(default_factory=dict)

    @cached_property
    def due(self) -> Mapping[Node, Node]:
        """By node with late results, which are there before it begins, the node they are of."""
        return {at: node for node, at in due_at(self.late).items()}


NO_SHARES = Shares({})


def arrange(
    nodes: Sequence[Node],
    before: Mapping[Node, Sequence[Node]],
    costs: Mapping[Node, Cost],
    num_threads: int,
    native: Collection[Node] = (),
    late: LateResults = MappingProxyType({}),
) -> tuple[Schedule, Shares]:
    """The schedule of nodes that stand in an admissible order, and which of them are shared.

    Threads have nodes of their own, or share them, or there is but one: whatever is quickest.

    Args:
        before: the nodes each one has to wait for.
        num_threads: at most so many threads.
        native: the nodes that run in kernels.
        late: results that may be made late.
    """
    work, moved = (np.array([of(costs[node]) for node in nodes]) for of in (seconds, attrgetter("bytes")))
    is_native, lateness = np.array([node in native for node in nodes], bool), np.array(share_of_late(nodes, late))
    shared = share(work, moved, is_native, lateness, num_threads)
    limit = float("inf") if shared is None else shared.seconds / MARGIN
    schedule = shared_schedule(nodes, before, costs, num_threads, native, limit)
    if schedule is not None or shared is None:
        return schedule or alone(nodes, before), NO_SHARES
    blocks = {node: count for node, count in zip(nodes, shared.blocks.tolist(), strict=True) if count > 1}
    left = {node for node, is_late in zip(nodes, shared.late.tolist(), strict=True) if is_late}
    schedule = alone(nodes, before)
    return schedule, Shares(blocks, shared.threads, {node: late[node] for node in schedule.order if node in left})


class Shared(NamedTuple):
    """Blocks of every node, which of them have late results, threads, and seconds the step takes then."""

    blocks: np.ndarray
    late: np.ndarray
    threads: int
    seconds: float


def share(
    work: np.ndarray, moved: np.ndarray, native: np.ndarray, lateness: np.ndarray, num_threads: int
) -> Shared | None:
    """How nodes are divided; None where one thread is about as quick.

    Args:
        work: seconds of every node. moved: bytes it reads and writes. native: whether it runs in kernels.
        lateness: how much of its work makes late results, 0 … 1.
    """
    most = available(num_threads)
    if most == 1:
        return None
    least = np.minimum(work // BLOCK, moved // LEAST)
    blocks = np.where(native, np.maximum(np.minimum(least, BLOCKS * most), 1), 1)
    threads = np.minimum(blocks, most)
    undivided = threads == 1
    left = lateness * work * undivided
    left[left < LATE] = 0
    in_kernels = int(np.count_nonzero(native))
    calls = NATIVE_CALL * in_kernels + CALL * (len(native) - in_kernels)
    meetings = float(threads.sum()) - float(np.count_nonzero(undivided))
    total = float((work / threads).sum()) + MEETING * meetings + calls
    total -= _saved_by(left, float((work - left)[undivided].sum()) * (most - 1), most)
    if total + START > MARGIN * (float(work.sum()) + calls):
        return None
    return Shared(blocks.astype(np.intp), left > 0, max(int(threads.max()), 1 + bool(left.any())), total)


def _saved_by(left: np.ndarray, idle: float, threads: int) -> float:
    """Seconds a step is shorter because of what is left to others; more than they have time for they all share.

    Args:
        left: seconds of every node. idle: seconds in which others have nothing else to do.
    """
    whole = float(left.sum())
    return whole - max(0.0, whole - idle) / threads - LEAVING * np.count_nonzero(left)
