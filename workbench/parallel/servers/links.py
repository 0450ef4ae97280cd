"""A trainer's ways to its servers: who it is there, and how many of its steps each has taken."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Iterable, Mapping

import numpy as np

from workbench.config import FLAG_VALUES
from workbench.parallel.servers.places import connect
from workbench.runtime.servers.messages import Message
from workbench.runtime.servers.standing import when_leaving
from workbench.runtime.servers.transport import Connection, Reply

_FAREWELL = 10.0  # seconds


class Link:
    """One trainer's way to one server.

    Attributes:
        sequence: the number of the trainer's next step there.
        begun: parameters as they were when the trainer began, where that is asked for again.
    """

    def __init__(self, connection: Connection, trainer: int) -> None:
        self._connection, self._trainer = connection, trainer
        self._session = self.sequence = -1
        self.begun: dict[str, np.ndarray] = {}

    def start(self, kind: str, arrays: Mapping[str, np.ndarray], **fields: object) -> Reply:
        """Begin to ask; the first time the trainer joins."""
        self.join()
        told = {"trainer": self._trainer, "session": self._session, **fields}
        return self._connection.start(Message(kind, told, arrays), _deadline())

    def join(self) -> None:
        """Tell the server that the trainer is there, unless it knows."""
        if self._session >= 0:
            return
        joined = self._connection.ask(Message("join", {"trainer": self._trainer}), _deadline())
        self.sequence = joined.number("sequence")
        self._session = joined.number("session")

    def leave(self) -> None:
        """Tell the server that the trainer will not come again; one that is gone need not know."""
        try:
            if self._session >= 0:
                told = {"trainer": self._trainer, "session": self._session}
                self._connection.ask(Message("leave", told), _FAREWELL)
        except RuntimeError:
            pass
        finally:
            self._connection.close()


def _deadline() -> float:
    """Seconds that a trainer waits for a server: longer than a server waits for other trainers."""
    return float(FLAG_VALUES["FLAGS_rpc_deadline"]) / 1000 * 1.5 + 5.0


_links: dict[tuple[int, str], Link] = {}
_asking: defaultdict[int, threading.RLock] = defaultdict(threading.RLock)


def asking(trainer: int) -> threading.RLock:
    """Held while a trainer asks and waits: its threads share its links, and a step's number is that of one step."""
    return _asking[trainer]


def links_to(endpoints: Iterable[str], trainer: int) -> dict[str, Link]:
    """The ways of a trainer to servers, by their endpoints; nothing is asked yet."""
    if not _links:
        when_leaving(_leave)
    by_endpoint = {}
    for endpoint in endpoints:
        link = _links.get((trainer, endpoint))
        if link is None:
            link = _links[trainer, endpoint] = Link(connect(endpoint), trainer)
        by_endpoint[endpoint] = link
    return by_endpoint


def checkpoint_servers() -> None:
    """Have every server of this process write its checkpoint, all it holds: parameters, their state, how far all are.

    Raises:
        PreconditionNotMet: a server keeps none (`FLAGS_server_checkpoint`). PeerFailed: a server is lost.
    """
    for trainer in sorted({trainer for trainer, _ in [*_links]}):
        with asking(trainer):
            for reply in [link.start("save", {}) for (one, _), link in [*_links.items()] if one == trainer]:
                reply.wait()


def _leave() -> None:
    """Tell all servers, also those that this trainer has nothing at."""
    held = list(_links.values())
    _links.clear()
    for link in held:
        link.leave()
