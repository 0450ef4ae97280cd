"""Maxima and averages over windows of planes, and their gradients; windows are told by `native.pooling_words`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llvmlite import ir

from workbench.runtime.kernels.functions import maximum
from workbench.runtime.kernels.intrinsics import FLOATS, INT, INTS, floats, function
from workbench.runtime.kernels.registry import kernel
from workbench.runtime.kernels.tiles import BYTES, accumulate, clear, declare, move
from workbench.runtime.kernels.vectors import I32, I64, Vectors, loop, map_vectors
from workbench.runtime.kernels.vectors import WIDTH as LANES
from workbench.runtime.native.pooling_words import HEIGHT, OUT_HEIGHT, OUT_WIDTH, PLANES, TABLE, WIDTH

keep_larger = declare(3, lambda v, x, out, count: map_vectors(v.builder, maximum, out, [out, x], count))
"""(x, out, count): the larger of floats and others."""


@function
def window(size, h, w):
    """First and end of its rows, and of its columns."""
    rows, columns = TABLE, TABLE + 2 * size[OUT_HEIGHT]
    return (
        size[rows + h], size[rows + size[OUT_HEIGHT] + h],
        size[columns + w], size[columns + size[OUT_WIDTH] + w],
    )  # fmt: skip


@kernel(INTS, INT, FLOATS, INT)
def max_pool(size, x, out, line_address):
    """Maxima, NaN if there is one; line: as long as a row, for the maxima of columns."""
    line, at = floats(line_address), 0
    for p in range(size[PLANES]):
        for h in range(size[OUT_HEIGHT]):
            first, end, _, _ = window(size, h, 0)
            source = x + 4 * (p * size[HEIGHT] + first) * size[WIDTH]
            move(source, line_address, size[WIDTH])
            for _ in range(first + 1, end):
                source += 4 * size[WIDTH]
                keep_larger(source, line_address, size[WIDTH])
            for w in range(size[OUT_WIDTH]):
                _, _, start, stop = window(size, h, w)
                most = line[start]
                for i in range(start + 1, stop):
                    most = most if most >= line[i] or most != most else line[i]
                out[at] = most
                at += 1
    return 0


@kernel(INTS, FLOATS, FLOATS, INT)
def max_pool_grad(size, x, g, out_address):
    """The gradient of a window goes to the first of its largest entries."""
    out, at = floats(out_address), 0
    clear(out_address, size[PLANES] * size[HEIGHT] * size[WIDTH])
    for p in range(size[PLANES]):
        for h in range(size[OUT_HEIGHT]):
            for w in range(size[OUT_WIDTH]):
                first, end, start, stop = window(size, h, w)
                best = (p * size[HEIGHT] + first) * size[WIDTH] + start
                for row in range(first, end):
                    here = (p * size[HEIGHT] + row) * size[WIDTH]
                    for i in range(here + start, here + stop):
                        best = i if x[i] > x[best] or (x[i] != x[i] and x[best] == x[best]) else best
                out[best] += g[at]
                at += 1
    return 0


@kernel(INTS, INT, FLOATS, FLOATS, INT)
def average_pool(size, x, counts, out, line_address):
    """Averages; counts: what to divide by, per window; line: as in `max_pool`."""
    line, at = floats(line_address), 0
    for p in range(size[PLANES]):
        for h in range(size[OUT_HEIGHT]):
            first, end, _, _ = window(size, h, 0)
            source = x + 4 * (p * size[HEIGHT] + first) * size[WIDTH]
            move(source, line_address, size[WIDTH])
            for _ in range(first + 1, end):
                source += 4 * size[WIDTH]
                accumulate(source, line_address, size[WIDTH])
            for w in range(size[OUT_WIDTH]):
                _, _, start, stop = window(size, h, w)
                total = line[start]
                for i in range(start + 1, stop):
                    total += line[i]
                out[at] = total / counts[h * size[OUT_WIDTH] + w]
                at += 1
    return 0


@kernel(INTS, FLOATS, FLOATS, INT)
def average_pool_grad(size, g, counts, out_address):
    """Every window's share to each of its entries."""
    out, at = floats(out_address), 0
    clear(out_address, size[PLANES] * size[HEIGHT] * size[WIDTH])
    for p in range(size[PLANES]):
        for h in range(size[OUT_HEIGHT]):
            for w in range(size[OUT_WIDTH]):
                first, end, start, stop = window(size, h, w)
                share = g[at] / counts[h * size[OUT_WIDTH] + w]
                for row in range(first, end):
                    here = (p * size[HEIGHT] + row) * size[WIDTH]
                    for i in range(here + start, here + stop):
                        out[i] += share
                at += 1
    return 0


# Windows of 2 x 2 side by side: sixteen at a time


def _order(lanes: Sequence[int]) -> Any:
    return ir.Constant(ir.VectorType(I32, LANES), list(lanes))


EVEN, ODD = _order(range(0, 2 * LANES, 2)), _order(range(1, 2 * LANES, 2))
FIRST_HALF = _order(i // 2 + LANES * (i % 2) for i in range(LANES))
SECOND_HALF = _order(LANES // 2 + i // 2 + LANES * (i % 2) for i in range(LANES))


class _Pairs:
    """Rows of pairs: their first and their second numbers in registers of their own, sixteen pairs at a time."""

    def __init__(self, v: Vectors, count: Any) -> None:
        b = v.builder
        self.v, self.count = v, b.mul(count, I64(2))
        self.masks = [v.first_lanes(self.count), v.first_lanes(b.sub(self.count, I64(LANES)))]

    def _halves(self, address: Any) -> list[Any]:
        return [address, self.v.builder.add(address, I64(BYTES))]

    def load(self, address: Any) -> list[Any]:
        low, high = (self.v.load(a, m) for a, m in zip(self._halves(address), self.masks, strict=True))
        return self.split(low, high)

    def split(self, low: Any, high: Any) -> list[Any]:
        return [self.v.builder.shuffle_vector(low, high, order) for order in (EVEN, ODD)]

    def store(self, first: Any, second: Any, address: Any) -> None:
        for order, at, mask in zip((FIRST_HALF, SECOND_HALF), self._halves(address), self.masks, strict=True):
            self.v.store(self.v.builder.shuffle_vector(first, second, order), at, mask)


def _over_pairs(v: Vectors, count: Any, body: Any) -> None:
    """`body(pairs, mask, number of the first window)` for sixteen windows of a row at a time."""
    b = v.builder

    def step(i: Any) -> Sequence[Any]:
        first = b.mul(i, I64(LANES))
        left = b.sub(count, first)
        body(_Pairs(v, left), v.first_lanes(left), first)
        return ()

    loop(b, b.sdiv(b.add(count, I64(LANES - 1)), I64(LANES)), (), step)


def _max_of_pairs(v: Vectors, top: Any, bottom: Any, out: Any, count: Any) -> None:
    b = v.builder

    def step(pairs: _Pairs, mask: Any, first: Any) -> None:
        at = b.mul(first, I64(8))
        upper, lower = pairs.load(b.add(top, at)), pairs.load(b.add(bottom, at))
        columns = [maximum(v, x, y) for x, y in zip(upper, lower, strict=True)]
        v.store(maximum(v, *columns), b.add(out, b.mul(first, I64(4))), mask)

    _over_pairs(v, count, step)


def _spread_to_pairs(v: Vectors, top: Any, bottom: Any, g: Any, to_top: Any, to_bottom: Any, count: Any) -> None:
    b = v.builder

    def step(pairs: _Pairs, mask: Any, first: Any) -> None:
        at = b.mul(first, I64(8))
        (a, c), (d, e) = pairs.load(b.add(top, at)), pairs.load(b.add(bottom, at))
        share = v.load(b.add(g, b.mul(first, I64(4))), mask)
        is_top = v.compare(">=", maximum(v, a, c), maximum(v, d, e))
        of_top, of_bottom = v.select(is_top, share, 0.0), v.select(is_top, 0.0, share)
        left, right = v.compare(">=", a, c), v.compare(">=", d, e)
        pairs.store(v.select(left, of_top, 0.0), v.select(left, 0.0, of_top), b.add(to_top, at))
        pairs.store(v.select(right, of_bottom, 0.0), v.select(right, 0.0, of_bottom), b.add(to_bottom, at))

    _over_pairs(v, count, step)


max_of_pairs, spread_to_pairs = declare(4, _max_of_pairs), declare(6, _spread_to_pairs)


@kernel(INTS, INT, INT)
def max_pool_2x2(size, x, out):
    """`max_pool` of windows of 2 x 2 side by side."""
    pitch = 4 * size[WIDTH]
    for p in range(size[PLANES]):
        for h in range(size[OUT_HEIGHT]):
            source = x + (p * size[HEIGHT] + 2 * h) * pitch
            max_of_pairs(source, source + pitch, out, size[OUT_WIDTH])
            out += 4 * size[OUT_WIDTH]
    return 0


@kernel(INTS, INT, INT, INT)
def max_pool_2x2_grad(size, x, g, out):
    """`max_pool_grad` of windows of 2 x 2 side by side."""
    pitch = 4 * size[WIDTH]
    if size[HEIGHT] != 2 * size[OUT_HEIGHT] or size[WIDTH] != 2 * size[OUT_WIDTH]:
        clear(out, size[PLANES] * size[HEIGHT] * size[WIDTH])
    for p in range(size[PLANES]):
        for h in range(size[OUT_HEIGHT]):
            at = (p * size[HEIGHT] + 2 * h) * pitch
            spread_to_pairs(x + at, x + at + pitch, g, out + at, out + at + pitch, size[OUT_WIDTH])
            g += 4 * size[OUT_WIDTH]
    return 0
