"""Rules for devices: those of the tape, but for ops that a device does in another way.

A rule of this file is tried before the tape's; it raises `Unsuitable` before it has written anything if it does not
take the operands.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from workbench.executors.lowering.numpy.lower_updates import flat_operands, member_operands
from workbench.executors.lowering.scope_values import ScopeReads
from workbench.executors.lowering.tape import table  # noqa: F401 (has all rules noted)
from workbench.executors.lowering.tape.registry import Rule, rule_of, rules_of
from workbench.executors.lowering.tape.update.updates import write_update
from workbench.executors.planning.plan import Row
from workbench.framework.op.record import Op, find_op
from workbench.graph.ssa import FUSED_UPDATE, Node, update_of
from workbench.runtime.storage.tensor import LoDTensor

_RULES: dict[str, Rule] = {}


def on_device(*ops: Op | str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Note a rule for ops, or for nodes of a graph that are none, by their type."""

    def note(rule: Callable[..., None]) -> Callable[..., None]:
        _RULES.update((op if isinstance(op, str) else op.type, rule) for op in ops)
        return rule

    return note


def device_rules_of(node: Node) -> list[Rule]:
    """The rules a node may be written by, of which the first that suits does."""
    if node.is_op and "run_block" in node.record.needs:
        return []
    own = _RULES.get(node.type)
    return [*([own] if own is not None else []), *rules_of(node)]


def has_device_rule(node: Node) -> bool:
    """Whether there is a rule for a node."""
    if node.is_op and "run_block" in node.record.needs:
        return False
    return node.type in _RULES or rule_of(node) is not None


@on_device(FUSED_UPDATE)
def fused_update(writer: Any, row: Row) -> None:
    """Many parameters: as one array where they lie together and their powers agree, else one after the other.

    Whether powers agree is looked at when the row is bound, see `target.DeviceStorage`.
    """
    node = row.node
    record, body = find_op(node.attrs["update"]), update_of(node)
    flat = flat_operands(node, record, writer.context)
    if flat is not None and all(bool((powers == powers[0]).all()) for powers in flat[2]):
        ins, outs, powers = flat
        write_update(writer, body, node.attrs["attrs"], [outs], ins, powers)
        return
    for ins, outs in member_operands(node, writer.context):
        write_update(writer, body, node.attrs["attrs"], [outs], ins)


def powers_of(reads: ScopeReads) -> list[list[LoDTensor]]:
    """The powers of beta of each update of many parameters, slot by slot."""
    tensors = {(held.name, held.place): held.tensor for held in reads.held}
    slots: list[list[LoDTensor]] = []
    for node in (node for node in reads.plan.updates if node.type == FUSED_UPDATE):
        record, powers = find_op(node.attrs["update"]), update_of(node).powers
        for slot, values in zip(record.inputs, node.inputs, strict=True):
            if slot.name in powers and values:
                slots.append([tensors[v.name, v.place] for v in values if v is not None])
    return slots


def powers_agree(tensors: Sequence[LoDTensor]) -> bool:
    """Whether all parameters of an update have been updated equally often."""
    return len({tensor.array.tobytes() for tensor in tensors}) <= 1
