"""Values that are recomputed for the backward pass are computed when it comes to them, not before."""

from __future__ import annotations

from workbench.autodiff.recompute import AFTER
from workbench.graph.ssa import Graph, Node


class RecomputeLate:
    """Ordering edges from the gradients that stand before recomputed operators in the program.

    All a copy reads is there from the forward pass on; made then, what is recomputed would take the memory that is to
    be saved.
    """

    name = "recompute_late"
    exact = True

    def __call__(self, graph: Graph) -> bool:
        notes = graph.program.attributes.get(AFTER)
        if not notes:
            return False
        writer = {(value.name, value.place): node for node in graph.nodes for value in node.writes}
        changed = False
        for node in graph.nodes:
            before = {writer.get((notes[v.name], v.place)) for v in node.writes if v.name in notes}
            changed |= _come_after(node, before)
        return changed


def _come_after(node: Node, before: set[Node | None]) -> bool:
    added = [other for other in before if other is not None and other is not node and other not in node.after]
    node.after.extend(added)
    return bool(added)
