"""A bare simulated device for tests of kernels: arrays go in, a kernel runs, arrays come out."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import numpy as np

from workbench.cuda.compile import compile_ptx
from workbench.cuda.simulated.memory import AddressSpace
from workbench.cuda.simulated.ptx import Counters, PtxModule, launch, parse


@functools.cache
def module_of(source: str, architecture: str = "compute_80") -> PtxModule:
    return parse(compile_ptx(source, architecture))


class Device:
    """Runs kernels of one source; arrays among the arguments are copied in and, afterwards, back."""

    def __init__(self, source: str, architecture: str = "compute_80") -> None:
        self.module = module_of(source, architecture)
        self.memory = AddressSpace(1 << 28)

    def place(self, values: np.ndarray) -> int:
        address = self.memory.allocate(values.nbytes)
        self.memory.write(address, values)
        return address

    def run(
        self,
        entry: str,
        grid: Sequence[int],
        block: Sequence[int],
        args: Sequence[object],
        shared_bytes: int = 0,
        **how: object,
    ) -> Counters:
        """Launch a kernel; contiguous arrays among `args` hold the device's bytes afterwards."""
        placed = [(self.place(arg), arg) for arg in args if isinstance(arg, np.ndarray)]
        addresses = iter(address for address, _ in placed)
        given = [next(addresses) if isinstance(arg, np.ndarray) else arg for arg in args]
        counters = launch(self.module[entry], self.memory, grid, block, given, shared_bytes, **how)  # type: ignore[arg-type]
        for address, array in placed:
            array[...] = np.frombuffer(self.memory.read(address, array.nbytes), array.dtype).reshape(array.shape)
            self.memory.free(address)
        return counters
