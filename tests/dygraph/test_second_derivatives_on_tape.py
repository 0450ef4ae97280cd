"""Second derivatives of every differentiable op in dynamic mode: against differences of the first, along directions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import workbench as paddle
from tests.dygraph.test_cases_on_tape import applied, flat
from tests.ops import case as C
from tests.ops.test_second_derivatives_of_cases import CURVED, STEP, _chosen
from workbench.dygraph.dispatch.recorder import dynamic_recorder
from workbench.dygraph.tensor.tensor import Tensor
from workbench.framework.op.recorder import recording
from workbench.framework.values.random import RandomStream


@pytest.fixture(autouse=True)
def dynamic(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(RandomStream, "dynamic", classmethod(lambda cls, seed=0: C.STREAM))
    with recording(dynamic_recorder):
        yield


class Slopes:
    """The gradient of a case's outputs times fixed numbers, anywhere on a line through its inputs."""

    def __init__(self, case: C.Case) -> None:
        self.case, self.arrays = case, case.arrays("float64")
        outputs = C.run_forward(case.op, self.arrays, case.full_attrs)
        self.weights = C.cotangents(case, outputs)
        rng = np.random.default_rng(3)
        self.along = [C.tree_map(lambda a: rng.standard_normal(a.shape), value) for value in self.arrays]

    def at(self, distance: float, create_graph: bool) -> tuple[list[Any], list[Any]]:
        """The leaves and the gradients by them (None where nothing depends on one)."""
        wanted = self.case.differentiated()
        given, leaves = [], []
        for slot, value, way in zip(self.case.op.inputs, self.arrays, self.along, strict=True):
            moved = self._moved(value, way, distance) if slot.name in wanted else value
            tensors = C.tree_map(lambda a, keep=slot.name in wanted: Tensor(np.array(a), not keep), moved)
            given.append(tensors)
            leaves += flat([tensors]) if slot.name in wanted else []
        outs, seeds = [], []
        for out, weight in zip(applied(self.case, given), self.weights, strict=True):
            if out is not None and weight is not None:
                outs += flat([out])
                seeds += [Tensor(np.array(w)) for w in (weight if isinstance(weight, list) else [weight])]
        return leaves, paddle.grad(outs, leaves, seeds, create_graph=create_graph, allow_unused=True)

    def _moved(self, value: Any, way: Any, distance: float) -> Any:
        if isinstance(value, list):
            return [self._moved(v, w, distance) for v, w in zip(value, way, strict=True)]
        return value + distance * way if value.dtype == np.float64 else value


@pytest.mark.parametrize("case", _chosen(), ids=lambda case: case.label)
def test_second_derivative(case: C.Case) -> None:
    slopes, rng = Slopes(case), np.random.default_rng(7)
    leaves, first = slopes.at(0.0, create_graph=True)
    kept = [i for i, f in enumerate(first) if f is not None]
    weights = [rng.standard_normal(first[i].shape) for i in kept]
    total = paddle.add_n([(first[i] * Tensor(w)).sum() for i, w in zip(kept, weights, strict=True)])
    second = paddle.grad(total, leaves, allow_unused=True)
    directions = C.leaves([w for slot, w in zip(case.op.inputs, slopes.along, strict=True)
                           if slot.name in case.differentiated()])  # fmt: skip
    parts = [s.numpy() * d for s, d in zip(second, directions, strict=True) if s is not None]
    analytic, scale = sum(float(p.sum()) for p in parts), sum(float(np.abs(p).sum()) for p in parts)
    ends = [slopes.at(distance, create_graph=False)[1] for distance in (STEP, -STEP)]
    changes = [((ends[0][i].numpy() - ends[1][i].numpy()) * w).sum() for i, w in zip(kept, weights, strict=True)]
    assert abs(analytic - sum(changes) / (2 * STEP)) <= 2e-5 * max(scale, 1.0) + 1e-6
    if case.type in CURVED and case is next(c for c in _chosen() if c.type == case.type):
        assert scale > 1e-6  # more than zeros were compared
