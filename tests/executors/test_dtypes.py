"""Every op in every dtype: refused when it is called, or the same at once, in the reference, by calls, on the tape.

The first case of an op stands for it, its numbers cast to the dtype.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.autodiff.small import Built
from tests.dygraph.test_cases_on_tape import applied, tensors
from tests.executors.tape.runs import run
from tests.ops import case as C
from tests.ops.test_cases import CASES
from workbench import static
from workbench.config import override
from workbench.dygraph.dispatch.recorder import dynamic_recorder
from workbench.errors import EnforceNotMet, InvalidArgument
from workbench.framework.op.recorder import recording
from workbench.framework.values.dtype import as_dtype
from workbench.framework.values.spec import spec_of
from workbench.runtime.native import library

DTYPES = ("bfloat16", "float16", "float64", "int32", "bool")
CLOSE = {"float64": 1e-9, "float32": 1e-4, "float16": 1e-2, "bfloat16": 5e-2}  # kernels sum in an order of their own


def first_cases() -> list[C.Case]:
    chosen: dict[str, C.Case] = {}
    for case in CASES:
        castable = any(a.dtype == np.float64 for a in C.leaves(case.inputs))
        if castable and case.check is None and case.op.forward_of is None and not any(map(C.is_rows, case.inputs)):
            chosen.setdefault(case.type, case)
    return [case for case in chosen.values() if "rng" not in case.op.needs]


def at_once(case: C.Case, arrays: list[Any]) -> list[np.ndarray]:
    """What comes in dynamic mode, also when faster calls have been prepared; every tensor is what it says."""
    with recording(dynamic_recorder):
        for _ in range(5):
            outs = applied(case, tensors(case, arrays))
            results = [t for out in outs if out is not None for t in (out if isinstance(out, list) else [out])]
            assert all(t.kind.spec == spec_of(t.array) for t in results)
    return [np.array(t.array) for t in results]


def same(got: Any, want: Any, dtype: str, exact: bool) -> None:
    assert got.dtype == want.dtype and got.shape == want.shape
    if exact or not as_dtype(want.dtype).is_float:
        np.testing.assert_array_equal(got, want)
        return
    tolerance = CLOSE[as_dtype(want.dtype).name]
    wide = want.astype(np.float64)
    scale = np.abs(wide[np.isfinite(wide)]).max(initial=1)
    np.testing.assert_allclose(got.astype(np.float64), wide, rtol=tolerance, atol=tolerance * scale)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("case", first_cases(), ids=lambda case: case.type)
def test_an_op_in_a_dtype_is_refused_or_the_same_everywhere(case: C.Case, dtype: str) -> None:
    with np.errstate(all="ignore"):
        arrays = case.arrays(dtype)
    try:
        case.op.infer(*C.specs_of(arrays), **case.full_attrs)
    except EnforceNotMet:
        with recording(dynamic_recorder), pytest.raises(EnforceNotMet):
            applied(case, tensors(case, arrays))
        return
    feed = {f"x{i}": a for i, a in enumerate(C.leaves(arrays))}
    with Built() as built:
        inputs = iter([static.data(n, list(a.shape), a.dtype.name) for n, a in feed.items()])
        outputs = case.op(*(C.tree_map(lambda a: next(inputs), value) for value in arrays), **case.attrs)
    slots = outputs if isinstance(outputs, tuple) else (outputs,)
    fetch = [v for slot in slots if slot is not None for v in (slot if isinstance(slot, list) else [slot])]
    try:
        with override(executor="reference"):
            scope = static.Scope()
            expected = static.Executor().run(built.main, feed=feed, fetch_list=[v.name for v in fetch], scope=scope)
    except InvalidArgument:  # the numbers are refused: negative powers of integers, a matrix that is singular
        return
    assert [as_dtype(a.dtype) for a in expected] == [v.dtype for v in fetch]
    ways = [at_once(case, arrays)]
    for is_native in {False, library.kernels() is not None}:
        with override(cpu_tape=is_native):
            ways.append(run(built, feed, fetch)[0])
    for values in ways:
        for got, want in zip(values, expected, strict=True):
            same(np.asarray(got), np.asarray(want), dtype, exact=values is ways[1])
