"""The parameter servers of a graph: what its steps exchange with each of them, by the program and by what was told."""

from __future__ import annotations

from collections.abc import Sequence
from math import nan
from typing import Any, NamedTuple

from workbench import events
from workbench.graph.beyond import meets_servers
from workbench.graph.ssa import Graph, Node
from workbench.notebook.dashboard.watching.throttle import Throttle
from workbench.notebook.messages import Message, column
from workbench.parallel.servers.traffic import ServerTraffic, joined, traffic_of

_TOLD_S = 0.5  # seconds between two messages with what servers have told


class ToldBytes(NamedTuple):
    """What a server has told: how many steps of trainers it has answered, and the bytes of all of them together."""

    exchanges: int = 0
    pushed: int = 0
    pulled: int = 0


class ServersHeard:
    """Listens to servers: to those of this process, and to what is handed on here of others.

    Args:
        graph: that is shown. If it has no servers, only what they tell after the first graph that does is heard.
    """

    def __init__(self, graph: Graph) -> None:
        self._told: dict[str, ToldBytes] = {}
        self._throttle = Throttle(_TOLD_S)
        self._changed = False
        self._listening: events.Subscription | None = None
        if any(meets_servers(node.type) for node in graph.nodes):
            self._listen()

    def _listen(self) -> None:
        self._listening = self._listening or events.subscribe(self._hear, events.Exchanged)

    def close(self) -> None:
        """Listen no more."""
        if self._listening is not None:
            self._listening.close()

    def _hear(self, event: events.Exchanged) -> None:
        known = self._told.get(event.executor, ToldBytes())
        sums = known.exchanges + 1, known.pushed + event.pushed, known.pulled + event.pulled
        self._told[event.executor] = ToldBytes(*sums)
        self._changed = True

    def has_news(self) -> bool:
        """Whether something was told that is in no message yet, and it is time for one."""
        return self._changed and self._throttle.is_due()

    def added_to(self, graph: Message) -> Message:
        """The message `graph` with what its servers have told; as it is without servers."""
        if "servers" not in graph:
            return graph
        self._listen()
        with self._throttle.taking():
            self._changed = False
            of = [self._told.get(name, ToldBytes()) for name in graph["servers"]["name"]]
            sums = {
                "exchanges": column([one.exchanges for one in of], "int32"),
                "told_pushed": column([one.pushed for one in of], "float64"),
                "told_pulled": column([one.pulled for one in of], "float64"),
            }
            return {**graph, "servers": {**graph["servers"], **sums}}


def servers_message(graph: Graph) -> Message:
    """The parts `servers` and `toward` of the message `graph`; {} of a graph without servers."""
    met = [(number, one) for number, node in enumerate(graph.nodes) for one in _traffic(node)]
    servers = sorted(joined(one for _, one in met), key=lambda server: server.endpoint)
    if not servers:
        return {}
    place = {server.endpoint: index for index, server in enumerate(servers)}
    return {
        "servers": {
            "name": list(place),
            "pushed": _sizes([server.pushed for server in servers]),
            "pulled": _sizes([server.pulled for server in servers]),
        },
        "toward": {
            "node": column([number for number, _ in met], "int32"),
            "server": column([place[one.endpoint] for _, one in met], "int32"),
        },
    }


def _traffic(node: Node) -> Sequence[ServerTraffic]:
    return traffic_of(node.origins[0]) if node.is_op and node.origins and meets_servers(node.type) else ()


def _sizes(sizes: list[float | None]) -> Any:
    return column([nan if size is None else size for size in sizes], "float64")
