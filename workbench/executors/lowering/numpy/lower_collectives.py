"""Rows that are collectives, as calls."""

from __future__ import annotations

from functools import partial
from typing import Any

from workbench.executors.lowering.operands import Call, Context, is_dynamic
from workbench.executors.planning.memory.refs import Ref
from workbench.executors.planning.plan import Row
from workbench.graph.ssa import ALL_REDUCE, BROADCAST, FUSED_ALL_REDUCE, FUSED_BROADCAST, REDUCE, Node
from workbench.runtime.comm.base import Communicator, PreparedCollective

_PATIENCE = 600.0  # seconds a collective may take


def lower_collective(row: Row, context: Context) -> list[Call]:
    node = row.node
    if context.reduces_in_update(node):
        return []
    if is_dynamic(row):
        return [partial(_exchange_rows, node, context)]
    prepare = {ALL_REDUCE: _all_reduce, REDUCE: _reduce, BROADCAST: _broadcast}
    prepare |= {FUSED_ALL_REDUCE: _all_reduce, FUSED_BROADCAST: _broadcast}
    members = list(zip(node.inputs, node.outputs, row.ins, row.outs, strict=True))
    if node.type == FUSED_ALL_REDUCE:
        whole = as_one(row, context)
        if whole is not None:
            return _run(context.comm.all_reduce(*whole))
    calls: list[Call] = []
    for contributions, results, _, _ in members:
        ins, outs = [context.array(v) for v in contributions], [context.array(v) for v in results]
        calls += prepare[node.type](context.comm, ins, outs, node.attrs.get("root", 0))
    return calls


def _all_reduce(comm: Communicator, ins: list[Any], outs: list[Any], root: int) -> list[Call]:
    return _run(comm.all_reduce(ins, outs))


def _reduce(comm: Communicator, ins: list[Any], outs: list[Any], root: int) -> list[Call]:
    return _run(comm.reduce(ins, outs[0], root))


def _broadcast(comm: Communicator, ins: list[Any], outs: list[Any], root: int) -> list[Call]:
    return _run(comm.broadcast(ins[0], [*outs[:root], ins[0], *outs[root:]], root))


def _run(collective: PreparedCollective) -> list[Call]:
    """The calls of a prepared collective; of one that does not compute here, starting it and waiting for it."""
    calls = collective.calls()
    return calls if calls is not None else [partial(_start_and_wait, collective)]


def _start_and_wait(collective: PreparedCollective) -> None:
    collective.start().wait(_PATIENCE)


def as_one(row: Row, context: Context) -> tuple[list[Any], list[Any]] | None:
    """Parts and results of all members as one array per device, if they lie one after the other."""
    spans = []
    for refs in (row.ins, row.outs):
        for device in zip(*refs, strict=True):
            first, *others = device
            ends = [ref.offset + -(-ref.nbytes // 64) * 64 for ref in device]
            if any(ref.root is not first.root for ref in others) or any(
                end != ref.offset for end, ref in zip(ends[:-1], others, strict=True)
            ):
                return None
            itemsize = first.dtype.itemsize
            count = (ends[-1] - first.offset) // itemsize
            spans.append(context.flat(Ref(first.root, first.offset, (count,), (itemsize,), first.dtype)))
    half = len(spans) // 2
    return spans[:half], spans[half:]


def _exchange_rows(node: Node, context: Context) -> None:
    """A sparse gradient: concatenated on its root, or handed from there to the others (G-12, G-32)."""
    (contributions,), (results,) = node.inputs, node.outputs
    values = [context.cell(v).value for v in contributions]
    if node.type == BROADCAST:
        for result in results:
            context.cell(result).value = values[0]
        return
    gathered = context.comm.gather_rows(values)
    for result in results:
        context.cell(result).value = gathered
