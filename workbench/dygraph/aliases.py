"""Which tensors share memory. Nothing is noted when one becomes a view of another: all there are are looked through."""

from __future__ import annotations

import gc
from collections.abc import Collection
from typing import Any

import numpy as np

from workbench.dygraph.overwrites import memory_of


def tensors_on(memories: Collection[int], kind: Any) -> list[Any]:
    """The tensors that lie in some pieces of memory.

    Args:
        memories: ids of the arrays that own the memory. kind: the class of tensors; of its subclasses those count whose
            `array` is its own.
    """
    kinds = {each for each in _with_subclasses(kind) if each.array is kind.array}
    tensors = [each for each in gc.get_objects() if type(each) in kinds]
    return [
        each
        for each in tensors
        if isinstance(getattr(each, "array", None), np.ndarray) and id(memory_of(each.array)) in memories
    ]


def _with_subclasses(kind: Any) -> set[Any]:
    return {kind}.union(*map(_with_subclasses, kind.__subclasses__()))
