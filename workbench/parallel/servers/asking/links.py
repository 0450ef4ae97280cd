"""A trainer's ways to its servers: who it is there, and how many of its steps each has taken."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress

import numpy as np

from workbench.config import FLAG_VALUES
from workbench.errors import PeerFailed, PeerTimeout
from workbench.framework.notice import tell
from workbench.parallel.servers.transports.places import connect
from workbench.parallel.servers.transports.process import own_process
from workbench.runtime.servers.messages import Message
from workbench.runtime.servers.standing import when_leaving
from workbench.runtime.servers.transport import Connection, Reply

_FAREWELL = 10.0  # seconds
_FIRST_PAUSE, _LONGEST_PAUSE = 0.02, 0.5  # seconds between two attempts to join
_PATIENT = 3.0  # seconds before a trainer says what it waits for


class Link:
    """One trainer's way to one server.

    Attributes:
        sequence: the number of the trainer's next step there.
        begun: parameters as they were when the trainer began, where that is asked for again.
        begun_at: the number of the server's step then.
    """

    def __init__(self, connection: Connection, trainer: int, program: str = "", left: int = -1) -> None:
        self._connection, self._trainer, self._program, self._left = connection, trainer, program, left
        self._session = self.sequence = self.server = -1
        self.begun: dict[str, np.ndarray] = {}
        self.begun_at = 0

    def start(self, kind: str, arrays: Mapping[str, np.ndarray], **fields: object) -> Reply:
        """Begin to ask; the first time the trainer joins."""
        self.join()
        told = {"trainer": self._trainer, "session": self._session, **fields}
        return self._connection.start(Message(kind, told, arrays), deadline())

    def next(self) -> int:
        """The number of the next step."""
        self.join()
        return self.sequence

    def taken(self, number: int) -> None:
        """The server has taken a step; the next one is another."""
        self.sequence = max(self.sequence, number + 1)

    def join(self) -> None:
        """Tell the server that the trainer is there, unless it knows.

        A server of another program, and one that this process has left, are waited for to end: the trainer is ahead of
        others, and the server it wants begins at the same place when they have left, too.

        Raises:
            PeerTimeout: the one that is there stays. PeerFailed: there is none.
        """
        begun, pause, why = time.monotonic(), _FIRST_PAUSE, ""
        told = {"trainer": self._trainer, "program": self._program, "left": self._left, **own_process()}
        while self._session < 0:
            try:
                joined = self._connection.ask(Message("join", told), deadline())
            except PeerFailed:
                if not why or time.monotonic() > begun + deadline():
                    raise
                joined = Message("between", {"why": why})  # one server has ended, the next has not begun
            if joined.kind == "joined":
                self.sequence, self.server = joined.number("sequence"), joined.number("server")
                self._session = joined.number("session")
                return
            why = joined.text("why")
            self._wait(begun, pause, why)
            pause = min(2 * pause, _LONGEST_PAUSE)

    def _wait(self, begun: float, pause: float, why: str) -> None:
        waited = time.monotonic() - begun
        if waited > deadline():
            raise PeerTimeout(f"trainer {self._trainer} has waited {waited:.0f} s for another server: {why}")
        if waited > _PATIENT:
            tell(f"trainer {self._trainer} waits for another server: {why}")
        time.sleep(pause)

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


def deadline() -> float:
    """Seconds that a trainer waits for a server: longer than a server waits for other trainers."""
    return float(FLAG_VALUES["FLAGS_rpc_deadline"]) / 1000 * 1.5 + 5.0


_links: dict[tuple[int, str], Link] = {}
_left: dict[tuple[int, str], int] = {}  # servers that were left: whoever is there next is another one
_settling: list[Callable[[], None]] = []
_asking: defaultdict[int, threading.RLock] = defaultdict(threading.RLock)


def asking(trainer: int) -> threading.RLock:
    """Held while a trainer asks and waits: its threads share its links, and a step's number is that of one step."""
    return _asking[trainer]


def links_to(endpoints: Iterable[str], trainer: int, program: str = "") -> dict[str, Link]:
    """The ways of a trainer to servers, by their endpoints; nothing is asked yet.

    Args:
        program: what the servers are to serve; "" takes any.
    """
    if not _links:
        when_leaving(_leave)
    by_endpoint = {}
    for endpoint in endpoints:
        link = _links.get((trainer, endpoint))
        if link is None:
            left = _left.get((trainer, endpoint), -1)
            link = _links[trainer, endpoint] = Link(connect(endpoint), trainer, program, left)
        by_endpoint[endpoint] = link
    return by_endpoint


def when_settling(settle: Callable[[], None]) -> None:
    """Have `settle()` called before servers write what they hold: it delivers what is still under way to them."""
    _settling.append(settle)


def dont_settle(settle: Callable[[], None]) -> None:
    """Take back `when_settling`."""
    with suppress(ValueError):
        _settling.remove(settle)


def settle_pushes() -> None:
    """Return when servers have all that this process's steps have handed over; raises what kept it from them."""
    for settle in [*_settling]:
        settle()


def checkpoint_servers() -> None:
    """Have every server of this process write its checkpoint, all it holds: parameters, their state, how far all are.

    Raises:
        PreconditionNotMet: a server keeps none (`FLAGS_server_checkpoint`). PeerFailed: a server is lost.
    """
    settle_pushes()
    for trainer in sorted({trainer for trainer, _ in [*_links]}):
        with asking(trainer):
            for reply in [link.start("save", {}) for (one, _), link in [*_links.items()] if one == trainer]:
                reply.wait()


def _leave() -> None:
    """Tell all servers, also those that this trainer has nothing at."""
    held = dict(_links)
    _links.clear()
    _settling.clear()
    _left.update({place: link.server for place, link in held.items() if link.server >= 0})
    for link in held.values():
        link.leave()
