"""Updates of many parameters in one row, as calls: one parameter after the other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from workbench.executors.lowering.operands import Call, Context, arrays_of
from workbench.executors.planning.memory.buckets import flat_offsets
from workbench.executors.planning.plan import gradients_of
from workbench.framework.expr.numpy_functions import numpy_xp
from workbench.framework.op.record import Op, find_op
from workbench.graph.ssa import Node, update_of


def lower_update(node: Node, context: Context) -> list[Call]:
    """The updates of all parameters of a row; each computes its results, then stores them."""
    record = find_op(node.attrs["update"])
    if updates_one_copy(node, context) and node is not (context.shards(node) or ())[0]:
        operands = flat_operands(node, record, context)
        if operands is None:
            return []
        return _moving(node, operands[2], update_of(node).betas)  # the first device does the rest
    before: list[Call] = []
    if context.reduces_in_update(node):
        before, context = _summed(node, context)
    return [*before, *_member_updates(node, record, context)]


def updates_one_copy(node: Node, context: Context) -> bool:
    """Whether all devices hold in one memory what a fused update changes, but for the powers of beta."""
    shards = context.shards(node)
    if shards is None:
        return False  # nothing is to be put together just to look at it
    first, *others = [_parameters(shard, context) for shard in shards]
    return first is not None and all(other is first for other in others)


def _parameters(node: Node, context: Context) -> np.ndarray | None:
    """The parameters of a fused update as one array."""
    slots = [slot.name for slot in find_op(node.attrs["update"]).inputs]
    return context.bucket(node.place, [v.name for v in node.inputs[slots.index("Param")]])


def _summed(node: Node, context: Context) -> tuple[list[Call], Context]:
    """The sums of all devices' contributions to the gradients, in memory of its own, and a context that has them there.

    What a device's own contribution is in stays as it is: other devices' updates may yet have to read it.
    """
    first, second, *others = summands(node, context)
    total = np.empty_like(first)
    calls: list[Call] = [partial(np.add, first, second, total)]
    calls += [partial(np.add, total, other, total) for other in others]
    arrays = {v: context.array(v) for v in gradients_of(node)}
    starts, _ = flat_offsets([a.nbytes for a in arrays.values()])
    seen = {
        v: total[start // a.itemsize :][: a.size].reshape(a.shape)
        for start, (v, a) in zip(starts, arrays.items(), strict=True)
    }
    return calls, replace(context, array=lambda v: seen[v] if v in seen else context.array(v), flat=lambda ref: total)


def summands(node: Node, context: Context) -> list[np.ndarray]:
    """All devices' contributions to the gradients of a fused update whose replicas hold the same, in device order."""
    refs = [context.gradients(shard) for shard in context.shards(node) or ()]
    return [context.flat(ref) for ref in refs if ref is not None]


def _member_updates(node: Node, record: Op, context: Context) -> list[Call]:
    attrs = node.attrs["attrs"]
    return [partial(_update, record, attrs, ins, outs) for ins, outs in member_operands(node, context)]


def _update(record: Op, attrs: dict[str, Any], ins: Sequence[Any], outs: Sequence[Any]) -> None:
    """Compute all new values, then store them: what fails leaves the old ones."""
    results = record.forward(numpy_xp, *ins, **attrs)
    for out, result in zip(outs, (results,) if len(outs) == 1 else results, strict=True):
        if out is not None:
            np.copyto(out, result.reshape(out.shape))


def member_operands(node: Node, context: Context) -> Iterator[tuple[list[Any], list[Any]]]:
    """Inputs and outputs of the update of each parameter."""
    for k in range(len(node.inputs[0])):
        ins = arrays_of([slot and slot[min(k, len(slot) - 1)] for slot in node.inputs], context)
        yield ins, arrays_of([slot and slot[k] for slot in node.outputs], context)


def _moving(node: Node, powers: list[np.ndarray], betas: Sequence[str]) -> list[Call]:
    """The powers of beta for the next step."""
    factors = [node.attrs["attrs"][name] for name in betas]
    return [partial(np.multiply, p, p.dtype.type(b), p) for p, b in zip(powers, factors, strict=True)]


def flat_operands(node: Node, record: Op, context: Context) -> tuple[list[Any], list[Any], list[np.ndarray]] | None:
    """Inputs and outputs of the update of all parameters as one array, and the powers of beta of all of them.

    Returns:
        None if they do not lie together. Of the powers, the inputs hold the first parameter's.
    """
    ref = context.gradients(node)
    if ref is None:
        return None
    ins: list[Any] = []
    powers: list[np.ndarray] = []
    power_slots = update_of(node).powers
    for slot, values in zip(record.inputs, node.inputs, strict=True):
        if values is None or values[0] is None:
            ins.append(None)
        elif slot.name == "Grad":
            ins.append(context.flat(ref))
        elif slot.name == "LearningRate":
            ins.append(context.array(values[0]))
        else:
            bucket = context.bucket(node.place, [v.name for v in values])
            if bucket is None:
                return None
            if slot.name in power_slots:
                powers.append(bucket[:: 64 // bucket.itemsize])  # one number in every aligned member
                bucket = context.array(values[0])
            ins.append(bucket)
    position = {slot.name: i for i, slot in enumerate(record.inputs)}
    outs = []
    for slot, values in zip(record.outputs, node.outputs, strict=True):
        source = record.aliases[slot.name]
        outs.append(None if values is None or source in power_slots else ins[position[source]])
    return ins, outs, powers
