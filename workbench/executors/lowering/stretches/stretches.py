"""All stretches of an engine, each made once; and the blocks that Python runs, as stretches."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

from workbench.config import get_flag
from workbench.executors.lowering.stretches.room import StretchRoom
from workbench.executors.lowering.stretches.stretch import Stretch
from workbench.executors.lowering.tape.flow.block_graph import BlockGraph
from workbench.executors.planning.cache import Cache
from workbench.executors.reference.calls import Call, Values
from workbench.executors.reference.runner import OpRunner
from workbench.executors.workers.pool import WorkerPool
from workbench.framework.program.block import Block
from workbench.framework.program.program import Program
from workbench.graph.ssa import Graph, Node, Value

_MOST = 512  # stretches
_FEW = 16  # numbers for which kernels are not worth a call


class Stretches:
    """Of one engine.

    Args:
        pool: whose kernels run them. comm: of the engine.
    """

    def __init__(self, pool: WorkerPool, comm: Any) -> None:
        self.pool, self._comm = pool, comm
        self._rooms: dict[int, StretchRoom] = {}
        self._stretches: Cache[Any] = Cache(_MOST)
        self._blocks: dict[int, list[Call]] = {}

    def room(self, place: int) -> StretchRoom:
        """Where those of a device run."""
        return self._rooms.setdefault(place, StretchRoom(self.pool, self._comm))

    def of_nodes(self, graph: Graph, nodes: Sequence[Node], wanted: Sequence[Value]) -> Stretch:
        """The stretch of some nodes of a graph."""
        key = (id(graph), tuple(map(id, nodes)), tuple(map(id, wanted)))
        stretch: Stretch = self._stretches.get(key, lambda: Stretch(graph, nodes, wanted, self.room(nodes[0].place)))
        return stretch

    def of_block(self, graph: Graph, block: Block, place: int, wanted: Sequence[str]) -> BlockStretch:
        """The stretch of a block on a device."""
        key: Hashable = (block.idx, place, tuple(wanted))
        stretch: BlockStretch = self._stretches.get(
            key, lambda: BlockStretch(graph, block, wanted, self.room(place), place)
        )
        return stretch

    def runners(self, graph: Graph, first: int) -> list[BlockRunner]:
        """What serves the ops of every device; see `MakesStretches`."""
        return [
            BlockRunner(graph.program, first + place, self._blocks, self, graph, place)
            for place in range(graph.devices)
        ]

    def release(self, freed: dict[int, int]) -> None:
        """Give back the memory they have of their own; adds the bytes, by device."""
        for place, room in self._rooms.items():
            freed[place] += room.release()


class BlockStretch:
    """A block as a stretch.

    Attributes:
        names: of what it is given. stretch: None where kernels are not worth it.
    """

    def __init__(self, graph: Graph, block: Block, wanted: Sequence[str], room: StretchRoom, place: int) -> None:
        builder = BlockGraph(block, place, Graph(graph.program, graph.places, graph.settings))
        values = [builder.read(name) for name in wanted]
        nodes = builder.graph.nodes
        self.stretch = (
            None
            if room.pool.control is None or all(map(_is_little, nodes))
            else Stretch(builder.graph, nodes, values, room)
        )
        self.names = [] if self.stretch is None else [value.name for value in self.stretch.reads]


def _is_little(node: Node) -> bool:
    """Whether it computes but a few whole numbers, the same in kernels and without."""
    return (
        node.is_op
        and not node.record.needs
        and all(
            value.spec.dtype.kind in ("bool", "int") and -1 not in value.spec.shape and _count(value) <= _FEW
            for value in (*node.reads, *node.writes)
        )
    )


def _count(value: Value) -> int:
    count = 1
    for size in value.spec.shape:
        count *= size
    return count


class BlockRunner(OpRunner):
    """Serves the ops of one device of an engine: blocks that Python runs are stretches.

    Args:
        graph: of the engine. local: the number of the device in it.
    """

    def __init__(
        self,
        program: Program,
        place: int,
        blocks: dict[int, list[Call]],
        stretches: Stretches,
        graph: Graph,
        local: int,
        rng_step: int = 0,
        trips: tuple[int, ...] = (),
    ) -> None:
        super().__init__(program, place, blocks, rng_step, trips)
        self._stretches, self._graph, self._local = stretches, graph, local

    def inside(self, trips: Sequence[int]) -> BlockRunner:
        return BlockRunner(
            self.program, self.place, self.blocks, self._stretches, self._graph, self._local, self.rng_step,
            (*self.trips, *trips),
        )  # fmt: skip

    def run_block(self, block: Block, given: Values, wanted: Sequence[str], trip: int = 0) -> list[Any]:
        block_stretch = self._stretches.of_block(self._graph, block, self._local, wanted)
        stretch = block_stretch.stretch
        if stretch is None or get_flag("FLAGS_check_nan_inf"):
            values = super().run_block(block, given, wanted, trip)  # which looks at what every op makes
            if stretch is None:
                return values
        return stretch.run(  # type: ignore[return-value]
            [given[name] for name in block_stretch.names], lambda node: self.inside((trip,)).extras(node.origins[0])
        )
