"""Is a graph well formed? Run after building it and, in tests, after every pass.

`problems` lists everything that is wrong, in words; `check_graph` raises if there is anything.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from workbench.errors import InvalidArgument
from workbench.framework.op import record as ops
from workbench.framework.values.spec import agree
from workbench.graph.loss import loss_gradients
from workbench.graph.printer import node_text
from workbench.graph.ssa import (
    ALL_REDUCE,
    BROADCAST,
    COLLECTIVES,
    FETCH,
    FUSED_ALL_REDUCE,
    FUSED_BROADCAST,
    FUSED_ELEMENTWISE,
    FUSED_UPDATE,
    SCALE_LOSS_GRAD,
    TRAINER_BROADCAST,
    Graph,
    Node,
    Slot,
    Value,
    values_of,
)

SHOWN = 20  # problems an error message lists
_EVERYWHERE = (ALL_REDUCE, FUSED_ALL_REDUCE, TRAINER_BROADCAST)  # every device has a part, and a result


def check_graph(graph: Graph) -> None:
    """Raise unless the graph is well formed.

    Every value has one writer, or is version 0 of a variable that is persistable, data or a gradient to be fed;
    versions count up without gaps; no node comes before one it waits for; collectives cover the devices with parts
    that agree; the slots of every node are those of its op.

    Raises:
        InvalidArgument: listing the problems, each with its node and value.
    """
    faults = problems(graph)
    if faults:
        count = "a problem" if len(faults) == 1 else f"{len(faults)} problems"
        more = [f"- and {len(faults) - SHOWN} more"] if len(faults) > SHOWN else []
        raise InvalidArgument("\n".join([f"{graph!r} has {count}:", *(f"- {text}" for text in faults[:SHOWN]), *more]))


def problems(graph: Graph) -> list[str]:
    """What is wrong with a graph, one text per problem, [] if nothing is."""
    faults = list(_Order(graph).problems())
    everywhere = tuple(range(graph.devices))
    for number, node in enumerate(graph.nodes):
        faults.extend(f"{_label(number, node)}: {text}" for text in _node(node, everywhere))
    return faults


def _label(number: int, node: Node) -> str:
    site = f" ({node.site})" if node.site else ""
    return f"node #{number} {node_text(node)}{site}"


# Versions and order


class _Order:
    """Goes through the nodes in their order.

    Attributes:
        written: the values that exist so far.
        newest: the version of every variable on every device after the nodes seen so far, and its value.
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.written: set[Value] = set()
        self.newest: dict[tuple[str, int], Value] = {}
        self.writers: dict[Value, int] = {}
        self.number = {node: number for number, node in enumerate(graph.nodes)}
        self.fed = set(loss_gradients(graph.program))

    def problems(self) -> Iterator[str]:
        if len(self.number) < len(self.graph.nodes):
            twice = next(n for i, n in enumerate(self.graph.nodes) if self.number[n] != i)
            yield f"{_label(self.number[twice], twice)} stands in the graph twice"
            return
        self.writers = {v: number for node, number in self.number.items() for v in values_of(node.outputs)}
        for node, number in self.number.items():
            for text in (*self._after(node, number), *self._reads(node), *self._writes(node, number)):
                yield f"{_label(number, node)}: {text}"

    def _after(self, node: Node, number: int) -> Iterator[str]:
        for before in node.after:
            if before not in self.number:
                yield f"comes after {before!r}, which is not in the graph"
            elif self.number[before] >= number:
                yield f"comes after node #{self.number[before]}, which does not stand before it"

    def _reads(self, node: Node) -> Iterator[str]:
        for value in values_of(node.inputs):
            key = value.name, value.place
            if value in self.written:
                if self.newest[key] is not value:
                    yield f"reads {value}, though {self.newest[key]} has been written before it"
            elif value in self.writers:
                yield f"reads {value}, which node #{self.writers[value]} writes no earlier"
            elif key in self.newest:
                yield f"reads {value}, which nothing writes; {self.newest[key]} is the value at that point"
            elif not self._given(value):
                yield f"reads {value}, which nothing writes and nobody feeds"
            else:
                self.written.add(value)
                self.newest[key] = value

    def _given(self, value: Value) -> bool:
        """Whether a value may exist before the step: persistable, data, or the loss gradient users feed (B-11)."""
        return value.version == 0 and (value.persistable or value.is_data or value.name in self.fed)

    def _writes(self, node: Node, number: int) -> Iterator[str]:
        for value in values_of(node.outputs):
            key = value.name, value.place
            before = self.newest.get(key)
            if value in self.written:
                yield f"writes {value}, which exists already"
            elif before is not None and value.version != before.version + 1:
                yield f"writes {value} after {before}; expected version {before.version + 1}"
            elif before is None and value.version != 0 and not (value.version == 1 and _lives_on(value)):
                yield f"writes {value}, the first value of its variable; expected version 0"
            self.written.add(value)
            self.newest[key] = value


def _lives_on(value: Value) -> bool:
    """Whether version 0 exists though nobody reads it."""
    return value.persistable or value.is_data


# Single nodes


def _node(node: Node, everywhere: Sequence[int]) -> Iterator[str]:
    for value in values_of((*node.inputs, *node.outputs)):
        if value.place not in node.places:
            yield f"{value} is on device {value.place}, where the node does not act"
    if node.type in COLLECTIVES:
        yield from _collective(node, everywhere)
    elif node.type == FETCH:
        yield from _parts("a fetch", node.inputs, len(node.places))
    elif node.type == FUSED_UPDATE:
        yield from _fused_update(node)
    elif node.type == FUSED_ELEMENTWISE:
        yield from _fused_elementwise(node)
    elif node.type != SCALE_LOSS_GRAD:
        yield from _slots_of_op(node.type, node.inputs, node.outputs)
    if not node.is_collective and node.type != FETCH and len(node.places) != 1:
        yield f"acts on {len(node.places)} devices; expected one"


def _collective(node: Node, everywhere: Sequence[int]) -> Iterator[str]:
    if not node.places or any(place not in everywhere for place in node.places):
        yield f"acts on devices {list(node.places)}; there are {list(everywhere)}"
        return
    if node.type in _EVERYWHERE and tuple(node.places) != tuple(everywhere):
        yield f"acts on devices {list(node.places)}; expected all, {list(everywhere)}"
    if len(node.inputs) != len(node.outputs) or not all(isinstance(s, list) for s in (*node.inputs, *node.outputs)):
        yield "takes and gives one list of parts per variable"
        return
    fused = node.type in (FUSED_ALL_REDUCE, FUSED_BROADCAST)
    names = node.attrs.get("names") if fused else [node.attrs.get("name")]
    if names != [slot[0].name if slot else None for slot in node.inputs]:
        yield f"the names {names} are not those of what it reads"
    for parts, results in zip(node.inputs, node.outputs, strict=True):
        yield from _exchanged(node, parts, results)


def _exchanged(node: Node, parts: list[Value], results: list[Value]) -> Iterator[str]:
    """Parts and results of one variable: on the right devices, of one shape, dtype and kind."""
    ends = _ends(node)
    for what, values, expected in (("reads", parts, ends[0]), ("writes", results, ends[1])):
        places = [value.place for value in values]
        if places != expected:
            yield f"{what} {', '.join(map(str, values)) or 'nothing'}; expected one value on each of devices {expected}"
    first = next(iter((*parts, *results)), None)
    for value in (*parts, *results):
        if first is not None and not agree(first.spec, value.spec):
            yield f"{value} is {value.spec}, but {first} is {first.spec}"


def _ends(node: Node) -> tuple[list[int], list[int]]:
    """The devices a collective reads from and writes to."""
    places, root = list(node.places), node.attrs.get("root")
    if node.type in _EVERYWHERE:
        return places, places
    if node.type in (BROADCAST, FUSED_BROADCAST):
        return [place for place in places if place == root], [place for place in places if place != root]
    return places, [place for place in places if place == root]


def _parts(what: str, slots: list[Slot], count: int) -> Iterator[str]:
    if len(slots) != 1 or not isinstance(slots[0], list) or len(slots[0]) != count:
        yield f"{what} takes one list with a value per device"


def _fused_update(node: Node) -> Iterator[str]:
    """The slots of the update, each a list with one entry per parameter."""
    slots = [slot for slot in (*node.inputs, *node.outputs) if slot is not None]
    counts = {len(slot) if isinstance(slot, list) else -1 for slot in slots}
    if len(counts) != 1 or -1 in counts:
        yield "the slots of a fused update are lists with one entry per parameter, all equally long"
        return
    for index in range(counts.pop()):
        one = ([None if slot is None else slot[index] for slot in side] for side in (node.inputs, node.outputs))
        yield from _slots_of_op(node.attrs["update"], *one)


def _fused_elementwise(node: Node) -> Iterator[str]:
    """One list in, one list out, an expression per result over the inputs."""
    if [isinstance(slot, list) for slot in (*node.inputs, *node.outputs)] != [True, True]:
        yield "a fused element-wise node has one list in and one list out"
        return
    results = node.attrs["results"]
    if len(results) != len(node.outputs[0]):
        yield f"has {len(results)} expressions for {len(node.outputs[0])} results"
    used = {index for result in results for index in _inputs_of(result)}
    if used != set(range(len(node.inputs[0]))):
        yield f"the expressions read inputs {sorted(used)} of {len(node.inputs[0])}"


def _inputs_of(expr: Any) -> set[int]:
    numbers: set[int] = set()
    seen: set[int] = set()
    rest = [expr]
    while rest:
        one = rest.pop()
        if id(one) not in seen:
            seen.add(id(one))
            rest.extend(one.args)
            if one.function == "input":
                numbers.add(one.value)
    return numbers


def _slots_of_op(op_type: str, inputs: list[Slot], outputs: list[Slot]) -> Iterator[str]:
    record = ops.look_up(op_type)
    if record is None:
        yield f"there is no op {op_type!r}"
        return
    needed = tuple(s._replace(optional=s.optional or s.name in record.named_only) for s in record.inputs)
    yield from _compare("input", needed, inputs)
    yield from _compare("output", record.outputs, outputs)


def _compare(what: str, slots: tuple[ops.Slot, ...], given: Iterable[Slot]) -> Iterator[str]:
    values = list(given)
    if len(values) != len(slots):
        yield f"has {len(values)} {what} slots; expected {', '.join(map(str, slots)) or 'none'}"
        return
    for slot, value in zip(slots, values):
        if value is None:
            if what == "input" and not slot.optional:
                yield f"the {what} {slot.name} is missing"
        elif isinstance(value, list) != slot.is_list:
            yield f"the {what} {slot.name} takes {'a list' if slot.is_list else 'one value'}"
