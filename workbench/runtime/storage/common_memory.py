"""Several buckets in one memory: the replicas of variables on several devices while they are equal.

Nobody who looks at one of the tensors sees a difference. Before a single one is written the buckets are parted: each
has memory of its own again, with the value it had. Commits that write right into the memory ask for that themselves.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence

import numpy as np

from workbench.runtime.storage.bucket import Bucket, aligned_zeros
from workbench.runtime.storage.freed import give_back_freed
from workbench.runtime.storage.tensor import Moves
from workbench.runtime.undisturbed import in_one_call

_OFTEN = 3  # who has been parted so often stays alone: somebody keeps writing, and each time all of it is copied


class CommonMemory:
    """One array that is the storage of several buckets.

    Args:
        buckets: they hold the same bits in tensors of the same shapes; the memory of the first becomes that of all.
    """

    def __init__(self, buckets: Sequence[Bucket]) -> None:
        self._members = [weakref.ref(bucket) for bucket in buckets]

    def is_of(self, buckets: Sequence[Bucket]) -> bool:
        """Whether these buckets, and no others, lie here."""
        return list(map(id, self._living())) == list(map(id, buckets))

    def part(self) -> None:
        """Give every bucket but the first memory of its own, with a copy of the value."""
        first, *others = self._living()
        calls = first.lying_in(first.array, None)
        for bucket in others:
            array = aligned_zeros(bucket.array.size, bucket.array.dtype)
            np.copyto(array, bucket.array)
            calls += bucket.lying_in(array, None)
        in_one_call([Moves.happening(), *calls, Moves.happening()])

    def _living(self) -> list[Bucket]:
        return [bucket for member in self._members if (bucket := member()) is not None]


def may_share(buckets: Sequence[Bucket]) -> bool:
    """Whether buckets that hold the same bits may lie in one memory."""
    return all(
        bucket.parted < _OFTEN and not any(t.is_seen or t.is_fixed for t in bucket.tensors) for bucket in buckets
    )


def share_memory(buckets: Sequence[Bucket]) -> None:
    """Have buckets that hold the same bits lie in the memory of the first, and no others with them.

    All tensors get another array, also those whose memory stays: what was bound to it is not to write there any more.
    """
    common = buckets[0].common
    if common is not None and common.is_of(buckets):
        return
    for bucket in buckets:
        bucket.part()
    array, common = buckets[0].array, CommonMemory(buckets)
    calls = [call for bucket in buckets for call in bucket.lying_in(array, common)]
    in_one_call([Moves.happening(), *calls, Moves.happening()])
    give_back_freed(array.nbytes)
