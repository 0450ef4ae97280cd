"""Prepared calls of the parameter updates: in place, long parameters block by block, without allocation."""

from __future__ import annotations

import tracemalloc
from typing import Any

import numpy as np
import pytest

from tests.ops.test_bind import Scratch, check
from workbench.framework.op.record import Op, find_op

UPDATES = ("sgd", "momentum", "adam", "adamw", "adagrad", "rmsprop", "adamax", "adadelta", "lamb")
LARGE = 3 * 32768 + 17  # more than two blocks, the last one short


def _update(type: str, shape: tuple[int, ...], dtype: str = "float32") -> tuple[Op, list[Any], list[Any]]:
    """An update in place: op, inputs, outputs."""
    op, rng = find_op(type), np.random.default_rng(9)

    def draw(name: str) -> Any:
        return rng.random((1,) if name == "LearningRate" or name.endswith("Pow") else shape).astype(dtype)

    arrays = {slot.name: draw(slot.name) for slot in op.inputs}
    return op, list(arrays.values()), [arrays[op.aliases[slot.name]] for slot in op.outputs]


@pytest.mark.parametrize("type", UPDATES)
@pytest.mark.parametrize("shape", [(64, 32), (LARGE,), (1,), ()])
def test_updates_in_place(type: str, shape: tuple[int, ...]) -> None:
    op, arrays, outs = _update(type, shape)
    assert check(op, arrays, outs, op.attrs)


@pytest.mark.parametrize("type", UPDATES)
@pytest.mark.parametrize("shape", [(64, 32), (LARGE,)])
def test_updates_allocate_nothing(type: str, shape: tuple[int, ...]) -> None:
    op, arrays, outs = _update(type, shape)
    calls = op.bind(outs, arrays, Scratch(), **op.attrs)

    def step() -> None:
        for call in calls:
            call()

    step()
    tracemalloc.start()
    try:
        step()
        tracemalloc.reset_peak()
        before = tracemalloc.get_traced_memory()[0]
        step()
        peak = tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()
    assert peak < 1000, f"{peak} bytes"  # NumPy makes keyword arguments into a short-lived tuple


@pytest.mark.parametrize("type", UPDATES)
def test_updates_of_long_parameters_need_little_memory(type: str) -> None:
    op, arrays, outs = _update(type, (LARGE,))
    scratch = Scratch()
    op.bind(outs, arrays, scratch, **op.attrs)
    assert sum(a.nbytes for a in scratch.given) < 4 * LARGE  # less than the parameter itself
