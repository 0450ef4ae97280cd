"""Which gradients travel together (G-42): one group per layer, regrouped by size if a flag says so."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable

from workbench.config import get_flag
from workbench.framework.values.dtype import DType
from workbench.framework.values.spec import DENSE, size_of
from workbench.graph.ssa import ALL_REDUCE, FETCH, FUSED_UPDATE, Graph, Node, Uses, Value

Group = list[Node]
MEGABYTE = 1 << 20
ROUND_BYTES = 1 << 18  # what a process hands to others at a time: `runtime.words.window.SLOT_BYTES`


def gradient_groups(graph: Graph) -> list[Group]:
    """The all-reduces of parameters' gradients, grouped.

    Gradients of one layer, the part of the parameter's name before the first `.`, form a group, in the order of their
    first all-reduce. `FLAGS_fuse_parameter_memory_size` > 0 joins groups until one has so many MiB or, with
    `FLAGS_fuse_parameter_groups_size` > 1, more gradients than that; 0 makes one group of all. Groups are then split
    by dtype. Where processes train together and no flag says so, groups are joined as long as they travel at once:
    what each of them costs is a meeting. There only gradients that one node reads next are in one group, whose memory
    is as that node wants it. Sparse gradients and those of unknown shape are in no group.
    """
    groups = _regrouped(_by_layer(graph))
    parts = [part for group in groups for part in _divided(group, _dtype_of)]
    if graph.settings.num_trainers == 1:
        return parts
    uses = Uses(graph.nodes)
    parts = [part for group in parts for part in _divided(group, lambda node: _reader_of(node, uses))]
    if get_flag("FLAGS_fuse_parameter_memory_size") >= 0:
        return parts
    return _filling(parts, ROUND_BYTES // max(graph.devices, 1), uses)


def in_order_of_travel(graph: Graph) -> dict[Value, int]:
    """The sums of gradients that can be in a group, numbered as groups of neighbours would begin and go on."""
    nodes = [node for group in _by_layer(graph) for node in group]
    return {value: number for number, node in enumerate(nodes) for value in node.writes}


def parameter_of(node: Node) -> str | None:
    """The parameter whose gradient an all-reduce sums, None if it sums something else."""
    gradient = node.attrs["name"]
    pairs = (pair for op in node.origins for pair in op.role_vars)
    return next((parameter for parameter, name in pairs if name == gradient), None)


def _by_layer(graph: Graph) -> list[Group]:
    groups: dict[str, Group] = {}
    for node in graph.nodes:
        if node.type != ALL_REDUCE or not _is_plain(node):
            continue
        parameter = parameter_of(node)
        if parameter is not None:
            groups.setdefault(parameter.split(".", 1)[0], []).append(node)
    return list(groups.values())


def _is_plain(node: Node) -> bool:
    spec = node.reads[0].spec
    return spec.kind == DENSE and size_of(spec.shape) >= 0


def _regrouped(groups: list[Group]) -> list[Group]:
    megabytes, count = get_flag("FLAGS_fuse_parameter_memory_size"), get_flag("FLAGS_fuse_parameter_groups_size")
    if megabytes < 0 or not groups:
        return groups
    if megabytes == 0:
        return [[node for group in groups for node in group]]
    joined: list[Group] = [[]]
    for group in groups:
        full = bool(joined[-1]) and _bytes(joined[-1]) >= megabytes * MEGABYTE
        if full or 1 < count < len(joined[-1]):
            joined.append([])
        joined[-1].extend(group)
    return joined


def _filling(groups: list[Group], most: int, uses: Uses) -> list[Group]:
    """Neighbours of one dtype and reader joined while they come to no more bytes than that."""
    joined: list[Group] = []
    newest: dict[Hashable, Group] = {}
    for group in groups:
        kind = _dtype_of(group[0]), _reader_of(group[0], uses)
        before = newest.get(kind)
        if before is not None and _bytes(before) + _bytes(group) <= most:
            before.extend(group)
        else:
            newest[kind] = [*group]
            joined.append(newest[kind])
    return joined


def _bytes(group: Iterable[Node]) -> int:
    specs = [node.reads[0].spec for node in group]
    return sum(size_of(spec.shape) * spec.dtype.itemsize for spec in specs)


def _divided(group: Group, trait: Callable[[Node], Hashable]) -> list[Group]:
    groups: dict[Hashable, Group] = {}
    for node in group:
        groups.setdefault(trait(node), []).append(node)
    return list(groups.values())


def _dtype_of(node: Node) -> DType:
    return node.reads[0].spec.dtype


def _reader_of(node: Node, uses: Uses) -> Node | None:
    """The update of several parameters that alone reads the sum; None where something else does."""
    readers = [reader for reader in uses.readers_of(node.writes[0]) if reader.type != FETCH]
    return readers[0] if len(readers) == 1 and readers[0].type == FUSED_UPDATE else None
