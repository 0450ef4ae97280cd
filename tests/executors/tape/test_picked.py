"""Entries picked, put, added and put in order, and running sums, in kernels: against NumPy calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.autodiff.small import Built
from tests.executors.tape.runs import compare, run, tape
from tests.executors.tape.test_labels import integers
from tests.executors.tape.test_sums import numbers
from workbench import static
from workbench.config import override
from workbench.errors import InvalidArgument
from workbench.ops.index.put import PUT_AT

INDEXED: dict[str, Callable[[Any, Any], Any]] = {
    "gather_nd": lambda x, ids: wb.gather_nd(x, wb.stack([ids, ids], axis=1)),
    "scatter": lambda x, ids: wb.scatter(x, ids, x[:3] * 2.0),
    "scatter, added": lambda x, ids: wb.scatter(x, ids, x[:3] * 2.0, overwrite=False),
    "scatter_nd_add": lambda x, ids: wb.scatter_nd_add(x, wb.unsqueeze(ids, 1), x[:3] * 2.0),
    "index_add": lambda x, ids: wb.index_add(x, ids, 1, x[:, :3] * 2.0),
    "index_select": lambda x, ids: wb.index_select(x, ids, 1),
    "take_along_axis": lambda x, ids: wb.take_along_axis(x, wb.tile(wb.unsqueeze(ids, 1), [1, 4]), 0),
    "put_along_axis": lambda x, ids: wb.put_along_axis(x, wb.unsqueeze(ids, 0), x[:, :3], 1),
    "embedding": lambda x, ids: wb.nn.functional.embedding(ids, x),
    "nll_loss": lambda x, ids: wb.nn.functional.nll_loss(x[:3], ids),
}
PUT_ALONG = {"take_along_axis", "put_along_axis"}  # of which these indices stand for a part


@pytest.mark.parametrize("dtype", ["int32", "int64"])
@pytest.mark.parametrize("name", INDEXED)
def test_indices_of_both_dtypes(name: str, dtype: str) -> None:
    feed = {"x": numbers(4, 4), "ids": integers(4, 3).astype(dtype)}
    by_numpy = compare(lambda x, ids: [INDEXED[name](x, ids)], feed)
    assert by_numpy <= {"tile", "unsqueeze2", "stack"} or name in PUT_ALONG


@pytest.mark.parametrize("bad", [4, -1])
@pytest.mark.parametrize("name", INDEXED)
def test_a_number_out_of_range_is_an_error(name: str, bad: int) -> None:
    with Built() as built:
        out = INDEXED[name](static.data("x", [4, 4]), static.data("ids", [3], "int64"))
    feed = {"x": numbers(4, 4), "ids": np.array([0, bad, 2])}
    with tape(), pytest.raises(InvalidArgument, match=f"{bad} at position"):
        run(built, feed, [out])


def places() -> Any:
    """Positions, some of them twice."""
    return wb.assign(np.array([[3, 1, 2, 0, 14], [19, 3, 3, 5, 1]]))


MOVED: dict[str, Callable[[Any], list[Any]]] = {
    "gather": lambda x: [wb.gather(x, wb.assign(np.array([2, 0, 2])), axis=1)],
    "gather_nd": lambda x: [wb.gather_nd(x, wb.assign(np.array([[2, 0], [0, 3]])))],
    "scatter": lambda x: [wb.scatter(x, wb.assign(np.array([2, 0, 2])), x[:3])],
    "put_at": lambda x: [PUT_AT(x, places(), wb.gather(x, wb.assign(np.array([2, 0]))))],
    "cumsum": lambda x: [wb.cumsum(x, 0), wb.cumsum(x)],
    "shape": lambda x: [wb.shape(x), wb.numel(x)],
    "detach": lambda x: [x.detach()],
    "concat": lambda x: [wb.concat([x, x], 1), wb.stack([x, x], 1), *wb.split(x, 2), *wb.unstack(x, 1)[:2]],
    "slice": lambda x: [wb.concat([x[1:3, 2:4]] * 2), wb.concat([x[:, 1:3], x[:, ::2]], 1)],
    "transpose": lambda x: [wb.concat([wb.transpose(x, [1, 0])] * 2, 0)],
    "tile": lambda x: [wb.tile(x, [2, 3]), wb.expand(wb.unsqueeze(x, 1), [4, 3, 5])],
}


@pytest.mark.parametrize("dtype", ["float32", "int64", "int32"])
@pytest.mark.parametrize("name", MOVED)
def test_every_bit_of_what_is_moved(name: str, dtype: str) -> None:
    x = (1000 * numbers(4, 5)).round().astype(dtype)  # whole numbers have one sum, whatever the order
    with Built() as built:
        outs = MOVED[name](static.data("x", [4, 5], dtype))
    with override(cpu_tape=False):
        expected, _ = run(built, {"x": x}, outs)
    with tape():
        got, by_numpy = run(built, {"x": x}, outs)
    assert [a.tobytes() for a in got] == [a.tobytes() for a in expected]
    assert by_numpy == set() or dtype == "int32"
    assert not by_numpy & {"gather", "gather_nd", "scatter", "put_at", "concat", "stack", "split", "tile", "slice"}


ORDERS: dict[str, Callable[[Any], list[Any]]] = {
    "sort": lambda x: [wb.sort(x), wb.sort(x, descending=True)],
    "topk": lambda x: [wb.topk(x, 3)[0], wb.topk(x, 3, largest=False)[0]],
    "many": lambda x: [wb.topk(wb.reshape(x, [-1]), 70)[0]],
    "argsort": lambda x: [x * wb.cast(wb.argsort(x), "float32")],
    "argmin": lambda x: [wb.sum(x) + wb.cast(wb.argmin(x, axis=1), "float32")],
    "cummax": lambda x: [wb.cummax(x, 0)[0], wb.cummin(x)[0]],
    "cumsum": lambda x: [wb.cumsum(x), wb.cumsum(x, 0), wb.cumsum(x, 1)],
    "dot": lambda x: [wb.dot(x, x * 2.0), wb.dot(x[0], x[1])],
}


@pytest.mark.parametrize("name", ORDERS)
def test_orders_and_scans(name: str) -> None:
    assert compare(ORDERS[name], {"x": numbers(9, 10)}) == set()


def test_truth_values() -> None:
    def body(x: Any) -> list[Any]:
        truths = x > -1.0
        return [wb.cast(v, "float32") * wb.sum(x) for v in (wb.all(truths, 1), wb.any(truths, [0, 1]), wb.all(truths))]

    assert compare(body, {"x": numbers(4, 5, 6)}) == set()


@pytest.mark.parametrize(
    "draw",
    [
        lambda x: wb.cast(wb.randint(-5, 9, [7, 11]), "float32"),
        lambda x: wb.bernoulli(wb.abs(wb.sin(x))),
        lambda x: wb.cast(wb.randint(0, 2**40, [3]), "float32"),
    ],
)
def test_bits_of_random_numbers(draw: Callable[[Any], Any]) -> None:
    wb.seed(7)
    assert compare(lambda x: [x * wb.sum(draw(x))], {"x": numbers(7, 11)}, rtol=1e-6) == set()
