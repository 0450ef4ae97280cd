"""Kernels over rows whose elements lie apart: every lane of a vector is a row, some neighbouring ones go together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import ir

from workbench.framework.expr.expr import Expr
from workbench.framework.rows.kernel import NEAR, PAD
from workbench.framework.rows.passes import Round
from workbench.framework.rows.recording import BESIDE, Per
from workbench.runtime.kernels.rows.folds import fold_of
from workbench.runtime.kernels.rows.scans import down, start_down
from workbench.runtime.kernels.rows.terms import Terms, gathered, lanes_from, masked_integers, picked
from workbench.runtime.kernels.rows.writer import LEVEL, KernelWriter, uses_places
from workbench.runtime.kernels.vectors import I32, I64, WIDTH, loop

AHEAD = 8  # lines of a scan that are brought into the cache before it is their turn


def write_columns(writer: KernelWriter) -> None:
    """The body of a kernel."""
    w, b = writer, writer.builder
    outer, _, stride, rows = w.sizes.values()
    with_all = b.add(w.times(b.sub(outer, I64(1)), stride), rows)
    w.check_labels(with_all)

    def line(o: Any) -> Sequence[Any]:
        done = I64(0)
        for width in _widths(w):
            done = _blocks(w, o, done, width)
        single = b.sdiv(b.add(b.sub(rows, done), I64(WIDTH - 1)), I64(WIDTH))

        def last(i: Any) -> Sequence[Any]:
            first = b.add(done, b.mul(i, I64(WIDTH)))
            _Columns(w, o, first, 1, w.v.first_lanes(b.sub(rows, first))).write()
            return ()

        loop(b, single, (), last)
        return ()

    loop(b, outer, (), line)
    w.finish()


def _widths(writer: KernelWriter) -> list[int]:
    """Of blocks of rows: what runs down columns waits for what is above it, and single vectors would do so for long."""
    width = writer.kernel.block
    return [width, width // 2] if any(one.scans for one in writer.rounds.rounds) else [width]


def _blocks(writer: KernelWriter, line: Any, begin: Any, width: int) -> Any:
    """As many whole blocks of a line as there are from one row on; the first row behind them."""
    w, b = writer, writer.builder
    count = b.sdiv(b.sub(w.sizes["rows"], begin), I64(width))

    def block(i: Any) -> Sequence[Any]:
        _Columns(w, line, b.add(begin, b.mul(i, I64(width))), width // WIDTH, None).write()
        return ()

    loop(b, count, (), block)
    return b.add(begin, b.mul(count, I64(width)))


class _Columns:
    """Some neighbouring rows: all rounds, with the numbers of rows in registers.

    Args:
        line: the number of the line they are in. first: the first of them in it. vectors: how many there are.
        mask: which lanes of the only vector are rows; None for all.
    """

    def __init__(self, writer: KernelWriter, line: Any, first: Any, vectors: int, mask: Any) -> None:
        self.w, self.b, self.v = writer, writer.builder, writer.v
        self.line, self.first, self.vectors, self.mask = line, first, vectors, mask
        _, self.height, self.stride, _ = writer.sizes.values()
        self.known: list[dict[int, Any]] = [{} for _ in range(vectors)]  # numbers of rows, by id
        self.places = {id(p): n for n, p in enumerate(writer.kernel.kept)}
        self.there: set[int] = set()  # of what is kept, what has been stored

    def write(self) -> None:
        for vector in range(self.vectors):
            self.known[vector].update(self._row_inputs(vector))
        for one in self.w.rounds.rounds:
            for vector in range(self.vectors):
                self._row_values(one, vector)
            if one.is_over_elements:
                self._elements(one)
            self.there.update(map(id, one.kept))

    # Numbers of whole rows

    def _row_inputs(self, vector: int) -> dict[int, Any]:
        """The inputs with one number per row, by id."""
        operands = self.w.kernel.traced.inputs
        return {
            id(operands[n]): self._row_input(n, x.is_integer, vector)
            for n, x in self.w.input_kinds.items()
            if x.per is Per.ROW
        }

    def _row_input(self, number: int, is_integer: bool, vector: int) -> Any:
        if not is_integer:
            return self.v.load(self._row_at(self.w.ins[number], vector), self.mask)
        mask = self.v.first_lanes(I64(WIDTH)) if self.mask is None else self.mask
        return masked_integers(self.v, self._row_at(self.w.ins[number], vector, 8), mask)

    def _row_values(self, one: Round, vector: int) -> None:
        terms = Terms(
            self.v, lambda part: self.known[vector].get(id(part)), self.w.scalar,
            pick=lambda terms, part: self._picked(terms, part, vector),
        )  # fmt: skip
        for part in one.row_values:
            self.known[vector][id(part)] = self.v.number(terms.value(part))
        for number, part in one.row_outs:
            self.v.store(self.v.number(terms.value(part)), self._row_at(self.w.outs[number], vector), self.mask)

    def _picked(self, terms: Terms, part: Expr, vector: int) -> Any:
        """The elements that the labels of sixteen rows name."""
        v, b, w = self.v, self.b, self.w

        def gather(number: int, kind: Per, places: Any) -> Any:
            if kind is Per.ELEMENT:
                lines = b.add(v.everywhere(b.mul(self.line, self.height), places.type), places)
                rows = v.everywhere(w.plus(self.first, I64(vector * WIDTH)), places.type)
                rows = b.add(rows, ir.Constant(places.type, list(range(WIDTH))))
                places = b.add(b.mul(lines, v.everywhere(self.stride, places.type)), rows)
            mask = v.first_lanes(I64(WIDTH)) if self.mask is None else self.mask
            return gathered(v, w.ins[number], places, mask)

        return picked(terms, part, w.rounds.kinds, gather)

    def _row_at(self, address: Any, vector: int, item: int | None = None) -> Any:
        row = self.w.plus(self.b.mul(self.line, self.stride), self.first, I64(vector * WIDTH))
        return self.b.add(address, self.b.mul(row, I64(item or self.v.item)))

    # Elements

    def _elements(self, one: Round) -> None:
        """A round over all elements; long sums are made of short ones, what runs along rows goes on through all."""
        b, size = self.b, len(one.folds)
        starts = [self.v.number(fold_of(fold).start) for fold in one.folds] * self.vectors
        runs = [start_down(self.v, scan) for scan in one.scans] * self.vectors
        folds = list(one.folds) * self.vectors
        size_of_level = self._size_of_level()
        levels = b.sdiv(b.add(self.height, b.sub(size_of_level, I64(1))), size_of_level)

        def level(i: Any, *so_far: Any) -> Sequence[Any]:
            begin = b.mul(i, size_of_level)
            count = self.w.least(size_of_level, b.sub(self.height, begin))
            carried = [*starts, *so_far[len(folds) :]]
            held = loop(b, count, carried, lambda h, *held: self._line(one, b.add(begin, h), held))
            sums = zip(folds, so_far[: len(folds)], held[: len(folds)], strict=True)
            return [*(fold_of(f).combine(self.v, a, x) for f, a, x in sums), *held[len(folds) :]]

        totals = loop(b, levels, [*starts, *runs], level)
        for vector in range(self.vectors):
            for fold, total in zip(one.folds, totals[vector * size : (vector + 1) * size], strict=True):
                self.known[vector][id(fold)] = total

    def _size_of_level(self) -> Any:
        """How many terms are added one after the other: so many that there are no more such sums to be added up."""
        b, size = self.b, I64(LEVEL)
        for larger in (2 * LEVEL, 8 * LEVEL, 64 * LEVEL):
            size = b.select(b.icmp_signed(">", self.height, I64(larger * larger // 8)), I64(larger), size)
        return size

    def _line(self, one: Round, number: Any, held: Sequence[Any]) -> list[Any]:
        """The elements at one place of all rows of the block.

        Args:
            number: as which it comes.
        """
        place = self.b.sub(self.b.sub(self.height, I64(1)), number) if one.is_reversed else number
        size, runs, split = len(one.folds), len(one.scans), len(one.folds) * self.vectors
        sums, carried = held[:split], held[split:]
        results = [
            self._vector(one, place, n, sums[n * size : (n + 1) * size], carried[n * runs : (n + 1) * runs])
            for n in range(self.vectors)
        ]
        return [x for part in (0, 1) for result in results for x in result[part]]

    def _vector(
        self, one: Round, place: Any, vector: int, held: Sequence[Any], carried: Sequence[Any]
    ) -> tuple[list[Any], list[Any]]:
        """One vector: what is held of reductions, and of scans, with what it adds."""
        v, w = self.v, self.w
        at = v.everywhere(self.b.trunc(place, I32), lanes_from(v, I64(0)).type) if uses_places(one.roots) else None
        runs = dict(zip(map(id, one.scans), carried, strict=True))

        def scan(part: Expr, *operands: Any) -> Any:
            result, runs[id(part)] = down(v, part, runs[id(part)], operands)
            return result

        if one.scans and self.mask is None:
            self._prefetch(one, place, vector)
        terms = Terms(v, self._leaf_of(place, vector), w.scalar, at, scan=scan)
        for part in one.scans:
            terms.value(part)
        folded = [v.number(terms.value(fold.args[0])) for fold in one.folds]
        outs = [(number, v.number(terms.value(expr))) for number, expr in one.outs]
        for part in one.kept:
            v.store(terms.value(part), self._kept_at(part, place, vector), self.mask)
        for number, x in outs:
            w.store(number, x, self._element(place, vector), self.mask)
        sums = [fold_of(f).combine(v, a, x) for f, a, x in zip(one.folds, held, folded, strict=True)]
        return sums, list(runs.values())

    def _prefetch(self, one: Round, place: Any, vector: int) -> None:
        """Lines to come: of steps so short, in pages that follow each other, processors do not foresee them."""
        w = self.w
        element = self._element(self.b.add(place, I64(-AHEAD if one.is_reversed else AHEAD)), vector)
        offset = self.b.mul(element, I64(self.v.item))
        read = [w.ins[n] for n, x in w.input_kinds.items() if x.per is Per.ELEMENT]
        written = [w.outs[n] for n, _ in one.outs if not w.output_kinds[n].is_integer]
        for number, address in enumerate((*read, *written)):
            self.v.prefetch(self.b.add(address, offset), number >= len(read))

    def _leaf_of(self, place: Any, vector: int) -> Callable[[Expr], Any]:
        def leaf(part: Expr) -> Any:
            number = self.known[vector].get(id(part))
            if number is not None:
                return self._as_place(number) if number.type.element == I64 else number
            if id(part) in self.there:
                return self.v.load(self._kept_at(part, place, vector), self.mask)
            if part.function == BESIDE:
                return self._beside(part, place, vector)
            return self._input(part.value, place, vector) if part.function == "input" else None

        return leaf

    def _input(self, number: int, place: Any, vector: int) -> Any:
        address = self.w.ins[number]
        if self.w.input_kinds[number].per is Per.ELEMENT:
            return self.v.load(self._element_at(address, place, vector), self.mask)
        at = self.b.add(address, self.b.mul(place, I64(self.v.item)))
        return self.v.splat(self.b.load(self.b.inttoptr(at, self.v.element.as_pointer())))

    def _beside(self, part: Expr, place: Any, vector: int) -> Any:
        """Elements of the line before or behind, the number outside where there is none."""
        b, (step, outside) = self.b, part.value
        other = b.add(place, I64(step))
        is_inside = b.icmp_unsigned("<", other, self.height)
        at = self._element_at(self.w.ins[part.args[0].value], b.select(is_inside, other, place), vector)
        return b.select(is_inside, self.v.load(at, self.mask), self.v.number(outside))

    def _as_place(self, labels: Any) -> Any:
        """Labels as places are compared with."""
        return self.b.trunc(labels, lanes_from(self.v, I64(0)).type)

    def _element(self, place: Any, vector: int) -> Any:
        line = self.w.plus(self.b.mul(self.line, self.height), place)
        return self.w.plus(self.b.mul(line, self.stride), self.first, I64(vector * WIDTH))

    def _element_at(self, address: Any, place: Any, vector: int) -> Any:
        return self.b.add(address, self.b.mul(self._element(place, vector), I64(self.v.item)))

    def _kept_at(self, part: Expr, place: Any, vector: int) -> Any:
        lodging = self.w.kernel.lodged.get(id(part))
        if lodging is not None:
            return self._element_at(self.w.outs[lodging], place, vector)
        room = self.w.plus(self.w.most(self.b.mul(self.height, I64(self.w.kernel.block)), I64(NEAR)), I64(PAD))
        first = self.b.mul(room, I64(self.places[id(part)]))
        element = self.w.plus(first, self.b.mul(place, I64(self.w.kernel.block)), I64(vector * WIDTH))
        return self.b.add(self.w.kept, self.b.mul(element, I64(self.v.item)))
