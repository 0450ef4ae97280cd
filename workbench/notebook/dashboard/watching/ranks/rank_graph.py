"""The graph of a step that several processes make together, of the graph that each of them has of its own devices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from workbench.executors.lowering.tape.table import joins_natively
from workbench.executors.running.spec import snapshot
from workbench.framework.program.program import Program
from workbench.framework.values.place import CPUPlace
from workbench.graph.build import build_graph
from workbench.graph.passes import default_passes, run_passes
from workbench.graph.ssa import FETCH, Graph, Node, Slot, Value
from workbench.graph.strategy import BuildStrategy
from workbench.runtime.devices import cpu_places
from workbench.runtime.native.library import kernels


class RankPlace(CPUPlace):
    """A device of a rank, such as `rank 1`, or `rank 1:0` of several. Its index counts the devices of all ranks."""

    __slots__ = ("_text", "rank")

    def __init__(self, rank: int, device: int, devices: int) -> None:
        super().__init__(rank * devices + device)
        self.rank = rank
        self._text = f"rank {rank}" if devices == 1 else f"rank {rank}:{device}"

    def __str__(self) -> str:
        return self._text


class RankGraphs(NamedTuple):
    """`own`: what each rank has; `whole`: all of them, with collectives and fetches between; `numbers`: by rank the
    number in the whole of each node of its own."""

    own: Graph
    whole: Graph
    numbers: list[list[int]]


def graphs_of_ranks(program: Program, ranks: int, devices: int, fetches: Sequence[str]) -> RankGraphs:
    """The graphs of a program in so many ranks of so many devices each."""
    build = BuildStrategy()
    build.num_trainers, build.trainer_id = ranks, 0
    settings = build.resolved(devices=devices, process_group=True)
    own = build_graph(snapshot(program), cpu_places(devices), settings, fetches)
    run_passes(own, default_passes(settings, joins_natively if kernels() is not None else None))
    return _spread(own, ranks)


def _spread(own: Graph, ranks: int) -> RankGraphs:
    each = own.devices
    places = [RankPlace(rank, device, each) for rank in range(ranks) for device in range(each)]
    values = [{value: _moved(value, rank * each) for value in own.values()} for rank in range(ranks)]
    whole = Graph(own.program, places, own.settings, fetches=list(own.fetches))
    copies: dict[Node, list[Node]] = {}
    numbers: list[list[int]] = [[] for _ in range(ranks)]
    for node in own.nodes:
        if node.is_collective or node.type == FETCH:
            copies[node] = [_joined(node, values, each)] * ranks
        else:
            copies[node] = [_copied(node, values[rank], rank * each) for rank in range(ranks)]
        for rank, copy in enumerate(copies[node]):
            if not whole.nodes or whole.nodes[-1] is not copy:
                whole.nodes.append(copy)
            numbers[rank].append(len(whole.nodes) - 1)
            copy.after += [copies[before][rank] for before in node.after if copies[before][rank] not in copy.after]
    whole.newest = {(name, rank * each + place): values[rank][value] for (name, place), value in own.newest.items()
                    for rank in range(ranks) if value in values[rank]}  # fmt: skip
    return RankGraphs(own, whole, numbers)


def _moved(value: Value, by: int) -> Value:
    return Value(value.name, value.place + by, value.version, value.spec, value.persistable, value.is_data)


def _copied(node: Node, values: dict[Value, Value], by: int) -> Node:
    def mapped(slot: Slot) -> Slot:
        return [mapped(part) for part in slot] if isinstance(slot, list) else values.get(slot)

    inputs, outputs = list(map(mapped, node.inputs)), list(map(mapped, node.outputs))
    return Node(node.type, [place + by for place in node.places], inputs, outputs, node.attrs, node.role, node.origins)


def _joined(node: Node, values: Sequence[dict[Value, Value]], each: int) -> Node:
    """A collective or a fetch of all ranks: its slots are lists with the parts in device order."""

    def mapped(slot: Slot) -> Slot:
        return [of[part] for of in values for part in slot]

    inputs, outputs = list(map(mapped, node.inputs)), list(map(mapped, node.outputs))
    places = [place + rank * each for rank in range(len(values)) for place in node.places]
    return Node(node.type, places, inputs, outputs, node.attrs, node.role, node.origins)
