"""Backward operators carry what Paddle 1.8.5's gradient makers give them; `grad_slots.py` makes the table."""

from __future__ import annotations

import json

import pytest

import workbench as wb
from tests.autodiff.small import Built
from tests.oracle.grad_slots import KNOWN, TABLE, differences, differentiable
from workbench import static


@pytest.fixture(scope="module")
def table() -> dict[str, list[str]]:
    known = set(differentiable())
    return {type: slots for type, slots in json.loads(TABLE.read_text()).items() if type in known}


def test_backward_ops_carry_what_paddles_carry(table: dict[str, list[str]]) -> None:
    assert len(table) > 80
    assert {type: text for type, text in differences(table).items() if type not in KNOWN} == {}


def test_each_known_difference_is_one(table: dict[str, list[str]]) -> None:
    assert set(KNOWN) == set(differences(table))


def test_operators_of_a_program_have_the_slots_of_the_table(table: dict[str, list[str]]) -> None:
    """As they are appended: an optional slot may be absent, and none is there that Paddle does not know."""
    with Built() as built:
        x = static.data("x", [None, 3, 4, 4])
        x.stop_gradient = False
        h = wb.nn.functional.dropout(wb.nn.functional.sigmoid(static.nn.batch_norm(wb.nn.functional.relu(x))), 0.5)
        rows = wb.nn.functional.softmax(wb.tanh(h.reshape([-1, 48])))
        loss = wb.mean(wb.nn.functional.softmax_with_cross_entropy(rows, static.data("y", [None, 1], "int64")))
        static.append_backward(loss)
    grads = {op.type.removesuffix("_grad"): op for op in built.main.global_block().ops if op.record.is_grad}
    compared = [type for type in grads if type in table and type not in KNOWN]
    assert {"relu", "sigmoid", "tanh", "softmax", "dropout", "batch_norm", "softmax_with_cross_entropy"} <= {*compared}
    assert [type for type in compared if not set(grads[type].inputs) <= set(table[type])] == []
