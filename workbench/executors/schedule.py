"""Which thread runs which node, and in which order.

The order is decided when a plan is made, from estimated costs, and never changes; results do not depend on it. In
Python a value handed from one thread to another costs some 45 us, and small calls of two threads wait for each
other's interpreter lock; so cheap graphs run on one thread, and chains stay where they are.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from workbench.framework.op import Cost
from workbench.graph.ssa import Node
from workbench.runtime.devices import processors

FLOPS = 1e11  # per second and thread, for estimates only
BYTES = 2e10
CALL = 2e-6  # seconds a node takes however small it is
CONTENTION = 6e-6  # seconds a node of many threads waits for the interpreter
HAND_OFF = 5e-5  # seconds until another thread sees a result
MARGIN = 0.85  # several threads have to be this much faster to be worth it


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


def make_schedule(
    nodes: Sequence[Node], before: Mapping[Node, Sequence[Node]], costs: Mapping[Node, Cost], num_threads: int
) -> Schedule:
    """The schedule of nodes that stand in an admissible order.

    Args:
        before: the nodes each one has to wait for.
        num_threads: at most so many threads; two are used even on one processor, for ops that wait.
    """
    alone = Schedule(tuple(_by_device(nodes, before)), dict.fromkeys(nodes, 0), 1)
    threads = min(num_threads, max(processors(), 2))
    work = {node: seconds(costs[node]) for node in nodes}
    if threads < 2 or sum(work.values()) < 4 * HAND_OFF:
        return alone
    shared, makespan = _list_schedule(nodes, before, work, threads)
    alone_takes = sum(work.values()) + CALL * len(nodes)
    return shared if makespan + HAND_OFF < MARGIN * alone_takes else alone


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


def _list_schedule(
    nodes: Sequence[Node], before: Mapping[Node, Sequence[Node]], work: Mapping[Node, float], threads: int
) -> tuple[Schedule, float]:
    """Every node on the thread where it can start first; among those that can, the one with most work behind it."""
    after: dict[Node, list[Node]] = {node: [] for node in nodes}
    waiting = {node: len(before.get(node, ())) for node in nodes}
    for node in nodes:
        for other in before.get(node, ()):
            after[other].append(node)
    takes = {node: work[node] + CALL + CONTENTION for node in nodes}
    behind: dict[Node, float] = {}
    for node in reversed(nodes):
        behind[node] = takes[node] + max((behind[n] for n in after[node]), default=0.0)
    number = {node: i for i, node in enumerate(nodes)}
    ready = [(-behind[n], number[n], n) for n in nodes if not waiting[n]]
    heapq.heapify(ready)
    free = [0.0] * threads
    ends: dict[Node, float] = {}
    starts: dict[Node, float] = {}
    thread: dict[Node, int] = {}
    while ready:
        _, _, node = heapq.heappop(ready)
        begin, where = min(
            (max([free[t], *(ends[n] + (HAND_OFF if thread[n] != t else 0.0) for n in before.get(node, ()))]), t)
            for t in range(threads)
        )
        thread[node], starts[node], ends[node] = where, begin, begin + takes[node]
        free[where] = ends[node]
        for follower in after[node]:
            waiting[follower] -= 1
            if not waiting[follower]:
                heapq.heappush(ready, (-behind[follower], number[follower], follower))
    order = sorted(nodes, key=lambda n: (starts[n], number[n]))
    return Schedule(tuple(order), thread, threads), max(free)
