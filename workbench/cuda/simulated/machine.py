"""The memory of all simulated devices, and what allocates, copies and fills it.

Device memory has one range of addresses for all devices, as CUDA's has; which device an allocation belongs to is known,
and work of another one that touches it is refused unless peer access was enabled.

Pinned memory is watched: a copy keeps what it found when it was given and compares when it runs; an array to be copied
into holds poison until then.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from workbench.cuda.driver import CudaError, CudaOutOfMemory
from workbench.cuda.simulated.accesses import Actor, ByteSpan, DeviceBlock, UnorderedAccess
from workbench.cuda.simulated.faults import Faults
from workbench.cuda.simulated.memory.address_space import BASE, INITIALISED, AddressSpace
from workbench.cuda.simulated.pinned import POISON, PinnedArray, pinned_array
from workbench.cuda.simulated.streams import SimulatedStream, StreamTask, StreamWork, Timeline, call_site


class PinnedRewritten(UnorderedAccess):
    """Pinned memory changed between the call that copies from it and the copy."""


class UndefinedValues(CudaError):
    """Values are read that nobody has written."""


class MachineMemory:
    """What all threads and devices of a simulated machine share.

    Attributes:
        memory: what the devices hold.
        used: bytes allocated on each device.
        peers: pairs of devices, of which the first one may touch memory of the second.
        moved: bytes that were copied, by direction.
    """

    def __init__(self, devices: int, memory_bytes: int, timeline: Timeline) -> None:
        self.devices, self.memory_bytes, self.timeline = devices, memory_bytes, timeline
        self.memory = AddressSpace(devices * memory_bytes + (1 << 28))
        self.faults = Faults()
        self.used: Counter[int] = Counter()
        self.peers: set[tuple[int, int]] = set()
        self.moved: Counter[str] = Counter()
        self._pinned: dict[int, PinnedArray] = {}
        timeline.broken = self.faults.meet_work

    # Allocations ---------------------------------------------------------------------------------------------------

    def allocate(self, nbytes: int, device: int) -> int:
        """Memory of a device, poisoned.

        Raises:
            CudaOutOfMemory: it has not that much left.
        """
        self.faults.meet("allocation")
        if nbytes <= 0:
            raise CudaError(f"{call_site()} allocates {nbytes} bytes", "cudaErrorInvalidValue")
        free = self.memory_bytes - self.used[device]
        if nbytes > free:
            raise CudaOutOfMemory(
                f"{call_site()} asks for {nbytes} bytes of device {device}, which has {free} of {self.memory_bytes} "
                "left",
                "cudaErrorMemoryAllocation",
            )
        address = self.memory.allocate(nbytes)
        self.used[device] += nbytes
        self.timeline.memory.add(DeviceBlock(address, nbytes, device, call_site()))
        return address

    def block(self, address: int) -> DeviceBlock:
        """The allocation that begins at an address.

        Raises:
            CudaError: none does.
        """
        block = self.timeline.memory.block_at(address)
        if block is None or block.address != address:
            freed = self.timeline.memory.freed_at(address)
            why = f"was given back by {freed.by}" if freed and block is None else "is not the start of an allocation"
            raise CudaError(f"{call_site()} gives back {address:#x}, which {why}", "cudaErrorInvalidValue")
        return block

    def release(self, block: DeviceBlock, by: str) -> None:
        """Give an allocation back; whoever touches it later is told by whom."""
        self.timeline.memory.remove(block.address, by)
        self.memory.free(block.address)
        self.used[block.device] -= block.nbytes

    # What work does to memory --------------------------------------------------------------------------------------

    def touch(self, work: StreamWork, spans: Sequence[ByteSpan], strangers: bool = False) -> None:
        """Check what work is about to touch, and that it is of the work's device unless `strangers` will do too.

        Raises:
            CudaError: something else touches it in no order, or it is no memory that this device may touch.
        """
        self.timeline.memory.record(work, spans)
        for span in spans:
            block = self.timeline.memory.block_at(span.address)
            own = block is None or strangers or block.device == work.task.device
            if not own and block is not None and (work.task.device, block.device) not in self.peers:
                raise CudaError(
                    f"{work.describe()} touches memory of device {block.device} that was allocated at {block.site}; "
                    "peer access is not enabled",
                    "cudaErrorIllegalAddress",
                )

    def need_values(self, actor: Actor, spans: Sequence[ByteSpan]) -> None:
        """Check that what is read was written.

        Raises:
            UndefinedValues: it was not.
        """
        for span in spans:
            if not span.write and span.nbytes:
                states = self._states(span)
                missing = np.flatnonzero(states != INITIALISED)
                if missing.size:
                    self._tell_of_a_writer(actor, span)
                    block = self.timeline.memory.block_at(span.address)
                    raise UndefinedValues(
                        f"{actor.describe()} reads {missing.size} bytes that nothing has written, of the memory "
                        f"allocated at {block.site if block else 'no place'}"
                    )

    def _tell_of_a_writer(self, actor: Actor, span: ByteSpan) -> None:
        """Values are missing: it is an order that is missing if work on its way will write them."""
        for work in self.timeline.pending():
            for other in work.task.spans:
                overlap = span.address < other.address + other.nbytes and other.address < span.address + span.nbytes
                if other.write and overlap and not work.is_after(actor.number):
                    self.timeline.memory.raise_unordered(actor, span, work, other)

    def wrote(self, spans: Sequence[ByteSpan]) -> None:
        """What was written has values from now on."""
        for span in spans:
            if span.write and span.nbytes:
                states = self.memory.states[span.address - BASE :][: span.nbytes]
                states[slice(None) if span.mask is None else span.mask] = INITIALISED

    def _states(self, span: ByteSpan) -> np.ndarray:
        states = self.memory.states[span.address - BASE :][: span.nbytes]
        return states if span.mask is None else states[span.mask]

    # Pinned memory -------------------------------------------------------------------------------------------------

    def allocate_pinned(self, nbytes: int) -> PinnedArray:
        """Host memory that is watched."""
        array = pinned_array(nbytes, self._host_touches)
        address = array.ctypes.data
        self._pinned[address] = array
        self.timeline.pinned.add(DeviceBlock(address, nbytes, -1, call_site()))
        return array

    def free_pinned(self, array: np.ndarray) -> None:
        """Give it back.

        Raises:
            CudaError: it is not what `allocate_pinned` gave. UnorderedAccess: a copy may still need it.
        """
        address = array.ctypes.data
        if address not in self._pinned:
            raise CudaError(f"{call_site()} gives back memory that is not pinned", "cudaErrorInvalidValue")
        whole = self._pinned[address]
        access = self.timeline.on_host("free_pinned", self.timeline.pinned, [ByteSpan(address, whole.nbytes, True)])
        self.timeline.pinned.remove(address, access.describe())
        del self._pinned[address]
        whole.plain()[:] = POISON

    def _host_touches(self, address: int, nbytes: int, write: bool) -> None:
        with self.timeline.lock:
            span = ByteSpan(address, nbytes, write)
            self.timeline.on_host(
                "write to pinned memory" if write else "read of pinned memory", self.timeline.pinned, [span]
            )

    def pinned_span(self, array: np.ndarray, write: bool) -> ByteSpan:
        """What a copy touches of a pinned array.

        Raises:
            CudaError: it is not pinned, or has gaps.
        """
        address = array.ctypes.data
        block = self.timeline.pinned.block_at(address)
        if block is None or address + array.nbytes > block.address + block.nbytes:
            raise CudaError(f"{call_site()} copies an array that is not in pinned memory", "cudaErrorInvalidValue")
        if not array.flags.c_contiguous:
            raise CudaError(f"{call_site()} copies an array that is not contiguous", "cudaErrorInvalidValue")
        return ByteSpan(address, array.nbytes, write)

    # Copies and fills ----------------------------------------------------------------------------------------------

    def copy_to_device(self, address: int, pinned: np.ndarray, stream: SimulatedStream) -> None:
        """Give a stream a copy from pinned memory."""
        source, target = self.pinned_span(pinned, False), ByteSpan(address, pinned.nbytes, True)
        memory = _plain(pinned)

        def given(work: StreamWork) -> None:
            if not self._on_its_way(source, work):
                work.kept = memory.tobytes()

        def run(work: StreamWork) -> None:
            self.timeline.pinned.record(work, [source])
            self.touch(work, [target])
            data = memory.tobytes()
            if work.kept is not None and work.kept != data:
                raise PinnedRewritten(
                    f"pinned memory that {work.describe()} copies was rewritten before the copy was done"
                )
            self.memory.write(address, data)
            self.moved["to device"] += len(data)

        self._copy(f"copy of {pinned.nbytes} bytes to the device", stream, run, (target,), (source,), given)

    def copy_to_host(self, pinned: np.ndarray, address: int, stream: SimulatedStream) -> None:
        """Give a stream a copy to pinned memory."""
        source, target = ByteSpan(address, pinned.nbytes, False), self.pinned_span(pinned, True)
        memory = _plain(pinned)

        def given(work: StreamWork) -> None:
            if not self._on_its_way(target, work):
                memory.view(np.uint8)[...] = POISON

        def run(work: StreamWork) -> None:
            self.touch(work, [source])
            self.timeline.pinned.record(work, [target])
            self.need_values(work, [source])
            memory.reshape(-1).view(np.uint8)[:] = self.memory.view(address, memory.nbytes)
            self.moved["to host"] += memory.nbytes

        self._copy(f"copy of {pinned.nbytes} bytes to the host", stream, run, (source,), (target,), given)

    def copy(self, destination: int, source: int, nbytes: int, stream: SimulatedStream, between: bool) -> None:
        """Give a stream a copy within a device, or between two."""
        spans = (ByteSpan(source, nbytes, False), ByteSpan(destination, nbytes, True))
        if abs(destination - source) < nbytes:
            raise CudaError(f"{call_site()} copies {nbytes} bytes onto themselves", "cudaErrorInvalidValue")

        def run(work: StreamWork) -> None:
            self.touch(work, spans, strangers=between)
            self.memory.copy(destination, source, nbytes)
            self.moved["between devices" if between else "on device"] += nbytes

        self._copy(f"copy of {nbytes} bytes on the device", stream, run, spans)

    def fill(self, address: int, byte: int, nbytes: int, stream: SimulatedStream) -> None:
        """Give a stream a fill."""
        spans = (ByteSpan(address, nbytes, True),)

        def run(work: StreamWork) -> None:
            self.touch(work, spans)
            self.memory.fill(address, byte, nbytes)

        self._copy(f"fill of {nbytes} bytes", stream, run, spans)

    def _copy(
        self,
        label: str,
        stream: SimulatedStream,
        run: Callable[[StreamWork], None],
        spans: tuple[ByteSpan, ...],
        pinned: tuple[ByteSpan, ...] = (),
        given: Callable[[StreamWork], None] | None = None,
    ) -> None:
        self.timeline.give(stream, StreamTask(label, call_site(), stream.device, run, spans, pinned, given=given))

    def _on_its_way(self, span: ByteSpan, work: StreamWork) -> bool:
        """Whether other work that is not done touches the same pinned bytes."""
        return any(
            span.address < other.address + other.nbytes and other.address < span.address + span.nbytes
            for one in self.timeline.pending()
            if one is not work
            for other in one.task.pinned
        )


def _plain(array: np.ndarray) -> np.ndarray:
    return array.plain() if isinstance(array, PinnedArray) else array


def host_bytes(array: np.ndarray) -> Any:
    """The bytes of a contiguous array of the host, in place.

    Raises:
        CudaError: it has gaps.
    """
    if not array.flags.c_contiguous:
        raise CudaError(f"{call_site()} copies an array that is not contiguous", "cudaErrorInvalidValue")
    return array.reshape(-1).view(np.uint8)
