"""Kernels over rows that lie in lines: vectors go along a row, a few short rows take each round together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llvmlite import ir

from workbench.framework.expr.expr import Expr
from workbench.framework.rows.kernel import LINES, MOST_ROWS, NEAR, PAD
from workbench.framework.rows.passes import LONG, Round
from workbench.framework.rows.recording import BESIDE, Per
from workbench.runtime.kernels.rows.folds import across, combined, fold_of
from workbench.runtime.kernels.rows.scans import along, start_along
from workbench.runtime.kernels.rows.terms import Terms, gathered, lanes_from, masked_integers, picked
from workbench.runtime.kernels.rows.writer import KernelWriter, uses_places
from workbench.runtime.kernels.sweeps import Fold
from workbench.runtime.kernels.vectors import I32, I64, INTEGERS, WIDTH, loop

CHUNK = 4096  # elements of a row that are summed before their sum is added to others in float64


def write_lines(writer: KernelWriter) -> None:
    """The body of a kernel."""
    _Lines(writer).write()


class _Lines:
    """One kernel.

    Short rows are gone over a few at a time, round by round: what one row waits for, the next one fills. Numbers of
    whole rows lie in memory on the stack, so that those of neighbouring rows are computed as vectors.
    """

    def __init__(self, writer: KernelWriter) -> None:
        self.w, self.b, self.v = writer, writer.builder, writer.v
        self.item = self.v.item
        self.batch, self.stride, self.rows, self.width = writer.sizes.values()
        held = [p for one in writer.rounds.rounds for p in (*one.row_values, *one.folds)]
        self.slots = {id(p): n for n, p in enumerate(held)}
        self.ready: set[int] = set()  # of these numbers, those that have been computed
        room = self.b.alloca(self.v.element, I64(max(len(held), 1) * (MOST_ROWS + WIDTH)))
        self.room = self.b.ptrtoint(room, I64)
        self.step = writer.least(
            writer.most(self.b.sdiv(I64(NEAR), writer.count), I64(1)), I64(MOST_ROWS)
        )  # fmt: skip
        self.places = {id(p): n for n, p in enumerate(writer.kernel.kept)}
        row = writer.times(self.batch, self.width)
        self.kept_stride = writer.plus(writer.most(row, I64(NEAR)), I64(PAD))

    def write(self) -> None:
        self.w.check_labels(self.rows)
        b = self.b
        blocks = b.sdiv(b.add(self.rows, b.sub(self.step, I64(1))), self.step)

        def block(i: Any) -> Sequence[Any]:
            begin = b.mul(i, self.step)
            self._block(begin, self.w.least(self.step, b.sub(self.rows, begin)))
            return ()

        loop(b, blocks, (), block)
        self.w.finish()

    def _block(self, begin: Any, count: Any) -> None:
        """All rounds for some rows."""
        for one in self.w.rounds.rounds:
            self._row_values(one, begin, count)
            self.ready.update(map(id, one.row_values))
            if one.is_over_elements:

                def row(i: Any, one: Round = one) -> Sequence[Any]:
                    self._row(one, begin, i)
                    return ()

                loop(self.b, count, (), row)
            self.ready.update(map(id, one.folds))

    # Numbers of whole rows

    def _slot(self, part: Expr, row: Any) -> Any:
        """Where a number of a row of the block is held."""
        first = I64(self.slots[id(part)] * (MOST_ROWS + WIDTH))
        return self.b.add(self.room, self.b.mul(self.b.add(first, row), I64(self.item)))

    def _row_values(self, one: Round, begin: Any, count: Any) -> None:
        if not (one.row_values or one.row_outs):
            return
        b, v = self.b, self.v

        def vector(i: Any) -> Sequence[Any]:
            first = b.mul(i, I64(WIDTH))
            mask = v.first_lanes(b.sub(count, first))
            terms = Terms(
                v, lambda part: self._row_leaf(part, begin, first, mask), self.w.scalar,
                pick=lambda terms, part: self._picked(terms, part, b.add(begin, first), mask),
            )  # fmt: skip
            for part in one.row_values:
                v.store(terms.value(part), self._slot(part, first))
            for number, part in one.row_outs:
                at = b.add(self.w.outs[number], b.mul(b.add(begin, first), I64(self.item)))
                v.store(v.number(terms.value(part)), at, mask)
            return ()

        loop(b, b.sdiv(b.add(count, I64(WIDTH - 1)), I64(WIDTH)), (), vector)

    def _row_leaf(self, part: Expr, begin: Any, first: Any, mask: Any) -> Any:
        if part.function == "input":
            address, row = self.w.ins[part.value], self.b.add(begin, first)
            if self.w.input_kinds[part.value].is_integer:
                return masked_integers(self.v, self.b.add(address, self.b.mul(row, I64(8))), mask)
            return self.v.load(self.b.add(address, self.b.mul(row, I64(self.item))), mask)
        return self.v.load(self._slot(part, first)) if id(part) in self.ready else None

    def _picked(self, terms: Terms, part: Expr, row: Any, mask: Any) -> Any:
        """The elements that the labels of sixteen rows name."""
        v, b = self.v, self.b

        def gather(number: int, kind: Per, places: Any) -> Any:
            if kind is Per.ELEMENT:
                rows = b.add(v.everywhere(row, places.type), ir.Constant(places.type, list(range(WIDTH))))
                places = b.add(b.mul(rows, v.everywhere(self.width, places.type)), places)
            return gathered(v, self.w.ins[number], places, mask)

        return picked(terms, part, self.w.rounds.kinds, gather)

    # Elements

    def _row(self, one: Round, begin: Any, number: Any) -> None:
        """One round over one row."""
        b = self.b
        row = b.add(begin, number)
        terms = _RowScalars(self, one, row, number)
        totals = [self._total(fold) for fold in one.folds] + [start_along(self.v, scan) for scan in one.scans]
        if self.w.kernel.layout == LINES:
            totals = self._chunks(one, terms, row, number, (I64(0), None), totals)
        else:
            totals = self._samples(one, terms, row, number, totals)
        for fold, total in zip(one.folds, totals[: len(one.folds)], strict=True):
            element = self.w.rounded(total)
            b.store(element, b.inttoptr(self._slot(fold, number), self.v.element.as_pointer()))

    def _samples(self, one: Round, scalars: _RowScalars, row: Any, number: Any, totals: Sequence[Any]) -> Sequence[Any]:
        """A row that lies in several samples, as many of them at a time as make a chunk."""
        b = self.b
        planes = self.w.most(b.sdiv(I64(CHUNK), self.w.most(self.width, I64(1))), I64(1))
        groups = b.sdiv(b.add(self.batch, b.sub(planes, I64(1))), planes)

        def group(g: Any, *so_far: Any) -> Sequence[Any]:
            first = b.mul(g, planes)
            count = self.w.least(planes, b.sub(self.batch, first))
            return self._chunks(one, scalars, row, number, (first, count), so_far)

        return loop(b, groups, totals, group)

    def _chunks(
        self, one: Round, scalars: _RowScalars, row: Any, number: Any, planes: tuple[Any, Any], totals: Sequence[Any]
    ) -> Sequence[Any]:
        """A stretch of a row after the other, none so long that float32 is too short for its sum.

        Args:
            totals: of reductions, as float64, then what runs along the row.
        """
        b = self.b
        if not any(fold.function == "row_sum" for fold in one.folds):
            return self._chunk(one, scalars, row, number, planes, (I64(0), self.width), totals)
        chunks = b.sdiv(b.add(self.width, I64(CHUNK - 1)), I64(CHUNK))

        def chunk(c: Any, *so_far: Any) -> Sequence[Any]:
            number = b.sub(b.sub(chunks, I64(1)), c) if one.is_reversed else c
            start = b.mul(number, I64(CHUNK))
            stretch = start, self.w.least(I64(CHUNK), b.sub(self.width, start))
            return self._chunk(one, scalars, row, number, planes, stretch, so_far)

        return loop(b, chunks, totals, chunk)

    def _chunk(
        self, one: Round, scalars: _RowScalars, row: Any, number: Any, planes: tuple[Any, Any],
        stretch: tuple[Any, Any], totals: Sequence[Any],
    ) -> Sequence[Any]:  # fmt: skip
        size = len(one.folds)
        held = self._planes(one, scalars, row, number, planes, *stretch, totals[size:])
        sums = zip(one.folds, totals[:size], held[:size], strict=True)
        return [*(self._joined(f, t, h) for f, t, h in sums), *held[size:]]

    def _total(self, fold: Expr) -> Any:
        return self.w.widened(self.v.element(fold_of(fold).start))

    def _joined(self, fold: Expr, total: Any, held: Any) -> Any:
        """What was reduced so far with what a chunk gives, in float64."""
        return combined(self.b, fold, total, self.w.widened(across(self.v, fold_of(fold), held)))

    def _planes(
        self, one: Round, scalars: _RowScalars, row: Any, number: Any, planes: tuple[Any, Any], start: Any, count: Any,
        runs: Sequence[Any],
    ) -> Sequence[Any]:  # fmt: skip
        """A stretch of a row in some samples, one sample after the other.

        Args:
            runs: what runs along the row.
        """
        b, w = self.b, self.w
        first, plane_count = planes

        def plane(i: Any, *held: Any) -> Sequence[Any]:
            sample = b.add(first, i)
            elements = w.plus(w.times(sample, self.stride), w.times(row, self.width), start)
            place = w.plus(w.times(sample, self.width), start)
            kept = w.plus(w.times(number, w.count), place)
            return _Stretch(self, one, scalars, elements, place, kept).run(count, held)

        starts = [*(self.v.number(fold_of(fold).start) for fold in one.folds), *runs]
        return plane(I64(0), *starts) if plane_count is None else loop(b, plane_count, starts, plane)


class _RowScalars:
    """What elements of one row are combined with: its numbers in every lane."""

    def __init__(self, lines: _Lines, one: Round, row: Any, number: Any) -> None:
        self.lines, self.v, self.b = lines, lines.v, lines.b
        self.vectors: dict[int, Any] = {}
        self.inputs: dict[int, Any] = {}
        for part in _row_parts(one, lines):
            if part.function == "input":
                self.inputs[part.value] = self._input(part.value, row)
            else:
                self.vectors[id(part)] = self._splat(lines._slot(part, number))

    def _splat(self, address: Any) -> Any:
        return self.v.splat(self.b.load(self.b.inttoptr(address, self.v.element.as_pointer())))

    def _input(self, number: int, row: Any) -> Any:
        address, b = self.lines.w.ins[number], self.b
        if not self.lines.w.input_kinds[number].is_integer:
            return self._splat(b.add(address, b.mul(row, I64(self.lines.item))))
        one = b.load(b.gep(b.inttoptr(address, I64.as_pointer()), [row]))
        return self.v.everywhere(b.trunc(one, I32), lanes_from(self.v, I64(0)).type)


def _row_parts(one: Round, lines: _Lines) -> list[Expr]:
    """The numbers of whole rows that a round reads, and inputs with one number per row."""
    parts: dict[int, Expr] = {}
    rest, seen = one.roots, set[int]()
    while rest:
        part = rest.pop()
        if id(part) in seen:
            continue
        seen.add(id(part))
        if id(part) in lines.ready:
            parts[id(part)] = part
        elif part.function == "input":
            if lines.w.input_kinds[part.value].per is Per.ROW:
                parts[id(part)] = part
        else:
            rest += part.args
    return list(parts.values())


class _Stretch:
    """Elements that lie together in one row: whole vectors, a few at a time, and what is left of one.

    Args:
        elements: the number of the first one in the arrays. place: in its row. kept: in what is kept between rounds.
    """

    def __init__(self, lines: _Lines, one: Round, scalars: _RowScalars, elements: Any, place: Any, kept: Any) -> None:
        self.lines, self.one, self.scalars, self.v, self.b = lines, one, scalars, lines.v, lines.b
        self.elements, self.place, self.kept = elements, place, kept
        self.roots = one.roots
        self.has_places = uses_places(self.roots)
        later = {id(p) for p in one.kept}
        self.earlier = {id(p) for p in lines.w.rounds.kept} - later

    def run(self, count: Any, held: Sequence[Any]) -> list[Any]:
        """What was held with what the elements add to it."""
        b, together = self.b, self._together()
        done = I64(0)
        if together > 1:
            rounds = b.sdiv(count, I64(WIDTH * together))
            starts = [self.v.number(fold_of(fold).start) for fold in self.one.folds] * (together - 1)

            def one_round(i: Any, *held: Any) -> list[Any]:
                first, terms = b.mul(i, I64(together)), []
                size = len(self.one.folds)
                for k in range(together):
                    terms += self._vector(b.add(first, I64(k)), held[k * size : (k + 1) * size])
                return terms

            many = loop(b, rounds, [*held, *starts], one_round)
            size = len(self.one.folds)
            held = [self._tree(fold_of(f), many[k::size]) for k, f in enumerate(self.one.folds)]
            done = b.mul(rounds, I64(together))
        vectors = b.sdiv(count, I64(WIDTH))
        if self.one.is_reversed:
            held = self._rest(vectors, b.srem(count, I64(WIDTH)), held)
            last = b.sub(vectors, I64(1))
            return loop(b, vectors, held, lambda i, *held: self._vector(b.sub(last, i), held))
        held = loop(b, b.sub(vectors, done), held, lambda i, *held: self._vector(b.add(done, i), held))
        return self._rest(vectors, b.srem(count, I64(WIDTH)), held)

    def _together(self) -> int:
        """Vectors a round of the loop works on, each reduced by itself."""
        if not self.one.folds or self.one.scans:
            return 1
        is_long = any(part.function in LONG for root in self.roots for part in _below(root, self.lines))
        return 2 if is_long or len(self.one.folds) > 1 else 4

    def _tree(self, fold: Fold, parts: list[Any]) -> Any:
        while len(parts) > 1:
            parts = [fold.combine(self.v, a, b) for a, b in zip(parts[::2], parts[1::2], strict=True)]
        return parts[0]

    def _vector(self, number: Any, held: Sequence[Any], mask: Any = None) -> list[Any]:
        """One vector by its number in the stretch."""
        b, v, lines, size = self.b, self.v, self.lines, len(self.one.folds)
        offset = b.mul(number, I64(WIDTH))
        place = lanes_from(v, b.add(self.place, offset)) if self.has_places else None
        runs = dict(zip(map(id, self.one.scans), held[size:], strict=True))

        def scan(part: Expr, *operands: Any) -> Any:
            result, runs[id(part)] = along(v, part, runs[id(part)], operands, mask)
            return result

        terms = Terms(v, lambda part: self._leaf(part, offset, mask), lines.w.scalar, place, scan=scan)
        for part in self.one.scans:
            terms.value(part)
        folded = [v.number(terms.value(fold.args[0])) for fold in self.one.folds]
        outs = [(number, v.number(terms.value(expr))) for number, expr in self.one.outs]
        for part in self.one.kept:
            v.store(terms.value(part), self._kept_at(part, offset), mask)
        for out, x in outs:
            lines.w.store(out, x, b.add(self.elements, offset), mask)
        if mask is not None:
            folded = [v.select(mask, x, fold_of(f).start) for f, x in zip(self.one.folds, folded, strict=True)]
        sums = zip(self.one.folds, held[:size], folded, strict=True)
        return [*(fold_of(f).combine(v, a, x) for f, a, x in sums), *runs.values()]

    def _at(self, address: Any, element: Any) -> Any:
        return self.b.add(address, self.b.mul(element, I64(self.lines.item)))

    def _kept_at(self, part: Expr, offset: Any) -> Any:
        lodging = self.lines.w.kernel.lodged.get(id(part))
        if lodging is not None:
            return self._at(self.lines.w.outs[lodging], self.b.add(self.elements, offset))
        first = self.b.mul(self.lines.kept_stride, I64(self.lines.places[id(part)]))
        return self._at(self.lines.w.kept, self.lines.w.plus(first, self.kept, offset))

    def _leaf(self, part: Expr, offset: Any, mask: Any) -> Any:
        if id(part) in self.scalars.vectors:
            return self.scalars.vectors[id(part)]
        if id(part) in self.earlier:
            return self.v.load(self._kept_at(part, offset), mask)
        if part.function == BESIDE:
            return self._beside(part, offset, mask)
        if part.function != "input":
            return None
        if part.value in self.scalars.inputs:
            return self.scalars.inputs[part.value]
        kind = self.lines.w.input_kinds[part.value].per
        first = self.elements if kind is Per.ELEMENT else self.place
        return self.v.load(self._at(self.lines.w.ins[part.value], self.b.add(first, offset)), mask)

    def _beside(self, part: Expr, offset: Any, mask: Any) -> Any:
        """The elements before or behind, the number outside where there is none."""
        b, v, (step, outside) = self.b, self.v, part.value
        place = b.add(self.place, offset)
        if step > 0:
            inside = v.first_lanes(b.sub(b.sub(self.lines.width, I64(step)), place))
        else:
            inside = b.icmp_signed(">=", lanes_from(v, place), ir.Constant(INTEGERS, [-step] * WIDTH))
            inside = inside if mask is None else b.and_(inside, mask)
        element = self.lines.w.plus(self.elements, offset, I64(step))
        loaded = v.load(self._at(self.lines.w.ins[part.args[0].value], element), inside)
        return v.select(inside, loaded, outside)

    def _rest(self, number: Any, lanes: Any, held: Sequence[Any]) -> list[Any]:
        """The first lanes of the last vector."""
        b, before = self.b, self.b.block
        with b.if_then(b.icmp_signed(">", lanes, I64(0))):
            results = self._vector(number, held, self.v.first_lanes(lanes))
            inside = b.block
        phis = []
        for old, new in zip(held, results, strict=True):
            phi = b.phi(old.type)
            phi.add_incoming(old, before)
            phi.add_incoming(new, inside)
            phis.append(phi)
        return phis


def _below(root: Expr, lines: _Lines) -> list[Expr]:
    """What is computed for an element."""
    parts: list[Expr] = []
    rest, seen = [root], set[int]()
    while rest:
        part = rest.pop()
        if id(part) in seen or id(part) in lines.ready:
            continue
        seen.add(id(part))
        parts.append(part)
        rest += part.args
    return parts
