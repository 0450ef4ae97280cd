"""What a kernel of a row program is called with, and where its operands move: all from the program.

Elements lie in memory in one of three ways, seen from the rows:

* *lines*, `[rows, width]`: a row is what lies together;
* *planes*, `[batch, rows, width]`: it does so in every sample, as the pixels of a channel;
* *columns*, `[outer, height, rows]`: the elements of a row lie apart, those of neighbouring rows together.

The arguments of a kernel are its inputs, its outputs, memory for what it keeps between rounds, attributes, and sizes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from workbench.framework.expr.expr import Expr, in_order
from workbench.framework.rows.passes import RowRounds
from workbench.framework.rows.program import ROW_PROGRAMS, Operand, RowForm, RowProgram, Traced
from workbench.framework.rows.recording import Per

LINES, PLANES, COLUMNS = LAYOUTS = ("lines", "planes", "columns")
NEAR = 4096  # elements that stay in the first cache: so many of short rows take each round together
MOST_ROWS = 256  # that do so
ITEMS = (4, 8)  # bytes of an element: of float32 and of float64
BLOCK = 128  # columns of float32 worked on at a time
PAD = 16  # elements behind what is kept

_LINE_SIZES = ("batch", "stride", "rows", "width")
SIZES = {LINES: _LINE_SIZES, PLANES: _LINE_SIZES, COLUMNS: ("outer", "height", "stride", "rows")}
"""`stride`: elements from one sample (or line) to the next; `rows` may be a part of all there are."""


@dataclass(frozen=True, eq=False)
class RowKernel:
    """A kernel of a program.

    Attributes:
        layout: LINES, PLANES or COLUMNS. is_across: it sums over all rows; its rows are the places of the rows.
        item: bytes of an element. is_whole: elements are int64.
    """

    program: RowProgram
    form: RowForm
    layout: str
    is_across: bool = False
    item: int = 4
    is_whole: bool = False

    @property
    def name(self) -> str:
        """What rows of a tape call it."""
        bits = "".join("01"[x] for x in (*self.form.given, *self.form.options))
        across = ".across" if self.is_across else ""
        kind = "i" if self.is_whole else "f"
        return f"{self.program.name}.{bits}{across}.{self.layout}.{kind}{8 * self.item}"

    @property
    def traced(self) -> Traced:
        """Its expressions."""
        return self.program.traced(self.form)

    @property
    def rounds(self) -> RowRounds:
        """What it computes."""
        return self.traced.across if self.is_across else self.traced.along

    @cached_property
    def inputs(self) -> list[tuple[int, Operand]]:
        """Those of the program's inputs that it reads: (number, operand as this kernel sees it)."""
        results = [self.traced.results[n] for n, _ in self.outputs]
        read = {part.value for part in in_order([e for e in results if e is not None]) if part.function == "input"}
        return [(n, self._seen(x)) for n, x in enumerate(self.program.inputs) if n in read]

    @cached_property
    def outputs(self) -> list[tuple[int, Operand]]:
        """The outputs it makes."""
        return [
            (n, self._seen(x))
            for n, x in enumerate(self.program.outputs)
            if self.traced.results[n] is not None and (x.per is Per.PLACE) == self.is_across
        ]

    def _seen(self, x: Operand) -> Operand:
        if not self.is_across:
            return x
        turned = {Per.ROW: Per.PLACE, Per.PLACE: Per.ROW}
        return x._replace(per=turned.get(x.per, x.per))

    @cached_property
    def lodged(self) -> dict[int, int]:
        """Expressions of elements that are kept where an output is put later on: by id, the number of the output.

        So the output is brought into the cache while there is something to compute.
        """
        rounds, lodged = self.rounds.rounds, dict[int, int]()
        for number, one in enumerate(rounds):
            later = [out for after in rounds[number + 1 :] for out, _ in after.outs]
            for part in one.kept:
                free = [out for out in later if out not in lodged.values()]
                if free:
                    lodged[id(part)] = free[0]
        return lodged

    @cached_property
    def kept(self) -> list[Expr]:
        """The other expressions of elements that are kept between rounds."""
        return [part for part in self.rounds.kept if id(part) not in self.lodged]

    @cached_property
    def block(self) -> int:
        """How many columns are worked on at a time: as many as there are registers for."""
        rounds = self.rounds.rounds
        is_light = all(len(one.folds) <= 1 and not one.outs for one in rounds)
        return (2 * BLOCK if is_light else BLOCK) * ITEMS[0] // self.item

    @cached_property
    def letters(self) -> str:
        """A letter for every argument, see `native.image`."""
        program = self.program
        pointers = len(self.inputs) + len(self.outputs) + 1
        return "i" * pointers + "f" * len(program.numbers) + "i" * (len(program.integers) + len(SIZES[self.layout]))

    def kept_elements(self, sizes: Sequence[Any]) -> Any:
        """Elements of the memory for what is kept between rounds."""
        if not self.kept:
            return 0
        first, second, *_ = sizes
        row = second * self.block if self.layout == COLUMNS else first * sizes[3]
        return len(self.kept) * (max(row, NEAR) + PAD)

    def touched(self, *arguments: Any) -> list[tuple[int, int, Any]]:
        """See `runtime.footprint.Footprint.touched`."""
        sizes = arguments[-len(SIZES[self.layout]) :]
        operands = [x for _, x in (*self.inputs, *self.outputs)]
        touched = [(n, 0, self._bytes(x, sizes)) for n, x in enumerate(operands)]
        return [*touched, (len(operands), 0, self.item * self.kept_elements(sizes))]

    def _bytes(self, x: Operand, sizes: Sequence[Any]) -> Any:
        item = 8 if x.is_integer else self.item
        if self.layout != COLUMNS:
            batch, stride, rows, width = sizes
            if x.per is Per.ELEMENT:
                return item * ((batch - 1) * stride + rows * width)
            return item * (rows if x.per is Per.ROW else batch * width)
        outer, height, stride, rows = sizes
        if x.per is Per.ELEMENT:
            return item * ((outer * height - 1) * stride + rows)
        return item * ((outer - 1) * stride + rows if x.per is Per.ROW else height)

    def moves(self, size: str) -> list[tuple[int, Any]]:
        """Operands that move when rows divide along a size, and by how many bytes from one to the next."""
        names = SIZES[self.layout]

        def of(*factors: str, item: int) -> Any:
            at = [names.index(factor) - len(names) for factor in factors]

            def distance(arguments: Sequence[Any]) -> Any:
                total: Any = item
                for index in at:
                    total = total * arguments[index]
                return total

            return distance

        moved = []
        for n, (_, x) in enumerate((*self.inputs, *self.outputs)):
            item = 8 if x.is_integer else self.item
            factors = _FACTORS[self.layout, size].get(x.per)
            if factors is not None:
                moved.append((n, of(*factors, item=item)))
        return moved


_FACTORS: dict[tuple[str, str], dict[Per, tuple[str, ...]]] = {
    (LINES, "rows"): {Per.ELEMENT: ("width",), Per.ROW: ()},
    (PLANES, "rows"): {Per.ELEMENT: ("width",), Per.ROW: ()},
    (COLUMNS, "outer"): {Per.ELEMENT: ("height", "stride"), Per.ROW: ("stride",)},
    (COLUMNS, "rows"): {Per.ELEMENT: (), Per.ROW: ()},
}


def all_kernels() -> list[RowKernel]:
    """Every kernel of every program, in a fixed order."""
    return [
        RowKernel(program, form, layout, is_across, item, is_whole)
        for _, program in sorted(ROW_PROGRAMS.items())
        for form in program.forms
        for is_across in (False, True)
        for layout in LAYOUTS
        if layout in program.layouts and RowKernel(program, form, layout, is_across).outputs
        for item, is_whole in [*((item, False) for item in ITEMS), *[(ITEMS[-1], True)] * program.takes_wholes]
    ]
