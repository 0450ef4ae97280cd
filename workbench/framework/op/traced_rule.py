"""Gradient rules of element-wise ops without the evaluator: traced once, then run as plain NumPy calls.

Running a rule through public ops costs some ten microseconds an op, a multiple of what small arrays need.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from workbench.framework.expr.expr import Expr, Recording
from workbench.framework.expr.lowered import Lowered, attrs_key, lower
from workbench.framework.expr.numpy_functions import numpy_xp
from workbench.framework.op.evaluate import reduce_to
from workbench.framework.outside import is_from_outside
from workbench.framework.values.dtype import has_halves

_KEPT = 256  # forms of one rule: (dtypes, wanted gradients, attributes)


def traced_rule(body: Callable[..., Any], positions: Sequence[int]) -> Callable[..., Any]:
    """A body that gives the bits `body` gives.

    Args:
        body: a backward op's body that runs the rule, on arrays or on expressions.
        positions: of the inputs that receive a gradient.
    """
    forms: dict[Any, Lowered | None] = {}

    def forward(xp: Any, *arrays: Any, wanted: Sequence[bool] | None = None, **attrs: Any) -> Any:
        if xp is not numpy_xp:
            return body(xp, *arrays, wanted=wanted, **attrs)
        asked = (True,) * len(positions) if wanted is None else tuple(wanted)
        try:
            key = (asked, tuple([None if a is None else a.dtype for a in arrays]), attrs_key(attrs))
            form = forms[key]
        except KeyError:
            if len(forms) >= _KEPT:
                forms.clear()
            form = forms[key] = _form(body, positions, asked, key[1], attrs)
        except TypeError:  # an attribute that is no key
            form = None
        if form is None:
            return body(xp, *arrays, wanted=wanted, **attrs)
        values = form.evaluate(arrays)
        results = [
            _fitted(value, arrays[i]) if keep else None for keep, value, i in zip(asked, values, positions, strict=True)
        ]
        return results[0] if len(results) == 1 else tuple(results)

    return forward


def _form(
    body: Callable[..., Any],
    positions: Sequence[int],
    wanted: tuple[bool, ...],
    dtypes: tuple[Any, ...],
    attrs: dict[str, Any],
) -> Lowered | None:
    """The rule's steps; None where it has to be run as it is written."""
    if has_halves(dtypes):
        return None  # what is summed over a broadcast is summed before it is rounded
    try:
        inputs = [None if d is None else Expr("input", value=i, dtype=d) for i, d in enumerate(dtypes)]
        traced = body(Recording, *inputs, wanted=wanted, **attrs)
        results = list(traced) if isinstance(traced, tuple) else [traced]
        form = lower(results, dtypes)
    except Exception as error:
        if is_from_outside(error):
            raise
        # It asks for more than expressions can tell; run on arrays it works or says what is wrong.
        return None
    if any(dtypes[i] is None for i in positions):
        return None
    constants = range(len(dtypes), form.first_step)
    held = [form.constants[r - len(dtypes)] for r in form.results if r is not None and r in constants]
    if any(any(c.tobytes()) for c in held):
        return None  # not zero: its sum over a dimension depends on the size
    return replace(form, results=tuple(None if r in constants else r for r in form.results)) if held else form


def _fitted(value: Any, array: Any) -> Any:
    """A gradient in the shape and dtype of its input; zeros where the rule has none."""
    if value is None:
        return np.zeros_like(array)
    value = reduce_to(np, value, array.shape)
    return value if value.dtype == array.dtype else value.astype(array.dtype)
