"""Kernels of pooling: maxima and averages over windows of images, and their gradients without atomic additions.

Images are `[outer, height, width, inner]`: channels first are `outer`, channels last are `inner`. A thread, or a warp
where windows are large, makes a result; in a gradient a thread takes the windows that hold its entry one after the
other, always in the same order. The gradient of maxima needs to know where each maximum was: a launch of its own tells,
or pooling that tells it with the maxima. Averages over whole images are sums over dimensions with a divisor.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from workbench.cuda.kernels.elementwise import MOST_NARROW
from workbench.cuda.kernels.launch import CudaKernel, Launch, blocks_for, written_kernel
from workbench.cuda.kernels.numbers import NoKernel, held
from workbench.framework.values.dtype import as_dtype

THREADS = 256
WARP = 32
MOST_OUTER_BLOCKS = 65535
LARGE = 64
"""Entries of a window from which on a warp shares them."""


class PooledAxis(NamedTuple):
    """Height or width, and the windows on it.

    Attributes:
        size: entries. windows: how many. pads: before and after; of bins only size and windows matter.
    """

    size: int
    windows: int
    kernel: int = 1
    stride: int = 1
    pads: tuple[int, int] = (0, 0)

    def numbers(self) -> list[np.generic]:
        return [np.int32(n) for n in (self.size, self.windows, self.kernel, self.stride, *self.pads)]


class Pooling(NamedTuple):
    """The sizes of one pooling.

    Attributes:
        is_adaptive: windows are bins that cover the image, and not all of one size.
        exclusive: averages leave padding out.
    """

    outer: int
    inner: int
    height: PooledAxis
    width: PooledAxis
    is_adaptive: bool = False
    exclusive: bool = True

    @property
    def entries(self) -> int:
        """Of an image, with its inner dimension."""
        return self.height.size * self.width.size * self.inner

    @property
    def results(self) -> int:
        """PooledAxis of an image, with its inner dimension."""
        return self.height.windows * self.width.windows * self.inner

    @property
    def team(self) -> int:
        """Threads that share a window."""
        sizes = [
            -(-w.size // w.windows) if self.is_adaptive else w.kernel for w in (self.height, self.width) if w.windows
        ]
        return WARP if self.inner == 1 and np.prod(sizes) >= LARGE else 1


_AXES = r"""
struct Axis { int size, count, kernel, stride, before, after; };
struct Span { int begin, end, counted; };
"""
_SLIDING = r"""
// The entries of a window, and how many an average counts.
__device__ __forceinline__ Span span_of(const Axis& a, int i, bool exclusive) {
  const int start = i * a.stride - a.before, begin = start > 0 ? start : 0;
  const int end = start + a.kernel < a.size ? start + a.kernel : a.size, padded = a.size + a.after;
  const int last = start + a.kernel < padded ? start + a.kernel : padded;
  return Span{begin, end, exclusive ? end - begin : last - start};
}
// The windows that hold an entry.
__device__ __forceinline__ Span windows_of(const Axis& a, int at) {
  const int over = at + a.before - a.kernel, last = (at + a.before) / a.stride + 1;
  return Span{over < 0 ? 0 : over / a.stride + 1, last < a.count ? last : a.count, 0};
}
"""
_ADAPTIVE = r"""
__device__ __forceinline__ Span span_of(const Axis& a, int i, bool) {
  const long long size = a.size;
  const int begin = (int)(i * size / a.count), end = (int)(((i + 1) * size + a.count - 1) / a.count);
  return Span{begin, end, end - begin};
}
__device__ __forceinline__ Span windows_of(const Axis& a, int at) {
  const long long count = a.count;
  return Span{(int)(at * count / a.size), (int)(((at + 1) * count - 1) / a.size) + 1, 0};
}
"""
_AXIS_NUMBERS = "size count kernel stride before after"
_NUMBERS = " ".join(
    ["outer inner", *(f"int:{axis}_{n}" for axis in "hw" for n in _AXIS_NUMBERS.split()), "int:exclusive"]
)
_BEGIN = """
  const Axis h = {h_size, h_count, h_kernel, h_stride, h_before, h_after};
  const Axis w = {w_size, w_count, w_kernel, w_stride, w_before, w_after};
  const unsigned int depth = (unsigned int)inner, entries = (unsigned int)h_size * (unsigned int)w_size * depth;
  const unsigned int results = (unsigned int)h_count * (unsigned int)w_count * depth;
  for (long long o = blockIdx.y * blockDim.y + threadIdx.y; o < outer; o += gridDim.y * blockDim.y)
"""
_RESULTS = """
    for (unsigned int n = (blockIdx.x * blockDim.x + threadIdx.x) / TEAM; n < results;
         n += gridDim.x * blockDim.x / TEAM) {
      const unsigned int window = n / depth, i = n % depth, lane = threadIdx.x % TEAM;
      const Span rows = span_of(h, window / w.count, exclusive), columns = span_of(w, window % w.count, exclusive);
"""
_EACH = """
      for (int row = rows.begin; row < rows.end; ++row)
        for (int column = columns.begin; column < columns.end; ++column) {
          const int place = row * w.size + column;
"""
_SHARED = """
      const int across = columns.end - columns.begin, all = (rows.end - rows.begin) * across;
      { for (int k = lane; k < all; k += TEAM) {
          const int place = (rows.begin + k / across) * w.size + columns.begin + k % across;
"""
_MAXIMA = """
      NUMBER best = 0;
      int where = -1;
      EACH
          const NUMBER x_here = number_of(x[o * entries + (place * depth + i)]);
          if (where < 0 || x_here > best || (x_here != x_here && best == best)) { best = x_here; where = place; }
        }
      ENOUGH
      for (int apart = TEAM / 2; apart > 0; apart /= 2) {
        const NUMBER other = (NUMBER)__shfl_xor_sync(0xffffffffu, best, apart);
        const int there = __shfl_xor_sync(0xffffffffu, where, apart);
        const bool is_same = other == best || (other != other && best != best);
        const bool is_more = other > best || (other != other && best == best);
        if (there >= 0 && (where < 0 || is_more || (is_same && there < where))) { best = other; where = there; }
      }
      if (lane == 0) { WRITE }
    }
"""
_AVERAGES = """
      NUMBER total = 0;
      EACH
          total += number_of(x[o * entries + (place * depth + i)]);
        }
      ENOUGH
      for (int apart = TEAM / 2; apart > 0; apart /= 2) total += __shfl_xor_sync(0xffffffffu, total, apart);
      if (lane == 0) put(y + (o * results + n), total / ((NUMBER)rows.counted * (NUMBER)columns.counted));
    }
"""
_SPREAD = """
    for (unsigned int n = blockIdx.x * blockDim.x + threadIdx.x; n < entries; n += gridDim.x * blockDim.x) {
      const unsigned int place = n / depth, i = n % depth;
      const Span rows = windows_of(h, place / w.size), columns = windows_of(w, place % w.size);
      NUMBER total = 0;
      for (int row = rows.begin; row < rows.end; ++row)
        for (int column = columns.begin; column < columns.end; ++column) {
          const long long at = o * results + ((row * w.count + column) * depth + i);
          SHARE
        }
      put(y + (o * entries + n), total);
    }
"""
_SHARE_OF_AVERAGE = """
          const int high = span_of(h, row, exclusive).counted, wide = span_of(w, column, exclusive).counted;
          total += number_of(g[at]) / ((NUMBER)high * (NUMBER)wide);
"""
_SHARE_OF_MAXIMUM = "if (places[at] == (int)place) total += number_of(g[at]);"


@dataclass(frozen=True)
class PoolKernel:
    """A kernel of pooling.

    Attributes:
        kernel: see the function that made it. team: threads that share what is written. of_entries: it writes images.
    """

    kernel: CudaKernel
    is_adaptive: bool
    team: int
    of_entries: bool

    def launch(self, one: Pooling) -> Launch:
        """For sizes with bins or sliding windows, and large or small ones, as those it was made for."""
        if one.is_adaptive != self.is_adaptive or (not self.of_entries and one.team != self.team):
            raise NoKernel("the windows are of another kind than those the kernel was made for")
        if max(one.entries, one.results) >= MOST_NARROW:
            raise NoKernel("images of so many entries are not pooled by one launch")
        count = (one.entries if self.of_entries else one.results) * self.team
        across = WARP
        while across < THREADS and across < count:
            across *= 2
        above = THREADS // across
        grid = (blocks_for(count, across), blocks_for(one.outer, above, MOST_OUTER_BLOCKS), 1)
        numbers = [np.int64(one.outer), np.int64(one.inner), *one.height.numbers(), *one.width.numbers()]
        return Launch(grid, (across, above, 1), (*numbers, np.int32(one.exclusive)))


def max_pool_kernel(dtype: Any, one: Pooling, has_values: bool = True, has_places: bool = False) -> PoolKernel:
    """Maxima `y`, NaN if there is one, and `places` (int32): where each was in its plane, the first of equal ones.

    Its operands are x, and y and places as far as they are wanted.
    """
    name = as_dtype(dtype).name
    operands = [("x", name), *([("y", name)] if has_values else []), *([("places", "int32")] if has_places else [])]
    writes = ["put(y + (o * results + n), best);"] if has_values else []
    writes += ["places[o * results + n] = where;"] if has_places else []
    return _results_kernel("max_pool", operands, one, _MAXIMA.replace("WRITE", " ".join(writes)), held(name))


def average_pool_kernel(dtype: Any, one: Pooling) -> PoolKernel:
    """Averages `y` of `x`."""
    name = as_dtype(dtype).name
    return _results_kernel("average_pool", [("x", name), ("y", name)], one, _AVERAGES, held(name))


def max_spread_kernel(dtype: Any, one: Pooling) -> PoolKernel:
    """The gradient `y` of images, of `g` and the `places` of maxima."""
    name = as_dtype(dtype).name
    return _spread_kernel("max_spread", [("g", name), ("places", "int32"), ("y", name)], one, _SHARE_OF_MAXIMUM)


def average_spread_kernel(dtype: Any, one: Pooling) -> PoolKernel:
    """The gradient `y` of images, of `g`."""
    name = as_dtype(dtype).name
    return _spread_kernel("average_spread", [("g", name), ("y", name)], one, _SHARE_OF_AVERAGE)


def _results_kernel(stem: str, operands: list[tuple[str, str]], one: Pooling, text: str, number: str) -> PoolKernel:
    text = text.replace("EACH", _SHARED if one.team > 1 else _EACH).replace("ENOUGH", "}" if one.team > 1 else "")
    return _kernel(stem, operands, one, _RESULTS + text, number, one.team, False)


def _spread_kernel(stem: str, operands: list[tuple[str, str]], one: Pooling, share: str) -> PoolKernel:
    return _kernel(stem, operands, one, _SPREAD.replace("SHARE", share), held(operands[0][1]), 1, True)


def _kernel(
    stem: str, operands: list[tuple[str, str]], one: Pooling, text: str, number: str, team: int, of_entries: bool
) -> PoolKernel:
    body = (_BEGIN + text).replace("NUMBER", number).replace("TEAM", str(team))
    head = _AXES + (_ADAPTIVE if one.is_adaptive else _SLIDING)
    return PoolKernel(written_kernel(stem, operands, _NUMBERS, body, THREADS, head), one.is_adaptive, team, of_entries)
