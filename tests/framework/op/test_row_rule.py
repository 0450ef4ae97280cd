"""The formula of a gradient stands once: rules made from row programs, and what else states a gradient twice."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import workbench as wb
from workbench.dygraph.dispatch.recorder import dynamic_recorder
from workbench.errors import Unimplemented
from workbench.framework.expr.expr import BINARY, UNARY, in_order
from workbench.framework.expr.numpy_functions import numpy_xp
from workbench.framework.op.evaluate import EvaluatedArray, Evaluator
from workbench.framework.op.record import all_ops, find_op
from workbench.framework.op.recorder import recording
from workbench.framework.op.row_rule import rule_from_body
from workbench.framework.op.rows import along, row_op
from workbench.framework.rows.arrays import numpy_form
from workbench.framework.rows.program import Operand, RowProgram
from workbench.framework.rows.recording import RECURRENCE, Per

R = np.random.default_rng(4)
X, G = R.uniform(0.1, 0.9, (3, 4)), R.uniform(0.1, 0.9, (3, 4))
LABEL = np.array([[2], [-1], [0]])


def programs(body: Callable[..., Any]) -> tuple[RowProgram, RowProgram]:
    """Of an op `X, Label -> Out` with the gradient `body(rows, x, label, g, ignored)`, and of its backward op."""
    axes = along("axis")
    own = RowProgram(
        "own", lambda rows, x, label, ignored: x, (Operand("X"), Operand("Label", Per.ROW, True)), (Operand("Out"),),
        axes, integers=("ignored",),
    )  # fmt: skip
    inputs = (*own.inputs, Operand("Out@GRAD"))
    back = RowProgram("own_grad", body, inputs, (Operand("X@GRAD", like="X"),), axes, integers=("ignored",))
    return own, back


def both_ways(body: Callable[..., Any], axis: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """A gradient by the rule, op by op, and by its body on arrays."""
    x, label, g = (X, LABEL, G) if axis == 1 else (X.T.copy(), LABEL.T.copy(), G.T.copy())
    attrs = {"axis": axis, "ignored": -1}
    own, back = programs(body)
    with recording(Evaluator(numpy_xp)):
        by_rule, none = rule_from_body(own, back, ())(*map(EvaluatedArray, (g, x, x, label)), **attrs)
        assert none is None  # a label has no gradient
        rule = by_rule().array
    return rule, numpy_form(back)(numpy_xp, x, label, g, **attrs)


def check(body: Callable[..., Any]) -> None:
    for axis in (1, 0):
        by_rule, by_body = both_ways(body, axis)
        assert by_rule.dtype == by_body.dtype == np.float64
        np.testing.assert_allclose(by_rule, by_body, rtol=1e-14, atol=0)
        assert np.ptp(by_body) > 0 or not by_body.any()


@pytest.mark.parametrize("name", [name for name in UNARY if name != "rint"])
def test_functions_of_one_number(name: str) -> None:
    check(lambda rows, x, label, g, ignored: g * getattr(rows, name)(x if name != "logical_not" else x > 0.5))


@pytest.mark.parametrize("name", BINARY)
def test_functions_of_two_numbers(name: str) -> None:
    def body(rows: Any, x: Any, label: Any, g: Any, ignored: Any) -> Any:
        a, b = (x > 0.5, g > 0.5) if name.startswith(("logical", "bitwise")) else (x, g)
        return g * getattr(rows, name)(a, b)

    check(body)


NUMBERS: dict[str, Callable[[Any, Any], Any]] = {
    "added": lambda rows, x: (2.5 + x) - 0.5,
    "taken away": lambda rows, x: 2.5 - x,
    "divided by": lambda rows, x: x / 3.0 + x / 0.25,
    "divided": lambda rows, x: 3.0 / x + 1.0 / x,
    "power": lambda rows, x: x**1.5,
    "compared": lambda rows, x: (x > 0.5) * 2.0 + (x > 0.25),
    "bounded": lambda rows, x: rows.maximum(x, 0.5) + rows.minimum(0.25, x),
    "chosen": lambda rows, x: rows.where(x > 0.5, x, 0.0) * rows.where(x > 0.25, 1.0, x),
    "cast": lambda rows, x: (x > 0.5).astype(x.dtype) * x,
}


@pytest.mark.parametrize("name", NUMBERS)
def test_numbers_beside_tensors(name: str) -> None:
    check(lambda rows, x, label, g, ignored: g * NUMBERS[name](rows, x))


REDUCTIONS: dict[str, Callable[..., Any]] = {
    "sum": lambda rows, x, label, ignored: rows.sum(x) * x,
    "the sum and the mean": lambda rows, x, label, ignored: rows.sum(x) * x + rows.sum(x) / rows.count,
    "mean": lambda rows, x, label, ignored: rows.mean(x * x),
    "product": lambda rows, x, label, ignored: rows.prod(x),
    "extremes": lambda rows, x, label, ignored: rows.max(x) + rows.min(x) * rows.top(x),
    "count": lambda rows, x, label, ignored: x * rows.count,
    "across": lambda rows, x, label, ignored: rows.across(x) * x,
    "picked": lambda rows, x, label, ignored: rows.pick(x, label, ignored) * x,
    "placed": lambda rows, x, label, ignored: rows.place(rows.sum(x), label, ignored),
    "elements placed": lambda rows, x, label, ignored: rows.place(x, label, ignored),
    "at": lambda rows, x, label, ignored: rows.where(rows.at(label, ignored), x, 2.0 * x),
    "label": lambda rows, x, label, ignored: rows.where(label == ignored, 0.0, x),
    "one number for all": lambda rows, x, label, ignored: rows.count * 0.5,
    "running sums": lambda rows, x, label, ignored: (
        rows.running_sum(x) * rows.running_sum(x * x, reverse=True) + rows.running_sum(x, exclusive=True)
    ),
}


@pytest.mark.parametrize("name", REDUCTIONS)
def test_what_rows_offer(name: str) -> None:
    body = REDUCTIONS[name]
    check(lambda rows, x, label, g, ignored: g * body(rows, x, label, ignored))
    for axis in (1, 0):  # of the kind that it is, not of that of elements
        np.testing.assert_allclose(*both_ways(lambda rows, x, label, g, ignored: body(rows, x, label, ignored), axis))


def test_a_function_that_no_op_computes_is_refused() -> None:
    with pytest.raises(Unimplemented, match="no op computes rint"):
        both_ways(lambda rows, x, label, g, ignored: g * rows.rint(x))
    for name in ("running_prod", "running_max"):
        with pytest.raises(Unimplemented, match=f"no op computes {name}"):
            both_ways(lambda rows, x, label, g, ignored, name=name: g * getattr(rows, name)(x))


def test_statistics_that_were_saved_are_computed_once_more() -> None:
    """A gradient that reads a saved mean: its derivative by x goes through the mean, too."""
    x, out, mean = Operand("X"), Operand("Out"), Operand("Mean", Per.ROW)
    own = RowProgram("own", lambda rows, x: (x * rows.mean(x), rows.mean(x)), (x,), (out, mean), along("axis"))
    back = RowProgram(
        "own_grad", lambda rows, x, mean, g, g_mean: mean * g + rows.mean(g * x),
        (x, mean, Operand("Out@GRAD"), mean._replace(slot="Mean@GRAD")), (Operand("X@GRAD", like="X"),), along("axis"),
    )  # fmt: skip
    saved = X.mean(1, keepdims=True)
    weights = R.normal(size=X.shape)
    with recording(dynamic_recorder):
        by, g = wb.to_tensor(X, stop_gradient=False), wb.to_tensor(G)
        for by_products, through_mean in ((("Mean",), (weights * G).mean(1, keepdims=True)), ((), 0.0)):
            first = rule_from_body(own, back, by_products)((g, None), (None, wb.to_tensor(saved)), by, axis=1)
            np.testing.assert_allclose(first.numpy(), saved * G + (G * X).mean(1, keepdims=True))
            (second,) = wb.grad((first * wb.to_tensor(weights)).sum(), by)
            np.testing.assert_allclose(second.numpy(), through_mean + G * weights.mean(1, keepdims=True))


def test_a_gradient_stated_twice_is_refused() -> None:
    declare = {"axes": along("axis"), "attrs": {"axis": -1}, "infer": lambda x, axis: x}
    with pytest.raises(ValueError, match="'told_twice' states its gradient twice"):
        row_op("told_twice", "X -> Out", **declare, grad=lambda g, y, x, axis: g, grad_body=lambda rows, x, g: g)
    assert "told_twice" not in all_ops()


BESIDES_THE_RULE = {
    "argsort top_k top_k_v2 gather lookup_table lookup_table_v2": "small arrays are put back, or added up, in 7-29 us; "
    "the op that the rule calls for that takes 31-63 with what makes zeros and records. Look-ups give sparse rows, too",
    "conv2d depthwise_conv2d": "it calls the two ops that the rule calls, in 58 us instead of 93",
    "dropout relu": "the one formula, called without recording: in 3-6 us instead of 6-33",
    "matmul_v2 mul": "a batch is one product of matrices if the right side is one; and 6 us instead of 21",
    "tile": "one sum over all copies, which needs known sizes; the rule does without: 7 us instead of 88",
    "nce": "from the chances that were saved, and sparse rows: 71 us instead of 777",
    "fused_dot_product_attention": "matrix by matrix, so that the scores of all are never there at once",
    "fused_batch_norm_act fused_bn_add_activation fused_elemwise_add_activation": "what the ops they stand for give, "
    "bit by bit; batch_norm's reads saved statistics: 52 us instead of 346-546",
}
"""Ops that have a direct body for the gradient beside the rule for second derivatives, and why (`grad_forward`; small
arrays, float32)."""


def test_who_states_a_gradient_twice_says_why() -> None:
    both = {op.type for op in all_ops().values() if op.grad is not None and op.grad_forward is not None}
    from_rows = {op.type for op in all_ops().values() if op.grad_rows is not None}
    assert both - from_rows == {type for types in BESIDES_THE_RULE for type in types.split()}


BY_OPS = {"cumprod", "logcumsumexp"}
"""Ops whose gradients ask for what no public op computes: their rules are stated beside (`grad_by_ops`)."""


def test_rules_of_row_programs_are_made_from_them() -> None:
    for type in BY_OPS:
        program = find_op(type).grad_rows
        parts = in_order(list(program.traced(program.forms[0]).results))
        assert any(part.function == RECURRENCE for part in parts)
    rules = [
        op.grad
        for op in all_ops().values()
        if op.grad_rows is not None and op.forward.__module__.startswith("workbench.") and op.type not in BY_OPS
    ]
    assert len(rules) >= 12
    assert {rule.__module__ for rule in rules if rule is not None} == {rule_from_body.__module__}
