"""Windows of sixteen planes at once: a register holds one pixel of all of them.

Windows overlap, are cut off by the border and differ in size, but they are the same for all planes. All distances and
counts are in registers of sixteen numbers, which are float32 or float64 as the pointers say.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial, reduce
from typing import Any

from llvmlite import ir

from workbench.runtime.kernels.conv.tiles import declare
from workbench.runtime.kernels.functions import INFINITE, maximum
from workbench.runtime.kernels.intrinsics import behind, function, item_of
from workbench.runtime.kernels.tensor.transposes import turn
from workbench.runtime.kernels.vectors import I1, I64, MASK, Arithmetic, loop
from workbench.runtime.kernels.vectors import WIDTH as LANES
from workbench.runtime.words.pooling import (
    COUNT,
    HEIGHT,
    IS_FIRST,
    IS_LAST,
    LEFT,
    LENGTH,
    NAN_COLUMNS,
    NAN_ROWS,
    OUT_HEIGHT,
    OUT_WIDTH,
    RUN_WORDS,
    RUNS,
    STEP,
    TABLE,
    WIDTH,
)

_EVERYWHERE = ir.Constant(MASK, [1] * LANES)
UNROLLED = (1, 2, 3)  # lengths of windows with code of their own: loops are for long ones


def _by_length(b: Any, length: Any, written: Callable[[int], None], repeated: Callable[[], None]) -> None:
    """Code for some lengths, and for all others."""
    for n in UNROLLED:
        with b.if_then(b.icmp_signed("==", length, I64(n))):
            written(n)
    with b.if_then(b.icmp_unsigned(">=", b.sub(length, I64(1)), I64(len(UNROLLED)))):  # zero is one of them
        repeated()


def _reduction(combine: Callable[..., Any], start: float) -> Any:
    """(x, pitch, length, step, out, count): of windows `step` apart, all registers, `pitch` apart, combined."""

    def body(v: Arithmetic, x: Any, pitch: Any, length: Any, step: Any, out: Any, count: Any) -> None:
        b, register = v.builder, I64(v.item * LANES)
        pitch, step = b.mul(pitch, register), b.mul(step, register)

        def all_windows(combined: Callable[[Any], Any]) -> None:
            def window(i: Any) -> Sequence[Any]:
                v.store(combined(b.add(x, b.mul(i, step))), b.add(out, b.mul(i, register)))
                return ()

            loop(b, count, (), window)

        def written(n: int) -> None:
            places = [b.mul(pitch, I64(k)) for k in range(n)]
            all_windows(lambda at: reduce(partial(combine, v), [v.load(b.add(at, p)) for p in places]))

        def long(at: Any) -> Any:
            def entry(r: Any, combined: Any) -> Sequence[Any]:
                return [combine(v, combined, v.load(b.add(at, b.mul(r, pitch))))]

            return loop(b, length, [v.number(start)], entry)[0]

        _by_length(b, length, written, lambda: all_windows(long))

    return declare(6, body)


_largest, _total = _reduction(maximum, -INFINITE), _reduction(Arithmetic.add, 0.0)


@function
def largest(x, pitch, length, step, out, count):
    """See `_reduction`."""
    _largest(x, pitch, length, step, out, count)


@function
def total(x, pitch, length, step, out, count):
    """See `_reduction`; zero of none."""
    _total(x, pitch, length, step, out, count)


def _scale(v: Arithmetic, values: Any, factors: Any, count: Any) -> None:
    b = v.builder

    def register(i: Any) -> Sequence[Any]:
        at = b.add(values, b.mul(i, I64(v.item * LANES)))
        factor = b.load(b.inttoptr(b.add(factors, b.mul(i, I64(v.item))), v.element.as_pointer()))
        v.store(v.multiply(v.load(at), v.splat(factor)), at)
        return ()

    loop(b, count, (), register)


scale = declare(3, _scale)
"""(values, factors, count): multiply every register by a number of its own."""


def _give_to_first(
    v: Arithmetic, x: Any, out: Any, pitch: Any, length: Any, step: Any, tops: Any, g: Any, ahead: Any, count: Any,
    of_nan: Any,
) -> None:  # fmt: skip
    b = v.builder
    pitch, step, ahead = (b.mul(distance, I64(v.item * LANES)) for distance in (pitch, step, ahead))

    def lanes(condition: Any) -> Any:
        """All lanes or none."""
        return b.bitcast(b.sext(condition, ir.IntType(LANES)), MASK)

    takes_nan = lanes(b.icmp_signed("==", of_nan, I64(IS_FIRST)))
    takes_rest = b.icmp_signed("==", of_nan, I64(IS_LAST))

    def all_windows(give: Callable[..., None]) -> None:
        def window(i: Any) -> Sequence[Any]:
            there, here = b.mul(i, step), b.mul(i, ahead)
            top, share = v.load(b.add(tops, here)), v.load(b.add(g, here))
            give(b.add(x, there), b.add(out, there), top, share)
            return ()

        loop(b, count, (), window)

    def entry(source: Any, target: Any, top: Any, share: Any, missing: Any, is_last: Any) -> Any:
        """Where there is no first one yet."""
        value, held = v.load(source), v.load(target)
        rest = lanes(b.and_(takes_rest, is_last))
        equal = v.either(v.compare("==", value, top), v.both(v.is_nan(value), takes_nan), rest)
        hit = v.both(equal, missing)
        v.store(v.select(hit, v.add(held, share), held), target)
        return b.and_(missing, b.not_(hit))

    def written(n: int) -> None:
        def give(source: Any, target: Any, top: Any, share: Any) -> None:
            missing = _EVERYWHERE
            for k in range(n):
                down = b.mul(pitch, I64(k))
                missing = entry(b.add(source, down), b.add(target, down), top, share, missing, I1(k == n - 1))

        all_windows(give)

    def repeated() -> None:
        last = b.sub(length, I64(1))

        def give(source: Any, target: Any, top: Any, share: Any) -> None:
            def one(r: Any, missing: Any) -> Sequence[Any]:
                down, is_last = b.mul(r, pitch), b.icmp_signed("==", r, last)
                return [entry(b.add(source, down), b.add(target, down), top, share, missing, is_last)]

            loop(b, length, [_EVERYWHERE], one)

        all_windows(give)

    _by_length(b, length, written, repeated)


_give = declare(10, _give_to_first)


@function
def give_to_first(x, out, pitch, length, step, tops, g, ahead, count, of_nan):
    """Add `g` to `out` at the first register of windows where `x` is their maximum, `tops`.

    pitch: distance of a window's registers; step: of windows; ahead: of their maxima, and of what belongs to them.
    Where a maximum is NaN, `of_nan` tells which register it is, see `words.pooling`.
    """
    _give(x, out, pitch, length, step, tops, g, ahead, count, of_nan)


@function
def take(x, plane, valid, first, count, out):
    """So many pixels of `valid` planes, which are `plane` numbers long, as [pixels, 16]."""
    item = item_of(x)
    turn(behind(x, first), item * plane, out, item * LANES, valid, count)


@function
def put_back(x, plane, valid, first, count, out):
    """The reverse: pixels [pixels, 16] where they belong."""
    item = item_of(x)
    turn(x, item * LANES, behind(out, first), item * plane, count, valid)


@function
def registers(pointer, count):
    """A pointer so many registers further on."""
    return behind(pointer, LANES * count)


def _over_windows(reduction: Any) -> Any:
    @function
    def columns(size, x, out):
        """Of windows of the width, [width, 16] to [out width, 16]."""
        for run in range(runs(size), runs(size) + RUN_WORDS * size[RUNS], RUN_WORDS):
            left, count = registers(x, size[run + LEFT]), size[run + COUNT]
            reduction(left, 1, size[run + LENGTH], size[run + STEP], out, count)
            out = registers(out, count)

    @function
    def windows(size, x, first, start, end, line, out):
        """Of windows [start, end) of the height, reduced to [end - start, out width, 16]; `x` begins with row `first`.

        line: as long as one, for columns.
        """
        down = size[WIDTH]
        for h in range(start, end):
            top = size[TABLE + h]
            length = size[TABLE + size[OUT_HEIGHT] + h] - top
            reduction(registers(x, (top - first) * down), down, length, 1, line, size[WIDTH])
            columns(size, line, out)
            out = registers(out, size[OUT_WIDTH])

    return columns, windows


@function
def runs(size):
    """Where the table of columns begins."""
    return TABLE + 2 * (size[OUT_HEIGHT] + size[HEIGHT])


largest_of_columns, largest_of_windows = _over_windows(largest)
_, totals_of_windows = _over_windows(total)


@function
def touching(size, start, end):
    """The windows of the height that have some of the rows: first and end of them, and the rows all of these have."""
    tables = TABLE + 2 * size[OUT_HEIGHT]
    first, stop = size[tables + start], size[tables + size[HEIGHT] + end - 1]
    if first >= stop:
        return first, first, start, end
    return first, stop, min(start, size[TABLE + first]), max(end, size[TABLE + size[OUT_HEIGHT] + stop - 1])


@function
def share_rows(size, maxima, first, g, start, end, tops, out):
    """Gradients `g` of windows [start, end) of the height, to the first of their largest rows.

    maxima: of the rows from `first` on, [rows, out width, 16] as the result is; tops: as long as a row of these.
    Windows that begin later come first, as in NumPy, where all that add to a row are their first, second … rows.
    """
    down, of_nan = size[OUT_WIDTH], size[NAN_ROWS]
    for h in range(end - 1, start - 1, -1):
        at, length = (size[TABLE + h] - first) * down, size[TABLE + size[OUT_HEIGHT] + h] - size[TABLE + h]
        source, target, share = registers(maxima, at), registers(out, at), registers(g, (h - start) * down)
        largest(source, down, length, 1, tops, size[OUT_WIDTH])
        give_to_first(source, target, down, length, 1, tops, share, 1, size[OUT_WIDTH], of_nan)


@function
def share_columns(size, x, maxima, g, out):
    """Gradients of windows of the width, to the first of their largest columns; as `share_rows` otherwise."""
    at, of_nan = size[OUT_WIDTH], size[NAN_COLUMNS]
    for run in range(runs(size) + RUN_WORDS * (size[RUNS] - 1), runs(size) - 1, -RUN_WORDS):
        count, step = size[run + COUNT], size[run + STEP]
        left, last = size[run + LEFT] + (count - 1) * step, at - 1
        give_to_first(
            registers(x, left), registers(out, left), 1, size[run + LENGTH], -step, registers(maxima, last),
            registers(g, last), -1, count, of_nan,
        )  # fmt: skip
        at -= count
