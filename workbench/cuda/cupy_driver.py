"""CUDA as CuPy and NCCL offer it: the only file that imports them, and it decides nothing.

Every method of `CupyDriver` is a call or two of `cupy.cuda`; what it means is written at `CudaDriver`.
`tests/cuda/test_cupy_names.py` holds every name and every number of arguments in this file against the installed
package.

No hardware has confirmed this file.
"""

from __future__ import annotations

import ctypes
import warnings
from collections.abc import Sequence

import numpy as np
from cuda import pathfinder
from cupy.cuda import driver, runtime

from workbench.config import environment
from workbench.cuda.cublas import Cublas, CublasError
from workbench.cuda.driver import (
    NCCL_REDUCTIONS,
    NCCL_TYPES,
    CapturedGraph,
    DeviceProperties,
    Event,
    ExecutableGraph,
    FunctionAttributes,
    KernelFunction,
    LoadedModule,
    PackedArguments,
    Product,
    ProductsHandle,
    RankHandle,
    Stream,
    translates,
)

if environment("WORKBENCH_NCCL_LIB"):
    ctypes.CDLL(environment("WORKBENCH_NCCL_LIB"))  # CuPy takes the library that is already there
with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # CuPy warns where there is no NCCL; `versions` says so
    from cupy.cuda import nccl

NCCL_ERRORS: tuple[type[BaseException], ...] = (nccl.NcclError,) if nccl.available else ()

NOT_READY = 600  # cudaErrorNotReady: what queries answer while there is work


@translates(runtime.CUDARuntimeError, driver.CUDADriverError, CublasError, *NCCL_ERRORS)
class CupyDriver:
    """`CudaDriver` on the GPUs of this machine."""

    def __init__(self) -> None:
        self._cublas: Cublas | None = None

    def device_count(self) -> int:
        return int(runtime.getDeviceCount())

    def properties(self, device: int) -> DeviceProperties:
        told = runtime.getDeviceProperties(device)
        return DeviceProperties(
            name=told["name"].decode(),
            architecture=f"sm_{told['major']}{told['minor']}",
            memory_bytes=told["totalGlobalMem"],
            multiprocessors=told["multiProcessorCount"],
            warp_size=told["warpSize"],
            threads_per_block=told["maxThreadsPerBlock"],
            threads_per_multiprocessor=told["maxThreadsPerMultiProcessor"],
            shared_bytes_per_block=told["sharedMemPerBlock"],
            shared_bytes_per_block_at_most=told["sharedMemPerBlockOptin"],
            registers_per_block=told["regsPerBlock"],
        )

    def versions(self) -> dict[str, int]:
        collectives = nccl.get_version() if nccl.available else 0
        return {"driver": runtime.driverGetVersion(), "runtime": runtime.runtimeGetVersion(), "nccl": collectives}

    def set_device(self, device: int) -> None:
        runtime.setDevice(device)
        runtime.free(0)  # makes the context that calls of the driver need

    def current_device(self) -> int:
        return int(runtime.getDevice())

    def memory_info(self) -> tuple[int, int]:
        free, total = runtime.memGetInfo()
        return free, total

    def enable_peer_access(self, device: int) -> None:
        runtime.deviceEnablePeerAccess(device)

    def synchronize_device(self) -> None:
        runtime.deviceSynchronize()

    def allocate(self, nbytes: int) -> int:
        return int(runtime.malloc(nbytes))

    def free(self, address: int) -> None:
        runtime.free(address)

    def allocate_on(self, nbytes: int, stream: Stream) -> int:
        return int(runtime.mallocAsync(nbytes, stream))

    def free_on(self, address: int, stream: Stream) -> None:
        runtime.freeAsync(address, stream)

    def trim_pool(self, keep: int) -> None:
        runtime.memPoolTrimTo(runtime.deviceGetDefaultMemPool(runtime.getDevice()), keep)

    def allocate_pinned(self, nbytes: int) -> np.ndarray:
        memory = (ctypes.c_uint8 * nbytes).from_address(runtime.hostAlloc(nbytes, runtime.hostAllocPortable))
        return np.ctypeslib.as_array(memory)

    def free_pinned(self, array: np.ndarray) -> None:
        runtime.freeHost(array.ctypes.data)

    def write(self, address: int, values: np.ndarray) -> None:
        runtime.memcpy(address, values.ctypes.data, values.nbytes, runtime.memcpyHostToDevice)

    def read(self, array: np.ndarray, address: int) -> None:
        runtime.memcpy(array.ctypes.data, address, array.nbytes, runtime.memcpyDeviceToHost)

    def copy_to_device(self, address: int, pinned: np.ndarray, stream: Stream) -> None:
        runtime.memcpyAsync(address, pinned.ctypes.data, pinned.nbytes, runtime.memcpyHostToDevice, stream)

    def copy_to_host(self, pinned: np.ndarray, address: int, stream: Stream) -> None:
        runtime.memcpyAsync(pinned.ctypes.data, address, pinned.nbytes, runtime.memcpyDeviceToHost, stream)

    def copy_on_device(self, destination: int, source: int, nbytes: int, stream: Stream) -> None:
        runtime.memcpyAsync(destination, source, nbytes, runtime.memcpyDeviceToDevice, stream)

    def copy_between(
        self, destination: int, to_device: int, source: int, from_device: int, nbytes: int, stream: Stream
    ) -> None:
        runtime.memcpyPeerAsync(destination, to_device, source, from_device, nbytes, stream)

    def fill(self, address: int, byte: int, nbytes: int, stream: Stream) -> None:
        runtime.memsetAsync(address, byte, nbytes, stream)

    def create_stream(self, priority: int = 0) -> Stream:
        return Stream(runtime.streamCreateWithPriority(runtime.streamNonBlocking, priority))

    def destroy_stream(self, stream: Stream) -> None:
        runtime.streamDestroy(stream)

    def synchronize_stream(self, stream: Stream) -> None:
        runtime.streamSynchronize(stream)

    def stream_done(self, stream: Stream) -> bool:
        return _done(runtime.streamQuery(stream))

    def create_event(self, timing: bool = False) -> Event:
        return Event(runtime.eventCreateWithFlags(runtime.eventDefault if timing else runtime.eventDisableTiming))

    def destroy_event(self, event: Event) -> None:
        runtime.eventDestroy(event)

    def record_event(self, event: Event, stream: Stream) -> None:
        runtime.eventRecord(event, stream)

    def wait_event(self, stream: Stream, event: Event) -> None:
        runtime.streamWaitEvent(stream, event)

    def synchronize_event(self, event: Event) -> None:
        runtime.eventSynchronize(event)

    def event_done(self, event: Event) -> bool:
        return _done(runtime.eventQuery(event))

    def elapsed_ms(self, start: Event, end: Event) -> float:
        return float(runtime.eventElapsedTime(start, end))

    def load_module(self, source: str, options: Sequence[str] = ()) -> LoadedModule:
        from workbench.cuda.compile import compile_cubin  # the compiler is a library of its own, loaded when needed

        image = compile_cubin(source, self.properties(self.current_device()).architecture, options)
        return driver.moduleLoadData(image)

    def get_function(self, module: LoadedModule, name: str) -> KernelFunction:
        return driver.moduleGetFunction(module, name)

    def function_attributes(self, function: KernelFunction) -> FunctionAttributes:
        return FunctionAttributes(
            registers=driver.funcGetAttribute(driver.CU_FUNC_ATTRIBUTE_NUM_REGS, function),
            static_shared_bytes=driver.funcGetAttribute(driver.CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, function),
            local_bytes=driver.funcGetAttribute(driver.CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES, function),
            threads_per_block_at_most=driver.funcGetAttribute(driver.CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, function),
        )

    def allow_shared_bytes(self, function: KernelFunction, nbytes: int) -> None:
        driver.funcSetAttribute(function, driver.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, nbytes)

    def launch(
        self,
        function: KernelFunction,
        grid: Sequence[int],
        block: Sequence[int],
        args: Sequence[np.generic | int],
        shared_bytes: int,
        stream: Stream,
    ) -> None:
        packed = PackedArguments(args)
        driver.launchKernel(function, *_three(grid), *_three(block), shared_bytes, stream, packed.address, 0)

    def begin_capture(self, stream: Stream) -> None:
        runtime.streamBeginCapture(stream, runtime.streamCaptureModeThreadLocal)

    def is_capturing(self, stream: Stream) -> bool:
        return bool(runtime.streamIsCapturing(stream))

    def end_capture(self, stream: Stream) -> CapturedGraph:
        return CapturedGraph(runtime.streamEndCapture(stream))

    def instantiate(self, graph: CapturedGraph) -> ExecutableGraph:
        return ExecutableGraph(runtime.graphInstantiate(graph))

    def launch_graph(self, graph: ExecutableGraph, stream: Stream) -> None:
        runtime.graphLaunch(graph, stream)

    def destroy_graph(self, graph: CapturedGraph) -> None:
        runtime.graphDestroy(graph)

    def destroy_executable(self, graph: ExecutableGraph) -> None:
        runtime.graphExecDestroy(graph)

    def create_products(self, stream: Stream, workspace: int, nbytes: int) -> ProductsHandle:
        if self._cublas is None:
            self._cublas = Cublas(ctypes.CDLL(pathfinder.load_nvidia_dynamic_lib("cublas").abs_path))
        return self._cublas, self._cublas.create(stream, workspace, nbytes)

    def multiply(self, handle: ProductsHandle, product: Product, a: int, b: int, c: int) -> None:
        library, number = handle
        library.multiply(number, product, a, b, c)

    def destroy_products(self, handle: ProductsHandle) -> None:
        library, number = handle
        library.destroy(number)

    def unique_id(self) -> bytes:
        return bytes(nccl.get_unique_id())

    def create_rank(self, size: int, unique_id: bytes, rank: int) -> RankHandle:
        return nccl.NcclCommunicator(size, unique_id, rank)

    def create_ranks(self, devices: Sequence[int]) -> list[RankHandle]:
        return list(nccl.NcclCommunicator.initAll(list(devices)))

    def group_start(self) -> None:
        nccl.groupStart()

    def group_end(self) -> None:
        nccl.groupEnd()

    def all_reduce(
        self, rank: RankHandle, source: int, result: int, count: int, dtype: str, reduction: str, stream: Stream
    ) -> None:
        rank.allReduce(source, result, count, NCCL_TYPES[dtype], NCCL_REDUCTIONS[reduction], stream)

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
        rank.reduce(source, result, count, NCCL_TYPES[dtype], NCCL_REDUCTIONS[reduction], root, stream)

    def broadcast(
        self, rank: RankHandle, source: int, result: int, count: int, dtype: str, root: int, stream: Stream
    ) -> None:
        rank.broadcast(source, result, count, NCCL_TYPES[dtype], root, stream)

    def reduce_scatter(
        self, rank: RankHandle, source: int, result: int, count: int, dtype: str, reduction: str, stream: Stream
    ) -> None:
        rank.reduceScatter(source, result, count, NCCL_TYPES[dtype], NCCL_REDUCTIONS[reduction], stream)

    def all_gather(self, rank: RankHandle, source: int, result: int, count: int, dtype: str, stream: Stream) -> None:
        rank.allGather(source, result, count, NCCL_TYPES[dtype], stream)

    def send(self, rank: RankHandle, source: int, count: int, dtype: str, peer: int, stream: Stream) -> None:
        rank.send(source, count, NCCL_TYPES[dtype], peer, stream)

    def receive(self, rank: RankHandle, result: int, count: int, dtype: str, peer: int, stream: Stream) -> None:
        rank.recv(result, count, NCCL_TYPES[dtype], peer, stream)

    def raise_async_error(self, rank: RankHandle) -> None:
        rank.check_async_error()

    def abort_rank(self, rank: RankHandle) -> None:
        rank.abort()

    def destroy_rank(self, rank: RankHandle) -> None:
        rank.destroy()


def _three(sizes: Sequence[int]) -> tuple[int, int, int]:
    x, y, z = (*sizes, 1, 1)[:3]
    return x, y, z


def _done(status: int) -> bool:
    if status != NOT_READY:
        runtime.check_status(status)
    return status != NOT_READY
