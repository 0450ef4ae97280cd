"""Ops that declare the row of a kernel: which rows are written, and which are left to the op's forward."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.autodiff.small import Built
from tests.executors.tape.runs import compare, tape
from tests.executors.tape.test_sums import numbers
from tests.native.one_row import kernels
from tests.parallel.models import devices
from workbench import static
from workbench.errors import ExecutionError
from workbench.executors.lowering.open_tape import OpenTape
from workbench.executors.lowering.tape.one_op import OneOp
from workbench.executors.planning.filled_plan import FilledPlan
from workbench.framework.op.declare import op
from workbench.framework.op.record import OPS, Op, TemporaryArray
from workbench.framework.values.dtype import float32, int64
from workbench.framework.values.spec import Spec, sizes_along
from workbench.ops.index.order.sort import ARGSORT

F = wb.nn.functional
Declare = Callable[[Callable[..., Any]], Op]


@pytest.fixture
def declare() -> Iterator[Declare]:
    """Declares an op that sorts along the last axis, with a row of one's own; the op is gone afterwards."""
    known = set(OPS)

    def declared(kernel: Callable[..., Any]) -> Op:
        return op("in_order", "X -> Out", infer=lambda x: x, kernel=kernel)(lambda xp, x: xp.sort(x, axis=-1))

    yield declared
    for name in OPS.keys() - known:
        del OPS[name]


def sorted_row(x: Any, out: Any, sizes: Any = None, kernel: str = "sort_rows") -> tuple[Any, ...]:
    outer, width, inner = sizes or sizes_along(x.shape, -1)
    indices, spare = (TemporaryArray(shape, int64.numpy) for shape in (x.shape, (2, x.shape[-1])))
    return kernel, x, out, indices, spare, outer, width, inner, width, False


def by_numpy(declared: Op, *shape: int, dtype: str = "float32") -> bool:
    """Whether the op runs by its forward on such an operand; its results are NumPy's in any case."""
    return "in_order" in compare(lambda x: [wb.cast(declared(x), "float32")], {"x": numbers(*shape).astype(dtype)})


def test_operands_that_the_declaration_does_not_take_are_left_to_the_forward(declare: Declare) -> None:
    declared = declare(lambda x, out: x.ndim == 2 and sorted_row(x, out))
    assert not by_numpy(declared, 4, 5)
    assert by_numpy(declared, 2, 4, 5)


def test_empty_operands_are_left_to_the_forward(declare: Declare) -> None:
    """Sizes that the declaration divides by are none of them 0."""
    assert by_numpy(declare(lambda x, out: sorted_row(x, out) if 12 // x.size else False), 0, 5)


@pytest.mark.parametrize("dtype", ["int64", "int32"])
def test_dtypes_that_the_kernel_does_not_read_are_left_to_the_forward(declare: Declare, dtype: str) -> None:
    """There is memory enough for float32 in both: only the signature of the kernel tells."""
    assert by_numpy(declare(sorted_row), 4, 5, dtype=dtype)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_halves_are_computed_in_float32(declare: Declare, dtype: str) -> None:
    x = wb.to_tensor(numbers(4, 5)).astype(dtype)
    declared = declare(sorted_row)
    with tape(), Built() as built:
        y = declared(static.data("x", [4, 5], dtype))
    with tape(), devices(1):
        executor = static.ParallelExecutor(use_cuda=False, main_program=built.main)
        (result,) = executor.run([y], feed={"x": x.numpy()})
    np.testing.assert_array_equal(result.astype(np.float64), np.sort(x.numpy().astype(np.float64), axis=-1))


@pytest.mark.parametrize(
    "sizes", [(1, 5, 5), (5, 5, 1), (4, 6, 1), (4, 5, 2)], ids=["wide", "outer", "long", "inner"]
)  # fmt: skip
def test_a_row_that_would_touch_more_than_its_arrays_is_not_written(declare: Declare, sizes: Any) -> None:
    assert by_numpy(declare(lambda x, out: sorted_row(x, out, sizes)), 4, 5)


def test_a_kernel_that_no_image_has_is_left_to_the_forward(declare: Declare) -> None:
    assert by_numpy(declare(lambda x, out: sorted_row(x, out, kernel="sort_rows_of_mine")), 4, 5)


def test_operands_that_do_not_lie_row_by_row_are_copied(declare: Declare) -> None:
    declared = declare(sorted_row)

    def body(x: Any) -> list[Any]:
        return [declared(wb.transpose(x, [1, 0])), declared(x[:, 1:4])]

    assert "in_order" not in compare(body, {"x": numbers(4, 5)})


def test_temporary_memory_is_the_rows_own(declare: Declare) -> None:
    """Two rows of one thread beside each other, each with memory for what it sorts."""
    declared = declare(sorted_row)
    assert "in_order" not in compare(lambda x: [declared(x), declared(x * -2.0)], {"x": numbers(40, 7)})


@pytest.mark.parametrize("wanted", [0, 1])
def test_memory_is_given_for_an_output_that_nobody_wants(wanted: int) -> None:
    """Sorted numbers alone, or their places alone."""
    x = numbers(6, 7)
    specs = [Spec((6, 7), float32), Spec((6, 7), int64)]
    outs = [spec if number == wanted else None for number, spec in enumerate(specs)]
    compiled = OneOp(ARGSORT, ARGSORT.complete({"axis": 1}), specs[:1], outs, kernels())
    assert compiled.is_possible()
    results = compiled(x)
    assert results is not None and results[1 - wanted] is None
    in_order = results[wanted] if wanted == 0 else np.take_along_axis(x, results[1], 1)
    assert np.array_equal(in_order, np.sort(x, axis=1))


@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_integers_are_int64_where_the_kernel_reads_that(dtype: str) -> None:
    labels = np.array([2, 0, 1, 2], dtype)
    ran = compare(lambda x, label: [F.one_hot(label, 3) * x], {"x": numbers(4, 3), "label": labels})
    assert "one_hot_v2" not in ran


def test_integers_that_are_written_are_not_those_the_kernel_writes() -> None:
    """Places of int32, where the kernel writes int64."""
    ran = compare(lambda x: [wb.cast(wb.cummax(x, axis=1, dtype="int32")[1], "float32")], {"x": numbers(6, 7)})
    assert "cummax" in ran


def test_what_is_moved_stays_what_it_is() -> None:
    """Both dtypes have eight bytes, and the kernel moves any such; but one is made of the other."""

    def kernel(x: Any, ids: Any, out: Any) -> tuple[Any, ...]:
        return "take_rows", x, ids, out, 1, *x.shape[:1], ids.size, 2 * x.shape[1], -1

    declared = op("whole_rows", "X, Ids -> Out", infer=lambda x, ids: x.with_dtype(int64), kernel=kernel)(
        lambda xp, x, ids: x[ids].astype("int64")
    )
    feed = {"x": 9 * numbers(4, 5).astype(np.float64), "ids": np.array([2, 0, 3, 1])}
    assert "whole_rows" in compare(lambda x, ids: [wb.cast(declared(x, ids), "float32")], feed)
    del OPS["whole_rows"]


def test_an_operand_that_is_absent_is_left_to_the_forward() -> None:
    """Unless the kernel can do without."""

    declared = op("one_in_order", "X, Y? -> Out", infer=lambda x, y: x, kernel=lambda x, y, out: one_row(x, y, out))(
        lambda xp, x, y: xp.sort(x if y is None else y, axis=-1)
    )

    def one_row(x: Any, y: Any, out: Any) -> tuple[Any, ...]:
        kernel, _, *rest = sorted_row(x, out)
        return kernel, y, *rest

    feed = {"x": numbers(4, 5), "y": numbers(4, 5)}
    assert "one_in_order" in compare(lambda x, y: [declared(x)], feed)
    assert "one_in_order" not in compare(lambda x, y: [declared(x, y)], feed)
    del OPS["one_in_order"]


@pytest.mark.parametrize(
    ("kernel", "told"),
    [
        (lambda x, out: sorted_row(x.reshape(4, 5), out), "operands themselves"),
        (lambda x, out: sorted_row(x, TemporaryArray(x.shape, x.dtype)), "not name the output Out"),
    ],
    ids=["a view", "no output"],
)
def test_a_row_that_cannot_be_meant_is_refused(declare: Declare, kernel: Callable[..., Any], told: str) -> None:
    with pytest.raises(ExecutionError, match=rf"in_order.*sort_rows.*{told}"):
        by_numpy(declare(kernel), 4, 5)


def test_open_sizes_make_rows_for_all_shapes(declare: Declare, monkeypatch: pytest.MonkeyPatch) -> None:
    """The row is written once, as a formula, and no gap is left for it."""
    gaps: list[str] = []
    leave_gap = OpenTape.leave_gap
    monkeypatch.setattr(OpenTape, "leave_gap", lambda tape, node: (gaps.append(node.type), leave_gap(tape, node))[1])
    declared = declare(lambda x, out: x.ndim == 2 and sorted_row(x, out))
    with Built() as built:
        x = static.data("x", [None, None])
        results = [declared(x), wb.cumsum(x, axis=0), *wb.cummin(x, axis=1), wb.argsort(x, axis=1)]
    with tape(), devices(1):
        executor = static.ParallelExecutor(use_cuda=False, main_program=built.main)
        for rows in range(3, 11):
            given = numbers(rows, 2 * rows)
            first, sums, least, places, order = executor.run(results, feed={"x": given})
            assert np.array_equal(first, np.sort(given, axis=1))
            np.testing.assert_allclose(sums, np.cumsum(given.astype(np.float64), axis=0), rtol=1e-5, atol=1e-6)
            assert np.array_equal(least, np.minimum.accumulate(given, axis=1))
            assert np.array_equal(np.take_along_axis(given, places, 1), least) and places.dtype == int64.numpy
            assert np.array_equal(order, np.argsort(given, axis=1, kind="stable"))
        assert type(executor.inspection.last.plan) is FilledPlan
    assert not gaps
