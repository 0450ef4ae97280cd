"""How the time of a step grows with the number of devices, and with the number of ops."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np

from workbench.builders.data import data
from workbench.builders.variables import create_parameter
from workbench.experiments.bench.roofline import latest_binding, step_times
from workbench.experiments.bench.workloads import WORKLOADS, Training, started, training
from workbench.ops.math.arithmetic import scale
from workbench.ops.math.products.matmul import mm
from workbench.ops.nn.activation import tanh

DEVICES = (1, 2, 3, 4, 5, 6, 7, 8)
OPS = (102, 999, 5_001, 9_999, 20_001)  # three to a layer
ROUNDS = 3
WIDTH = 16


class ByDevices(NamedTuple):
    """A step of `tiny` with 16 samples per device. Seconds."""

    devices: int
    threads: int
    step: float

    @property
    def per_device(self) -> float:
        return self.step / self.devices


class ByOps(NamedTuple):
    """A step of a chain of ops, of which the first one compiles. Seconds."""

    ops: int
    first: float
    step: float

    @property
    def per_op(self) -> float:
        return self.step / self.ops


def by_devices(counts: Sequence[int] = DEVICES, seconds: float = 0.3) -> list[ByDevices]:
    """Work per device is the same; the numbers of devices take turns."""
    workloads = [training(WORKLOADS["tiny"]._replace(batch=16 * count), count) for count in counts]
    laps = [[statistics.median(step_times(one, seconds / ROUNDS)) for one in workloads] for _ in range(ROUNDS)]
    steps = [statistics.median(times) for times in zip(*laps, strict=True)]
    threads = [len(latest_binding(one).speculative) for one in workloads]
    return [ByDevices(*line) for line in zip(counts, threads, steps, strict=True)]


def by_ops(counts: Sequence[int] = OPS, seconds: float = 0.3) -> Iterator[ByOps]:
    """One device, no gradients."""
    for count in counts:
        workload = chain(count)
        begun = perf_counter()
        workload.step()
        first = perf_counter() - begun
        yield ByOps(count, first, statistics.median(step_times(workload, seconds)))


def chain(ops: int) -> Training:
    """So many ops on 16 floats: a product, `scale` and `tanh` by turns."""

    def body() -> Any:
        w = create_parameter([WIDTH, WIDTH], "float32")
        h: Any = data("x", [None, WIDTH])
        kinds = (lambda h: mm(h, w), lambda h: scale(h, 1.01), tanh)
        for number in range(ops):
            h = kinds[number % 3](h)
        return h

    return started(body, {"x": np.ones((1, WIDTH), np.float32)}, devices=1, trains=False)
