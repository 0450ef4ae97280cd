"""Kernels that add or put what integers name: the gradients of `picking`, scatter, index_add, put_along_axis.

No result depends on the order of threads, since a thread makes an element of the result of all that belongs to it, in
the order in which that stands: sums have the same bits every time, and of several values that are put in one place the
last one stays. Slices are found by the ranks of their numbers (`embedding.TableGradient.rank`); along an axis a thread
goes through all numbers of its line. Where no number comes twice, as in what a sort gives, a thread puts a value.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from workbench.cuda.kernels.embedding import MOST_RANKED, table_gradient
from workbench.cuda.kernels.launch import CudaKernel, Launch, blocks_for, written_kernel
from workbench.cuda.kernels.numbers import HALVES, NoKernel
from workbench.cuda.kernels.picking import LOOP, THREADS, launch_of
from workbench.framework.values.dtype import as_dtype

MOST_OUTER_BLOCKS = 65535
ADD, PUT, RENEW, CLEAR = "add", "put", "renew", "clear"
"""What becomes of slices that are named: values are added to them, put in their place, or put there as a sum; or they
become zeros."""

_ADDED = """
      const NUMBER value = number_of(g[VALUE]);
      const NUMBER sum = total + value;
      const NUMBER part = sum - total;
      lost += (total - (sum - part)) + (value - part);
      total = sum;
"""
_WHOLE = """
      total = (NUMBER)(total + (NUMBER)number_of(g[VALUE]));
"""
_SLICES = """
  const long long row = blockIdx.x * (long long)blockDim.y + threadIdx.y;
  if (blockIdx.x == 0 && blockIdx.y == 0 && threadIdx.x == 0 && threadIdx.y == 0 && count > 0)
    if (sorted[0] < 0 || sorted[count - 1] >= height) atomicMax(status, 1);
  if (row >= height) return;
  long long first = 0, end = count;
  while (first < end) {
    const long long middle = (first + end) / 2;
    if (sorted[middle] < row) first = middle + 1; else end = middle;
  }
  for (long long o = blockIdx.y; o < outer; o += gridDim.y)
    for (long long column = threadIdx.x; column < width; column += blockDim.x) {
      const long long at = (o * height + row) * width + column;
      NUMBER total = START, lost = 0;
      for (long long n = first; n < count && sorted[n] == row && row != skipped; ++n) {
        TAKE
      }
      put(y + at, RESULT);
    }
"""
_ALONG = """
    const long long i = n % inner, own = n / inner % height, o = n / inner / height;
    const long long at = n, line = o * count * inner + i;
    NUMBER total = START, lost = 0;
    for (long long j = 0; j < count; ++j) {
      const long long id = ids[line + j * inner];
      if (own == 0 && (id < 0 || id >= height)) atomicMax(status, 1);
      if (id != own) continue;
      TAKE
    }
    put(y + at, RESULT);
  }
"""
_ONCE = """
    const long long i = n % inner, o = n / inner / count, id = ids[n];
    const bool is_there = id >= 0 && id < height;
    if (!is_there) atomicMax(status, 1); else y[(o * height + id) * inner + i] = x[n];
  }
"""


@dataclass(frozen=True)
class SliceKernels:
    """`y`, which is `base` or zeros, with values at the slices that ids name, by two launches.

    Attributes:
        rank: its operands are ids, sorted (int64) and order (int32), both as long as ids.
        put: its operands are g (the values, but for CLEAR), sorted, order, base if there is one, y and status. y may
            be base.
    """

    rank: CudaKernel
    put: CudaKernel

    def launches(
        self, outer: int, height: int, count: int, width: int, skipped: int = -1
    ) -> tuple[Launch, Launch]:  # fmt: skip
        """For `y` as `[outer, height, width]` and values as `[outer, count, width]`; those of `skipped` are not."""
        if count > MOST_RANKED:
            raise NoKernel(f"{count} ids are too many to be ranked, {MOST_RANKED} are not")
        across = 1
        while across < THREADS and across < width:
            across *= 2
        above = THREADS // across
        grid = (-(-height // above) if width else 0, min(outer, MOST_OUTER_BLOCKS), 1)
        rank = Launch((blocks_for(count, THREADS), 1, 1), (THREADS, 1, 1), (np.int64(count),))
        numbers = tuple(map(np.int64, (outer, height, count, width, skipped)))
        return rank, Launch(grid, (across, above, 1), numbers)


@dataclass(frozen=True)
class AlongKernel:
    """`y`, which is `base` or zeros, with values where ids along an axis name its elements.

    Attributes:
        kernel: its operands are g (the values), ids, base if there is one, y and status. y may be base.
    """

    kernel: CudaKernel

    def launch(self, outer: int, height: int, count: int, inner: int) -> Launch:
        """For `y` as `[outer, height, inner]`, ids and values as `[outer, count, inner]`."""
        return launch_of(outer * height * inner, [outer, height, count, inner])


@dataclass(frozen=True)
class OnceKernel:
    """`y[o, ids[o, j, i], i] = x[o, j, i]` where no id comes twice along the axis; all else stays.

    Attributes:
        kernel: its operands are x, ids, y (which is zeros, or what is to stay) and status.
    """

    kernel: CudaKernel

    def launch(self, outer: int, height: int, count: int, inner: int) -> Launch:
        """For sizes as of `AlongKernel`."""
        return launch_of(outer * count * inner, [outer, height, count, inner])


def slice_kernels(dtype: Any, way: str, has_base: bool, ids: Any = "int64") -> SliceKernels:
    """Make the kernels.

    Args:
        way: ADD, the gradient of gather with zeros, index_add and scatter_nd_add with a base; PUT, scatter; RENEW,
            scatter that first empties what is named; CLEAR, what that does first.
        ids: the dtype of the numbers.
    """
    name = as_dtype(dtype).name
    body = _values(_SLICES, name, way, has_base, "(o * count + order[n]) * width + column", "first < count && HERE")
    body = body.replace("HERE", "sorted[first] == row")
    values = [] if way == CLEAR else [("g", name)]
    operands = [*values, ("sorted", "int64"), ("order", "int32"), *_ends(name, has_base)]
    put = written_kernel(f"{way}_slices", operands, "outer height count width skipped", body, THREADS)
    return SliceKernels(table_gradient(_ranked(name), ids).rank, put)


def along_kernel(dtype: Any, way: str, has_base: bool, ids: Any = "int64") -> AlongKernel:
    """Make the kernel: with ADD, and zeros, the gradient of take_along_axis; else put_along_axis."""
    name = as_dtype(dtype).name
    text = LOOP.replace("ALL", "outer * height * inner") + _ALONG
    body = _values(text, name, way, has_base, "line + j * inner", "false")
    operands = [("g", name), ("ids", as_dtype(ids).name), *_ends(name, has_base)]
    return AlongKernel(written_kernel(f"{way}_along", operands, "outer height count inner", body, THREADS))


def once_kernel(dtype: Any, ids: Any = "int64") -> OnceKernel:
    """Make the kernel: the gradients of argsort and top_k."""
    name = as_dtype(dtype).name
    operands = [("x", name), ("ids", as_dtype(ids).name), ("y", name), ("status", "int32")]
    text = LOOP.replace("ALL", "outer * count * inner") + _ONCE
    return OnceKernel(written_kernel("put_once", operands, "outer height count inner", text, THREADS))


def _ends(name: str, has_base: bool) -> list[tuple[str, str]]:
    return [*([("base", name)] if has_base else []), ("y", name), ("status", "int32")]


def _ranked(name: str) -> str:
    """Some dtype a table's gradient may have: ranks do not depend on it."""
    return name if as_dtype(name).is_float else "float32"


def _values(text: str, name: str, way: str, has_base: bool, value: str, is_named: str) -> str:
    """The text for a way, with where values are."""
    is_float = as_dtype(name).is_float
    number = "float" if name in (*HALVES, "float32") else "double" if is_float else "long long"
    base = "(NUMBER)number_of(base[at])" if has_base else "(NUMBER)0"
    take = _ADDED if is_float else _WHOLE
    start, result = base, "lost - lost == 0 ? total + lost : total"
    if way == PUT:
        take, result = "\n      total = (NUMBER)number_of(g[VALUE]);\n", "total"
    if way == CLEAR:
        take, result = "", "total"
    if way in (RENEW, CLEAR):
        start = f"{is_named} ? (NUMBER)0 : {base}"
    pieces = {"TAKE": take, "VALUE": value, "START": start, "RESULT": result, "NUMBER": number}
    for piece, own in pieces.items():
        text = text.replace(piece, own)
    return text
