"""A GPU as executors see it: streams, kernels by their source, products, copies; the same object for all of them."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from workbench.cuda import open_driver
from workbench.cuda.devices.mirrors import Mirrors, Side
from workbench.cuda.driver import CudaDriver, CudaOutOfMemory, Product
from workbench.cuda.kernels.launch import CudaKernel, Launch
from workbench.errors import InvalidArgument, NoMemory, Unavailable
from workbench.framework.notice import say
from workbench.framework.values.place import CUDAPlace, Place
from workbench.runtime.arena import Arena
from workbench.runtime.devices import register_device, simulated_gpus

_WORKSPACE = 1 << 16  # bytes for products of matrices


class GPU(Side):
    """One device of a driver.

    Attributes:
        place, grows_by_use: see `runtime.device.Device`.
        exchange: the stream where collectives run. mirrors: what stands on the device for memory of the host.
    """

    grows_by_use = False

    def __init__(self, driver: CudaDriver, index: int) -> None:
        driver.set_device(index)
        super().__init__(driver, index, driver.create_stream())
        self.place: Place = CUDAPlace(index)
        self.exchange = driver.create_stream()
        self.mirrors = Mirrors(self)
        self._functions: dict[str, Any] = {}
        self._products: Any = None

    def function(self, kernel: CudaKernel) -> Any:
        """A kernel, compiled for this device and loaded there; compiled once for all who ask."""
        function = self._functions.get(kernel.source)
        if function is None:
            self.use()
            module = self.driver.load_module(kernel.source)
            function = self._functions[kernel.source] = self.driver.get_function(module, kernel.name)
        return function

    def launch(self, function: Any, how: Launch, args: Sequence[np.generic | int]) -> None:
        """Give a kernel to the stream; the device is the current one."""
        self.driver.launch(function, how.grid, how.block, args, how.shared_bytes, self.stream)

    def multiply(self, product: Product, a: int, b: int, c: int) -> None:
        """Give a product of matrices to the stream, likewise."""
        self.driver.multiply(self._handle(), product, a, b, c)

    def _handle(self) -> Any:
        if self._products is None:
            workspace = self.driver.allocate(_WORKSPACE)
            self._products = self.driver.create_products(self.stream, workspace, _WORKSPACE)
        return self._products

    def prepare_products(self) -> None:
        """Have everything at hand for `multiply`, which may then be captured."""
        self.use()
        self._handle()

    def allocate(self, nbytes: int) -> GPUArena:
        """Memory for temporaries, on the device and, as far as the host looks at it, here.

        Raises:
            NoMemory: the device has not that much left.
        """
        return GPUArena(self, nbytes)


class GPUArena:
    """Memory of the host that takes up room only where the host looks at it, and its mirror on a device.

    Raises:
        NoMemory: the device has not that much left.
    """

    def __init__(self, gpu: GPU, nbytes: int) -> None:
        self._host = Arena(nbytes)
        gpu.mirrors.of_memory(self._host.address, nbytes, self._host.pages)

    @property
    def nbytes(self) -> int:
        """Its size."""
        return self._host.nbytes

    @property
    def resident(self) -> int:
        """Bytes that take up memory at this moment: those of the device, and what the host has looked at."""
        return self._host.nbytes + self._host.resident

    def array(
        self, offset: int, shape: Sequence[int], dtype: DTypeLike, strides: Sequence[int] | None = None
    ) -> np.ndarray[Any, Any]:
        """A view of the host's memory, which stands for the device's at the same place."""
        return self._host.array(offset, shape, dtype, strides)

    def release(self) -> int:
        """Give the host's memory back; what the device has stays."""
        return self._host.release()


_lock = threading.Lock()
_opened: dict[tuple[int, int], GPU] = {}


def open_gpu(index: int) -> GPU:
    """The GPU of a number, of the driver that the flags choose.

    Raises:
        Unavailable: there is none that can be used. InvalidArgument: there are fewer.
    """
    driver = open_driver()
    with _lock:
        gpu = _opened.get((id(driver), index))
        if gpu is None:
            count = driver.device_count()
            if index >= count:
                raise InvalidArgument(f"CUDAPlace({index})\n  expected: a number below {count}\n  got:      {index}")
            gpu = _opened[id(driver), index] = _made(driver, index)
        return gpu


_UNCONFIRMED = (
    "workbench: programs on GPUs have been proved on simulated devices alone; compare the first losses with those of "
    "use_cuda=False"
)


def _made(driver: CudaDriver, index: int) -> GPU:
    if not simulated_gpus():
        say(_UNCONFIRMED)
    try:
        return GPU(driver, index)
    except CudaOutOfMemory as error:
        raise NoMemory(f"GPU {index} has no memory for its streams: {error}") from error
    except ImportError as error:
        raise Unavailable(f"CuPy cannot be imported: {error}") from error


register_device(CUDAPlace.kind, open_gpu)
