"""What comes behind branches and loops, whose results have no shape until they run."""

from __future__ import annotations

from workbench.graph.ssa import Graph, Node, Value, values_of


def behind_branches(graph: Graph) -> set[Node]:
    """What reads something a branch or loop had a part in: its shape may be unknown until it runs, and so its way."""
    behind: set[Node] = set()
    results: set[Value] = set()
    for node in graph.nodes:
        reads = any(v in results for v in values_of(node.inputs))
        if reads:
            behind.add(node)
        if reads or any(op.blocks() for op in node.origins):
            results.update(values_of(node.outputs))
    return behind
