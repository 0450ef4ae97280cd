"""A graph as columns of plain values, for a viewer: everything in it can be written as JSON."""

from __future__ import annotations

import re
from typing import Any

from workbench.framework.names import CONTROL
from workbench.framework.program.roles import role_text
from workbench.graph.order import edges
from workbench.graph.ssa import Graph, Node, Value, values_of

Column = list[Any]
_NUMBERED = re.compile(r".*_\d+")


def columns(graph: Graph) -> dict[str, Column]:
    """The graph as columns of equal length per group; ids are positions.

    Groups:
        `node_*`: `id`, `type`, `label` (type and first result), `role`, `devices` (lists), `layer` (for folding, see
            `layer_of`), `site` (text or None).
        `value_*`: `id`, `name`, `device`, `version`, `shape` (-1 = unknown), `dtype`, `kind`, `persistable`, `data`.
        `edge_*`: `source` and `target` (node ids), `kind` (`"data"` or `"order"`).
        `read_*`, `write_*`: `node` and `value` ids, in slot order.
        `device`: the places.
    """
    value_id = {value: index for index, value in enumerate(graph.values())}
    return {
        "device": [str(place) for place in graph.places],
        **_nodes(graph.nodes),
        **_values(list(value_id)),
        **_edges(graph),
        **_accesses("read", [node.reads for node in graph.nodes], value_id),
        **_accesses("write", [node.writes for node in graph.nodes], value_id),
    }


def _nodes(nodes: list[Node]) -> dict[str, Column]:
    return {
        "node_id": list(range(len(nodes))),
        "node_type": [node.type for node in nodes],
        "node_label": [label_of(node) for node in nodes],
        "node_role": [role_text(node.role) for node in nodes],
        "node_devices": [list(node.places) for node in nodes],
        "node_layer": [layer_of(node) for node in nodes],
        "node_site": [str(node.site) if node.site else None for node in nodes],
    }


def label_of(node: Node) -> str:
    """`mul fc_0.tmp_0`: its type, and the variable it is about."""
    subject = _subject(node)
    return f"{node.type} {subject}" if subject else node.type


def _subject(node: Node) -> str:
    """The variable a node is about: the first it writes, else the first it reads."""
    names = (value.name for value in values_of((*node.outputs, *node.inputs)))
    return next((name for name in names if not name.startswith(CONTROL)), "")


def layer_of(node: Node) -> str:
    """`fc_0` for what reads or writes parameters of that layer, else for what makes `fc_0.tmp_1` or its gradient.

    Names of layers end in a number; what stands before one, as `net` in `net.fc_0.w_0`, is the program's.
    """
    values = values_of((*node.inputs, *node.outputs))
    return layer_of_name(next((v.name for v in values if v.persistable and "." in v.name), None) or _subject(node))


def layer_of_name(name: str) -> str:
    """`fc_0` of `fc_0.tmp_1`, `net.fc_0.w_0` or `fc_0.w_0@GRAD`."""
    parts = name.split("@", 1)[0].split(".")
    return next((part for part in parts if _NUMBERED.fullmatch(part)), parts[0])


def _values(values: list[Value]) -> dict[str, Column]:
    return {
        "value_id": list(range(len(values))),
        "value_name": [value.name for value in values],
        "value_device": [value.place for value in values],
        "value_version": [value.version for value in values],
        "value_shape": [list(value.spec.shape) for value in values],
        "value_dtype": [value.spec.dtype.name for value in values],
        "value_kind": [value.spec.kind for value in values],
        "value_persistable": [value.persistable for value in values],
        "value_data": [value.is_data for value in values],
    }


def _edges(graph: Graph) -> dict[str, Column]:
    all_edges = list(edges(graph))
    node_id = {node: index for index, node in enumerate(graph.nodes)}
    return {
        "edge_source": [node_id[before] for before, _, _ in all_edges],
        "edge_target": [node_id[node] for _, node, _ in all_edges],
        "edge_kind": [kind for _, _, kind in all_edges],
    }


def _accesses(what: str, values: list[list[Value]], value_id: dict[Value, int]) -> dict[str, Column]:
    return {
        f"{what}_node": [number for number, some in enumerate(values) for _ in some],
        f"{what}_value": [value_id[value] for some in values for value in some],
    }
