"""Rows that are collectives, as calls."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

from workbench.errors import Aborted, EnforceNotMet, ExecutionTimeout, PreconditionNotMet, add_line, located
from workbench.executors.lowering.operands import Call, Context, is_dynamic
from workbench.executors.planning.memory.refs import Ref, aligned
from workbench.executors.planning.plan import Row
from workbench.graph.ssa import (
    ALL_REDUCE,
    BROADCAST,
    FUSED_ALL_REDUCE,
    FUSED_BROADCAST,
    REDUCE,
    TRAINER_BROADCAST,
    Node,
)
from workbench.runtime.comm.base import Communicator, PreparedCollective


def lower_collective(row: Row, context: Context) -> list[Call]:
    node = row.node
    if context.reduces_in_update(node):
        return []
    if is_dynamic(row):
        return [partial(_exchange_rows, node, context)]
    return [call for collective in prepared(row, context) for call in _run(collective, node)]


def prepared(row: Row, context: Context) -> list[PreparedCollective]:
    """The collectives of a row: one where all its members lie one after the other."""
    node = row.node
    prepare = {ALL_REDUCE: _all_reduce, REDUCE: _reduce, BROADCAST: _broadcast, TRAINER_BROADCAST: _from_trainer}
    prepare |= {FUSED_ALL_REDUCE: _all_reduce, FUSED_BROADCAST: _broadcast}
    whole = as_one(row, context) if node.type == FUSED_ALL_REDUCE else None
    if whole is not None:
        return [context.comm.all_reduce(whole.parts, whole.results, names=whole.names)]
    collectives = []
    for contributions, results in zip(node.inputs, node.outputs, strict=True):
        ins, outs = [context.array(v) for v in contributions], [context.array(v) for v in results]
        collectives.append(prepare[node.type](context.comm, ins, outs, node, [contributions[0].name]))
    return collectives


def _all_reduce(comm: Communicator, ins: list[Any], outs: list[Any], node: Node, names: list[str]) -> Any:
    return comm.all_reduce(ins, outs, names=names)


def _reduce(comm: Communicator, ins: list[Any], outs: list[Any], node: Node, names: list[str]) -> Any:
    return comm.reduce_everywhere(ins, outs[0], node.attrs["root"], node.attrs["first"], names)


def _broadcast(comm: Communicator, ins: list[Any], outs: list[Any], node: Node, names: list[str]) -> Any:
    """What is sent is the same in all processes: each hands it to its own devices."""
    root = node.attrs["root"]
    return comm.here.broadcast(ins[0], [*outs[:root], ins[0], *outs[root:]], root, names)


def _from_trainer(comm: Communicator, ins: list[Any], outs: list[Any], node: Node, names: list[str]) -> Any:
    """What the device of one trainer has: each has one."""
    root = node.attrs["root"]
    return comm.broadcast(ins[0] if root in comm.local else None, outs, root, names)


def _run(collective: PreparedCollective, node: Node) -> list[Call]:
    """The calls of a prepared collective; of one that does not compute here, starting it and waiting for it."""
    calls = collective.calls()
    return calls if calls is not None else [partial(_start_and_wait, collective, node)]


def _start_and_wait(collective: PreparedCollective, node: Node) -> None:
    try:
        collective.run(collective.comm.patience)
    except (Aborted, ExecutionTimeout, PreconditionNotMet) as error:
        raise _at(node, error) from error.__cause__


def _at(node: Node, error: EnforceNotMet) -> EnforceNotMet:
    """An error of a collective, which stays what it is, with the line it belongs to."""
    add_line(error, f"at op {node.type!r}, built at {node.site}")
    return located(error)


class AsOne(NamedTuple):
    """Parts and results of all members as one array per device.

    Attributes:
        names: of the variables, in the order in which they lie; the devices of all processes have the same one.
    """

    parts: list[Any]
    results: list[Any]
    names: list[str]


def as_one(row: Row, context: Context) -> AsOne | None:
    """A fused sum as one of long arrays, if its members lie one after the other, in whatever order."""
    spans = [_span(device) for refs in (row.ins, row.outs) for device in zip(*refs, strict=True)]
    order, *others = {order for order, _ in spans}
    if others or order is None:
        return None
    flats = [context.flat(ref) for _, ref in spans if ref is not None]
    half = len(flats) // 2
    return AsOne(flats[:half], flats[half:], [row.node.attrs["names"][number] for number in order])


def _span(refs: Sequence[Ref]) -> tuple[tuple[int, ...] | None, Ref | None]:
    """The order in which members lie, and all of them as one array; None and None if something lies in between."""
    order = tuple(sorted(range(len(refs)), key=lambda number: refs[number].offset))
    first = refs[order[0]]
    ends = [refs[number].offset + aligned(refs[number].nbytes) for number in order]
    follow = all(end == refs[number].offset for end, number in zip(ends, order[1:]))
    if not follow or any(ref.root is not first.root for ref in refs):
        return None, None
    itemsize = first.dtype.itemsize
    count = (ends[-1] - first.offset) // itemsize
    return order, Ref(first.root, first.offset, (count,), (itemsize,), first.dtype)


def _exchange_rows(node: Node, context: Context) -> None:
    """A sparse gradient: concatenated on its root, or handed from there to the others (G-12, G-32)."""
    (contributions,), (results,) = node.inputs, node.outputs
    values = [context.cell(v).value for v in contributions]
    if node.type == BROADCAST:
        for result in results:
            context.cell(result).value = values[0]
        return
    try:
        gathered = context.comm.gather_rows(values, context.comm.patience, [contributions[0].name])
    except (Aborted, ExecutionTimeout) as error:
        raise _at(node, error) from error.__cause__
    for result in results:
        context.cell(result).value = gathered
