"""Runs a generated kernel on a simulated GPU: arrays in, arrays out, and what was counted."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

from workbench.cuda.compile import compile_ptx
from workbench.cuda.kernels.launch import CudaKernel, Launch
from workbench.cuda.simulated.memory import AddressSpace
from workbench.cuda.simulated.ptx import Counters, KernelEntry, launch, parse


@cache
def compiled(kernel: CudaKernel) -> KernelEntry:
    """The kernel as the simulator takes it."""
    return parse(compile_ptx(kernel.source))[kernel.name]


def run_kernel(
    kernel: CudaKernel, how: Launch, arrays: Sequence[Any], seed: int = 0, shared: Sequence[int] = ()
) -> tuple[list[np.ndarray[Any, Any]], Counters]:
    """Launch a kernel on copies of arrays; what it is to write may be given as a shape, and is poison before.

    Args:
        arrays: one per operand: an array, or (shape, dtype).
        shared: a number per operand; those with the same number are the same memory.
    """
    memory = AddressSpace(1 << 28)
    addresses, kinds, known = [], [], dict[int, int]()
    for place, array in enumerate(arrays):
        shape, dtype = array if isinstance(array, tuple) else (array.shape, array.dtype)
        nbytes = int(np.prod(shape)) * np.dtype(dtype).itemsize
        own = shared[place] if shared else place
        addresses.append(known[own] if own in known else known.setdefault(own, memory.allocate(nbytes)))
        kinds.append((shape, np.dtype(dtype), nbytes))
        if not isinstance(array, tuple):
            memory.write(addresses[-1], np.ascontiguousarray(array).tobytes())
    counted = launch(
        compiled(kernel), memory, how.grid, how.block, how.arguments(addresses), how.shared_bytes, seed=seed
    )
    after = [
        np.frombuffer(memory.read(a, nbytes), dtype).reshape(shape)
        for a, (shape, dtype, nbytes) in zip(addresses, kinds, strict=True)
    ]
    return after, counted
