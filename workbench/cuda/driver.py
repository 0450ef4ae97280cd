"""What the rest of workbench asks of CUDA: `CudaDriver`, and the words of its calls.

Two bodies offer it. `cupy_driver` hands every call to CuPy and NCCL and has no logic of its own; `simulated` is a CUDA
machine in this process, more easily offended than a real one. Whatever passes there may fail on hardware only for
reasons of the hardware.

The rules are CUDA's: a thread has a current device; work given to a stream is done later, in order; streams know of
each other through events alone. They are stricter in four ways, and only the simulated body enforces them: all copies
between host and device that name a stream use pinned memory, no memory is allocated or freed by a thread while a stream
of it is capturing, a thread that has several ranks of a communicator puts their calls in one group, and there is no
default stream.

No hardware has confirmed this file: which codes a real driver gives, and that `translates` knows its messages.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import Any, NewType, Protocol, TypeVar

import numpy as np

from workbench.errors import EnforceNotMet, NoMemory

Stream = NewType("Stream", int)
Event = NewType("Event", int)
CapturedGraph = NewType("CapturedGraph", int)
ExecutableGraph = NewType("ExecutableGraph", int)

LoadedModule = Any
KernelFunction = Any
ProductsHandle = Any
RankHandle = Any
"""What a body gives for a module, a kernel of it, the products of a stream and a rank of a communicator."""

NCCL_TYPES = {"int8": 0, "uint8": 1, "bool": 1, "int32": 2, "int64": 4}
NCCL_TYPES |= {"float16": 6, "float32": 7, "float64": 8, "bfloat16": 9}
NCCL_REDUCTIONS = {"sum": 0, "prod": 1, "max": 2, "min": 3, "mean": 4}


class CudaError(EnforceNotMet):
    """CUDA, cuBLAS or NCCL refused a call, or tells of work that failed.

    Attributes:
        code: its name, as `cudaErrorIllegalAddress`; empty if the library gave none.
    """

    def __init__(self, message: str, code: str = "") -> None:
        super().__init__(message)
        self.code = code


class CudaOutOfMemory(CudaError, NoMemory):
    """A device has no memory left for an allocation."""


OUT_OF_MEMORY = ("cudaErrorMemoryAllocation", "CUDA_ERROR_OUT_OF_MEMORY", "CUBLAS_STATUS_ALLOC_FAILED")
_CODE = re.compile(r"\b(cudaError\w+|CUDA_ERROR_\w+|CUBLAS_STATUS_\w+|NCCL_ERROR_\w+)")


def as_cuda_error(error: BaseException, call: str) -> CudaError:
    """The same error with the call that met it and the code in its text, as the house raises it."""
    code = _CODE.search(str(error))
    name = code.group(1) if code else ""
    kind = CudaOutOfMemory if name in OUT_OF_MEMORY else CudaError
    return kind(f"{call}: {error}", name)


Body = TypeVar("Body")


def translates(*errors: type[BaseException]) -> Callable[[type[Body]], type[Body]]:
    """A class decorator: errors of these types leave public methods as `CudaError`, with the originals as cause."""

    def guarded(name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(call)
        def method(*args: Any, **kwargs: Any) -> Any:
            try:
                return call(*args, **kwargs)
            except errors as error:
                raise as_cuda_error(error, name) from error

        return method

    def decorated(body: type[Body]) -> type[Body]:
        for name, call in list(vars(body).items()):
            if callable(call) and not name.startswith("_"):
                setattr(body, name, guarded(name, call))
        return body

    return decorated


@dataclass(frozen=True)
class DeviceProperties:
    """What a device is, as far as plans and kernels depend on it."""

    name: str
    architecture: str
    memory_bytes: int
    multiprocessors: int
    warp_size: int
    threads_per_block: int
    threads_per_multiprocessor: int
    shared_bytes_per_block: int
    shared_bytes_per_block_at_most: int
    registers_per_block: int


@dataclass(frozen=True)
class FunctionAttributes:
    """What a compiled kernel needs: of a thread, of a block, and how many threads a block of it may have."""

    registers: int
    static_shared_bytes: int
    local_bytes: int
    threads_per_block_at_most: int


@dataclass(frozen=True)
class Product:
    """`c = a @ b` for matrices that lie row by row, `batch` times; `c += a @ b` where it accumulates.

    `a` is `[m, k]` or, if transposed, kept as `[k, m]`; `b` is `[k, n]` or kept as `[n, k]`; `c` is `[m, n]`. A leading
    dimension counts elements from one row of what is kept to the next, a stride those from one matrix of the batch
    to the next (0: the same matrix for all). Sums are made in float32 for float16, bfloat16 and float32, in float64
    for float64; `tf32` lets the device round float32 inputs to 10 bits of mantissa first.
    """

    m: int
    n: int
    k: int
    dtype: str
    transpose_a: bool = False
    transpose_b: bool = False
    lda: int = 0
    ldb: int = 0
    ldc: int = 0
    batch: int = 1
    stride_a: int = 0
    stride_b: int = 0
    stride_c: int = 0
    alpha: float = 1.0
    accumulate: bool = False
    tf32: bool = False

    def leading(self) -> tuple[int, int, int]:
        """The leading dimensions; those that were left 0 are the lengths of rows without gaps."""
        row_a, row_b = (self.m if self.transpose_a else self.k), (self.k if self.transpose_b else self.n)
        return self.lda or row_a, self.ldb or row_b, self.ldc or self.n


class PackedArguments:
    """The arguments of a launch as CUDA wants them: an array of pointers to values, which lives as long as this object.

    Attributes:
        address: of the array.
    """

    def __init__(self, args: Sequence[np.generic | int]) -> None:
        values = [np.uint64(value) if isinstance(value, int) else value for value in args]
        self._bytes = [ctypes.create_string_buffer(value.tobytes(), value.nbytes) for value in values]
        self._pointers = (ctypes.c_void_p * max(1, len(values)))(*(ctypes.addressof(one) for one in self._bytes))
        self.address = ctypes.addressof(self._pointers)


class CudaDriver(Protocol):
    """CUDA, cuBLAS and NCCL, as far as workbench calls them. Addresses are plain ints, sizes are bytes.

    Every call may raise `CudaError`: for what it asks itself, or for work that was given earlier and has failed since.
    """

    # Devices -------------------------------------------------------------------------------------------------------

    def device_count(self) -> int:
        """How many devices there are."""

    def properties(self, device: int) -> DeviceProperties:
        """What one of them is."""

    def versions(self) -> dict[str, int]:
        """Numbers of the versions of the driver, the runtime and NCCL (0: not there)."""

    def set_device(self, device: int) -> None:
        """Make it the current device of this thread."""

    def current_device(self) -> int:
        """The current device of this thread; 0 in a new one."""

    def memory_info(self) -> tuple[int, int]:
        """Free bytes and all bytes of the current device."""

    def enable_peer_access(self, device: int) -> None:
        """Let the current device read and write the memory of another one."""

    def synchronize_device(self) -> None:
        """Wait for all work of the current device."""

    # Memory --------------------------------------------------------------------------------------------------------

    def allocate(self, nbytes: int) -> int:
        """Memory of the current device; it waits for nothing, and what it holds is undefined.

        Raises:
            CudaOutOfMemory: there is not that much.
        """

    def free(self, address: int) -> None:
        """Give memory of `allocate` back; all work with it has to be done, and waited for."""

    def allocate_on(self, nbytes: int, stream: Stream) -> int:
        """Memory from the pool of the current device, to be used after this point of a stream."""

    def free_on(self, address: int, stream: Stream) -> None:
        """Give memory of `allocate_on` back once a stream comes to this point."""

    def trim_pool(self, keep: int) -> None:
        """Give the device back what its pool holds without need, but for so many bytes."""

    def allocate_pinned(self, nbytes: int) -> np.ndarray:
        """Host memory that devices copy from and to while the host goes on: an array of uint8."""

    def free_pinned(self, array: np.ndarray) -> None:
        """Give it back; no view of it may be used any more."""

    # Copies and fills ----------------------------------------------------------------------------------------------

    def write(self, address: int, values: np.ndarray) -> None:
        """Copy an array of the host, which is contiguous, to the current device and wait until it is there."""

    def read(self, array: np.ndarray, address: int) -> None:
        """Copy memory of the current device into a contiguous array of the host and wait until it is there.

        It does not wait for streams: what they write has to be done.
        """

    def copy_to_device(self, address: int, pinned: np.ndarray, stream: Stream) -> None:
        """Copy all of a contiguous array in pinned memory; it must not change before the stream has come past this."""

    def copy_to_host(self, pinned: np.ndarray, address: int, stream: Stream) -> None:
        """Copy into a contiguous array in pinned memory; it is undefined until the stream has come past this."""

    def copy_on_device(self, destination: int, source: int, nbytes: int, stream: Stream) -> None:
        """Copy within a device; the two do not overlap."""

    def copy_between(
        self, destination: int, to_device: int, source: int, from_device: int, nbytes: int, stream: Stream
    ) -> None:
        """Copy from one device to another."""

    def fill(self, address: int, byte: int, nbytes: int, stream: Stream) -> None:
        """Set every byte."""

    # Streams and events --------------------------------------------------------------------------------------------

    def create_stream(self, priority: int = 0) -> Stream:
        """A stream of the current device; the lower the number, the sooner its work is taken."""

    def destroy_stream(self, stream: Stream) -> None:
        """Give it back once its work is done."""

    def synchronize_stream(self, stream: Stream) -> None:
        """Wait for all that was given to it."""

    def stream_done(self, stream: Stream) -> bool:
        """Whether all that was given to it is done."""

    def create_event(self, timing: bool = False) -> Event:
        """An event of the current device; only one with `timing` can be asked for times."""

    def destroy_event(self, event: Event) -> None:
        """Give it back."""

    def record_event(self, event: Event, stream: Stream) -> None:
        """Let the event stand for all that was given to the stream so far."""

    def wait_event(self, stream: Stream, event: Event) -> None:
        """Let what is given to the stream from now on wait for what the event stands for at this moment."""

    def synchronize_event(self, event: Event) -> None:
        """Wait for what it stands for."""

    def event_done(self, event: Event) -> bool:
        """Whether what it stands for is done."""

    def elapsed_ms(self, start: Event, end: Event) -> float:
        """Milliseconds of the device between two events that are done."""

    # Kernels -------------------------------------------------------------------------------------------------------

    def load_module(self, source: str, options: Sequence[str] = ()) -> LoadedModule:
        """Compile CUDA C++ for the current device and load it there."""

    def get_function(self, module: LoadedModule, name: str) -> KernelFunction:
        """A kernel of a module, by its name in the compiled code."""

    def function_attributes(self, function: KernelFunction) -> FunctionAttributes:
        """What it needs."""

    def allow_shared_bytes(self, function: KernelFunction, nbytes: int) -> None:
        """Let launches of it have so much dynamic shared memory; without this there are 48 KiB."""

    def launch(
        self,
        function: KernelFunction,
        grid: Sequence[int],
        block: Sequence[int],
        args: Sequence[np.generic | int],
        shared_bytes: int,
        stream: Stream,
    ) -> None:
        """Run a kernel. An argument is a NumPy scalar of the parameter's type, or an int: an address."""

    # Graphs --------------------------------------------------------------------------------------------------------

    def begin_capture(self, stream: Stream) -> None:
        """From now on work of this stream, and of those that wait for its events, is recorded and not done."""

    def is_capturing(self, stream: Stream) -> bool:
        """Whether it is."""

    def end_capture(self, stream: Stream) -> CapturedGraph:
        """What was recorded; streams that joined have to be waited for by this one first."""

    def instantiate(self, graph: CapturedGraph) -> ExecutableGraph:
        """A graph in the form that can be launched."""

    def launch_graph(self, graph: ExecutableGraph, stream: Stream) -> None:
        """Do all that was recorded, with the addresses and values that were recorded."""

    def destroy_graph(self, graph: CapturedGraph) -> None:
        """Give it back; what was instantiated from it stays."""

    def destroy_executable(self, graph: ExecutableGraph) -> None:
        """Give it back; it must not be running."""

    # Products of matrices ------------------------------------------------------------------------------------------

    def create_products(self, stream: Stream, workspace: int, nbytes: int) -> ProductsHandle:
        """What makes products on one stream, with a workspace of its own: so they can be captured, and bits repeat."""

    def multiply(self, handle: ProductsHandle, product: Product, a: int, b: int, c: int) -> None:
        """Make a product on the handle's stream; `a`, `b` and `c` are addresses."""

    def destroy_products(self, handle: ProductsHandle) -> None:
        """Give it back."""

    # Collectives ---------------------------------------------------------------------------------------------------

    def unique_id(self) -> bytes:
        """128 bytes by which the ranks of a new communicator find each other."""

    def create_rank(self, size: int, unique_id: bytes, rank: int) -> RankHandle:
        """One rank, on the current device; waits for all others. A thread that makes several needs a group."""

    def create_ranks(self, devices: Sequence[int]) -> list[RankHandle]:
        """All ranks of a communicator within this process, one for each device."""

    def group_start(self) -> None:
        """Collect collectives of this thread until `group_end`."""

    def group_end(self) -> None:
        """Start those that were collected, as one."""

    def all_reduce(
        self, rank: RankHandle, source: int, result: int, count: int, dtype: str, reduction: str, stream: Stream
    ) -> None:
        """The reduction of all ranks' `count` elements, for every rank; source and result may be the same."""

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
        """The same, for one rank only."""

    def broadcast(
        self, rank: RankHandle, source: int, result: int, count: int, dtype: str, root: int, stream: Stream
    ) -> None:
        """The elements of one rank, for every rank; the others' source is not read."""

    def reduce_scatter(
        self, rank: RankHandle, source: int, result: int, count: int, dtype: str, reduction: str, stream: Stream
    ) -> None:
        """The reduction of `size * count` elements, of which every rank gets its `count`."""

    def all_gather(self, rank: RankHandle, source: int, result: int, count: int, dtype: str, stream: Stream) -> None:
        """All ranks' `count` elements one after the other, for every rank."""

    def send(self, rank: RankHandle, source: int, count: int, dtype: str, peer: int, stream: Stream) -> None:
        """Elements for one other rank, which has to `receive` them."""

    def receive(self, rank: RankHandle, result: int, count: int, dtype: str, peer: int, stream: Stream) -> None:
        """Elements of one other rank."""

    def raise_async_error(self, rank: RankHandle) -> None:
        """Raise what a communicator has met since; nothing if all is well."""

    def abort_rank(self, rank: RankHandle) -> None:
        """Give up its collectives, those that are running included, and the rank itself."""

    def destroy_rank(self, rank: RankHandle) -> None:
        """Give it back once its collectives are done."""
