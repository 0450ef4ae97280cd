"""An SSA graph for the page: columns, as flat as they can be made."""

from __future__ import annotations

import numpy as np

from workbench.executors.planning.shapes import Shapes
from workbench.framework.program.roles import role_text
from workbench.framework.values.spec import size_of
from workbench.graph.columns import label_of, layer_of
from workbench.graph.order import edges
from workbench.graph.ssa import Graph, Node, Value
from workbench.notebook.dashboard.watching.exchanged import servers_message
from workbench.notebook.figures.graphs.folding import fold_message
from workbench.notebook.messages import Message, Table, column


def graph_message(number: int, title: str, graph: Graph, shapes: Shapes) -> Message:
    """The message `graph`; see assets/src/README.md.

    Args:
        number: the graph's, for the page. shapes: of its values, as far as they are known.
    """
    values = {value: index for index, value in enumerate(graph.values())}
    tables = {name: Table() for name in ("type", "role", "layer", "site", "dtype")}
    message = {
        "type": "graph",
        "id": number,
        "title": title,
        "devices": [str(place) for place in graph.places],
        "strategy": graph.settings.reduce_strategy.name,
        "fetches": list(graph.fetches),
        "node": _nodes(graph.nodes, tables, shapes),
        "across": _across(graph.nodes),
        "value": _values(list(values), tables["dtype"], shapes),
        "read": _accesses([node.reads for node in graph.nodes], values),
        "write": _accesses([node.writes for node in graph.nodes], values),
        "edge": _edges(graph),
        "tables": {name: table.texts for name, table in tables.items()},
        **servers_message(graph),
    }
    return {**message, "fold": fold_message(message)}


def _nodes(nodes: list[Node], tables: dict[str, Table], shapes: Shapes) -> Message:
    def numbers(table: str, texts: list[str | None]) -> np.ndarray:
        return column([tables[table].number(text) for text in texts], "int32")

    return {
        "type": numbers("type", [node.type for node in nodes]),
        "role": numbers("role", [role_text(node.role) for node in nodes]),
        "layer": numbers("layer", [layer_of(node) for node in nodes]),
        "site": numbers("site", [str(node.site) if node.site else None for node in nodes]),
        "label": [label_of(node) for node in nodes],
        "device": column([node.place for node in nodes], "int32"),
        "bytes": column([sum(nbytes(value, shapes) for value in node.writes) for node in nodes], "float64"),
        "flops": column([shapes.costs[node].flops for node in nodes], "float64"),
    }


def _across(nodes: list[Node]) -> Message:
    pairs = [(number, place) for number, node in enumerate(nodes) if _acts_on_several(node) for place in node.places]
    return {
        "node": column([number for number, _ in pairs], "int32"),
        "device": column([place for _, place in pairs], "int32"),
    }


def _acts_on_several(node: Node) -> bool:
    return node.is_collective or len(node.places) > 1


def _values(values: list[Value], dtypes: Table, shapes: Shapes) -> Message:
    specs = [shapes.specs[value] for value in values]
    return {
        "name": [value.name for value in values],
        "device": column([value.place for value in values], "int32"),
        "version": column([value.version for value in values], "int32"),
        "shape": [list(spec.shape) for spec in specs],
        "dtype": column([dtypes.number(spec.dtype.name) for spec in specs], "int32"),
        "bytes": column([nbytes(value, shapes) for value in values], "float64"),
        "persistable": column([value.persistable for value in values], "uint8"),
        "data": column([value.is_data for value in values], "uint8"),
    }


def nbytes(value: Value, shapes: Shapes) -> int:
    """Size of a value; 0 as long as its shape is not known."""
    spec = shapes.specs[value]
    return 0 if -1 in spec.shape else size_of(spec.shape) * spec.dtype.itemsize


def _accesses(per_node: list[list[Value]], values: dict[Value, int]) -> Message:
    pairs = [(number, values[value]) for number, accessed in enumerate(per_node) for value in accessed]
    return {
        "node": column([number for number, _ in pairs], "int32"),
        "value": column([value for _, value in pairs], "int32"),
    }


def _edges(graph: Graph) -> Message:
    numbers = {node: index for index, node in enumerate(graph.nodes)}
    rows = [(numbers[before], numbers[node], kind == "order") for before, node, kind in edges(graph)]
    return {
        "source": column([source for source, _, _ in rows], "int32"),
        "target": column([target for _, target, _ in rows], "int32"),
        "order": column([order for _, _, order in rows], "uint8"),
    }
