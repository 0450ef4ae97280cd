"""The expressions of element-wise ops and of their backward ops, traced once for each combination of dtypes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from workbench.framework.expr.expr import Expr
from workbench.framework.expr.lowered import Lowered, attrs_key, lower
from workbench.framework.op.elementwise import trace
from workbench.framework.op.record import Op
from workbench.framework.outside import is_from_outside
from workbench.framework.values.dtype import has_halves

_KEPT = 4096  # forms: (op, dtypes, attributes)
_steps: dict[Any, Lowered | None] = {}


def passes_through(record: Op, dtypes: Sequence[Any], attrs: Mapping[str, Any]) -> dict[int, int]:
    """Outputs of an element-wise op that are one of its inputs, unchanged: `{output slot: input slot}` by position.

    Holds where the two have one shape; otherwise the gradient is summed to the shape of its input.

    Args:
        dtypes: NumPy dtype of every input slot, None for an absent one.
    """
    form = steps_of(record, tuple(None if d is None else np.dtype(d) for d in dtypes), attrs)
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
    dtypes = tuple(dtypes)
    try:
        key = (record, dtypes, attrs_key(given))
        if key in _steps:
            return _steps[key]
    except TypeError:
        return _traced(record, dtypes, given)
    if len(_steps) >= _KEPT:
        _steps.clear()
    form = _steps[key] = _traced(record, dtypes, given)
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
