"""Tables that only servers have: rows are pulled, gradients of rows are cut for the servers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import workbench.optimizer.rules  # noqa: F401  (fills the op table)
from workbench import fluid
from workbench.config import override
from workbench.framework.op.record import find_op
from workbench.framework.program.program import Program
from workbench.framework.values.rows import Rows
from workbench.framework.values.spec import Spec

TABLE = np.arange(24.0, dtype=np.float32).reshape(8, 3)


class OneServer:
    """Has the whole table."""

    def pull_rows(self, ids: Any, **attrs: Any) -> Any:
        return TABLE[ids]


def run(type: str, *inputs: Any, **attrs: Any) -> Any:
    op = find_op(type)
    extra = {"client": OneServer()} if op.needs else {}
    return op.forward(np, *inputs, **extra, **op.complete(attrs))


def test_rows_are_those_of_the_table() -> None:
    ids = np.array([[1, 7], [0, 1]])
    (rows,) = run("distributed_lookup_table", [ids], None, width=3)
    np.testing.assert_array_equal(rows, TABLE[ids])
    (padded,) = run("distributed_lookup_table", [ids], None, width=3, padding_idx=7)
    np.testing.assert_array_equal(padded[0], [TABLE[1], [0, 0, 0]])


def test_the_gradient_has_a_row_for_each_id() -> None:
    ids, g = np.array([[2, 2], [5, 0]]), np.arange(12.0).reshape(2, 2, 3)
    gradient = run("distributed_lookup_table_grad", None, ids, g, height=8)
    expected = np.zeros((8, 3))
    np.add.at(expected, ids.reshape(-1), g.reshape(-1, 3))
    np.testing.assert_array_equal(gradient.to_dense(np), expected)


def test_a_sparse_gradient_is_cut_like_its_table() -> None:
    rows, values = np.array([4, 0, 7, 3, 4]), np.arange(15.0).reshape(5, 3)
    whole = Rows(rows, values, 8)
    parts = run("split_selected_rows", whole, height_sections=[3, 5])
    assert [part.height for part in parts] == [3, 5]
    stacked = np.concatenate([part.to_dense(np) for part in parts])
    np.testing.assert_array_equal(stacked, whole.to_dense(np))


def test_shapes_follow_from_attributes_where_nobody_has_the_table() -> None:
    ids = Spec((-1, 4), find_op("fill_constant").infer(shape=(1,), value=0, dtype="int64").dtype)
    lookup = find_op("distributed_lookup_table")
    (spec,) = lookup.infer([ids], None, **lookup.complete({"width": 3}))
    assert (spec.shape, spec.dtype.name) == ((-1, 4, 3), "float32")


@pytest.mark.parametrize("reference", [True, False])
def test_a_variable_that_is_only_named_needs_no_value(reference: bool) -> None:
    """What reads rows' gradients runs although the table is nowhere, op by op and compiled."""
    program = Program()
    block = program.global_block()
    block.create_parameter("table", [8, 3], "float32")
    block.create_var("ids", [-1], "int64", is_data=True, stop_gradient=True)
    block.create_var("g", [-1, 3], "float32", is_data=True, stop_gradient=True)
    for name in ("table@GRAD", "dense"):
        block.create_var(name, stop_gradient=True)
    ins = {"W": "table", "Ids": "ids", "Out@GRAD": "g"}
    block.append_op("distributed_lookup_table_grad", ins, {"W@GRAD": "table@GRAD"}, {"height": 8})
    block.append_op("get_tensor_from_selected_rows", {"X": "table@GRAD"}, {"Out": "dense"})
    feed = {"ids": np.array([1, 1]), "g": np.ones((2, 3), np.float32)}
    with override(FLAGS_executor="reference" if reference else "compiled"):
        (fetched,) = fluid.Executor(fluid.CPUPlace()).run(program, feed=feed, fetch_list=["dense"], scope=fluid.Scope())
    assert fetched.sum() == 6 and fetched[1].tolist() == [2, 2, 2]


def test_fake_init_makes_nothing() -> None:
    program, scope = Program(), fluid.Scope()
    block = program.global_block()
    block.create_parameter("table", [8, 3], "float32")
    block.append_op("fake_init", {}, {"Out": "table"}, {"shape": [8, 3]})
    fluid.Executor(fluid.CPUPlace()).run(program, scope=scope)
    variable = scope.find_var("table")
    assert variable is None or not variable.tensor.initialized
