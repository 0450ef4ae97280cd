"""Which nodes several threads do together, where a step is one chain of nodes and some of them are large.

All other nodes are the first thread's. A shared node is divided into blocks, which threads take one after the other;
before the next node begins, all of them are done. So memory is that of one thread, and so are results: kernels compute
the same bits however their rows are divided (`runtime.reach.divide`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import NamedTuple

import numpy as np

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
MEETING = 1e-6  # until a thread has begun with blocks, or has seen that another one is done
START = 4e-5  # a step of several threads is no single call


@dataclass(frozen=True)
class Shares:
    """What threads share.

    Attributes:
        blocks: into how many every shared node is divided, at most. threads: how many take them.
    """

    blocks: Mapping[Node, int]
    threads: int = 1


NO_SHARES = Shares({})


def arrange(
    nodes: Sequence[Node],
    before: Mapping[Node, Sequence[Node]],
    costs: Mapping[Node, Cost],
    num_threads: int,
    native: Collection[Node] = (),
) -> tuple[Schedule, Shares]:
    """The schedule of nodes that stand in an admissible order, and which of them are shared.

    Threads have nodes of their own, or share them, or there is but one: whatever is quickest.

    Args:
        before: the nodes each one has to wait for.
        num_threads: at most so many threads.
        native: the nodes that run in kernels.
    """
    work, moved = (np.array([of(costs[node]) for node in nodes]) for of in (seconds, attrgetter("bytes")))
    shared = share(work, moved, np.array([node in native for node in nodes], bool), num_threads)
    limit = float("inf") if shared is None else shared.seconds / MARGIN
    schedule = shared_schedule(nodes, before, costs, num_threads, native, limit)
    if schedule is not None or shared is None:
        return schedule or alone(nodes, before), NO_SHARES
    blocks = {node: count for node, count in zip(nodes, shared.blocks.tolist(), strict=True) if count > 1}
    return alone(nodes, before), Shares(blocks, shared.threads)


class Shared(NamedTuple):
    """Blocks of every node, threads that take them, and seconds the step takes then."""

    blocks: np.ndarray
    threads: int
    seconds: float


def share(work: np.ndarray, moved: np.ndarray, native: np.ndarray, num_threads: int) -> Shared | None:
    """How nodes are divided; None where one thread is about as quick.

    Args:
        work: seconds of every node. moved: bytes it reads and writes. native: whether it runs in kernels.
    """
    most = available(num_threads)
    least = np.minimum(work // BLOCK, moved // LEAST)
    blocks = np.where(native, np.clip(least, 1, BLOCKS * most), 1).astype(np.intp)
    threads = np.minimum(blocks, most)
    calls = float(np.where(native, NATIVE_CALL, CALL).sum())
    total = float((work / threads + np.where(threads > 1, MEETING * threads, 0)).sum()) + calls
    if total + START > MARGIN * (float(work.sum()) + calls):
        return None
    return Shared(blocks, int(threads.max()), total)
