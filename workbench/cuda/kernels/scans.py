"""What runs along rows, in CUDA C++: how the threads of a team tell each other what there is up to every element.

A team goes over its row a stretch of its size at a time, a thread an element, and carries on what there is behind each
stretch. Sums and extremes of a stretch are joined over 1, 2, 4 … lanes of a warp, and over the warps of a block one
after the other: always in the same order. Products and recurrences go one element after the other, for the reasons that
`runtime/kernels/rows/scans.py` gives, so a single thread has a row with one of these.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from workbench.framework.expr.expr import Expr
from workbench.framework.rows.kernel import COLUMNS, RowKernel
from workbench.framework.rows.recording import LARGEST, LAST_PLACE, PRODUCTS, RECURRENCE, SMALLEST, SUMS

WARP = 32


class _ScanText(NamedTuple):
    """A scan as text.

    Attributes:
        fold: the class that joins. kind: of what is joined. start: what there is in front of a row.
        neutral: what changes nothing.
    """

    fold: str
    kind: str
    start: str
    neutral: str


_SCANS = {
    SUMS: _ScanText("Sum", "NUMBER", "(NUMBER)-0.0", "(NUMBER)-0.0"),  # a zero keeps its sign
    PRODUCTS: _ScanText("Product", "NUMBER", "(NUMBER)1", "(NUMBER)1"),
    LARGEST: _ScanText("Largest", "NUMBER", "(NUMBER)-INFINITE", "(NUMBER)-INFINITE"),
    SMALLEST: _ScanText("Smallest", "NUMBER", "(NUMBER)INFINITE", "(NUMBER)INFINITE"),
    LAST_PLACE: _ScanText("Latest", "int", "0", "0"),
}
IN_TURN = (PRODUCTS, RECURRENCE)

_LATEST = r"""
struct Latest {};
__device__ __forceinline__ int joined(const Latest&, int a, int b) { return a > b ? a : b; }

// Gives what there is up to an element, or in front of it; `carry` becomes what there is behind the stretch.
template <class Fold, bool REVERSE, bool EXCLUSIVE, class T>
"""
_ALONE = r"""
__device__ __forceinline__ T run_on(T x, T& carry, NUMBER*) {
  const Fold fold;
  const T before = carry;
  carry = joined(fold, before, x);
  return EXCLUSIVE ? before : carry;
}
"""
_OVER_LANES = r"""
__device__ __forceinline__ T over_lanes(T x, T first, int lanes, T& before) {
  const Fold fold;
  const int lane = threadIdx.x % lanes;
  const int turn = REVERSE ? lanes - 1 - lane : lane;
  for (int apart = 1; apart < lanes; apart *= 2) {
    const T other = REVERSE ? __shfl_down_sync(0xffffffffu, x, apart, lanes)
                            : __shfl_up_sync(0xffffffffu, x, apart, lanes);
    if (turn >= apart) x = joined(fold, other, x);
  }
  const T other = REVERSE ? __shfl_down_sync(0xffffffffu, x, 1, lanes) : __shfl_up_sync(0xffffffffu, x, 1, lanes);
  before = turn == 0 ? first : joined(fold, first, other);
  return x;
}
template <class Fold, bool REVERSE, bool EXCLUSIVE, class T>
"""
_IN_A_WARP = r"""
__device__ __forceinline__ T run_on(T x, T& carry, NUMBER*) {
  const Fold fold;
  T before;
  const T first = carry;
  const T own = over_lanes<Fold, REVERSE, EXCLUSIVE, T>(x, first, TEAM, before);
  carry = joined(fold, first, __shfl_sync(0xffffffffu, own, REVERSE ? 0 : TEAM - 1, TEAM));
  return EXCLUSIVE ? before : joined(fold, first, own);
}
"""
_IN_A_BLOCK = r"""
__device__ __forceinline__ T run_on(T x, T& carry, NUMBER* shared) {
  const Fold fold;
  T* const room = (T*)shared;
  const int warps = TEAM / 32, warp = threadIdx.x / 32, turn = REVERSE ? warps - 1 - warp : warp;
  T before;
  const T whole = over_lanes<Fold, REVERSE, EXCLUSIVE, T>(x, x, 32, before);
  if (threadIdx.x % 32 == (REVERSE ? 0 : 31)) room[turn] = whole;
  __syncthreads();
  T first = carry;
  for (int n = 0; n < turn; ++n) first = joined(fold, first, room[n]);
  T last = first;
  for (int n = turn; n < warps; ++n) last = joined(fold, last, room[n]);
  carry = last;
  __syncthreads();
  const T own = over_lanes<Fold, REVERSE, EXCLUSIVE, T>(x, first, 32, before);
  return EXCLUSIVE ? before : joined(fold, first, own);
}
"""
_IN_COLUMNS = r"""
__device__ __forceinline__ T run_on(T x, T& carry, NUMBER* shared) {
  const Fold fold;
  T* const room = (T*)shared;
  const int turn = REVERSE ? TEAM - 1 - threadIdx.y : threadIdx.y;
  room[turn * 32 + threadIdx.x] = x;
  __syncthreads();
  T before = carry;
  for (int n = 0; n < turn; ++n) before = joined(fold, before, room[n * 32 + threadIdx.x]);
  T last = before;
  for (int n = turn; n < TEAM; ++n) last = joined(fold, last, room[n * 32 + threadIdx.x]);
  carry = last;
  __syncthreads();
  return EXCLUSIVE ? before : joined(fold, before, x);
}
"""


def scans_of(one: RowKernel) -> list[Expr]:
    """All of a kernel."""
    return [scan for part in one.rounds.rounds for scan in part.scans]


def goes_in_turn(one: RowKernel) -> bool:
    """Whether a thread has to have a row for itself."""
    return any(scan.function in IN_TURN for scan in scans_of(one))


def scans_text(layout: str, size: int) -> str:
    """What a team of a size does at every stretch."""
    if size == 1:
        return _LATEST + _ALONE
    if layout == COLUMNS:
        return _LATEST + _IN_COLUMNS
    return _LATEST + _OVER_LANES + (_IN_A_WARP if size <= WARP else _IN_A_BLOCK)


def start_of(part: Expr) -> tuple[str, str]:
    """The type of what is carried on, and what there is in front of a row."""
    if part.function == RECURRENCE:
        return "NUMBER", "0"
    scan = _SCANS[part.function]
    return scan.kind, "0" if part.function == SUMS and part.value.exclusive else scan.start


def run_text(part: Expr, operands: Sequence[str], carry: str, note: Callable[[str], None]) -> tuple[str, str]:
    """The type and the text of what an element gets; `is_here` says whether a thread has one.

    Args:
        note: writes a line in front.
    """
    if part.function == RECURRENCE:
        a, b = operands
        note(f"if (is_here) {carry} = {a} * {carry} + {b};")
        return "NUMBER", carry
    scan, (x,) = _SCANS[part.function], operands
    x = f"{x} ? (int)k : 0" if part.function == LAST_PLACE else x
    ways = ", ".join("true" if way else "false" for way in part.value)
    given = f"is_here ? ({scan.kind})({x}) : {scan.neutral}"
    return scan.kind, f"run_on<{scan.fold}, {ways}, {scan.kind}>({given}, {carry}, shared)"


__all__ = ["goes_in_turn", "run_text", "scans_of", "scans_text", "start_of"]
