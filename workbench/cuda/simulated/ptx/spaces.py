"""The state spaces of PTX: where an address leads, and whether a thread may go there.

Each space turns the addresses of many threads into positions in flat arrays, one of bytes and one of their states, and
checks bounds, life, alignment, initialisation and order on the way. Loads, stores and atomics are the same for all.
"""

from __future__ import annotations

import numpy as np

from workbench.cuda.simulated.memory.address_space import (
    ALLOCATED,
    BASE,
    FREED,
    INITIALISED,
    KNOWN,
    POISON,
    AddressSpace,
    Allocation,
)
from workbench.cuda.simulated.ptx import faults
from workbench.cuda.simulated.ptx.counters import bank_conflicts, count_global
from workbench.cuda.simulated.ptx.machine import Machine
from workbench.cuda.simulated.ptx.module import BITS
from workbench.cuda.simulated.ptx.operands import LOCAL_WINDOW, SHARED_WINDOW
from workbench.cuda.simulated.ptx.races import Clash, Tracker

_THERE = {width: kind(int.from_bytes(b"\1" * width, "little")) for width, kind in BITS.items()}
"""The bits that the states ALLOCATED and INITIALISED share, for words."""


class Space:
    """Memory as the threads of a launch see it; `name` is its name in messages."""

    name = "?"

    def __init__(self, machine: Machine, memory: np.ndarray, states: np.ndarray) -> None:
        self.machine, self.memory, self.states = machine, memory, states

    def load(self, threads: np.ndarray, addresses: np.ndarray, width: int, atomic: bool) -> np.ndarray:
        """Return the bits at the addresses, one entry for each thread."""
        at = self.positions(threads, addresses, width)
        if not (self.states.view(BITS[width])[at // width] == KNOWN[width]).all():
            self._explain(threads, addresses, at, width, reads=True)
        self._order(threads, at, width, reads=True, writes=False, atomic=atomic)
        return self.memory.view(BITS[width])[at // width]

    def store(self, threads: np.ndarray, addresses: np.ndarray, width: int, bits: np.ndarray, atomic: bool) -> None:
        at = self.positions(threads, addresses, width)
        self._require_there(threads, addresses, at, width)
        self._order(threads, at, width, reads=False, writes=True, atomic=atomic)
        self.memory.view(BITS[width])[at // width] = bits
        self.states.view(BITS[width])[at // width] = KNOWN[width]

    def updated(self, threads: np.ndarray, addresses: np.ndarray, width: int) -> tuple[np.ndarray, np.ndarray]:
        """Check an atomic operation; return the words of this space and the position of each thread's word."""
        at = self.positions(threads, addresses, width)
        if not (self.states.view(BITS[width])[at // width] == KNOWN[width]).all():
            self._explain(threads, addresses, at, width, reads=True)
        self._order(threads, at, width, reads=False, writes=True, atomic=True)
        return self.memory.view(BITS[width]), at // width

    def positions(self, threads: np.ndarray, addresses: np.ndarray, width: int) -> np.ndarray:
        raise NotImplementedError

    def count(self, threads: np.ndarray, addresses: np.ndarray, width: int, stores: bool) -> None:
        """Add one access of each thread to the counters."""

    def require_aligned(self, threads: np.ndarray, addresses: np.ndarray, width: int) -> None:
        odd = addresses & np.uint64(width - 1)
        if odd.any():
            first = int(np.flatnonzero(odd)[0])
            what = f"{self.describe(int(addresses[first]))}, which is no multiple of {width}"
            self.machine.fail(faults.Misaligned, what, threads[first])

    def describe(self, address: int) -> str:
        return f"byte {address} of {self.name} memory"

    def _require_there(self, threads: np.ndarray, addresses: np.ndarray, at: np.ndarray, width: int) -> None:
        there = _THERE[width]
        if not (self.states.view(BITS[width])[at // width] & there == there).all():
            self._explain(threads, addresses, at, width, reads=False)

    def _explain(self, threads: np.ndarray, addresses: np.ndarray, at: np.ndarray, width: int, reads: bool) -> None:
        """Raise the fault of the first thread whose bytes are not as they have to be."""
        states = self.states[at[:, None] + np.arange(width)]
        wrong = states != INITIALISED if reads else (states & 1) == 0
        first, byte = (int(each[0]) for each in np.nonzero(wrong))
        state, does = int(states[first, byte]), "reads" if reads else "writes"
        what = f"{self.describe(int(addresses[first]))}; it {does} {width} bytes"
        kind: type[faults.KernelFault] = faults.AddressOutOfBounds
        if state == ALLOCATED:
            kind, what = faults.UninitialisedRead, f"{what} that nobody wrote"
        elif state == FREED:
            kind = faults.UseAfterFree
        self.machine.fail(kind, what, threads[first])

    def _order(self, threads: np.ndarray, at: np.ndarray, width: int, reads: bool, writes: bool, atomic: bool) -> None:
        who = self.machine.first_thread + threads
        for tracker, chosen, offsets in self.trackers(at, width):
            some = who if chosen is None else who[chosen]
            clash = (tracker.write if writes else tracker.read)(offsets, width, some, atomic)
            if clash is not None:
                self._report(
                    clash, threads if chosen is None else threads[chosen], at if chosen is None else at[chosen], writes
                )

    def trackers(self, at: np.ndarray, width: int) -> list[tuple[Tracker, np.ndarray | None, np.ndarray]]:
        """Return who keeps books of these positions: the tracker, the entries it is for, their offsets in it."""
        return []

    def _report(self, clash: Clash, threads: np.ndarray, at: np.ndarray, writes: bool) -> None:
        machine = self.machine
        own, other = "writes" if writes else "reads", "writes" if clash.other_writes else "reads"
        where = self.describe(self.address_of(int(at[clash.at])))
        what = f"A race: it {own} {where}, {machine.culprit(clash.other)} {other} it, and nothing orders the two"
        machine.fail(faults.Race, what, threads[clash.at])

    def address_of(self, position: int) -> int:
        return position


class GlobalSpace(Space):
    """The device's memory, shared with all other launches."""

    name = "global"

    def __init__(self, machine: Machine, memory: AddressSpace, trackers: dict[int, Tracker]) -> None:
        super().__init__(machine, memory.bytes, memory.states)
        self.device, self._trackers = memory, trackers

    def positions(self, threads: np.ndarray, addresses: np.ndarray, width: int) -> np.ndarray:
        self.require_aligned(threads, addresses, width)
        at = (addresses - np.uint64(BASE)).view(np.int64)
        if at.min() < 0 or at.max() > self.memory.size - width:
            first = int(np.flatnonzero((at < 0) | (at > self.memory.size - width))[0])
            self.machine.fail(faults.AddressOutOfBounds, self.describe(int(addresses[first])), threads[first])
        return at

    def describe(self, address: int) -> str:
        return f"The address {self.device.describe(address)}"

    def address_of(self, position: int) -> int:
        return BASE + position

    def trackers(self, at: np.ndarray, width: int) -> list[tuple[Tracker, np.ndarray | None, np.ndarray]]:
        allocation = self._allocation(int(at.min()))
        if int(at.max()) < allocation.end - BASE:
            return [(self._tracker(allocation, width), None, at - (allocation.address - BASE))]
        books: list[tuple[Tracker, np.ndarray | None, np.ndarray]] = []
        left = np.arange(at.size)
        while left.size:
            allocation = self._allocation(int(at[left[0]]))
            inside = (at[left] >= allocation.address - BASE) & (at[left] < allocation.end - BASE)
            chosen, left = left[inside], left[~inside]
            books.append((self._tracker(allocation, width), chosen, at[chosen] - (allocation.address - BASE)))
        return books

    def require_unwritten(self, threads: np.ndarray, addresses: np.ndarray, width: int) -> None:
        """The read-only path may give what was there before the launch: nobody may write in it."""
        at = self.positions(threads, addresses, width)
        self._require_there(threads, addresses, at, width)
        for tracker, chosen, offsets in self.trackers(at, width):
            written = np.flatnonzero(tracker.written(offsets, width))
            if written.size:
                first = int(written[0] if chosen is None else chosen[written[0]])
                what = f"{self.describe(int(addresses[first]))}; it was written in this launch and is read as read-only"
                self.machine.fail(faults.WriteToConstant, what, threads[first])

    def count(self, threads: np.ndarray, addresses: np.ndarray, width: int, stores: bool) -> None:
        counters = self.machine.counters
        count_global(counters.stores if stores else counters.loads, self.machine.warps[threads], addresses, width)

    def _allocation(self, position: int) -> Allocation:
        allocation = self.device.allocation_at(BASE + position)
        assert allocation is not None
        return allocation

    def _tracker(self, allocation: Allocation, width: int) -> Tracker:
        if allocation.address not in self._trackers:
            self._trackers[allocation.address] = Tracker(allocation.nbytes, width, self.machine.clocks)
        return self._trackers[allocation.address]


class SharedSpace(Space):
    """The shared memory of the blocks that run together, one behind the other."""

    name = "shared"

    def __init__(self, machine: Machine, nbytes: int) -> None:
        self.nbytes = nbytes
        self.stride = -(-nbytes // 16) * 16
        total = self.stride * machine.block_count
        super().__init__(machine, np.full(total, POISON, np.uint8), np.full(total, ALLOCATED, np.uint8))
        self._books: Tracker | None = None

    def positions(self, threads: np.ndarray, addresses: np.ndarray, width: int) -> np.ndarray:
        self.require_aligned(threads, addresses, width)
        inside = addresses.view(np.int64)
        inside = np.where(inside >= SHARED_WINDOW, inside - SHARED_WINDOW, inside)
        outside = (inside < 0) | (inside > self.nbytes - width)
        if outside.any():
            first = int(np.flatnonzero(outside)[0])
            what = f"Byte {inside[first]} of shared memory, of which the block has {self.nbytes} bytes"
            self.machine.fail(faults.AddressOutOfBounds, what, threads[first])
        return self.machine.blocks[threads] * self.stride + inside

    def address_of(self, position: int) -> int:
        return position % self.stride

    def trackers(self, at: np.ndarray, width: int) -> list[tuple[Tracker, np.ndarray | None, np.ndarray]]:
        if self._books is None:
            self._books = Tracker(self.memory.size, width, self.machine.clocks)
        return [(self._books, None, at)]

    def count(self, threads: np.ndarray, addresses: np.ndarray, width: int, stores: bool) -> None:
        counters = self.machine.counters
        counters.shared_requests += 1
        counters.bank_conflicts += bank_conflicts(self.machine.warps[threads], addresses, width)


class LocalSpace(Space):
    """The local memory of each thread, one behind the other."""

    name = "local"

    def __init__(self, machine: Machine, nbytes: int) -> None:
        self.nbytes = nbytes
        self.stride = -(-nbytes // 16) * 16
        total = self.stride * machine.thread_count
        super().__init__(machine, np.full(total, POISON, np.uint8), np.full(total, ALLOCATED, np.uint8))

    def positions(self, threads: np.ndarray, addresses: np.ndarray, width: int) -> np.ndarray:
        self.require_aligned(threads, addresses, width)
        inside = addresses.view(np.int64)
        inside = np.where(inside >= LOCAL_WINDOW, inside - LOCAL_WINDOW, inside)
        outside = (inside < 0) | (inside > self.nbytes - width)
        if outside.any():
            first = int(np.flatnonzero(outside)[0])
            what = f"Byte {inside[first]} of local memory, of which a thread has {self.nbytes} bytes"
            self.machine.fail(faults.AddressOutOfBounds, what, threads[first])
        return threads * self.stride + inside
