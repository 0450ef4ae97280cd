"""Which values are replicated and what each device has of its own, worked out from the graph.

Devices begin with the same parameters and stay together because their gradients are joined before the update. What a
device changes by what only it has computed - from its rows, or its random numbers - becomes its own: the statistics
of a batch norm that is not synchronised.
"""

from __future__ import annotations

from workbench.graph.ssa import COLLECTIVES, FETCH, SCALE_LOSS_GRAD, Graph, Node, Value, values_of


def own_variables(graph: Graph) -> set[str]:
    """Names of the persistable variables in which devices are expected to differ after some steps."""
    own: set[str] = set()
    while True:
        written = _written_apart(graph, own)
        if written <= own:
            return own
        own |= written


def _written_apart(graph: Graph, own: set[str]) -> set[str]:
    """Persistable variables that get values of one device's own, if those in `own` already have such values."""
    written: set[Value] = set()
    apart: set[Value] = set()
    for node in graph.nodes:
        if node.type == FETCH:
            continue
        reads = [v for v in node.value_reads if v in apart or (v not in written and _begins_apart(v, own))]
        if node.type not in COLLECTIVES and (reads or _makes_its_own(node)):
            apart.update(_of_its_own(node))
        written.update(node.writes)
    return {value.name for value in apart if value.persistable}


def _begins_apart(value: Value, own: set[str]) -> bool:
    return value.name in own if value.persistable else True


def _makes_its_own(node: Node) -> bool:
    if node.type == SCALE_LOSS_GRAD:
        return bool(node.attrs["strategy"] == "WeightedBySamples")
    return node.is_op and node.record.draws(node.attrs)


def _of_its_own(node: Node) -> list[Value]:
    """What a node writes of what only its device has."""
    if not node.is_op or not node.record.replicated:
        return node.writes
    slots = zip(node.record.outputs, node.outputs, strict=True)
    return list(values_of(value for slot, value in slots if slot.name not in node.record.replicated))
