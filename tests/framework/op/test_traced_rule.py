"""Backward bodies run from traced rules against the same rules run through public ops: the same bits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import workbench.ops  # fills the op table
from tests.ops import case as C
from tests.ops.test_cases import CASES, _emptied
from workbench.framework.expr.numpy_functions import numpy_xp
from workbench.framework.op.elementwise import elementwise
from workbench.framework.op.grad_op import receiver_slots, rule_body
from workbench.framework.op.record import OPS, Op, find_op

assert workbench.ops


def same_bits(got: Any, want: Any, what: str = "") -> None:
    """Equal values, NaN where NaN is due, and the same signs of zeros."""
    want = np.asarray(want)
    assert (got.dtype, got.shape) == (want.dtype, want.shape), what
    np.testing.assert_array_equal(got, want, err_msg=what)
    if want.dtype.kind == "f":
        number = ~np.isnan(want)
        np.testing.assert_array_equal(np.signbit(got)[number], np.signbit(want)[number], err_msg=what)


def by_rule(record: Op) -> Any:
    """The body that runs the rule op by op."""
    receivers = receiver_slots(record)
    positions = [i for i, slot in enumerate(record.inputs) if slot in receivers]
    return rule_body(record, positions, [s for s in record.outputs if s.name in record.saved])


def differentiated() -> Any:
    chosen = [
        c for c in CASES if c.type in OPS and c.op.is_elementwise and c.differentiated() and c.op.grad_forward is None
    ]
    return pytest.mark.parametrize("case", chosen, ids=[c.label for c in chosen])


def given(case: C.Case, arrays: list[Any]) -> list[Any]:
    outputs = C.run_forward(case.op, arrays, case.full_attrs)
    kept = [out for slot, out in zip(case.op.outputs, outputs, strict=True) if slot.name in case.op.saved]
    return [*arrays, *kept, *C.cotangents(case, outputs)]


def compare(case: C.Case, inputs: list[Any], wanted: tuple[bool, ...] | None) -> None:
    backward = find_op(case.op.grad_type)
    with np.errstate(all="ignore"):
        want = by_rule(case.op)(numpy_xp, *inputs, wanted=wanted, **case.full_attrs)
        got = backward.forward(numpy_xp, *inputs, wanted=wanted, **case.full_attrs)
    assert isinstance(got, tuple) == isinstance(want, tuple)
    pairs = zip(got, want, strict=True) if isinstance(got, tuple) else [(got, want)]
    for a, b in pairs:
        assert (a is None) == (b is None), case.label
        if b is not None and b.dtype.kind == "V":
            np.testing.assert_array_equal(a, b)
        elif b is not None:
            same_bits(np.asarray(a), b, case.label)


@differentiated()
def test_the_bits_of_the_rule(case: C.Case) -> None:
    for dtype in (*case.run_dtypes(), "bfloat16"):
        arrays = case.arrays(dtype)
        compare(case, given(case, arrays), None)
        compare(case, given(case, [C.strided(a) for a in arrays]), None)
        compare(case, given(case, C.tree_map(np.asfortranarray, arrays)), None)


@differentiated()
def test_only_wanted_gradients(case: C.Case) -> None:
    inputs, count = given(case, case.arrays("float32")), len(receiver_slots(case.op))
    for keep in range(count):
        compare(case, inputs, tuple(k == keep for k in range(count)))


@differentiated()
def test_empty_inputs(case: C.Case) -> None:
    for arrays in _emptied(case) if case.size0 else []:
        compare(case, given(case, arrays), None)


def test_a_rule_that_cannot_be_traced_runs_as_written() -> None:
    before = set(OPS)
    seen = []

    def rule(g: Any, y: Any, x: Any) -> Any:
        seen.append(x.array.shape)  # of an expression: ()
        return g * float(len(x.array))  # an expression has no length

    record = elementwise("doubled", grad=rule)(lambda xp, x: x + x)
    try:
        x, g = np.ones(3, "float32"), np.arange(3, dtype="float32")
        for _ in range(2):
            got = find_op(record.grad_type).forward(numpy_xp, x, g, wanted=(True,))
            np.testing.assert_array_equal(got, g * 3)
        assert seen == [(), (3,), (3,)], "traced once, then run on arrays"
    finally:
        for type in set(OPS) - before:
            del OPS[type]


def test_attributes_and_dtypes_have_forms_of_their_own() -> None:
    backward, g = find_op("scale_grad"), np.array([1.0, -1.0])
    for dtype in ("float16", "float32", "float64"):
        for factor in (0.1, 3.0, -0.0, 0.0):
            x = np.zeros(2, dtype)
            got = backward.forward(
                numpy_xp, x, g.astype(dtype), wanted=(True,), scale=factor, bias=0.0, bias_after_scale=True
            )
            same_bits(got, g.astype(dtype) * np.dtype(dtype).type(factor))
