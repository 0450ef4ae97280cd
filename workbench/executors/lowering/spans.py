"""Spans: rows of a plan, one after the other, of which some have sizes that are known only when the step is there.

They are no calls of their own, but run as a stretch (`lowering.stretches`): in kernels, at the sizes they then have.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

import numpy as np

from workbench.errors import ExecutionError
from workbench.executors.lowering.operands import Cell, Context, RunsNodes, objects_of
from workbench.executors.lowering.tape.registry import rule_of
from workbench.executors.planning.plan import Row
from workbench.framework.values.spec import DENSE
from workbench.graph.ssa import FETCH, FUSED_ELEMENTWISE, Node, Uses, Value

Span = Sequence[Row]


def find_spans(rows: Sequence[Row], begins_anew: Callable[[Row], bool]) -> list[Span]:
    """The spans among the rows of a thread.

    Args:
        begins_anew: whether a row is in no span with those in front of it.
    """
    spans: list[list[Row]] = []
    span: list[Row] = []
    open_end = 0  # up to the last row whose sizes are unknown
    for row in rows:
        fits = _only_makes_arrays(row.node)
        if not fits or (span and begins_anew(row)):
            spans.append(span[:open_end])
            span, open_end = [], 0
        if fits and (span or _reads_unknown(row)):
            span.append(row)
            if next(objects_of(row), None) is not None:
                open_end = len(span)
    spans.append(span[:open_end])
    return [span for span in spans if any(rule_of(row.node) is not None for row in span)]


def _only_makes_arrays(node: Node) -> bool:
    """Whether a node makes arrays of arrays, and nothing else."""
    if not (node.is_op and set(node.record.needs) <= {"wanted"}) and node.type != FUSED_ELEMENTWISE:
        return False
    is_dense = all(value.spec.kind == DENSE for value in (*node.reads, *node.writes))
    return is_dense and not any(value.persistable for value in node.writes)


def _reads_unknown(row: Row) -> bool:
    read = set(row.node.reads)
    return any(value in read for value in objects_of(row))


class SpanCall:
    """The call that runs a span.

    Args:
        kept: what is looked at when the step has run.
    """

    def __init__(self, span: Span, context: Context, kept: Collection[Value]) -> None:
        assert context.stretches is not None and context.graph is not None
        nodes = [row.node for row in span]
        own, uses = set(nodes), Uses(context.graph.nodes)
        wanted = [
            value
            for node in nodes
            for value in node.writes
            if value in kept or any(reader not in own or reader.type == FETCH for reader in uses.readers_of(value))
        ]
        self._stretch: RunsNodes = context.stretches.of_nodes(context.graph, nodes, wanted)
        unknown = {value for row in span for value in objects_of(row)}

        def place_of(value: Value) -> Any:
            return context.cell(value) if value in unknown else context.array(value)

        self._ins = [_read_only(place_of(value)) for value in self._stretch.reads]
        self._outs = [(value, place_of(value)) for value in wanted]

    def __call__(self) -> None:
        given = [place.value if isinstance(place, Cell) else place for place in self._ins]
        for (value, place), result in zip(self._outs, self._stretch.run(given, _nothing_else), strict=True):
            if isinstance(place, Cell):
                place.value = result
                continue
            if result.shape != place.shape:
                raise ExecutionError(f"{value} has the shape {list(result.shape)}, and was to have {list(place.shape)}")
            np.copyto(place, result, casting="same_kind")


def _read_only(place: Any) -> Any:
    """What ops, and those of users among them, are given of the step's own memory: nobody writes there."""
    if isinstance(place, Cell):
        return place
    seen = place.view()
    seen.flags.writeable = False
    return seen


def _nothing_else(node: Node) -> dict[str, Any]:
    """The ops of spans need nothing but arrays."""
    return {}
