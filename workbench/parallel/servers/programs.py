"""Programs for servers, as executors run them: a trainer's with one exchange in it, a server's by serving."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from workbench.config import FLAG_VALUES
from workbench.errors import InvalidArgument
from workbench.framework.program.operator import Operator
from workbench.framework.program.program import Program
from workbench.framework.program.remote import CLIENT, SERVER
from workbench.framework.values.spec import size_of
from workbench.ops.distributed.exchange import SERVER_EXCHANGE
from workbench.ops.distributed.servers import RECV, SEND
from workbench.parallel.servers.blocks import duty_of
from workbench.parallel.servers.exchange import Pulled, ServerExchange, Share
from workbench.parallel.servers.keeper import CheckpointKeeper
from workbench.parallel.servers.places import listen
from workbench.parallel.servers.server import ParameterServer
from workbench.parallel.servers.values import Values
from workbench.runtime.servers.standing import keep


class RemotePrograms:
    """How such programs are run."""

    def runnable(self, program: Program) -> Program:
        """A trainer's program in which all that goes to servers, and comes from them, is one operator.

        It stands behind the last operator that makes a gradient: where the first parameter comes.

        Raises:
            InvalidArgument: names and endpoints of an operator do not belong together.
        """
        made = program.clone()
        block = made.global_block()
        remote = [op for op in block.ops if CLIENT in op.record.needs]
        sends = [op for op in remote if op.record is SEND]
        receives = [op for op in remote if op.record is RECV]
        kept = [op for op in block.ops if op not in remote]
        last = sends[-1] if sends else receives[0]
        place = sum(1 for op in block.ops[: block.ops.index(last)] if op not in remote)
        kept.insert(place, _exchange_operator(made, sends, receives, remote))
        block.ops = kept
        made.touch()
        return made

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


def _exchange_operator(
    program: Program, sends: list[Operator], receives: list[Operator], remote: list[Operator]
) -> Operator:
    block = program.global_block()
    given = [(name, parts) for op in sends for name, parts in _pushes(op)]
    pulled = [(name, pull) for op in receives for name, pull in _pulls(op)]
    endpoints = dict.fromkeys(
        endpoint for op in remote for key in ("epmap", "endpoints") for endpoint in op.attrs.get(key, ())
    )
    trainer = remote[0].attrs["trainer_id"]
    exchange = ServerExchange(trainer, list(endpoints), [parts for _, parts in given], [pull for _, pull in pulled])
    ins = {"X": [name for name, _ in given]} if given else {}
    outs = {"Out": [name for name, _ in pulled]} if pulled else {}
    role, site = remote[0].attrs.get("op_role", 0), remote[0].site
    return Operator(block, SERVER_EXCHANGE.type, ins, outs, {"exchange": keep(exchange), "op_role": role}, site)


def _pushes(op: Operator) -> Iterator[tuple[str, list[Share]]]:
    """What a `send` reads, each with where it goes."""
    names, endpoints = op.input("X"), op.attrs["epmap"]
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


def _pulls(op: Operator) -> Iterator[tuple[str, Pulled]]:
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
