"""Every op that has a native form: its cases on operands of which every second entry is meant."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.executors.tape.runs import compare
from tests.executors.tape.test_dtypes import CASES_OF, native_types
from tests.ops import case as C


def by_numpy(case: C.Case) -> set[str] | None:
    """The types of ops that ran as NumPy calls; None if the case has no operand with a last axis of floats."""
    arrays = case.arrays("float32")
    flat = C.leaves(arrays)
    feed = {f"x{i}": np.repeat(a, 2, axis=-1) if a.dtype == np.float32 and a.ndim else a for i, a in enumerate(flat)}
    if all(a is given for a, given in zip(flat, feed.values(), strict=True)):
        return None

    def body(*variables: Any) -> list[Any]:
        seen = [v if tuple(v.shape) == a.shape else v[..., ::2] for v, a in zip(variables, flat, strict=True)]
        rest = iter(seen)
        outputs = case.op(*(C.tree_map(lambda a: next(rest), value) for value in arrays), **case.attrs)
        slots = outputs if isinstance(outputs, tuple) else (outputs,)
        outs = [one for out in slots if out is not None for one in (out if isinstance(out, list) else [out])]
        return [wb.cast(out, "float32") for out in outs]

    return compare(body, feed, rtol=1e-4, atol=2.5e-5)


@pytest.mark.parametrize("type", sorted(CASES_OF))
def test_an_op_in_kernels_runs_there_on_strided_operands_too(type: str) -> None:
    ran = [names for case in CASES_OF[type] if (names := by_numpy(case)) is not None]
    if not ran:
        pytest.skip("it has no operand of floats with an axis")
    native = {name for name in (type, type + "_grad") if not all(name in names for names in ran)}
    assert native_types(type, "float32") <= native
