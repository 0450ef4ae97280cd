"""Kernels of a simulated machine: compiled to PTX, and executed when their stream comes to them.

What a launch may not ask of the architecture is refused by the call, as CUDA does; what its threads do wrong is told
when it runs. The interpreter says which bytes the threads have read and written, so a kernel is held against all other
work as a copy is.
"""

from __future__ import annotations

import random
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from workbench.cuda.driver import CudaError, DeviceProperties, FunctionAttributes
from workbench.cuda.simulated.accesses import ByteSpan
from workbench.cuda.simulated.machine import MachineMemory
from workbench.cuda.simulated.streams import SimulatedStream, StreamTask, StreamWork, call_site

if TYPE_CHECKING:
    from workbench.cuda.simulated.ptx.module import KernelEntry

PLAIN_SHARED_BYTES = 48 << 10
MOST_COUNTED = 1000
MULTIPROCESSORS = {"sm_70": 80, "sm_75": 40, "sm_80": 108, "sm_86": 84, "sm_89": 142, "sm_90": 132, "sm_100": 148}


@dataclass(eq=False)
class SimulatedModule:
    """Compiled kernels on one device."""

    entries: dict[str, KernelEntry]
    device: int
    site: str


@dataclass(eq=False)
class SimulatedFunction:
    """A kernel, and how much dynamic shared memory its launches may have."""

    entry: KernelEntry
    module: SimulatedModule
    shared_bytes: int = PLAIN_SHARED_BYTES


class Launches:
    """The kernels of a machine.

    Attributes:
        graphs: how many graphs were launched.
        kernels: how often each kernel has run; `counters`: what it did in each of its last runs.
    """

    def __init__(self, machine: MachineMemory, architecture: str, seed: int) -> None:
        from workbench.cuda.simulated.ptx.limits import ARCHITECTURES

        if architecture not in ARCHITECTURES:
            raise CudaError(f"there is no simulated {architecture}; there are {', '.join(ARCHITECTURES)}")
        self._machine, self._architecture = machine, ARCHITECTURES[architecture]
        self._random = random.Random(seed)
        self._ticks = 0
        self.graphs = 0
        self.kernels: Counter[str] = Counter()
        self.counters: dict[str, deque[Any]] = {}

    def tick(self) -> int:
        """A time that goes forward; milliseconds of nothing in particular."""
        self._ticks += 1
        return self._ticks

    def properties(self, device: int) -> DeviceProperties:
        """What a simulated device is: the architecture's sizes."""
        architecture = self._architecture
        return DeviceProperties(
            name=f"simulated {architecture.name} ({device})",
            architecture=architecture.name,
            memory_bytes=self._machine.memory_bytes,
            multiprocessors=MULTIPROCESSORS[architecture.name],
            warp_size=32,
            threads_per_block=architecture.threads_per_block,
            threads_per_multiprocessor=2048,
            shared_bytes_per_block=PLAIN_SHARED_BYTES,
            shared_bytes_per_block_at_most=architecture.shared_bytes,
            registers_per_block=architecture.registers_per_block,
        )

    def load(self, source: str, options: Sequence[str], device: int) -> SimulatedModule:
        """Compile CUDA C++ and read what the compiler wrote."""
        from workbench.cuda.compile import compile_ptx
        from workbench.cuda.simulated.ptx import parse

        text = compile_ptx(source, self._architecture.name.replace("sm_", "compute_"), options)
        return SimulatedModule(dict(parse(text).entries), device, call_site())

    def function(self, module: SimulatedModule, name: str) -> SimulatedFunction:
        """A kernel of a module.

        Raises:
            CudaError: it has none of that name.
        """
        if name not in module.entries:
            raise CudaError(
                f"{call_site()} asks for kernel {name!r}; the module has {', '.join(module.entries) or 'none'}",
                "CUDA_ERROR_NOT_FOUND",
            )
        return SimulatedFunction(module.entries[name], module)

    def attributes(self, function: SimulatedFunction) -> FunctionAttributes:
        """What a kernel needs; registers are 0, for PTX does not say how many a thread will have."""
        entry = function.entry
        bound = int(np.prod(entry.limits.get("maxntid", (self._architecture.threads_per_block,))))
        return FunctionAttributes(0, entry.shared_bytes, entry.local_bytes, bound)

    def allow_shared_bytes(self, function: SimulatedFunction, nbytes: int) -> None:
        """Let launches have more dynamic shared memory than 48 KiB.

        Raises:
            CudaError: the architecture has not that much.
        """
        if nbytes + function.entry.shared_bytes > self._architecture.shared_bytes:
            raise CudaError(
                f"{call_site()} allows {function.entry.name} {nbytes} bytes of dynamic shared memory; a block of "
                f"{self._architecture.name} has {self._architecture.shared_bytes}",
                "CUDA_ERROR_INVALID_VALUE",
            )
        function.shared_bytes = max(PLAIN_SHARED_BYTES, nbytes)

    def launch(
        self,
        function: SimulatedFunction,
        grid: Sequence[int],
        block: Sequence[int],
        args: Sequence[np.generic | int],
        shared_bytes: int,
        stream: SimulatedStream,
    ) -> None:
        """Give a stream a kernel.

        Raises:
            CudaError: its arguments or sizes are not what the kernel and the architecture take.
        """
        sizes = (*grid, 1, 1)[:3], (*block, 1, 1)[:3]
        self._check(function, *sizes, args, shared_bytes, stream)
        values, name = tuple(args), function.entry.name

        def run(work: StreamWork) -> None:
            from workbench.cuda.simulated.ptx import launch

            trackers: dict[int, Any] = {}
            counted = launch(
                function.entry,
                self._machine.memory,
                *sizes,
                values,
                shared_bytes,
                seed=self._random.getrandbits(32),
                architecture=self._architecture,
                trackers=trackers,
            )
            self.kernels[name] += 1
            self.counters.setdefault(name, deque(maxlen=MOST_COUNTED)).append(counted)
            self._machine.touch(work, list(self._touched(trackers)))

        pointers = tuple(int(value) for value in values if isinstance(value, (int, np.uint64)))
        self._machine.timeline.give(
            stream, StreamTask(f"kernel {name}", call_site(), stream.device, run, addresses=pointers)
        )

    def _check(
        self,
        function: SimulatedFunction,
        grid: tuple[int, ...],
        block: tuple[int, ...],
        args: Sequence[np.generic | int],
        shared_bytes: int,
        stream: SimulatedStream,
    ) -> None:
        from workbench.cuda.simulated.ptx.faults import LaunchRefused
        from workbench.cuda.simulated.ptx.limits import check_launch, pack_arguments

        name, module = function.entry.name, function.module
        if module.device != stream.device:
            raise CudaError(
                f"{call_site()} launches {name} on device {stream.device}; its module was loaded on device "
                f"{module.device} at {module.site}",
                "cudaErrorInvalidDeviceFunction",
            )
        if shared_bytes > function.shared_bytes:
            raise CudaError(
                f"{call_site()} launches {name} with {shared_bytes} bytes of dynamic shared memory; "
                f"{function.shared_bytes} were allowed",
                "cudaErrorInvalidValue",
            )
        try:
            check_launch(function.entry, self._architecture, grid, block, shared_bytes)
            pack_arguments(function.entry, args)
        except LaunchRefused as refused:
            raise CudaError(f"{call_site()}: {refused}", "cudaErrorInvalidValue") from refused

    def _touched(self, trackers: dict[int, Any]) -> Iterator[ByteSpan]:
        """The bytes that threads have read and written, allocation by allocation."""
        for address, tracker in trackers.items():
            block = self._machine.timeline.memory.block_at(address)
            if block is not None:
                for stamps, write in ((tracker.reads, False), (tracker.writes, True)):
                    yield from touched_span(address, block.nbytes, np.repeat(stamps != 0, tracker.cell), write)


def touched_span(address: int, nbytes: int, touched: np.ndarray, write: bool) -> Iterator[ByteSpan]:
    """The stretch between the first and the last byte that were touched, with a mask if there are others between."""
    inside = np.flatnonzero(touched[:nbytes])
    if inside.size:
        start, stop = int(inside[0]), int(inside[-1]) + 1
        mask = None if inside.size == stop - start else touched[start:stop].copy()
        yield ByteSpan(address + start, stop - start, write, mask)
