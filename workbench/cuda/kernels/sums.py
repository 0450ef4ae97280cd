"""Sums over any dimensions of a dense array, in one fixed order: what follows an op whose operands were broadcast.

Dimensions side by side that are all summed, or all kept, are joined. Where the last one is summed a team of threads
goes along it; where it is kept, 32 results lie side by side in a block and threads above each other share one. Few
results of many elements are first summed in parts, whose number depends on sizes alone, and the parts by a second
launch: so a GPU is busy, and bits are the same on every one. Sums carry what was lost by rounding.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, NamedTuple

import numpy as np

from workbench.cuda.kernels.elementwise import MOST_NARROW, dense_strides
from workbench.cuda.kernels.launch import CudaKernel, Launch, written_kernel
from workbench.cuda.kernels.numbers import NoKernel
from workbench.cuda.kernels.rows import MOST_GRID, WARP, Team, team_for, team_text
from workbench.framework.rows.kernel import COLUMNS, LINES
from workbench.framework.values.dtype import as_dtype

ENOUGH_BLOCKS = 512
"""Blocks that keep any GPU busy: with fewer of them, elements are summed in parts."""
LEAST_OF_A_PART = {LINES: 2048, COLUMNS: 128}
"""Elements that make a part worth its while."""


class Dims(NamedTuple):
    """Dimensions that are kept, or summed: their sizes and their strides in elements."""

    sizes: tuple[int, ...]
    strides: tuple[int, ...]

    @property
    def elements(self) -> int:
        return prod(self.sizes)


def divided(shape: Sequence[int], axes: Sequence[int]) -> tuple[Dims, Dims]:
    """The kept and the summed dimensions of a dense array, neighbours of a kind joined."""
    strides = dense_strides(shape)
    joined: list[tuple[bool, int, int]] = []
    for axis, size in enumerate(shape):
        if size == 1:
            continue
        is_summed = axis in axes
        if joined and joined[-1][0] == is_summed:
            joined[-1] = (is_summed, joined[-1][1] * size, strides[axis])
        else:
            joined.append((is_summed, size, strides[axis]))
    kinds = [[(size, stride) for own, size, stride in joined if own == is_summed] for is_summed in (False, True)]
    kept, summed = (Dims(tuple(s for s, _ in kind), tuple(s for _, s in kind)) for kind in kinds)
    return kept, summed


@dataclass(frozen=True)
class SumKernel:
    """One launch of a sum.

    Attributes:
        kernel: its operands are `x` and `y`. kept, summed: the dimensions. parts: that each sum is made in.
    """

    kernel: CudaKernel
    layout: str
    team: Team
    kept: Dims
    summed: Dims
    parts: int

    def launch(self, divisor: float = 1.0) -> Launch:
        """The launch; floating sums are divided by a number, so that it makes means as well."""
        results, count = self.kept.elements, self.summed.elements
        numbers: list[np.generic] = [np.int64(n) for n in (results, count, self.parts, part_length(count, self.parts))]
        numbers += [np.int64(n) for n in (*self.kept.sizes[1:], *self.kept.strides)]
        numbers += [np.int64(n) for n in (*self.summed.sizes[1:], *self.summed.strides)]
        sums, rows = results * self.parts, self.team.rows
        blocks = -(-results // WARP) * self.parts if self.layout == COLUMNS else -(-sums // rows)
        if blocks > MOST_GRID:
            raise NoKernel(f"{results} sums are more than one launch takes")
        block = (WARP, self.team.size, 1) if self.layout == COLUMNS else (self.team.threads, 1, 1)
        return Launch((blocks, 1, 1), block, (*numbers, np.float64(divisor)))


@dataclass(frozen=True)
class SumOver:
    """A sum over dimensions, by one launch or two.

    Attributes:
        first: from `x` to `y`, or, if there is a second one, to the sums of parts.
        second: from these to `y`, None if there are no parts.
        held: the dtype of sums of parts. partial: how many there are, 0 without parts.
    """

    first: SumKernel
    second: SumKernel | None
    held: str

    @property
    def partial(self) -> int:
        return 0 if self.second is None else self.first.kept.elements * self.first.parts

    def launches(self, divisor: float = 1.0) -> list[tuple[CudaKernel, Launch]]:
        """Kernels with their launches, in order."""
        if self.second is None:
            return [(self.first.kernel, self.first.launch(divisor))]
        return [(self.first.kernel, self.first.launch()), (self.second.kernel, self.second.launch(divisor))]


def sum_over(shape: Sequence[int], axes: Sequence[int], dtype: Any, to: Any = None) -> SumOver:
    """Make the kernels of a sum over `axes` of a dense array.

    Args:
        dtype: of the elements. to: of the result, by default the same; integers are summed in 64 bits.

    Raises:
        NoKernel: complex numbers, or too many results.
    """
    return _sum_over(shape, axes, dtype, to, "value")


def squares_over(shape: Sequence[int], axes: Sequence[int], dtype: Any, to: Any = None) -> SumOver:
    """The same for the squares of the elements."""
    return _sum_over(shape, axes, dtype, to, "value * value")


def truths_over(shape: Sequence[int], axes: Sequence[int], is_any: bool) -> SumOver:
    """Whether any, or all, of the elements of bool are true; to be launched with their number as divisor."""
    return _sum_over(shape, axes, "bool", None, "value", "total != 0" if is_any else "total == (long long)divisor")


def _sum_over(
    shape: Sequence[int], axes: Sequence[int], dtype: Any, to: Any, term: str, end: str = ""
) -> SumOver:  # fmt: skip
    """The kernels for a term of every element; `end`: what is made of an integer sum."""
    source, result = as_dtype(dtype).name, as_dtype(dtype if to is None else to).name
    held = "float64" if source == "float64" else "float32" if as_dtype(source).is_float else "int64"
    kept, summed = divided(shape, axes)
    parts = _parts_for(_layout(kept, summed), kept.elements, summed.elements)
    if parts == 1:
        return SumOver(_sum_kernel(kept, summed, 1, source, result, term, end), None, held)
    first = _sum_kernel(kept, summed, parts, source, held, term)
    of_parts = (parts, kept.elements) if first.layout == COLUMNS else (kept.elements, parts)
    again = divided(of_parts, [0 if first.layout == COLUMNS else 1])
    return SumOver(first, _sum_kernel(*again, 1, held, result, end=end), held)


def broadcast_axes(shape: Sequence[int], to: Sequence[int]) -> tuple[int, ...]:
    """The dimensions of `to` along which an array of `shape` was repeated."""
    ahead = len(to) - len(shape)
    return tuple(a for a, size in enumerate(to) if a < ahead or (shape[a - ahead] == 1 and size != 1))


def part_length(count: int, parts: int) -> int:
    """How many of the elements a part has; whole warps of them, so that parts begin where sectors do."""
    length = -(-count // parts)
    return length if parts == 1 else -(-length // WARP) * WARP


def _layout(kept: Dims, summed: Dims) -> str:
    return COLUMNS if kept.strides and (not summed.strides or kept.strides[-1] < summed.strides[-1]) else LINES


def _parts_for(layout: str, results: int, count: int) -> int:
    """In how many parts each sum is made."""
    if not results:
        return 1
    blocks = -(-results // (WARP if layout == COLUMNS else team_for(LINES, count).rows))
    wanted = min(-(-ENOUGH_BLOCKS // blocks), count // LEAST_OF_A_PART[layout])
    if wanted <= 1:
        return 1
    return -(-count // part_length(count, wanted))  # none of them is empty


_COLUMNS_ITEM = """
  const long long output = blockIdx.x / parts * 32 + threadIdx.x, part = blockIdx.x % parts;
  const bool is_live = output < results;
  const long long item = part * results + output;
  const int first = threadIdx.y;
"""
_LINES_ITEM = """
  const long long item = blockIdx.x * (long long)ROWS + threadIdx.x / TEAM;
  const bool is_live = item < results * parts;
  const long long output = item / parts, part = item % parts;
  const int first = threadIdx.x % TEAM;
"""
_TEXT = """
  typedef PLACE place;
  ITEM
  SHARED
  const long long begin = part * length, end = begin + length < count ? begin + length : count;
  Sum sum;
  if (is_live) {
    place rest = (place)output;
    KEPT
    const auto from = x + (START);
    for (long long k = begin + first; k < end; k += TEAM) {
      rest = (place)k;
      SUMMED
      const NUMBER value = (NUMBER)number_of(from[FROM]);
      sum.take(TERM);
    }
  }
  const NUMBER total = of_team(sum, shared);
  if (is_live && first == 0) put(y + item, RESULT);
"""


def _sum_kernel(
    kept: Dims, summed: Dims, parts: int, source: str, result: str, term: str = "value", end: str = ""
) -> SumKernel:  # fmt: skip
    layout = _layout(kept, summed)
    team = team_for(layout, part_length(summed.elements, parts))
    number = "double" if source == "float64" else "float" if as_dtype(source).is_float else "long long"
    is_narrow = max(kept.elements * summed.elements, summed.elements + team.size) < MOST_NARROW
    room = team.size * WARP if layout == COLUMNS else WARP
    is_shared = layout == COLUMNS or team.size > WARP
    pieces = {
        "ITEM": _COLUMNS_ITEM if layout == COLUMNS else _LINES_ITEM,
        "SHARED": f"__shared__ NUMBER shared[{room}];" if is_shared else "NUMBER* const shared = 0;",
        "KEPT": _places("k", kept),
        "START": _sum("k", kept),
        "SUMMED": _places("s", summed),
        "FROM": _sum("s", summed),
        "TERM": term,
        "RESULT": (end or "total") if number == "long long" else "total / (NUMBER)divisor",
        "ROWS": str(team.rows),
        "PLACE": "unsigned int" if is_narrow else "long long",
    }
    text = _TEXT
    for name, piece in pieces.items():
        text = text.replace(name, piece)
    numbers = ["results count parts length", _names("k", kept), _names("s", summed), "double:divisor"]
    head = team_text(layout, team, number)
    kernel = written_kernel("sum", (("x", source), ("y", result)), " ".join(numbers), text, team.threads, head)
    return SumKernel(kernel, layout, team, kept, summed, parts)


def _names(letter: str, dims: Dims) -> str:
    rank = len(dims.sizes)
    return " ".join([*(f"{letter}_size{d}" for d in range(1, rank)), *(f"{letter}_stride{d}" for d in range(rank))])


def _places(letter: str, dims: Dims) -> str:
    """What is left in `rest` as places in some dimensions."""
    lines = []
    for d in range(len(dims.sizes) - 1, 0, -1):
        lines += [f"const place {letter}{d} = rest % (place){letter}_size{d};", f"rest /= (place){letter}_size{d};"]
    return " ".join([*lines, f"const place {letter}0 = rest;"] if dims.sizes else [])


def _sum(letter: str, dims: Dims) -> str:
    return " + ".join(f"{letter}{d} * (place){letter}_stride{d}" for d in range(len(dims.sizes))) or "0"
