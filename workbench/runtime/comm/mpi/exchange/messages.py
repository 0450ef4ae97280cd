"""Arrays sent from one process to another, with a word before them that says what comes."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from operator import call
from typing import Any

import numpy as np

from workbench.errors import InvalidArgument
from workbench.runtime.comm.base import Handle
from workbench.runtime.comm.mpi.exchange.channel import Channel
from workbench.runtime.comm.request import form, refusal
from workbench.runtime.undisturbed import Call, in_one_call

_HEAD_BYTES = 128  # bytes that follow, then shape and dtype in words
PIECE_BYTES = 1 << 30  # one message of MPI has less than 2 GiB: larger arrays travel in pieces, which come in order


class Messages:
    """Between the processes of one group.

    Args:
        comm: of mpi4py. channel: what tells of failures.
    """

    def __init__(self, comm: Any, channel: Channel) -> None:
        self._comm, self._channel = comm, channel

    def send(self, array: np.ndarray, to: int, tag: int, title: str) -> Receipt:
        """Begin to send; the array is read until the receipt is done."""
        head = np.zeros(_HEAD_BYTES, np.uint8)
        text = form(array.shape, array.dtype).encode()[: _HEAD_BYTES - 8]
        head[:8].view(np.int64)[0] = array.nbytes
        head[8 : 8 + len(text)] = np.frombuffer(text, np.uint8)
        data = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        begin = [partial(self._comm.Isend, head, to, 2 * tag)]
        begin += [partial(self._comm.Isend, piece, to, 2 * tag + 1) for piece in _pieces(data)]
        requests: list[Any] = []
        in_one_call([partial(requests.extend, map(call, begin))])  # a head alone would go before the next message's
        return Receipt(self._channel, title, to, requests, (head, data), [])

    def receive(self, out: np.ndarray, source: int, tag: int, title: str) -> Receipt:
        """Begin to receive; the array is written when the receipt is done."""
        head = np.zeros(_HEAD_BYTES, np.uint8)
        request = self._comm.Irecv(head, source, 2 * tag)
        expected = form(out.shape, out.dtype)
        data = out if out.flags.c_contiguous else np.empty(out.shape, out.dtype)

        def receive_rest() -> list[Call]:
            """What receives the array behind the head, a call for each piece."""
            came = head[8:].tobytes().rstrip(b"\0").decode("utf-8", "replace")
            into = data.reshape(-1).view(np.uint8)
            if came != expected:
                receipt.refused = InvalidArgument(refusal(title, "what came does not fit", expected, came))
                into = receipt.dropped = np.empty(int(head[:8].view(np.int64)[0]), np.uint8)
            return [partial(self._comm.Irecv, piece, source, 2 * tag + 1) for piece in _pieces(into)]

        receipt = Receipt(self._channel, title, source, [request], (head, data), [receive_rest])
        if data is not out:
            receipt.whenever_done = lambda: out.__setitem__(..., data)
        return receipt


def _pieces(data: np.ndarray) -> list[np.ndarray]:
    """Bytes as messages carry them; one piece of none."""
    return [data[at : at + PIECE_BYTES] for at in range(0, max(len(data), 1), PIECE_BYTES)]


class Receipt(Handle):
    """A message under way.

    Args:
        other: the rank at the other end. kept: what MPI reads or writes meanwhile.
        rest: prepares the call that begins what is waited for after that; empty if that is all.

    Attributes:
        refused: what came does not fit; it is received all the same, into `dropped`, so that the next message can be.
    """

    def __init__(
        self,
        channel: Channel,
        title: str,
        other: int,
        requests: list[Any],
        kept: tuple[np.ndarray, ...],
        rest: list[Callable[[], list[Call]]],
    ) -> None:
        self._channel, self._title, self._other = channel, title, other
        self._requests, self._kept, self._rest = requests, kept, rest
        self._finished = False
        self.refused: Exception | None = None
        self.dropped: np.ndarray | None = None
        self.whenever_done: Callable[[], Any] | None = None

    @property
    def done(self) -> bool:
        return self._advance() and self._channel.failure is None

    def _advance(self) -> bool:
        while not self._finished:
            while self._requests:
                if not self._requests[0].Test():
                    return False
                del self._requests[0]
            if not self._rest:
                if self.whenever_done is not None and self.refused is None:
                    self.whenever_done()
                self._finished = True
            else:
                begin = self._rest[0]()  # in one call: begun twice, it would take the next message as well
                in_one_call((partial(self._requests.extend, map(call, begin)), self._rest.clear))
        return True

    def wait(self, timeout: float | None = None) -> None:
        self._channel.until(self._advance, self._title, timeout, lambda: [self._other])
        self._channel.require_alive(self._title)
        if self.refused is not None:
            raise self.refused
