"""What the passes share that join an activation with the op before it: finding the two and their backward ops."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from workbench.framework.op.record import find_op
from workbench.graph.ssa import Node, Slot, Uses, Value


class Activation(NamedTuple):
    """An activation and its backward op, None if there is none; what else reads the activated value; its result."""

    node: Node
    back: Node | None
    others: list[Node]
    result: Value

    @property
    def gradient(self) -> Value | None:
        """The gradient of the activated value, as the backward op gives it."""
        return self.back.writes[0] if self.back is not None and self.back.writes else None


def activation_of(value: Value, suits: Callable[[str], bool], uses: Uses) -> Activation | None:
    """The one activation of a value whose type suits, with its default attributes; None if there is none or several."""
    readers = uses.readers_of(value)
    suiting = [node for node in readers if suits(node.type) and node.attrs == node.record.attrs]
    if len(suiting) != 1 or not is_temporary(value):
        return None
    (node,) = suiting
    result = node.writes[0]
    backs = [other for other in {*readers, *uses.readers_of(result)} if carries_those_of(other, node)]
    if len(backs) > 1 or not is_temporary(result) or (backs and backs[0].attrs != node.attrs):
        return None
    back = backs[0] if backs else None
    return Activation(node, back, [other for other in readers if other not in (node, back)], result)


def carries_those_of(back: Node, node: Node) -> bool:
    """Whether a node is of the backward op of another one, and of its operands and results reads those that it reads.

    A backward op that carries nothing of its op but a gradient is known by that gradient alone.
    """
    if back.type != node.record.grad_type:
        return False
    own, absent = slots_of(node) | results_of(node), back.record.shaped_like
    return all(value == own[slot] for slot, value in slots_of(back).items() if slot in own and slot not in absent)


def is_temporary(value: Value) -> bool:
    """Whether a value is written once and forgotten after the step."""
    return value.version == 0 and not value.persistable


def only_reader(value: Value, uses: Uses) -> Node | None:
    """The node that alone reads a value, be it twice: a gradient may stand for the shape of an operand, too."""
    readers = list(dict.fromkeys(uses.readers_of(value)))
    return readers[0] if len(readers) == 1 and is_temporary(value) else None


def slots_of(node: Node) -> dict[str, Slot]:
    """What an op reads, by slot."""
    return {slot.name: value for slot, value in zip(node.record.inputs, node.inputs, strict=True)}


def results_of(node: Node) -> dict[str, Slot]:
    """What an op writes, by slot."""
    return {slot.name: value for slot, value in zip(node.record.outputs, node.outputs, strict=True)}


def made_of(
    members: Sequence[Node],
    type: str,
    given: Mapping[str, Slot],
    results: Mapping[str, Slot],
    attrs: Mapping[str, Any],
) -> Node:
    """The node that stands for several, the last of which gives it its role; slots that are not given are absent."""
    record = find_op(type)
    return Node(
        type,
        members[-1].places,
        [given.get(slot.name) for slot in record.inputs],
        [results.get(slot.name) for slot in record.outputs],
        {**record.attrs, **attrs},
        members[-1].role,
        [op for node in members for op in node.origins],
    )
