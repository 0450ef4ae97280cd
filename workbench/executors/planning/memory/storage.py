"""The pieces of memory a plan needs, which values each holds, and when it holds them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from workbench.executors.planning.memory.aliases import Aliases
from workbench.executors.planning.memory.buckets import GradientBuckets
from workbench.executors.planning.memory.in_place import Takeovers
from workbench.executors.planning.memory.request import END, MemoryRequest, nbytes_of
from workbench.graph.ssa import Value


class StoragePiece(NamedTuple):
    """Memory that belongs together.

    Attributes:
        place: the device.
        name: of the persistable variable whose storage in the scope it is; "" in the arena.
        first, last: positions in the schedule between which its content matters; -1: from the beginning of the step,
            `END`: until its end.
        threads: those that touch it.
    """

    place: int
    nbytes: int
    name: str
    first: int
    last: int
    threads: frozenset[int]


class StorageSpot(NamedTuple):
    """Where a value begins: number of the piece, and bytes from there."""

    piece: int
    offset: int


@dataclass(frozen=True, eq=False)
class Storage:
    """All pieces, those of buckets first, and the spot of every value that has memory."""

    pieces: tuple[StoragePiece, ...]
    spots: Mapping[Value, StorageSpot]


def share_storage(request: MemoryRequest, buckets: GradientBuckets, aliases: Aliases, takeovers: Takeovers) -> Storage:
    """The pieces that values live in, given which of them share one."""
    sharing = _Sharing(request, buckets, aliases, takeovers)
    for value in request.given:
        sharing.add_given(value)
    for node, value in request.produced:
        sharing.add(value, request.position[node])
    return Storage(_with_uses(request, sharing.pieces, sharing.spots), sharing.spots)


class _Sharing:
    """Puts values into pieces, one after the other."""

    def __init__(
        self, request: MemoryRequest, buckets: GradientBuckets, aliases: Aliases, takeovers: Takeovers
    ) -> None:
        self.request, self.buckets, self.aliases, self.takeovers = request, buckets, aliases, takeovers
        self.pieces: list[StoragePiece] = []
        self.spots: dict[Value, StorageSpot] = {}
        self._homes: dict[tuple[str, int], int] = {}
        self._piece_of_bucket = {
            number: self._new(bucket.members[0].place, bucket.nbytes, first=0, last=END)
            for number, bucket in enumerate(buckets.buckets)
            if bucket is not None
        }

    def _new(self, place: int, nbytes: int, name: str = "", first: int = -1, last: int = -1) -> int:
        self.pieces.append(StoragePiece(place, nbytes, name, first, last, frozenset()))
        return len(self.pieces) - 1

    def _home(self, value: Value) -> int:
        """The piece that is a variable's storage in the scope."""
        key = value.name, value.place
        if key not in self._homes:
            self._homes[key] = self._new(value.place, self._nbytes(value), value.name)
        return self._homes[key]

    def _nbytes(self, value: Value) -> int:
        return nbytes_of(self.request.specs[value])

    def add_given(self, value: Value) -> None:
        """A feed, or what the scope holds."""
        if self.request.lies_in_scope(value):
            self.spots[value] = StorageSpot(self._home(value), 0)
        else:
            last = END if self.request.is_fed_aside(value) else -1
            self.spots[value] = StorageSpot(self._new(value.place, self._nbytes(value), last=last), 0)

    def add(self, value: Value, position: int) -> None:
        """What a node at this position makes."""
        bucket = self.buckets.spots.get(value)
        shown = self.aliases.aliases.get(value)
        if value in self.request.in_scope:
            self.spots[value] = StorageSpot(self._home(value), 0)
        elif bucket is not None:
            self.spots[value] = StorageSpot(self._piece_of_bucket[bucket[0]], bucket[1])
        elif shown is not None:
            base = self.spots[shown.base]
            self.spots[value] = StorageSpot(base.piece, base.offset + shown.seen.offset)
        elif value in self.takeovers:
            self.spots[value] = self.spots[self.takeovers[value]]
        else:
            self.spots[value] = StorageSpot(self._new(value.place, self._nbytes(value), first=position), 0)


def _with_uses(
    request: MemoryRequest, pieces: Sequence[StoragePiece], spots: Mapping[Value, StorageSpot]
) -> tuple[StoragePiece, ...]:  # fmt: skip
    """The pieces with who touches them, and until when."""
    last = [piece.last for piece in pieces]
    threads: list[set[int]] = [set() for _ in pieces]
    for node in request.schedule.order:
        until, thread = request.until(node), request.schedule.thread[node]
        for value in (*node.value_reads, *node.writes):
            spot = spots.get(value)
            if spot is not None:
                last[spot.piece] = max(last[spot.piece], until)
                threads[spot.piece].add(thread)
    for value in request.staged:
        if value in spots:
            last[spots[value].piece] = END
    uses = zip(pieces, last, threads, strict=True)
    return tuple(StoragePiece(p.place, p.nbytes, p.name, p.first, until, frozenset(t)) for p, until, t in uses)


def in_arenas(pieces: Sequence[StoragePiece]) -> list[int]:
    """Numbers of the pieces that are not the scope's."""
    return [number for number, piece in enumerate(pieces) if not piece.name]
