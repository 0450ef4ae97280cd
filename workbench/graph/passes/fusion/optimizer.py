"""One update for all parameters that are updated by the same rule."""

from __future__ import annotations

from collections.abc import Hashable

from workbench.framework.values.spec import DENSE
from workbench.graph.passes.coalesce import in_order_of_travel
from workbench.graph.passes.rewrite import NodePositions, join
from workbench.graph.ssa import FUSED_UPDATE, Graph, Node, Slot, Value, is_update

SHARED = "LearningRate"  # the slot whose value has to be the same
GRADIENT = "Grad"


class FuseOptimizer:
    """Joins updates of one type on one device with equal attributes, learning rate and dtypes.

    Sparse gradients stay alone, and so do variables of unknown size, and an update whose result is needed before the
    last of its group.
    """

    name = "fuse_optimizer"
    exact = True

    def __call__(self, graph: Graph) -> bool:
        by_kind: dict[Hashable, list[Node]] = {}
        for node in graph.nodes:
            if _can_join(node):
                by_kind.setdefault(_kind(node), []).append(node)
        positions = NodePositions(graph, (node for nodes in by_kind.values() for node in nodes))
        runs = [run for nodes in by_kind.values() for run in positions.runs(nodes) if len(run) > 1]
        if graph.settings.num_trainers > 1:
            return join(graph, [(run, _joined(_as_they_travel(graph, run))) for run in runs])
        return join(graph, [(run, _joined(run)) for run in runs])


def _can_join(node: Node) -> bool:
    if node.type == FUSED_UPDATE or not is_update(node):
        return False
    slots = (*node.inputs, *node.outputs)
    return all(slot is None or _is_plain(slot) for slot in slots) and not node.record.needs


def _is_plain(slot: Slot) -> bool:
    return isinstance(slot, Value) and slot.spec.kind == DENSE and -1 not in slot.spec.shape


def _kind(node: Node) -> Hashable:
    """What updates have in common that can be joined."""
    slots = zip(node.record.inputs, node.inputs, strict=True)
    shape = tuple(_trait(slot.name, value) for slot, value in slots)
    absent = tuple(slot is None for slot in node.outputs)
    return node.type, node.places, node.role, repr(sorted(node.attrs.items())), shape, absent


def _trait(slot: str, value: Slot) -> Hashable:
    if value is None:
        return None
    return value if slot == SHARED else value.spec.dtype


def _as_they_travel(graph: Graph, members: list[Node]) -> list[Node]:
    """In the order in which gradients are summed over processes: those that travel together lie one after the other."""
    order = in_order_of_travel(graph)

    def number(node: Node) -> int:
        slots = zip(node.record.inputs, node.inputs, strict=True)
        gradient = next((value for slot, value in slots if slot.name == GRADIENT), None)
        return order.get(gradient, len(order)) if isinstance(gradient, Value) else len(order)

    return sorted(members, key=number)


def _joined(members: list[Node]) -> Node:
    first = members[0]
    return Node(
        FUSED_UPDATE,
        first.places,
        [_column(slots) for slots in zip(*(node.inputs for node in members), strict=True)],
        [_column(slots) for slots in zip(*(node.outputs for node in members), strict=True)],
        {"update": first.type, "attrs": dict(first.attrs)},
        first.role,
        [op for node in members for op in node.origins],
    )


def _column(values: tuple[Slot, ...]) -> Slot:
    return None if values[0] is None else list(values)
