"""The *calls* lowering: a row of a plan becomes callables without arguments, bound to their arrays.

This is the reference lowering and the fallback for ops written in Python. A lowering to native code starts from the
same rows (`plan.Row`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from workbench.errors import ExecutionError
from workbench.executors.memory import Ref, shown_input
from workbench.executors.plan import Row
from workbench.framework.elementwise import numpy_xp
from workbench.framework.op import Op, find_op, flat
from workbench.framework.rows import Rows
from workbench.framework.ufuncs import bind_elementwise, bind_expression
from workbench.graph.ssa import (
    ALL_REDUCE,
    BROADCAST,
    COLLECTIVES,
    FUSED_ALL_REDUCE,
    FUSED_BROADCAST,
    FUSED_ELEMENTWISE,
    FUSED_UPDATE,
    REDUCE,
    SCALE_LOSS_GRAD,
    Node,
    Value,
)
from workbench.runtime.comm.base import Collective, Communicator

Call = Callable[[], Any]
_PATIENCE = 600.0  # seconds a collective may take


class Cell:
    """Holds a value that travels as an object while a step runs."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value: Any = None


class Scratch:
    """Temporary memory of one thread: every row gets it anew, so rows share it."""

    def __init__(self) -> None:
        self._chunks: list[np.ndarray] = []
        self._next = self._used = 0

    def restart(self) -> None:
        """All of it is free again; what was handed out keeps its memory, for another row has the same."""
        self._next = self._used = 0

    def __call__(self, shape: Sequence[int], dtype: Any) -> np.ndarray:
        dtype = np.dtype(dtype)
        count = int(np.prod(shape, dtype=np.int64))
        nbytes = -(-max(count * dtype.itemsize, 1) // 64) * 64
        while self._next < len(self._chunks) and self._chunks[self._next].size - self._used < nbytes:
            self._next, self._used = self._next + 1, 0
        if self._next == len(self._chunks):
            self._chunks.append(np.empty(max(nbytes, 1 << 16), np.uint8))
        part = self._chunks[self._next][self._used : self._used + nbytes]
        self._used += nbytes
        return part[: count * dtype.itemsize].view(dtype).reshape(shape)

    @property
    def nbytes(self) -> int:
        return sum(chunk.size for chunk in self._chunks)


@dataclass
class Context:
    """What rows are bound to.

    Attributes:
        array: the array of a value that has memory; cell: the cell of one that travels as an object.
        flat: the array of a `Ref` that spans several values; bucket: the scope's storage of several persistables as
            one array, None if they do not lie together.
        extras: the keyword arguments an op `needs`, asked for when it runs.
        weights: per device the coefficient of its loss gradient under WeightedBySamples.
        gradients: of a fused update, the `Ref` of all its gradients together; None if it is not made as a whole.
    """

    array: Callable[[Value], np.ndarray]
    cell: Callable[[Value], Cell]
    flat: Callable[[Ref], np.ndarray]
    bucket: Callable[[int, list[str]], np.ndarray | None]
    extras: Callable[[Node], dict[str, Any]]
    comm: Communicator
    weights: Sequence[float]
    gradients: Callable[[Node], Ref | None]


def lower(row: Row, context: Context, scratch: Scratch) -> list[Call]:
    """The calls of one row, in order."""
    scratch.restart()
    node = row.node
    if node.type in COLLECTIVES:
        return _collective(row, context)
    if node.type == SCALE_LOSS_GRAD:
        return _scale_loss_gradient(node, context)
    if node.type == FUSED_ELEMENTWISE:
        return [_Expressions(row, context)] if _is_dynamic(row) else _fused_elementwise(node, context, scratch)
    if node.type == FUSED_UPDATE:
        return _fused_update(node, context, scratch)
    if _is_dynamic(row):
        return [_Patching(row, context) if node.record.patch is not None else _Dynamic(row, context)]
    return _static(node, context, scratch)


def _is_dynamic(row: Row) -> bool:
    """Whether an operand travels as an object."""
    for slots, refs in ((row.node.inputs, row.ins), (row.node.outputs, row.outs)):
        for slot, ref in zip(slots, refs, strict=True):
            if isinstance(slot, list):
                if any(v is not None and r is None for v, r in zip(slot, ref, strict=True)):
                    return True
            elif slot is not None and ref is None:
                return True
    return False


def _arrays(slots: Sequence[Any], context: Context) -> list[Any]:
    return [
        [None if v is None else context.array(v) for v in slot]
        if isinstance(slot, list)
        else None if slot is None else context.array(slot)
        for slot in slots
    ]  # fmt: skip


def _static(node: Node, context: Context, scratch: Scratch) -> list[Call]:
    record = node.record
    ins, outs = _arrays(node.inputs, context), _arrays(node.outputs, context)
    if record.is_view and _same_memory(node, ins, outs):
        return []
    bound = _bind(record, outs, ins, scratch, node.attrs)
    if bound is not None:
        return bound
    plain = not record.needs and all(o is not None and not isinstance(o, list) for o in outs)
    if record.forward_out is not None and plain:
        return [partial(record.forward_out, numpy_xp, outs, *ins, **node.attrs)]
    return [_Copying(node, ins, outs, context)]


def _bind(record: Op, outs: Any, ins: Any, scratch: Scratch, attrs: dict[str, Any]) -> list[Call] | None:
    if record.bind is not None:
        found = record.bind(outs, ins, scratch, **attrs)
        if found is not None:
            return found
        scratch.restart()
    return bind_elementwise(record, outs, ins, scratch, attrs) if record.is_elementwise else None


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
        self.attrs = _call_attrs(node)
        self.extras = context.extras if node.record.needs else None
        self.forward = node.record.forward

    def __call__(self) -> None:
        extras = self.extras(self.node) if self.extras is not None else {}
        results = self.forward(numpy_xp, *self.ins, **extras, **self.attrs)
        results = (results,) if len(self.outs) == 1 else results
        for out, result in zip(self.outs, results, strict=True):
            if isinstance(out, list):
                for one, part in zip(out, result, strict=True):
                    _put(self.node, one, part)
            else:
                _put(self.node, out, result)


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
        raise ExecutionError(f"op {node.type!r} made {list(result.shape)} where its rule says {list(out.shape)}")
    np.copyto(out, result, casting="same_kind")


class _Dynamic:
    """Runs `forward` on operands that are looked up, and keeps results that have no memory of their own."""

    def __init__(self, row: Row, context: Context) -> None:
        self.node, self.forward, self.attrs = row.node, row.node.record.forward, _call_attrs(row.node)
        self.extras = context.extras if row.node.record.needs else None
        self.ins = [_guarded(s, _holders(s, r, context)) for s, r in zip(row.node.inputs, row.ins, strict=True)]
        self.outs = [_holders(s, r, context) for s, r in zip(row.node.outputs, row.outs, strict=True)]

    def __call__(self) -> None:
        ins = [_values(holder) for holder in self.ins]
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

    def __call__(self) -> None:
        ins = [_values(holder) for holder in self.ins]
        found = self.node.record.patch(numpy_xp, *ins, **self.attrs) if self.node.record.patch is not None else None
        if found is None or not all(o is None or isinstance(o, Cell) for o in self.outs):
            super().__call__()
            return
        for holder, result in zip(self.outs, found, strict=True):
            if holder is not None:
                holder.value = result


def _owned(result: Any, ins: list[Any]) -> Any:
    """A result that stays as it is when the memory of the inputs is used for something else."""
    if isinstance(result, np.ndarray):
        return result.copy() if result.base is not None or any(result is a for a in flat(ins)) else result
    if isinstance(result, Rows):
        return Rows(_owned(result.rows, ins), _owned(result.values, ins), result.height)
    return np.asarray(result) if isinstance(result, np.generic) else result


def _call_attrs(node: Node) -> dict[str, Any]:
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
    """Fill in the coefficient (B-10)."""
    (out,) = node.outputs
    strategy, ranks = node.attrs["strategy"], node.attrs["ranks"]
    factor = {"One": 1.0, "CoeffNumDevice": 1.0 / ranks, "WeightedBySamples": context.weights[node.place]}[strategy]
    return [partial(context.array(out).fill, factor)]


def _fused_elementwise(node: Node, context: Context, scratch: Scratch) -> list[Call]:
    (ins,), (outs,) = _arrays(node.inputs, context), _arrays(node.outputs, context)
    results = node.attrs["results"]
    bound = bind_expression(results, ins, outs, scratch)
    if bound is not None:
        return bound
    return [partial(_evaluate, results, ins, outs)]


class _Expressions:
    """Joined element-wise ops on operands that are looked up."""

    def __init__(self, row: Row, context: Context) -> None:
        self.node, self.results = row.node, row.node.attrs["results"]
        (self.ins,) = (_holders(s, r, context) for s, r in zip(row.node.inputs, row.ins, strict=True))
        (self.outs,) = (_holders(s, r, context) for s, r in zip(row.node.outputs, row.outs, strict=True))

    def __call__(self) -> None:
        ins = _values(self.ins)
        made = [np.array(result.evaluate(numpy_xp, *ins)) for result in self.results]
        for holder, value in zip(self.outs, made, strict=True):
            if isinstance(holder, Cell):
                holder.value = value
            else:
                _put(self.node, holder, value)


def _evaluate(results: Sequence[Any], ins: list[Any], outs: list[Any]) -> None:
    found = [np.array(r.evaluate(numpy_xp, *ins)) for r in results]  # all before the first is stored: in place
    for out, value in zip(outs, found, strict=True):
        np.copyto(out, value)


def _collective(row: Row, context: Context) -> list[Call]:
    node = row.node
    if _is_dynamic(row):
        return [partial(_exchange_rows, node, context)]
    prepare = {ALL_REDUCE: _all_reduce, REDUCE: _reduce, BROADCAST: _broadcast}
    prepare |= {FUSED_ALL_REDUCE: _all_reduce, FUSED_BROADCAST: _broadcast}
    members = list(zip(node.inputs, node.outputs, row.ins, row.outs, strict=True))
    if node.type == FUSED_ALL_REDUCE:
        whole = _as_one(row, context)
        if whole is not None:
            return _run(context.comm.all_reduce(*whole))
    calls: list[Call] = []
    for parts, results, _, _ in members:
        ins, outs = [context.array(v) for v in parts], [context.array(v) for v in results]
        calls += prepare[node.type](context.comm, ins, outs, node.attrs.get("root", 0))
    return calls


def _all_reduce(comm: Communicator, ins: list[Any], outs: list[Any], root: int) -> list[Call]:
    return _run(comm.all_reduce(ins, outs))


def _reduce(comm: Communicator, ins: list[Any], outs: list[Any], root: int) -> list[Call]:
    return _run(comm.reduce(ins, outs[0], root))


def _broadcast(comm: Communicator, ins: list[Any], outs: list[Any], root: int) -> list[Call]:
    return _run(comm.broadcast(ins[0], [*outs[:root], ins[0], *outs[root:]], root))


def _run(collective: Collective) -> list[Call]:
    """The calls of a prepared collective; of one that does not compute here, starting it and waiting for it."""
    calls = collective.calls()
    return calls if calls is not None else [partial(_start_and_wait, collective)]


def _start_and_wait(collective: Collective) -> None:
    collective.start().wait(_PATIENCE)


def _as_one(row: Row, context: Context) -> tuple[list[Any], list[Any]] | None:
    """Parts and results of all members as one array per device, if they lie one after the other."""
    spans = []
    for refs in (row.ins, row.outs):
        for device in zip(*refs, strict=True):
            root = device[0].root
            ends = [ref.offset + -(-ref.nbytes // 64) * 64 for ref in device]
            if any(ref.root is not root for ref in device) or any(
                end != ref.offset for end, ref in zip(ends[:-1], device[1:], strict=True)
            ):
                return None
            count = (ends[-1] - device[0].offset) // device[0].dtype.itemsize
            spans.append(
                context.flat(Ref(root, device[0].offset, (count,), (device[0].dtype.itemsize,), device[0].dtype))
            )
    half = len(spans) // 2
    return spans[:half], spans[half:]


def _exchange_rows(node: Node, context: Context) -> None:
    """A sparse gradient: concatenated on its root, or handed from there to the others (G-12, G-32)."""
    (parts,), (results,) = node.inputs, node.outputs
    values = [context.cell(v).value for v in parts]
    if node.type == BROADCAST:
        for result in results:
            context.cell(result).value = values[0]
        return
    gathered = context.comm.gather_rows(values)
    for result in results:
        context.cell(result).value = gathered


# Fused updates


def _fused_update(node: Node, context: Context, scratch: Scratch) -> list[Call]:
    """One update of many parameters: as one array where they lie together, else one after the other."""
    record = find_op(node.attrs["update"])
    whole = _flat_update(node, record, context, scratch)
    return whole if whole is not None else _member_updates(node, record, context, scratch)


def _member_updates(node: Node, record: Op, context: Context, scratch: Scratch) -> list[Call]:
    calls: list[Call] = []
    for k in range(len(node.inputs[0])):
        ins = _arrays([slot and slot[min(k, len(slot) - 1)] for slot in node.inputs], context)
        outs = _arrays([slot and slot[k] for slot in node.outputs], context)
        scratch.restart()
        bound = _bind(record, outs, ins, scratch, node.attrs["attrs"])
        assert record.forward_out is not None
        calls += bound if bound is not None else [
            partial(record.forward_out, numpy_xp, outs, *ins, **node.attrs["attrs"])
        ]  # fmt: skip
    return calls


def _flat_update(node: Node, record: Op, context: Context, scratch: Scratch) -> list[Call] | None:
    """The update of all parameters as one array, None if they do not lie together.

    Powers of beta are kept per parameter. They agree unless somebody has set one; then every parameter is updated on
    its own.
    """
    ref = context.gradients(node)
    if ref is None:
        return None
    ins: list[Any] = []
    powers: list[np.ndarray] = []
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
            if slot.name.endswith("Pow"):
                powers.append(bucket[:: 64 // bucket.itemsize])  # one number in every aligned member
                bucket = context.array(values[0])
            ins.append(bucket)
    position = {slot.name: i for i, slot in enumerate(record.inputs)}
    outs = []
    for slot, values in zip(record.outputs, node.outputs, strict=True):
        source = record.aliases[slot.name]
        outs.append(None if values is None or source.endswith("Pow") else ins[position[source]])
    flat = record.bind(outs, ins, scratch, **node.attrs["attrs"]) if record.bind is not None else None
    if flat is None or not powers:
        return flat
    betas = [node.attrs["attrs"][name] for name in ("beta1", "beta2")[: len(powers)]]
    one_by_one = _member_updates(node, record, context, scratch)
    return [partial(_update_together, powers, betas, flat, one_by_one)]


def _update_together(powers: list[np.ndarray], betas: list[float], flat: list[Call], one_by_one: list[Call]) -> None:
    if any((p != p[0]).any() for p in powers):
        for call in one_by_one:
            call()
        return
    for call in flat:
        call()
    for power, beta in zip(powers, betas, strict=True):
        np.multiply(power, power.dtype.type(beta), out=power)
