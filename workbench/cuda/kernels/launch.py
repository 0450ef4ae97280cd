"""What a generated kernel is: its source, and for given sizes the geometry of a launch with its arguments.

A kernel takes the addresses of its operands first, then the numbers that a launch adds. Nothing here knows a driver.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from workbench.cuda.kernels.numbers import PREAMBLE, stored

MOST_BLOCKS = 65536
"""Blocks of a launch whose threads go on with further elements: enough for any GPU there is."""


@dataclass(frozen=True)
class CudaKernel:
    """A kernel.

    Attributes:
        name: of its function in the source.
        source: CUDA C++, complete.
        operands: what each address points to, as (name, dtype), in the order of the arguments.
    """

    name: str
    source: str
    operands: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Launch:
    """How a kernel is launched for certain sizes.

    Attributes:
        numbers: the arguments behind the addresses.
    """

    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    numbers: tuple[np.generic, ...] = ()
    shared_bytes: int = 0

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to do; CUDA refuses a launch without blocks."""
        return 0 in self.grid

    def arguments(self, addresses: Sequence[int]) -> list[int | np.generic]:
        """All arguments, for the operands' addresses in order."""
        return [*addresses, *self.numbers]


def blocks_for(count: int, per_block: int, most: int = MOST_BLOCKS) -> int:
    """How many blocks cover a count of elements, or begin to."""
    return min(-(-count // per_block), most)


def named(stem: str, body: str) -> str:
    """The name of a kernel with a certain text: different texts have different names."""
    plain = "".join(c if c.isalnum() else "_" for c in stem)
    return f"{plain}_{hashlib.sha256(body.encode()).hexdigest()[:8]}"


def written_kernel(
    stem: str, operands: Sequence[tuple[str, str]], numbers: str, text: str, threads: int, head: str = ""
) -> CudaKernel:
    """A kernel written by hand.

    Args:
        numbers: names of what a launch adds, in order; integers, or of another type where one stands before a colon.
        text: the body of the function. threads: of a block at most. head: what the source has before the function.
    """
    parameters = [f"{stored(dtype)}* {name}" for name, dtype in operands]
    for number in numbers.split():
        kind, _, name = number.rpartition(":")
        parameters.append(f"{kind or 'long long'} {name}")
    given = ", ".join(parameters)
    entry = named(stem, head + given + text)
    function = f'extern "C" __global__ void __launch_bounds__({threads}) {entry}({given}) {{{text}}}\n'
    return CudaKernel(entry, f"{PREAMBLE}{head}\n{function}", tuple(operands))
