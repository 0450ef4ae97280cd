"""Several buckets in one memory: the replicas of variables on several devices while they are equal.

Nobody who looks at one of the tensors sees a difference. Before a single one is written the buckets are parted: each
has memory of its own again, with the value it had. Commits that write right into the memory ask for that themselves.

A step that is under way is bound to the memory, and would be lost on the devices that leave it. So memory stays one
until the step is over, and what is written in the middle of it, by another thread or a schedule, comes to all devices.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from operator import ne
from typing import Any

import numpy as np

from workbench.errors import Unavailable
from workbench.runtime.storage.bucket import Bucket, aligned_zeros
from workbench.runtime.storage.freed import give_back_freed
from workbench.runtime.storage.scope import Scope
from workbench.runtime.storage.tensor import moves
from workbench.runtime.undisturbed import hands, in_one_call

_OFTEN = 3  # who has been parted so often stays alone: somebody keeps writing, and each time all of it is copied


class CommonMemory:
    """One array that is the storage of several buckets.

    Args:
        buckets: they hold the same bits in tensors of the same shapes; the memory of the first becomes that of all.
        root: the scope whose lock a step on them holds.
    """

    def __init__(self, buckets: Sequence[Bucket], root: Scope) -> None:
        self._members = [weakref.ref(bucket) for bucket in buckets]
        self._root = weakref.ref(root)

    def is_of(self, buckets: Sequence[Bucket]) -> bool:
        """Whether these buckets, and no others, lie here."""
        return list(map(id, self._living())) == list(map(id, buckets))

    def writing(self) -> AbstractContextManager[Any]:
        """For a `with` body that writes to one of the tensors: no step begins in it; one that takes long goes on."""
        root = self._root()
        if root is None or threading.get_ident() in hands:
            return nullcontext()
        try:
            return root.in_use(0.0)
        except Unavailable:
            return nullcontext()

    def is_in_use(self) -> bool:
        """Whether a step is under way, of this thread or another one."""
        root = self._root()
        if root is None or threading.get_ident() in hands:
            return False
        return not root.is_held_here() or (root.step is not None and root.step.is_in_the_middle)

    def part(self) -> None:
        """Give every bucket but the first memory of its own, with a copy of the value."""
        first, *others = self._living()
        calls = first.lying_in(first.array, None)
        for bucket in others:
            array = aligned_zeros(bucket.array.size, bucket.array.dtype)
            np.copyto(array, bucket.array)
            calls += bucket.lying_in(array, None)
        in_one_call([moves.happening(), *calls, moves.happening()])

    def _living(self) -> list[Bucket]:
        return [bucket for member in self._members if (bucket := member()) is not None]


def may_share(buckets: Sequence[Bucket]) -> bool:
    """Whether buckets that hold the same bits may lie in one memory."""
    return all(
        bucket.parted < _OFTEN and not any(t.is_seen or t.is_fixed for t in bucket.tensors) for bucket in buckets
    )


def share_memory(buckets: Sequence[Bucket], writes: Sequence[int], root: Scope) -> bool:
    """Have buckets of a scope that hold the same bits lie in the memory of the first, and no others with them.

    All tensors get another array, also those whose memory stays: what was bound to it is not to write there any more.

    Args:
        writes: to each of them, as it was when they were compared; where somebody has written since, nothing is done.

    Returns:
        whether they lie so now.
    """
    common = buckets[0].common
    if common is not None and common.is_of(buckets):
        return True
    for bucket in buckets:
        bucket.part()
    array, common = buckets[0].array, CommonMemory(buckets, root)
    calls = [call for bucket in buckets for call in bucket.lying_in(array, common)]
    written = [partial(ne, bucket.written, [count]) for bucket, count in zip(buckets, writes, strict=True)]
    if in_one_call([*written, moves.happening(), *calls, moves.happening()]):
        return False
    give_back_freed(array.nbytes)
    return True
