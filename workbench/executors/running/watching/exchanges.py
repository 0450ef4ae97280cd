"""When collectives of a step took place: what they waited for, and how long they took themselves.

A collective that is a call of its own has the time of that call. Where one call does other work, too - kernels that
join rows, updates that take the sums over the devices as they go - it has a share of its time, by the bytes moved.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from workbench.executors.lowering.binding import Binding
from workbench.executors.planning.plan import Row
from workbench.executors.running.watching.stamps import Span
from workbench.graph.ssa import Node, Uses


class Exchange(NamedTuple):
    """Collectives of one kind that took place together; times in ns.

    Attributes:
        within_ops: whether its time is part of that of ops.
        arrived: per device of the first, when what it contributes had been made; never after the start.
    """

    rows: list[Row]
    thread: int
    start: int
    end: int
    within_ops: bool
    arrived: tuple[int, ...]


class Exchanges:
    """The collectives of one binding."""

    def __init__(self, binding: Binding) -> None:
        plan, fused = binding.plan, binding.reductions
        uses = Uses(plan.graph.nodes)
        self._rows = {row.node: row for row in (*plan.rows, *plan.commit) if row.node.is_collective}
        self._makers = {
            node: [[uses.writer.get(v, node) for v in node.reads if v.place == place] for place in node.places]
            for node in self._rows
        }
        self._fused = fused.collectives
        self._taken = {
            node: [self._rows[c] for c in dict.fromkeys(uses.writer.get(v) for v in node.reads) if c in self._fused]
            for node in fused.updates
        }  # by update, the collectives of which it takes the sums

    def of(self, spans: Sequence[Span], begun: int) -> Iterator[Exchange]:
        """Those of a step that began at a moment, by when its rows ran."""
        if not self._rows:
            return
        ran = [span for span in spans if not span.awaited]
        ends = {row.node: span.end for span in ran for row in span.rows}
        slots_of: dict[tuple[Node, int], list[tuple[int, int]]] = {}
        for span in ran:
            for kind in dict.fromkeys(row.node.type for row in span.rows if self._is_its_own(row)):
                yield self._of_span(span, kind, ends, begun)
            for row, start, end in self._taken_in(span):
                slots_of.setdefault((row.node, span.thread), []).append((start, end))
        for node in dict.fromkeys(node for node, _ in slots_of):
            yield self._of_updates(self._rows[node], slots_of, ends, begun)

    def _is_its_own(self, row: Row) -> bool:
        return row.node.is_collective and row.node not in self._fused

    def _of_span(self, span: Span, kind: str, ends: Mapping[Node, int], begun: int) -> Exchange:
        """The collectives of a kind that one call does."""
        rows = [row for row in span.rows if row.node not in self._fused]
        slots = [slot for slot in _shares(span, [(row, row.cost.bytes) for row in rows]) if slot[0].node.type == kind]
        start, end = slots[0][1], slots[-1][2]
        own = [row for row, _, _ in slots]
        within = not all(row.node.is_collective for row in rows)
        return Exchange(own, span.thread, start, end, within, self._arrived(own[0].node, ends, start, begun))

    def _taken_in(self, span: Span) -> Iterator[tuple[Row, int, int]]:
        """The collectives whose sums are taken by the updates of a span, with their shares of its time."""
        if not any(row.node in self._taken for row in span.rows):
            return
        parts = []
        for row in span.rows:
            parts += [(c, contribution(c) * (len(c.node.places) - 1)) for c in self._taken.get(row.node, ())]
            parts.append((row, row.cost.bytes))
        yield from (share for share in _shares(span, parts) if share[0].node in self._fused)

    def _of_updates(
        self,
        row: Row,
        slots_of: Mapping[tuple[Node, int], Sequence[tuple[int, int]]],
        ends: Mapping[Node, int],
        begun: int,
    ) -> Exchange:
        """A collective that threads do part by part; threads do so at the same time."""
        by_thread = {thread: slots for (node, thread), slots in slots_of.items() if node is row.node}
        start = min(slots[0][0] for slots in by_thread.values())
        lasts = max(sum(b - a for a, b in slots) for slots in by_thread.values())
        arrived = self._arrived(row.node, ends, start, begun)
        return Exchange([row], min(by_thread), start, start + lasts, True, arrived)

    def _arrived(self, node: Node, ends: Mapping[Node, int], start: int, begun: int) -> tuple[int, ...]:
        makers = self._makers[node]
        return tuple(
            min(start, max((ends[m] for m in own if m is not node and m in ends), default=begun)) if own else start
            for own in makers
        )


def _shares(span: Span, parts: Sequence[tuple[Row, int]]) -> Iterator[tuple[Row, int, int]]:
    """The time of a span divided among rows in proportion to numbers."""
    whole = sum(number for _, number in parts) or 1
    done, lasts = 0, span.end - span.start
    for row, number in parts:
        yield row, span.start + lasts * done // whole, span.start + lasts * (done + number) // whole
        done += number


def contribution(row: Row) -> int:
    """Bytes one device contributes to a collective."""
    return sum(ref.nbytes for refs in row.ins for ref in refs[:1] if ref is not None)
