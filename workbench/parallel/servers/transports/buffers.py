"""Memory that messages are sent from and received in, used again once nobody looks at it any more."""

from __future__ import annotations

from typing import Any

import numpy as np

from workbench.framework.references import is_held_by_others
from workbench.parallel.servers.transports.shared import LONG, SharedOutbox
from workbench.runtime.servers.messages import Message, written

_KEPT = 32  # buffers that lie ready, or will


class Buffers:
    """Of one end of a connection."""

    def __init__(self) -> None:
        self._known: list[np.ndarray] = []

    def take(self, length: int) -> np.ndarray:
        """At least so many bytes, which are the caller's as long as it, or an array that shows them, lives."""
        for buffer in self._known:
            if len(buffer) >= length and not is_held_by_others(buffer):
                return buffer
        buffer = np.empty(length, np.uint8)
        free = [one for one in self._known if len(one) > length or is_held_by_others(one)]
        self._known = [*free, buffer][-_KEPT:]
        return buffer


class Outbox:
    """Messages that are being sent, each with the memory it is sent from."""

    def __init__(self) -> None:
        self._buffers, self._shared = Buffers(), SharedOutbox()
        self._under_way: list[list[Any]] = []

    def send(self, comm: Any, frame: Message, rank: int, tag: int, is_beside: bool) -> None:
        """Begin to send; whatever interrupts this, the memory stays as long as MPI may read it.

        Args:
            is_beside: who receives it sees memory of this process.
        """
        self._under_way = [one for one in self._under_way if not _is_sent(one)]
        is_put = is_beside and frame.nbytes >= LONG
        data = self._shared.put(frame) if is_put else written(frame, self._buffers.take)
        entry: list[Any] = [None, data, rank]
        self._under_way.append(entry)
        entry[0] = comm.Isend(data, rank, tag)

    def left(self) -> set[int]:
        """The ranks that have not taken what they are sent."""
        self._under_way = [one for one in self._under_way if not _is_sent(one)]
        return {rank for request, _, rank in self._under_way if request is not None}


def _is_sent(entry: list[Any]) -> bool:
    return entry[0] is not None and bool(entry[0].Test())
