"""Products written the way they are read: what joins heads, or the gradients of heads, copies nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.parallel.lowerings import same_numbers
from tests.parallel.memory.plan_checker import check_plan
from tests.parallel.models import Model, build
from workbench import static
from workbench.executors.planning.plan import Plan

X = np.random.default_rng(2).standard_normal((5, 6, 8)).astype(np.float32)
PARAMETERS = [f"fc_{i}.w_0" for i in range(3)]


def attention(axes: Sequence[int], back: Sequence[int]) -> Model:
    """Heads turned by `axes`, two products, and turned by `back` before they are joined."""

    def body() -> Any:
        x = static.data("x", [None, 6, 8])
        q, k, v = (wb.transpose(wb.reshape(static.nn.fc(x, 8, num_flatten_dims=2), [-1, 6, 2, 4]), axes)
                   for _ in range(3))  # fmt: skip
        weights = wb.nn.functional.softmax(wb.matmul(q, k, transpose_y=True))
        joined = wb.reshape(wb.transpose(wb.matmul(weights, v), back), [-1, 48])
        return wb.mean(wb.tanh(joined) * joined)

    return build(body, wb.optimizer.SGD(0.1)).start()


def run(model: Model, fetches: Sequence[str] = ()) -> tuple[list[np.ndarray], Plan]:
    """A step on one device, with the gradients of the parameters, and its plan."""
    names = [*fetches, *(f"{name}@GRAD" for name in PARAMETERS)]
    expected = static.Executor().run(model.main, {"x": X}, names, scope=model.scope)
    alone = model.start().parallel(1)
    fetched = alone.run(names, feed={"x": X})
    for name, value, right in zip(names, fetched, expected, strict=True):
        same_numbers(value, right, name)
    plan = alone.inspection.last.plan
    check_plan(plan)
    return fetched, plan


def copied(plan: Plan) -> list[str]:
    """Names of what comes of a transposition and is put into another order by copying."""
    writers = {v: node for node in plan.graph.nodes for v in node.writes}
    joins = [n for n in plan.graph.nodes if n.type.startswith("reshape2")]
    turned = [n for n in joins if any(writers[v].type.startswith("transpose2") for v in n.value_reads if v in writers)]
    return [v.name for node in turned for v in node.writes if v not in plan.aliases]


@pytest.mark.parametrize(
    ("axes", "back"),
    [
        ([0, 2, 1, 3], [0, 2, 1, 3]),
        ([2, 0, 1, 3], [1, 2, 0, 3]),  # heads first
    ],
)
@pytest.mark.usefixtures("tape")
def test_what_is_turned_and_joined_is_never_copied(axes: Sequence[int], back: Sequence[int]) -> None:
    """Forward and in the gradients; the products have the strides of the joined result."""
    _, plan = run(attention(axes, back))
    assert copied(plan) == []


@pytest.mark.usefixtures("tape")
def test_a_product_without_a_dense_matrix_is_made_in_its_own_order() -> None:
    """Kernels do not write the order the join wants: one copy, instead of a product by NumPy."""
    _, plan = run(attention([2, 1, 0, 3], [3, 0, 2, 1]))
    assert len(copied(plan)) == 1


@pytest.mark.usefixtures("tape")
def test_a_product_somebody_else_reads_is_written_in_its_own_order() -> None:
    axes = [0, 2, 1, 3]
    model = attention(axes, axes)
    product = next(n for op in model.main.global_block().ops if op.type == "transpose2" for n in op.input_arg_names
                   if n.startswith("matmul"))  # fmt: skip
    (turned, *_), plan = run(model, [product])
    assert turned.flags.c_contiguous
    assert len(copied(plan)) == 1


@pytest.mark.usefixtures("calls")
def test_calls_of_numpy_write_in_their_own_order() -> None:
    """They make results row by row, and the join copies: one in the forward part, three in the gradients."""
    axes = [0, 2, 1, 3]
    _, plan = run(attention(axes, axes))
    assert len(copied(plan)) == 4


@pytest.mark.usefixtures("tape")
def test_where_results_take_over_nothing_all_are_written_row_by_row() -> None:
    """As `keep_temporaries` and `enable_inplace` promise: every value in an array of its own, in its own order."""
    layouts = []
    for in_place in (True, False):
        build_strategy = static.BuildStrategy()
        build_strategy.enable_inplace = in_place
        exe = attention([0, 2, 1, 3], [0, 2, 1, 3]).parallel(1, build_strategy=build_strategy)
        exe.run([], feed={"x": X})
        layouts.append(exe.inspection.last.plan.memory.layouts)
    assert layouts[0] and not layouts[1]
