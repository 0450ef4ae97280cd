"""`CudaDriver` on devices that this process simulates.

Every call is checked before it is served: whether it may be made while a stream is captured, whether its handles live
and belong to the current device, whether the addresses are those of allocations, whether the host has waited. What is
found wrong names the line that called, and, where a second one is concerned, that too. A device on which work has
failed is lost, as a context of CUDA is; a new `SimulatedDriver` is a new machine.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from functools import wraps
from itertools import count as numbers
from typing import Any, Concatenate, ParamSpec, TypeVar

import numpy as np

from workbench.cuda.driver import (
    CapturedGraph,
    CudaError,
    DeviceProperties,
    Event,
    ExecutableGraph,
    FunctionAttributes,
    KernelFunction,
    LoadedModule,
    Product,
    ProductsHandle,
    RankHandle,
    Stream,
)
from workbench.cuda.simulated import graphs, products
from workbench.cuda.simulated.accesses import ByteSpan
from workbench.cuda.simulated.graphs import Capture, CaptureRefused, RecordedGraph
from workbench.cuda.simulated.launches import Launches
from workbench.cuda.simulated.machine import MachineMemory, host_bytes
from workbench.cuda.simulated.nccl import Collectives, collective_call
from workbench.cuda.simulated.streams import (
    SimulatedEvent,
    SimulatedStream,
    StreamTask,
    StreamWork,
    Timeline,
    Waits,
    call_site,
)

Given = ParamSpec("Given")
Result = TypeVar("Result")
Driver = TypeVar("Driver", bound="SimulatedDriver")
SERVED_WHEN_LOST = {"device_count", "properties", "versions", "set_device", "current_device", "group_start"}


def served(*, in_capture: bool) -> Callable[..., Any]:
    """A call of the interface: one at a time, counted, and refused while this thread captures unless it may be."""

    def decorated(
        call: Callable[Concatenate[Driver, Given], Result],
    ) -> Callable[Concatenate[Driver, Given], Result]:
        name = call.__name__

        @wraps(call)
        def method(self: Driver, *args: Given.args, **kwargs: Given.kwargs) -> Result:
            with self.timeline.lock:
                self.admit(name, in_capture)
                return call(self, *args, **kwargs)

        return method

    return decorated


class SimulatedDriver:
    """A machine with simulated devices.

    Attributes:
        timeline: what is given and not done; `machine`: memory; `faults`: what is to go wrong.
    """

    def __init__(
        self,
        devices: int = 1,
        *,
        architecture: str = "sm_80",
        memory_bytes: int = 1 << 30,
        seed: int = 0,
        schedule: str = "random",
        deadline_seconds: float = 10.0,
    ) -> None:
        self.timeline = Timeline(seed, schedule, Waits(deadline_seconds))
        self.machine = MachineMemory(devices, memory_bytes, self.timeline)
        self.faults = self.machine.faults
        self.launches = Launches(self.machine, architecture, seed)
        self._collectives = Collectives(self.machine)
        self._current = threading.local()
        self._numbers = numbers(0x10, 0x10)
        self._handles: dict[int, Any] = {}
        self._destroyed: dict[int, str] = {}
        self._captures: dict[int, Capture] = {}
        self._pool: set[int] = set()

    def admit(self, name: str, in_capture: bool) -> None:
        """Whether a call may be made now.

        Raises:
            CudaError: it was ordered to fail, or the device is lost. CaptureRefused: this thread captures a stream.
        """
        self.faults.meet(name)
        untold = self.timeline.untold.pop((threading.get_ident(), self.current()), None)
        if untold is not None:
            raise untold
        failure = self.timeline.failures.get(self.current())
        if failure is not None and name not in SERVED_WHEN_LOST and not name.startswith(("destroy", "free", "abort")):
            raise CudaError(
                f"{call_site()} calls {name} on device {self.current()}, which is lost: {failure}",
                getattr(failure, "code", "") or "cudaErrorLaunchFailure",
            )
        capture = self._captures.get(threading.get_ident())
        if capture is not None and not in_capture:
            capture.spoil(f"{call_site()} calls {name}")
            raise CaptureRefused(
                f"{call_site()} calls {name} while this thread captures a stream, since {capture.site}",
                "cudaErrorStreamCaptureUnsupported",
            )

    def current(self) -> int:
        """The current device of this thread."""
        return getattr(self._current, "device", 0)

    def _new(self, value: Any) -> int:
        number = next(self._numbers)
        self._handles[number] = value
        return number

    def _find(self, handle: int, kind: type[Result]) -> Result:
        value = self._handles.get(handle)
        if not isinstance(value, kind):
            when = f"was destroyed at {self._destroyed[handle]}" if handle in self._destroyed else "was never made"
            raise CudaError(
                f"{call_site()} uses {kind.__name__} {handle:#x}, which {when}", "cudaErrorInvalidResourceHandle"
            )
        return value

    def _drop(self, handle: int, kind: type[Result]) -> Result:
        value = self._find(handle, kind)
        del self._handles[handle]
        self._destroyed[handle] = call_site()
        return value

    def _stream(self, handle: int) -> SimulatedStream:
        return self._find(handle, SimulatedStream)

    def _own_stream(self, handle: int) -> SimulatedStream:
        """A stream of the current device."""
        stream = self._stream(handle)
        if stream.device != self.current():
            raise CudaError(
                f"{call_site()} gives work to a stream of device {stream.device}, made at {stream.site}, while device "
                f"{self.current()} is current",
                "cudaErrorInvalidResourceHandle",
            )
        return stream

    def _device(self, device: int) -> int:
        if not 0 <= device < self.machine.devices:
            raise CudaError(
                f"{call_site()} names device {device}; there are {self.machine.devices}", "cudaErrorInvalidDevice"
            )
        return device

    # Devices -------------------------------------------------------------------------------------------------------

    @served(in_capture=True)
    def device_count(self) -> int:
        return self.machine.devices

    @served(in_capture=True)
    def properties(self, device: int) -> DeviceProperties:
        return self.launches.properties(self._device(device))

    @served(in_capture=True)
    def versions(self) -> dict[str, int]:
        return {"driver": 12090, "runtime": 12090, "nccl": 23203}

    @served(in_capture=True)
    def set_device(self, device: int) -> None:
        self._current.device = self._device(device)

    @served(in_capture=True)
    def current_device(self) -> int:
        return self.current()

    @served(in_capture=True)
    def memory_info(self) -> tuple[int, int]:
        return self.machine.memory_bytes - self.machine.used[self.current()], self.machine.memory_bytes

    @served(in_capture=False)
    def enable_peer_access(self, device: int) -> None:
        pair = (self.current(), self._device(device))
        if pair in self.machine.peers or pair[0] == pair[1]:
            raise CudaError(f"{call_site()} enables peer access twice", "cudaErrorPeerAccessAlreadyEnabled")
        self.machine.peers.add(pair)

    @served(in_capture=False)
    def synchronize_device(self) -> None:
        self.timeline.wait_for([one for one in self.timeline.pending() if one.task.device == self.current()])
        streams = [one for one in self._handles.values() if isinstance(one, SimulatedStream)]
        mine = [one for one in streams if one.device == self.current() and one.capture is None]
        self.timeline.learn([work for stream in mine for work in stream.frontier])

    # Memory --------------------------------------------------------------------------------------------------------

    @served(in_capture=False)
    def allocate(self, nbytes: int) -> int:
        return self.machine.allocate(nbytes, self.current())

    @served(in_capture=False)
    def free(self, address: int) -> None:
        block = self.machine.block(address)
        if address in self._pool:
            raise CudaError(f"{call_site()} frees what `allocate_on` gave at {block.site}", "cudaErrorInvalidValue")
        self._needed_by_no_graph(address)
        spans = [ByteSpan(block.address, block.nbytes, True)]
        access = self.timeline.on_host("free", self.timeline.memory, spans)
        self.machine.release(block, access.describe())

    @served(in_capture=False)
    def allocate_on(self, nbytes: int, stream: Stream) -> int:
        place = self._own_stream(stream)
        address = self.machine.allocate(nbytes, self.current())
        self._pool.add(address)
        spans = (ByteSpan(address, nbytes, True),)
        run = lambda work: self.machine.touch(work, spans)  # noqa: E731
        self.timeline.give(place, StreamTask("allocation", call_site(), place.device, run, spans))
        return address

    @served(in_capture=False)
    def free_on(self, address: int, stream: Stream) -> None:
        place, block = self._stream(stream), self.machine.block(address)
        if address not in self._pool:
            raise CudaError(f"{call_site()} gives a pool what `allocate` gave at {block.site}", "cudaErrorInvalidValue")
        self._needed_by_no_graph(address)
        self._pool.discard(address)

        def run(work: StreamWork) -> None:
            self.machine.touch(work, [ByteSpan(address, block.nbytes, True)], strangers=True)
            self.machine.release(block, work.describe())

        self.timeline.give(
            place, StreamTask("free", call_site(), place.device, run, (ByteSpan(address, block.nbytes, True),))
        )

    @served(in_capture=False)
    def trim_pool(self, keep: int) -> None:
        """Nothing: what a stream has freed is given back at once."""

    def _needed_by_no_graph(self, address: int) -> None:
        block = self.machine.block(address)
        recorded = [one for one in self._handles.values() if isinstance(one, RecordedGraph)]
        keeper = graphs.keeper(recorded, block)
        if keeper is not None:
            graph, node = keeper
            raise CudaError(
                f"{call_site()} gives back memory allocated at {block.site}, which the graph captured at {graph.site} "
                f"still needs for {node.task.label}, recorded at {node.task.site}: destroy the graph first"
            )

    @served(in_capture=False)
    def allocate_pinned(self, nbytes: int) -> np.ndarray:
        return self.machine.allocate_pinned(nbytes)

    @served(in_capture=False)
    def free_pinned(self, array: np.ndarray) -> None:
        self.machine.free_pinned(array)

    # Copies and fills ----------------------------------------------------------------------------------------------

    @served(in_capture=False)
    def write(self, address: int, values: np.ndarray) -> None:
        data = host_bytes(values)
        self.timeline.on_host("write", self.timeline.memory, [ByteSpan(address, values.nbytes, True)])
        self.machine.memory.write(address, data.tobytes())

    @served(in_capture=False)
    def read(self, array: np.ndarray, address: int) -> None:
        span = ByteSpan(address, array.nbytes, False)
        access = self.timeline.on_host("read", self.timeline.memory, [span])
        self.machine.need_values(access, [span])
        host_bytes(array)[:] = self.machine.memory.view(address, array.nbytes)

    @served(in_capture=True)
    def copy_to_device(self, address: int, pinned: np.ndarray, stream: Stream) -> None:
        self.machine.copy_to_device(address, pinned, self._stream(stream))

    @served(in_capture=True)
    def copy_to_host(self, pinned: np.ndarray, address: int, stream: Stream) -> None:
        self.machine.copy_to_host(pinned, address, self._stream(stream))

    @served(in_capture=True)
    def copy_on_device(self, destination: int, source: int, nbytes: int, stream: Stream) -> None:
        self.machine.copy(destination, source, nbytes, self._own_stream(stream), False)

    @served(in_capture=True)
    def copy_between(
        self, destination: int, to_device: int, source: int, from_device: int, nbytes: int, stream: Stream
    ) -> None:
        for address, device in ((destination, to_device), (source, from_device)):
            block = self.timeline.memory.block_at(address)
            if block is None or block.device != self._device(device):
                raise CudaError(
                    f"{call_site()} copies: {address:#x} is not of device {device}", "cudaErrorInvalidValue"
                )
        self.machine.copy(destination, source, nbytes, self._stream(stream), True)

    @served(in_capture=True)
    def fill(self, address: int, byte: int, nbytes: int, stream: Stream) -> None:
        self.machine.fill(address, byte, nbytes, self._own_stream(stream))

    # Streams and events --------------------------------------------------------------------------------------------

    @served(in_capture=True)
    def create_stream(self, priority: int = 0) -> Stream:
        number = self._new(None)
        self._handles[number] = SimulatedStream(number, self.current(), call_site())
        return Stream(number)

    @served(in_capture=False)
    def destroy_stream(self, stream: Stream) -> None:
        self._drop(stream, SimulatedStream)

    @served(in_capture=False)
    def synchronize_stream(self, stream: Stream) -> None:
        place = self._stream(stream)
        self._outside_of_capture(place.capture, "synchronize_stream")
        self.timeline.wait_for(place.frontier)

    @served(in_capture=False)
    def stream_done(self, stream: Stream) -> bool:
        place = self._stream(stream)
        self._outside_of_capture(place.capture, "stream_done")
        return self._seen(place.frontier)

    @served(in_capture=True)
    def create_event(self, timing: bool = False) -> Event:
        number = self._new(None)
        self._handles[number] = SimulatedEvent(number, self.current(), timing)
        return Event(number)

    @served(in_capture=True)
    def destroy_event(self, event: Event) -> None:
        self._drop(event, SimulatedEvent)

    @served(in_capture=True)
    def record_event(self, event: Event, stream: Stream) -> None:
        place, mark = self._stream(stream), self._find(event, SimulatedEvent)
        if place.device != mark.device:
            raise CudaError(
                f"{call_site()} records an event of device {mark.device} on a stream of device {place.device}",
                "cudaErrorInvalidResourceHandle",
            )
        if mark.timing and place.capture is None:
            self.timeline.give(place, StreamTask("event", call_site(), place.device, self._note_time))
        graphs.record_event(mark, place)

    @served(in_capture=True)
    def wait_event(self, stream: Stream, event: Event) -> None:
        graphs.wait_event(self._stream(stream), self._find(event, SimulatedEvent), call_site())

    @served(in_capture=False)
    def synchronize_event(self, event: Event) -> None:
        mark = self._find(event, SimulatedEvent)
        self._outside_of_capture(mark.capture, "synchronize_event")
        self.timeline.wait_for(mark.frontier)

    @served(in_capture=False)
    def event_done(self, event: Event) -> bool:
        mark = self._find(event, SimulatedEvent)
        self._outside_of_capture(mark.capture, "event_done")
        return self._seen(mark.frontier)

    @served(in_capture=False)
    def elapsed_ms(self, start: Event, end: Event) -> float:
        marks = [self._find(event, SimulatedEvent) for event in (start, end)]
        if not all(mark.timing and mark.recorded for mark in marks):
            raise CudaError(f"{call_site()} asks events for times that they have not", "cudaErrorInvalidResourceHandle")
        works = [mark.frontier[-1] for mark in marks]
        if not all(self._seen([work]) for work in works):
            raise CudaError(f"{call_site()} asks for the time of work that is not done", "cudaErrorNotReady")
        return float(works[1].kept - works[0].kept)

    def _note_time(self, work: StreamWork) -> None:
        work.kept = self.launches.tick()

    def _seen(self, works: Sequence[StreamWork]) -> bool:
        """Whether work is done; if so, the host knows it from now on."""
        self.timeline.advance()
        if not all(work.done for work in works):
            return False
        self.timeline.learn(works)
        return True

    def _outside_of_capture(self, capture: Capture | None, name: str) -> None:
        if capture is not None:
            capture.spoil(f"{call_site()} calls {name}")
            code = "cudaErrorCapturedEvent" if "event" in name else "cudaErrorStreamCaptureUnsupported"
            raise CaptureRefused(f"{call_site()} calls {name} on what {capture.site} captures", code)

    # Kernels -------------------------------------------------------------------------------------------------------

    @served(in_capture=False)
    def load_module(self, source: str, options: Sequence[str] = ()) -> LoadedModule:
        return self.launches.load(source, options, self.current())

    @served(in_capture=True)
    def get_function(self, module: LoadedModule, name: str) -> KernelFunction:
        return self.launches.function(module, name)

    @served(in_capture=True)
    def function_attributes(self, function: KernelFunction) -> FunctionAttributes:
        return self.launches.attributes(function)

    @served(in_capture=True)
    def allow_shared_bytes(self, function: KernelFunction, nbytes: int) -> None:
        self.launches.allow_shared_bytes(function, nbytes)

    @served(in_capture=True)
    def launch(
        self,
        function: KernelFunction,
        grid: Sequence[int],
        block: Sequence[int],
        args: Sequence[np.generic | int],
        shared_bytes: int,
        stream: Stream,
    ) -> None:
        self.launches.launch(function, grid, block, args, shared_bytes, self._own_stream(stream))

    # Graphs --------------------------------------------------------------------------------------------------------

    @served(in_capture=False)
    def begin_capture(self, stream: Stream) -> None:
        thread = threading.get_ident()
        self._captures[thread] = graphs.begin(self._stream(stream), call_site(), thread)

    @served(in_capture=True)
    def is_capturing(self, stream: Stream) -> bool:
        return self._stream(stream).capture is not None

    @served(in_capture=True)
    def end_capture(self, stream: Stream) -> CapturedGraph:
        place = self._stream(stream)
        capture: Capture | None = place.capture
        try:
            graph = graphs.end(place, call_site())
        finally:
            if capture is not None and capture.ended:
                self._captures.pop(capture.thread, None)
        return CapturedGraph(self._new(graph))

    @served(in_capture=False)
    def instantiate(self, graph: CapturedGraph) -> ExecutableGraph:
        recorded = self._find(graph, RecordedGraph)
        return ExecutableGraph(self._new(RecordedGraph(recorded.nodes, recorded.device, recorded.site)))

    @served(in_capture=True)
    def launch_graph(self, graph: ExecutableGraph, stream: Stream) -> None:
        self.launches.graphs += 1
        graphs.launch(self._find(graph, RecordedGraph), self._own_stream(stream), call_site(), self.timeline)

    @served(in_capture=False)
    def destroy_graph(self, graph: CapturedGraph) -> None:
        self._drop(graph, RecordedGraph)

    @served(in_capture=False)
    def destroy_executable(self, graph: ExecutableGraph) -> None:
        running = self._find(graph, RecordedGraph).running
        if running is not None and not running.done:
            raise CudaError(f"{call_site()} destroys a graph that is running: {running.describe()}")
        self._drop(graph, RecordedGraph)

    # Products of matrices ------------------------------------------------------------------------------------------

    @served(in_capture=False)
    def create_products(self, stream: Stream, workspace: int, nbytes: int) -> ProductsHandle:
        block = self.timeline.memory.block_at(workspace)
        if block is None or workspace + nbytes > block.address + block.nbytes:
            raise CudaError(
                f"{call_site()} gives products no workspace of {nbytes} bytes", "CUBLAS_STATUS_INVALID_VALUE"
            )
        return self._new((self._own_stream(stream), workspace, nbytes))

    @served(in_capture=True)
    def multiply(self, handle: ProductsHandle, product: Product, a: int, b: int, c: int) -> None:
        place, workspace, nbytes = self._find(handle, tuple)
        spans = (*products.spans(product, a, b, c), ByteSpan(workspace, nbytes, True))

        def run(work: StreamWork) -> None:
            self.machine.touch(work, spans)
            self.machine.need_values(work, spans)
            products.multiply(product, a, b, c, self.machine.memory.view)
            self.machine.wrote(spans[:-1])

        label = f"product {product.m}x{product.n}x{product.k} of {product.dtype}"
        self.timeline.give(place, StreamTask(label, call_site(), place.device, run, spans))

    @served(in_capture=False)
    def destroy_products(self, handle: ProductsHandle) -> None:
        self._drop(handle, tuple)

    # Collectives ---------------------------------------------------------------------------------------------------

    @served(in_capture=True)
    def unique_id(self) -> bytes:
        return self._collectives.unique_id()

    @served(in_capture=False)
    def create_rank(self, size: int, unique_id: bytes, rank: int) -> RankHandle:
        return self._collectives.create_rank(size, unique_id, rank, self.current(), call_site())

    @served(in_capture=False)
    def create_ranks(self, devices: Sequence[int]) -> list[RankHandle]:
        return list(self._collectives.create_ranks([self._device(one) for one in devices], call_site()))

    @served(in_capture=True)
    def group_start(self) -> None:
        self._collectives.group_start()

    @served(in_capture=True)
    def group_end(self) -> None:
        self._collectives.group_end(call_site())

    @served(in_capture=True)
    def all_reduce(
        self, rank: RankHandle, source: int, result: int, count: int, dtype: str, reduction: str, stream: Stream
    ) -> None:
        self._collect("all_reduce", rank, source, result, count, dtype, stream, reduction)

    @served(in_capture=True)
    def reduce(
        self,
        rank: RankHandle,
        source: int,
        result: int,
        count: int,
        dtype: str,
        reduction: str,
        root: int,
        stream: Stream,
    ) -> None:
        self._collect("reduce", rank, source, result, count, dtype, stream, reduction, root)

    @served(in_capture=True)
    def broadcast(
        self, rank: RankHandle, source: int, result: int, count: int, dtype: str, root: int, stream: Stream
    ) -> None:
        self._collect("broadcast", rank, source, result, count, dtype, stream, "", root)

    @served(in_capture=True)
    def reduce_scatter(
        self, rank: RankHandle, source: int, result: int, count: int, dtype: str, reduction: str, stream: Stream
    ) -> None:
        self._collect("reduce_scatter", rank, source, result, count, dtype, stream, reduction)

    @served(in_capture=True)
    def all_gather(self, rank: RankHandle, source: int, result: int, count: int, dtype: str, stream: Stream) -> None:
        self._collect("all_gather", rank, source, result, count, dtype, stream)

    @served(in_capture=True)
    def send(self, rank: RankHandle, source: int, count: int, dtype: str, peer: int, stream: Stream) -> None:
        self._collect("send", rank, source, 0, count, dtype, stream, "", peer)

    @served(in_capture=True)
    def receive(self, rank: RankHandle, result: int, count: int, dtype: str, peer: int, stream: Stream) -> None:
        self._collect("receive", rank, 0, result, count, dtype, stream, "", peer)

    @served(in_capture=True)
    def raise_async_error(self, rank: RankHandle) -> None:
        if rank.error:
            raise CudaError(f"rank {rank.rank} {rank.error}", "NCCL_ERROR_SYSTEM_ERROR")

    @served(in_capture=False)
    def abort_rank(self, rank: RankHandle) -> None:
        self._collectives.abort(rank, call_site())

    @served(in_capture=False)
    def destroy_rank(self, rank: RankHandle) -> None:
        self._collectives.destroy(rank, call_site())

    def _collect(
        self,
        kind: str,
        rank: RankHandle,
        source: int,
        result: int,
        count: int,
        dtype: str,
        stream: Stream,
        reduction: str = "",
        peer: int = -1,
    ) -> None:
        place = self._stream(stream)
        self._collectives.call(collective_call(kind, rank, source, result, count, dtype, place, reduction, peer))
