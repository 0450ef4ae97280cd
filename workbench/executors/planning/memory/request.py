"""What memory is planned for."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from functools import cached_property

from workbench.executors.planning.late import LateResults, due_at
from workbench.executors.planning.schedule import Schedule
from workbench.executors.planning.shapes import Specs, is_static
from workbench.framework.values.spec import Spec, size_of
from workbench.graph.ssa import FETCH, Graph, Node, Uses, Value

END = 1 << 60  # later than every node


@dataclass(frozen=True, eq=False)
class MemoryRequest:
    """A graph with what has been decided before memory is.

    Attributes:
        specs: of every value.
        fed: persistable values, as (name, device), that are given with the feed instead of read from the scope.
        staged: persistable values that are computed aside and copied into the scope by the commit.
        in_scope: persistable values that updates write right into the scope.
        committed: those updates; they run after everything else, so what they read is needed until the end.
        patched: values of which only some rows are made; they travel as objects.
        flat: groups of values that are to lie one after the other, in this order (the gradients of one update).
        reuse, in_place: whether values may share memory one after the other, and results take over that of inputs.
        native: nodes that run in kernels. late: of some, results that are not made before somebody reads them.
    """

    graph: Graph
    specs: Specs
    schedule: Schedule
    uses: Uses
    fed: frozenset[tuple[str, int]]
    staged: AbstractSet[Value]
    in_scope: AbstractSet[Value]
    committed: AbstractSet[Node]
    patched: AbstractSet[Value]
    flat: Sequence[Sequence[Value]]
    reuse: bool
    in_place: bool
    native: Collection[Node] = ()
    late: LateResults = field(default_factory=dict)

    @cached_property
    def position(self) -> Mapping[Node, int]:
        """Of every node in the schedule."""
        return {node: i for i, node in enumerate(self.schedule.order)}

    @cached_property
    def _due(self) -> Mapping[Node, Node]:
        return due_at(self.late)

    @cached_property
    def readers(self) -> Mapping[Value, Sequence[Node]]:
        """Of what values hold; many gradients only look at shapes."""
        readers: dict[Value, list[Node]] = {}
        for node in self.graph.nodes:
            for value in node.value_reads:
                readers.setdefault(value, []).append(node)
        return readers

    @cached_property
    def given(self) -> Sequence[Value]:
        """The values nobody writes, feeds and what the scope holds, that have memory."""
        nodes, writer = self.graph.nodes, self.uses.writer
        read = dict.fromkeys(v for node in nodes for v in node.reads if v not in writer)
        return [value for value in read if is_static(self.specs[value])]

    @cached_property
    def produced(self) -> Sequence[tuple[Node, Value]]:
        """The values with memory that nodes write, in the order of the schedule."""
        return [
            (node, value)
            for node in self.schedule.order
            for value in node.writes
            if is_static(self.specs[value]) and value not in self.patched
        ]

    def lies_in_scope(self, value: Value) -> bool:
        """Whether a value's memory is the scope's storage."""
        if value in self.uses.writer:
            return value in self.in_scope
        return value.persistable and not self.is_fed_aside(value)

    def is_fed_aside(self, value: Value) -> bool:
        """Whether a persistable value comes with the feed; the commit hands it to the scope."""
        is_given = value.persistable and value not in self.uses.writer
        return is_given and (value.name, value.place) in self.fed

    def when(self, node: Node) -> int:
        """When a node begins to read and write: its position, or the end of the step."""
        return END if node.type == FETCH or node in self.committed else self.position[node]

    def until(self, node: Node) -> int:
        """When it has come to an end with that: late results are there when somebody reads them."""
        if node not in self.late:
            return self.when(node)
        due = self._due.get(node)
        if due is not None:
            return self.when(due)
        readers = [reader for value in self.late[node] for reader in self.uses.readers_of(value)]
        return max(map(self.when, readers), default=END)


def nbytes_of(spec: Spec) -> int:
    """Of an array; its shape is known."""
    return size_of(spec.shape) * spec.dtype.itemsize
