"""The plan of a step: which nodes run in which phase, on which thread, and where every value is.

A plan is made once for a graph and the shapes of its feeds, and never changes. Its two phases are those of promise 1:
*speculative* rows change nothing outside the arena; *commit* rows update the scope in place, after which staged values
are copied into it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from workbench.executors.planning.late import late_results
from workbench.executors.planning.memory.memory_plan import LayOut, MemoryPlan, plan_memory
from workbench.executors.planning.memory.offsets import assign_offsets
from workbench.executors.planning.memory.refs import Ref
from workbench.executors.planning.memory.request import MemoryRequest
from workbench.executors.planning.schedule import Schedule
from workbench.executors.planning.shapes import Shapes, Specs, is_static
from workbench.executors.planning.shares import Shares, arrange
from workbench.framework.op.record import Cost, find_op
from workbench.framework.values.spec import ROWS, Spec
from workbench.framework.written import written
from workbench.graph.ssa import (
    FETCH,
    FUSED_ALL_REDUCE,
    FUSED_UPDATE,
    Graph,
    Node,
    Uses,
    Value,
    is_update,
    values_of,
)
from workbench.ops.precision import NARROW

Given = Mapping[tuple[str, int], Spec]


@dataclass(frozen=True)
class MemoryOptions:
    """How a plan uses memory.

    Attributes:
        reuse: values share memory one after the other. in_place: results take over the memory of inputs.
        flat: gradients and parameters of one update lie one after the other.
        aside: the scope keeps its values until the end: updates, too, write to the arena and are copied by the commit.
    """

    reuse: bool = True
    in_place: bool = True
    flat: bool = True
    aside: bool = False


KEPT = MemoryOptions(reuse=False, in_place=False, flat=False)
OBSERVED = MemoryOptions(reuse=False, in_place=False, flat=False, aside=True)


@dataclass(frozen=True)
class Row:
    """One node of a plan, with the memory of its operands.

    Attributes:
        ins, outs: in the slots of the node, a `Ref` (array within a root), None for an absent slot or a value that
            travels as an object, lists for list slots. Refs hold shape, strides in bytes, dtype and root: what a
            lowering to native code needs besides `node.attrs` and `node.type`.
        thread: which thread runs it.
    """

    node: Node
    ins: list[Any]
    outs: list[Any]
    thread: int
    cost: Cost


@dataclass(frozen=True)
class Plan:
    """What to do in one step.

    Attributes:
        shares: which nodes several threads do together.
        memory: where every value lives, and why.
        rows: the speculative phase, in schedule order; commit: updates that write the scope in place.
        staged: values copied into the scope after them.
        feeds: values given from outside, feed or scope; fetches: per name the values, in device order.
        flats: the memory of the gradients of each update of the commit that may change the scope's buckets as a whole.
        before: per node those it comes after; waits: of these, the ones of other threads it has to wait for.
        last_reader: the node after which a value is not read any more, where one thread reads it.
        native: the nodes that are expected to run in kernels.
    """

    graph: Graph
    shapes: Shapes
    schedule: Schedule
    shares: Shares
    memory_options: MemoryOptions
    memory: MemoryPlan
    rows: tuple[Row, ...]
    commit: tuple[Row, ...]
    staged: tuple[Value, ...]
    feeds: tuple[Value, ...]
    fetches: tuple[tuple[str, list[Value]], ...]
    flats: Mapping[Node, Ref | None]
    before: Mapping[Node, list[Node]]
    waits: Mapping[Node, list[Node]]
    last_reader: Mapping[Value, Node]
    native: Collection[Node]

    @cached_property
    def updates(self) -> Sequence[Node]:
        """The nodes of the commit."""
        return [row.node for row in self.commit]

    @property
    def refs(self) -> Mapping[Value, Ref]:
        """The memory of every value that has some."""
        return self.memory.refs

    @property
    def sizes(self) -> Mapping[int, int]:
        """Bytes of each device's arena."""
        return self.memory.sizes

    @property
    def aliases(self) -> Collection[Value]:
        """Values that only see the memory of another one differently."""
        return self.memory.aliases.aliases.keys()

    @property
    def patched(self) -> Collection[Value]:
        """Staged values of which the commit replaces some rows only."""
        return self.memory.request.patched

    @property
    def position(self) -> Mapping[Node, int]:
        """Of every node in the schedule."""
        return self.memory.request.position

    @property
    def nbytes(self) -> int:
        """Memory for temporaries on all devices."""
        return sum(self.sizes.values())

    def waits_without(self, idle: Collection[Node]) -> Mapping[Node, list[Node]]:
        """The waits where some nodes do nothing: what comes after those comes after what they come after."""
        if not idle:
            return self.waits
        before: dict[Node, list[Node]] = {}
        for node in self.schedule.order:
            through = [before[other] if other in idle else [other] for other in self.before[node]]
            before[node] = list(dict.fromkeys(other for others in through for other in others))
        return _waits(self.schedule, before, {*idle, *self.updates})

    def text(self) -> str:
        """One line per row: phase, thread, op, memory, estimated cost."""
        return written(self)

    __str__ = __repr__ = text


def make_plan(
    graph: Graph,
    given: Given,
    num_threads: int,
    memory_options: MemoryOptions,
    fed: frozenset[tuple[str, int]] = frozenset(),
    has_kernels: Callable[[Node, Specs], bool] | None = None,
    lay_out: LayOut = assign_offsets,
) -> Plan:
    """The plan of a graph.

    Args:
        given: specs of the feeds, by (name, device).
        num_threads: at most so many threads.
        fed: persistable values, as (name, device), that are given with the feed.
        has_kernels: whether a node runs in kernels, by the specs of its values; None: none does.
        lay_out: where pieces of memory lie in an arena.
    """
    shapes, uses = Shapes(graph, given), Uses(graph.nodes)
    before = _dependencies(graph, uses)
    native = {n for n in graph.nodes if has_kernels is not None and has_kernels(n, shapes.specs)}
    late = late_results(graph.nodes, uses, native)
    schedule, shares = arrange(graph.nodes, before, shapes.costs, num_threads, native, late)
    in_scope, staged = _writes_to_scope(graph, uses, shapes, memory_options.aside, native)
    committed = {uses.writer[value] for value in in_scope}
    patched: set[Value] = set() if memory_options.aside else _patched(graph, uses, committed)
    updates = [node for node in graph.nodes if node in committed and _is_within_scope(node, uses, fed)]
    flat = [*map(gradients_of, updates), *_summed_together(graph)] if memory_options.flat else []
    request = MemoryRequest(
        graph, shapes.specs, schedule, uses, fed, staged, in_scope, committed, patched, flat,
        memory_options.reuse, memory_options.in_place, native, shares.late,
    )  # fmt: skip
    memory = plan_memory(request, lay_out)
    rows = [_row(node, memory.refs, schedule, shapes) for node in schedule.order if node.type != FETCH]
    return Plan(
        graph,
        shapes,
        schedule,
        shares,
        memory_options,
        memory,
        tuple(row for row in rows if row.node not in committed),
        tuple(row for row in rows if row.node in committed),
        tuple(value for value in _last_versions(graph) if value in staged),
        tuple(_given_values(graph, uses)),
        tuple((node.attrs["name"], node.reads) for node in graph.nodes if node.type == FETCH),
        dict(zip(updates, memory.flats, strict=False)),
        before,
        _waits(schedule, before, committed),
        _last_readers(schedule),
        native,
    )


def _dependencies(graph: Graph, uses: Uses) -> dict[Node, list[Node]]:
    before: dict[Node, list[Node]] = {}
    for node in graph.nodes:
        writers = {uses.writer[v]: None for v in values_of(node.inputs) if v in uses.writer}
        writers.update(dict.fromkeys(node.after))
        before[node] = list(writers)
    return before


def _writes_to_scope(
    graph: Graph, uses: Uses, shapes: Shapes, aside: bool, native: Collection[Node]
) -> tuple[set[Value], set[Value]]:
    """Which persistable values updates write in place, and which are staged.

    An update writes in place if it alone decides what its variables are in the end, nothing but a fetch reads what it
    wrote, all its operands have memory, and kernels run it; so the commit allocates nothing. With `aside` all are
    staged.
    """
    in_scope: set[Value] = set()
    staged: set[Value] = set()
    for node in graph.nodes:
        if node.type == FETCH:
            continue
        writes = [v for v in node.writes if v.persistable]
        if not writes:
            continue
        if not aside and is_update(node) and _is_last(node, graph) and _can_commit(node, uses, shapes, native):
            in_scope.update(writes)
        else:
            staged.update(v for v in writes if graph.newest[v.name, v.place] is v)
    return in_scope, staged


def _patched(graph: Graph, uses: Uses, committed: Collection[Node]) -> set[Value]:
    """What updates with sparse gradients write aside, if nothing but a fetch reads it."""
    patched: set[Value] = set()
    for node in graph.nodes:
        sparse = (
            node not in committed and is_update(node) and node.is_op and any(v.spec.kind == ROWS for v in node.reads)
        )
        read = any(reader.type != FETCH for v in node.writes for reader in uses.readers_of(v))
        kept = all(v.persistable for v in node.writes)  # the commit applies patches, to the scope
        if sparse and kept and not read and node.record.update is not None:
            patched.update(node.writes)
    return patched


def _is_last(node: Node, graph: Graph) -> bool:
    """Whether what an update writes is in the scope, and what it writes is in the end what stays there."""
    return all(v.persistable and graph.newest[v.name, v.place] is v for v in node.writes)


def _can_commit(node: Node, uses: Uses, shapes: Shapes, native: Collection[Node]) -> bool:
    if node not in native:
        return False  # NumPy allocates; it computes aside
    operands = [*values_of(node.inputs), *values_of(node.outputs)]
    sparse = [v for v in operands if v.spec.kind == ROWS]
    if sparse:
        if not all(_is_made_natively(v, uses, native) for v in sparse):
            return False
        operands = [v for v in operands if v.spec.kind != ROWS]
    if not all(is_static(shapes.specs[v]) and shapes.specs[v].dtype.itemsize > NARROW for v in operands):
        return False  # halves are computed in float32, aside, and rounded
    return all(reader.type == FETCH for v in node.writes for reader in uses.readers_of(v))


def _is_made_natively(gradient: Value, uses: Uses, native: Collection[Node]) -> bool:
    """Whether kernels make a sparse gradient, and those it is made of."""
    writer = uses.writer.get(gradient)
    if writer is None or writer not in native:
        return False
    return all(_is_made_natively(v, uses, native) for v in writer.value_reads if v.spec.kind == ROWS)


def _is_within_scope(node: Node, uses: Uses, fed: frozenset[tuple[str, int]]) -> bool:
    """Whether a fused update begins with what the scope holds, so that it can change the scope's buckets as a whole.

    What it changes is persistable, for it is part of the commit.
    """
    if node.type != FUSED_UPDATE:
        return False
    slots = zip(find_op(node.attrs["update"]).inputs, node.inputs, strict=True)
    held = values_of(values for slot, values in slots if slot.name not in ("Grad", "LearningRate"))
    return all(v not in uses.writer and (v.name, v.place) not in fed for v in held)


def _summed_together(graph: Graph) -> Iterator[list[Value]]:
    """What collectives over processes sum at once, device by device: one array is one collective."""
    if graph.settings.num_trainers > 1:
        for node in graph.nodes:
            if node.type == FUSED_ALL_REDUCE:
                yield from map(list, zip(*node.outputs, strict=True))


def gradients_of(node: Node) -> list[Value]:
    """The gradients of a fused update, in its order."""
    return _slot(node, "Grad")


def rate_of(node: Node) -> Value:
    """The learning rate of a fused update."""
    return _slot(node, "LearningRate")[0]


def _slot(node: Node, name: str) -> list[Value]:
    record = find_op(node.attrs["update"])
    return node.inputs[[slot.name for slot in record.inputs].index(name)]


def _last_versions(graph: Graph) -> list[Value]:
    return [value for value in graph.newest.values() if value.persistable]


def _given_values(graph: Graph, uses: Uses) -> list[Value]:
    given: dict[Value, None] = {}
    for node in graph.nodes:
        given.update((v, None) for v in values_of(node.inputs) if v not in uses.writer)
    return list(given)


def _row(node: Node, refs: Mapping[Value, Ref], schedule: Schedule, shapes: Shapes) -> Row:
    def of(slot: Any) -> Any:
        return [refs.get(v) for v in slot] if isinstance(slot, list) else refs.get(slot)

    ins, outs = [of(slot) for slot in node.inputs], [of(slot) for slot in node.outputs]
    return Row(node, ins, outs, schedule.thread[node], shapes.costs[node])


def _waits(schedule: Schedule, before: Mapping[Node, Sequence[Node]], aside: set[Node]) -> dict[Node, list[Node]]:
    """The nodes of other threads each speculative node waits for; of several on one thread the last is enough.

    Args:
        aside: nodes that wait for nobody. Those of the commit come when all threads are done, so nobody behind them can
            rely on what they wait for.
    """
    if schedule.threads == 1:
        return {}
    position = {node: i for i, node in enumerate(schedule.order)}
    seen: dict[tuple[int, int], int] = {}  # (waiting thread, other thread) -> position waited for already
    waits: dict[Node, list[Node]] = {}
    for node in schedule.order:
        if node.type == FETCH or node in aside:
            continue
        mine = schedule.thread[node]
        latest: dict[int, Node] = {}
        for other in before.get(node, ()):
            there = schedule.thread[other]
            if there != mine and (there not in latest or position[other] > position[latest[there]]):
                latest[there] = other
        for there, other in latest.items():
            if seen.get((mine, there), -1) < position[other]:
                seen[mine, there] = position[other]
                waits.setdefault(node, []).append(other)
    return waits


def _last_readers(schedule: Schedule) -> dict[Value, Node]:
    """The node after which nobody reads a value, so that objects can be let go of.

    Values that several threads read have none: which of them is the last is not known beforehand.
    """
    last_reader: dict[Value, Node] = {}
    threads: dict[Value, set[int]] = {}
    for node in schedule.order:
        for value in values_of(node.inputs):
            last_reader[value] = node
            threads.setdefault(value, set()).add(schedule.thread[node])
    return {value: node for value, node in last_reader.items() if len(threads[value]) == 1}
