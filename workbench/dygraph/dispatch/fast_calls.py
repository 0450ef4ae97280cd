"""Ops and their gradients as NumPy calls with everything settled: no look-up, no rule, no recorder.

They give the bits the bodies give: they are the same NumPy functions on the same operands in the same order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from workbench.dygraph.kinds import Kind
from workbench.framework.expr.expr import Expr
from workbench.framework.expr.lowered import Lowered, Unlowerable, lower
from workbench.framework.op.elementwise import trace
from workbench.framework.op.evaluate import reduce_to
from workbench.framework.op.record import Op
from workbench.framework.outside import is_from_outside
from workbench.framework.quiet import quiet
from workbench.framework.rows.arrays import settled
from workbench.framework.values.dtype import has_halves
from workbench.framework.values.views import Sliced, Transposed, ViewRule

Call = Callable[..., Any]


def fast_forward(op: Op, attrs: dict[str, Any], kinds: Sequence[Kind], out: Kind) -> Call | None:
    """`call(*arrays)` gives the result of an op; None where nothing can be settled ahead."""
    if op.view is not None:
        return view_call(op.view, attrs, kinds[0], out)
    if op.rows is not None:
        body = settled(op.rows, [k.spec for k in kinds], attrs)
        return None if body is None else lambda *arrays: quiet.run(body, *arrays)
    if not op.is_elementwise or not kinds:
        return None
    form = _lowered(op, attrs, [k.dtype.numpy for k in kinds])
    if form is None or None in form.results or len(form.results) != 1:
        return None
    result = form.results[0]
    assert result is not None
    if result < form.first_step:
        return None  # an input or a constant as it is: the body knows how to make it a value of its own
    call = _call_of(form)
    has_shape = any(k.shape for k in kinds)
    return call if has_shape else lambda *arrays: np.asarray(call(*arrays))


def view_call(rule: ViewRule, attrs: dict[str, Any], kind: Kind, out: Kind) -> Call | None:
    """What shows an array of a kind as the result of a view op."""
    shape = out.shape
    if isinstance(rule, Transposed):
        axes = rule.axes(len(kind.shape), attrs)
        return lambda x, *like: x.transpose(axes)
    if isinstance(rule, Sliced):
        index = rule.index(kind.shape, attrs)
        if np.empty(kind.shape, bool)[index].shape == shape:
            return lambda x, *like: x[index]
        return lambda x, *like: x[index].reshape(shape)
    return lambda x, *like: x.reshape(shape)


def _call_of(form: Lowered) -> Call:
    """The single result of a form."""
    step = form.only_step
    if step is None:
        return lambda *arrays: quiet.run(form.evaluate, arrays)[0]
    ufunc = getattr(np, step.function)
    inputs = len(form.dtypes)
    if step.args == (0,):
        return lambda x, *rest: quiet.run(ufunc, x)
    if step.args == (0, 1) and inputs > 1:
        return lambda x, y, *rest: quiet.run(ufunc, x, y)
    if len(step.args) == 2 and step.args[0] == 0 and step.args[1] >= inputs:
        constant = form.constants[step.args[1] - inputs]
        return lambda x, *rest: quiet.run(ufunc, x, constant)
    at = step.args
    if all(i < inputs for i in at):
        return lambda *arrays: quiet.run(ufunc, *[arrays[i] for i in at])
    return lambda *arrays: quiet.run(form.evaluate, arrays)[0]


def fast_backward(
    op: Op, attrs: dict[str, Any], kinds: Sequence[Any], out: Kind, receivers: Sequence[int], wanted: Sequence[bool]
) -> Call | None:
    """`call(*saved, g)` gives the gradients of the `receivers` of an element-wise op, None for those not wanted."""
    if op.grad_view is not None and tuple(wanted) == (True,) and kinds[0].dtype is out.dtype:
        show = view_call(op.grad_view, attrs, out, kinds[0])
        return None if show is None else lambda *arrays: (show(arrays[-1]),)
    if op.grad_rows is not None and tuple(wanted) == (True,):
        outputs = [out] * (1 + sum(s.name in op.saved for s in op.outputs))
        back = settled(op.grad_rows, [k.spec for k in [*kinds, *outputs]], attrs)
        return None if back is None else lambda *arrays: (quiet.run(back, *arrays),)
    if not op.is_elementwise or op.sparse:
        return None
    saved_outputs = [s for s in op.outputs if s.name in op.saved]
    dtypes = [k.dtype.numpy for k in kinds] + [out.dtype.numpy] * (len(saved_outputs) + 1)
    form = None if has_halves(dtypes) else _lowered(op.backward, attrs, dtypes, wanted)
    if form is None:
        return None
    constants = range(len(dtypes), form.first_step)
    if any((r is None) == keep or r in constants for r, keep in zip(form.results, wanted, strict=True)):
        return None  # no gradient, or the same one everywhere: the body says in which shape
    fits = [_Fit(kinds[i], out) if keep else None for i, keep in zip(receivers, wanted, strict=True)]
    if len(fits) == 1 and fits[0] is not None and fits[0].is_nothing and form.only_step is not None:
        call = _call_of(form)
        return lambda *arrays: (call(*arrays),)
    if all(f is None or f.is_nothing for f in fits):
        return lambda *arrays: quiet.run(form.evaluate, arrays)
    return lambda *arrays: [
        None if fit is None else fit(value) for fit, value in zip(fits, quiet.run(form.evaluate, arrays), strict=True)
    ]


class _Fit:
    """A gradient in the shape and dtype of its input."""

    def __init__(self, kind: Kind, out: Kind) -> None:
        self.shape, self.dtype = kind.shape, kind.dtype.numpy
        self.is_nothing = kind is out and bool(kind.shape)

    def __call__(self, value: Any) -> Any:
        value = reduce_to(np, np.asarray(value), self.shape)
        return np.asarray(value) if value.dtype == self.dtype else value.astype(self.dtype)


def _lowered(op: Op, attrs: dict[str, Any], dtypes: Sequence[Any], wanted: Sequence[bool] | None = None) -> Any:
    try:
        traced = trace(op, tuple(dtypes), **attrs)
        results = list(traced) if isinstance(traced, tuple) else [traced]
        if wanted is not None:
            results = [r if keep else None for r, keep in zip(results, wanted, strict=True)]
        if any(not isinstance(r, Expr | None) for r in results):
            return None
        return lower(results, dtypes)
    except Unlowerable:
        return None
    except Exception as error:
        if is_from_outside(error):
            raise
        return None  # it asks for more than expressions can tell; run on arrays it works or says what is wrong
