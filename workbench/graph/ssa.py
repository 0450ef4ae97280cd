"""The SSA graph: what every device computes, with the collectives between devices in it.

A `Value` is a variable on one device between two writes; a `Node` reads values and writes new ones. `Graph.nodes`
is always in an order in which the graph may be run one node after the other.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from workbench.framework.op.record import Op, UpdateBody, find_op
from workbench.framework.program.operator import Operator
from workbench.framework.program.program import Program
from workbench.framework.program.roles import OPTIMIZE, role_text
from workbench.framework.values.place import Place
from workbench.framework.values.spec import Spec
from workbench.framework.written import written

ALL_REDUCE, FUSED_ALL_REDUCE, REDUCE = "all_reduce", "fused_all_reduce", "reduce"
BROADCAST, FUSED_BROADCAST = "broadcast", "fused_broadcast"
TRAINER_BROADCAST = "trainer_broadcast"  # the values of one trainer, to all of them
COLLECTIVES = frozenset({ALL_REDUCE, FUSED_ALL_REDUCE, REDUCE, BROADCAST, FUSED_BROADCAST, TRAINER_BROADCAST})
SCALE_LOSS_GRAD, FETCH = "scale_loss_grad", "fetch"
FUSED_UPDATE, FUSED_ELEMENTWISE = "fused_update", "fused_elementwise"
_NOT_OPS = COLLECTIVES | {SCALE_LOSS_GRAD, FETCH, FUSED_UPDATE, FUSED_ELEMENTWISE}

Slot = Any  # one Value, a list of Values (None in it: nobody wants that output) or None (an absent slot)


class Value:
    """A variable on one device between two writes.

    Attributes:
        name: of the variable; place: index of the device; version: from 0, the value it has before any node writes.
        spec: as declared; dimensions may be unknown.
        persistable, is_data: as the variable.
    """

    __slots__ = ("is_data", "name", "persistable", "place", "spec", "version")

    def __init__(
        self, name: str, place: int, version: int, spec: Spec, persistable: bool = False, is_data: bool = False
    ) -> None:
        self.name, self.place, self.version, self.spec = name, place, version, spec
        self.persistable, self.is_data = persistable, is_data

    def __str__(self) -> str:
        return f"{self.name}@{self.place}.v{self.version}"

    __repr__ = __str__


class Node:
    """One operation on one device, or a collective between several.

    Attributes:
        type: an op type, or one of `COLLECTIVES`, `scale_loss_grad`, `fetch`, `fused_update`, `fused_elementwise`.
        places: indexes of the devices it acts on.
        inputs, outputs: one entry per slot of the op. Fetches and collectives have one slot, a list with the parts
            in device order (the results likewise); `fused_all_reduce` and `fused_broadcast` have one such slot per
            variable. `fused_update` has the slots of the update it stands for, each a list with one entry per
            parameter. `fused_elementwise` has one list in and one list out.
        attrs: the op's attributes. Of collectives `name` (or `names` and `bucket`) and `root`; of `fused_update` the
            `update` (an op type) and its `attrs`; of `fused_elementwise` the `results` (expressions over the inputs).
        role: as `op_role`.
        origins: the operators of the program it stands for; error messages name the first.
        after: nodes that have to come before it though it reads nothing of theirs.
    """

    __slots__ = ("after", "attrs", "inputs", "origins", "outputs", "places", "role", "type")

    def __init__(
        self,
        type: str,
        places: Sequence[int],
        inputs: list[Slot],
        outputs: list[Slot],
        attrs: dict[str, Any],
        role: int,
        origins: Sequence[Operator] = (),
    ) -> None:
        self.type, self.places, self.inputs, self.outputs = type, tuple(places), inputs, outputs
        self.attrs, self.role, self.origins = attrs, role, tuple(origins)
        self.after: list[Node] = []

    @property
    def record(self) -> Op:
        """The op record; collectives have none."""
        return find_op(self.type)

    @property
    def is_collective(self) -> bool:
        return self.type in COLLECTIVES

    @property
    def is_op(self) -> bool:
        """Whether it runs an op's body."""
        return self.type not in _NOT_OPS

    @property
    def place(self) -> int:
        """The (first) device."""
        return self.places[0]

    @property
    def reads(self) -> list[Value]:
        """All values read, in slot order."""
        return list(values_of(self.inputs))

    @property
    def value_reads(self) -> list[Value]:
        """The values whose content is read; of many inputs of a gradient only shape and dtype are."""
        if not self.is_op or not self.record.is_grad:  # what a forward op says there is about its gradient
            return self.reads
        slots = zip(self.record.inputs, self.inputs, strict=True)
        return list(values_of(v for slot, v in slots if slot.name not in self.record.shape_only))

    @property
    def writes(self) -> list[Value]:
        """All values written, in slot order."""
        return list(values_of(self.outputs))

    @property
    def site(self) -> Any:
        """Where in the user's code it comes from, None if nowhere."""
        return self.origins[0].site if self.origins else None

    def __repr__(self) -> str:
        return f"Node({self.type} on {','.join(map(str, self.places))}, {role_text(self.role)})"


def values_of(slots: Iterable[Slot]) -> Iterator[Value]:
    """The values in slots, lists opened and None left out."""
    for slot in slots:
        if isinstance(slot, list):
            for value in slot:
                if value is not None:
                    yield value
        elif slot is not None:
            yield slot


class Uses:
    """Who writes and who reads every value of a graph, as it is when this is made."""

    def __init__(self, nodes: Iterable[Node]) -> None:
        self.writer: dict[Value, Node] = {}
        self.readers: dict[Value, list[Node]] = {}
        for node in nodes:
            for value in values_of(node.inputs):
                self.readers.setdefault(value, []).append(node)
            for value in values_of(node.outputs):
                self.writer[value] = node

    def readers_of(self, value: Value) -> list[Node]:
        return self.readers.get(value, [])


@dataclass
class Graph:
    """What one step computes on all devices.

    Attributes:
        program: the program it was made from (a snapshot).
        places: the devices.
        nodes: in an order in which they may run.
        newest: the last version of every variable on every device, by (name, place).
        owners: in Reduce mode the device that updates each parameter.
        fetches: names fetched, in order.
        settings: the build strategy's decisions.
    """

    program: Program
    places: Sequence[Place]
    settings: Any
    nodes: list[Node] = field(default_factory=list)
    newest: dict[tuple[str, int], Value] = field(default_factory=dict)
    owners: dict[str, int] = field(default_factory=dict)
    fetches: list[str] = field(default_factory=list)

    @property
    def devices(self) -> int:
        return len(self.places)

    def names(self, devices: Iterable[int]) -> str:
        """What some of the devices are called, such as `cpu:0, cpu:1`."""
        return ", ".join(str(self.places[device]) for device in devices)

    def values(self) -> Iterator[Value]:
        """Every value some node reads or writes, each once."""
        seen: dict[Value, None] = {}
        for node in self.nodes:
            seen.update(dict.fromkeys(node.reads))
            seen.update(dict.fromkeys(node.writes))
        return iter(seen)

    def collectives(self) -> list[Node]:
        """The collectives in order."""
        return [node for node in self.nodes if node.is_collective]

    def fresh(self, like: Value, name: str | None = None, spec: Spec | None = None) -> Value:
        """A new version of a variable (or the first of another name) on the same device, for a node to write."""
        name = like.name if name is None else name
        before = self.newest.get((name, like.place))
        value = Value(name, like.place, before.version + 1 if before else 0, spec or like.spec)
        self.newest[name, like.place] = value
        return value

    def replace(self, mapping: Mapping[Node, Sequence[Node]]) -> None:
        """Put others where nodes are (none: they are removed); ordering edges to a node go to its last substitute."""
        self.nodes = [new for node in self.nodes for new in mapping.get(node, (node,))]
        last = {node: tuple(new)[-1] for node, new in mapping.items() if new}
        for node in self.nodes:
            if node.after:
                node.after = [last.get(n, n) for n in node.after if n in last or n not in mapping]

    def __str__(self) -> str:
        return written(self)

    def __repr__(self) -> str:
        return f"Graph({len(self.nodes)} nodes, {self.devices} devices, {len(self.collectives())} collectives)"


def is_update(node: Node) -> bool:
    """Whether a node is the update of a parameter: an Optimize op that replaces persistable values it reads."""
    if node.type == FUSED_UPDATE:
        return True
    if not (node.role & OPTIMIZE and node.is_op):
        return False
    return node.record.update is not None and _replaces_what_it_reads(node)


def update_of(node: Node) -> UpdateBody:
    """How an update, or one that joins several, updates its parameters."""
    body = find_op(node.attrs["update"]).update if node.type == FUSED_UPDATE else node.record.update
    assert body is not None, f"{node.type!r} is no update"
    return body


def _replaces_what_it_reads(node: Node) -> bool:
    """Whether each result goes where the value was that it follows; a program from a file may send it elsewhere."""
    record = node.record
    reads = {slot.name: value for slot, value in zip(record.inputs, node.inputs, strict=True)}
    writes = {slot.name: value for slot, value in zip(record.outputs, node.outputs, strict=True)}
    pairs = [(reads[before], writes[after]) for after, before in record.aliases.items()]
    return all(
        isinstance(after, Value) and (after.name, after.place) == (before.name, before.place)
        for before, after in pairs
        if isinstance(before, Value)
    )
