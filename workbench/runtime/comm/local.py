"""Collectives between the CPU devices of one process: NumPy calls in the caller's thread. The reference.

A prepared collective is a list of callables, each `numpy.add` or a copy between fixed arrays; `calls` hands the list
out, so that an engine can make them part of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from workbench.runtime.comm.base import Call, Communicator, Finished, Handle, PreparedCollective
from workbench.runtime.comm.overlap import require_apart, same_memory
from workbench.runtime.comm.request import ALL_GATHER, ALL_REDUCE, BROADCAST, REDUCE, Request

# Sums of large arrays go block by block, so that a partial sum is still in the cache when the next part is added to
# it and when it is copied. Measured with 2 and 4 parts in place: 25 to 45 % faster from 1 MiB on, slower below.
BLOCK_BYTES = 1 << 18
LARGE_BYTES = 4 * BLOCK_BYTES


class LocalCommunicator(Communicator):
    """The group of all CPU devices of this process; every collective is done when `start` returns.

    Args:
        size: number of devices.
    """

    computes_here = True

    def __init__(self, size: int) -> None:
        super().__init__(size)

    def prepare(self, request: Request) -> PreparedCollective:
        require_apart(request, self.local)
        return _LocalCollective(self, request)


class _LocalCollective(PreparedCollective):
    def __init__(self, comm: Communicator, request: Request) -> None:
        super().__init__(comm, request)
        self._calls = _LOWERINGS[request.kind](request) if request.nbytes else []
        self._finished = Finished(self)

    def start(self) -> Handle:
        self.comm.require_alive(self.request.title)
        for call in self._calls:
            call()
        return self._finished

    def calls(self) -> list[Call]:
        return list(self._calls)


def _all_reduce(request: Request) -> list[Call]:
    first, *others = request.outs
    copies = [out for out in others if not same_memory(out, first)]
    return _sum(request.parts, first, copies)


def _reduce(request: Request) -> list[Call]:
    return _sum([request.parts[rank] for rank in request.order], request.outs[0], [])


def _broadcast(request: Request) -> list[Call]:
    (part,) = request.parts
    return [_copy(part, out) for out in request.outs if not same_memory(part, out)]


def _all_gather(request: Request) -> list[Call]:
    rows = [(part, out[rank, ...]) for out in request.outs for rank, part in enumerate(request.parts)]
    return [_copy(part, row) for part, row in rows if not same_memory(part, row)]


_LOWERINGS = {ALL_REDUCE: _all_reduce, REDUCE: _reduce, BROADCAST: _broadcast, ALL_GATHER: _all_gather}


def _sum(values: Sequence[Any], out: Any, copies: Sequence[Any]) -> list[Call]:
    """Add the values from the left into `out`, which may be the memory of one of them, and copy it."""
    own = next((i for i, value in enumerate(values) if same_memory(value, out)), 0)
    if own > 1:  # a value that is due later: the sum of those before it goes elsewhere
        before = np.empty_like(out)
        return _sum(values[:own], before, []) + _sum([before, *values[own:]], out, copies)
    calls: list[Call] = []
    for target, *rest in _blocks([out, *values, *copies], whole=len(values) + len(copies) <= 2):
        calls += _add_up(rest[: len(values)], target)
        calls += [_copy(target, other) for other in rest[len(values) :]]
    return calls


def _add_up(values: Sequence[Any], out: Any) -> list[Call]:
    first, *others = values
    if not others:
        return [] if same_memory(first, out) else [_copy(first, out)]
    calls: list[Call] = [partial(np.add, first, others[0], out)]
    return calls + [partial(np.add, out, value, out) for value in others[1:]]


def _copy(source: Any, target: Any) -> Call:
    return partial(target.__setitem__, ..., source)  # what numpy.copyto does, in 0.2 us instead of 0.4


def _blocks(arrays: Sequence[Any], whole: bool) -> Iterator[Sequence[Any]]:
    """The arrays piece by piece, all cut in the same places; in one piece if they are small or not contiguous."""
    like = arrays[0]
    if whole or like.nbytes < LARGE_BYTES or not all(array.flags.c_contiguous for array in arrays):
        yield arrays
        return
    flat = [array.reshape(-1) for array in arrays]
    step = BLOCK_BYTES // like.itemsize
    for begin in range(0, like.size, step):
        yield [array[begin : begin + step] for array in flat]
