"""Graphs for Graphviz (G-43): values are ellipses, nodes boxes coloured by role, devices clusters.

    dot -Tsvg graph.dot > graph.svg

A value's label is its name, place, `scope: i` and `vK`, one below the other; an ordering edge goes through an ellipse
labelled `dummy`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from workbench.framework.program.roles import BACKWARD, LOSS, LR_SCHED, OPTIMIZE
from workbench.graph.ssa import FETCH, Graph, Node, Value, values_of

_COLORS = ((LR_SCHED, "#f2e3f7"), (OPTIMIZE, "#fbe3c9"), (LOSS, "#f9d0d0"), (BACKWARD, "#d5e5f7"))
FORWARD_COLOR, COLLECTIVE_COLOR, FETCH_COLOR = "#e2f2dc", "#ffe680", "#e6e6e6"


def graphviz_text(graph: Graph) -> str:
    """The graph as a `digraph G`, the same text for the same graph."""
    return "\n".join(_Drawing(graph).lines()) + "\n"


def write_graphviz(graph: Graph, path: str | os.PathLike[str]) -> None:
    """Write the text to a file, folders included; a file that is there is replaced.

    Raises:
        OSError: the file cannot be written.
    """
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(graphviz_text(graph), encoding="utf-8")


def color_of(node: Node) -> str:
    """The fill colour of a node: collectives and fetches have their own, others that of their role."""
    if node.is_collective:
        return COLLECTIVE_COLOR
    if node.type == FETCH:
        return FETCH_COLOR
    return next((color for role, color in _COLORS if node.role & role), FORWARD_COLOR)


class _Drawing:
    """Numbers nodes and values in the order of the graph."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.node_ids = {node: f"op_{i}" for i, node in enumerate(graph.nodes)}
        self.value_ids = {value: f"var_{i}" for i, value in enumerate(graph.values())}

    def lines(self) -> Iterator[str]:
        yield "digraph G {"
        yield '  node [style=filled, fillcolor="#ffffff"];'
        for place in range(self.graph.devices):
            yield from self._cluster(place)
        for node in self.graph.nodes:
            if len(node.places) > 1:
                yield "  " + self._node(node)
        yield from self._edges()
        yield "}"

    def _cluster(self, place: int) -> Iterator[str]:
        """What belongs to one device; nodes between devices stay outside."""
        yield f"  subgraph cluster_{place} {{"
        yield f"    label={_quoted(str(self.graph.places[place]))};"
        for value in self.value_ids:
            if value.place == place:
                yield "    " + self._value(value)
        for node in self.graph.nodes:
            if node.places == (place,):
                yield "    " + self._node(node)
        yield "  }"

    def _value(self, value: Value) -> str:
        kind = type(self.graph.places[value.place]).__name__
        label = _quoted(f"{value.name}\n{kind}\nscope: {value.place}\nv{value.version}")
        return f"{self.value_ids[value]} [label={label}, shape=ellipse];"

    def _node(self, node: Node) -> str:
        return f'{self.node_ids[node]} [label={_quoted(node.type)}, shape=box, fillcolor="{color_of(node)}"];'

    def _edges(self) -> Iterator[str]:
        dummies = 0
        for node, name in self.node_ids.items():
            for value in dict.fromkeys(values_of(node.inputs)):
                yield f"  {self.value_ids[value]} -> {name};"
            for value in dict.fromkeys(values_of(node.outputs)):
                yield f"  {name} -> {self.value_ids[value]};"
            for before in dict.fromkeys(n for n in node.after if n in self.node_ids):
                yield f'  dummy_{dummies} [label="dummy", shape=ellipse, style=dashed];'
                yield f"  {self.node_ids[before]} -> dummy_{dummies} -> {name} [style=dashed];"
                dummies += 1


def _quoted(text: str) -> str:
    """A string between double quotes as Graphviz reads it."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\r", "\\r").replace("\n", "\\n")
    return f'"{escaped}"'
