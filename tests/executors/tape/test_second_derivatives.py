"""Gradients of gradients in kernels: what a penalty on gradients needs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.executors.tape.runs import compare
from tests.executors.tape.test_sums import numbers
from tests.executors.tape.test_writer import refused_at_once
from workbench import static
from workbench.executors.lowering.tape.registry import RULES
from workbench.framework.op.record import find_op

F = wb.nn.functional

BODIES: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "sums": ("broadcast_to_like_grad", lambda x: wb.sum(x * x, axis=1)),
    "means": ("broadcast_to_like_grad", lambda x: wb.mean(x * x * x, axis=[0, 1])),
    "broadcast": ("reduce_to_like_grad", lambda x: x[0:1] * x * x),
    "parts": ("slice_put_grad", lambda x: x[1:3, 2] * x[0:2, 3]),
    "labels": ("place_label_grad", lambda x: F.nll_loss(x * x, wb.assign(np.array([1, 0, 4, 2])))),
    "rows": ("scatter_rows_grad", lambda x: F.embedding(wb.assign(np.array([3, 0, 3])), x * x) ** 2.0),
    "norms": ("squared_l2_norm_grad", lambda x: find_op("squared_l2_norm")(x)),
}


@pytest.mark.parametrize("name", BODIES)
def test_gradients_of_gradients(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    type, body = BODIES[name]

    def gradient(x: Any) -> list[Any]:
        (g,) = static.gradients(wb.sum(body(x) ** 2.0), x)
        return [g * g]

    assert type not in compare(gradient, {"x": numbers(4, 5)}, rtol=1e-4, atol=1e-5)
    monkeypatch.setitem(RULES, type, refused_at_once)
    assert type in compare(gradient, {"x": numbers(4, 5)}, rtol=1e-4, atol=1e-5)  # the program has it
