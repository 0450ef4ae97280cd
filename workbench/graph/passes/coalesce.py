"""Which gradients travel together (G-42): one group per layer, regrouped by size if a flag says so."""

from __future__ import annotations

from collections.abc import Iterable

from workbench.config import get_flag
from workbench.framework.values.dtype import DType
from workbench.framework.values.spec import DENSE, size_of
from workbench.graph.ssa import ALL_REDUCE, Graph, Node

Group = list[Node]
MEGABYTE = 1 << 20
ROUND_BYTES = 1 << 18  # what a process hands to others at a time: `runtime.words.window.SLOT_BYTES`


def gradient_groups(graph: Graph) -> list[Group]:
    """The all-reduces of parameters' gradients, grouped.

    Gradients of one layer, the part of the parameter's name before the first `.`, form a group, in the order of their
    first all-reduce. `FLAGS_fuse_parameter_memory_size` > 0 joins groups until one has so many MiB or, with
    `FLAGS_fuse_parameter_groups_size` > 1, more gradients than that; 0 makes one group of all. Groups are then split
    by dtype. Where processes train together and no flag says so, groups are joined as long as they travel at once:
    what each of them costs is a meeting. Sparse gradients and those of unknown shape are in no group.
    """
    groups = _regrouped(_by_layer(graph))
    parts = [part for group in groups for part in _by_dtype(group)]
    if graph.settings.num_trainers > 1 and get_flag("FLAGS_fuse_parameter_memory_size") < 0:
        return _filling(parts, ROUND_BYTES // max(graph.devices, 1))
    return parts


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


def _filling(groups: list[Group], most: int) -> list[Group]:
    """Neighbours of one dtype joined while they come to no more bytes than that."""
    joined: list[Group] = []
    for group in groups:
        same = bool(joined) and joined[-1][0].reads[0].spec.dtype == group[0].reads[0].spec.dtype
        if same and _bytes(joined[-1]) + _bytes(group) <= most:
            joined[-1] = [*joined[-1], *group]
        else:
            joined.append(group)
    return joined


def _bytes(group: Iterable[Node]) -> int:
    specs = [node.reads[0].spec for node in group]
    return sum(size_of(spec.shape) * spec.dtype.itemsize for spec in specs)


def _by_dtype(group: Group) -> list[Group]:
    groups: dict[DType, Group] = {}
    for node in group:
        groups.setdefault(node.reads[0].spec.dtype, []).append(node)
    return list(groups.values())
