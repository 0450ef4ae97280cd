"""The memory of a simulated GPU: addresses, gaps between allocations, poison, and what is known about every byte.

One reserved range of the host's memory holds all bytes, a second one of the same size the state of each: nothing,
allocated, initialised, freed. Therefore one look at the states tells whether an access is right, wherever its threads
point. The system gives pages only when they are touched, so a large capacity costs nothing.
"""

from __future__ import annotations

import bisect
import mmap
import threading
from dataclasses import dataclass

import numpy as np

from workbench.errors import InvalidArgument, NoMemory

BASE = 0x7010_0000_0000
"""The first address. No 32-bit variable holds it, so a kernel that cuts a pointer is found out."""
ALIGNMENT = 256
GAP = 4096
POISON = 0xCB
"""Fresh and freed bytes: a float32 of them is -2.6e7, an int64 negative, so results show them."""

NOTHING, ALLOCATED, FREED, INITIALISED = 0, 1, 2, 3
_WIDE = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}
KNOWN = {width: kind(int.from_bytes(bytes([INITIALISED]) * width, "little")) for width, kind in _WIDE.items()}
"""The state of a whole word whose bytes are all initialised, by its width."""


class AddressError(InvalidArgument):
    """An address lies in no allocation, behind the end of one, or in one that was freed."""


@dataclass(frozen=True)
class Allocation:
    """A range of addresses that was handed out."""

    address: int
    nbytes: int

    @property
    def end(self) -> int:
        return self.address + self.nbytes


class AddressSpace:
    """The memory of one device."""

    def __init__(self, capacity: int = 1 << 32) -> None:
        self.capacity = capacity
        self.in_use = 0
        self._pages = _reserve(capacity)
        self._state_pages = _reserve(capacity)
        self.bytes = np.frombuffer(self._pages, np.uint8)
        self.states = np.frombuffer(self._state_pages, np.uint8)
        self._free = [(GAP, capacity - GAP)]
        self._starts: list[int] = []
        self._known: dict[int, Allocation] = {}
        self._quarantine: list[Allocation] = []
        self.symbols: dict[int, tuple[object, dict[str, int]]] = {}
        self._lock = threading.Lock()

    def allocate(self, nbytes: int) -> int:
        """Return the address of `nbytes` poisoned bytes, aligned to 256, with gaps on both sides."""
        if nbytes < 0:
            raise InvalidArgument(f"An allocation cannot have {nbytes} bytes")
        with self._lock:
            offset = self._place(nbytes)
            allocation = Allocation(BASE + offset, nbytes)
            bisect.insort(self._starts, allocation.address)
            self._known[allocation.address] = allocation
            self.in_use += nbytes
        self.bytes[offset : offset + nbytes] = POISON
        self.states[offset : offset + nbytes] = ALLOCATED
        return allocation.address

    def free(self, address: int) -> None:
        """Give an allocation back; its addresses stay unused as long as others are left."""
        with self._lock:
            allocation = self._known.pop(address, None)
            if allocation is None:
                raise AddressError(f"{self.describe(address)}, so it cannot be freed")
            self._starts.remove(address)
            self._quarantine.append(allocation)
            self.in_use -= allocation.nbytes
        offset = address - BASE
        self.bytes[offset : offset + allocation.nbytes] = POISON
        self.states[offset : offset + allocation.nbytes] = FREED

    def write(self, address: int, data: bytes | bytearray | memoryview | np.ndarray) -> None:
        """Copy bytes of the host to an address."""
        source = np.frombuffer(np.ascontiguousarray(data) if isinstance(data, np.ndarray) else data, np.uint8)
        self.view(address, source.size, initialise=True)[:] = source

    def read(self, address: int, nbytes: int) -> bytes:
        """Return a copy of `nbytes` bytes, initialised or not."""
        return self.view(address, nbytes).tobytes()

    def fill(self, address: int, value: int, nbytes: int) -> None:
        """Set every byte to `value`, as cudaMemset does."""
        self.view(address, nbytes, initialise=True)[:] = value

    def copy(self, target: int, source: int, nbytes: int) -> None:
        """Copy within the device, with what is known of the bytes."""
        whence, whither = self._offset(source, nbytes), self._offset(target, nbytes)
        self.bytes[whither : whither + nbytes] = self.bytes[whence : whence + nbytes].copy()
        self.states[whither : whither + nbytes] = self.states[whence : whence + nbytes].copy()

    def view(self, address: int, nbytes: int, initialise: bool = False) -> np.ndarray:
        """Return the bytes themselves as uint8, for work that the host does in the device's place."""
        offset = self._offset(address, nbytes)
        if initialise:
            self.states[offset : offset + nbytes] = INITIALISED
        return self.bytes[offset : offset + nbytes]

    def initialised(self, address: int, nbytes: int) -> bool:
        """Say whether every byte was written since the allocation."""
        offset = self._offset(address, nbytes)
        return bool((self.states[offset : offset + nbytes] == INITIALISED).all())

    def allocation_at(self, address: int) -> Allocation | None:
        """Return the allocation that holds an address, or None."""
        at = bisect.bisect_right(self._starts, address) - 1
        if at < 0:
            return None
        allocation = self._known[self._starts[at]]
        return allocation if address < max(allocation.end, allocation.address + 1) else None

    def describe(self, address: int) -> str:
        """Say where an address lies, for messages."""
        allocation = self.allocation_at(address)
        if allocation is not None:
            return f"{address:#x} is byte {address - allocation.address} of an allocation of {allocation.nbytes} bytes"
        for freed in reversed(self._quarantine):
            if freed.address <= address < freed.end:
                return f"{address:#x} is byte {address - freed.address} of {freed.nbytes} bytes that were freed"
        at = bisect.bisect_right(self._starts, address) - 1
        if at >= 0:
            before = self._known[self._starts[at]]
            return f"{address:#x} lies {address - before.end} bytes behind an allocation of {before.nbytes} bytes"
        return f"{address:#x} is no address of this device"

    def _offset(self, address: int, nbytes: int) -> int:
        allocation = self.allocation_at(address)
        if allocation is None or address + nbytes > allocation.end:
            raise AddressError(f"{self.describe(address)}; {nbytes} bytes are asked for")
        return address - BASE

    def _place(self, nbytes: int) -> int:
        """Take room from the first free range that has enough; freed memory becomes free only when nothing else is."""
        if self.in_use + nbytes > self.capacity:
            raise NoMemory(f"The device has {self.capacity} bytes, {self.in_use} are in use, {nbytes} are asked for")
        room = _room(nbytes)
        if all(size < room for _, size in self._free):
            self._end_quarantine()
        for at, (offset, size) in enumerate(self._free):
            if size >= room:
                self._free[at] = (offset + room, size - room)
                return offset
        raise NoMemory(f"No range of the device's {self.capacity} bytes has room for {nbytes} bytes")

    def _end_quarantine(self) -> None:
        """Make ranges free that were given back, and join neighbours."""
        for freed in self._quarantine:
            self.states[freed.address - BASE : freed.end - BASE] = NOTHING
            self._free.append((freed.address - BASE, _room(freed.nbytes)))
        self._quarantine.clear()
        joined: list[tuple[int, int]] = []
        for offset, size in sorted(self._free):
            if joined and sum(joined[-1]) == offset:
                joined[-1] = (joined[-1][0], joined[-1][1] + size)
            else:
                joined.append((offset, size))
        self._free = joined


def _room(nbytes: int) -> int:
    """Return how much of the address space an allocation takes, with the gap behind it."""
    return -(-max(nbytes, 1) // ALIGNMENT) * ALIGNMENT + GAP


def _reserve(capacity: int) -> mmap.mmap:
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | getattr(mmap, "MAP_NORESERVE", 0)
    return mmap.mmap(-1, capacity, flags=flags)
