"""How long native pooling takes per float of the image, beside a copy of the image in the same run.

    python -m tests.benchmarks.bench_pooling [part of a name ...]

One thread; nanoseconds, the best of several runs.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from tests.benchmarks.bench_convolutions import Rows, seconds
from tests.native.kernels.test_pooling import ATTRS, write
from workbench.executors.lowering.tape.conv.pooling import pool2d, pool2d_grad
from workbench.ops.conv.pools.pool import POOL

PAIRS: dict[str, Any] = {"ksize": [2, 2], "strides": [2, 2]}
THREES: dict[str, Any] = {"ksize": [3, 3], "strides": [2, 2], "paddings": [1, 1, 1, 1]}
SMOOTH: dict[str, Any] = {"ksize": [3, 3], "paddings": [1, 1, 1, 1], "pooling_type": "avg"}
CASES: dict[str, tuple[tuple[int, ...], dict[str, Any]]] = {
    "max 2 x 2, 28 x 28 pixels": ((32, 6, 28, 28), PAIRS),
    "max 2 x 2, 10 x 10 pixels": ((32, 16, 10, 10), PAIRS),
    "max 2 x 2, 4 x 4 pixels": ((32, 64, 4, 4), PAIRS),
    "max 2 x 2, 32 x 32 pixels": ((8, 32, 32, 32), PAIRS),
    "max 2 x 2, 18 x 18 pixels": ((8, 32, 18, 18), PAIRS),
    "max 2 x 2, 13 x 13 pixels": ((8, 64, 13, 13), PAIRS),
    "max 2 x 2, 112 x 112 pixels": ((1, 64, 112, 112), PAIRS),
    "max 3 x 3, stride 2": ((1, 64, 112, 112), THREES),
    "max 3 x 3, stride 2, 28 x 28 pixels": ((8, 32, 28, 28), THREES),
    "max 3 x 3, stride 2, 3 planes": ((1, 3, 112, 112), THREES),
    "average 2 x 2": ((8, 32, 28, 28), {**PAIRS, "pooling_type": "avg"}),
    "average 3 x 3, stride 1": ((8, 32, 28, 28), SMOOTH),
    "average 3 x 3, stride 1, 112 x 112": ((1, 32, 112, 112), SMOOTH),
    "average of everything, 7 x 7": ((8, 256, 7, 7), {"global_pooling": True, "pooling_type": "avg"}),
    "average of everything, 56 x 56": ((1, 64, 56, 56), {"global_pooling": True, "pooling_type": "avg"}),
    "adaptive average, 13 to 6": ((4, 128, 13, 13), {"adaptive": True, "ksize": [6, 6], "pooling_type": "avg"}),
}


def measure(image: tuple[int, ...], given: dict[str, Any]) -> list[float]:
    """Seconds of the output, of the gradient and of a copy."""
    attrs = {**ATTRS, **given}
    x = np.random.default_rng(0).standard_normal(image, np.float32)
    out = POOL.forward(np, x, **attrs)
    g, back = np.ones_like(out), np.empty_like(x)
    durations = []
    for rule, target, ins in ((pool2d, out, (x,)), (pool2d_grad, back, (x, g))):
        rows: Any = Rows()
        write(rows, rule, attrs, target, *ins)
        durations.append(seconds(rows.runner()))
    return [*durations, seconds(lambda: np.copyto(back, x))]


def main(names: list[str]) -> None:
    """Print the table."""
    print(f"{'ns per float of the image':38}{'output':>10}{'gradient':>10}{'copy':>10}")
    for name, (image, attrs) in CASES.items():
        if not names or any(n in name for n in names):
            per_float = [t / np.prod(image) * 1e9 for t in measure(image, attrs)]
            print(f"{name:38}" + "".join(f"{t:10.2f}" for t in per_float), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
