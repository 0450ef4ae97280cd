"""When an op is done by compiled kernels, and how.

That is told by the op, its attributes and kinds alone, so that the same op gives the same bits every time. With small
operands NumPy is done sooner.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

from workbench.framework.expr.expr import in_order
from workbench.framework.op.compiled import CompiledCall, compiled
from workbench.framework.op.record import Op
from workbench.framework.op.traced import steps_of
from workbench.framework.rows.passes import LONG
from workbench.framework.rows.program import RowProgram
from workbench.framework.values.dtype import has_halves, wide_dtype
from workbench.framework.values.spec import DENSE, Spec

LEAST = 1 << 8  # elements of the largest operand of ops whose bodies are many calls of NumPy
LEAST_WORK = 1 << 15  # of element-wise ops: elements by functions
LEAST_ROWS = 1 << 14  # of row programs: elements by functions, of which a long one is so many
LONG_WEIGHT = 8
REPEATING = 1  # functions of a program that only repeats numbers along rows
WIDENED = 6  # functions that bring float16 and bfloat16 to float32 and back take as long as so many
COSTLY = {"erf": 40}  # functions that take NumPy so many times as long as others


def kernel_of(op: Op, attrs: dict[str, Any], ins: Sequence[Any], outs: Sequence[Any]) -> CompiledCall | None:
    """The compiled form of an op where it pays, None elsewhere.

    Args:
        attrs: complete. ins, outs: specs, one per slot; None for what is absent, or not wanted.
    """
    given = [spec for spec in (*ins, *outs) if spec is not None]
    if not all(type(spec) is Spec and spec.kind == DENSE and -1 not in spec.shape for spec in given):
        return None
    sizes = [prod(spec.shape) for spec in given]
    if not sizes or min(sizes) == 0 or not _pays(op, attrs, ins, max(sizes)):
        return None
    return compiled(op, attrs, ins, outs)


def _pays(op: Op, attrs: dict[str, Any], ins: Sequence[Any], size: int) -> bool:
    if op.is_view or not set(op.needs) <= {"wanted"}:
        return False
    if op.rows is not None:
        return _rows_pay(op.rows.chosen(attrs), attrs, ins, size)
    if not op.is_elementwise:
        return size >= LEAST
    dtypes = [None if spec is None else spec.dtype for spec in ins]
    computed_in = tuple([None if dtype is None else wide_dtype(dtype).numpy for dtype in dtypes])
    form = steps_of(op, computed_in, attrs)
    work = 0 if form is None else sum(COSTLY.get(step.function, 1) for step in form.steps)
    if form is not None and has_halves(spec.dtype.numpy for spec in ins if spec is not None):
        work += WIDENED
    return work > 1 and work * size >= LEAST_WORK


def _rows_pay(program: RowProgram, attrs: dict[str, Any], ins: Sequence[Any], size: int) -> bool:
    """Those with several outputs early: their NumPy forms are many calls. What only repeats numbers never."""
    if len(program.outputs) > 1:
        return size >= LEAST
    rounds = program.traced(program.form(ins, attrs))
    parts = [part for one in rounds.along.rounds for part in in_order([*one.folds, *(e for _, e in one.outs)])]
    weight = LONG_WEIGHT if any(part.function in LONG for part in parts) else 1
    is_more = rounds.work > REPEATING or any(one.folds for one in rounds.along.rounds)
    return is_more and size * rounds.work * weight >= LEAST_ROWS


def with_kernel(call: CompiledCall, body: Callable[..., Any], is_single: bool) -> Callable[..., Any]:
    """What the body of an op gives, by its compiled form; the body takes over where that declines the values."""

    def compute(*arrays: Any) -> Any:
        results = call(*arrays)
        if results is None:
            return body(*arrays)
        return results[0] if is_single else tuple(results)

    return compute


class BackwardKernels:
    """A backward op by its compiled forms: one for each set of outputs of the op that a gradient came from.

    Args:
        record: the backward op. saved: specs of its inputs but for the gradients. gradients: specs of these, of all
            outputs. outs: specs of the wanted results, None for others. body: what is done where there is no form.
    """

    def __init__(
        self,
        record: Op,
        attrs: dict[str, Any],
        saved: Sequence[Any],
        gradients: Sequence[Any],
        outs: Sequence[Any],
        body: Callable[..., Any],
    ) -> None:
        self._record, self._attrs, self._saved, self._gradients = record, attrs, saved, gradients
        self._outs, self._body, self._first = outs, body, len(saved)
        self._found: dict[tuple[bool, ...], Callable[..., Any]] = {}

    def __call__(self, *arrays: Any) -> Any:
        there = tuple([array is not None for array in arrays[self._first :]])
        call = self._found.get(there)
        if call is None:
            kernel = self.find(there)
            call = self._body if kernel is None else with_kernel(kernel, self._body, len(self._outs) == 1)
            self._found[there] = call
        return call(*arrays)

    def find(self, there: Sequence[bool]) -> CompiledCall | None:
        """The form for gradients of some outputs."""
        given = [spec if keep else None for spec, keep in zip(self._gradients, there, strict=True)]
        return kernel_of(self._record, self._attrs, [*self._saved, *given], self._outs)
