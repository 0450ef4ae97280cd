"""What operators exchange with which servers, as far as a program tells: for whoever looks at it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import NamedTuple

from workbench.framework.program.operator import Operator
from workbench.framework.values.spec import ROWS, size_of
from workbench.ops.distributed.exchange import SERVER_EXCHANGE
from workbench.ops.distributed.servers import LISTEN_AND_SERV, RECV, SEND
from workbench.ops.distributed.tables import DISTRIBUTED_LOOKUP_TABLE
from workbench.parallel.servers.asking.exchange import ServerExchange, Share
from workbench.parallel.servers.asking.geo import GeoExchange
from workbench.parallel.servers.asking.half_async import HalfAsyncExchange
from workbench.parallel.servers.programs import GEO_SGD, pulls_of, pushes_of, servers_of, shares_of
from workbench.runtime.servers.standing import exchange_of


class ServerTraffic(NamedTuple):
    """What one operator moves between a trainer and a server.

    Attributes:
        pushed, pulled: bytes of a step, those of geo-SGD on average; None where only a step can tell, because rows
            are sent, or because the operator is the server.
    """

    endpoint: str
    pushed: float | None = 0.0
    pulled: float | None = 0.0


def traffic_of(op: Operator) -> list[ServerTraffic]:
    """What an operator exchanges, one entry for each server; [] if it meets none, or has left them.

    Raises:
        InvalidArgument: names and endpoints of an operator do not belong together.
    """
    if op.record is LISTEN_AND_SERV:
        return [ServerTraffic(op.attrs["endpoint"], None, None)]
    if op.record is DISTRIBUTED_LOOKUP_TABLE:
        return [ServerTraffic(endpoint, 0.0, None) for endpoint in dict.fromkeys(op.attrs["endpoints"])]
    if op.record is SEND and GEO_SGD in op.block.program.attributes:
        return _of_geo(op)
    if op.record is SEND:
        return joined(_moved(op, pushes_of(op), pushed=True))
    if op.record is RECV:
        return joined(_moved(op, [(name, pull.parts) for name, pull in pulls_of(op)], pushed=False))
    if op.record is SERVER_EXCHANGE:
        return _of_exchange(op)
    return [ServerTraffic(endpoint) for endpoint in servers_of(op) or op.attrs.get("endpoints", [])]


def _of_geo(op: Operator) -> list[ServerTraffic]:
    """A program of geo-SGD says once what all its steps exchange; one that pulls parameters only begins."""
    told = op.block.program.attributes[GEO_SGD]
    if any(other.record is RECV for other in op.block.ops):
        return [ServerTraffic(endpoint) for endpoint in told["endpoints"]]
    parameters = [(name, shares_of(one)) for name, one in told["vars"].items()]
    sparse = {name for name, one in told["vars"].items() if one["is_sparse"]}
    return _there_and_back(op, parameters, told["push_nums"], sparse)


def _of_exchange(op: Operator) -> list[ServerTraffic]:
    exchange = exchange_of(op.attrs["exchange"])
    if isinstance(exchange, GeoExchange):
        return _there_and_back(op, list(exchange.parameters.items()), exchange.every, exchange.sparse)
    if not isinstance(exchange, ServerExchange | HalfAsyncExchange):
        return []
    pushes = zip(op.input("X"), exchange.pushes, strict=True)
    pulls = zip(op.output("Out"), [pull.parts for pull in exchange.pulls], strict=True) if exchange.pulls else ()
    none = [ServerTraffic(endpoint) for endpoint in exchange.endpoints]
    return joined([*none, *_moved(op, pushes, pushed=True), *_moved(op, pulls, pushed=False)])


def _there_and_back(
    op: Operator, parameters: Sequence[tuple[str, Sequence[Share]]], every: int, sparse: Collection[str]
) -> list[ServerTraffic]:
    """Of parameters whose changes are pushed, and which are pulled, in every so manieth step; of those in `sparse` it
    is the rows that have changed."""
    whole = [(name, shares) for name, shares in parameters if name not in sparse]
    rows = [ServerTraffic(part.endpoint, None, None) for name, parts in parameters if name in sparse for part in parts]
    pushed = [ServerTraffic(one.endpoint, one.pushed) for one in _moved(op, whole, pushed=True)]
    both = joined([*pushed, *_moved(op, whole, pushed=False), *rows])
    return [ServerTraffic(one.endpoint, _over(one.pushed, every), _over(one.pulled, every)) for one in both]


def _over(size: float | None, steps: int) -> float | None:
    return None if size is None else size / steps


def _moved(op: Operator, given: Iterable[tuple[str, Sequence[Share]]], pushed: bool) -> Iterator[ServerTraffic]:
    """What of each variable goes to, or comes from, the servers of its parts."""
    for name, parts in given:
        for part in parts:
            size = _size(op, name, part, alone=pushed or len(parts) == 1)
            yield ServerTraffic(part.endpoint, size) if pushed else ServerTraffic(part.endpoint, 0.0, size)


def _size(op: Operator, name: str, part: Share, alone: bool) -> float | None:
    """Bytes of a part; of one without rows all of the variable, or, if there are others beside it, who knows."""
    var = op.block.var_recursive(name)
    whole = size_of(var.shape) * var.dtype.itemsize
    if whole < 0 or var.kind == ROWS or (part.stop is None and not alone):
        return None
    return float(whole if part.stop is None else whole // var.shape[0] * (part.stop - part.start))


def joined(traffic: Iterable[ServerTraffic]) -> list[ServerTraffic]:
    """What several operators exchange together, one entry for each server."""
    sums: dict[str, ServerTraffic] = {}
    for one in traffic:
        known = sums.get(one.endpoint, ServerTraffic(one.endpoint))
        pushed, pulled = _sum(known.pushed, one.pushed), _sum(known.pulled, one.pulled)
        sums[one.endpoint] = ServerTraffic(one.endpoint, pushed, pulled)
    return list(sums.values())


def _sum(a: float | None, b: float | None) -> float | None:
    return None if a is None or b is None else a + b
