"""A loop in the program, with its gradient."""

from __future__ import annotations

from typing import Any

import numpy as np

from workbench.builders.data import data
from workbench.builders.flow.control_flow import while_loop
from workbench.builders.variables import create_parameter
from workbench.experiments.bench.row import BenchRow
from workbench.experiments.bench.workloads import SEED, Training, started
from workbench.ops.math.products.matmul import matmul
from workbench.ops.math.reductions.reduce import mean
from workbench.ops.nn.activation import tanh
from workbench.ops.tensor.creation import full, zeros_like
from workbench.optimizer.rules.sgd import SGD

PASSES, BATCH, WIDTH = 32, 32, 64


def loop() -> Training:
    """Passes of tanh(h W + x)."""

    def body() -> Any:
        x, w = data("x", [None, WIDTH]), create_parameter([WIDTH, WIDTH], "float32")
        begin = [full([1], 0, "int64"), zeros_like(x)]
        _, last = while_loop(lambda i, h: i < PASSES, lambda i, h: [i + 1, tanh(matmul(h, w) + x)], begin)
        loss = mean(last)
        SGD(0.1).minimize(loss)
        return loss

    return started(body, {"x": np.random.default_rng(SEED).standard_normal((BATCH, WIDTH)).astype(np.float32)}, 1)


ROWS = (
    BenchRow(
        "loop",
        f"while_loop of {PASSES} passes of tanh(h W + x), {WIDTH} wide, batch {BATCH}, with its gradient, SGD",
        "1 ms",
        {"1 device": loop},
        {"torch": "torch_loop.py"},
    ),
)
