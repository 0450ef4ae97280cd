"""Kernels that read what integers name: slices along an axis, entries by coordinates, the class of a label; one-hot.

A thread makes an element of the result. Integers that name nothing read nothing: the result is 0 there, and `status`,
an int32, becomes 1. Gradients are in `scattering`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from workbench.cuda.kernels.launch import CudaKernel, Launch, blocks_for, written_kernel
from workbench.cuda.kernels.numbers import NoKernel, stored
from workbench.framework.values.dtype import as_dtype

THREADS = 256
MOST_COORDINATES = 9

LOOP = """
  for (long long n = blockIdx.x * (long long)blockDim.x + threadIdx.x; n < ALL;
       n += gridDim.x * (long long)blockDim.x) {
"""
_TAKE = """
    const long long i = n % inner, j = n / inner % count, o = n / inner / count;
    const long long id = ids[o * id_outer + j * id_count + i * id_inner];
    const bool is_ignored = ignores && id == ignored, is_there = id >= 0 && id < height;
    if (!is_there && !is_ignored) atomicMax(status, 1);
    y[n] = is_there && !is_ignored ? x[(o * height + id) * inner + i] : STORED();
  }
"""
_PLACE = """
    const long long i = n % inner, own = n / inner % classes, o = n / inner / classes;
    const long long id = ids[o * inner + i];
    if (own == 0 && id != ignored && (id < 0 || id >= classes)) atomicMax(status, 1);
    y[n] = id == own && id != ignored ? x[o * inner + i] : STORED();
  }
"""
_ONE_HOT = """
    const long long id = ids[n / classes], own = n % classes;
    if (own == 0 && !allows && (id < 0 || id >= classes)) atomicMax(status, 1);
    put(y + n, id == own ? 1.0f : 0.0f);
  }
"""


@dataclass(frozen=True)
class TakeKernel:
    """`y[o, j, i] = x[o, ids, i]` of `x` as `[outer, height, inner]`.

    Attributes:
        kernel: its operands are x, ids, y and status.
    """

    kernel: CudaKernel

    def gather(self, outer: int, height: int, count: int, inner: int, ignored: int | None = None) -> Launch:
        """For ids `[count]` that name slices, 0 where ignored: gather, index_select, gather_nd of numbered entries."""
        return self._launch((outer, height, count, inner), (0, 1, 0), ignored)

    def along(self, outer: int, height: int, count: int, inner: int) -> Launch:
        """For ids `[outer, count, inner]`: take_along_axis, and what a pooling's places name."""
        return self._launch((outer, height, count, inner), (count * inner, inner, 1), None)

    def labels(self, outer: int, classes: int, inner: int, ignored: int) -> Launch:
        """For ids `[outer, inner]` of classes, 0 where ignored: pick_label."""
        return self._launch((outer, classes, 1, inner), (inner, 0, 1), ignored)

    def _launch(self, sizes: Sequence[int], strides: Sequence[int], ignored: int | None) -> Launch:
        outer, _, count, inner = sizes
        numbers = [*sizes, *strides, ignored is not None, ignored or 0]
        return launch_of(outer * count * inner, numbers)


@dataclass(frozen=True)
class PlaceKernel:
    """`y[o, ids[o, i], i] = x[o, i]`, all else 0; nothing where ignored: place_label.

    Attributes:
        kernel: its operands are x, ids, y and status.
    """

    kernel: CudaKernel

    def launch(self, outer: int, classes: int, inner: int, ignored: int) -> Launch:
        return launch_of(outer * classes * inner, [outer, classes, inner, ignored])


@dataclass(frozen=True)
class OneHotKernel:
    """`y[n, ids[n]] = 1`, all else 0.

    Attributes:
        kernel: its operands are ids, y and status.
    """

    kernel: CudaKernel

    def launch(self, count: int, classes: int, allow_out_of_range: bool = False) -> Launch:
        return launch_of(count * classes, [count, classes, allow_out_of_range])


@dataclass(frozen=True)
class NumberKernel:
    """The number of every entry whose coordinates are a row of `index`, in row-major order; -1 where there is none.

    Attributes:
        kernel: its operands are index, ids (int64) and status.
    """

    kernel: CudaKernel

    def launch(self, count: int, sizes: Sequence[int]) -> Launch:
        """For a count of entries, in dimensions of these sizes."""
        return launch_of(count, [count, *sizes])


def take_kernel(dtype: Any, ids: Any = "int64") -> TakeKernel:
    """Make the kernel for elements of a dtype, and integers of another."""
    numbers = "outer height count inner id_outer id_count id_inner ignores ignored"
    return TakeKernel(_kernel("take", _operands(dtype, ids), numbers, "outer * count * inner", _TAKE))


def place_kernel(dtype: Any, ids: Any = "int64") -> PlaceKernel:
    """Make the kernel for elements of a dtype, and integers of another."""
    numbers, count = "outer classes inner ignored", "outer * classes * inner"
    return PlaceKernel(_kernel("place", _operands(dtype, ids), numbers, count, _PLACE))


def one_hot_kernel(dtype: Any = "float32", ids: Any = "int64") -> OneHotKernel:
    """Make the kernel for vectors of a dtype, and integers of another."""
    operands = _operands(dtype, ids)[1:]
    return OneHotKernel(_kernel("one_of_classes", operands, "count classes allows", "count * classes", _ONE_HOT))


def number_kernel(depth: int, ids: Any = "int64") -> NumberKernel:
    """Make the kernel for rows of as many coordinates.

    Raises:
        NoKernel: they are too many.
    """
    if depth > MOST_COORDINATES:
        raise NoKernel(f"entries have {MOST_COORDINATES} coordinates at most, not {depth}")
    lines = ["    long long number = 0;", "    bool is_there = true;"]
    for d in range(depth):
        lines.append(f"    const long long at{d} = index[n * {depth} + {d}];")
        lines.append(f"    is_there = is_there && at{d} >= 0 && at{d} < size{d};")
        lines.append(f"    number = number * size{d} + at{d};")
    lines += ["    if (!is_there) atomicMax(status, 1);", "    ids[n] = is_there ? number : -1;", "  }", ""]
    operands = [("index", as_dtype(ids).name), ("ids", "int64"), ("status", "int32")]
    numbers = " ".join(["count", *(f"size{d}" for d in range(depth))])
    return NumberKernel(_kernel("number_entries", operands, numbers, "count", "\n".join(lines)))


def launch_of(count: int, numbers: Sequence[int]) -> Launch:
    """A launch with a thread for each of a count of elements."""
    return Launch((blocks_for(count, THREADS), 1, 1), (THREADS, 1, 1), tuple(np.int64(n) for n in numbers))


def _operands(dtype: Any, ids: Any) -> list[tuple[str, str]]:
    name = as_dtype(dtype).name
    return [("x", name), ("ids", as_dtype(ids).name), ("y", name), ("status", "int32")]


def _kernel(stem: str, operands: Sequence[tuple[str, str]], numbers: str, count: str, text: str) -> CudaKernel:
    kinds = dict(operands)
    body = LOOP.replace("ALL", count) + text
    if "STORED" in body:
        body = body.replace("STORED", "element")
        body = f"\n  typedef {stored(kinds['y'])} element;{body}"
    return written_kernel(stem, operands, numbers, body, THREADS)
