"""Small programs the executor tests train."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

import workbench as wb
from workbench.framework.names import guard
from workbench.framework.program.guard import static_mode


@dataclass
class Model:
    """A built program with what is needed to run it."""

    main: Any
    startup: Any
    loss: Any
    out: Any

    def feed(self, step: int = 0, rows: int = 4) -> dict[str, np.ndarray]:
        """A batch that depends on `step` only."""
        r = np.random.default_rng(step)
        return {"x": r.random((rows, 3), np.float32), "y": r.random((rows, 1), np.float32)}

    def state(self, scope: Any) -> dict[str, bytes]:
        """All persistable values, as bytes."""
        return {v.name: scope.find_var(v.name).tensor.array.tobytes() for v in self.main.persistables()}


def regression(dropout: bool = True, batch_norm: bool = True, optimizer: Any = None) -> Model:
    """fc, batch norm, dropout, fc, squared error, Adam with a schedule: every kind of persistable state."""
    main, startup = wb.static.Program(), wb.static.Program()
    startup.random_seed = main.random_seed = 7
    with static_mode(), guard(), wb.static.program_guard(main, startup):
        x = wb.static.data("x", [None, 3], "float32")
        y = wb.static.data("y", [None, 1], "float32")
        h = wb.static.nn.fc(x, 5, activation="relu")
        if batch_norm:
            h = wb.static.nn.batch_norm(h)
        if dropout:
            h = wb.nn.functional.dropout(h, 0.3)
        out = wb.static.nn.fc(h, 1)
        loss = wb.mean(wb.nn.functional.square_error_cost(out, y))
        rate = wb.optimizer.lr.ExponentialDecay(0.05, 0.9)
        (optimizer or wb.optimizer.Adam(rate)).minimize(loss)
    return Model(main, startup, loss, out)
