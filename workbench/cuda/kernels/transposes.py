"""Kernels that move elements: transposes by tiles in shared memory, and copies where the last dimension stays.

A transpose reads along the dimension in which the source lies together and writes along the last one of the result.
A tile of 32 x 32 elements lies between, with a column too many: so no two lanes meet in a bank.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from workbench.cuda.kernels.elementwise import Iteration, dense_strides, iteration
from workbench.cuda.kernels.launch import CudaKernel, Launch, blocks_for, named
from workbench.cuda.kernels.numbers import NoKernel
from workbench.framework.values.dtype import as_dtype

TILE, ROWS = 32, 8
THREADS = 256
_WORDS = {1: "unsigned char", 2: "unsigned short", 4: "unsigned int", 8: "unsigned long long"}


@dataclass(frozen=True)
class MoveKernel:
    """A kernel that copies an array of any strides to a dense one.

    Attributes:
        kernel: its operands are `x` and `y`. rank: of the dimensions it was made for.
        turned: the dimension along which it reads, None where it is the last one, or none.
    """

    kernel: CudaKernel
    rank: int
    turned: int | None

    def launch(self, one: Iteration) -> Launch:
        """For dimensions, joined as `iteration` does, with the strides of source and result."""
        if (len(one.shape), _turned(one)) != (self.rank, self.turned):
            raise NoKernel("the dimensions are others than those the kernel was made for")
        source, result = one.strides
        numbers = [np.int64(n) for n in (*one.shape, *source, *result)]
        if self.turned is None:
            blocks = blocks_for(one.elements, THREADS)
            return Launch((blocks, 1, 1), (THREADS, 1, 1), tuple(numbers))
        tiles = -(-one.shape[self.turned] // TILE) * -(-one.shape[-1] // TILE)
        others = prod(n for d, n in enumerate(one.shape) if d not in (self.turned, self.rank - 1))
        return Launch((tiles * others, 1, 1), (TILE, ROWS, 1), tuple(numbers))


def transposed(shape: Sequence[int], permutation: Sequence[int]) -> Iteration:
    """The dimensions of a transpose of a dense array."""
    return strided_copy([shape[p] for p in permutation], [dense_strides(shape)[p] for p in permutation])


def strided_copy(shape: Sequence[int], strides: Sequence[int]) -> Iteration:
    """The dimensions of a copy to a dense array."""
    one = iteration(shape, [strides, dense_strides(shape)])
    return one if one.shape else Iteration((1,), ((0,), (1,)))


def move_kernel(dtype: Any, one: Iteration) -> MoveKernel:
    """Make a kernel for elements of a dtype; it serves all sizes of as many dimensions that are turned alike."""
    turned, rank, item = _turned(one), len(one.shape), as_dtype(dtype).itemsize
    body = _copy_text(rank) if turned is None else _tile_text(rank, turned, item)
    names = [f"{letter}{d}" for letter in "nsr" for d in range(rank)]
    given = ", ".join([f"const {_WORDS[item]}* x", f"{_WORDS[item]}* y", *(f"long long {n}" for n in names)])
    threads = THREADS if turned is None else TILE * ROWS
    entry = named("copy" if turned is None else "transpose", given + body)
    head = f'extern "C" __global__ void __launch_bounds__({threads}) {entry}({given}) {{\n'
    name = as_dtype(dtype).name
    source = f"typedef {_WORDS[item]} element;\n{head}{body}}}\n"
    return MoveKernel(CudaKernel(entry, source, (("x", name), ("y", name))), rank, turned)


def _turned(one: Iteration) -> int | None:
    """The dimension in which the source lies together, if it is not the last one."""
    source = one.strides[0]
    return None if source[-1] == 1 or 1 not in source else source.index(1)


def _places(dims: Sequence[int], indent: str) -> list[str]:
    """What is left in `rest` as places `at` in some dimensions."""
    lines = []
    for d in reversed(dims):
        lines += [f"{indent}const long long at{d} = rest % n{d};", f"{indent}rest /= n{d};"]
    return lines


def _sum(letter: str, dims: Sequence[int]) -> str:
    return " + ".join(f"at{d} * {letter}{d}" for d in dims) or "0"


def _copy_text(rank: int) -> str:
    dims = range(rank)
    lines = [
        f"  const long long count = {' * '.join(f'n{d}' for d in dims)};",
        "  for (long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x; i < count;",
        "       i += gridDim.x * (long long)blockDim.x) {",
        "    long long rest = i;",
        *_places(dims, "    "),
        f"    y[{_sum('r', dims)}] = x[{_sum('s', dims)}];",
        "  }",
    ]
    return "\n".join(lines) + "\n"


def _tile_text(rank: int, turned: int, item: int) -> str:
    """Elements shorter than a bank lie in words of a bank: side by side they would meet in one."""
    last, others = rank - 1, [d for d in range(rank - 1) if d != turned]
    lines = [
        f"  __shared__ {_WORDS[max(item, 4)]} tile[{TILE}][{TILE + 1}];",
        "  long long rest = blockIdx.x;",
        f"  const long long across = (n{last} + {TILE - 1}) / {TILE}, along = (n{turned} + {TILE - 1}) / {TILE};",
        f"  const long long column = rest % across * {TILE};",
        "  rest /= across;",
        f"  const long long row = rest % along * {TILE};",
        "  rest /= along;",
        *_places(others, "  "),
        f"  const element* from = x + {_sum('s', others)};",
        f"  element* to = y + {_sum('r', others)};",
        f"  for (int n = threadIdx.y; n < {TILE}; n += {ROWS})",
        f"    if (row + threadIdx.x < n{turned} && column + n < n{last})",
        f"      tile[n][threadIdx.x] = from[row + threadIdx.x + (column + n) * s{last}];",
        "  __syncthreads();",
        f"  for (int n = threadIdx.y; n < {TILE}; n += {ROWS})",
        f"    if (row + n < n{turned} && column + threadIdx.x < n{last})",
        f"      to[(row + n) * r{turned} + (column + threadIdx.x) * r{last}] = (element)tile[threadIdx.x][n];",
    ]
    return "\n".join(lines) + "\n"
