"""Where every piece of memory lies in its device's arena.

Pieces of which only one thread knows take turns; what several threads touch, and what is there from the beginning or
until the end of a step, has a place of its own.
"""

from __future__ import annotations

from bisect import bisect, insort
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from workbench.executors.planning.memory.refs import aligned
from workbench.executors.planning.memory.request import END
from workbench.executors.planning.memory.storage import StoragePiece, in_arenas


@dataclass(frozen=True)
class Offsets:
    """Byte offsets of all pieces, 0 for those in the scope, and the bytes every device's arena has."""

    offsets: tuple[int, ...]
    sizes: dict[int, int]


def assign_offsets(pieces: Sequence[StoragePiece], devices: int, reuse: bool) -> Offsets:
    """Lay pieces out, those needed first before the others.

    Args:
        reuse: whether pieces may follow each other in the same memory.
    """
    return PiecesInOrder(pieces, reuse).offsets([piece.nbytes for piece in pieces], devices)


class PiecesInOrder:
    """Pieces as they are laid out; how large they are may be said later, and more than once.

    Args:
        reuse: whether pieces may follow each other in the same memory.
    """

    def __init__(self, pieces: Sequence[StoragePiece], reuse: bool) -> None:
        self._count = len(pieces)
        order = sorted(in_arenas(pieces), key=lambda n: pieces[n].first)
        self._pieces = [(n, pieces[n], room_for(pieces[n]) if reuse else None) for n in order]

    def offsets(self, nbytes_of: Sequence[int], devices: int) -> Offsets:
        """Where they lie.

        Args:
            nbytes_of: bytes of every piece.
        """
        offsets, sizes = [0] * self._count, dict.fromkeys(range(devices), 0)
        rooms: defaultdict[tuple[int, int], _Room] = defaultdict(_Room)
        for number, piece, room_of in self._pieces:
            nbytes = aligned(nbytes_of[number])
            room = None if room_of is None else rooms[room_of]
            offset = None if room is None else room.take(nbytes, piece.first)
            if offset is None:
                offset = sizes[piece.place]
                sizes[piece.place] += nbytes
            if room is not None:
                room.occupy(piece.last, offset, nbytes)
            offsets[number] = offset
        return Offsets(tuple(offsets), sizes)


def room_for(piece: StoragePiece) -> tuple[int, int] | None:
    """Device and thread of the pieces one takes turns with; None: it has a place of its own."""
    alone = len(piece.threads) > 1 or piece.last == END or piece.first < 0
    return None if alone else (piece.place, min(piece.threads, default=0))


class _Room:
    """Memory of one device that one thread uses again and again."""

    def __init__(self) -> None:
        self._holes: list[tuple[int, int]] = []  # (offset, bytes), in order; no two touch
        self._busy: list[tuple[int, int, int, int]] = []  # (until, number, offset, bytes)
        self._count = 0

    def occupy(self, until: int, offset: int, nbytes: int) -> None:
        insort(self._busy, (until, self._count, offset, nbytes))
        self._count += 1

    def take(self, nbytes: int, now: int) -> int | None:
        """Bytes of the smallest hole that is large enough, the first of several; None if there is no such."""
        while self._busy and self._busy[0][0] < now:  # not needed any more
            _, _, offset, size = self._busy.pop(0)
            self._add_hole(offset, size)
        best, least = -1, 0
        for number, (_, size) in enumerate(self._holes):
            if size >= nbytes and (best < 0 or size < least):
                best, least = number, size
        if best < 0:
            return None
        offset = self._holes[best][0]
        if least > nbytes:
            self._holes[best] = offset + nbytes, least - nbytes  # its place in the order is the same
        else:
            del self._holes[best]
        return offset

    def _add_hole(self, offset: int, nbytes: int) -> None:
        """A new hole, joined with its neighbours."""
        holes = self._holes
        at = bisect(holes, (offset, nbytes))
        if at < len(holes) and offset + nbytes == holes[at][0]:
            nbytes += holes.pop(at)[1]
        if at and sum(holes[at - 1]) == offset:
            holes[at - 1] = holes[at - 1][0], holes[at - 1][1] + nbytes
        else:
            holes.insert(at, (offset, nbytes))
