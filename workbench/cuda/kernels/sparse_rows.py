"""Kernels of sparse gradients: rows of a table and their numbers, of which a word in memory tells how many there are.

Rows that come several times stand for their sum, which is taken in the order in which they come. Nothing takes time
that depends on how high the table is, and no launch waits for a number: all are made for the most rows there can be.
Merging ranks rows by comparing each number with every other one, as the gradient of a dense table does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from workbench.cuda.kernels.embedding import MOST_RANKED
from workbench.cuda.kernels.launch import CudaKernel, Launch, blocks_for, written_kernel
from workbench.cuda.kernels.numbers import NoKernel
from workbench.framework.values.dtype import as_dtype

THREADS = 256

_LOOP = """
  for (long long n = blockIdx.x * (long long)blockDim.x + threadIdx.x; n < ALL;
       n += gridDim.x * (long long)blockDim.x) {
    const long long i = n / width, column = n % width;
"""
_OF_IDS = """
    const long long id = ids[i];
    if (column == 0) {
      numbers[i] = id;
      if (id < 0 || id >= height) atomicMax(status, 1);
    }
    if (n == 0) counted[0] = count;
    put(values + n, id == padding ? (NUMBER)0 : number_of(g[n]));
  }
"""
_APPEND = """
    const long long count = counted[0], before = is_first ? 0 : to_counted[0];
    if (i >= count) continue;
    if (before + i >= room) { atomicMax(status, 1); continue; }
    if (column == 0) to_numbers[before + i] = numbers[i];
    put(to_values + ((before + i) * width + column), number_of(values[n]));
  }
"""
_COUNT = """
  if (threadIdx.x == 0) to_counted[0] = (is_first ? 0 : to_counted[0]) + counted[0];
"""
_PUT = """
    const long long count = counted[0], number = i < count ? numbers[i] : 0;
    if (count < 0 || count > most || number < 0 || number >= height) { atomicMax(status, 1); continue; }
    if (i < count) put(y + (number * width + column), number_of(values[n]));
  }
"""
_COMPARED = """
  __shared__ long long others[THREADS];
  __shared__ int others_new[THREADS];
  const long long count = counted[0] < most ? counted[0] : most;
  const long long i = blockIdx.x * (long long)THREADS + threadIdx.x, own = i < count ? numbers[i] : 0;
  int before = 0;
  bool is_first = true;
  for (long long begin = 0; begin < count; begin += THREADS) {
    if (begin + threadIdx.x < count) {
      others[threadIdx.x] = numbers[begin + threadIdx.x];
      others_new[threadIdx.x] = OTHER_NEW;
    }
    __syncthreads();
    const int here = count - begin < THREADS ? (int)(count - begin) : THREADS;
    for (int n = 0; n < here; ++n) { COMPARE }
    __syncthreads();
  }
"""
_RANK = """
  if (i < count) {
    sorted[before] = own;
    order[before] = (int)i;
    is_new[i] = is_first;
  }
"""
_PLACE = """
  if (i < count) places[i] = before;
"""
_ADD_UP = """
  const long long count = counted[0] < most ? counted[0] : most, n = blockIdx.x;
  const long long left = count > 0 ? places[order[count - 1]] + 1 : 0;
  if (n == 0 && threadIdx.x == 0) kept[0] = left;
  if (n >= left) {
    if (threadIdx.x == 0) merged[n] = 0;
    for (long long at = n * width + threadIdx.x; at < (n + 1) * width; at += blockDim.x) put(sums + at, (NUMBER)0);
  }
  if (n >= count || (n > 0 && sorted[n - 1] == sorted[n])) return;
  const long long place = places[order[n]], own = sorted[n];
  if (threadIdx.x == 0) merged[place] = own;
  for (long long column = threadIdx.x; column < width; column += blockDim.x) {
    NUMBER total = 0, lost = 0;
    for (long long k = n; k < count && sorted[k] == own; ++k) {
      const NUMBER value = number_of(values[order[k] * width + column]);
      const NUMBER sum = total + value;
      const NUMBER part = sum - total;
      lost += (total - (sum - part)) + (value - part);
      total = sum;
    }
    put(sums + (place * width + column), lost - lost == 0 ? total + lost : total);
  }
"""


@dataclass(frozen=True)
class RowsKernel:
    """A kernel on sparse rows, with a thread for every element; see the function that made it."""

    kernel: CudaKernel

    def launch(self, most: int, width: int, *numbers: int) -> Launch:
        """For so many rows at most; the function tells what numbers it wants besides."""
        given = tuple(np.int64(n) for n in (most, width, *numbers))
        return Launch((blocks_for(most * width, THREADS), 1, 1), (THREADS, 1, 1), given)


@dataclass(frozen=True)
class AppendKernels:
    """Rows put behind those that are there, by two launches.

    Attributes:
        rows: its operands are numbers, values, counted, to_numbers, to_values, to_counted and status.
        count: its operands are counted and to_counted.
    """

    rows: CudaKernel
    count: CudaKernel

    def launches(self, most: int, width: int, room: int, is_first: bool) -> tuple[Launch, Launch]:
        """For rows that are there, or, at the first time, are not; `room`: for so many."""
        rows = RowsKernel(self.rows).launch(most, width, room, int(is_first))
        return rows, Launch((1, 1, 1), (1, 1, 1), (np.int64(is_first),))


@dataclass(frozen=True)
class MergeKernels:
    """Every row once, in ascending order of the numbers, by three launches; behind the last one there are zeros.

    Attributes:
        rank: its operands are numbers, counted, sorted (int64), order and is_new (int32), all but counted as long as
            the most rows.
        place: its operands are numbers, counted, is_new and places (int32).
        add_up: its operands are values, counted, sorted, order, places, merged, sums and kept.
    """

    rank: CudaKernel
    place: CudaKernel
    add_up: CudaKernel

    def launches(self, most: int, width: int) -> tuple[Launch, Launch, Launch]:
        """For so many rows at most."""
        if most > MOST_RANKED:
            raise NoKernel(f"{most} rows are too many to be ranked, {MOST_RANKED} are not")
        compared = Launch((-(-most // THREADS), 1, 1), (THREADS, 1, 1), (np.int64(most),))
        block = (min(THREADS, max(32, 1 << (width - 1).bit_length())), 1, 1)
        return compared, compared, Launch((most, 1, 1), block, (np.int64(most), np.int64(width)))


def gradient_rows_kernel(dtype: Any, ids: Any = "int64") -> RowsKernel:
    """A row of a table's gradient for every id, zeros for the one that is padding (-1: there is none).

    Its operands are ids, g, numbers (int64), values, counted (int64) and status. Launched with the table's height and
    padding; all rows are there.
    """
    name = as_dtype(dtype).name
    operands = [("ids", as_dtype(ids).name), ("g", name), ("numbers", "int64"), ("values", name)]
    operands += [("counted", "int64"), ("status", "int32")]
    return RowsKernel(_kernel("gradient_rows", operands, "count width height padding", _each("count", _OF_IDS), name))


def append_kernels(dtype: Any) -> AppendKernels:
    """Make the kernels for values of a dtype."""
    name = as_dtype(dtype).name
    operands = [("numbers", "int64"), ("values", name), ("counted", "int64"), ("to_numbers", "int64")]
    operands += [("to_values", name), ("to_counted", "int64"), ("status", "int32")]
    rows = _kernel("append_rows", operands, "most width room is_first", _each("most", _APPEND), name)
    counts = [("counted", "int64"), ("to_counted", "int64")]
    return AppendKernels(rows, _kernel("count_rows", counts, "is_first", _COUNT, name))


def merge_kernels(dtype: Any) -> MergeKernels:
    """Make the kernels for values of a dtype."""
    name = as_dtype(dtype).name
    ranks = "before += others[n] < own || (others[n] == own && begin + n < i);"
    ranks += " is_first = is_first && !(others[n] == own && begin + n < i);"
    rank = _COMPARED.replace("OTHER_NEW", "1").replace("COMPARE", ranks) + _RANK
    places = "before += others_new[n] && others[n] < own;"
    place = _COMPARED.replace("OTHER_NEW", "is_new[begin + threadIdx.x]").replace("COMPARE", places) + _PLACE
    rows = [("numbers", "int64"), ("counted", "int64")]
    ranked = [("sorted", "int64"), ("order", "int32")]
    sums = [("places", "int32"), ("merged", "int64"), ("sums", name), ("kept", "int64")]
    return MergeKernels(
        _kernel("rank_rows", [*rows, *ranked, ("is_new", "int32")], "most", rank, name),
        _kernel("place_rows", [*rows, ("is_new", "int32"), ("places", "int32")], "most", place, name),
        _kernel("merge_rows_of", [("values", name), rows[1], *ranked, *sums], "most width", _ADD_UP, name),
    )


def put_rows_kernel(dtype: Any) -> RowsKernel:
    """`y[numbers[i]] = values[i]`, where no number comes twice; all else stays.

    Its operands are values, numbers, counted, y and status. Launched with the height of y.
    """
    name = as_dtype(dtype).name
    operands = [("values", name), ("numbers", "int64"), ("counted", "int64"), ("y", name), ("status", "int32")]
    return RowsKernel(_kernel("place_values", operands, "most width height", _each("most", _PUT), name))


def _each(rows: str, text: str) -> str:
    return _LOOP.replace("ALL", f"{rows} * width") + text


def _kernel(stem: str, operands: Sequence[tuple[str, str]], numbers: str, text: str, dtype: str) -> CudaKernel:
    number = "double" if dtype == "float64" else "float"
    if not as_dtype(dtype).is_float:
        raise NoKernel(f"sparse gradients are of floating numbers, not of {dtype}")
    body = text.replace("THREADS", str(THREADS)).replace("NUMBER", number)
    return written_kernel(stem, operands, numbers, body, THREADS)
