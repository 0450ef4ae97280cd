"""Views: where the result of an op lies that only shows its input in another way, told from strides alone.

An op is declared a view with one of these rules, and a plan asks the rule instead of running the op:

    RESHAPED                     the same elements in row-major order, in the shape of the result
    Transposed(axes)             dimension i of the result is `axes(**attrs)[i]` of the input
    Sliced(ranges)               `ranges(shape, **attrs)` of the input, `{axis: (start, stop, step)}`, then reshaped
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from math import prod
from types import EllipsisType
from typing import Any, NamedTuple, Protocol

from workbench.framework.values.spec import Shape


class Strided(NamedTuple):
    """An array within a piece of memory; `offset` of its first element and `strides` in bytes."""

    offset: int
    shape: Shape
    strides: tuple[int, ...]
    itemsize: int

    @property
    def is_contiguous(self) -> bool:
        """Whether the elements lie one after the other in row-major order."""
        if 0 in self.shape:
            return True
        packed = row_major(self.shape, self.itemsize)
        return all(a == b for a, b, dim in zip(self.strides, packed, self.shape, strict=True) if dim != 1)


class ViewRule(Protocol):
    """The rule of a view op."""

    @property
    def keeps_order(self) -> bool:
        """Whether the result has all elements of the input, in the same row-major order."""

    def __call__(self, source: Strided, shape: Shape, attrs: Mapping[str, Any]) -> Strided | None:
        """Where the result, of that shape, lies; None where no strides show it, so that it has to be a copy."""


def row_major(shape: Sequence[int], itemsize: int) -> tuple[int, ...]:
    """Strides in bytes of an array whose elements lie one after the other."""
    strides, step = [], itemsize
    for dim in reversed(shape):
        strides.append(step)
        step *= max(dim, 1)
    return tuple(reversed(strides))


def range_of(part: slice, size: int) -> tuple[int, int, int]:
    """The first index that a slice of so many elements takes, how many it takes, and in what steps.

    As Python's `range(size)[part]`, also of a size that is open when a plan is made.
    """
    step = 1 if part.step is None else part.step
    low, high = (0, size) if step > 0 else (-1, size - 1)
    start, stop = (
        default if bound is None else max(min(bound if bound >= 0 else bound + size, high), low)
        for bound, default in zip((part.start, part.stop), (low, high) if step > 0 else (high, low), strict=True)
    )
    length = stop - start if step > 0 else start - stop
    return start, (length + abs(step) - 1) // abs(step) if length > 0 else 0, step


class _Reshaped:
    keeps_order = True

    def __call__(self, source: Strided, shape: Shape, attrs: Mapping[str, Any]) -> Strided | None:
        if shape == source.shape:
            return source
        strides = row_major(shape, source.itemsize) if source.is_contiguous else _regrouped(source, shape)
        return None if strides is None else source._replace(shape=shape, strides=strides)


RESHAPED: ViewRule = _Reshaped()


def _regrouped(source: Strided, shape: Shape) -> tuple[int, ...] | None:
    """Strides of another shape for elements with gaps between them, as NumPy's `reshape` finds them.

    Dimensions are taken in groups with as many elements before as after; those of a group have to lie in memory as
    one would.
    """
    old = [(dim, step) for dim, step in zip(source.shape, source.strides, strict=True) if dim != 1]
    strides: list[int] = []
    at = 0
    for dims, new in _groups([dim for dim, _ in old], shape):
        group, at = old[at : at + dims], at + dims
        if any(a[1] != b[0] * b[1] for a, b in pairwise(group)):
            return None
        strides += row_major(shape[len(strides) : len(strides) + new], group[-1][1])
    last = strides[-1] if strides else source.itemsize
    return (*strides, *[last] * (len(shape) - len(strides)))


def _groups(old: Sequence[int], new: Sequence[int]) -> list[tuple[int, int]]:
    """How many dimensions at a time, of two shapes of one size without zeros, hold equally many elements."""
    groups = []
    i = j = 0
    while i < len(old) and j < len(new):
        first, second = i + 1, j + 1
        while (left := prod(old[i:first])) != (right := prod(new[j:second])):
            first, second = (first + 1, second) if left < right else (first, second + 1)
        groups.append((first - i, second - j))
        i, j = first, second
    return groups


class Transposed:
    """Dimension i of the result is dimension `axes(**attrs)[i]` of the input."""

    keeps_order = False

    def __init__(self, axes: Callable[..., Sequence[int]]) -> None:
        self._axes = axes

    def axes(self, rank: int, attrs: Mapping[str, Any]) -> list[int]:
        """The input's dimensions in the order of the result's, counted from the front."""
        return [axis % rank for axis in self._axes(**attrs)]

    def __call__(self, source: Strided, shape: Shape, attrs: Mapping[str, Any]) -> Strided | None:
        order = self.axes(len(shape), attrs)
        dims, strides = (tuple(of[axis] for axis in order) for of in (source.shape, source.strides))
        return source._replace(shape=dims, strides=strides)


class Sliced:
    """A range of every dimension in `ranges(shape, **attrs)`, `{axis: (start, stop, step)}` as Python slices count."""

    keeps_order = False

    def __init__(self, ranges: Callable[..., Mapping[int, tuple[int, int, int]]]) -> None:
        self._ranges = ranges

    def index(self, shape: Shape, attrs: Mapping[str, Any]) -> tuple[slice | EllipsisType, ...]:
        """What picks the part out of an array of a shape; a view even if there are no dimensions."""
        ranges = self._ranges(shape, **attrs)
        return (*(slice(*ranges.get(axis, (None,))) for axis in range(len(shape))), ...)

    def __call__(self, source: Strided, shape: Shape, attrs: Mapping[str, Any]) -> Strided | None:
        offset, dims, strides = source.offset, list(source.shape), list(source.strides)
        for axis, bounds in self._ranges(source.shape, **attrs).items():
            start, dims[axis], step = range_of(slice(*bounds), dims[axis])
            if dims[axis]:
                offset, strides[axis] = offset + start * strides[axis], step * strides[axis]
        return RESHAPED(Strided(offset, tuple(dims), tuple(strides), source.itemsize), shape, attrs)
