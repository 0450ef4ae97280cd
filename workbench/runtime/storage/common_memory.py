"""Several buckets in one memory: the replicas of variables on several devices while they are equal.

Nobody who looks at one of the tensors sees a difference. Before a single one is written the buckets are parted: each
has memory of its own again, with the value it had. Commits that write right into the memory ask for that themselves.

A step that is under way is bound to the memory, and would be lost on the devices that leave it. So memory stays one
until the step is over, and a tensor that is set in the middle of it, by another thread or a schedule, leaves alone.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from functools import partial
from operator import ne

import numpy as np

from workbench.runtime.storage.bucket import Bucket, aligned_zeros
from workbench.runtime.storage.freed import give_back_freed
from workbench.runtime.storage.tensor import moves
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
        while not self._parted():
            pass

    def _parted(self) -> bool:
        """Try to; whether no tensor left on its own meanwhile."""
        first, *others = self._living()
        changed = [tensor.changed() for bucket in (first, *others) for tensor in bucket.tensors]
        calls = first.lying_in(first.array, None)
        for bucket in others:
            array = aligned_zeros(bucket.array.size, bucket.array.dtype)
            np.copyto(array, bucket.array)
            calls += bucket.lying_in(array, None)
        return not in_one_call([*changed, moves.happening(), *calls, moves.happening()])

    def _living(self) -> list[Bucket]:
        return [bucket for member in self._members if (bucket := member()) is not None]


def may_share(buckets: Sequence[Bucket]) -> bool:
    """Whether buckets that hold the same bits may lie in one memory."""
    return all(
        bucket.parted < _OFTEN and not any(t.is_seen or t.is_fixed for t in bucket.tensors) for bucket in buckets
    )


def share_memory(buckets: Sequence[Bucket], writes: Sequence[int]) -> bool:
    """Have buckets that hold the same bits lie in the memory of the first, and no others with them.

    All tensors get another array, also those whose memory stays: what was bound to it is not to write there any more.

    Args:
        writes: to each, as `Bucket.writes` was when they were compared; where somebody has written since, nothing is
            done.

    Returns:
        whether they lie so now.
    """
    common = buckets[0].common
    if common is not None and common.is_of(buckets):
        return True
    for bucket in buckets:
        bucket.part()
    array, common = buckets[0].array, CommonMemory(buckets)
    calls = [call for bucket in buckets for call in bucket.lying_in(array, common)]
    written = [partial(ne, bucket.written, [count]) for bucket, count in zip(buckets, writes, strict=True)]
    if in_one_call([*written, moves.happening(), *calls, moves.happening()]):
        return False
    give_back_freed(array.nbytes)
    return True
