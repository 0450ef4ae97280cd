"""Rows of a plan as NumPy calls: the results of `forward`, wherever the plan has put them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import permutations
from typing import Any

import numpy as np
import pytest

from tests.ops import case as C
from tests.ops.test_cases import CASES
from workbench.executors.lowering.numpy.lower import lower
from workbench.executors.lowering.operands import Context
from workbench.executors.planning.plan import Row
from workbench.framework.expr.numpy_functions import choose
from workbench.framework.op.record import OPS, Cost, Op, find_op
from workbench.framework.values.spec import spec_of
from workbench.graph.ssa import Node, Value


def calls_of(op: Op, ins: Sequence[Any], outs: Sequence[Any], attrs: dict[str, Any]) -> list[Any]:
    """The calls of one op on these arrays."""
    reads = [None if a is None else Value(f"x{i}", 0, 0, spec_of(a)) for i, a in enumerate(ins)]
    writes = [None if a is None else Value(f"y{i}", 0, 1, spec_of(a)) for i, a in enumerate(outs)]
    node = Node(op.type, (0,), list(reads), list(writes), attrs, 0)
    arrays = {v: a for v, a in zip((*reads, *writes), (*ins, *outs), strict=True) if v is not None}
    nothing: Any = None
    context = Context(
        arrays.__getitem__,
        nothing,
        nothing,
        nothing,
        lambda node, passes: {},
        nothing,
        (),
        nothing,
        nothing,
        nothing,
        nothing,
    )
    return lower(Row(node, list(reads), list(writes), 0, Cost(0, 0)), context)


def run(calls: Sequence[Any]) -> None:
    with np.errstate(all="ignore"):
        for call in calls:
            call()


def backward_inputs(case: C.Case) -> list[Any]:
    arrays = case.arrays("float32")
    outputs = C.run_forward(case.op, arrays, case.full_attrs)
    kept = [out for slot, out in zip(case.op.outputs, outputs, strict=True) if slot.name in case.op.saved]
    return [*arrays, *kept, *C.cotangents(case, outputs)]


def in_place(ins: Sequence[Any], results: Sequence[Any]) -> Iterator[list[Any]]:
    """Memory for the results: that of inputs of their shape, in every order; what is left over has its own."""
    fitting = [a for a in ins if a is not None and any(r is not None and r.shape == a.shape for r in results)]
    for chosen in permutations(fitting, min(len(results), len(fitting))):
        rest = [*chosen, *[None] * (len(results) - len(chosen))]
        if all(r is None or a is None or (r.shape == a.shape and r.dtype == a.dtype) for r, a in zip(results, rest)):
            yield [None if r is None else np.empty_like(r) if a is None else a for r, a in zip(results, rest)]


ELEMENTWISE = [
    case
    for case in CASES
    if case.type in OPS and case.op.is_elementwise and "float32" in case.run_dtypes() and case.differentiated()
]


@pytest.mark.parametrize("case", ELEMENTWISE, ids=[case.label for case in ELEMENTWISE])
def test_gradients_in_the_memory_of_inputs(case: C.Case) -> None:
    """A gradient that is an input as it is, such as that of a sum, is stored before its memory is written."""
    back = find_op(case.op.grad_type)
    attrs = case.full_attrs
    wanted = (True,) * len(back.outputs)
    want = C.run_forward(back, [C.tree_map(np.array, a) for a in backward_inputs(case)], attrs, wanted=wanted)
    inputs = [C.tree_map(np.array, a) for a in backward_inputs(case)]
    for number, _ in enumerate(in_place(inputs, want)):
        ins = [C.tree_map(np.array, a) for a in backward_inputs(case)]
        outs = list(in_place(ins, want))[number]
        run(calls_of(back, ins, outs, attrs))
        for out, expected in zip(outs, want, strict=True):
            if expected is not None:
                np.testing.assert_array_equal(out, expected)


def test_a_result_that_is_an_input_outlives_the_result_in_its_memory() -> None:
    """x - y: the gradient of x is g; that of y, which is -g, is stored in the memory of g."""
    x, y, g = np.float32([1, 2]), np.float32([3, 4]), np.float32([5, 6])
    aside = np.empty_like(g)
    run(calls_of(find_op("elementwise_sub_grad"), [x, y, g], [aside, g], {}))
    assert aside.tolist() == [5, 6] and g.tolist() == [-5, -6]
    g = np.float32([5, 6])
    run(calls_of(find_op("elementwise_sub_grad"), [x, y, g], [g, aside], {}))
    assert g.tolist() == [5, 6] and aside.tolist() == [-5, -6]


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int32", "uint8"])
@pytest.mark.parametrize("size", [0, 100, 5000])
def test_choices_are_those_of_where(dtype: str, size: int) -> None:
    """Bit by bit, for many elements too, where they are made by arithmetic."""
    rng = np.random.default_rng(size)
    x, y = (rng.integers(0, 255, size * np.dtype(dtype).itemsize, "uint8").view(dtype) for _ in range(2))
    mask = rng.random(size) < 0.5
    number = np.array(3, dtype)
    for a, b in ((x, y), (x, number), (number, y), (x, np.array(0, dtype))):
        got = choose(mask, a, b)
        assert got.dtype == dtype and got.tobytes() == np.where(mask, a, b).tobytes()
