"""Errors of the public functions over the ops name the thing, what was expected and what came."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.ops.test_functions import F, data, tensor
from workbench.errors import EnforceNotMet, InvalidArgument, InvalidType
from workbench.framework.program.program import Program


@pytest.fixture(autouse=True)
def _dynamic_mode() -> Iterator[None]:
    from workbench.dygraph.dispatch.recorder import dynamic_recorder
    from workbench.framework.op.recorder import recording

    with recording(dynamic_recorder):
        yield


INTEGERS = np.array([1, 2, 3])
ERRORS = {
    "exp of integers": (lambda: wb.exp(wb.assign(INTEGERS)), InvalidType, "astype"),
    "mean of integers": (lambda: wb.mean(wb.assign(INTEGERS)), InvalidType, "astype"),
    "relu of integers": (lambda: F.relu(wb.assign(INTEGERS)), InvalidType, "relu"),
    "two dtypes": (lambda: wb.add(wb.zeros([2]), wb.zeros([2], "float64")), InvalidType, "one dtype"),
    "two shapes": (lambda: wb.add(wb.zeros([2]), wb.zeros([3])), InvalidArgument, r"\[2\] and \[3\]"),
    "two numbers": (lambda: wb.add(1, 2), InvalidType, "int and int"),
    "fraction of integers": (lambda: wb.scale(wb.assign(INTEGERS), 0.5), InvalidType, "whole"),
    "negative power": (lambda: wb.assign(INTEGERS) ** -1, InvalidArgument, "negative powers"),
    "tensor as scale": (lambda: wb.scale(wb.zeros([2]), wb.zeros([2])), InvalidType, "number"),
    "no axis": (lambda: wb.sum(wb.zeros([2, 3]), axis=2), InvalidArgument, r"\[-2, 2\)"),
    "axis twice": (lambda: wb.sum(wb.zeros([2, 3]), axis=[1, -1]), InvalidArgument, "twice"),
    "axis a float": (lambda: wb.mean(wb.zeros([2]), axis=0.5), InvalidType, "float 0.5"),
    "maximum of nothing": (lambda: wb.max(wb.zeros([0, 3]), axis=0), InvalidArgument, "at least one"),
    "all of floats": (lambda: wb.all(wb.zeros([2])), InvalidType, "bool"),
    "condition of floats": (lambda: wb.where(wb.zeros([2]), 1.0, wb.zeros([2])), InvalidType, "bool"),
    "where without y": (lambda: wb.where(wb.zeros([2]) > 0, wb.ones([2])), NotImplementedError, "x and y"),
    "two numbers to choose": (lambda: wb.where(wb.zeros([2]) > 0, 1, 2), InvalidType, "at least one tensor"),
    "negative size": (lambda: wb.zeros([-1, 2]), InvalidArgument, ">= 0"),
    "text as value": (lambda: wb.full([2], "one"), InvalidType, "number"),
    "step of zero": (lambda: wb.arange(0, 5, 0), InvalidArgument, "not zero"),
    "ragged values": (lambda: wb.assign([[1, 2], [3]]), InvalidType, "list"),
    "crossed bounds": (lambda: wb.clip(wb.zeros([2]), 2, 1), InvalidArgument, "greater"),
    "text as bound": (lambda: wb.clip(wb.zeros([2]), "0", 1), InvalidType, "number"),
    "alpha of zero": (lambda: F.celu(wb.zeros([2]), 0), InvalidArgument, "> 0"),
    "float positions": (lambda: wb.argmax(wb.zeros([2]), dtype="float32"), InvalidType, "integers"),
    "triangle of a vector": (lambda: wb.tril(wb.zeros([2])), InvalidArgument, "2 dimensions"),
    "sum of nothing": (lambda: wb.add_n([]), InvalidArgument, "at least one"),
    "sum of two shapes": (lambda: wb.add_n([wb.zeros([2]), wb.zeros([3])]), InvalidArgument, r"\[3\]"),
    "no such activation": (lambda: wb.scale(wb.zeros([2]), act="rleu"), LookupError, "relu"),
    "out argument": (lambda: wb.logical_not(wb.zeros([2]), out=wb.zeros([2])), InvalidType, "assign"),
}  # fmt: skip


@pytest.mark.parametrize("name", ERRORS)
def test_error(name: str) -> None:
    call, kind, words = ERRORS[name]
    with pytest.raises(kind, match=words) as caught:
        call()
    assert isinstance(caught.value, EnforceNotMet)


def test_errors_in_a_program_name_the_op_the_variables_and_the_line(static: Program) -> None:
    x, y = data(static, "x", [-1, 3]), data(static, "y", [-1, 4])
    with pytest.raises(InvalidArgument) as caught:
        wb.add(x, y)
    text = str(caught.value)
    for part in ("elementwise_add", "x float32[?, 3]", "y float32[?, 4]", __file__):
        assert part in text
    assert not static.global_block().ops


@pytest.mark.parametrize(
    "function",
    [lambda x: wb.clip(x, -2, 5), lambda x: wb.scale(x, 2.0), lambda x: wb.increment(x, 1), lambda x: wb.pow(x, 2)],
)
def test_booleans_are_no_numbers(function: Any) -> None:
    """A tensor that says it is Boolean would hold 2 or -1."""
    with pytest.raises(InvalidArgument, match=r"needs numbers; cast it first, as in x.astype\('int64'\)"):
        function(tensor([True], "bool"))
