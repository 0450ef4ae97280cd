"""SharedStorage: the memory that a tensor of dynamic mode and variables of programs have in common.

An engine may move storage into a bucket of several tensors. Tensors then look at it through a window of their own, so
that a write to one of them is not taken for a write to its neighbours. What further tensors look at, views and detached
ones, stays where it is: they could not follow.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any
from weakref import ref

import numpy as np

from workbench.dygraph.aliases import tensors_on
from workbench.dygraph.overwrites import memory_of, writes_to, written
from workbench.dygraph.tensor.tensor import Tensor
from workbench.runtime.storage.tensor import LoDTensor
from workbench.runtime.undisturbed import in_one_call


class SharedStorage:
    """Storage of a scope that is the memory of a tensor as well.

    Attributes:
        lod: the storage, as scopes have it.
        array: the same memory, as tensors have it.
        writes: how many writes to it by dynamic mode are accounted for.
    """

    __slots__ = ("__weakref__", "_generation", "array", "lod", "writes")

    def __init__(self, array: np.ndarray) -> None:
        self.lod = LoDTensor(array)
        self.lod.is_seen = True
        self.array = array
        self._generation = self.lod.generation
        self.writes = writes_to(array)
        _remember(self)

    def is_in_bucket(self) -> bool:
        """Whether it lies in a bucket whose members are all there."""
        return self.lod.bucket is not None and self.lod.bucket.is_intact()

    def follow(self) -> None:
        """Look where the storage is now."""
        generation = self.lod.generation
        if generation != self._generation:
            left = self.array if writes_to(self.array) != self.writes else None  # written to behind the move
            self.array = window(self.lod.array)
            self.writes = writes_to(self.array)
            _remember(self)
            if left is not None:
                self.take_over(left)
            self._generation = generation  # last: Ctrl-C may come in between

    def take_over(self, array: np.ndarray) -> bool:
        """Hold the value of another array, which a tensor was given; False if that has another shape or dtype."""
        if not self.lod.holds(array):
            return False
        self.lod.assign(array)
        written(self.array, "another value")
        return True

    def note_writes(self) -> bool:
        """Tell those who compare versions of what dynamic mode has written; whether there was something."""
        writes = writes_to(self.array)
        if writes == self.writes:
            return False
        self.writes = writes
        in_one_call(self.lod.counting())
        return True


def fix_where_seen(storages: Sequence[SharedStorage], bound: Collection[Tensor]) -> None:
    """Have storage stay where it is as long as there are other tensors than the bound ones that look at it."""
    free = [storage for storage in storages if not storage.is_in_bucket()]
    if not free:
        return
    own = set(map(id, bound))
    others = tensors_on({id(memory_of(storage.array)) for storage in free}, Tensor)
    seen = {id(memory_of(each.array)) for each in others if id(each) not in own}
    for storage in free:
        storage.lod.is_fixed = id(memory_of(storage.array)) in seen


class _Part:
    """Part of an array, as what owns the memory of a window."""

    __slots__ = ("__array_interface__", "_kept")

    def __init__(self, array: np.ndarray) -> None:
        self.__array_interface__ = array.__array_interface__
        self._kept = array


def window(array: np.ndarray) -> np.ndarray:
    """An array on the same memory that is no view of another array."""
    if not isinstance(array.base, np.ndarray):
        return array
    dtype = array.dtype
    if dtype.isbuiltin != 1:  # the interface has no words for bfloat16
        return np.asarray(_Part(array.view(f"u{dtype.itemsize}"))).view(dtype)
    return np.asarray(_Part(array))


_storages: dict[int, tuple[ref[np.ndarray], ref[SharedStorage]]] = {}


def _remember(storage: SharedStorage) -> None:
    key = id(storage.array)
    _storages[key] = ref(storage.array, lambda gone: _forget(key, gone)), ref(storage)


def _forget(key: int, gone: ref[Any]) -> None:
    if key in _storages and _storages[key][0] is gone:
        del _storages[key]


def storage_of(tensor: Tensor) -> SharedStorage:
    """The storage of a tensor; from now on its memory is that.

    All who ask for one array, or for one that it was moved from, get one storage.
    """
    entry = _storages.get(id(tensor.array))
    storage = entry[1]() if entry is not None and entry[0]() is tensor.array else None
    if storage is None:
        array = tensor.array
        if not (array.flags.writeable and array.flags.c_contiguous and array.flags.aligned):
            tensor._put(np.array(array, order="C"))
        storage = SharedStorage(tensor.array)
    tensor.array = storage.array
    return storage
