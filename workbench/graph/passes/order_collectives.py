"""The collectives one after the other, in an order that every trainer finds by itself (G-41, G-55)."""

from __future__ import annotations

from itertools import pairwise

from workbench.graph.order import add_hazard_edges, levels, topological, writers
from workbench.graph.ssa import Graph, Node


class OrderCollectives:
    """Chains the collectives with ordering edges: level by level, within a level by name, descending.

    A node's level is how many nodes have to run before it, one after the other. Names are compared as text, and a
    joined collective has that of its first variable.
    """

    name = "order_collectives"
    exact = True

    def __call__(self, graph: Graph) -> bool:
        collectives = graph.collectives()
        if len(collectives) < 2:
            return False
        add_hazard_edges(graph)
        level = levels(graph)
        chain = sorted(sorted(collectives, key=_first_name, reverse=True), key=level.__getitem__)
        changed = _chain(chain)
        if chain != collectives:
            graph.nodes = topological(graph)
        return changed


def _first_name(node: Node) -> str:
    return node.reads[0].name


def _chain(collectives: list[Node]) -> bool:
    writer = writers(collectives)
    changed = False
    for before, node in pairwise(collectives):
        if before not in node.after and before not in {writer.get(value) for value in node.reads}:
            node.after.append(before)
            changed = True
    return changed
