"""One all-reduce for the gradients of a layer (G-42)."""

from __future__ import annotations

from workbench.graph.passes.coalesce import gradient_groups
from workbench.graph.passes.rewrite import NodePositions, join
from workbench.graph.ssa import FUSED_ALL_REDUCE, Graph, Node


class FuseAllReduce:
    """Joins the all-reduces of a group of gradients where the last of them stood; the sums stay what they were.

    Where something needs a reduced gradient before the last of its group is there, the group is cut.
    """

    name = "fuse_all_reduce"
    exact = True

    def __call__(self, graph: Graph) -> bool:
        groups = gradient_groups(graph)
        positions = NodePositions(graph, (node for group in groups for node in group))
        runs = [run for group in groups for run in positions.runs(group) if len(run) > 1]
        return join(graph, [(run, _joined(run)) for run in runs])


def _joined(members: list[Node]) -> Node:
    names = [node.attrs["name"] for node in members]
    return Node(
        FUSED_ALL_REDUCE,
        members[0].places,
        [node.inputs[0] for node in members],
        [node.outputs[0] for node in members],
        {"names": names, "bucket": f"@FUSEDVAR@@GRAD@{names[0]}"},
        members[0].role,
        [op for node in members for op in node.origins],
    )
