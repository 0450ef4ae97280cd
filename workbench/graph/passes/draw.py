"""A drawing of the graph as it is at some point of the pipeline (G-40, G-43)."""

from __future__ import annotations

from workbench.graph.ssa import Graph
from workbench.graph.viz import write_graphviz


class Draw:
    """Writes the graph to a file for Graphviz; changes nothing.

    Args:
        path: the file.
    """

    exact = True

    def __init__(self, path: str) -> None:
        self.path = path
        self.name = f"draw {path}"

    def __call__(self, graph: Graph) -> bool:
        write_graphviz(graph, self.path)
        return False
