"""What carries messages between trainers and servers, whatever it is: a contract with two sides.

A trainer has a `Connection` to each server: it asks, and gets one answer. A server has a `Listener`: it takes requests
one after the other and answers each when it can, in any order. A request that is repeated, because nobody knows whether
the first one arrived, is the same request: `Message.fields["sequence"]` tells a server so.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from workbench.errors import EnforceNotMet, InvalidArgument, PeerFailed, PeerTimeout, PreconditionNotMet
from workbench.runtime.servers.messages import Message

REFUSED = "refused"
"""The kind of an answer that says why there is none."""

_LONGEST = 4000  # characters of a reason

_ERRORS: dict[str, type[EnforceNotMet]] = {
    error.__name__: error for error in (InvalidArgument, PeerFailed, PeerTimeout, PreconditionNotMet)
}


class Question(ABC):
    """A question that has come to a server, and has to be answered once."""

    frame: Message

    @abstractmethod
    def answer(self, frame: Message) -> None:
        """Send a copy of the answer; nothing happens if whoever asked is gone, and nobody waits for it."""

    def refuse(self, error: EnforceNotMet) -> None:
        """Say why there is no answer."""
        kind = next((name for name, one in _ERRORS.items() if type(error) is one), "InvalidArgument")
        self.answer(Message(REFUSED, {"error": kind, "message": str(error)[:_LONGEST]}))


class Listener(ABC):
    """The side of a server.

    Attributes:
        refused: how many messages were no requests; nothing has come of them.
        comes_again: whether a trainer whose process has ended may be started again; where it cannot, nobody waits.
    """

    refused: int = 0
    comes_again: bool = True

    @abstractmethod
    def receive(self, seconds: float) -> Question | None:
        """The next request; None if none comes within so many seconds."""

    @abstractmethod
    def close(self) -> None:
        """Take no more requests; answers that were given still arrive."""


class Connection(ABC):
    """The side of a trainer, to one server.

    Attributes:
        endpoint: of the server, its name in messages.
    """

    endpoint: str

    @abstractmethod
    def start(self, frame: Message, seconds: float) -> Reply:
        """Begin to ask.

        Args:
            seconds: the longest wait for the answer.
        """

    def ask(self, frame: Message, seconds: float) -> Message:
        """Ask, and wait for the answer; raises what `Reply.wait` does."""
        return self.start(frame, seconds).wait()

    @abstractmethod
    def close(self) -> None:
        """Let go of the server."""


class Reply(ABC):
    """An answer that is under way."""

    @abstractmethod
    def wait(self) -> Message:
        """The answer.

        Raises:
            PeerTimeout: it does not come in time. PeerFailed: the server is gone. Any other: the server says so.
        """


def understood(answer: Message, endpoint: str) -> Message:
    """An answer, unless it says why there is none; raises what it says."""
    if answer.kind != REFUSED:
        return answer
    message: Any = answer.fields.get("message", "")
    raise _ERRORS.get(str(answer.fields.get("error")), InvalidArgument)(f"server {endpoint}: {message}")


def lost(endpoint: str, why: str) -> PeerFailed:
    """The error for a server that does not answer any more."""
    return PeerFailed(
        f"server {endpoint} is lost: {why}\n"
        "  start it again (from its checkpoint, if it keeps one), then the trainers; they go on where it is"
    )
