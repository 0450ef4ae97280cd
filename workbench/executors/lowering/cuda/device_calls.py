"""Calls that give work to a device, and what makes them: addresses of the device for arrays of the host."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from workbench.cuda.devices.gpu import GPU, GPUArena
from workbench.cuda.driver import Product
from workbench.cuda.kernels.launch import CudaKernel, Launch
from workbench.executors.lowering.cuda.statuses import Statuses
from workbench.executors.lowering.operands import Call, Scratch
from workbench.executors.lowering.tape.vector_code import Unsuitable
from workbench.executors.planning.plan import Row
from workbench.runtime.native.tape import Pointer, pointer


class KernelLaunch:
    """A kernel on certain memory."""

    def __init__(self, gpu: GPU, kernel: CudaKernel, how: Launch, addresses: Sequence[int]) -> None:
        self._gpu, self._how = gpu, how
        self._function, self._args = gpu.function(kernel), how.arguments(addresses)

    def __call__(self) -> None:
        self._gpu.launch(self._function, self._how, self._args)


class ProductLaunch:
    """A product of matrices in certain memory."""

    def __init__(self, gpu: GPU, product: Product, a: int, b: int, c: int) -> None:
        self._gpu, self._product, self._places = gpu, product, (a, b, c)

    def __call__(self) -> None:
        self._gpu.multiply(self._product, *self._places)


class MemoryCopy:
    """Bytes of the device, copied within it."""

    def __init__(self, gpu: GPU, target: int, source: int, nbytes: int) -> None:
        self._gpu, self._words = gpu, (target, source, nbytes)

    def __call__(self) -> None:
        self._gpu.driver.copy_on_device(*self._words, self._gpu.stream)


class MemoryFill:
    """Bytes of the device, all set to one."""

    def __init__(self, gpu: GPU, address: int, byte: int, nbytes: int) -> None:
        self._gpu, self._words = gpu, (address, byte, nbytes)

    def __call__(self) -> None:
        self._gpu.driver.fill(*self._words, self._gpu.stream)


class DeviceScratch(Scratch):
    """Memory of a device for the temporaries of rows, which all rows share."""

    def __init__(self, gpu: GPU) -> None:
        super().__init__()
        self._gpu = gpu
        self._arenas: list[GPUArena] = []

    def _chunk(self, nbytes: int) -> np.ndarray:
        self._arenas.append(self._gpu.allocate(nbytes))
        return self._arenas[-1].array(0, (nbytes,), np.uint8)


class Constants:
    """What stands for a tape: the numbers that rows point to beside their operands."""

    def __init__(self) -> None:
        self.kept: list[np.ndarray] = []

    def keep(self, array: np.ndarray) -> np.ndarray:
        """The array, which lives as long as the rows from now on."""
        self.kept.append(array)
        return array

    def number(self, x: Any, dtype: Any = np.float32) -> np.ndarray:
        """A number in memory as an operand."""
        return self.keep(np.full((1,), x, dtype))


class LaunchMaker:
    """Makes the calls for rows of one device.

    Args:
        scratch: memory rows share. statuses: where kernels say that a number names nothing.
    """

    def __init__(self, gpu: GPU, scratch: DeviceScratch, statuses: Statuses) -> None:
        self.gpu, self.scratch, self._statuses = gpu, scratch, statuses
        self.tape = Constants()
        self._row: Row | None = None

    def temporary(self, shape: Sequence[int], dtype: Any = np.float32) -> np.ndarray:
        """Memory of the device for use until the end of the row of the plan."""
        return self.scratch(shape, dtype)

    def at(self, word: Any) -> int:
        """The device's address for an array of the host, or for a pointer into one."""
        where = word if type(word) is Pointer else pointer(word)
        mirror = self.gpu.mirrors.find(where.address)
        if mirror is None:
            mirror = self._mirror_of_constant(where)
        return mirror.at(where.address)

    def _mirror_of_constant(self, where: Pointer) -> Any:
        owner = next((a for a in self.tape.kept if pointer(a).begin <= where.address < pointer(a).end), None)
        if owner is None:
            raise Unsuitable
        mirror = self.gpu.mirrors.of_array(owner)
        self.gpu.staging.upload(mirror.address, mirror.base, mirror.nbytes, self.gpu.stream)
        return mirror

    def status_at(self, is_used: bool = True) -> int:
        """The address of a word in which a kernel of the current row says that a number names nothing."""
        assert self._row is not None
        return self.at(self._statuses.word_of(self._row) if is_used else self._statuses.spare)

    def launch(self, kernel: CudaKernel, how: Launch, addresses: Sequence[int]) -> list[Call]:
        """The launch of a kernel; none where there is nothing to do."""
        return [] if how.is_empty else [KernelLaunch(self.gpu, kernel, how, addresses)]

    def copy(self, target: int, source: int, nbytes: int) -> Call:
        """Bytes, copied within the device."""
        return MemoryCopy(self.gpu, target, source, nbytes)

    def fill(self, address: int, byte: int, nbytes: int) -> Call:
        """Bytes, all set to one."""
        return MemoryFill(self.gpu, address, byte, nbytes)

    def product(self, product: Product, a: int, b: int, c: int) -> Call:
        """A product of matrices."""
        self.gpu.prepare_products()
        return ProductLaunch(self.gpu, product, a, b, c)
