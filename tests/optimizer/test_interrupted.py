"""Ctrl-C at every moment of a step of dynamic mode: all parameters and states are updated, or none."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.stress.tripwire import Tripwire

FILES = [
    "optimizer/optimizer.py", "optimizer/parameter_update.py", "dispatch/writes.py", "dispatch/recorder.py",
    "dygraph/overwrites.py", "runtime/undisturbed.py",
]  # fmt: skip


class Stepped:
    """An optimizer that has made a step, with gradients for the next one."""

    def __init__(self, make: Any, is_sparse: bool) -> None:
        self.parameters = [wb.create_parameter([3, 2], "float32") for _ in range(3)]
        for number, parameter in enumerate(self.parameters):
            parameter.set_value(np.full([3, 2], number + 1, np.float32))
        self.optimizer = make(parameters=self.parameters)
        self.is_sparse = is_sparse
        self.learn()
        self.optimizer.step()
        self.learn()

    def learn(self) -> None:
        self.optimizer.clear_grad(False)
        first, *rest = self.parameters
        if self.is_sparse:
            loss = wb.nn.functional.embedding(wb.to_tensor([0, 2]), first, sparse=True).sum()
        else:
            loss = (first * 2.0).sum()
        for number, parameter in enumerate(rest):
            loss = loss + (parameter * (number + 3.0)).sum()
        loss.backward()

    def state(self) -> list[Any]:
        states = [t.numpy().tolist() for t in self.optimizer.state_dict().values() if isinstance(t, wb.Tensor)]
        return [*(p.numpy().tolist() for p in self.parameters), *sorted(states, key=str)]


@pytest.mark.parametrize(
    ("make", "is_sparse"),
    [
        (lambda parameters: wb.optimizer.SGD(0.5, parameters=parameters), False),
        (lambda parameters: wb.optimizer.Adam(0.5, parameters=parameters), False),
        (lambda parameters: wb.optimizer.Adam(0.5, parameters=parameters), True),
    ],
    ids=["sgd", "adam", "sparse adam"],
)
@pytest.mark.filterwarnings("ignore:Exception ignored")
def test_a_step_is_applied_whole_or_not_at_all(make: Any, is_sparse: bool) -> None:
    model = Stepped(make, is_sparse)
    before = model.state()
    with Tripwire(None, FILES) as wire:
        model.optimizer.step()
    after = model.state()
    seen = set()
    for n in range(0, wire.count, 5):
        model = Stepped(make, is_sparse)
        try:
            with Tripwire(n, FILES):
                model.optimizer.step()
        except KeyboardInterrupt:
            assert model.state() in (before, after), n
            seen.add(model.state() == after)
    assert seen == {False, True} or (is_sparse and False in seen)
