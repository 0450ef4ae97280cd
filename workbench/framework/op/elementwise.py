"""Element-wise ops: bodies that use only scalar functions, so that kernels can be generated from them.

A body declared with `@elementwise` gets `xp` and its inputs and returns one value:

    @elementwise("tanh", "X -> Out", grad=lambda g, y, x: g * (1 - y * y), saved="Out")
    def tanh(xp, x): return xp.tanh(x)

It may call the functions listed in `expr.FUNCTIONS` and Python's operators, nothing else: no shapes, no branches,
no allocation. Run with `Recording` as `xp` it yields an `Expr`; `trace` does that, for the gradient as well.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import numpy as np

from workbench.framework.expr.expr import Expr, Recording
from workbench.framework.op.declare import op
from workbench.framework.op.record import Op
from workbench.framework.values.dtype import HALVES, DType, as_dtype
from workbench.framework.values.spec import Spec, broadcast_shapes, require_same_dtype, spec_of


def elementwise(
    type: str,
    slots: str = "X -> Out",
    *,
    grad: Callable[..., Any] | None = None,
    out_dtype: DType | None = None,
    infer: Callable[..., Any] | None = None,
    traits: str = "",
    **record: Any,
) -> Callable[[Callable[..., Any]], Op]:
    """Declare an element-wise op: inputs of one dtype, broadcast together.

    Args:
        out_dtype: the dtype of the result where it is not that of the inputs (comparisons: bool).
        infer: replaces the default rule.
        traits: further ones, see `OP_TRAITS`.
        record: further fields as in `op`. `shaped_like` is by default what holds for an op of one input that keeps
            its dtype.
    """

    def default_infer(*specs: Spec, **attrs: Any) -> Spec:
        if len(specs) == 1:
            return Spec(specs[0].shape, out_dtype or specs[0].dtype)
        given = [s for s in specs if s is not None]
        require_same_dtype(type, *given)
        return Spec(broadcast_shapes(*[s.shape for s in given]), out_dtype or given[0].dtype)

    rule = infer or default_infer
    if slots == "X -> Out" and grad is not None and out_dtype is None and record.get("saved") in ("", "Out"):
        record.setdefault("shaped_like", {"X": "Out"})
    declare = op(type, slots, infer=rule, grad=grad, traits=f"elementwise {traits}", **record)
    return lambda forward: declare(_rounded_once(forward, rule))


def _rounded_once(forward: Callable[..., Any], infer: Callable[..., Any]) -> Callable[..., Any]:
    """`forward`, computed in float32 for float16 and bfloat16; results are then brought to the dtypes of `infer`."""

    @wraps(forward)
    def run(xp: Any, *arrays: Any, **attrs: Any) -> Any:
        dtype = arrays[-1].dtype
        if dtype.char not in HALVES:
            return forward(xp, *arrays, **attrs)
        result = forward(xp, *[a.astype(np.float32) if a.dtype == dtype else a for a in arrays], **attrs)
        specs = infer(*map(spec_of, arrays), **attrs)
        if not isinstance(result, tuple):
            return _in_dtype(result, specs)
        return tuple(_in_dtype(one, spec) for one, spec in zip(result, specs, strict=True))

    return run


def _in_dtype(result: Any, spec: Spec | None) -> Any:
    """A result in the dtype that the op declares; None where there is none."""
    if result is None or spec is None or spec.dtype == result.dtype:
        return result
    return result.astype(spec.dtype.numpy)


def trace(record: Op, dtypes: tuple[Any, ...] | None = None, **attrs: Any) -> Any:
    """The expression (or tuple) an element-wise op computes, from symbolic inputs.

    Args:
        record: an element-wise op or the backward op of one.
        dtypes: dtype of every input, float32 by default.

    Raises:
        AttributeError: the body uses something outside FUNCTIONS.
    """
    given = dtypes or ("float32",) * len(record.inputs)
    inputs = [Expr("input", value=i, dtype=as_dtype(d).numpy) for i, d in enumerate(given)]
    return record.forward(Recording, *inputs, **record.complete(attrs))
