"""Where every piece of memory lies in its device's arena.

Pieces of which only one thread knows take turns; what several threads touch, and what is there from the beginning or
until the end of a step, has a place of its own.
"""

from __future__ import annotations

from bisect import insort
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
        rooms: dict[tuple[int, int], _Room] = {}
        for number, piece, room_of in self._pieces:
            nbytes, offset = aligned(nbytes_of[number]), None
            if room_of is not None:
                room = rooms.setdefault(room_of, _Room())
                room.give_back(piece.first)
                offset = room.take(nbytes)
            if offset is None:
                offset, sizes[piece.place] = sizes[piece.place], sizes[piece.place] + nbytes
            if room_of is not None:
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
        self._holes: list[tuple[int, int]] = []  # (offset, bytes)
        self._busy: list[tuple[int, int, int, int]] = []  # (until, number, offset, bytes)
        self._count = 0

    def occupy(self, until: int, offset: int, nbytes: int) -> None:
        insort(self._busy, (until, self._count, offset, nbytes))
        self._count += 1

    def give_back(self, now: int) -> None:
        """What is not needed any more becomes holes."""
        while self._busy and self._busy[0][0] < now:
            _, _, offset, nbytes = self._busy.pop(0)
            self._add_hole(offset, nbytes)

    def take(self, nbytes: int) -> int | None:
        """Bytes of the smallest hole that is large enough; None if there is no such."""
        best = min((hole for hole in self._holes if hole[1] >= nbytes), key=lambda hole: hole[1], default=None)
        if best is None:
            return None
        self._holes.remove(best)
        if best[1] > nbytes:
            insort(self._holes, (best[0] + nbytes, best[1] - nbytes))
        return best[0]

    def _add_hole(self, offset: int, nbytes: int) -> None:
        """A new hole, joined with its neighbours."""
        for hole in list(self._holes):
            if hole[0] + hole[1] == offset:
                offset, nbytes = hole[0], hole[1] + nbytes
                self._holes.remove(hole)
            elif offset + nbytes == hole[0]:
                nbytes += hole[1]
                self._holes.remove(hole)
        insort(self._holes, (offset, nbytes))
