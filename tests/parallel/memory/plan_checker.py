"""Is the memory of a plan safe? Liveness and order are worked out again from graph, schedule and memory alone.

A value is *made* by its node, or is a view of another one; values that are views of each other hold the same content,
that of their *origin*. The content has to stay from where it is made to the last node that reads one of its views; so
everything that is made in memory that overlaps it comes after all those readers, or all its own readers come before.
"Comes after" is what threads and flags enforce, not where a node stands in the schedule.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from workbench.executors.planning.memory.refs import Ref, Root
from workbench.executors.planning.plan import Plan
from workbench.graph.ssa import ALL_REDUCE, FUSED_ALL_REDUCE, FUSED_ELEMENTWISE, Node, Value

Interval = tuple[int, int]


def check_plan(plan: Plan, idle: Collection[Node] = ()) -> None:
    """Raise AssertionError naming two values of which one may be written over while the other is still needed.

    Args:
        idle: nodes whose work the commit does, reading what they read.
    """
    _Checker(plan, idle).check()


def happens_before(plan: Plan) -> tuple[dict[Node, int], dict[Node, int]]:
    """What threads and flags enforce, of the nodes of the speculation.

    Returns:
        per node the set, as bits, of the nodes that have ended when it begins; and which bit is whose.
    """
    checker = _Checker(plan, ())
    return checker.before, checker.number


class _Checker:
    def __init__(self, plan: Plan, idle: Collection[Node]) -> None:
        self.plan, self.waits = plan, plan.waits_without(idle)
        self.rows = [row for row in plan.rows if row.node not in idle]
        self.order = [row.node for row in self.rows]
        self.number = {node: i for i, node in enumerate(self.order)}
        self.before = self._happens_before()
        self.writer = {v: node for node in plan.graph.nodes for v in node.writes}
        unmade = {v for node in idle for v in node.writes}
        self.values = [
            v for v in plan.graph.values() if v in plan.refs and not plan.refs[v].root.name and v not in unmade
        ]
        self.origin = {v: self._origin(v) for v in self.values}
        self.end = 1 << len(self.order)  # the bit of "when everything has run"
        self.uses = self._uses()

    def check(self) -> None:
        for value in self.values:
            self._check_inside(value)
        self._check_order()
        groups: dict[int, list[Value]] = {}
        for value in self.values:
            groups.setdefault(value.place, []).append(value)
        for values in groups.values():
            for origin in values:
                if self.origin[origin] is origin:
                    for other in values:
                        if self.origin[other] is not origin and _overlap(self._span(origin), self._span(other)):
                            self._check_pair(origin, other)

    # What comes before what

    def _happens_before(self) -> dict[Node, int]:
        """Per node the set, as bits, of the nodes that have ended when it begins."""
        before: dict[Node, int] = {}
        last: dict[int, Node] = {}
        for row in self.rows:
            earlier = [*self.waits.get(row.node, []), *([last[row.thread]] if row.thread in last else [])]
            bits = 0
            for node in earlier:
                if node in self.number:
                    assert node in before, f"{row.node} waits for {node}, which is begun later: a deadlock"
                    bits |= before[node] | 1 << self.number[node]
            before[row.node] = bits
            last[row.thread] = row.node
        return before

    def _check_order(self) -> None:
        """Every node runs after those whose values it reads."""
        for node in self.order:
            for value in node.reads:
                writer = self.writer.get(value)
                if writer is not None:
                    assert writer in self.number, f"{node} reads {value}, which only the commit makes"
                    assert self.before[node] >> self.number[writer] & 1, f"{node} does not wait for {writer}"

    # Values

    def _origin(self, value: Value) -> Value:
        """The value whose content this one is, seen differently."""
        while value in self.plan.aliases:
            node = self.writer[value]
            mine = self.plan.refs[value]
            sources = [v for v in node.value_reads if v in self.plan.refs and self.plan.refs[v].root is mine.root]
            assert node.record.is_view or node.record.is_elementwise, f"{value} cannot look at anything"
            assert sources, f"{value} looks at nothing"
            value = sources[0]
        return value

    def _uses(self) -> dict[Value, int]:
        """Per origin the nodes, as bits, that need its content, the one that makes it included."""
        uses = dict.fromkeys(self.values, 0)
        for node in self.plan.graph.nodes:
            bit = 1 << self.number[node] if node in self.number else self.end
            for value in {*node.value_reads, *node.writes}:
                if value in uses:
                    uses[self.origin[value]] |= bit
        for value in (*self.plan.staged, *(v for v in self.plan.feeds if v.persistable)):
            if value in uses:
                uses[self.origin[value]] |= self.end
        return uses

    def _span(self, value: Value) -> Interval:
        """The bytes from the first to the last element."""
        return _span(self.plan.refs[value])

    # Checks

    def _check_inside(self, value: Value) -> None:
        start, end = self._span(value)
        assert start >= 0 and end <= self.plan.sizes[value.place], f"{value} lies outside the arena"

    def _check_pair(self, new: Value, other: Value) -> None:
        """The content that begins with `new` against the one of `other`."""
        old = self.origin[other]
        if self._is_over(old, new) or self._is_over(new, old):
            return
        raise AssertionError(f"{new} and {other} (that is {old}) share memory while both are needed\n{self.plan}")

    def _is_over(self, old: Value, new: Value) -> bool:
        """Whether nobody needs `old` any more when `new` begins to be written."""
        writer = self.writer.get(new)
        if writer is None:
            return False  # a feed, there from the beginning
        needed = self.uses[old]
        if writer in self.number and _in_place(writer, old, new, self.plan, self.origin):
            needed &= ~(1 << self.number[writer])
        return writer in self.before and not needed & ~self.before[writer]


def _in_place(node: Node, old: Value, new: Value, plan: Plan, origin: dict[Value, Value]) -> bool:
    """Whether a node may write `new` over an input: element by element where the input has the same elements."""
    mine = plan.refs[new]
    if node.type in (ALL_REDUCE, FUSED_ALL_REDUCE):
        parts, results = node.reads, node.writes
        return any(r is new and origin[p] is old for p, r in zip(parts, results, strict=True))
    if node.type != FUSED_ELEMENTWISE and not (node.is_op and node.record.is_elementwise):
        return False
    shared = [plan.refs[v] for v in node.value_reads if v in plan.refs and origin.get(v) is old]
    return bool(shared) and all(_same(mine, ref) or not _overlap(_span(mine), _span(ref)) for ref in shared)


def _same(a: Ref, b: Ref) -> bool:
    return (a.root, a.offset, a.shape, a.strides, a.dtype) == (b.root, b.offset, b.shape, b.strides, b.dtype)


def _span(ref: Ref) -> Interval:
    start = ref.root.offset + ref.offset
    if not np.prod(ref.shape, dtype=int):
        return start, start
    reach = [(dim - 1) * step for dim, step in zip(ref.shape, ref.strides, strict=True)]
    return start + sum(r for r in reach if r < 0), start + sum(r for r in reach if r > 0) + ref.dtype.itemsize


def _overlap(a: Interval, b: Interval) -> bool:
    return a[0] < b[1] and b[0] < a[1]


def with_memory(plan: Plan, **changes: Any) -> Plan:
    """A plan of which some stage of its memory is different."""
    return replace(plan, memory=replace(plan.memory, **changes))


def moved(plan: Plan, offset_of: Callable[[Root], int]) -> Plan:
    """A plan whose pieces of memory are at other offsets."""
    roots: dict[Root, Root] = {}

    def there(ref: Ref) -> Ref:
        offset = 0 if ref.root.name else offset_of(ref.root)
        return replace(ref, root=roots.setdefault(ref.root, replace(ref.root, offset=offset)))

    refs = {value: there(ref) for value, ref in plan.refs.items()}
    flats = tuple(None if ref is None else there(ref) for ref in plan.memory.flats)
    return with_memory(plan, refs=refs, flats=flats)


def sharing(plan: Plan) -> Iterator[tuple[Value, Value]]:
    """Pairs of values in the same memory; shows that a check had something to look at."""
    values = [v for v in plan.graph.values() if v in plan.refs and not plan.refs[v].root.name]
    for i, a in enumerate(values):
        for b in values[:i]:
            if a.place == b.place and _overlap(_span(plan.refs[a]), _span(plan.refs[b])):
                yield a, b
