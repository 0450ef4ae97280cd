"""Every op case once more with CuPy as the array module: the same body, on a GPU, against NumPy."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest

from tests.ops import case as C
from tests.ops.test_cases import CASES

RUNNABLE = [case for case in CASES if "run_block" not in case.op.needs]
HERE = RUNNABLE if find_spec("cupy") else RUNNABLE[:1]  # without CuPy one test says why it is skipped


class ArrayModule:
    """CuPy, plus the functions element-wise bodies may use and CuPy keeps elsewhere."""

    def __getattr__(self, name: str) -> Any:
        import cupy

        return getattr(cupy, name)

    def erf(self, x: Any) -> Any:
        from cupyx.scipy.special import erf

        return erf(x)

    def cast(self, x: Any, dtype: str) -> Any:
        return x.astype(dtype)


@pytest.mark.gpu
@pytest.mark.parametrize("case", HERE, ids=lambda case: f"{case.type}/{case.label}")
def test_forward_equals_numpy(case: C.Case) -> None:
    import cupy

    attrs = case.full_attrs
    extra = C.FixedEvaluator().extras(case.op, attrs)
    arrays = case.arrays("float32")
    expected = C.run_forward(case.op, arrays, attrs)
    moved = [C.tree_map(cupy.asarray, a) for a in arrays]
    with np.errstate(all="ignore"):
        outputs = case.op.forward(ArrayModule(), *moved, **extra, **attrs)
    outputs = outputs if isinstance(outputs, tuple) else (outputs,)
    on_host = [C.tree_map(cupy.asnumpy, value) for value in outputs]
    for got, want in zip(C.leaves(on_host), C.leaves(expected), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)
