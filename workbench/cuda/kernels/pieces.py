"""Copies of parts of arrays: concat, split, stack, slices, flips, tiles and expansions as strides and offsets.

Each function gives pieces: what `transposes.move_kernel` copies, with how many elements behind the beginning of the
source and of the result it begins. Gradients are the same the other way round, or sums (`sums.sum_over`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from workbench.cuda.kernels.elementwise import Iteration, broadcast_strides, dense_strides, iteration
from workbench.cuda.kernels.transposes import MoveKernel, move_kernel


class CopiedPart(NamedTuple):
    """A copy of a part of one array to a part of another.

    Attributes:
        one: the dimensions, with the strides of source and result.
        source, result: elements behind their beginnings.
    """

    one: Iteration
    source: int = 0
    result: int = 0

    @property
    def turned(self) -> CopiedPart:
        """The copy back: of a gradient."""
        source, result = self.one.strides
        return CopiedPart(Iteration(self.one.shape, (result, source)), self.result, self.source)

    def kernel(self, dtype: object) -> MoveKernel:
        """What makes it, launched with `one`."""
        return move_kernel(dtype, self.one)


Range = tuple[int, int, int]
"""The first index that a slice takes, how many it takes, and in what steps, as `framework.values.views.range_of`."""


def concat(shapes: Sequence[Sequence[int]], axis: int) -> list[CopiedPart]:
    """One for every input of a concat; turned ones are those of its gradient, and of split."""
    whole = [*shapes[0][:axis], sum(shape[axis] for shape in shapes), *shapes[0][axis + 1 :]]
    pieces, before = [], 0
    for shape in shapes:
        strides = dense_strides(whole)
        pieces.append(_piece(shape, dense_strides(shape), strides, result=before * strides[axis]))
        before += shape[axis]
    return pieces


def split(shape: Sequence[int], axis: int, sizes: Sequence[int]) -> list[CopiedPart]:
    """One for every output of a split into parts of these sizes."""
    parts = [[*shape[:axis], size, *shape[axis + 1 :]] for size in sizes]
    return [piece.turned for piece in concat(parts, axis)]


def stack(shape: Sequence[int], count: int, axis: int) -> list[CopiedPart]:
    """One for every input of a stack of a count of arrays; turned ones are those of unstack."""
    return concat([[*shape[:axis], 1, *shape[axis:]]] * count, axis)


def cut(shape: Sequence[int], ranges: Mapping[int, Range]) -> CopiedPart:
    """A slice of an array; turned, with zeros in the result before, its gradient."""
    strides, sizes, first = [], [], 0
    for axis, (size, stride) in enumerate(zip(shape, dense_strides(shape), strict=True)):
        start, length, step = ranges.get(axis, (0, size, 1))
        first += start * stride
        strides.append(step * stride)
        sizes.append(length)
    return _piece(sizes, strides, dense_strides(sizes), source=first)


def flip(shape: Sequence[int], axes: Sequence[int]) -> CopiedPart:
    """An array in reverse order along axes."""
    return cut(shape, {axis: (shape[axis] - 1, shape[axis], -1) for axis in axes})


def expand(shape: Sequence[int], to: Sequence[int]) -> CopiedPart:
    """An array broadcast to a larger shape; its gradient is a sum over `sums.broadcast_axes`."""
    return _piece(to, broadcast_strides(shape, dense_strides(shape), to), dense_strides(to))


def tile(shape: Sequence[int], repeats: Sequence[int]) -> CopiedPart:
    """An array repeated along its dimensions, of which the result may have more in front."""
    copies, _ = tiled(shape, repeats)
    own = [size if n % 2 else 1 for n, size in enumerate(copies)]
    return expand(own, copies)


def tiled(shape: Sequence[int], repeats: Sequence[int]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The shape of a tiled array, a dimension for the copies in front of each of its own; and the axes of the copies.

    The gradient of tile is a sum over these.
    """
    rank = max(len(shape), len(repeats))
    sizes = [*[1] * (rank - len(shape)), *shape]
    times = [*[1] * (rank - len(repeats)), *repeats]
    copies = tuple(n for pair in zip(times, sizes, strict=True) for n in pair)
    return copies, tuple(range(0, 2 * rank, 2))


def _piece(
    shape: Sequence[int], read: Sequence[int], written: Sequence[int], source: int = 0, result: int = 0
) -> CopiedPart:  # fmt: skip
    """A copy of elements with strides of what is read and written."""
    one = iteration(shape, [read, written])
    return CopiedPart(one if one.shape else Iteration((1,), ((0,), (1,))), source, result)
