"""Kernels of arrays that follow from numbers: fills, ranges, unit matrices; triangles of matrices; counts of labels.

A thread makes an element. Counts are made by one block: integers add up to the same in any order.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from workbench.cuda.kernels.launch import CudaKernel, Launch, blocks_for, written_kernel
from workbench.cuda.kernels.numbers import converted, held
from workbench.framework.values.dtype import as_dtype

THREADS = 256
COUNTING = 512

_LOOP = """
  for (long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x; i < count;
       i += gridDim.x * (long long)blockDim.x) {
    LINE
  }
"""
_TOTAL = """
  __shared__ long long parts[THREADS];
  long long own = 0;
  for (long long n = threadIdx.x; n < count; n += THREADS) { LINE }
  parts[threadIdx.x] = own;
  __syncthreads();
  for (int apart = THREADS / 2; apart > 0; apart /= 2) {
    if (threadIdx.x < apart) parts[threadIdx.x] += parts[threadIdx.x + apart];
    __syncthreads();
  }
  if (threadIdx.x > 0) return;
  const long long total = parts[0];
  END
"""


@dataclass(frozen=True)
class ArrayKernel:
    """A kernel that makes the elements of an array one by one; see the function that made it.

    Attributes:
        kernel: its last operand is `y`.
    """

    kernel: CudaKernel

    def launch(self, count: int, *numbers: np.generic) -> Launch:
        """For a count of elements; the function tells what numbers it wants."""
        return Launch((blocks_for(count, THREADS), 1, 1), (THREADS, 1, 1), (np.int64(count), *numbers))


@dataclass(frozen=True)
class CountKernel:
    """A kernel that counts; see the function that made it."""

    kernel: CudaKernel

    def launch(self, count: int, number: int) -> Launch:
        """For a count of labels, with the one that is ignored, or how many guesses there are for each."""
        return Launch((1, 1, 1), (COUNTING, 1, 1), (np.int64(count), np.int64(number)))


def fill_kernel(dtype: Any) -> ArrayKernel:
    """`y = value`; launched with the value, an int64 for integers and bool, else a float64."""
    name = as_dtype(dtype).name
    kind = "double" if as_dtype(dtype).is_float else "long long"
    return _array("fill", [("y", name)], f"{'double:' if kind == 'double' else ''}value", _put("value", kind, name))


def range_kernel(dtype: Any) -> ArrayKernel:
    """`y[i] = start + step * i`; launched with start and step, both int64 or both float64 as `fill_kernel` has it."""
    name = as_dtype(dtype).name
    if as_dtype(dtype).is_float:
        return _array("range", [("y", name)], "double:start double:step", _put(_ALONG, "double", name))
    return _array("range", [("y", name)], "start step", _put("start + step * i", "long long", name))


def linear_kernel(dtype: Any) -> ArrayKernel:
    """`y[i] = start + step * i`, and `stop` at the end; launched with start, step and stop, each a float64.

    The step is (stop - start) / (count - 1).
    """
    name = as_dtype(dtype).name
    value = f"i == count - 1 && count > 1 ? stop : {_ALONG}"
    return _array("linear", [("y", name)], "double:start double:step double:stop", _put(value, "double", name))


def unit_kernel(dtype: Any) -> ArrayKernel:
    """`y` as `[rows, columns]`: ones on the main diagonal; launched with columns, an int64."""
    name = as_dtype(dtype).name
    return _array("unit", [("y", name)], "columns", _put("(double)(i / columns == i % columns)", "double", name))


def triangle_kernel(dtype: Any, is_lower: bool) -> ArrayKernel:
    """`y`: the lower or upper triangle of every matrix of `x`, zeros elsewhere.

    Launched with rows, columns, and the diagonal that is the last (or first) one kept, each an int64.
    """
    name = as_dtype(dtype).name
    where = "i % columns - i / columns % rows"
    line = f"put(y + i, {where} {'<=' if is_lower else '>='} diagonal ? number_of(x[i]) : ({held(name)})0);"
    return _array("triangle", [("x", name), ("y", name)], "rows columns diagonal", line)


def label_count_kernel(labels: Any = "int64", dtype: Any = "float32") -> CountKernel:
    """`y`: how many labels are not the ignored one, at least 1. Its operands are label and y."""
    line, end = "own += label[n] != number;", "put(y, (float)(total > 1 ? total : 1));"
    return _count("count_kept", [("label", as_dtype(labels).name), ("y", as_dtype(dtype).name)], line, end)


def accuracy_kernel(labels: Any = "int64") -> CountKernel:
    """In how many rows the label is among the guesses; its operands are indices, label, share, correct and total.

    Indices (int64) are `[rows, guesses]`; the share is a float32, correct and total are int32.
    """
    line = """
    bool is_hit = false;
    for (long long k = 0; k < number; ++k) is_hit = is_hit || indices[n * number + k] == (long long)label[n];
    own += is_hit;
  """
    end = """share[0] = (float)(int)total / (float)(int)(count > 1 ? count : 1);
  correct[0] = (int)total;
  all[0] = (int)count;"""
    operands = [("indices", "int64"), ("label", as_dtype(labels).name), ("share", "float32")]
    return _count("accuracy_of", [*operands, ("correct", "int32"), ("all", "int32")], line, end)


_ALONG = "__dadd_rn(start, __dmul_rn(step, (double)i))"


def _put(value: str, kind: str, dtype: str) -> str:
    source = "float64" if kind == "double" else "int64"
    return f"put(y + i, {converted(f'({value})', source, dtype)});"


def _array(stem: str, operands: list[tuple[str, str]], numbers: str, line: str) -> ArrayKernel:
    return ArrayKernel(written_kernel(stem, operands, f"count {numbers}", _LOOP.replace("LINE", line), THREADS))


def _count(stem: str, operands: list[tuple[str, str]], line: str, end: str) -> CountKernel:
    text = _TOTAL.replace("LINE", line).replace("END", end).replace("THREADS", str(COUNTING))
    return CountKernel(written_kernel(stem, operands, "count number", text, COUNTING))
