"""Windows of 2 x 2 side by side, sixteen at a time.

Two lines of the image hold the windows of a line of the result. Thirty-two floats of either line are two registers; of
these one gets the first numbers of all pairs, another the second ones.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import ir

from workbench.runtime.kernels.conv.tiles import BYTES, declare
from workbench.runtime.kernels.functions import maximum
from workbench.runtime.kernels.vectors import I32, I64, MASK, WIDTH, Vectors, loop
from workbench.runtime.words.pooling import GROUP_WORDS, PIECES

Addresses = Sequence[Any]
Step = Callable[[Any, Any, Any], None]  # of the lines' form, the byte in both lines, the byte in the result


def _order(lanes: Sequence[int]) -> Any:
    return ir.Constant(ir.VectorType(I32, WIDTH), list(lanes))


_EVEN, _ODD = _order(range(0, 2 * WIDTH, 2)), _order(range(1, 2 * WIDTH, 2))
_LOW = _order(i // 2 + WIDTH * (i % 2) for i in range(WIDTH))
_HIGH = _order(WIDTH // 2 + i // 2 + WIDTH * (i % 2) for i in range(WIDTH))


class _Line:
    """Sixteen pairs that lie side by side; where there is a mask, those it has.

    Attributes:
        windows: the mask of pairs.
    """

    def __init__(self, v: Vectors, count: Any = None) -> None:
        self.v, self.windows, self._halves = v, None, [None, None]
        if count is not None:
            twice = v.builder.mul(count, I64(2))
            self.windows = v.first_lanes(count)
            self._halves = [v.first_lanes(v.builder.sub(twice, I64(WIDTH * i))) for i in range(2)]

    def load(self, address: Any) -> list[Any]:
        """Their first and their second numbers."""
        low, high = (self._load(address, i) for i in range(2))
        return [self.v.builder.shuffle_vector(low, high, order) for order in (_EVEN, _ODD)]

    def store(self, first: Any, second: Any, address: Any) -> None:
        for i, order in enumerate((_LOW, _HIGH)):
            self._store(self.v.builder.shuffle_vector(first, second, order), address, i)

    def _load(self, address: Any, half: int) -> Any:
        return self.v.load(self.v.builder.add(address, I64(half * BYTES)), self._halves[half])

    def _store(self, x: Any, address: Any, half: int) -> None:
        self.v.store(x, self.v.builder.add(address, I64(half * BYTES)), self._halves[half])


class _Pieces(_Line):
    """Sixteen pairs of several lines: a group of the table that `words.pooling` tells of."""

    def __init__(self, v: Vectors, group: Any) -> None:
        self.v = v
        self.windows = self._mask(group, 0)
        self._pieces = [
            [self._piece(group, 1 + 2 * (half * PIECES + i)) for i in range(PIECES)] for half in range(2)
        ]  # fmt: skip

    def _word(self, group: Any, index: int) -> Any:
        b = self.v.builder
        return b.load(b.inttoptr(b.add(group, I64(8 * index)), I64.as_pointer()))

    def _mask(self, group: Any, index: int) -> Any:
        return self.v.builder.bitcast(self.v.builder.trunc(self._word(group, index), ir.IntType(WIDTH)), MASK)

    def _piece(self, group: Any, index: int) -> tuple[Any, Any]:
        return self._word(group, index), self._mask(group, index + 1)

    def _load(self, address: Any, half: int) -> Any:
        loaded = self.v.number(0.0)
        for distance, mask in self._pieces[half]:
            loaded = self.v.select(mask, self.v.load(self.v.builder.add(address, distance), mask), loaded)
        return loaded

    def _store(self, x: Any, address: Any, half: int) -> None:
        for distance, mask in self._pieces[half]:
            self.v.store(x, self.v.builder.add(address, distance), mask)


def _over_lines(v: Vectors, pitch: Any, lines: Any, count: Any, step: Step) -> None:
    """All windows of `lines` lines of `count` of them, the last of a line masked."""
    b = v.builder
    whole, rest = b.sdiv(count, I64(WIDTH)), b.srem(count, I64(WIDTH))
    sixteen, last = _Line(v), _Line(v, rest)

    def line(r: Any) -> Sequence[Any]:
        source, target = b.mul(r, b.mul(pitch, I64(2))), b.mul(r, b.mul(count, I64(4)))

        def at(i: Any, form: _Line) -> Sequence[Any]:
            offset = b.mul(i, I64(BYTES))
            step(form, b.add(source, b.mul(offset, I64(2))), b.add(target, offset))
            return ()

        loop(b, whole, (), lambda i: at(i, sixteen))
        with b.if_then(b.icmp_signed(">", rest, I64(0))):
            at(whole, last)
        return ()

    loop(b, lines, (), line)


def _over_groups(v: Vectors, table: Any, groups: Any, step: Step) -> None:
    """All windows of a table of groups."""
    b = v.builder

    def group(i: Any) -> Sequence[Any]:
        step(_Pieces(v, b.add(table, b.mul(i, I64(8 * GROUP_WORDS)))), I64(0), b.mul(i, I64(BYTES)))
        return ()

    loop(b, groups, (), group)


def _maxima(v: Vectors, x: Any, pitch: Any, out: Any) -> Step:
    b = v.builder

    def step(form: _Line, source: Any, target: Any) -> None:
        top = b.add(x, source)
        columns = [maximum(v, a, c) for a, c in zip(form.load(top), form.load(b.add(top, pitch)), strict=True)]
        v.store(maximum(v, *columns), b.add(out, target), form.windows)

    return step


def _shares(v: Vectors, x: Any, pitch: Any, g: Any, out: Any) -> Step:
    """To the first of the largest numbers; NaN is not above anything, so what has to be first is the other one."""
    b = v.builder

    def step(form: _Line, source: Any, target: Any) -> None:
        top = b.add(x, source)
        (a, c), (d, e) = form.load(top), form.load(b.add(top, pitch))
        share = v.load(b.add(g, target), form.windows)
        is_top = v.compare(">=", maximum(v, a, c), maximum(v, d, e))
        of_top, of_bottom = v.select(is_top, share, 0.0), v.select(is_top, 0.0, share)
        left, right = v.compare(">=", a, c), v.compare(">=", d, e)
        to = b.add(out, source)
        form.store(v.select(left, of_top, 0.0), v.select(left, 0.0, of_top), to)
        form.store(v.select(right, of_bottom, 0.0), v.select(right, 0.0, of_bottom), b.add(to, pitch))

    return step


max_of_lines = declare(
    5, lambda v, x, pitch, out, lines, count: _over_lines(v, pitch, lines, count, _maxima(v, x, pitch, out))
)
"""(x, pitch, out, lines, count): maxima of `count` windows in every two lines, which are `pitch` bytes apart."""

max_of_groups = declare(
    5, lambda v, x, pitch, out, table, groups: _over_groups(v, table, groups, _maxima(v, x, pitch, out))
)
"""(x, pitch, out, table, groups): those that a table tells of."""

share_to_lines = declare(
    6, lambda v, x, pitch, g, out, lines, count: _over_lines(v, pitch, lines, count, _shares(v, x, pitch, g, out))
)
"""(x, pitch, g, out, lines, count): what belongs to a maximum, `g`, at the first place that has it, else zeros."""

share_to_groups = declare(
    6, lambda v, x, pitch, g, out, table, groups: _over_groups(v, table, groups, _shares(v, x, pitch, g, out))
)
"""(x, pitch, g, out, table, groups): likewise."""
