"""Staging: pinned memory between ordinary memory of the host and a device.

A copy that goes on while the host does other things needs pinned memory, of which there is little. So what is copied
passes through a ring: every piece takes the next bytes of it, and whoever comes round again waits for the copy that
used them before, which is long over unless a device lags a whole ring behind.
"""

from __future__ import annotations

import ctypes
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from workbench.cuda.driver import CudaDriver, Event, Stream

RING_BYTES = 1 << 22
ALIGN = 256


class _RingPiece(NamedTuple):
    """Bytes of the ring that a copy on its way uses, and the event behind it."""

    begin: int
    end: int
    event: Event


class StagingRing:
    """Of one device.

    Args:
        nbytes: of the ring; larger copies go through it piece by piece.
    """

    def __init__(self, driver: CudaDriver, nbytes: int = RING_BYTES) -> None:
        self._driver, self._size = driver, nbytes
        self._ring = driver.allocate_pinned(nbytes)
        self._pieces: deque[_RingPiece] = deque()
        self._events: list[Event] = []
        self._head = 0

    def upload(self, address: int, source: int, nbytes: int, stream: Stream) -> None:
        """Copy bytes of the host, which may change right afterwards, to the device, in the order of a stream."""
        for at, count in self._parts(nbytes):
            begin = self._taken(count)
            part = self._ring[begin : begin + count]
            part[...] = host_bytes(source + at, count)
            self._driver.copy_to_device(address + at, part, stream)
            self._note(begin, count, stream)

    def download(
        self, spans: Sequence[tuple[int, int, int]], stream: Stream, look: Callable[[], None] | None = None
    ) -> None:
        """Copy bytes of the device to the host, once all that was given to the stream is done; waits for it.

        Args:
            spans: (target, address, nbytes) of each; with one wait for as many as the ring holds.
            look: called when the first one is there, before others are written.
        """
        parts: list[tuple[int, np.ndarray]] = []
        room = self._size // 2
        for target, address, nbytes in spans:
            for at, count in self._parts(nbytes):
                if count > room:
                    look = self._taken_home(parts, stream, look)
                    parts, room = [], self._size // 2
                begin = self._taken(count)
                part = self._ring[begin : begin + count]
                self._driver.copy_to_host(part, address + at, stream)
                self._note(begin, count, stream)
                parts.append((target + at, part))
                room -= -(-count // ALIGN) * ALIGN
        self._taken_home(parts, stream, look)

    def _taken_home(
        self, parts: Sequence[tuple[int, np.ndarray]], stream: Stream, look: Callable[[], None] | None
    ) -> Callable[[], None] | None:
        """Wait for pieces and put them in their place; what is still to be called at the first one."""
        self._driver.synchronize_stream(stream)
        for target, part in parts:
            host_bytes(target, part.nbytes)[...] = part
            if look is not None:
                look()
            look = None
        return look

    def _parts(self, nbytes: int) -> Iterator[tuple[int, int]]:
        most = self._size // 2
        return ((at, min(most, nbytes - at)) for at in range(0, nbytes, most))

    def _taken(self, nbytes: int) -> int:
        """The next bytes of the ring, once nothing uses them."""
        begin = self._head if self._head + nbytes <= self._size else 0
        end = begin + -(-nbytes // ALIGN) * ALIGN
        while any(piece.begin < end and begin < piece.end for piece in self._pieces):  # the oldest is met first
            piece = self._pieces.popleft()
            self._driver.synchronize_event(piece.event)
            self._events.append(piece.event)
        self._head = end
        return begin

    def _note(self, begin: int, nbytes: int, stream: Stream) -> None:
        event = self._events.pop() if self._events else self._driver.create_event()
        self._driver.record_event(event, stream)
        self._pieces.append(_RingPiece(begin, begin + nbytes, event))


def host_bytes(address: int, nbytes: int) -> np.ndarray:
    """Memory of this process as an array."""
    return np.ctypeslib.as_array((ctypes.c_uint8 * nbytes).from_address(address))
