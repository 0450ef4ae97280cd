"""Messages between the ranks of an MPI job, in which servers are the last ranks.

A message is one of MPI's, head and arrays: whatever interrupts a process, none of it is taken for a part of another
one. A long one between processes of one machine lies in memory that both see (`shared`), and MPI carries where. A
trainer has one question under way to a server; its number tells a late answer from the one that is waited for.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from workbench.errors import InvalidArgument, PeerTimeout
from workbench.parallel.servers.transports.buffers import Buffers, Outbox
from workbench.parallel.servers.transports.process import is_gone
from workbench.parallel.servers.transports.shared import BESIDE, SharedInbox, is_beside, telling
from workbench.runtime.comm.mpi.memory.peers import Pause
from workbench.runtime.servers.messages import Message
from workbench.runtime.servers.transport import Connection, Listener, Question, Reply, lost, understood

_ASK, _ANSWER = 31801, 31802  # tags: programs may use the communicator, too
_NUMBER = "question"
_LAST_ANSWERS = 20.0  # seconds in which answers are still taken when a server ends
_LOOK = 0.2  # seconds between looks at whether a process is still there


class MpiListener(Listener):
    """The side of a server.

    Args:
        comm: of mpi4py; its other ranks ask. crowded: there are more processes than cores.
    """

    comes_again = False

    def __init__(self, comm: Any, crowded: bool) -> None:
        self._comm, self._crowded = comm, crowded
        self._outbox, self._inbox, self._shared = Outbox(), Buffers(), SharedInbox()
        self._processes: dict[int, Message] = {}  # what ranks have told of themselves

    def receive(self, seconds: float) -> Question | None:
        came = _next(self._comm, _any_source(), _ASK, seconds, self._crowded, self._inbox)
        if came is None:
            return None
        data, source = came
        try:
            frame = self._shared.get(data)
            frame.number(_NUMBER)  # it goes back with the answer
        except InvalidArgument as error:
            self.refused += 1
            _MpiQuestion(self, source, Message("", {_NUMBER: -1})).refuse(error)
            return None
        if "pid" in frame.fields:
            self._processes[source] = frame
        return _MpiQuestion(self, source, frame)

    def send(self, frame: Message, rank: int, is_beside: bool) -> None:
        """Begin to send an answer."""
        self._outbox.send(self._comm, frame, rank, _ANSWER, is_beside)

    def close(self) -> None:
        """Wait for those who are there to take their answers."""
        end, pause = time.monotonic() + _LAST_ANSWERS, Pause(self._crowded)
        while any(not self._is_gone(rank) for rank in self._outbox.left()) and time.monotonic() < end:
            pause()

    def _is_gone(self, rank: int) -> bool:
        told = self._processes.get(rank)
        return told is not None and is_gone(told)


class _MpiQuestion(Question):
    def __init__(self, listener: MpiListener, source: int, frame: Message) -> None:
        self._listener, self._source, self.frame = listener, source, frame

    def answer(self, frame: Message) -> None:
        asked = self.frame.fields
        told = telling(frame, self.frame)
        numbered = told._replace(fields={**told.fields, _NUMBER: asked.get(_NUMBER)})
        self._listener.send(numbered, self._source, bool(asked.get(BESIDE)))


class MpiConnection(Connection):
    """A trainer's way to a server.

    Args:
        comm: of mpi4py. rank: of the server in it. endpoint: its name.

    Attributes:
        inbox, shared: where answers are.
    """

    def __init__(self, comm: Any, rank: int, endpoint: str, crowded: bool) -> None:
        self.comm, self.rank, self.endpoint, self.crowded = comm, rank, endpoint, crowded
        self._numbers, self._outbox = itertools.count(), Outbox()
        self.inbox, self.shared = Buffers(), SharedInbox()
        self._server, self._is_beside = Message(""), False

    def start(self, frame: Message, seconds: float) -> Reply:
        number = next(self._numbers)
        beside = {BESIDE: True} if self._is_beside else {}
        numbered = frame._replace(fields={**frame.fields, **beside, _NUMBER: number})
        self._outbox.send(self.comm, numbered, self.rank, _ASK, self._is_beside)
        return _MpiReply(self, number, frame.kind, seconds)

    def know(self, told: Message) -> None:
        """The server has told of its process."""
        self._server, self._is_beside = told, is_beside(told)

    def look(self) -> None:
        """Raise PeerFailed if the server's process has ended."""
        if is_gone(self._server):
            raise lost(f"{self.endpoint} (rank {self.rank})", "its process is gone")

    def close(self) -> None:
        """What the server has answered it has also taken."""


class _MpiReply(Reply):
    def __init__(self, connection: MpiConnection, number: int, kind: str, seconds: float) -> None:
        self._connection, self._number, self._kind, self._seconds = connection, number, kind, seconds
        self._end = time.monotonic() + seconds

    def wait(self) -> Message:
        link = self._connection
        while True:
            left = self._end - time.monotonic()
            came = _next(link.comm, link.rank, _ANSWER, left, link.crowded, link.inbox, link.look)
            if came is None:
                raise PeerTimeout(
                    f"server {link.endpoint} (rank {link.rank}) has not answered {self._kind!r} within "
                    f"{self._seconds:g} s",
                    [link.rank],
                )
            answer = link.shared.get(came[0])
            if answer.fields.get(_NUMBER) in (self._number, -1):
                if "pid" in answer.fields:
                    link.know(answer)
                return understood(answer, link.endpoint)


def _any_source() -> int:
    from mpi4py import MPI

    return int(MPI.ANY_SOURCE)


def _next(
    comm: Any,
    source: int,
    tag: int,
    seconds: float,
    crowded: bool,
    inbox: Buffers,
    look: Callable[[], None] | None = None,
) -> tuple[np.ndarray, int] | None:
    """The next message with a tag, and who sent it; None if none comes in time."""
    from mpi4py import MPI

    status, pause, end = MPI.Status(), Pause(crowded), time.monotonic() + seconds
    looked = time.monotonic()
    while (message := comm.Improbe(source, tag, status)) is None:
        now = time.monotonic()
        if now > end:
            return None
        if look is not None and now > looked + _LOOK:
            looked = now
            look()
        pause()
    length = int(status.Get_count(MPI.BYTE))
    data = inbox.take(length)[:length]
    message.Recv(data)
    return data, int(status.Get_source())
