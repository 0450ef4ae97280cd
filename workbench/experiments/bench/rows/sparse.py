"""Wide and deep: tables whose gradients are rows, and a small network on what is read of them."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from workbench.builders.data import data
from workbench.builders.nn.dense import embedding, fc
from workbench.experiments.bench.row import BenchRow
from workbench.experiments.bench.workloads import SEED, Training, started
from workbench.ops.loss.losses import square_error_cost
from workbench.ops.math.reductions.reduce import mean
from workbench.ops.tensor.join import concat
from workbench.optimizer.rules.sgd import SGD

BATCH, HEIGHT, TABLES, WIDTH = 256, 10_000, 8, 16


def wide_and_deep(height: int) -> Training:
    """Tables of so many rows."""
    rng = np.random.default_rng(SEED)
    feed: dict[str, np.ndarray] = {f"ids{number}": rng.integers(0, height, BATCH) for number in range(TABLES)}
    names = list(feed)

    def body() -> Any:
        read = [embedding(data(name, [None], "int64"), [height, WIDTH], is_sparse=True) for name in names]
        hidden = concat(read, axis=1)
        for width in (256, 128):
            hidden = fc(hidden, width, activation="relu")
        loss = mean(square_error_cost(fc(hidden, 1), data("y", [None, 1])))
        SGD(0.01).minimize(loss)
        return loss

    feed["y"] = rng.standard_normal((BATCH, 1)).astype(np.float32)
    return started(body, feed, 1)


ROWS = (
    BenchRow(
        "wide",
        f"wide & deep: {TABLES} tables of {HEIGHT:,} x {WIDTH}, is_sparse, fc 256-128-1, batch {BATCH}, SGD",
        "0.8 ms, whatever the height of the tables",
        {"1 device": partial(wide_and_deep, HEIGHT), "200,000 rows": partial(wide_and_deep, 20 * HEIGHT)},
        {"torch": "torch_wide.py"},
    ),
)
