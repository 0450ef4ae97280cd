"""Cases for ops, and how a case is turned into arrays and run without an executor.

A case gives one op inputs, attributes and an independent answer. `test_cases.py` runs every check on every
case of every `cases_<topic>.py` in the folders beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from workbench.framework.expr.numpy_functions import numpy_xp
from workbench.framework.op.evaluate import Evaluator
from workbench.framework.op.record import Op, find_op
from workbench.framework.values.dtype import as_dtype
from workbench.framework.values.random import RandomStream
from workbench.framework.values.spec import Spec, spec_of

# rtol, atol of the forward result against the reference, which is computed in float64
TOLERANCE = {
    "float64": (1e-9, 1e-11),
    "float32": (2e-5, 2e-6),
    "float16": (5e-3, 2e-3),
    "bfloat16": (4e-2, 2e-2),
}
STREAM = RandomStream(seed=7, op=3, place=0, step=5)


@dataclass
class Case:
    """One use of an op.

    Attributes:
        type: the op.
        inputs: one entry per input slot: an array, a list of arrays (list slots), or None (absent). Trailing
            absent ones may be left out. float64 arrays are cast to each of `dtypes` in turn, all others stay.
        attrs: attributes that differ from the op's defaults.
        ref: the answer, `ref(*inputs, **attrs)` -> array or tuple (one entry per output slot; a list for a
            list slot; None = not compared). Gets float64 arrays. Never calls workbench.
        check: for answers that are no single value (random ops): `check(*outputs)` raises if they are wrong.
        grad: which float input slots are differentiated: True = all, False = none, or a tuple of names.
        outputs_grad: output slots that receive a gradient; default: every floating one.
        dtypes: the floating dtypes to run with (used only if an input is float64).
        tol: `{dtype: (rtol, atol)}` instead of TOLERANCE.
        grad_tol: relative error of the derivative in float64.
        size0: also run with empty inputs: True = inputs whose first dimension is that of the first input lose
            all of it; or a list of complete `inputs`.
        known: dims that `infer` needs: `{slot: True | (axis, ...)}`; all others are tried as −1.
        id: tells the cases of one op apart.
    """

    type: str
    inputs: list[Any]
    attrs: dict[str, Any] = field(default_factory=dict)
    ref: Callable[..., Any] | None = None
    check: Callable[..., None] | None = None
    grad: bool | tuple[str, ...] = True
    outputs_grad: tuple[str, ...] | None = None
    dtypes: tuple[str, ...] = ("float32", "float64", "float16")
    tol: dict[str, tuple[float, float]] = field(default_factory=dict)
    grad_tol: float = 1e-6
    size0: bool | list[list[Any]] = True
    known: dict[str, bool | tuple[int, ...]] = field(default_factory=dict)
    id: str = ""

    def __post_init__(self) -> None:
        assert self.ref is not None or self.check is not None, f"case {self.label}: needs ref or check"

    @property
    def label(self) -> str:
        return f"{self.type}/{self.id}" if self.id else self.type

    @property
    def op(self) -> Op:
        return find_op(self.type)

    @property
    def full_attrs(self) -> dict[str, Any]:
        return self.op.complete(self.attrs)

    def arrays(self, dtype: str = "float64") -> list[Any]:
        """Read-only inputs, one per slot, with float64 cast to `dtype`."""
        given = [cast(value, dtype) for value in self.inputs]
        return given + [None] * (len(self.op.inputs) - len(given))

    def run_dtypes(self) -> tuple[str, ...]:
        """The dtypes worth running: one if nothing is cast."""
        castable = any(a.dtype == np.float64 for a in leaves(self.inputs))
        return self.dtypes if castable else self.dtypes[:1]

    def tolerance(self, dtype: str) -> dict[str, float]:
        rtol, atol = self.tol.get(dtype, TOLERANCE[dtype])
        return {"rtol": rtol, "atol": atol}

    def differentiated(self) -> list[str]:
        """The input slots whose gradient is checked."""
        op = self.op
        if self.grad is False or not op.differentiable:
            return []
        names = []
        for slot, value in zip(op.inputs, self.inputs, strict=False):
            is_float = any(a.dtype == np.float64 for a in leaves([value]))
            if is_float and slot.name not in op.no_grad and (self.grad is True or slot.name in self.grad):
                names.append(slot.name)
        return names


def tree_map(function: Callable[[Any], Any], value: Any) -> Any:
    """`function` on the array(s) in a slot value: an array, a list, rows (mapped in their values) or None."""
    if value is None:
        return None
    if isinstance(value, list | tuple):
        return [tree_map(function, v) for v in value]
    if is_rows(value):
        return type(value)(value.rows, function(value.values), value.height)
    return function(value)


def leaves(values: Sequence[Any]) -> list[np.ndarray]:
    """All arrays in slot values."""
    arrays: list[np.ndarray] = []

    def keep(array: np.ndarray) -> np.ndarray:
        arrays.append(array)
        return array

    for value in values:
        tree_map(keep, value)
    return arrays


def is_rows(value: Any) -> bool:
    return hasattr(value, "rows") and hasattr(value, "height")


def dense(value: Any) -> Any:
    """A rows gradient as an array."""
    if not is_rows(value):
        return value
    out = np.zeros((value.height, *value.values.shape[1:]), value.values.dtype)
    np.add.at(out, value.rows, value.values)
    return out


def cast(value: Any, dtype: str) -> Any:
    """Fresh read-only arrays; float64 becomes `dtype`."""

    def one(a: Any) -> Any:
        a = np.array(a, as_dtype(dtype).numpy if np.asarray(a).dtype == np.float64 else None, order="K")
        a.flags.writeable = False
        return a

    return tree_map(one, value)


def to_float64(value: Any) -> Any:
    """Floating arrays widened, for references."""
    return tree_map(lambda a: a.astype(np.float64) if as_dtype(a.dtype).is_float else a, value)


def strided(value: Any) -> Any:
    """The same values, not contiguous in memory."""

    def one(a: Any) -> Any:
        if not a.ndim:
            return a
        roomy = np.zeros((*a.shape[:-1], 2 * a.shape[-1]), a.dtype).swapaxes(0, -1).copy().swapaxes(0, -1)
        roomy[..., ::2] = a
        return roomy[..., ::2]

    return tree_map(one, value)


def specs_of(values: Sequence[Any]) -> list[Any]:
    """A Spec per slot (a list for list slots, None for absent)."""

    def one(value: Any) -> Any:
        if isinstance(value, list | tuple):
            return [spec_of(a) for a in value]
        return None if value is None else spec_of(value)

    return [one(v) for v in values]


def with_unknown(case: Case, specs: list[Any], unknown: Callable[[int], bool]) -> list[Any]:
    """Specs in which the dims with `unknown(axis)` are −1, apart from those in `case.known`."""

    def blur(slot: str, spec: Spec) -> Spec:
        known = case.known.get(slot, ())
        keep = range(len(spec.shape)) if known is True else [k % len(spec.shape) for k in known or ()]
        return spec.with_shape(-1 if unknown(i) and i not in keep else d for i, d in enumerate(spec.shape))

    result = []
    for slot, spec in zip(case.op.inputs, specs, strict=True):
        one = [blur(slot.name, s) for s in spec] if isinstance(spec, list) else spec and blur(slot.name, spec)
        result.append(one)
    return result


class FixedEvaluator(Evaluator):
    """Dynamic mode, drawing every random number from STREAM."""

    def __init__(self) -> None:
        super().__init__(numpy_xp)

    def stream(self, attrs: dict[str, Any]) -> RandomStream:
        return STREAM


def run_forward(op: Op, arrays: Sequence[Any], attrs: dict[str, Any], **extra: Any) -> tuple[Any, ...]:
    """Outputs of `op`, one per slot, by its forward body alone."""
    extra = {**FixedEvaluator().extras(op, attrs), **extra}
    with np.errstate(all="ignore"):
        result = op.forward(numpy_xp, *arrays, **extra, **attrs)
    return (result,) if len(op.outputs) == 1 else tuple(result)


def cotangents(case: Case, outputs: Sequence[Any]) -> list[Any]:
    """A fixed random gradient for every output that gets one, None for the others."""
    rng = np.random.default_rng(11)

    def draw(a: Any) -> Any:
        return np.asarray(rng.standard_normal(a.shape)).astype(a.dtype)

    result = []
    for slot, value in zip(case.op.outputs, outputs, strict=True):
        wanted = case.outputs_grad is None or slot.name in case.outputs_grad
        is_float = all(as_dtype(a.dtype).is_float for a in leaves([value]))
        result.append(tree_map(draw, value) if value is not None and wanted and is_float else None)
    return result


def run_backward(
    case: Case,
    arrays: Sequence[Any],
    outputs: Sequence[Any],
    gs: Sequence[Any],
    grad_op: Op | None = None,
    wanted: Sequence[bool] | None = None,
) -> dict[str, Any]:
    """Gradients by input slot, by the body of `<type>_grad` (or of the `grad_op` given)."""
    op = case.op
    grad_op = grad_op or find_op(op.grad_type)
    kept = [out for slot, out in zip(op.outputs, outputs, strict=True) if slot.name in op.saved]
    flags = wanted if wanted is not None else (True,) * len(grad_op.outputs)
    results = run_forward(grad_op, [*arrays, *kept, *gs], case.full_attrs, wanted=flags)
    names = [slot.name.removesuffix("@GRAD") for slot in grad_op.outputs]
    return {name: tree_map_dense(r) for name, r in zip(names, results, strict=True)}


def tree_map_dense(value: Any) -> Any:
    return [tree_map_dense(v) for v in value] if isinstance(value, list | tuple) else dense(value)
