"""Programs for servers, as executors run them: a trainer's with one exchange in it, a server's by serving."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from workbench.config import FLAG_VALUES
from workbench.errors import InvalidArgument
from workbench.framework.op.record import grad_slot
from workbench.framework.program.block import Block
from workbench.framework.program.operator import Operator
from workbench.framework.program.program import Program
from workbench.framework.program.remote import SERVER
from workbench.framework.program.roles import ROLE, ROLE_VAR
from workbench.framework.values.spec import size_of
from workbench.ops.distributed.exchange import SERVER_EXCHANGE
from workbench.ops.distributed.servers import FETCH_BARRIER, RECV, SEND, SEND_BARRIER
from workbench.ops.distributed.tables import DISTRIBUTED_LOOKUP_TABLE, DISTRIBUTED_LOOKUP_TABLE_GRAD
from workbench.ops.index.composed.labelled import LOOKUPS
from workbench.parallel.servers.asking.exchange import Pulled, ServerExchange, ServerTables, Share
from workbench.parallel.servers.asking.geo import GeoExchange
from workbench.parallel.servers.asking.half_async import HalfAsyncExchange
from workbench.parallel.servers.serving.blocks import duty_of
from workbench.parallel.servers.serving.keeper import CheckpointKeeper
from workbench.parallel.servers.serving.server import ParameterServer
from workbench.parallel.servers.serving.values import Values
from workbench.parallel.servers.transports.places import listen
from workbench.parallel.transpiler.server_mode.fingerprint import ATTRIBUTE as FINGERPRINT
from workbench.parallel.transpiler.server_mode.trainer import IN_BACKGROUND
from workbench.runtime.servers.standing import StepExchange, keep, keep_tables


class RemotePrograms:
    """How such programs are run."""

    _tables = ServerTables()

    def runnable(self, program: Program) -> Program:
        """A trainer's program in which all that goes to servers, and comes from them, is one operator.

        It stands where the first parameter comes, behind all that makes gradients.

        Raises:
            InvalidArgument: names and endpoints of an operator do not belong together.
        """
        copied = program.clone()
        block = copied.global_block()
        keep_tables(self._tables)
        _leave_tables_out(block)
        remote = [op for op in block.ops if op.record in _EXCHANGED]
        if not remote:
            return copied
        sends = [op for op in remote if op.record is SEND]
        kept = [op for op in block.ops if op.record not in _EXCHANGED]
        if sends and GEO_SGD in program.attributes and not any(op.record is RECV for op in remote):
            block.ops = [*kept, _geo_operator(copied, sends[0])]
            copied.touch()
            return copied
        pushed = [op for op in sends if servers_of(op)]
        pulled = [op for op in remote if op.record is RECV][:1]
        last = max([*pushed, *pulled] or remote[:1], key=block.ops.index)
        place = sum(op.record not in _EXCHANGED for op in block.ops[: block.ops.index(last)])
        kept.insert(place, _exchange_operator(copied, remote))
        block.ops = kept
        copied.touch()
        return copied

    def serve(self, executor: Any, program: Program, scope: Any) -> None:
        """Be the server that a program asks for, until all its trainers have left."""
        (op,) = [op for op in program.global_block().ops if SERVER in op.record.needs]
        duty = duty_of(program, op)
        folder, every = FLAG_VALUES["FLAGS_server_checkpoint"], FLAG_VALUES["FLAGS_server_checkpoint_every"]
        keeper = CheckpointKeeper(folder, duty.endpoint, every) if folder else None
        patience = FLAG_VALUES["FLAGS_rpc_deadline"] / 1000
        listener = listen(duty.endpoint, duty.trainers)
        ParameterServer(duty, Values(duty, executor, scope), listener, patience, keeper).serve()


REMOTE = RemotePrograms()
GEO_SGD = "geo_sgd"
_EXCHANGED = (SEND, RECV, SEND_BARRIER, FETCH_BARRIER)


def _leave_tables_out(block: Block) -> None:
    """Have the backward of look-ups in tables that only servers have take their height from an attribute."""
    tables = {name for op in block.ops if op.record is DISTRIBUTED_LOOKUP_TABLE for name in op.input("W")}
    for place, op in enumerate(block.ops):
        if op.record.forward_of in LOOKUPS and tables.intersection(op.input("W")):
            block.ops[place] = _without_table(block, op)


def _without_table(block: Block, op: Operator) -> Operator:
    assert op.record.forward_of is not None
    attrs = {name: value for name, value in op.attrs.items() if name in ("padding_idx", ROLE, ROLE_VAR)}
    attrs |= {"height": block.var(op.input("W")[0]).shape[0], "lookup_table_version": op.record.forward_of.type}
    ins = {slot: op.input(slot) for slot in ("W", "Ids", grad_slot("Out"))}
    outs = {grad_slot("W"): op.output(grad_slot("W"))}
    return Operator(block, DISTRIBUTED_LOOKUP_TABLE_GRAD.type, ins, outs, attrs, op.site)


def _exchange_operator(program: Program, remote: list[Operator]) -> Operator:
    block = program.global_block()
    given = [(name, parts) for op in remote if op.record is SEND for name, parts in pushes_of(op)]
    pulled = [(name, pull) for op in remote if op.record is RECV for name, pull in pulls_of(op)]
    endpoints = dict.fromkeys(
        endpoint for op in remote for endpoint in (*servers_of(op), *op.attrs.get("endpoints", ()))
    )
    trainer = remote[0].attrs["trainer_id"]
    pushes, pulls, served = (
        [parts for _, parts in given],
        [pull for _, pull in pulled],
        program.attributes.get(FINGERPRINT, ""),
    )
    exchange: StepExchange
    if program.attributes.get(IN_BACKGROUND) and given:
        newest = [place for place, (name, _) in enumerate(given) if name in program.lr_schedulers]
        exchange = HalfAsyncExchange(trainer, list(endpoints), pushes, pulls, served, newest)
    else:
        begins = GEO_SGD in program.attributes
        exchange = ServerExchange(trainer, list(endpoints), pushes, pulls, begins, served)
    ins = {"X": [name for name, _ in given]} if given else {}
    outs = {"Out": [name for name, _ in pulled]} if pulled else {"Done": remote[0].output("Out")[:1]}
    role, site = remote[0].attrs.get("op_role", 0), remote[0].site
    return Operator(block, SERVER_EXCHANGE.type, ins, outs, {"exchange": keep(exchange), "op_role": role}, site)


def _geo_operator(program: Program, op: Operator) -> Operator:
    """What is run at the end of a step of geo-SGD: parameters go in, and come out with what others have changed."""
    block, told = program.global_block(), program.attributes[GEO_SGD]
    parameters = {name: shares_of(one) for name, one in told["vars"].items()}
    sparse = {name for name, one in told["vars"].items() if one["is_sparse"]}
    served = program.attributes.get(FINGERPRINT, "")
    exchange = GeoExchange(told["trainer"], told["trainers"], told["push_nums"], parameters, served, sparse)
    names = list(parameters)
    attrs = {"exchange": keep(exchange), "op_role": op.role}
    return Operator(block, SERVER_EXCHANGE.type, {"X": names}, {"Out": names}, attrs, op.site)


def shares_of(told: dict[str, Any]) -> list[Share]:
    """Where the rows of a parameter lie."""
    stops = np.cumsum(told["sections"]).tolist()
    rows = zip(told["var_names"], told["epmap"], stops, told["sections"], strict=True)
    return [Share(name, endpoint, stop - size, stop) for name, endpoint, stop, size in rows]


def servers_of(op: Operator) -> list[str]:
    """The servers that an operator exchanges values with; a `send` of geo-SGD only says that something is over."""
    if op.record is SEND and GEO_SGD in op.block.program.attributes:
        return []
    return op.attrs.get("epmap", [])


def pushes_of(op: Operator) -> Iterator[tuple[str, list[Share]]]:
    """What a `send` reads, each with where it goes."""
    names, endpoints = op.input("X"), servers_of(op)
    if not endpoints:
        return  # it only says that something is over
    told, sections = op.attrs["send_varnames"], op.attrs["sections"]
    if len(names) == 1 and len(told) > 1:
        yield names[0], list(_rows(op, told, endpoints, sections))
    elif len(names) == 1 and len(endpoints) > 1:
        yield names[0], [Share((told or names)[0], endpoint) for endpoint in endpoints]  # the same to all of them
    elif len(names) == len(endpoints):
        for name, known, endpoint in zip(names, told or names, endpoints, strict=True):
            yield name, [Share(known, endpoint)]
    else:
        raise _mismatch(op, names, endpoints)


def pulls_of(op: Operator) -> Iterator[tuple[str, Pulled]]:
    """What a `recv` writes, each with where it comes from."""
    names, endpoints, told = op.output("Out"), op.attrs["epmap"], op.attrs["recv_varnames"]
    if len(names) == 1 and len(told or names) == len(endpoints):
        parts = [Share(known, endpoint) for known, endpoint in zip(told or names, endpoints, strict=True)]
        yield names[0], Pulled(parts, _shape(op, names[0]))
    elif len(names) == len(endpoints):
        for name, known, endpoint in zip(names, told or names, endpoints, strict=True):
            yield name, Pulled([Share(known, endpoint)], _shape(op, name))
    else:
        raise _mismatch(op, names, endpoints)


def _rows(op: Operator, told: list[str], endpoints: list[str], sections: list[int]) -> Iterator[Share]:
    if not len(told) == len(endpoints) == len(sections):
        raise _mismatch(op, told, endpoints)
    stops = np.cumsum(sections).tolist()
    for known, endpoint, stop, size in zip(told, endpoints, stops, sections, strict=True):
        yield Share(known, endpoint, stop - size, stop)


def _shape(op: Operator, name: str) -> tuple[int, ...]:
    shape = op.block.var_recursive(name).shape
    if size_of(shape) < 0:
        raise InvalidArgument(f"{op.type} at {op.site}: the shape of {name!r} is not known: {list(shape)}")
    return tuple(shape)


def _mismatch(op: Operator, names: list[str], endpoints: list[str]) -> InvalidArgument:
    return InvalidArgument(
        f"{op.type} at {op.site}: every variable has one server\n"
        f"  expected: {len(names)} endpoints, for {names}\n  got:      {len(endpoints)}: {endpoints}"
    )
