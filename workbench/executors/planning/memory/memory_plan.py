"""All stages, one after the other: from a request to the memory of every value."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from workbench.executors.planning.memory.aliases import Aliases, find_aliases
from workbench.executors.planning.memory.buckets import GradientBuckets, make_buckets
from workbench.executors.planning.memory.in_place import Takeovers, find_takeovers
from workbench.executors.planning.memory.layout import Layouts, assign_layouts
from workbench.executors.planning.memory.offsets import Offsets, assign_offsets
from workbench.executors.planning.memory.refs import Ref, Root
from workbench.executors.planning.memory.request import MemoryRequest
from workbench.executors.planning.memory.storage import Storage, StoragePiece, StorageSpot, share_storage
from workbench.graph.ssa import Value


@dataclass(frozen=True, eq=False)
class MemoryPlan:
    """The memory of one plan: what every stage has decided, and what follows from it.

    Attributes:
        refs: of every value that has memory of its own or shows another one's; the others travel as objects.
        flats: for every group of the request the Ref of the whole, None where its members could not be put together.
    """

    request: MemoryRequest
    buckets: GradientBuckets
    layouts: Layouts
    aliases: Aliases
    takeovers: Takeovers
    storage: Storage
    offsets: Offsets
    refs: Mapping[Value, Ref]
    flats: tuple[Ref | None, ...]

    @property
    def sizes(self) -> Mapping[int, int]:
        """Bytes of every device's arena."""
        return self.offsets.sizes


LayOut = Callable[[Sequence[StoragePiece], int, bool], Offsets]


def plan_memory(request: MemoryRequest, lay_out: LayOut = assign_offsets) -> MemoryPlan:
    """Decide where every value lives.

    Args:
        lay_out: the stage of offsets.

    Raises:
        EnforceNotMet: an op's rule for views failed; names the op.
    """
    buckets = make_buckets(request)
    layouts = assign_layouts(request, buckets)
    aliases = find_aliases(request, buckets, layouts)
    takeovers = find_takeovers(request, buckets, aliases)
    storage = share_storage(request, buckets, aliases, takeovers)
    offsets = lay_out(storage.pieces, request.graph.devices, request.reuse)
    pieces = zip(storage.pieces, offsets.offsets, strict=True)
    roots = [Root(piece.place, piece.nbytes, piece.name, offset) for piece, offset in pieces]
    refs = _refs(request, aliases, storage, roots)
    return MemoryPlan(
        request, buckets, layouts, aliases, takeovers, storage, offsets, refs, _flats(buckets, refs)
    )  # fmt: skip


def _refs(
    request: MemoryRequest, aliases: Aliases, storage: Storage, roots: list[Root]
) -> dict[Value, Ref]:  # fmt: skip
    """One object for all values that are the same array: what shares memory is found by that."""
    refs: dict[Value, Ref] = {}
    known: dict[tuple[StorageSpot, object, object, object], Ref] = {}
    for value, spot in storage.spots.items():
        seen, dtype = aliases.lies(value), request.specs[value].dtype.numpy
        key = spot, seen.shape, seen.strides, dtype
        ref = known.get(key)
        if ref is None:
            ref = known[key] = Ref(roots[spot.piece], spot.offset, seen.shape, seen.strides, dtype)
        refs[value] = ref
    return refs


def _flats(buckets: GradientBuckets, refs: Mapping[Value, Ref]) -> tuple[Ref | None, ...]:
    flats: list[Ref | None] = []
    for bucket in buckets.buckets:
        if bucket is None:
            flats.append(None)
            continue
        root, itemsize = refs[bucket.members[0]].root, bucket.dtype.itemsize
        flats.append(Ref(root, 0, (bucket.nbytes // itemsize,), (itemsize,), bucket.dtype))
    return tuple(flats)
