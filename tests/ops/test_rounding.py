"""Halves are rounded once: what an op makes of float16 and bfloat16 is the float64 answer, rounded to its dtype."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import workbench as wb
from tests.ops import case as C
from tests.ops.test_cases import CASES
from workbench.dygraph.dispatch.recorder import dynamic_recorder
from workbench.errors import EnforceNotMet
from workbench.framework.op.recorder import recording
from workbench.framework.values.dtype import HALVES

HALF = ("bfloat16", "float16")
ONCE = 0.53  # units in the last place: half of one by the rounding, the rest by float32 before it
COMPOSED = "fused_"  # these stand for several ops, and give the bits of those, each of which rounds
CANCELLED = 5e-7  # of the largest result (or 1): what float32 loses in a small difference of large numbers
INPUT_IS_ROUNDED = {"round/below a half"}  # where the half is another number than the case's


def over_halves(gradients: bool = False) -> Any:
    chosen = [
        pytest.param(case, dtype, id=f"{case.label}-{dtype}")
        for case in CASES
        for dtype in HALF
        if any(a.dtype == np.float64 for a in C.leaves(case.inputs))
        and not case.type.startswith(COMPOSED)
        and case.label not in INPUT_IS_ROUNDED
        and not any(map(C.is_rows, case.inputs))
        and (case.differentiated() if gradients else case.ref is not None)
    ]
    return pytest.mark.parametrize(("case", "dtype"), chosen)


def accepted(case: C.Case, dtype: str) -> list[Any]:
    with np.errstate(over="ignore"):
        arrays = case.arrays(dtype)
    try:
        case.op.infer(*C.specs_of(arrays), **case.full_attrs)
    except EnforceNotMet:
        pytest.skip(f"takes no {dtype}")
    return arrays


def wide(value: Any) -> Any:
    return C.tree_map(lambda a: a.astype(np.float64) if a.dtype.char in HALVES + "f" else a, value)


def assert_rounded_once(got: Any, exact: Any, what: str) -> None:
    for a, value in zip(C.leaves([C.tree_map_dense(got)]), C.leaves([C.tree_map_dense(exact)]), strict=True):
        want = np.asarray(value, np.float64)
        if a.dtype.char not in HALVES:
            continue
        limits = ml_dtypes.finfo(a.dtype)
        is_inside = np.isfinite(want) & (np.abs(want) < float(limits.max))
        want = np.where(is_inside, want, 0)
        lost = CANCELLED * max(1.0, np.abs(want).max(initial=0))
        last = float(limits.eps) * 2.0 ** np.floor(np.log2(np.maximum(np.abs(want), float(limits.tiny))))
        error = np.where(is_inside, np.abs(a.astype(np.float64) - want) - lost, 0) / last
        assert error.max(initial=0) <= ONCE, what


@over_halves()
def test_a_result_is_rounded_once(case: C.Case, dtype: str) -> None:
    arrays = accepted(case, dtype)
    results = C.run_forward(case.op, arrays, case.full_attrs)
    assert case.ref is not None
    with np.errstate(all="ignore"):
        expected = case.ref(*(C.to_float64(a) for a in arrays), **case.attrs)
    expected = expected if isinstance(expected, tuple) else (expected,)
    for slot, got, want in zip(case.op.outputs, results, expected, strict=True):
        if got is not None and want is not None:
            assert_rounded_once(got, want, slot.name)


@over_halves(gradients=True)
def test_a_gradient_is_rounded_once(case: C.Case, dtype: str) -> None:
    """Also where it is a sum over what was broadcast; the other side is the same body on float64 numbers."""
    if case.op.grad_forward is not None and case.type == "nce":
        pytest.skip("rows of a table are summed where they meet, each of them rounded")
    arrays = accepted(case, dtype)
    outs = C.run_forward(case.op, arrays, case.full_attrs)
    gs = C.cotangents(case, outs)
    with np.errstate(all="ignore"):
        grads = C.run_backward(case, arrays, outs, gs)
        exact = C.run_backward(case, wide(arrays), wide(list(outs)), wide(gs))
    for name in case.differentiated():
        assert_rounded_once(grads[name], exact[name], name)


@pytest.mark.parametrize("half", HALF)
@pytest.mark.parametrize("to", ["float32", "float64", "int32", "bfloat16", "float16"])
def test_a_cast_of_halves_holds_what_it_says(half: str, to: str) -> None:
    """Whoever computes with it afterwards computes in its dtype: 1,000 ones are 1,000, not where the halves end."""
    with recording(dynamic_recorder):
        for _ in range(5):  # faster calls are prepared after some uses
            x = wb.to_tensor(np.ones(1000, np.float32)).astype(half).astype(to)
            assert x.numpy().dtype == x.dtype
            assert float(x.sum().astype("float32")) == 1000 and float(wb.add_n([x, x])[0]) == 2


def test_a_bias_gets_the_sum_of_its_gradients() -> None:
    """A batch of 1,000 rows: added up in bfloat16 it would stop at 256."""
    with recording(dynamic_recorder):
        bias = wb.to_tensor(np.zeros(3, np.float32)).astype("bfloat16").detach()
        bias.stop_gradient = False
        (wb.ones([1000, 3], "bfloat16") + bias).sum().backward()
        assert bias.grad.astype("float32").numpy().tolist() == [1000.0] * 3
