"""Nodes put together in groups, and these in larger ones: by layer, repeated layers, layers of a kind, roles."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from typing import NamedTuple

from workbench.notebook.figures.facts import Nodes, in_order
from workbench.notebook.programs.summary import count

LEVELS = ("op", "layer", "repeat", "family", "role")
_LONGEST = 16  # layers in a block that is looked for several times in a row


class Group(NamedTuple):
    """Nodes that can be one box.

    Attributes:
        nodes: their ids, ascending; level: the finest of `LEVELS` at which they are together.
        parent: position of the group around this one, -1 without.
        title, details: what it is, and what is in it; times: how many layers, or collectives, look like this.
    """

    nodes: tuple[int, ...]
    level: str
    parent: int
    title: str
    details: tuple[str, ...]
    times: int


def groups_of(nodes: Nodes) -> list[Group]:
    """All groups of two nodes and more, at whatever level, each after the one around it.

    Collectives stay apart from everything else, devices and roles from each other.
    """
    finest: dict[tuple[int, int], tuple[str, list[int]]] = {}  # of groups in each other, first node and size tell one
    for level in LEVELS[1:]:
        for ids in together_at(nodes, level):
            if len(ids) > 1:
                finest.setdefault((ids[0], len(ids)), (level, ids))
    innermost = [-1] * len(nodes)
    groups: list[Group] = []
    for level, ids in sorted(finest.values(), key=lambda group: -len(group[1])):
        groups.append(_group(nodes, level, ids, innermost[ids[0]]))
        for k in ids:
            innermost[k] = len(groups) - 1
    return groups


def together_at(nodes: Nodes, level: str) -> list[list[int]]:
    """The nodes of every group."""
    names = _names(nodes, level)
    groups: dict[Hashable, list[int]] = {}
    for k, (type, kind, device) in enumerate(zip(nodes.type, nodes.kind, nodes.device)):
        groups.setdefault((device, kind, type if device < 0 else "", names[k]), []).append(k)
    return list(groups.values())


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
    kinds = [numbers.setdefault((family(n), frozenset(content[n].items())), len(numbers)) for n in layers]
    return {layers[k]: place for k, place in enumerate(repeats(kinds))}


def repeats(kinds: Sequence[int]) -> list[int]:
    """For every element the position of the first one that it repeats: `a b c b c d` gives 0 1 2 1 2 5."""
    places, at = [], 0
    while at < len(kinds):
        period, times = _block(kinds, at)
        places += [at + k % period for k in range(period * times)]
        at += period * times
    return places


def _block(kinds: Sequence[int], at: int) -> tuple[int, int]:
    """Length and number of the equal blocks that begin here and cover most; the shorter of two that cover the same."""
    best = (1, 1)
    for period in range(1, min(_LONGEST, (len(kinds) - at) // 2) + 1):
        times, block = 1, kinds[at : at + period]
        while kinds[at + times * period : at + (times + 1) * period] == block:
            times += 1
        if times > 1 and times * period > best[0] * best[1]:
            best = (period, times)
    return best


def _group(nodes: Nodes, level: str, ids: list[int], parent: int) -> Group:
    kind, device, type = nodes.kind[ids[0]], nodes.device[ids[0]], nodes.type[ids[0]]
    layers = in_order(nodes.layer[k] for k in ids)
    if device < 0:
        return Group(tuple(ids), level, parent, type, (_span(layers, level),), len(ids))
    if level == "role":
        return Group(tuple(ids), level, parent, kind, _types(nodes.type[k] for k in ids), 1)
    shown = [k for k in ids if nodes.layer[k] == layers[0]] if level == "repeat" else ids
    details = _types(nodes.type[k] for k in shown)
    return Group(tuple(ids), level, parent, _span(layers, level), details, len(layers))


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
