"""Memory as executors see it: pieces of an arena or of the scope, and the arrays in them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from workbench.framework.values.spec import size_of
from workbench.framework.values.views import row_major

ALIGN = 64  # bytes: a cache line, and the widest vector register


@dataclass(frozen=True, eq=False)
class Root:
    """A piece of memory.

    Attributes:
        place: the device it belongs to.
        nbytes, offset: in the arena.
        name: of the persistable variable whose storage in the scope it is; "" in the arena.
    """

    place: int
    nbytes: int
    name: str = ""
    offset: int = 0


@dataclass(frozen=True, eq=False)
class Ref:
    """An array within a root: byte offset, shape, strides in bytes, dtype."""

    root: Root
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: np.dtype[Any]

    @property
    def nbytes(self) -> int:
        return size_of(self.shape) * self.dtype.itemsize


def contiguous(ref: Ref) -> tuple[int, ...]:
    """The strides of an array in row-major order."""
    return row_major(ref.shape, ref.dtype.itemsize)


def aligned(nbytes: int) -> int:
    """The bytes a piece takes up, so that the next one begins at a cache line."""
    return -(-max(nbytes, 1) // ALIGN) * ALIGN
