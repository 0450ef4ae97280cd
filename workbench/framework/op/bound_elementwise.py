"""Element-wise ops and their backward ops, traced once and bound to given buffers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from workbench.framework.expr.bound_steps import bind_steps, bind_ufunc
from workbench.framework.expr.exact_rewrites import for_buffers
from workbench.framework.expr.expr import Expr
from workbench.framework.expr.lowered import Lowered, attrs_key, lower
from workbench.framework.expr.step_calls import Array, Calls, Scratch
from workbench.framework.expr.step_tasks import ShapedSteps
from workbench.framework.op.elementwise import trace
from workbench.framework.op.record import Op
from workbench.framework.outside import is_from_outside
from workbench.framework.values.dtype import has_halves

_KEPT = 4096  # forms: (op, dtypes, attributes)
_forms: dict[Any, Lowered | None] = {}
_steps: dict[Any, Lowered | None] = {}


def bind_elementwise(
    record: Op,
    outs: Sequence[Array | None],
    arrays: Sequence[Any],
    scratch: Scratch,
    attrs: Mapping[str, Any],
) -> Calls | None:
    """Prepare an element-wise op, or the backward op of one, for given buffers.

    Args:
        record: with `is_elementwise`.
        outs: one per output slot; None = not wanted. Gradients have the shape and dtype of their inputs.
        arrays: one per input slot; None for an absent one. Of unsaved inputs only shape and dtype are looked at.
        scratch: as in `bind_expression`.
        attrs: attributes of the op (`wanted` is not one; `outs` tells).

    Returns:
        callables that give the bits of `record.forward`; None where there is no such form.
    """
    if not all(a is None or isinstance(a, np.ndarray) for a in (*arrays, *outs)):
        return None
    form = _form(record, tuple(None if a is None else a.dtype for a in arrays), attrs)
    if form is None:
        return None
    bound = bind_ufunc(form, arrays, outs)
    if bound is not None:
        return bound
    layout = ShapedSteps(form, arrays, tuple(out is not None for out in outs))
    return bind_steps(layout, outs, scratch) if record.is_grad or layout.fits(outs) else None


def passes_through(record: Op, dtypes: Sequence[Any], attrs: Mapping[str, Any]) -> dict[int, int]:
    """Outputs of an element-wise op that are one of its inputs, unchanged: `{output slot: input slot}` by position.

    Holds where the two have one shape; otherwise the gradient is summed to the shape of its input.

    Args:
        dtypes: NumPy dtype of every input slot, None for an absent one.
    """
    form = _form(record, tuple(None if d is None else np.dtype(d) for d in dtypes), attrs)
    if form is None:
        return {}
    targets = _targets(record, form.dtypes) or [form.dtype_of(r) if r is not None else None for r in form.results]
    return {
        k: number
        for k, (number, dtype) in enumerate(zip(form.results, targets, strict=True))
        if number is not None and number < len(form.dtypes) and form.dtypes[number] == dtype
    }


def steps_of(record: Op, dtypes: Sequence[Any], attrs: Mapping[str, Any]) -> Lowered | None:
    """What an element-wise op, or the backward op of one, computes, as it was traced: one step per function.

    Args:
        dtypes: NumPy dtype of every input slot, None for an absent one.

    Returns:
        None where there is no such form. Gradients have the shape of the result: where a value was broadcast they
        are still to be summed.
    """
    given = {k: v for k, v in attrs.items() if k in record.attrs}
    return _kept(_steps, record, tuple(dtypes), given, _traced)


def _form(record: Op, dtypes: tuple[Any, ...], attrs: Mapping[str, Any]) -> Lowered | None:
    """The op's steps for buffers, traced once for each combination of dtypes and attributes."""

    def make(record: Op, dtypes: tuple[Any, ...], given: dict[str, Any]) -> Lowered | None:
        steps = steps_of(record, dtypes, given)
        return None if steps is None else for_buffers(steps)

    return _kept(_forms, record, dtypes, {k: v for k, v in attrs.items() if k in record.attrs}, make)


def _kept(
    forms: dict[Any, Lowered | None],
    record: Op,
    dtypes: tuple[Any, ...],
    given: dict[str, Any],
    make: Callable[[Op, tuple[Any, ...], dict[str, Any]], Lowered | None],
) -> Lowered | None:
    try:
        key = (record, dtypes, attrs_key(given))
        if key in forms:
            return forms[key]
    except TypeError:
        return make(record, dtypes, given)
    if len(forms) >= _KEPT:
        forms.clear()
    form = forms[key] = make(record, dtypes, given)
    return form


def _traced(record: Op, dtypes: tuple[Any, ...], attrs: dict[str, Any]) -> Lowered | None:
    if record.is_grad and has_halves(dtypes):
        return None  # what is summed over a broadcast is summed before it is rounded
    if len(dtypes) != len(record.inputs) or any(s.is_list for s in (*record.inputs, *record.outputs)):
        return None
    try:
        traced = trace(record, tuple("float32" if d is None else d for d in dtypes), **attrs)
        results = list(traced) if isinstance(traced, tuple) else [traced]
        targets = _targets(record, dtypes)
        if targets is not None:  # where the rule has no gradient it is zero
            results = [_zero(d) if r is None else r for r, d in zip(results, targets, strict=True)]
        return lower(results, dtypes)
    except Exception as error:
        if is_from_outside(error):
            raise
        # The body asks for more than expressions can tell; `forward` runs it, or says what is wrong.
        return None


def _zero(dtype: Any) -> Expr | None:
    return None if dtype is None else Expr("constant", value=dtype.type(0), dtype=dtype)


def _targets(record: Op, dtypes: Sequence[Any]) -> list[Any] | None:
    """The dtypes gradients are to have: those of the inputs they belong to. None for a forward op."""
    forward = record.forward_of
    if forward is None:
        return None
    return [d for slot, d in zip(forward.inputs, dtypes, strict=False) if slot.name not in forward.no_grad]
