"""Kernels of embeddings: rows of a table by ids, and the gradient of the table in one fixed order of sums.

The gradient needs no atomic additions of floats, so its bits do not depend on how a launch goes: one kernel ranks the
ids (equal ones in their order), another one adds up, for every row of the table, what belongs to it. Ranks are found by
comparing every id with every other one, which for the ids of a step is less work than a sort is launches.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from workbench.cuda.kernels.launch import CudaKernel, Launch, blocks_for, written_kernel
from workbench.cuda.kernels.numbers import NoKernel, stored
from workbench.framework.values.dtype import as_dtype

THREADS = 256
MOST_RANKED = 1 << 18
"""More ids than these are for a sort: ranks take the square of their number."""

_LOOK_UP = """
  for (long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x; i < count * width;
       i += gridDim.x * (long long)blockDim.x) {
    const long long id = ids[i / width];
    const bool is_there = id >= 0 && id < height;
    if (!is_there && i % width == 0) atomicMax(status, 1);
    put(y + i, is_there && id != padding ? number_of(table[id * width + i % width]) : (HELD)0);
  }
"""

_RANK = """
  __shared__ long long others[THREADS];
  const long long i = blockIdx.x * (long long)THREADS + threadIdx.x;
  const long long own = i < count ? (long long)ids[i] : 0;
  long long before = 0;
  for (long long begin = 0; begin < count; begin += THREADS) {
    if (begin + threadIdx.x < count) others[threadIdx.x] = ids[begin + threadIdx.x];
    __syncthreads();
    const int here = count - begin < THREADS ? (int)(count - begin) : THREADS;
    for (int n = 0; n < here; ++n) before += others[n] < own || (others[n] == own && begin + n < i);
    __syncthreads();
  }
  if (i < count) {
    sorted[before] = own;
    order[before] = (int)i;
  }
"""

_ADD_UP = """
  const long long row = blockIdx.x;
  long long first = 0, end = count;
  while (first < end) {
    const long long middle = (first + end) / 2;
    if (sorted[middle] < row) first = middle + 1; else end = middle;
  }
  for (long long column = threadIdx.x; column < width; column += THREADS) {
    NUMBER total = 0, lost = 0;
    for (long long n = first; row != padding && n < count && sorted[n] == row; ++n) {
      const NUMBER x = number_of(g[order[n] * width + column]);
      const NUMBER sum = total + x;
      const NUMBER part = sum - total;
      lost += (total - (sum - part)) + (x - part);
      total = sum;
    }
    put(y + (row * width + column), lost - lost == 0 ? total + lost : total);
  }
"""


@dataclass(frozen=True)
class LookUp:
    """`y[i] = table[ids[i]]`, zeros where the id is `padding`.

    Attributes:
        kernel: its operands are table, ids, y and status: an int32 that becomes 1 if an id is no row of the table.
    """

    kernel: CudaKernel

    def launch(self, count: int, height: int, width: int, padding: int = -1) -> Launch:
        """For a count of ids, and the table's height and width."""
        numbers = tuple(map(np.int64, (count, height, width, padding)))
        return Launch((blocks_for(count * width, THREADS), 1, 1), (THREADS, 1, 1), numbers)


@dataclass(frozen=True)
class TableGradient:
    """The gradient of a table, by two launches.

    Attributes:
        rank: its operands are ids, sorted (int64) and order (int32), both as long as ids.
        add_up: its operands are g, sorted, order and y, the gradient of the whole table.
    """

    rank: CudaKernel
    add_up: CudaKernel

    def launches(self, count: int, height: int, width: int, padding: int = -1) -> tuple[Launch, Launch]:
        """Of `rank` and `add_up`, for a count of ids, and the table's height and width."""
        if count > MOST_RANKED:
            raise NoKernel(f"{count} ids are too many to be ranked, {MOST_RANKED} are not")
        block = (THREADS, 1, 1)
        rank = Launch((blocks_for(count, THREADS), 1, 1), block, (np.int64(count),))
        numbers = tuple(map(np.int64, (count, width, padding)))
        return rank, Launch((height if width else 0, 1, 1), block, numbers)


def look_up_kernel(dtype: Any, ids: Any = "int64") -> LookUp:
    """Make the kernel for a table of a dtype, and integers of another."""
    name, own = as_dtype(dtype).name, as_dtype(ids).name
    held = "double" if name == "float64" else "float"
    operands = (("table", name), ("ids", own), ("y", name), ("status", "int32"))
    text = _LOOK_UP.replace("HELD", held if as_dtype(dtype).is_float else stored(name))
    return LookUp(_kernel("look_up", operands, "count height width padding", text))


def table_gradient(dtype: Any, ids: Any = "int64") -> TableGradient:
    """Make the kernels for the gradient of a table; halves are added up in float."""
    name, own = as_dtype(dtype).name, as_dtype(ids).name
    number = "double" if name == "float64" else "float"
    rank = _kernel("rank_ids", (("ids", own), ("sorted", "int64"), ("order", "int32")), "count", _RANK)
    operands = (("g", name), ("sorted", "int64"), ("order", "int32"), ("y", name))
    return TableGradient(
        rank, _kernel("add_up_rows", operands, "count width padding", _ADD_UP.replace("NUMBER", number))
    )


def _kernel(stem: str, operands: tuple[tuple[str, str], ...], numbers: str, text: str) -> CudaKernel:
    return written_kernel(stem, operands, numbers, text.replace("THREADS", str(THREADS)), THREADS)
