"""Buckets: tensors of a scope that lie one after the other, so that one call can update all of them."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from copy import copy
from functools import partial
from itertools import accumulate
from operator import setitem
from typing import Any

import numpy as np

from workbench.errors import PreconditionNotMet, Unavailable
from workbench.runtime.storage.freed import give_back_freed
from workbench.runtime.storage.tensor import LoDTensor, number_of_write
from workbench.runtime.undisturbed import Call, hands

ALIGN = 64  # bytes


class Bucket:
    """One array that holds several tensors of one dtype, each aligned; the padding between them means nothing.

    Args:
        root: the scope whose lock a step on them holds, None if there are no steps.

    Attributes:
        array: all of it, flat; tensors, views: the members and where each of them lies.
        counter: one word, how often all members were changed together: compiled kernels count there, too.
        words: the same, to be read and written quickly.
        written: the only item is another number after every write of a single one; C functions compare and set it.
        common: the memory it shares with other buckets (`runtime.storage.common_memory`), None if it is its own.
        parted: how often it had to leave such memory.
    """

    def __init__(self, tensors: Sequence[LoDTensor], root: Any = None) -> None:
        self._root: Callable[[], Any] = _nothing if root is None else weakref.ref(root)
        dtype = tensors[0].array.dtype
        counts = [-(-t.array.nbytes // ALIGN) * ALIGN // dtype.itemsize for t in tensors]
        self.array = aligned_zeros(sum(counts), dtype)
        self.tensors = list(tensors)
        self._starts = [0, *accumulate(counts[:-1])]
        self.views = self._views_of(self.array)
        self._begin()
        for tensor, part in zip(tensors, self.views, strict=True):
            tensor.move_to(part, self)
        give_back_freed(self.array.nbytes)

    def _begin(self) -> None:
        self.common: Any = None
        self.parted = 0
        self.counter = np.zeros(1, np.int64)
        self.words = self.counter.data
        self.written = [0]

    def replica(self) -> Bucket:
        """A bucket of new tensors that lie where these do; nobody may write to one before the two share the memory."""
        replica = copy(self)
        replica._begin()
        replica.views = self._views_of(self.array)
        replica.tensors = list(map(LoDTensor, replica.views))
        for tensor in replica.tensors:
            tensor.bucket = replica
        return replica

    @property
    def steps(self) -> int:
        """What `counter` holds."""
        return self.words[0]

    @property
    def writes(self) -> int:
        """What `written` holds."""
        return self.written[0]

    def noting_write(self) -> Call:
        """What tells that a single member is written, or all that one device has of them, as a C function."""
        return partial(setitem, self.written, 0, number_of_write())

    def writing(self) -> AbstractContextManager[bool]:
        """For a `with` body that writes to one of the members; it is given whether no step is under way meanwhile."""
        root = self._root()
        if root is None or threading.get_ident() in hands:
            return nullcontext(True)
        try:
            if root.is_held_here():
                return nullcontext(not self._is_in_the_middle(root))
            lock: AbstractContextManager[bool] = root.in_use(0.0)
            return lock
        except (Unavailable, PreconditionNotMet):
            return nullcontext(False)

    @staticmethod
    def _is_in_the_middle(root: Any) -> bool:
        return root.step is not None and root.step.is_in_the_middle

    def _views_of(self, array: np.ndarray) -> list[np.ndarray]:
        """Where the members lie in an array like this one; new views every time."""
        places = zip(self._starts, self.tensors, strict=True)
        return [array[start : start + t.array.size].reshape(t.array.shape) for start, t in places]

    def part(self) -> None:
        """Lie in memory of its own: a member is about to be written alone."""
        if self.common is not None:
            self.common.part()

    def part_between_steps(self) -> None:
        """The same, but in the middle of a step, which goes on where it is."""
        if self.common is not None:
            with self.writing() as is_between_steps:
                if is_between_steps:
                    self.part()

    def lying_in(self, array: np.ndarray, common: Any) -> list[Call]:
        """C functions that have all members that are left lie in another array, one that holds the same values."""
        views = self._views_of(array)
        parted = self.parted + (array is not self.array and common is None)
        fields = {"array": array, "views": views, "common": common, "parted": parted}
        calls: list[Call] = [partial(setattr, self, *field) for field in fields.items()]
        for tensor, view in zip(self.tensors, views, strict=True):
            if tensor.bucket is self:
                calls += tensor.showing(view)
        return calls

    def is_of(self, tensors: Sequence[LoDTensor | None]) -> bool:
        """Whether these tensors, in this order, and no others are its members."""
        return list(map(id, self.tensors)) == list(map(id, tensors))

    def is_intact(self) -> bool:
        """Whether all members still lie here; a tensor that got another shape has left."""
        return all(t.stored is view for t, view in zip(self.tensors, self.views, strict=True))


def _nothing() -> None:
    """No scope."""


def bucket_of(tensors: Sequence[LoDTensor], root: Any = None) -> Bucket | None:
    """The bucket of exactly these tensors in this order, made if none of them is in another one.

    Args:
        root: see `Bucket`.

    Returns:
        None if they differ in dtype, one appears twice, has no value or is fixed where it is, or an intact bucket
        holds some of them in another arrangement: they are left where they are.
    """
    if any(not t.initialized for t in tensors) or len({id(t) for t in tensors}) < len(tensors):
        return None
    if any(t.array.dtype != tensors[0].array.dtype for t in tensors):
        return None
    of_first = tensors[0].bucket
    if of_first is not None and of_first.is_intact():
        return of_first if of_first.is_of(tensors) else None
    if any(t.is_fixed for t in tensors):
        return None
    if any(bucket.is_intact() for bucket in {t.bucket for t in tensors if t.bucket is not None}):
        return None
    return Bucket(tensors, root)


def aligned_zeros(count: int, dtype: np.dtype) -> np.ndarray:
    """A flat array of zeros that begins at a cache line."""
    raw = np.zeros(count * dtype.itemsize + ALIGN, np.uint8)
    start = -raw.__array_interface__["data"][0] % ALIGN
    return raw[start : start + count * dtype.itemsize].view(dtype)
