"""Which work has touched which bytes, and whether something orders it: what finds a missing event.

Two pieces of work that touch the same byte, one of them writing, must be ordered: by a stream, by events, or by a host
that waited for the one before it gave the other. Whether they are is known from the calls alone and does not depend on
when they run, so a missing event is told in every run, with both call sites, and not only in the unlucky one.

Work is numbered as it is given; `before` of a piece of work is a bit set of the numbers that are ordered before it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple, NoReturn, Protocol

import numpy as np

from workbench.cuda.driver import CudaError


class UnorderedAccess(CudaError):
    """Two pieces of work touch the same bytes, and nothing says which is first."""


class TouchedAfterFree(CudaError):
    """StreamWork touches memory that was given back."""


class Actor(Protocol):
    """A piece of work, or the host at a moment."""

    number: int

    def describe(self) -> str:
        """What it is and where it was given, for messages."""

    def is_after(self, number: int) -> bool:
        """Whether work of that number is done before this begins, whenever they run."""


class ByteSpan(NamedTuple):
    """Bytes that work touches: a stretch, or those that `mask` picks within it (one entry per byte)."""

    address: int
    nbytes: int
    write: bool
    mask: np.ndarray | None = None


class Access(NamedTuple):
    """A span that was touched, from the start of its block, and who did."""

    start: int
    stop: int
    write: bool
    mask: np.ndarray | None
    actor: Actor


@dataclass
class DeviceBlock:
    """An allocation, and what has touched it since all were last known to be done."""

    address: int
    nbytes: int
    device: int
    site: str
    accesses: list[Access] = field(default_factory=list)


class Freed(NamedTuple):
    """An allocation that was given back, and by whom."""

    address: int
    nbytes: int
    by: str


class AccessLog:
    """The allocations of one memory; `record` checks whatever touches them."""

    MOST_FREED = 4096

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._blocks: dict[int, DeviceBlock] = {}
        self._freed: deque[Freed] = deque(maxlen=self.MOST_FREED)

    def add(self, block: DeviceBlock) -> None:
        """A new allocation."""
        self._starts.insert(bisect_right(self._starts, block.address), block.address)
        self._blocks[block.address] = block

    def remove(self, address: int, by: str) -> DeviceBlock:
        """An allocation that is given back."""
        block = self._blocks.pop(address)
        self._starts.remove(address)
        self._freed.append(Freed(address, block.nbytes, by))
        return block

    def block_at(self, address: int) -> DeviceBlock | None:
        """The allocation in which an address lies."""
        at = bisect_right(self._starts, address)
        block = self._blocks[self._starts[at - 1]] if at else None
        return block if block and address < block.address + max(block.nbytes, 1) else None

    def blocks(self) -> Iterable[DeviceBlock]:
        """All allocations."""
        return self._blocks.values()

    def freed_at(self, address: int) -> Freed | None:
        """What lay at an address and was given back last."""
        return next((one for one in reversed(self._freed) if one.address <= address < one.address + one.nbytes), None)

    def forget(self) -> None:
        """Everything so far is done, and the host has waited for it."""
        for block in self._blocks.values():
            block.accesses.clear()

    def record(self, actor: Actor, spans: Iterable[ByteSpan]) -> None:
        """Hold what work touches against what others have.

        Raises:
            UnorderedAccess, TouchedAfterFree: and the message names both.
        """
        for span in spans:
            if span.nbytes:
                self._record(actor, span)

    def _record(self, actor: Actor, span: ByteSpan) -> None:
        block = self.block_at(span.address)
        if block is None or span.address + span.nbytes > block.address + block.nbytes:
            raise self._outside(actor, span, block)
        start = span.address - block.address
        new = Access(start, start + span.nbytes, span.write, span.mask, actor)
        for old in block.accesses:
            if conflict(old, new):
                raise UnorderedAccess(_story(old, new, block))
        block.accesses[:] = [*remaining(block.accesses, new), new]

    def raise_unordered(self, actor: Actor, span: ByteSpan, other: Actor, touched: ByteSpan) -> NoReturn:
        """Somebody meets work that is still on its way."""
        block = self.block_at(span.address)
        where = f"the memory allocated at {block.site}" if block else "memory"
        raise UnorderedAccess(
            f"{actor.describe()} {_verb(span.write)} {where}, which {other.describe()} {_verb(touched.write)}; "
            "nothing orders the two: an event or a wait is missing"
        )

    def _outside(self, actor: Actor, span: ByteSpan, block: DeviceBlock | None) -> CudaError:
        freed = self.freed_at(span.address)
        if block is None and freed is not None:
            return TouchedAfterFree(
                f"{actor.describe()} {_verb(span.write)} {span.nbytes} bytes that were given back by {freed.by}",
                "cudaErrorIllegalAddress",
            )
        within = f"beyond the {block.nbytes} bytes allocated at {block.site}" if block else "where nothing is allocated"
        return CudaError(
            f"{actor.describe()} {_verb(span.write)} {span.nbytes} bytes at {span.address:#x}, {within}",
            "cudaErrorIllegalAddress",
        )


def conflict(old: Access, new: Access) -> bool:
    """Whether the two touch a byte in common, one of them writes, and nothing orders them."""
    if not (old.write or new.write) or old.stop <= new.start or new.stop <= old.start:
        return False
    if old.actor is new.actor or new.actor.is_after(old.actor.number):
        return False
    start, stop = max(old.start, new.start), min(old.stop, new.stop)
    masks = [one.mask[start - one.start : stop - one.start] for one in (old, new) if one.mask is not None]
    return bool(np.logical_and.reduce(masks).any()) if masks else True


def remaining(accesses: Iterable[Access], new: Access) -> Iterator[Access]:
    """Those that a later access may still meet: what `new` covers is ordered before it, and so before what follows."""
    for old in accesses:
        covered = new.mask is None and new.start <= old.start and old.stop <= new.stop
        if not (covered and (new.write or not old.write) and new.actor.is_after(old.actor.number)):
            yield old


def _verb(write: bool) -> str:
    return "writes" if write else "reads"


def _story(old: Access, new: Access, block: DeviceBlock) -> str:
    start, stop = max(old.start, new.start), min(old.stop, new.stop)
    return (
        f"{new.actor.describe()} {_verb(new.write)} bytes {start} to {stop} of the memory allocated at {block.site}, "
        f"which {old.actor.describe()} {_verb(old.write)}; nothing orders the two: an event or a wait is missing"
    )
