"""What rows are bound to: arrays, objects, and memory they share while they run."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from workbench.executors.planning.memory.refs import Ref
from workbench.executors.planning.plan import Row
from workbench.executors.reference.runner import OpRunner
from workbench.graph.ssa import Graph, Node, Value
from workbench.runtime.comm.base import Communicator

Call = Callable[[], Any]


class DeviceWork:
    """A call that gives work to devices and does not wait for it.

    Attributes:
        gpus: the devices.
    """

    gpus: tuple[Any, ...] = ()

    def __call__(self) -> None:
        """Give it to all of them."""
        raise NotImplementedError

    def part(self, gpu: Any) -> None:
        """Give one of them, the current device, its part: so it is captured."""


class Declined(Exception):
    """Kernels have met numbers that name nothing, in these rows: what they are is for the host to say."""

    def __init__(self, rows: Sequence[Row]) -> None:
        super().__init__(", ".join(row.node.type for row in rows))
        self.rows = list(rows)


class Cell:
    """Holds a value that travels as an object while a step runs."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value: Any = None


class Releasable(Protocol):
    """Memory that is kept from step to step, and may be given back between two."""

    @property
    def nbytes(self) -> int:
        """Of it, just now."""

    def release(self) -> int:
        """Give it back to the system; how many bytes there were."""


class RunsNodes(Protocol):
    """Nodes that run as their sizes turn out to be."""

    @property
    def reads(self) -> Sequence[Value]:
        """What they are given."""

    def run(self, given: Sequence[Any], extras: Callable[[Node], dict[str, Any]]) -> Sequence[Any]:
        """What they make for others.

        Args:
            extras: the keyword arguments an op `needs`.
        """


class MakesStretches(Protocol):
    """Where stretches of nodes come from whose sizes are known when they run."""

    def of_nodes(self, graph: Graph, nodes: Sequence[Node], wanted: Sequence[Value]) -> RunsNodes:
        """The stretch of some nodes of a graph.

        Args:
            wanted: what they make for others.
        """

    def runners(self, graph: Graph, first: int) -> Sequence[OpRunner]:
        """What serves the ops of every device, and runs blocks as stretches.

        Args:
            first: the number of the first device among those of all trainers.
        """

    def release(self, freed: dict[int, int]) -> None:
        """Give back the memory they have of their own; adds the bytes, by device."""


class Scratch:
    """Temporary memory of one thread: every row gets it anew, so rows share it."""

    def __init__(self) -> None:
        self._chunks: list[np.ndarray] = []
        self._next = self._used = 0

    def restart(self) -> None:
        """All of it is free again; what was handed out keeps its memory, for another row has the same."""
        self._next = self._used = 0

    @property
    def used(self) -> tuple[int, int]:
        """How much has been handed out since the restart; may be set back to what it was."""
        return self._next, self._used

    @used.setter
    def used(self, before: tuple[int, int]) -> None:
        self._next, self._used = before

    def __call__(self, shape: Sequence[int], dtype: Any) -> np.ndarray:
        dtype = np.dtype(dtype)
        count = math.prod(shape)
        nbytes = -(-max(count * dtype.itemsize, 1) // 64) * 64
        while self._next < len(self._chunks) and self._chunks[self._next].size - self._used < nbytes:
            self._next, self._used = self._next + 1, 0
        if self._next == len(self._chunks):
            self._chunks.append(self._chunk(max(nbytes, 1 << 16, self.nbytes)))  # seldom; nobody writes what is left
        part = self._chunks[self._next][self._used : self._used + nbytes]
        self._used += nbytes
        return part[: count * dtype.itemsize].view(dtype).reshape(shape)

    def _chunk(self, nbytes: int) -> np.ndarray:
        """More memory."""
        return _aligned(nbytes)

    @property
    def nbytes(self) -> int:
        return sum(chunk.size for chunk in self._chunks)


def _aligned(nbytes: int) -> np.ndarray:
    """Bytes that begin at a cache line."""
    raw = np.empty(nbytes + 64, np.uint8)
    start = -raw.__array_interface__["data"][0] % 64
    return raw[start : start + nbytes]


@dataclass
class Context:
    """What rows are bound to.

    Attributes:
        array: the array of a value that has memory; cell: the cell of one that travels as an object.
        flat: the array of a `Ref` that spans several values; bucket: the scope's storage of several persistables as
            one array, None if they do not lie together.
        extras: the keyword arguments an op `needs` in certain passes of loops, asked for when it runs.
        weights: per device the coefficient of its loss gradient under WeightedBySamples.
        gradients: of a fused update, the `Ref` of all its gradients together; None if it is not made as a whole.
        shards: of a fused update, the same one on all devices if their replicas hold the same numbers; else None.
        reduces_in_update: whether a collective is left to updates, or an update takes the sums over the devices itself.
        stream: of a random node, the words of its random stream (`words.stream`) in the step that runs.
        graph: whose nodes they are; None of a node alone.
        memories: what control flow in kernels keeps for its gradient, by the value that stands for it.
        held: memory that belongs to no arena of the executor, with the device it is of.
        passes: of every block around the nodes, from the outermost on, where the number of its pass is.
        stretches: what runs nodes whose sizes are known when they run; None where these are calls.
    """

    array: Callable[[Value], np.ndarray]
    cell: Callable[[Value], Cell]
    flat: Callable[[Ref], np.ndarray]
    bucket: Callable[[int, list[str]], np.ndarray | None]
    extras: Callable[[Node, Sequence[int]], dict[str, Any]]
    comm: Communicator
    weights: Sequence[float]
    gradients: Callable[[Node], Ref | None]
    shards: Callable[[Node], tuple[Node, ...] | None]
    reduces_in_update: Callable[[Node], bool]
    stream: Callable[[Node], np.ndarray]
    graph: Graph | None = None
    memories: dict[Value, Any] = field(default_factory=dict)
    held: list[tuple[int, Releasable]] = field(default_factory=list)
    passes: tuple[np.ndarray, ...] = ()
    stretches: MakesStretches | None = None

    def extras_of(self, node: Node) -> dict[str, Any]:
        """The keyword arguments an op `needs`, where the step is now."""
        return self.extras(node, [int(number[0]) for number in self.passes])

    def loss_factor(self, node: Node) -> float:
        """The coefficient of a loss gradient (B-10)."""
        if node.attrs["strategy"] == "WeightedBySamples":
            return self.weights[node.place]
        return 1.0 if node.attrs["strategy"] == "One" else 1.0 / node.attrs["ranks"]


def is_dynamic(row: Row) -> bool:
    """Whether an operand travels as an object."""
    return next(objects_of(row), None) is not None


def objects_of(row: Row) -> Iterator[Value]:
    """The operands that travel as objects."""
    for slots, refs in ((row.node.inputs, row.ins), (row.node.outputs, row.outs)):
        for slot, ref in zip(slots, refs, strict=True):
            if isinstance(slot, list):
                yield from (v for v, r in zip(slot, ref, strict=True) if v is not None and r is None)
            elif slot is not None and ref is None:
                yield slot


def arrays_of(slots: Sequence[Any], context: Context) -> list[Any]:
    return [
        [None if v is None else context.array(v) for v in slot]
        if isinstance(slot, list)
        else None if slot is None else context.array(slot)
        for slot in slots
    ]  # fmt: skip
