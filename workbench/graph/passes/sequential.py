"""Every device runs its nodes in the order of the program."""

from __future__ import annotations

from workbench.graph.order import writers
from workbench.graph.ssa import Graph, Node


class Sequential:
    """Chains the nodes of each device with ordering edges, in the order in which they stand."""

    name = "sequential"
    exact = True

    def __call__(self, graph: Graph) -> bool:
        writer = writers(graph.nodes)
        last: dict[int, Node] = {}
        changed = False
        for node in graph.nodes:
            direct = {writer.get(value) for value in node.reads}
            for before in dict.fromkeys(last[place] for place in node.places if place in last):
                if before not in direct and before not in node.after:
                    node.after.append(before)
                    changed = True
            last.update(dict.fromkeys(node.places, node))
        return changed
