"""Nodes put together until a graph fits on a page: by layer, repeated layers, layers of a kind, roles."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from workbench.graph.ssa import FUSED_UPDATE
from workbench.notebook.figures.facts import Message, Nodes, in_order, ints, written_names
from workbench.notebook.summary import count

LEVELS = ("op", "layer", "repeat", "family", "role")
_LONGEST = 16  # layers in a block that is looked for several times in a row


class Group(NamedTuple):
    """Nodes that are one box.

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
    """Groups in the order of their first nodes, and which read what others make.

    Attributes:
        source, target: positions of groups, each pair once; order: no data goes there, only before and after.
    """

    level: str
    groups: list[Group]
    source: np.ndarray
    target: np.ndarray
    order: np.ndarray


def fold(graph: Message, nodes: Nodes, level: str) -> Folded:
    """The groups of one of `LEVELS`; collectives stay apart from everything else, devices from each other."""
    written, together = written_names(graph), together_at(nodes, level)
    groups = [_group(nodes, level, ids, written) for ids in together]
    group_of = np.zeros(len(nodes), np.int64)
    for number, ids in enumerate(together):
        group_of[ids] = number
    return Folded(level, groups, *_edges(graph, group_of, len(groups)))


def together_at(nodes: Nodes, level: str) -> list[list[int]]:
    """The nodes of every group."""
    names = _names(nodes, level)
    found: dict[Hashable, list[int]] = {}
    for k, (type, kind, device) in enumerate(zip(nodes.type, nodes.kind, nodes.device)):
        found.setdefault((device, kind, type if device < 0 else "", names[k]), []).append(k)
    return list(found.values())


def _names(nodes: Nodes, level: str) -> Sequence[Hashable]:
    """What nodes of one device and role have to have in common to be one group."""
    if level == "op":
        return range(len(nodes))
    if level == "layer":
        return nodes.layer
    if level == "family":
        families = {layer: family(layer) for layer in set(nodes.layer)}
        return [families[layer] for layer in nodes.layer]
    if level == "role":
        return [""] * len(nodes)
    blocks = repeated_layers(nodes)
    return [blocks[layer] for layer in nodes.layer]


def family(layer: str) -> str:
    """`fc` of `fc_12`."""
    return re.sub(r"_\d+$", "", layer) or layer


def repeated_layers(nodes: Nodes) -> dict[str, int]:
    """A number for every layer; those at the same place of equal blocks that follow each other share one."""
    content: dict[str, Counter[tuple[int, str, str]]] = {}
    for kind, device, type, layer in zip(nodes.kind, nodes.device, nodes.type, nodes.layer):
        content.setdefault(layer, Counter())[device, kind, type] += 1
    layers = list(content)
    numbers: dict[Hashable, int] = {}
    looks = [numbers.setdefault((family(n), frozenset(content[n].items())), len(numbers)) for n in layers]
    return {layers[k]: place for k, place in enumerate(repeats(looks))}


def repeats(looks: Sequence[int]) -> list[int]:
    """For every element the position of the first one that it repeats: `a b c b c d` gives 0 1 2 1 2 5."""
    places, at = [], 0
    while at < len(looks):
        period, times = _block(looks, at)
        places += [at + k % period for k in range(period * times)]
        at += period * times
    return places


def _block(looks: Sequence[int], at: int) -> tuple[int, int]:
    """Length and number of the equal blocks that begin here and cover most; the shorter of two that cover the same."""
    best = (1, 1)
    for period in range(1, min(_LONGEST, (len(looks) - at) // 2) + 1):
        times, block = 1, looks[at : at + period]
        while looks[at + times * period : at + (times + 1) * period] == block:
            times += 1
        if times > 1 and times * period > best[0] * best[1]:
            best = (period, times)
    return best


def _group(nodes: Nodes, level: str, ids: list[int], written: Mapping[int, tuple[str, ...]]) -> Group:
    first = ids[0]
    kind, device, type = nodes.kind[first], nodes.device[first], nodes.type[first]
    if level == "op" or (type == FUSED_UPDATE and len(ids) == 1):  # a fused update is of many layers
        return Group((first,), kind, device, type, written.get(first, (nodes.label[first].removeprefix(type).strip(),)))
    layers = in_order(nodes.layer[k] for k in ids)
    if device < 0:
        return Group(tuple(ids), kind, device, type, (_span(layers, level),), len(ids))
    if level == "role":
        return Group(tuple(ids), kind, device, count(len(ids), "op"), _types(nodes.type[k] for k in ids))
    shown = [k for k in ids if nodes.layer[k] == layers[0]] if level == "repeat" else ids
    return Group(tuple(ids), kind, device, _span(layers, level), _types(nodes.type[k] for k in shown), len(layers))


def _span(layers: list[str], level: str) -> str:
    """`fc_0`, `fc_0 … fc_9`, or `fc` where all layers of a kind are together."""
    if level == "role":
        return count(len(layers), "layer")
    if len(layers) == 1:
        return layers[0]
    return family(layers[0]) if level == "family" else f"{layers[0]} … {layers[-1]}"


def _types(types: Iterable[str]) -> tuple[str, ...]:
    """`2 mul`, `elementwise_add`: the most frequent first, and how often where it is not once."""
    return tuple(f"{n} {type}" if n > 1 else type for type, n in Counter(types).most_common())


def _edges(graph: Message, group_of: np.ndarray, groups: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    edge = graph.get("edge", {})
    source, target = (np.asarray(ints(edge, side), np.int64) for side in ("source", "target"))
    order = np.asarray(ints(edge, "order") or np.zeros(len(source)), bool)
    source, target = group_of[source], group_of[target]
    between = source != target
    pairs, place = np.unique((source * max(groups, 1) + target)[between], return_inverse=True)
    data = np.zeros(len(pairs), bool)
    np.logical_or.at(data, place, ~order[between])
    return pairs // max(groups, 1), pairs % max(groups, 1), ~data
