"""Tables, labels and accuracy: the tape against NumPy calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.autodiff.small import Built
from tests.executors.tape.runs import compare, run, tape
from tests.executors.tape.test_sums import numbers
from workbench import static
from workbench.errors import InvalidArgument

F = wb.nn.functional


def integers(high: int, *shape: int) -> np.ndarray:
    return np.random.default_rng((high, *shape)).integers(0, high, shape)


@pytest.mark.parametrize("padding", [None, 2, -1])
@pytest.mark.parametrize("shape", [(6,), (4, 5), (2, 3, 1)])
def test_embedding(shape: tuple[int, ...], padding: int | None) -> None:
    feed = {"ids": integers(9, *shape), "table": numbers(9, 33)}
    assert compare(lambda ids, table: [F.embedding(ids, table, padding_idx=padding)], feed) == set()


@pytest.mark.parametrize("axis", [0, 1, 2, -1])
def test_gather(axis: int) -> None:
    feed = {"x": numbers(4, 4, 4), "index": integers(4, 7)}
    assert compare(lambda x, index: [wb.gather(x, index, axis=axis)], feed) == set()


def test_one_hot() -> None:
    feed = {"x": numbers(5, 3, 8), "label": integers(8, 5, 3)}
    assert compare(lambda x, label: [x * F.one_hot(label, 8)], feed) == set()


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("ignored", [-100, 3])
def test_cross_entropy(reduction: str, ignored: int) -> None:
    def body(x: Any, label: Any) -> list[Any]:
        return [F.cross_entropy(x, label, reduction=reduction, ignore_index=ignored)]

    assert compare(body, {"x": numbers(20, 6), "label": integers(6, 20, 1)}) == set()


def test_negative_log_likelihood() -> None:
    def body(x: Any, label: Any) -> list[Any]:
        return [F.nll_loss(F.log_softmax(x), label)]

    assert compare(body, {"x": numbers(20, 6), "label": integers(6, 20)}) == set()


@pytest.mark.parametrize("k", [1, 3, 6])
def test_accuracy(k: int) -> None:
    def body(x: Any, label: Any) -> list[Any]:
        return [F.softmax_with_cross_entropy(x, label), static.accuracy(x, label, k=k)]

    assert compare(body, {"x": numbers(50, 6), "label": integers(6, 50, 1)}) == set()


@pytest.mark.parametrize("axis", [None, 0, 1, -1])
def test_where_the_largest_is(axis: int | None) -> None:
    def body(x: Any) -> list[Any]:
        return [wb.sum(x) + wb.cast(wb.argmax(x, axis=axis), "float32")]

    assert compare(body, {"x": numbers(4, 5, 6)}) == set()


def test_topk_and_its_gradient() -> None:
    by_numpy = compare(lambda x: [*wb.topk(x, 3)[:1], wb.topk(x, 2, axis=0)[0]], {"x": numbers(7, 8)})
    assert not by_numpy


LOOKUPS: dict[str, Callable[[Any, Any], Any]] = {
    "embedding": lambda x, ids: F.embedding(ids, x),
    "gather": lambda x, ids: wb.gather(x, ids),
    "nll": lambda x, ids: F.nll_loss(x, ids),
    "one_hot": lambda x, ids: x + F.one_hot(ids, 4),
}


@pytest.mark.parametrize("name", LOOKUPS)
@pytest.mark.parametrize("bad", [4, -1])
def test_a_number_out_of_range_is_an_error(name: str, bad: int) -> None:
    with Built() as built:
        out = LOOKUPS[name](static.data("x", [4, 4], "float32"), static.data("ids", [4], "int64"))
    feed = {"x": numbers(4, 4), "ids": np.array([0, 1, bad, 2])}
    with tape(), pytest.raises(InvalidArgument, match=f"{bad} at position"):
        run(built, feed, [out])
