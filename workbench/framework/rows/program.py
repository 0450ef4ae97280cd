"""Row programs: what an op declares, and the forms kernels are made of."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain, combinations
from typing import Any, NamedTuple

from workbench.framework.expr.expr import Expr, in_order
from workbench.framework.rows.passes import RowRounds, rounds_of
from workbench.framework.rows.recording import ACROSS, Per, RowRecording, number, operand

Option = Callable[[dict[str, Any]], bool]


class Operand(NamedTuple):
    """An input or an output of a program.

    Attributes:
        slot: its name. is_integer: int64, a label or a place; else floating.
        is_optional: the body also takes None for it.
        is_wide: of float16 and bfloat16 rows it is float32, as statistics are.
        like: the input whose shape and dtype the output has, and without which it is not there.
    """

    slot: str
    per: Per = Per.ELEMENT
    is_integer: bool = False
    is_optional: bool = False
    is_wide: bool = False
    like: str = ""


class RowForm(NamedTuple):
    """What has to be known before a body can be traced: which optional inputs are there, and the truth of options."""

    given: tuple[bool, ...]
    options: tuple[bool, ...]


@dataclass(frozen=True, eq=False)
class RowProgram:
    """A body with reductions over rows.

    Attributes:
        name: of its kernels.
        body: `body(rows, *inputs, **attrs)`, see `recording`; one result per output.
        inputs, outputs: in the order of the op's slots.
        numbers, integers: the attributes a kernel is told when it runs.
        options: what is true or false and the body may ask with `if`: by name, how it follows from the attributes.
        axes: `(rank, attrs)` -> the axes of the first input that make up a row.
        fixed: attributes of which the program knows the value.
        instead: (attribute, program): the program that stands for this one where the attribute is true.
        layouts: the ways rows may lie in memory for which there are kernels, see `kernel`; others are copied first.
        row_shape: `(shape, axes, attrs)` -> the shape of an output with one number per row; the axes are kept with
            size 1 by default.
        takes_wholes: there are kernels for int64, too: of bodies that are running sums or products of the elements.
    """

    name: str
    body: Callable[..., Any]
    inputs: tuple[Operand, ...]
    outputs: tuple[Operand, ...]
    axes: Callable[[int, dict[str, Any]], tuple[int, ...]]
    numbers: tuple[str, ...] = ()
    integers: tuple[str, ...] = ()
    options: dict[str, Option] = field(default_factory=dict)
    fixed: dict[str, Any] = field(default_factory=dict)
    instead: tuple[str, RowProgram] | None = None
    layouts: tuple[str, ...] = ("lines", "columns")
    row_shape: Callable[..., tuple[int, ...]] | None = None
    takes_wholes: bool = False
    _traced: dict[RowForm, Traced] = field(default_factory=dict)

    def chosen(self, attrs: dict[str, Any]) -> RowProgram:
        """The program for attributes: this one, or the one in its place."""
        return self.instead[1] if self.instead is not None and attrs[self.instead[0]] else self

    def told(self, attrs: dict[str, Any]) -> dict[str, Any]:
        """Of the attributes of an op, those that the body gets."""
        told = {name: attrs[name] for name in (*self.numbers, *self.integers, *self.fixed)}
        return told | {name: option(attrs) for name, option in self.options.items()}

    def form(self, given: Sequence[Any], attrs: dict[str, Any]) -> RowForm:
        """The form for inputs, None where one is absent, and attributes; what is not optional counts as there."""
        there = tuple(x is not None or not operand.is_optional for x, operand in zip(given, self.inputs, strict=True))
        return RowForm(there, tuple(bool(option(attrs)) for option in self.options.values()))

    @cached_property
    def forms(self) -> list[RowForm]:
        """All forms there are."""
        optional = [n for n, x in enumerate(self.inputs) if x.is_optional]
        absences = chain.from_iterable(combinations(optional, size) for size in range(len(optional) + 1))
        givens = [tuple(n not in absent for n in range(len(self.inputs))) for absent in absences]
        return [RowForm(given, options) for given in givens for options in _truths(len(self.options))]

    def traced(self, form: RowForm) -> Traced:
        """The body as expressions."""
        traced = self._traced.get(form)
        if traced is None:
            traced = self._traced[form] = self._trace(form)
        return traced

    def _trace(self, form: RowForm) -> Traced:
        inputs = [
            operand(n, x.is_integer) if there else None
            for n, (x, there) in enumerate(zip(self.inputs, form.given, strict=True))
        ]
        attrs: dict[str, Any] = {name: number(name, False) for name in self.numbers}
        attrs |= {name: number(name, True) for name in self.integers}
        attrs |= dict(zip(self.options, form.options, strict=True))
        results = self.body(RowRecording(), *inputs, **attrs, **self.fixed)
        return Traced(self, form, tuple(inputs), results if isinstance(results, tuple) else (results,))


def _truths(count: int) -> Iterator[tuple[bool, ...]]:
    for bits in range(1 << count):
        yield tuple(bool(bits >> n & 1) for n in range(count))


@dataclass(frozen=True, eq=False)
class Traced:
    """A form of a program as expressions.

    Attributes:
        inputs: what stands for the program's inputs. results: one per output, None where the form has none.
    """

    program: RowProgram
    form: RowForm
    inputs: tuple[Expr | None, ...]
    results: tuple[Expr | None, ...]

    @cached_property
    def along(self) -> RowRounds:
        """What is computed row by row."""
        return self._rounds({Per.ELEMENT, Per.ROW}, False)

    @cached_property
    def across(self) -> RowRounds:
        """What is summed over all rows: a program of its own, whose rows are the places of the rows."""
        return self._rounds({Per.PLACE}, True)

    def _rounds(self, wanted: set[Per], is_across: bool) -> RowRounds:
        outputs = tuple(x.per for x in self.program.outputs)
        results = [(n, e) for n, e in enumerate(self.results) if e is not None and outputs[n] in wanted]
        inputs = tuple(x.per for x in self.program.inputs)
        if is_across:
            inputs, outputs = tuple(map(_turned, inputs)), tuple(map(_turned, outputs))
            results = [(n, _summed_instead(e)) for n, e in results]
        return rounds_of(results, inputs, outputs)

    @cached_property
    def work(self) -> int:
        """How many functions are computed for an element in all rounds."""
        rounds = [*self.along.rounds, *(self.across.rounds if self.has_across else ())]
        kinds = self.along.kinds | (self.across.kinds if self.has_across else {})
        roots = [[*one.folds, *(e for _, e in one.outs), *one.scans] for one in rounds]
        return sum(sum(1 for p in in_order(r) if p.args and kinds.get(id(p)) is Per.ELEMENT) + len(r) for r in roots)

    @property
    def has_across(self) -> bool:
        """Whether there are sums over all rows."""
        return any(
            e is not None and x.per is Per.PLACE for e, x in zip(self.results, self.program.outputs, strict=True)
        )


def _turned(kind: Per) -> Per:
    """What a kind is called where the places of rows are the rows."""
    return {Per.ROW: Per.PLACE, Per.PLACE: Per.ROW}.get(kind, kind)


def _summed_instead(expr: Expr) -> Expr:
    """A sum over all rows, said of rows that are places."""
    assert expr.function == ACROSS, "an output with one number per place is rows.across(...)"
    return Expr("row_sum", expr.args, dtype=expr.dtype)


ROW_PROGRAMS: dict[str, RowProgram] = {}


def note_program(program: RowProgram) -> RowProgram:
    """Have kernels made of a program.

    Raises:
        ValueError: there is another one of this name.
    """
    before = ROW_PROGRAMS.get(program.name)
    if before is not None and before.body.__module__ != program.body.__module__:
        raise ValueError(f"two row programs are named {program.name!r}")
    ROW_PROGRAMS[program.name] = program
    return program
