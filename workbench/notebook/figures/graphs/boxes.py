"""The boxes with which a graph is first shown, on the page as in a picture: read from the fold of its message."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from workbench.framework.names import CONTROL
from workbench.notebook.figures.facts import Message, Nodes, ints, written_names


class Boxed(NamedTuple):
    """What is drawn as one box.

    Attributes:
        nodes: their ids; kind: see `palette.KINDS`; device: -1 for what acts on several.
        title, details: what it is, and what is in it; times: how many layers, or collectives, look like this.
    """

    nodes: tuple[int, ...]
    kind: str
    device: int
    title: str
    details: tuple[str, ...]
    times: int = 1


class Folded(NamedTuple):
    """Boxes in the order of their first nodes, and which read what others make.

    Attributes:
        level: one of `groups.LEVELS`.
        source, target: positions of boxes, each pair once; order: no data goes there, only before and after.
    """

    level: str
    boxes: list[Boxed]
    source: np.ndarray
    target: np.ndarray
    order: np.ndarray


def first_boxes(graph: Message) -> Folded:
    """A graph folded as its message says; without a fold every node is a box."""
    nodes, fold = Nodes.of(graph), graph.get("fold") or {}
    written = written_names(graph)
    shown = _shown(fold)
    together: dict[tuple[int, int], list[int]] = {}
    for k, group in enumerate(ints(fold, "node") or [-1] * len(nodes)):
        box = shown[group] if group >= 0 else -1
        together.setdefault((box, -1 if box >= 0 else k), []).append(k)
    boxes = [
        _box(nodes, ids, fold, group) if group >= 0 else _node(nodes, ids[0], written.get(ids[0]))
        for (group, _), ids in together.items()
    ]
    box_of = np.zeros(len(nodes), np.int64)
    for number, ids in enumerate(together.values()):
        box_of[ids] = number
    return Folded(str(fold.get("level", "op")), boxes, *_edges(graph, box_of, len(boxes)))


def _shown(fold: Message) -> list[int]:
    """For every group the outermost closed one around it, or itself; -1 where all of them are open."""
    shown: list[int] = []
    for group, (parent, is_open) in enumerate(zip(ints(fold, "parent"), ints(fold, "open"))):
        around = shown[parent] if parent >= 0 else -1
        shown.append(around if around >= 0 else -1 if is_open else group)
    return shown


def _box(nodes: Nodes, ids: list[int], fold: Message, group: int) -> Boxed:
    kind, device = nodes.kind[ids[0]], nodes.device[ids[0]]
    times = int(fold["times"][group])
    return Boxed(tuple(ids), kind, device, fold["title"][group], tuple(fold["details"][group]), times)


def _node(nodes: Nodes, node: int, written: tuple[str, ...] | None) -> Boxed:
    type = nodes.type[node]
    values = tuple(name for name in written or () if not name.startswith(CONTROL))
    details = values or (nodes.label[node].removeprefix(type).strip(),)
    return Boxed((node,), nodes.kind[node], nodes.device[node], type, details)


def _edges(graph: Message, box_of: np.ndarray, boxes: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    edge = graph.get("edge", {})
    source, target = (np.asarray(ints(edge, side), np.int64) for side in ("source", "target"))
    order = np.asarray(ints(edge, "order") or np.zeros(len(source)), bool)
    source, target = box_of[source], box_of[target]
    between = source != target
    pairs, place = np.unique((source * max(boxes, 1) + target)[between], return_inverse=True)
    data = np.zeros(len(pairs), bool)
    np.logical_or.at(data, place, ~order[between])
    return pairs // max(boxes, 1), pairs % max(boxes, 1), ~data
