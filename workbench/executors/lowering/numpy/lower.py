"""The *calls* lowering: a row of a plan becomes callables without arguments, bound to their arrays.

A call runs the op's `forward`, the definition of what is correct, and copies the results to where the plan wants them.
Calls run what has no kernels: ops written in Python, dtypes and layouts that no kernel takes, and all of a plan where
kernels cannot run. The lowering to kernels starts from the same rows (`plan.Row`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from workbench.errors import ExecutionError
from workbench.executors.lowering.numpy.lower_collectives import lower_collective
from workbench.executors.lowering.numpy.lower_updates import lower_update
from workbench.executors.lowering.operands import Call, Cell, Context, arrays_of, is_dynamic
from workbench.executors.planning.memory.aliases import shown_input
from workbench.executors.planning.plan import Row
from workbench.framework.expr.numpy_functions import numpy_xp
from workbench.framework.op.record import flat
from workbench.framework.program.infer import GradientCheck
from workbench.framework.values.rows import Patch, Rows
from workbench.graph.ssa import (
    COLLECTIVES,
    FUSED_ELEMENTWISE,
    FUSED_UPDATE,
    SCALE_LOSS_GRAD,
    Node,
    update_of,
)


def lower(row: Row, context: Context) -> list[Call]:
    """The calls of one row, in order."""
    node = row.node
    if node.type in COLLECTIVES:
        return lower_collective(row, context)
    if node.type == SCALE_LOSS_GRAD:
        return _scale_loss_gradient(node, context)
    if node.type == FUSED_ELEMENTWISE:
        return [_Expressions(row, context)] if is_dynamic(row) else [_fused_elementwise(node, context)]
    if node.type == FUSED_UPDATE:
        return lower_update(node, context)
    if is_dynamic(row):
        return [_Patching(row, context) if node.record.update is not None else _Dynamic(row, context)]
    return _static(node, context)


def _static(node: Node, context: Context) -> list[Call]:
    ins, outs = arrays_of(node.inputs, context), arrays_of(node.outputs, context)
    if node.record.is_view and _same_memory(node, ins, outs):
        return []
    return [_Copying(node, ins, outs, context)]


def _same_memory(node: Node, ins: list[Any], outs: list[Any]) -> bool:
    """Whether the result of a view op already is where it should be."""
    (out,) = [o for o in outs if o is not None]
    source = ins[shown_input(node.record)]
    return (source.size == out.size and np.may_share_memory(source, out)) or not out.size


class _Copying:
    """Runs `forward` and copies what it returns to where it belongs."""

    def __init__(self, node: Node, ins: list[Any], outs: list[Any], context: Context) -> None:
        self.node, self.outs = node, outs
        self.ins = [_guarded(slot, array) for slot, array in zip(node.inputs, ins, strict=True)]
        self.attrs = call_attrs(node)
        self.extras = context.extras_of if node.record.needs else None
        self.forward = node.record.forward

    def __call__(self) -> None:
        extras = self.extras(self.node) if self.extras is not None else {}
        results = self.forward(numpy_xp, *self.ins, **extras, **self.attrs)
        pairs = list(_pairs(self.outs, (results,) if len(self.outs) == 1 else results))
        for out, result in [(out, _kept(result, number, pairs)) for number, (out, result) in enumerate(pairs)]:
            _put(self.node, out, result)


def _pairs(outs: Sequence[Any], results: Sequence[Any]) -> Iterator[tuple[Any, Any]]:
    """Every array that is written, with what goes there."""
    for out, result in zip(outs, results, strict=True):
        if isinstance(out, list):
            yield from zip(out, result, strict=True)
        else:
            yield out, result


def _kept(result: Any, number: int, pairs: Sequence[tuple[Any, Any]]) -> Any:
    """A result, or a copy where it shows an input in whose memory an earlier result is stored."""
    if not isinstance(result, np.ndarray) or not number:
        return result
    is_overwritten = any(out is not None and np.may_share_memory(result, out) for out, _ in pairs[:number])
    return result.copy() if is_overwritten else result


def _guarded(slot: Any, array: Any) -> Any:
    """An operand as the body of an op may have it: what the scope keeps cannot be written to, whoever wrote the op."""
    if isinstance(array, list):
        return [_guarded(v, a) for v, a in zip(slot, array, strict=True)]
    if not isinstance(array, np.ndarray) or not slot.persistable:
        return array
    seen = array.view()
    seen.flags.writeable = False
    return seen


def _put(node: Node, out: Any, result: Any) -> None:
    if out is None or result is None:
        return
    result = result.to_dense(np) if isinstance(result, Rows) else result
    if result.shape != out.shape:
        raise ExecutionError(
            f"op {node.type!r} returned shape {list(result.shape)} where its shape rule gives {list(out.shape)}"
        )
    np.copyto(out, result, casting="same_kind")


class _Dynamic:
    """Runs `forward` on operands that are looked up, and keeps results that have no memory of their own."""

    def __init__(self, row: Row, context: Context) -> None:
        self.node, self.forward, self.attrs = row.node, row.node.record.forward, call_attrs(row.node)
        self.extras = context.extras_of if row.node.record.needs else None
        self.ins = [_guarded(s, _holders(s, r, context)) for s, r in zip(row.node.inputs, row.ins, strict=True)]
        self.outs = [_holders(s, r, context) for s, r in zip(row.node.outputs, row.outs, strict=True)]
        self.check = GradientCheck(row.node.record, row.node.attrs) if row.node.record.is_grad else None

    def __call__(self) -> None:
        ins = [_values(holder) for holder in self.ins]
        if self.check is not None:
            self.check.require(ins)
        extras = self.extras(self.node) if self.extras is not None else {}
        results = self.forward(numpy_xp, *ins, **extras, **self.attrs)
        results = (results,) if len(self.outs) == 1 else results
        for holder, result in zip(self.outs, results, strict=True):
            if isinstance(holder, list):
                for one, part in zip(holder, result or (), strict=False):
                    self._keep(one, part, ins)
            else:
                self._keep(holder, result, ins)

    def _keep(self, holder: Any, result: Any, ins: list[Any]) -> None:
        if isinstance(holder, Cell):
            holder.value = _owned(result, ins)
        else:
            _put(self.node, holder, result)


class _Patching(_Dynamic):
    """An update with a sparse gradient: makes the rows it changes, where the others stay as they are."""

    def __init__(self, row: Row, context: Context) -> None:
        super().__init__(row, context)
        self.update = update_of(row.node)

    def __call__(self) -> None:
        ins = [_values(holder) for holder in self.ins]
        patches = self.update.patch(numpy_xp, *ins, **self.attrs)
        if patches is None or not self._keeps_others(ins):
            super().__call__()
            return
        for holder, result in zip(self.outs, patches, strict=True):
            if isinstance(holder, Cell):
                holder.value = result
            elif holder is not None and isinstance(result, Patch):
                holder[result.rows] = result.values
            else:
                _put(self.node, holder, result)

    def _keeps_others(self, ins: list[Any]) -> bool:
        """Whether the other rows are where the results go."""
        record = self.node.record
        held = {slot.name: value for slot, value in zip(record.inputs, ins, strict=True)}
        return all(
            out is None or isinstance(out, Cell) or np.may_share_memory(out, held[record.aliases[slot.name]])
            for slot, out in zip(record.outputs, self.outs, strict=True)
        )


def _owned(result: Any, ins: list[Any]) -> Any:
    """A result that stays as it is when the memory of the inputs is used for something else."""
    if isinstance(result, np.ndarray):
        return result.copy() if result.base is not None or any(result is a for a in flat(ins)) else result
    if isinstance(result, Rows):
        return Rows(_owned(result.rows, ins), _owned(result.values, ins), result.height)
    return np.asarray(result) if isinstance(result, np.generic) else result


def call_attrs(node: Node) -> dict[str, Any]:
    """What the body of a node's op is called with by keyword."""
    if "wanted" not in node.record.needs:
        return node.attrs
    wanted = tuple(
        any(v is not None for v in slot) if isinstance(slot, list) else slot is not None for slot in node.outputs
    )
    return {**node.attrs, "wanted": wanted}


def _holders(slot: Any, ref: Any, context: Context) -> Any:
    if isinstance(slot, list):
        return [_holders(v, r, context) for v, r in zip(slot, ref, strict=True)]
    if slot is None:
        return None
    return context.cell(slot) if ref is None else context.array(slot)


def _values(holder: Any) -> Any:
    if isinstance(holder, list):
        return [_values(h) for h in holder]
    return holder.value if isinstance(holder, Cell) else holder


# Nodes that are no ops


def _scale_loss_gradient(node: Node, context: Context) -> list[Call]:
    (out,) = node.outputs
    return [partial(context.array(out).fill, context.loss_factor(node))]


def _fused_elementwise(node: Node, context: Context) -> Call:
    (ins,), (outs,) = arrays_of(node.inputs, context), arrays_of(node.outputs, context)
    return partial(_evaluate, node.attrs["results"], ins, outs)


class _Expressions:
    """Joined element-wise ops on operands that are looked up."""

    def __init__(self, row: Row, context: Context) -> None:
        self.node, self.results = row.node, row.node.attrs["results"]
        (self.ins,) = (_holders(s, r, context) for s, r in zip(row.node.inputs, row.ins, strict=True))
        (self.outs,) = (_holders(s, r, context) for s, r in zip(row.node.outputs, row.outs, strict=True))

    def __call__(self) -> None:
        ins = _values(self.ins)
        arrays = [np.array(result.evaluate(numpy_xp, *ins)) for result in self.results]
        for holder, value in zip(self.outs, arrays, strict=True):
            if isinstance(holder, Cell):
                holder.value = value
            else:
                _put(self.node, holder, value)


def _evaluate(results: Sequence[Any], ins: list[Any], outs: list[Any]) -> None:
    results_now = [np.array(r.evaluate(numpy_xp, *ins)) for r in results]  # all before the first is stored: in place
    for out, value in zip(outs, results_now, strict=True):
        np.copyto(out, value)
