"""Kernels of order: sorted entries with where they were, the best of every row, positions of extremes.

Keys are compared as NumPy does: NaN is more than all numbers. Equal ones keep their order, in ascending and descending
order alike, since where an entry was decides between them; so no two entries are equal, and results do not depend on
how a launch goes.

Runs of `TILE` entries are sorted in shared memory by a network of comparisons. Then, of all entries, two sorted runs
become one: every thread finds the place of its entry by bisection of the other run. Of the best only as many of each
run are kept as are wanted, and tiles of these are sorted again until one is left.

Source of the network: Batcher, "Sorting networks and their applications", 1968.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from workbench.cuda.kernels.launch import CudaKernel, Launch, blocks_for, written_kernel
from workbench.cuda.kernels.numbers import NoKernel, held
from workbench.framework.values.dtype import as_dtype

TILE = 1024
"""Entries that a block sorts."""
THREADS = TILE // 2
MOST_BEST = TILE // 2
"""More of the best of a row than these are had by sorting it."""
WARP, WARPS = 32, 8
LONG = 2048
"""Entries of a row from which on a block looks for its extreme."""
MOST_GRID = 2**31 - 1

_FIRST = """
// Whether an entry has to stand in front of another one; places are those in the row.
__device__ __forceinline__ bool is_first(NUMBER a, long long at, NUMBER b, long long there) {
  const bool is_more = a > b || (a != a && b == b), is_less = a < b || (b != b && a == a);
  return BETTER || (!is_more && !is_less && at < there);
}
"""
_SORT = """
  __shared__ NUMBER keys[TILE];
  __shared__ int places[TILE];
  const long long parts = outer * inner * tiles, first = blockIdx.x * (TILE / SIZEll);
  for (int n = threadIdx.x; n < TILE; n += blockDim.x) {
    const long long part = first + n / SIZE, row = part / tiles, column = part % tiles * SIZE + n % SIZE;
    const bool is_there = part < parts && column < width;
    const long long at = (row / inner * width + column) * inner + row % inner;
    keys[n] = is_there ? number_of(x[at]) : (NUMBER)0;
    places[n] = is_there ? PLACE : -1;
  }
  __syncthreads();
  for (int length = 2; length <= SIZE; length *= 2)
    for (int apart = length / 2; apart > 0; apart /= 2) {
      for (int n = threadIdx.x; n < TILE / 2; n += blockDim.x) {
        const int a = n / apart * apart * 2 + n % apart, b = a + apart;
        const bool goes_up = (a % SIZE & length) == 0;
        // What lies behind the end of a row is last.
        const bool is_right = places[b] < 0 || (places[a] >= 0 && is_first(keys[a], places[a], keys[b], places[b]));
        if (is_right != goes_up) {
          const NUMBER key = keys[a];
          const int place = places[a];
          keys[a] = keys[b];
          places[a] = places[b];
          keys[b] = key;
          places[b] = place;
        }
      }
      __syncthreads();
    }
  for (int n = threadIdx.x; n < TILE; n += blockDim.x) {
    const long long part = first + n / SIZE, row = part / tiles, tile = part % tiles;
    if (part >= parts || n % SIZE >= most || tile * SIZE + n % SIZE >= width) continue;
    const long long at = (row / inner * kept + tile * most + n % SIZE) * inner + row % inner;
    put(y + at, keys[n]);
    indices[at] = places[n];
  }
"""
_MERGE = """
  for (long long n = blockIdx.x * (long long)blockDim.x + threadIdx.x; n < outer * width * inner;
       n += gridDim.x * (long long)blockDim.x) {
    const long long i = n % inner, at = n / inner % width, line = n / inner / width * width * inner + i;
    const long long begin = at / (2 * length) * (2 * length);
    const long long middle = begin + length < width ? begin + length : width;
    const long long end = begin + 2 * length < width ? begin + 2 * length : width;
    const NUMBER key = number_of(x[n]);
    const long long place = from[n];
    long long low = at < middle ? middle : begin;
    const long long start = low;
    long long high = at < middle ? end : middle;
    while (low < high) {
      const long long other = (low + high) / 2;
      if (is_first(number_of(x[line + other * inner]), from[line + other * inner], key, place)) low = other + 1;
      else high = other;
    }
    const long long own = at - (at < middle ? begin : middle);
    const long long to = line + (begin + own + low - start) * inner;
    put(y + to, key);
    indices[to] = place;
  }
"""
_EXTREME = """
  const long long row = blockIdx.x * (long long)ROWS + threadIdx.x / TEAM;
  const bool is_live = row < outer * inner;
  const long long o = row / inner, i = row % inner;
  NUMBER best = 0;
  long long where = -1;
  for (long long n = threadIdx.x % TEAM; is_live && n < width; n += TEAM) {
    const NUMBER value = number_of(x[(o * width + n) * inner + i]);
    if (where < 0 || is_first(value, n, best, where)) { best = value; where = n; }
  }
  for (int apart = (TEAM < 32 ? TEAM : 32) / 2; apart > 0; apart /= 2) {
    const NUMBER other = (NUMBER)__shfl_xor_sync(0xffffffffu, best, apart);
    const long long there = __shfl_xor_sync(0xffffffffu, where, apart);
    if (there >= 0 && (where < 0 || is_first(other, there, best, where))) { best = other; where = there; }
  }
  JOINED
  if (is_live && threadIdx.x % TEAM == 0) y[row] = where;
"""
_JOINED = """
  __shared__ NUMBER bests[WARPS];
  __shared__ long long places[WARPS];
  if (threadIdx.x % 32 == 0) {
    bests[threadIdx.x / 32] = best;
    places[threadIdx.x / 32] = where;
  }
  __syncthreads();
  for (int n = 1; threadIdx.x == 0 && n < WARPS; ++n)
    if (places[n] >= 0 && (where < 0 || is_first(bests[n], places[n], best, where))) {
      best = bests[n];
      where = places[n];
    }
"""


@dataclass(frozen=True)
class TileSort:
    """Sorts tiles of every row and keeps the first entries of each.

    Attributes:
        kernel: its operands are x, then `from` (int64: where entries were) if it goes on with what it has kept, y and
            indices (int64).
        size: of a tile.
    """

    kernel: CudaKernel
    size: int

    def launch(self, outer: int, width: int, inner: int, most: int = TILE) -> Launch:
        """For rows of `[outer, width, inner]`; the results have `kept_of(width, most)` entries in each."""
        if self.size != tile_size(width):
            raise NoKernel(f"rows of {width} entries have tiles of another size than this kernel")
        tiles = -(-width // self.size)
        blocks = -(-outer * inner * tiles // (TILE // self.size))
        if max(blocks, width) > MOST_GRID:
            raise NoKernel(f"{outer * inner} rows of {width} entries are more than one launch sorts")
        numbers = tuple(np.int64(n) for n in (outer, width, inner, tiles, most, kept_of(width, most)))
        return Launch((blocks, 1, 1), (THREADS, 1, 1), numbers)


@dataclass(frozen=True)
class RunMerge:
    """Makes one sorted run of every two.

    Attributes:
        kernel: its operands are x, from (where entries were), y and indices; the latter two are other memory.
    """

    kernel: CudaKernel

    def launch(self, outer: int, width: int, inner: int, length: int) -> Launch:
        """For rows with runs of a length."""
        numbers = tuple(np.int64(n) for n in (outer, width, inner, length))
        return Launch((blocks_for(outer * width * inner, 256), 1, 1), (256, 1, 1), numbers)


@dataclass(frozen=True)
class ExtremeKernel:
    """Where the first of the largest, or smallest, entries of every row is.

    Attributes:
        kernel: its operands are x and y. team: threads that share a row.
    """

    kernel: CudaKernel
    team: int

    def launch(self, outer: int, width: int, inner: int) -> Launch:
        """For rows of `[outer, width, inner]`, alone or side by side as those it was made for."""
        if (self.team == 1) != (inner > 1):
            raise NoKernel("rows lie in another way than those the kernel was made for")
        blocks = -(-outer * inner // (WARP * WARPS // self.team))
        if blocks > MOST_GRID:
            raise NoKernel(f"{outer * inner} rows are more than one launch takes")
        return Launch((blocks, 1, 1), (WARP * WARPS, 1, 1), tuple(np.int64(n) for n in (outer, width, inner)))


@dataclass(frozen=True)
class SortStep:
    """One launch of a sort: it reads what the one before has written, and writes `kept` entries of every row."""

    kernel: CudaKernel
    launch: Launch
    kept: int


def sort_steps(dtype: Any, outer: int, width: int, inner: int, is_descending: bool) -> list[SortStep]:
    """The steps of a sort: x to sorted entries and places, then these to others of the same sizes."""
    tiles = tile_sort(dtype, width, is_descending)
    steps = [SortStep(tiles.kernel, tiles.launch(outer, width, inner), width)]
    merge, length = run_merge(dtype, is_descending), TILE
    while length < width:
        steps.append(SortStep(merge.kernel, merge.launch(outer, width, inner, length), width))
        length *= 2
    return steps


def best_steps(dtype: Any, outer: int, width: int, inner: int, count: int, is_largest: bool) -> list[SortStep]:
    """The steps to the best entries of every row, in order.

    Raises:
        NoKernel: they are so many that the row is to be sorted.
    """
    if count > MOST_BEST:
        raise NoKernel(f"{count} of the best are had by a sort; up to {MOST_BEST} are not")
    steps = list[SortStep]()
    while not steps or width > count:
        one = tile_sort(dtype, width, is_largest, goes_on=bool(steps))
        kept = kept_of(width, count)
        steps.append(SortStep(one.kernel, one.launch(outer, width, inner, count), kept))
        width = kept
    return steps


def kept_of(width: int, most: int) -> int:
    """How many entries of a row are kept, if at most so many of every tile are."""
    whole, rest = divmod(width, TILE)
    return whole * min(most, TILE) + min(rest, most)


def team_of(width: int, inner: int) -> int:
    """Threads that share a row: a warp, or a block, where its entries lie side by side."""
    return 1 if inner > 1 else WARP if width <= LONG else WARP * WARPS


def tile_size(width: int) -> int:
    """Entries of a tile of rows of so many: short rows share a block."""
    size = 2
    while size < TILE and size < width:
        size *= 2
    return size


def tile_sort(dtype: Any, width: int, is_descending: bool, goes_on: bool = False) -> TileSort:
    """Make the kernel that sorts tiles.

    Args:
        width: entries of a row; it serves all with tiles of the same size.
        goes_on: entries have been elsewhere before, as an operand tells.
    """
    name = as_dtype(dtype).name
    operands = [("x", name), *([("from", "int64")] if goes_on else []), ("y", name), ("indices", "int64")]
    size = tile_size(width)
    place = "(int)from[at]" if goes_on else "(int)column"
    text = _SORT.replace("PLACE", place).replace("TILE", str(TILE)).replace("SIZE", str(size))
    numbers = "outer width inner tiles most kept"
    return TileSort(_kernel("sort_tiles", operands, numbers, text, THREADS, is_descending), size)


def run_merge(dtype: Any, is_descending: bool) -> RunMerge:
    """Make the kernel that merges runs."""
    name = as_dtype(dtype).name
    operands = [("x", name), ("from", "int64"), ("y", name), ("indices", "int64")]
    return RunMerge(_kernel("merge_runs", operands, "outer width inner length", _MERGE, 256, is_descending))


def extreme_kernel(
    dtype: Any, inner: int, is_largest: bool, places: Any = "int64", width: int = 1
) -> ExtremeKernel:  # fmt: skip
    """Make the kernel for rows with so many others side by side; NaN is both the largest and the smallest.

    Args:
        places: the dtype of the result. width: entries of a row, so that of long ones each has a block.
    """
    name, team = as_dtype(dtype).name, team_of(width, inner)
    joined = _JOINED.replace("WARPS", str(WARPS)) if team > WARP else ""
    text = _EXTREME.replace("JOINED", joined).replace("TEAM", str(team)).replace("ROWS", str(WARP * WARPS // team))
    operands = [("x", name), ("y", as_dtype(places).name)]
    head = "is_more" if is_largest else "(a < b || (a != a && b == b))"
    return ExtremeKernel(_ordered("extreme", operands, "outer width inner", text, WARP * WARPS, head), team)


def _kernel(
    stem: str, operands: Sequence[tuple[str, str]], numbers: str, text: str, threads: int, is_descending: bool
) -> CudaKernel:
    return _ordered(stem, operands, numbers, text, threads, "is_more" if is_descending else "is_less")


def _ordered(
    stem: str, operands: Sequence[tuple[str, str]], numbers: str, text: str, threads: int, better: str
) -> CudaKernel:
    number = held(operands[0][1])
    head = _FIRST.replace("BETTER", better).replace("NUMBER", number)
    return written_kernel(stem, operands, numbers, text.replace("NUMBER", number), threads, head)
