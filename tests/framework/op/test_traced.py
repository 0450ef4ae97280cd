"""The expressions of element-wise ops: what passes through them unchanged, and bodies that have none."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import workbench.ops  # fills the op table
from tests.ops import case as C
from tests.ops.test_cases import CASES
from workbench.framework.op.elementwise import elementwise
from workbench.framework.op.record import OPS, find_op
from workbench.framework.op.traced import passes_through, steps_of

assert workbench.ops


def test_every_elementwise_op_is_among_the_cases() -> None:
    ops = {t for t, record in OPS.items() if record.is_elementwise and not record.is_grad}
    covered = {c.type for c in CASES if c.type in OPS and c.op.is_elementwise}
    toys = {t for t in ops if t.startswith("toy")}
    assert not (ops - toys - covered) and len(covered) > 60


def over_cases() -> Any:
    chosen = [c for c in CASES if c.type in OPS and c.op.is_elementwise]
    return pytest.mark.parametrize("case", chosen, ids=[c.label for c in chosen])


@over_cases()
def test_steps_give_what_the_body_gives(case: C.Case) -> None:
    if "bfloat16" in map(str, case.attrs.values()):
        return  # NumPy itself has no bfloat16: the body casts
    for dtype in {"float32", "float64"} & set(case.run_dtypes()):
        arrays, attrs = case.arrays(dtype), case.full_attrs
        steps = steps_of(case.op, [None if a is None else a.dtype for a in arrays], attrs)
        assert steps is not None
        with np.errstate(all="ignore"):
            results = steps.evaluate(arrays)
        for got, want in zip(results, C.run_forward(case.op, arrays, attrs), strict=True):
            if want is not None:
                np.testing.assert_array_equal(np.broadcast_to(got, want.shape), want)


@over_cases()
def test_what_passes_through_is_an_input(case: C.Case) -> None:
    for dtype in case.run_dtypes():
        arrays, attrs = case.arrays(dtype), case.full_attrs
        results = C.run_forward(case.op, arrays, attrs)
        dtypes = [None if a is None else a.dtype for a in arrays]
        for out, source in passes_through(case.op, dtypes, attrs).items():
            if results[out] is not None and results[out].shape == arrays[source].shape:
                np.testing.assert_array_equal(results[out], arrays[source])


def test_which_outputs_pass_through() -> None:
    f4, f8 = np.dtype("float32"), np.dtype("float64")

    def passed_through(type: str, *dtypes: Any, **attrs: Any) -> dict[int, int]:
        return passes_through(find_op(type), dtypes, attrs)

    assert passed_through("elementwise_add_grad", f4, f4, f4) == {0: 2, 1: 2}
    assert passed_through("elementwise_add_grad", f4, f8, f4) == {0: 2}  # the second one is cast
    assert passed_through("elementwise_sub_grad", f4, f4, f4) == {0: 2}
    assert passed_through("scale_grad", f4, f4, scale=1.0, bias=3.0) == {0: 1}
    assert passed_through("scale_grad", f4, f4, scale=2.0) == {}
    assert passed_through("cast", f4, dtype="float32") == {0: 0}
    assert passed_through("cast", f4, dtype="float64") == {}
    assert passed_through("cast_grad", f4, f8, dtype="float64") == {}
    assert passed_through("increment_grad", f4, f4, wanted=(True,)) == {0: 1}
    assert passed_through("relu", f4) == {} == passed_through("relu_grad", f4, f4, f4)


def test_a_body_that_cannot_be_traced() -> None:
    before = set(OPS)
    record = elementwise("mean_free", "X -> Out")(lambda xp, x: x - xp.mean(x))
    try:
        assert steps_of(record, (np.dtype("float32"),), {}) is None
        assert passes_through(record, [np.dtype("float32")], {}) == {}
    finally:
        for type in set(OPS) - before:
            del OPS[type]


def test_attributes_that_are_equal_but_not_the_same() -> None:
    """0.0 and -0.0, 1 and 1.0 and True are one key of a dict each."""
    x = np.array([1.0, -2.0], "float32")
    for factor in (0.0, -0.0, 1, 1.0, True):
        steps = steps_of(find_op("scale"), (x.dtype,), {"scale": factor})
        assert steps is not None
        (out,) = steps.evaluate([x])
        want = x * np.float32(factor)
        assert out.dtype == want.dtype and out.tobytes() == want.tobytes(), factor
