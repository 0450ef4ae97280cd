"""Constants, and tensors whose parts come to lie elsewhere, in kernels: the same bits as the ops by NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.autodiff.small import Built
from tests.executors.tape.runs import compare, run, tape
from workbench import static
from workbench.config import override

F = wb.nn.functional

BODIES: dict[str, Callable[..., list[Any]]] = {
    "values": lambda x: [x * wb.assign(np.array([0.1, -0.0, 3, np.pi, 1e-40, 7], np.float32))],
    "arange": lambda x: [x * wb.arange(0.5, 3.5, 0.5), wb.arange(1.0, -0.3, -0.1)],
    "linspace": lambda x: [x * wb.linspace(-0.1, 0.7, 6), wb.linspace(3.0, 3.0, 1)],
    "eye": lambda x: [x + wb.eye(5, 6), wb.eye(3, 2)],
    "lower": lambda x: [wb.tril(x), wb.tril(x, 2), wb.tril(x, -3), wb.tril(x, -9)],
    "upper": lambda x: [wb.triu(x), wb.triu(x, 2), wb.triu(x, -3), wb.triu(x, 9)],
    "flip": lambda x: [wb.flip(x, 0), wb.flip(x, [-1]), wb.flip(x, [2, 0]), wb.flip(x, [0, 1, 2, 3])],
    "roll": lambda x: [wb.roll(x, 2, 1), wb.roll(x, [-1, 9], [0, -1]), wb.roll(x, 6, 3), wb.roll(x, 5)],
}


@pytest.mark.parametrize("name", BODIES)
def test_bits(name: str) -> None:
    x = np.random.default_rng(0).standard_normal((2, 3, 5, 6)).astype(np.float32)
    assert compare(BODIES[name], {"x": x}) == set()


@pytest.mark.parametrize("name", BODIES)
def test_every_bit_of_results(name: str) -> None:
    """Without gradients, whose sums may come in another order; -0.0 stays what it is."""
    x = np.random.default_rng(0).standard_normal((2, 3, 5, 6)).astype(np.float32)
    x[x < -1] = -0.0
    with Built() as built:
        outs = BODIES[name](static.data("x", list(x.shape)))
    with override(cpu_tape=False):
        expected, _ = run(built, {"x": x}, outs)
    with tape():
        got, by_numpy = run(built, {"x": x}, outs)
    assert by_numpy == set()
    assert [a.tobytes() for a in got] == [a.tobytes() for a in expected]


@pytest.mark.parametrize("mode", ["reflect", "replicate", "circular"])
@pytest.mark.parametrize("widths", [[2, 1], [0, 3], [3, 0], [3, 3]])
def test_bits_of_borders(mode: str, widths: list[int]) -> None:
    x = np.random.default_rng(0).standard_normal((2, 3, 4)).astype(np.float32)

    def body(x: Any) -> list[Any]:
        return [F.pad(x.detach(), widths, mode=mode, data_format="NCL")]

    assert "pad" not in compare(body, {"x": x}, rtol=0, atol=0)
