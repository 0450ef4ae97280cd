"""Which thread runs which node, and in which order.

The order is decided when a plan is made, from estimated costs, and never changes; results do not depend on it. In
Python a value handed from one thread to another costs some 45 us, and small calls of two threads wait for each
other's interpreter lock; so cheap graphs run on one thread, and chains stay where they are. Between compiled kernels
a hand-off costs less than a microsecond, but what is handed over has to move to another processor's cache.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from workbench.framework.op.record import Cost
from workbench.graph.ssa import FETCH, Node
from workbench.runtime.devices import processors

FLOPS = 1e11  # per second and thread, for estimates only
BYTES = 2e10
CALL = 2e-6  # seconds a node takes however small it is
CONTENTION = 6e-6  # seconds a node of many threads waits for the interpreter
HAND_OFF = 5e-5  # seconds until another thread sees a result
MARGIN = 0.85  # several threads have to be this much faster to be worth it
NATIVE_CALL = 1e-7  # the same for nodes that run in kernels
NATIVE_HAND_OFF = 5e-7
NATIVE_START = 2e-6  # until another thread, waiting in kernels, has begun


@dataclass(frozen=True)
class Schedule:
    """Nodes in order, with the thread of each.

    Attributes:
        order: all nodes, by the time they are expected to start.
        thread: of every node; 0 is the caller's.
        threads: how many there are.
    """

    order: tuple[Node, ...]
    thread: Mapping[Node, int]
    threads: int


def seconds(cost: Cost) -> float:
    """Estimated time of the arithmetic."""
    return cost.flops / FLOPS + cost.bytes / BYTES


def available(num_threads: int, least: int = 1) -> int:
    """Threads that can be at work at the same time."""
    return min(num_threads, max(processors(), least))


def alone(nodes: Sequence[Node], before: Mapping[Node, Sequence[Node]]) -> Schedule:
    """The schedule of nodes that stand in an admissible order, on one thread."""
    return Schedule(tuple(_by_device(nodes, before)), dict.fromkeys(nodes, 0), 1)


def shared_schedule(
    nodes: Sequence[Node],
    before: Mapping[Node, Sequence[Node]],
    costs: Mapping[Node, Cost],
    num_threads: int,
    native: Collection[Node] = (),
    limit: float = float("inf"),
) -> Schedule | None:
    """The schedule on several threads; None where one thread is as quick.

    Args:
        before: the nodes each one has to wait for.
        num_threads: at most so many threads. For ops in Python two are used even on one processor: some wait.
        native: the nodes that run in kernels.
        limit: seconds it has to stay below.
    """
    python = any(node not in native and node.type != FETCH for node in nodes)
    threads = available(num_threads, 2 if python else 1)
    work = {node: seconds(costs[node]) for node in nodes}
    start = HAND_OFF if python else NATIVE_START
    if threads < 2 or sum(work.values()) < 4 * start:
        return None
    bound = min(MARGIN * sum(work[n] + (NATIVE_CALL if n in native else CALL) for n in nodes) - start, limit)
    scheduling = _ListScheduling(nodes, before, work, costs, native)
    if scheduling.longest_chain() >= bound:
        return None  # no threads are quicker than that
    shared, makespan = scheduling.run(threads)
    return shared if makespan < bound else None


def _by_device(nodes: Sequence[Node], before: Mapping[Node, Sequence[Node]]) -> list[Node]:
    """One device after the other as far as it gets without the others: what it works on stays in the cache."""
    queues: dict[int, list[Node]] = {}
    for node in reversed(nodes):
        queues.setdefault(node.places[0] if len(node.places) == 1 else -1, []).append(node)
    done: set[Node] = set()
    order: list[Node] = []
    while len(order) < len(nodes):
        for place in sorted(queues, key=lambda p: (p < 0, p)):
            queue = queues[place]
            while queue and all(other in done for other in before.get(queue[-1], ())):
                done.add(queue[-1])
                order.append(queue.pop())
    return order


class _ListScheduling:
    """Every node on the thread where it can start first; among those that can, the one with most work behind it."""

    def __init__(
        self,
        nodes: Sequence[Node],
        before: Mapping[Node, Sequence[Node]],
        work: Mapping[Node, float],
        costs: Mapping[Node, Cost],
        native: Collection[Node],
    ) -> None:
        self.nodes, self.before, self.native = nodes, before, native
        self.takes = {n: work[n] + (NATIVE_CALL if n in native else CALL + CONTENTION) for n in nodes}
        self.moving = {n: costs[n].bytes / 2 / BYTES for n in nodes}  # what a kernel reads, from another cache
        self.thread: dict[Node, int] = {}
        self.ends: dict[Node, float] = {}

    def longest_chain(self) -> float:
        """The time of nodes of which each needs the one before it."""
        ends: dict[Node, float] = {}
        for node in self.nodes:
            ends[node] = self.takes[node] + max((ends[other] for other in self.before.get(node, ())), default=0.0)
        return max(ends.values(), default=0.0)

    def run(self, threads: int) -> tuple[Schedule, float]:
        """The schedule, and when its last node ends."""
        after: dict[Node, list[Node]] = {node: [] for node in self.nodes}
        waiting = {node: len(self.before.get(node, ())) for node in self.nodes}
        for node in self.nodes:
            for other in self.before.get(node, ()):
                after[other].append(node)
        behind: dict[Node, float] = {}
        for node in reversed(self.nodes):
            behind[node] = self.takes[node] + max((behind[n] for n in after[node]), default=0.0)
        number = {node: i for i, node in enumerate(self.nodes)}
        ready = [(-behind[n], number[n], n) for n in self.nodes if not waiting[n]]
        heapq.heapify(ready)
        free = [0.0] * threads
        starts: dict[Node, float] = {}
        while ready:
            _, _, node = heapq.heappop(ready)
            begin, where = self._earliest(node, free)
            self.thread[node], starts[node], self.ends[node] = where, begin, begin + self.takes[node]
            free[where] = self.ends[node]
            for follower in after[node]:
                waiting[follower] -= 1
                if not waiting[follower]:
                    heapq.heappush(ready, (-behind[follower], number[follower], follower))
        order = sorted(self.nodes, key=lambda n: (starts[n], number[n]))
        return Schedule(tuple(order), self.thread, threads), max(free)

    def _earliest(self, node: Node, free: Sequence[float]) -> tuple[float, int]:
        """When a node can begin, and on which of the threads, which are free from then on."""
        moving = HAND_OFF
        if node in self.native:
            moving = NATIVE_HAND_OFF + min(self.moving[node], self.takes[node])
        begins = list(free)
        for other in self.before.get(node, ()):
            end, there = self.ends[other], self.thread[other]
            moved = end + (moving if other in self.native else HAND_OFF)
            for thread, begin in enumerate(begins):
                ready = end if thread == there else moved
                if ready > begin:
                    begins[thread] = ready
        begin = min(begins)
        return begin, begins.index(begin)
