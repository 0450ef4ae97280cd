"""Where every piece of memory lies in its device's arena.

Pieces of which only one thread knows take turns; what several threads touch, and what is there from the beginning or
until the end of a step, has a place of its own.
"""

from __future__ import annotations

from bisect import bisect, insort
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

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


class _Turn(NamedTuple):
    """A piece, its device, the room it takes turns in, if any, and those there that are not needed any more by then."""

    number: int
    place: int
    room: tuple[int, int] | None
    over: list[int]


class PiecesInOrder:
    """Pieces as they are laid out; how large they are may be said later, and more than once.

    Args:
        reuse: whether pieces may follow each other in the same memory.
    """

    def __init__(self, pieces: Sequence[StoragePiece], reuse: bool) -> None:
        self._count = len(pieces)
        order = sorted(in_arenas(pieces), key=lambda n: pieces[n].first)
        held: defaultdict[tuple[int, int], list[tuple[int, int, int]]] = defaultdict(list)
        self._turns = [_Turn(n, pieces[n].place, room_for(pieces[n]) if reuse else None, []) for n in order]
        for count, (number, _, room, over) in enumerate(self._turns):
            if room is not None:
                while held[room] and held[room][0][0] < pieces[number].first:
                    over.append(held[room].pop(0)[2])
                insort(held[room], (pieces[number].last, count, number))

    def offsets(self, nbytes_of: Sequence[int], devices: int) -> Offsets:
        """Where they lie.

        Args:
            nbytes_of: bytes of every piece.
        """
        offsets, sizes = [0] * self._count, dict.fromkeys(range(devices), 0)
        taken = {turn.number: aligned(nbytes_of[turn.number]) for turn in self._turns}
        rooms: defaultdict[tuple[int, int], _Room] = defaultdict(_Room)
        for number, place, room_of, over in self._turns:
            nbytes, offset = taken[number], None
            if room_of is not None:
                room = rooms[room_of]
                for earlier in over:
                    room.add(offsets[earlier], taken[earlier])
                offset = room.take(nbytes)
            if offset is None:
                offset = sizes[place]
                sizes[place] += nbytes
            offsets[number] = offset
        return Offsets(tuple(offsets), sizes)


def room_for(piece: StoragePiece) -> tuple[int, int] | None:
    """Device and thread of the pieces one takes turns with; None: it has a place of its own."""
    alone = len(piece.threads) > 1 or piece.last == END or piece.first < 0
    return None if alone else (piece.place, min(piece.threads, default=0))


class _Room:
    """Memory of one device that one thread uses again and again: what is free of it just now."""

    def __init__(self) -> None:
        self._holes: list[tuple[int, int]] = []  # (offset, bytes), in order; no two touch

    def take(self, nbytes: int) -> int | None:
        """Bytes of the smallest hole that is large enough, the first of several; None if there is no such."""
        holes, best, least = self._holes, -1, 0
        for number, (_, size) in enumerate(holes):
            if size >= nbytes and (best < 0 or size < least):
                best, least = number, size
        if best < 0:
            return None
        offset = holes[best][0]
        if least > nbytes:
            holes[best] = offset + nbytes, least - nbytes  # its place in the order is the same
        else:
            del holes[best]
        return offset

    def add(self, offset: int, nbytes: int) -> None:
        """A new hole, joined with its neighbours."""
        holes = self._holes
        at = bisect(holes, (offset, nbytes))
        if at < len(holes) and offset + nbytes == holes[at][0]:
            nbytes += holes.pop(at)[1]
        if at:
            before, size = holes[at - 1]
            if before + size == offset:
                holes[at - 1] = before, size + nbytes
                return
        holes.insert(at, (offset, nbytes))
