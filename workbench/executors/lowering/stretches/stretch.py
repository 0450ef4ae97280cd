"""A stretch: nodes one after the other whose sizes are known when they are run.

What runs in kernels then does so, bound once for all sizes; what makes results of sizes that only values tell, and what
has no kernels, is a call. A stretch is divided among both when it is first run.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from workbench.errors import EnforceNotMet
from workbench.executors.lowering.numpy.lower import lower
from workbench.executors.lowering.open_bindings import FeedForm
from workbench.executors.lowering.operands import Call, Cell, RunsNodes
from workbench.executors.lowering.stretches.room import StretchRoom
from workbench.executors.lowering.stretches.sized import InPython, Sized, SizedForm, SizedGraph
from workbench.executors.lowering.tape.registry import rule_of
from workbench.executors.planning.open_plan import OpenDims
from workbench.executors.planning.plan import Given, Row
from workbench.executors.planning.shapes import Shapes, is_static
from workbench.executors.planning.sizes.unknowns import Unsettled
from workbench.framework.op.record import Cost
from workbench.framework.outside import is_from_outside
from workbench.framework.program.failures import op_failure
from workbench.framework.values.spec import Spec, spec_of
from workbench.graph.ssa import FETCH, Graph, Node, Slot, Value, values_of
from workbench.runtime.collector import collector_paused

_MOST_APART = 64  # sizes for which nodes are planned alone, where no plan is right for several

Extras = Callable[[Node], dict[str, Any]]  # the keyword arguments an op `needs`, in this run


class StretchPart(RunsNodes, Protocol):
    """Some nodes of a stretch."""

    @property
    def wanted(self) -> Sequence[Value]:
        """What they make, or are given, for others."""


class Stretch:
    """Nodes of one device.

    Args:
        graph: whose nodes they are. wanted: what they make, or are given, that others read.
        in_python: those of them that are known to have no kernels.

    Attributes:
        reads: what they are given by others.
    """

    def __init__(
        self,
        graph: Graph,
        nodes: Sequence[Node],
        wanted: Sequence[Value],
        room: StretchRoom,
        in_python: Collection[Node] = (),
    ) -> None:
        self._graph, self._nodes, self.wanted, self._room = graph, list(nodes), list(wanted), room
        self.reads = _read_from_outside(nodes, wanted)
        self._in_python = in_python
        self._parts: list[StretchPart] = []

    def run(self, given: Sequence[Any], extras: Extras) -> Sequence[Any]:
        """What is wanted.

        Args:
            given: arrays and objects, in the order of `reads`; nothing is written to them.

        Raises:
            EnforceNotMet: an op failed; names it, and the line that built it.
        """
        parts = self._parts
        if not parts:
            specs = self._specs(given)
            if specs is None:
                return NodeCalls(self._graph, self._nodes, self.wanted).run(given, extras)
            parts = self._parts = self._divided(specs)
        if len(parts) == 1:
            return parts[0].run(given, extras)
        values = dict(zip(self.reads, given, strict=True))
        for part in parts:
            results = part.run([values[value] for value in part.reads], extras)
            values.update(zip(part.wanted, results, strict=True))
        return [values[value] for value in self.wanted]

    def _divided(self, specs: Mapping[Value, Spec]) -> list[StretchPart]:
        """Nodes in kernels, calls, and whatever comes behind the first result whose size is told by values."""
        pieces: list[list[Node]] = []
        rest: list[Node] = []
        joins = False
        for number, node in enumerate(self._nodes):
            is_sized = node not in self._in_python and _runs_in_kernels(node, specs)
            if is_sized and joins:
                pieces[-1].append(node)
            else:
                pieces.append([node])
            joins = is_sized
            if not is_sized and not all(is_static(specs[v]) for v in node.writes):
                rest = self._nodes[number + 1 :]
                break
        parts = [self._part(piece, specs) for piece in pieces]
        if rest:
            parts.append(Stretch(self._graph, rest, self._wanted_of(rest), self._room, self._in_python))
        return parts

    def _specs(self, given: Sequence[Any]) -> Mapping[Value, Spec] | None:
        """Of all values, for these; None if something is wrong with them, which the calls tell."""
        named: Given = {
            (v.name, v.place): spec_of(a) for v, a in zip(self.reads, given, strict=True) if type(a) is np.ndarray
        }
        try:
            return Shapes(
                Graph(self._graph.program, self._graph.places, self._graph.settings, self._nodes), named
            ).specs
        except EnforceNotMet:
            return None

    def _part(self, nodes: Sequence[Node], specs: Mapping[Value, Spec]) -> StretchPart:
        wanted = self._wanted_of(nodes)
        if nodes[0] in self._in_python or not _runs_in_kernels(nodes[0], specs):
            return NodeCalls(self._graph, nodes, wanted)
        return SizedNodes(self._graph, nodes, wanted, self._room)

    def _wanted_of(self, nodes: Sequence[Node]) -> list[Value]:
        """What these of the nodes make for the others, or for those outside."""
        own = set(nodes)
        outside = {v for node in self._nodes if node not in own for v in node.reads}.union(self.wanted)
        if len(own) == len(self._nodes):
            return self.wanted
        return [value for node in nodes for value in node.writes if value in outside]


class SizedNodes:
    """Nodes that run in kernels, bound for all sizes they meet; as calls where that is not possible.

    Args:
        wanted: what they make for others.
    """

    def __init__(self, graph: Graph, nodes: Sequence[Node], wanted: Sequence[Value], room: StretchRoom) -> None:
        self.reads, self.wanted = _read_from_outside(nodes, wanted), list(wanted)
        self._graph, self._original, self._room = graph, list(nodes), room
        self._nodes = apart(graph, nodes, self.reads, wanted)
        self._calls = NodeCalls(graph, nodes, wanted)
        declared = {value.name: tuple(value.spec.shape) for value in self.reads}
        self._forms: FeedForm[SizedForm] = FeedForm(
            declared if any(-1 in shape for shape in declared.values()) else None
        )
        self._instead: Stretch | None = None  # at all sizes
        self._beside: dict[Hashable, Stretch] = {}  # at some
        self._apart = 0  # sizes that were planned for themselves

    def run(self, given: Sequence[Any], extras: Extras) -> Sequence[Any]:
        if self._instead is not None:
            return self._instead.run(given, extras)
        key = (self, *[(a.shape, a.dtype.num) if type(a) is np.ndarray else None for a in given])
        sized: Sized | None = self._room.bound(key)
        if sized is None:
            sized = self._bound(key, given)
        if sized is not None:
            with self._room.lock:
                results = sized.run(given)
            if results is not None:
                return results
        return (self._instead or self._beside.get(key) or self._calls).run(given, extras)

    def _bound(self, key: Hashable, given: Sequence[Any]) -> Sized | None:
        """What runs these sizes from now on; None if something else does."""
        if key in self._beside or not all(type(a) is np.ndarray and a.size for a in given):
            return None  # kernels take no empty arrays
        specs = {(v.name, v.place): spec_of(a) for v, a in zip(self._nodes.given, given, strict=True)}
        try:
            with self._room.lock:
                sized = self._fitting(specs) or self._alone(specs, key)
        except (EnforceNotMet, Unsettled):
            return None  # what is wrong with them the calls tell
        except InPython as reason:
            self._instead = self._without(reason)
            return None
        if sized is not None:
            self._room.keep(key, sized)
        return sized

    def _form(self, dims: OpenDims) -> SizedForm:
        with collector_paused():
            return SizedForm(self._nodes, dims, self._room)

    def _fitting(self, specs: Given) -> Sized | None:
        """From a form that is right for other sizes, too."""
        fit = self._forms.fit(specs, self._form)
        return None if fit is None else fit.binding.fill(fit.filled)

    def _alone(self, specs: Given, key: Hashable) -> Sized | None:
        """From one for these sizes alone."""
        if self._apart == _MOST_APART:
            return None
        self._apart += 1
        try:
            form = self._form(OpenDims((), specs))
        except InPython as reason:  # at these sizes
            self._beside[key] = self._without(reason)
            return None
        filled = form.try_fill(specs)
        return None if filled is None else form.fill(filled)

    def _without(self, reason: InPython) -> Stretch:
        """The same nodes, of which some are calls."""
        pairs = zip(self._original, self._nodes.graph.nodes, strict=False)
        nodes = {node for node, copy in pairs if copy in reason.nodes}
        return Stretch(self._graph, self._original, self.wanted, self._room, nodes)


class NodeCalls:
    """Nodes that Python runs, one call after the other; those of one run at a time."""

    def __init__(self, graph: Graph, nodes: Sequence[Node], wanted: Sequence[Value]) -> None:
        self.reads, self.wanted = _read_from_outside(nodes, wanted), list(wanted)
        self._graph, self._nodes = graph, nodes
        self._cells: dict[Value, Cell] = {}
        self._calls: dict[Node, list[Call]] = {}
        self._extras: Extras | None = None

    def run(self, given: Sequence[Any], extras: Extras) -> Sequence[Any]:
        self._extras = extras
        for value, held in zip(self.reads, given, strict=True):
            self.cell(value).value = held
        try:
            for node in self._nodes:
                self._run(node)
            return [self.cell(value).value for value in self.wanted]
        finally:
            for cell in self._cells.values():
                cell.value = None

    def _run(self, node: Node) -> None:
        try:
            calls = self._calls.get(node)
            if calls is None:
                calls = self._calls[node] = lower(_without_memory(node), self)  # type: ignore[arg-type]
            for call in calls:
                call()
        except Exception as error:
            if is_from_outside(error) or (isinstance(error, EnforceNotMet) and error.located):
                raise
            raise self._failure(node, self._cells, error) from error

    # What calls of nodes without memory are bound to, as `Context`

    def cell(self, value: Value) -> Cell:
        """Where a value is."""
        return self._cells.setdefault(value, Cell())

    def extras_of(self, node: Node) -> dict[str, Any]:
        """The keyword arguments an op `needs`."""
        assert self._extras is not None
        return self._extras(node)

    def _failure(self, node: Node, cells: Mapping[Value, Cell], error: Exception) -> EnforceNotMet:
        """What a user reads; of a node in a block the device is told by the op that runs that."""
        inputs = []
        for slot, values in zip(node.record.inputs, node.inputs, strict=True) if node.is_op else ():
            texts = [f"{value.name} {_described(cells, value)}" for value in values_of([values])]
            inputs += [(slot.name, texts)] if texts else []
        is_in_block = any(op.block.idx for op in node.origins)
        where = "" if is_in_block else f" on {self._graph.names(node.places)}"
        return op_failure(node.type, where, inputs, node.site, error)


def _described(cells: Mapping[Value, Cell], value: Value) -> Spec:
    held = cells[value].value if value in cells else None
    return spec_of(held) if isinstance(held, np.ndarray) else value.spec


def _without_memory(node: Node) -> Row:
    """A row all of whose operands travel as objects."""
    ins, outs = (
        [[None] * len(s) if isinstance(s, list) else None for s in slots] for slots in (node.inputs, node.outputs)
    )
    return Row(node, ins, outs, 0, Cost(0, 0))


def _runs_in_kernels(node: Node, specs: Mapping[Value, Spec]) -> bool:
    """Whether it probably does, at these sizes; what tells is whether its row is written."""
    needs = set(node.record.needs) if node.is_op else set()
    values = [*node.reads, *node.writes]
    is_known = all(is_static(specs[value]) for value in values)
    return needs <= {"wanted"} and bool(node.writes) and is_known and rule_of(node) is not None


def _read_from_outside(nodes: Sequence[Node], wanted: Sequence[Value]) -> list[Value]:
    written = {value for node in nodes for value in node.writes}
    read = dict.fromkeys(value for node in nodes for value in node.reads)
    read.update(dict.fromkeys(wanted))
    return [value for value in read if value not in written]


def apart(graph: Graph, nodes: Sequence[Node], given: Sequence[Value], wanted: Sequence[Value]) -> SizedGraph:
    """Nodes as a graph of their own; what they are given has names of its own and nobody writes there."""
    names = [(value.name, value.place) for value in given]
    values: dict[Value, Value] = {}
    for value in given:
        is_one = names.count((value.name, value.place)) == 1
        name = value.name if is_one else str(value)
        values[value] = Value(name, value.place, 0, value.spec, persistable=True)

    def other(value: Value | None) -> Value | None:
        if value is None:
            return None
        if value not in values:
            values[value] = Value(value.name, value.place, value.version + 1, value.spec)
        return values[value]

    def slot(old: Slot) -> Slot:
        return [other(value) for value in old] if isinstance(old, list) else other(old)

    own = Graph(graph.program, graph.places, graph.settings)
    for node in nodes:
        ins, outs = [slot(each) for each in node.inputs], [slot(each) for each in node.outputs]
        own.nodes.append(Node(node.type, node.places, ins, outs, node.attrs, node.role, node.origins))
    asked: list[Any] = [other(value) for value in wanted]
    place = nodes[0].place
    own.nodes += [Node(FETCH, (place,), [[value]], [], {"name": value.name}, 0) for value in dict.fromkeys(asked)]
    own.newest = {(v.name, v.place): v for node in own.nodes for v in (*values_of(node.inputs), *node.writes)}
    return SizedGraph(own, tuple(values[v] for v in given), tuple(asked))
