"""Messages between the ranks of an MPI job, in which servers are the last ranks.

A short message is one of MPI's. Of a longer one the arrays follow its head, each for itself, straight from the memory
they are in. A process has one question under way to a server; its number tells a late answer from the one that is
waited for.
"""

from __future__ import annotations

import itertools
import socket
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from workbench.errors import InvalidArgument, PeerTimeout
from workbench.runtime.comm.mpi.peers import Pause, state_of
from workbench.runtime.servers.messages import (
    MAX_HEAD,
    PREFIX,
    Head,
    Message,
    decoded,
    decoded_head,
    encoded,
    encoded_head,
)
from workbench.runtime.servers.transport import Connection, Listener, Question, Reply, lost, understood

_ASK, _ASK_ARRAYS, _ANSWER, _ANSWER_ARRAYS = range(31801, 31805)  # tags: programs may use the communicator, too
_SHORT = 1 << 15  # bytes of arrays that go along with the head
_NUMBER = "question"
_ARRIVING = 20.0  # seconds for the rest of a message that has begun to come


class Cut(InvalidArgument):
    """Of a message only a part has come."""


class MpiListener(Listener):
    """The side of a server.

    Args:
        comm: of mpi4py; its other ranks ask. crowded: there are more processes than cores.
    """

    def __init__(self, comm: Any, crowded: bool) -> None:
        self._comm, self._crowded = comm, crowded
        self._sent: list[tuple[Any, Any]] = []

    def receive(self, seconds: float) -> Question | None:
        came = _next(self._comm, _any_source(), _ASK, seconds, self._crowded)
        if came is None:
            return None
        data, source = came
        try:
            frame = _whole(self._comm, data, source, _ASK_ARRAYS)
            frame.number(_NUMBER)  # it goes back with the answer
            return _MpiQuestion(self, source, frame)
        except InvalidArgument as error:
            self.refused += 1
            refused = _MpiQuestion(self, source, Message("", {_NUMBER: -1}))
            if not isinstance(error, Cut):
                refused.refuse(error)
            return None

    def send(self, frame: Message, rank: int) -> None:
        """Begin to send an answer."""
        self._sent = [(request, kept) for request, kept in self._sent if not request.Test()]
        self._sent += _sent(self._comm, frame, rank, _ANSWER, _ANSWER_ARRAYS)

    def settle(self) -> None:
        _all_done([request for request, _ in self._sent], _ARRIVING, self._crowded)
        self._sent.clear()

    def close(self) -> None:
        self.settle()


class _MpiQuestion(Question):
    def __init__(self, listener: MpiListener, source: int, frame: Message) -> None:
        self._listener, self._source, self.frame = listener, source, frame

    def answer(self, frame: Message) -> None:
        numbered = {**frame.fields, _NUMBER: self.frame.fields.get(_NUMBER)}
        self._listener.send(frame._replace(fields=numbered), self._source)


class MpiConnection(Connection):
    """A trainer's way to a server.

    Args:
        comm: of mpi4py. rank: of the server in it. endpoint: its name.
    """

    def __init__(self, comm: Any, rank: int, endpoint: str, crowded: bool) -> None:
        self.comm, self.rank, self.endpoint, self.crowded = comm, rank, endpoint, crowded
        self._numbers = itertools.count()
        self._under_way: list[tuple[Any, Any]] = []
        self.pid = 0

    def start(self, frame: Message, seconds: float) -> Reply:
        self._under_way = [(request, kept) for request, kept in self._under_way if not request.Test()]
        number = next(self._numbers)
        numbered = frame._replace(fields={**frame.fields, _NUMBER: number})
        self._under_way += _sent(self.comm, numbered, self.rank, _ASK, _ASK_ARRAYS)
        return _MpiReply(self, number, frame.kind, seconds)

    def close(self) -> None:
        _all_done([request for request, _ in self._under_way], _ARRIVING, self.crowded)


class _MpiReply(Reply):
    def __init__(self, connection: MpiConnection, number: int, kind: str, seconds: float) -> None:
        self._connection, self._number, self._kind, self._seconds = connection, number, kind, seconds
        self._end = time.monotonic() + seconds

    def wait(self) -> Message:
        link = self._connection
        while True:
            left = self._end - time.monotonic()
            came = _next(link.comm, link.rank, _ANSWER, left, link.crowded, self._look)
            if came is None:
                raise PeerTimeout(
                    f"server {link.endpoint} (rank {link.rank}) has not answered {self._kind!r} within "
                    f"{self._seconds:g} s",
                    [link.rank],
                )
            answer = _whole(link.comm, *came, _ANSWER_ARRAYS)
            number = answer.fields.get(_NUMBER)
            if number in (self._number, -1):
                if answer.fields.get("host") == socket.gethostname():  # elsewhere the number is another process's
                    link.pid = answer.number("pid")
                return understood(answer, link.endpoint)

    def _look(self) -> None:
        if self._connection.pid and state_of(self._connection.pid) == "gone":
            raise lost(f"{self._connection.endpoint} (rank {self._connection.rank})", "its process is gone")


def _any_source() -> int:
    from mpi4py import MPI

    return int(MPI.ANY_SOURCE)


def _sent(comm: Any, frame: Message, rank: int, tag: int, arrays_tag: int) -> list[tuple[Any, Any]]:
    """Requests of mpi4py for a message that is being sent, each with the memory it is sent from."""
    if frame.nbytes <= _SHORT:
        data = encoded(frame)
        return [(comm.Isend(data, rank, tag), data)]
    head = encoded_head(frame)
    sent: list[tuple[Any, Any]] = [(comm.Isend(head, rank, tag), head)]
    for array in frame.arrays.values():
        flat = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        sent.append((comm.Isend(flat, rank, arrays_tag), flat))
    return sent


def _next(
    comm: Any, source: int, tag: int, seconds: float, crowded: bool, look: Callable[[], None] | None = None
) -> tuple[Any, int] | None:
    """The next message with a tag, and who sent it; None if none comes in time."""
    from mpi4py import MPI

    status, pause, end = MPI.Status(), Pause(crowded), time.monotonic() + seconds
    looked = time.monotonic()
    while (message := comm.Improbe(source, tag, status)) is None:
        now = time.monotonic()
        if now > end:
            return None
        if look is not None and now > looked + 0.2:
            looked = now
            look()
        pause()
    data = bytearray(status.Get_count(MPI.BYTE))
    message.Recv(data)
    return data, int(status.Get_source())


def _whole(comm: Any, data: Any, source: int, tag: int) -> Message:
    """The message of which `data` has come first."""
    if len(data) > PREFIX.size + MAX_HEAD + _SHORT:
        raise InvalidArgument(f"the beginning of a message has {len(data)} bytes")
    head, end = decoded_head(data)
    if end < len(data) or not head.nbytes:
        return decoded(data)
    if head.nbytes <= _SHORT:
        raise Cut(f"message {head.kind!r} is not whole: its arrays are missing")
    return Message(head.kind, head.fields, _arrays(comm, head, source, tag))


def _arrays(comm: Any, head: Head, source: int, tag: int) -> dict[str, np.ndarray]:
    from mpi4py import MPI

    arrays = {form.name: np.empty(form.shape, form.dtype) for form in head.forms}
    end, pause = time.monotonic() + _ARRIVING, Pause(crowded=False)
    wrong: Cut | None = None
    for form in head.forms:
        status = MPI.Status()
        while (message := comm.Improbe(source, tag, status)) is None:
            if time.monotonic() > end:
                raise Cut(f"message {head.kind!r} is not whole: array {form.name!r} has not come")
            pause()
        came = status.Get_count(MPI.BYTE)
        if came != form.nbytes:
            message.Recv(bytearray(came))  # and those behind it, so that the next message is found where it begins
            wrong = Cut(f"message {head.kind!r} is not whole: array {form.name!r} has {form.nbytes} bytes, {came} came")
            continue
        message.Recv(arrays[form.name].reshape(-1).view(np.uint8))
    if wrong is not None:
        raise wrong
    return arrays


def _all_done(requests: Sequence[Any], seconds: float, crowded: bool) -> None:
    """Wait for what is being sent; what nobody takes is given up."""
    end, pause, left = time.monotonic() + seconds, Pause(crowded), list(requests)
    while left := [request for request in left if not request.Test()]:
        if time.monotonic() > end:
            for request in left:
                request.Cancel()
                request.Free()
            return
        pause()
