"""Where the stretches of an engine run: memory, threads, and what is bound for sizes that were met."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping
from typing import Any

import numpy as np

from workbench.config import get_flag
from workbench.executors.lowering.bound_values import BoundValues
from workbench.executors.lowering.operands import Context, Scratch
from workbench.executors.workers.pool import WorkerPool
from workbench.graph.ssa import Graph
from workbench.runtime.arena import Arena

_MOST = 8192  # sizes that are kept bound
_LARGE = 1 << 20  # bytes of an array for which to look where it lies takes no time to speak of
_MOST_LASTING = 512  # arrays in memory that stays


class StretchRoom:
    """Of one device.

    Args:
        pool: whose kernels run them. comm: of the engine they are of.

    Attributes:
        lock: whoever runs a stretch holds it: all use the same memory. scratch: for the temporaries of rows.
        addresses: of arrays that are kept, by their `id`.
    """

    def __init__(self, pool: WorkerPool, comm: Any) -> None:
        self.pool, self._comm = pool, comm
        self.lock = threading.Lock()
        self.scratch: dict[int, Scratch] = {}
        self._arena: Arena | None = None
        self._bound: OrderedDict[Hashable, Any] = OrderedDict()
        self._bytes = 0
        self.addresses: dict[int, int] = {}
        self._lasting: list[np.ndarray] = []

    def context(self, values: BoundValues, graph: Graph) -> Context:
        """What rows are bound to: none of them is an update, a collective, or random."""
        unasked: Any = None
        return Context(
            values.array, values.cell, values.flat, unasked, unasked, self._comm, (), lambda node: None,
            lambda node: None, lambda node: False, unasked, graph,
        )  # fmt: skip

    def arenas(self, sizes: Mapping[int, int]) -> dict[int, Arena]:
        """Memory for temporaries, in which they have room; what was bound to a smaller one keeps that."""
        needed = max(sizes.values(), default=0)
        if self._arena is None or self._arena.nbytes < needed:
            self._arena = Arena(max(2 * needed, 1 << 16))
        return dict.fromkeys(sizes, self._arena)

    def scratch_of(self, nbytes: int) -> np.ndarray:
        """Memory for the temporaries of one row at a time."""
        scratch = self.scratch.setdefault(0, Scratch())
        scratch.restart()
        return scratch((nbytes,), np.uint8)

    def bound(self, key: Hashable) -> Any:
        """What is kept under a key, None if nothing is."""
        kept = self._bound.get(key)
        if kept is not None:
            self._bound.move_to_end(key)
        return kept

    def keep(self, key: Hashable, sized: Any) -> None:
        """Keep it as long as there is room; what was used longest ago goes first."""
        self._bound[key] = sized
        self._bytes += sized.nbytes
        while len(self._bound) > 1 and (len(self._bound) > _MOST or self._bytes > self._limit):
            _, gone = self._bound.popitem(last=False)
            self._bytes -= gone.nbytes + gone.forget()

    @property
    def _limit(self) -> int:
        return get_flag("FLAGS_plan_cache_mib") << 20

    def may_keep(self, nbytes: int) -> bool:
        """Whether memory for results is kept for the next run: where finding it is not worth the while it is not."""
        if nbytes > _LARGE or self._bytes > self._limit:
            return False
        self._bytes += nbytes
        return True

    def address_of(self, array: np.ndarray) -> int:
        """Of an array that is not known; what lies in memory that stays is, from now on."""
        at: int = array.__array_interface__["data"][0]
        is_in_arena = array.base is not None and type(array.base) is not np.ndarray
        if is_in_arena and len(self._lasting) < _MOST_LASTING:
            self._lasting.append(array)
            self.addresses[id(array)] = at
        return at

    @property
    def nbytes(self) -> int:
        """What is kept takes, about, beside the memory for temporaries."""
        return self._bytes

    def release(self) -> int:
        """Keep nothing, and give back the memory for temporaries; how many bytes there were."""
        freed = self._bytes + (0 if self._arena is None else self._arena.release())
        self._bound.clear()
        self.addresses.clear()
        self._lasting.clear()
        self._arena, self._bytes = None, 0
        self.scratch.clear()
        return freed


Rooms = Callable[[int], StretchRoom]
