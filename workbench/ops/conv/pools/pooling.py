"""The arithmetic of pooling on arrays, one dimension after the other.

A maximum (or sum) over a window is the maximum over its rows of the maxima over its columns, so a window of
kh x kw costs kh + kw passes instead of kh * kw. The first maximum in row-major order is the first column of
the first row that holds it, so gradients go back the same way. A *tap* is one position within every window: a
pair of indices, of the windows that have it and of the entries it names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

Index = Any  # a slice where positions are evenly spaced, else an integer array
WIDTH, HEIGHT = -1, -2


@dataclass(frozen=True, eq=False)
class Windows:
    """Windows along one dimension of `size`, none of them empty.

    Attributes:
        starts: where they start, negative in padding.
        ends: the entry behind their last one, at most `size`.
        counts: what an average divides by, per window.
    """

    starts: Any
    ends: Any
    size: int
    counts: Any

    @property
    def is_whole(self) -> bool:
        """There is one window, of everything."""
        return len(self.starts) == 1 and self.starts[0] <= 0 and self.ends[0] == self.size

    @cached_property
    def is_even(self) -> bool:
        """Every tap is in every window, at even distances."""
        everywhere = slice(0, len(self.starts)) if len(self.starts) == 1 else slice(0, len(self.starts), 1)
        return all(isinstance(e, slice) and isinstance(h, slice) and h == everywhere for h, e in self.taps)

    @cached_property
    def is_disjoint(self) -> bool:
        """No two windows share an entry."""
        return bool((self.starts[1:] >= self.ends[:-1]).all())

    @cached_property
    def taps(self) -> list[tuple[Index, Index]]:
        """(windows, entries) for the first, second … position in the windows."""
        taps = []
        for t in range(int((self.ends - self.starts).max(initial=0))):
            at = self.starts + t
            (having,) = np.nonzero((at >= 0) & (at < self.ends))
            if len(having):
                taps.append((_even(having), _even(at[having])))
        return taps


def _even(positions: Any) -> Index:
    """Positions as a slice if they are evenly spaced."""
    if len(positions) == 1:
        return slice(int(positions[0]), int(positions[0]) + 1)
    steps = np.diff(positions)
    if steps[0] > 0 and (steps == steps[0]).all():
        return slice(int(positions[0]), int(positions[-1]) + 1, int(steps[0]))
    return positions


@lru_cache(maxsize=256)
def sliding(size: int, count: int, kernel: int, stride: int, pads: tuple[int, int], exclusive: bool) -> Windows:
    """`count` windows of `kernel` entries, `stride` apart, over a dimension padded by `pads`.

    Args:
        exclusive: averages count only entries of the dimension, not padding.
    """
    starts = np.arange(count) * stride - pads[0]
    ends = np.minimum(starts + kernel, size)
    inside = ends - np.maximum(starts, 0)
    return Windows(starts, ends, size, inside if exclusive else np.minimum(starts + kernel, size + pads[1]) - starts)


@lru_cache(maxsize=256)
def bins(size: int, count: int) -> Windows:
    """`count` windows that cover a dimension: from floor(i size / count) to ceil((i + 1) size / count)."""
    i = np.arange(count)
    starts, ends = i * size // count, -(-(i + 1) * size // count)
    return Windows(starts, ends, size, ends - starts)


def _taps(xp: Any, windows: Windows, axis: int) -> Iterator[tuple[Any, Any]]:
    """Taps as indices of whole arrays: (of windows, of entries)."""
    for having, entries in windows.taps:
        yield _at(xp, axis, having), _at(xp, axis, entries)


def _at(xp: Any, axis: int, index: Index) -> tuple[Any, ...]:
    index = index if isinstance(index, slice) else xp.asarray(index)
    return (..., index) if axis == WIDTH else (..., index, slice(None))


def _is_copied_by(xp: Any, place: tuple[Any, ...]) -> bool:
    """Whether indexing with `place` gives a copy, as integer arrays do."""
    return any(isinstance(index, xp.ndarray) for index in place)


def _shape(x: Any, axis: int, size: int) -> tuple[int, ...]:
    return (*x.shape[:-1], size) if axis == WIDTH else (*x.shape[:-2], size, x.shape[-1])


# Reductions along one dimension


def _reduce(xp: Any, x: Any, windows: Windows, axis: int, ufunc: Any, start: Callable[[Any], Any], out: Any) -> Any:
    if out is None:
        out = xp.empty(_shape(x, axis, len(windows.starts)), x.dtype)
    if windows.is_even and len(windows.taps) > 1:
        first, second, *others = (x[entries] for _, entries in _taps(xp, windows, axis))
        ufunc(first, second, out=out)
        for values in others:
            ufunc(out, values, out=out)
        return out
    out[...] = start(x.dtype)
    for place, entries in _taps(xp, windows, axis):
        part = out[place]
        ufunc(part, x[entries], out=part)
        if _is_copied_by(xp, place):
            out[place] = part
    return out


def _lowest(dtype: Any) -> Any:
    return np.iinfo(dtype).min if dtype.kind in "iu" else -np.inf


def maxima(xp: Any, x: Any, windows: Sequence[Windows], out: Any = None) -> Any:
    """The maxima over windows of the last two dimensions (`windows` of height, of width)."""
    if windows[0].is_whole and windows[1].is_whole:
        return xp.max(x, axis=(HEIGHT, WIDTH), keepdims=True, out=out)
    return _maxima(xp, _maxima(xp, x, windows[0], HEIGHT), windows[1], WIDTH, out)


def _maxima(xp: Any, x: Any, windows: Windows, axis: int, out: Any = None) -> Any:
    if windows.is_whole:
        return xp.max(x, axis=axis, keepdims=True, out=out)
    return _reduce(xp, x, windows, axis, xp.maximum, _lowest, out)


def _sums(xp: Any, x: Any, windows: Windows, axis: int) -> Any:
    if windows.is_whole:
        return xp.sum(x, axis=axis, keepdims=True)
    return _reduce(xp, x, windows, axis, xp.add, lambda dtype: 0, None)


def averages(xp: Any, x: Any, windows: Sequence[Windows]) -> Any:
    """The averages over windows of the last two dimensions."""
    if windows[0].is_whole and windows[1].is_whole:
        total = xp.sum(x, axis=(HEIGHT, WIDTH), keepdims=True)
    else:
        total = _sums(xp, _sums(xp, x, windows[0], HEIGHT), windows[1], WIDTH)
    return total / _divisors(xp, x, windows)


def _divisors(xp: Any, x: Any, windows: Sequence[Windows]) -> Any:
    return xp.asarray(np.outer(windows[0].counts, windows[1].counts), dtype=x.dtype)


def spread_averages(xp: Any, g: Any, windows: Sequence[Windows]) -> Any:
    """The gradient of `averages`: every window's share to each of its entries."""
    g = g / _divisors(xp, g, windows)
    return _spread_sums(xp, _spread_sums(xp, g, windows[1], WIDTH), windows[0], HEIGHT)


def _spread_sums(xp: Any, g: Any, windows: Windows, axis: int) -> Any:
    shape = _shape(g, axis, windows.size)
    if windows.is_whole:
        return xp.array(xp.broadcast_to(g, shape), order="C")
    out = xp.zeros(shape, g.dtype)
    for place, entries in _taps(xp, windows, axis):
        _add(xp, out, entries, g[place])
    return out


def _add(xp: Any, out: Any, entries: tuple[Any, ...], values: Any) -> None:
    if _is_copied_by(xp, entries):
        xp.add.at(out, entries, values)  # bins may share an entry
    else:
        out[entries] += values


# First maxima


def _first_hits(xp: Any, x: Any, windows: Windows, axis: int) -> Iterator[tuple[Any, Any, Any]]:
    """For every tap, where it is the first to equal the window's maximum: (of windows, of entries, mask)."""
    if windows.is_whole:
        entries = xp.arange(windows.size).reshape((-1,) if axis == WIDTH else (-1, 1))
        yield (...,), (...,), entries == xp.expand_dims(xp.argmax(x, axis=axis), axis)
        return
    tops = _maxima(xp, x, windows, axis)
    if windows.is_even:
        yield from _even_hits(x, tops, list(_taps(xp, windows, axis)))
        return
    missing = xp.ones(tops.shape, bool)
    for place, entries in _taps(xp, windows, axis):
        hit = (x[entries] == tops[place]) & missing[place]
        yield place, entries, hit
        missing[place] ^= hit


def _even_hits(x: Any, tops: Any, taps: list[tuple[Any, Any]]) -> Iterator[tuple[Any, Any, Any]]:
    """The same where all windows have all taps: what no tap before the last one hit, that one did."""
    missing: Any = True
    for place, entries in taps[:-1]:
        hit = (x[entries] == tops) & missing
        yield place, entries, hit
        missing = missing ^ hit
    place, entries = taps[-1]
    yield place, entries, missing


def spread_maxima(xp: Any, x: Any, g: Any, windows: Sequence[Windows]) -> Any:
    """The gradient of max pooling: that of a window goes to the first of its largest entries."""
    height, width = windows
    rows = _maxima(xp, x, width, WIDTH)
    of_rows = _spread(xp, rows, g, height, HEIGHT)
    return _spread(xp, x, of_rows, width, WIDTH)


def _spread(xp: Any, x: Any, g: Any, windows: Windows, axis: int) -> Any:
    out = xp.zeros(x.shape, g.dtype)
    for place, entries, hit in _first_hits(xp, x, windows, axis):
        if windows.is_even and windows.is_disjoint:
            xp.copyto(out[entries], g, where=hit)
        else:
            _add(xp, out, entries, xp.where(hit, g[place], g.dtype.type(0)))
    return out


def pick_maxima(xp: Any, x: Any, values: Any, windows: Sequence[Windows]) -> Any:
    """`values` at the place of each window's first maximum of `x`: the adjoint of `spread_maxima`."""
    height, width = windows
    rows = _maxima(xp, x, width, WIDTH)
    return _pick(xp, rows, _pick(xp, x, values, width, WIDTH), height, HEIGHT)


def _pick(xp: Any, x: Any, values: Any, windows: Windows, axis: int) -> Any:
    if windows.is_whole:
        ((_, _, hit),) = _first_hits(xp, x, windows, axis)
        return xp.where(hit, values, 0).sum(axis=axis, keepdims=True, dtype=values.dtype)
    out = xp.zeros(_shape(x, axis, len(windows.starts)), values.dtype)
    for place, entries, hit in _first_hits(xp, x, windows, axis):
        out[place] = xp.where(hit, values[entries], out[place])
    return out


def positions(xp: Any, shape: Sequence[int]) -> Any:
    """For every pixel of [n, c, h, w] its place in the plane, h * width + w."""
    plane = xp.arange(shape[-2] * shape[-1]).reshape(shape[-2], shape[-1])
    return xp.broadcast_to(plane, tuple(shape))
