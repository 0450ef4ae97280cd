"""One broadcast for variables that one device sends at the same time (G-13)."""

from __future__ import annotations

from workbench.framework.values.spec import DENSE
from workbench.graph.passes.rewrite import NodePositions, join
from workbench.graph.ssa import BROADCAST, FUSED_BROADCAST, Graph, Node


class FuseBroadcast:
    """Joins broadcasts from one device where the last of them stood, unless something needs one before."""

    name = "fuse_broadcast"
    exact = True

    def __call__(self, graph: Graph) -> bool:
        by_root: dict[int, list[Node]] = {}
        for node in graph.nodes:
            if node.type == BROADCAST and node.reads[0].spec.kind == DENSE:
                by_root.setdefault(node.attrs["root"], []).append(node)
        positions = NodePositions(graph, (node for nodes in by_root.values() for node in nodes))
        runs = [run for nodes in by_root.values() for run in positions.runs(nodes) if len(run) > 1]
        return join(graph, [(run, _joined(run)) for run in runs])


def _joined(members: list[Node]) -> Node:
    first = members[0]
    return Node(
        FUSED_BROADCAST,
        first.places,
        [node.inputs[0] for node in members],
        [node.outputs[0] for node in members],
        {"names": [node.attrs["name"] for node in members], "root": first.attrs["root"]},
        first.role,
        [op for node in members for op in node.origins],
    )
