"""Ops whose bodies are row programs: reductions over rows, and what is made of them element by element.

    @row_op("softmax", "X -> Out", attrs={"axis": -1}, axes=along("axis"), grad_body=_softmax_back, …)
    def SOFTMAX(rows, x):
        grown = rows.exp(x - rows.max(x))
        return grown / rows.sum(grown)

is all there is: the NumPy form, the kernels, what they touch, how they divide among threads and what they cost follow
from the body. `rows/recording.py` lists what a body may use.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

from workbench.framework.names import GRAD_SUFFIX
from workbench.framework.op.declare import op
from workbench.framework.op.record import Cost, Op, Slot, grad_slot, parse_slots
from workbench.framework.op.row_rule import rule_from_body
from workbench.framework.rows.arrays import Check, numpy_form
from workbench.framework.rows.program import Operand, Option, RowProgram, note_program
from workbench.framework.rows.recording import Per
from workbench.framework.values.spec import Spec, normalize_axis, size_of

Body = Callable[..., Any]
Axes = Callable[[int, dict[str, Any]], tuple[int, ...]]


def along(attr: str) -> Axes:
    """Rows along the axis that an attribute names."""
    return lambda rank, attrs: (normalize_axis(attrs[attr], rank),)


def from_axis(attr: str) -> Axes:
    """Rows that begin at the axis an attribute names."""
    return lambda rank, attrs: tuple(range(attrs[attr], rank))


def row_op(
    type: str,
    slots: str,
    *,
    axes: Axes,
    per_row: str = "",
    per_place: str = "",
    labels: str = "",
    places: str = "",
    takes_wholes: bool = False,
    wide: str = "",
    numbers: str = "",
    integers: str = "",
    options: dict[str, Option] | None = None,
    optional: str | None = None,
    grad_optional: str | None = None,
    layouts: tuple[str, ...] = ("lines", "columns"),
    grad_layouts: tuple[str, ...] | None = None,
    require: Callable[..., None] | None = None,
    soft_labels: str = "",
    grad_body: Callable[..., Any] | None = None,
    grad_by_ops: Callable[..., Any] | None = None,
    grad_needs: str = "",
    row_shape: Callable[..., tuple[int, ...]] | None = None,
    check: Check | None = None,
    around: Callable[[Body], Body] | None = None,
    **record: Any,
) -> Callable[[Callable[..., Any]], Op]:
    """Declare an op by its row program.

    Args:
        type, slots: as for `op`.
        axes: `(rank, attrs)` -> the axes of the first input that make up a row.
        per_row, per_place: slots with one number per row, or per place in a row; others have one per element.
        labels: of those with one number per row, the integers that name places.
        places: outputs that are places in a row, as int64. takes_wholes: see `RowProgram`.
        wide: outputs that are float32 for float16 and bfloat16 rows.
        numbers, integers: the attributes the bodies get; they make arithmetic of them.
        options: what the bodies get besides and may branch on: by name, how it follows from the attributes.
        optional, grad_optional: of the slots that may be empty, those that the body asks about, or `grad_body`, which
            may ask for the gradients of outputs, too, under their names; all of them by default.
        layouts: see `RowProgram`; `grad_layouts` those of the backward op, the same by default.
        soft_labels: the attribute under which labels are no integers but numbers for every element.
        grad_body: `body(rows, *slots of the backward op, **attrs)` -> gradients, one per slot; the rule `grad` is made
            from it, see `row_rule`. Where the gradient is no row program, the op declares a rule instead.
        grad_by_ops: that rule beside a `grad_body` that asks for what no public op computes, as `rows.recur`.
        grad_needs: of several outputs, those without whose gradients `grad_body` cannot do; others have to be absent.
        row_shape: see `RowProgram`. check, require: see `numpy_form`.
        around: makes the op's `forward` of the NumPy form: for what is no matter of rows, such as other dtypes.
        record: any further field of `op`.

    Raises:
        ValueError: there are both a rule and a body for the gradient.
    """
    if grad_body is not None and "grad" in record:
        raise ValueError(f"op {type!r} states its gradient twice: the rule `grad` is made from `grad_body`")
    programs = _Programs(
        kinds=dict.fromkeys(_names(per_row), Per.ROW) | dict.fromkeys(_names(per_place), Per.PLACE),
        labels=_names(labels), places=_names(places), soft_labels=soft_labels, wide=_names(wide),
        aliases=record.get("aliases", {}),
        common={
            "axes": axes, "row_shape": row_shape, "numbers": _names(numbers), "integers": _names(integers),
            "options": options or {},
        },
    )  # fmt: skip

    def declare(body: Body) -> Op:
        before, _, after = slots.partition("->")
        inputs, outputs = parse_slots(before), parse_slots(after)
        own = programs.make(type, body, [(s, _asks(optional, s)) for s in inputs], outputs, layouts)
        own = note_program(replace(own, takes_wholes=True)) if takes_wholes else own
        record.setdefault("cost", _cost(own))
        backward = None
        if grad_body is not None:
            needed = _names(grad_needs) or _only(outputs)
            of_grad = _slots_of_backward(inputs, outputs, record, grad_optional, needed)
            own_layouts = layouts if grad_layouts is None else grad_layouts
            backward = programs.make(f"{type}_grad", grad_body, *of_grad, own_layouts)
            record["grad"] = grad_by_ops or rule_from_body(own, backward, _names(record.get("by_products", "")))
            record["grad_forward"] = numpy_form(backward, check, require)
        declared = op(type, slots, rows=own, grad_rows=backward, doc=body.__doc__ or "", **record)
        forward = numpy_form(own, check, require)
        forward = forward if around is None else around(forward)
        forward.__module__ = body.__module__
        return declared(forward)

    return declare


@dataclass(frozen=True)
class _Programs:
    """Makes the programs of an op and of its backward op.

    Attributes:
        kinds: of the slots that have no number per element. labels, places, soft_labels, wide: see `row_op`.
        aliases: see `op`. common: further fields of the programs.
    """

    kinds: Mapping[str, Per]
    labels: tuple[str, ...]
    places: tuple[str, ...]
    soft_labels: str
    wide: tuple[str, ...]
    aliases: Mapping[str, str]
    common: Mapping[str, Any]

    def make(
        self, name: str, body: Body, inputs: Sequence[tuple[Slot, bool]], outputs: Sequence[Slot],
        layouts: tuple[str, ...],
    ) -> RowProgram:  # fmt: skip
        """A program; where labels may be soft, another one that stands for it then.

        Args:
            inputs: slots, and whether the body asks if they are empty.
        """

        def program(is_soft: bool) -> RowProgram:
            return note_program(
                RowProgram(
                    name + ".soft" * is_soft, body,
                    tuple(self._operand(slot, is_optional, is_soft) for slot, is_optional in inputs),
                    tuple(self._operand(slot, False, is_soft)._replace(like=self._like(slot)) for slot in outputs),
                    layouts=layouts, fixed={self.soft_labels: is_soft} if self.soft_labels else {}, **self.common,
                )
            )  # fmt: skip

        one = program(False)
        return replace(one, instead=(self.soft_labels, program(True))) if self.soft_labels else one

    def _operand(self, slot: Slot, is_optional: bool, is_soft: bool) -> Operand:
        name = slot.name.removesuffix(GRAD_SUFFIX)
        is_label = name in self.labels and name == slot.name
        kind = Per.ELEMENT if is_label and is_soft else self.kinds.get(name, Per.ELEMENT)
        is_integer = (is_label and not is_soft) or slot.name in self.places
        return Operand(slot.name, kind, is_integer, is_optional, name in self.wide)

    def _like(self, slot: Slot) -> str:
        """The input whose shape and dtype an output has: of a gradient, what it is the gradient of."""
        name = slot.name.removesuffix(GRAD_SUFFIX)
        return self.aliases.get(name, "") if name == slot.name else name


def _only(outputs: Sequence[Slot]) -> tuple[str, ...]:
    """The one output of an op: nobody asks for gradients without that of it."""
    return (outputs[0].name,) if len(outputs) == 1 else ()


def _slots_of_backward(
    inputs: Sequence[Slot], outputs: Sequence[Slot], record: Mapping[str, Any], asked: str | None, needed: Sequence[str]
) -> tuple[list[tuple[Slot, bool]], list[Slot]]:
    """The inputs of a backward op, each with whether its body asks if it is empty, and its outputs.

    Args:
        asked: the slots that it asks about, all that may be empty by default. needed: outputs whose gradient is there.
    """
    saved, no_grad = _names(record.get("saved", "")), _names(record.get("no_grad", ""))
    asks_of = [s.name not in needed and _asks(asked, s._replace(optional=True)) for s in outputs]
    gradients = [(Slot(grad_slot(s.name)), asks) for s, asks in zip(outputs, asks_of, strict=True)]
    kept = [(s, False) for s in outputs if s.name in saved]
    receivers = [Slot(grad_slot(s.name)) for s in inputs if s.name not in no_grad]
    return [*((s, _asks(asked, s)) for s in inputs), *kept, *gradients], receivers


def _cost(program: RowProgram) -> Callable[..., Cost]:
    whole = program

    def cost(*specs: Spec | None, **attrs: Any) -> Cost:
        program = whole.chosen(attrs)
        specs = (*specs, *[None] * len(program.inputs))[: len(program.inputs)]
        first = next(s for s, x in zip(specs, program.inputs, strict=True) if s is not None and x.per is Per.ELEMENT)
        n = max(size_of(first.shape), 0)
        work = program.traced(program.form(specs, attrs)).work
        moved = sum(max(size_of(s.shape), 0) * s.dtype.itemsize for s in specs if s is not None)
        return Cost(work * n, moved + n * first.dtype.itemsize)

    return cost


def _asks(names: str | None, slot: Slot) -> bool:
    """Whether a body asks if a slot is empty."""
    return slot.optional and (names is None or slot.name in _names(names))


def flat_rows(shape: tuple[int, ...], axes: Sequence[int], attrs: dict[str, Any]) -> tuple[int, ...]:
    """Outputs with one number per row in one dimension."""
    return (prod(d for a, d in enumerate(shape) if a not in axes),)


def _names(text: str) -> tuple[str, ...]:
    return tuple(text.replace(",", " ").split())
