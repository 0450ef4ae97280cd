"""Results that nobody reads for a while, so that another thread may make them while the first one goes on.

In the backward pass the gradient of a layer's input is needed at once, that of its parameters only by their update:
two products of a layer, of which one need not be waited for.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from workbench.graph.ssa import Node, Uses, Value

LateResults = Mapping[Node, tuple[Value, ...]]
"""Of nodes, those of their results that may be made later than the others."""

WINDOW = 4  # of nodes with late results, behind which those of one are there: what it reads is needed so long
_A_WHILE = 8  # nodes between one that makes a result and the first that reads it, at least


def late_results(nodes: Sequence[Node], uses: Uses, native: Collection[Node]) -> LateResults:
    """Of the gradients of products those that may be made late, as kernels do it.

    Args:
        nodes: in an admissible order. native: those that run in kernels.
    """
    position = {node: i for i, node in enumerate(nodes)}
    late: dict[Node, tuple[Value, ...]] = {}
    for node in nodes:
        if node not in native or not _is_gradient_of_product(node):
            continue
        readers = {value: map(position.__getitem__, uses.readers_of(value)) for value in node.writes}
        values = tuple(v for v, at in readers.items() if min(at, default=len(nodes)) - position[node] > _A_WHILE)
        if values:
            late[node] = values
    return late


def due_at(late: LateResults) -> Mapping[Node, Node]:
    """Of nodes with late results, in their order, the node before which these are there; the last have none."""
    nodes = list(late)
    return dict(zip(nodes, nodes[WINDOW:], strict=False))


def share_of_late(nodes: Collection[Node], late: LateResults) -> list[float]:
    """Of the work of every node, how much of it makes late results: each gradient is a product as large."""
    return [len(late.get(node, ())) / len(node.outputs) if node in late else 0.0 for node in nodes]


def _is_gradient_of_product(node: Node) -> bool:
    forward = node.record.forward_of if node.is_op else None
    return forward is not None and forward.is_product
