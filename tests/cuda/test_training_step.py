"""A data parallel training step on two simulated GPUs: compute and communication streams, captured and replayed.

The numbers are NumPy's in float64; each event of the step is left out once, and each time the devices say so.
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from workbench.cuda.driver import ExecutableGraph, Product
from workbench.cuda.simulated.accesses import UnorderedAccess
from workbench.cuda.simulated.counting import MachineCounts, counts_of
from workbench.cuda.simulated.device import SimulatedDriver
from workbench.cuda.simulated.graphs import CaptureRefused
from workbench.cuda.simulated.machine import UndefinedValues
from workbench.cuda.simulated.streams import SCHEDULES

SOURCE = """
extern "C" __global__ void difference(float* d, const float* p, const float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) d[i] = (p[i] - y[i]) * (2.0f / n);
}
extern "C" __global__ void sgd(float* w, const float* g, float rate, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) w[i] -= rate * g[i];
}
"""
ROWS, WIDTH, STEPS, RATE, DEVICES = 6, 5, 4, 0.1, 2
EVENTS = ("fed", "gradient", "reduced", "joined")
"""Of one step and device: what waits for the feed, the all-reduce for the gradient, the update for the sum; the last
one brings the communication stream back into the capture."""


class LinearModel:
    """One device's part of the step, whose buffers live as long as the graph does."""

    def __init__(self, driver: SimulatedDriver, device: int, weights: np.ndarray, without: str) -> None:
        self.driver, self.device, self.without = driver, device, without
        driver.set_device(device)
        self.compute, self.communication, self.feeding = (driver.create_stream() for _ in range(3))
        module = driver.load_module(SOURCE)
        self.difference, self.sgd = (driver.get_function(module, name) for name in ("difference", "sgd"))
        self.products = driver.create_products(self.compute, driver.allocate(256), 256)
        self.slots = [driver.allocate_pinned(4 * n).view(np.float32) for n in (ROWS * WIDTH, ROWS)]
        self.x, self.y, self.predicted, self.error = (driver.allocate(4 * n) for n in (ROWS * WIDTH, ROWS, ROWS, ROWS))
        self.w, self.gradient = driver.allocate(4 * WIDTH), driver.allocate(4 * WIDTH)
        driver.write(self.w, weights)

    def order(self, name: str, first: int, then: int) -> None:
        if name != self.without:
            event = self.driver.create_event()
            self.driver.record_event(event, first)  # type: ignore[arg-type]
            self.driver.wait_event(then, event)  # type: ignore[arg-type]

    def feed(self, x: np.ndarray, y: np.ndarray) -> None:
        """Copy a batch on a stream of its own; the slot is free again once that stream is done."""
        self.driver.set_device(self.device)
        for slot, place, values in zip(self.slots, (self.x, self.y), (x, y), strict=True):
            slot[:] = values.ravel()
            self.driver.copy_to_device(place, slot, self.feeding)
        self.order("fed", self.feeding, self.compute)

    def forward_and_backward(self) -> None:
        product = Product(ROWS, 1, WIDTH, "float32")
        self.driver.multiply(self.products, product, self.x, self.w, self.predicted)
        args = [self.error, self.predicted, self.y, np.int32(ROWS)]
        self.driver.launch(self.difference, [1], [32], args, 0, self.compute)
        product = Product(WIDTH, 1, ROWS, "float32", transpose_a=True)
        self.driver.multiply(self.products, product, self.x, self.error, self.gradient)
        self.order("gradient", self.compute, self.communication)

    def update(self) -> None:
        self.order("reduced", self.communication, self.compute)
        args = [self.w, self.gradient, np.float32(RATE), np.int32(WIDTH)]
        self.driver.launch(self.sgd, [1], [32], args, 0, self.compute)
        self.order("joined", self.communication, self.compute)

    def weights(self) -> np.ndarray:
        self.driver.set_device(self.device)
        self.driver.synchronize_stream(self.compute)
        values = np.empty(WIDTH, np.float32)
        self.driver.read(values, self.w)
        return values


def batches() -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(7)
    return random.standard_normal((STEPS, DEVICES, ROWS, WIDTH)), random.standard_normal((STEPS, DEVICES, ROWS))


def reference() -> np.ndarray:
    weights, (xs, ys) = np.ones(WIDTH), batches()
    for x, y in zip(xs, ys, strict=True):
        gradients = [2 / ROWS * x[i].T @ (x[i] @ weights - y[i]) for i in range(DEVICES)]
        weights = weights - RATE * np.mean(gradients, axis=0)
    return weights


def train(
    driver: SimulatedDriver, captured: bool, without: str = "", counted: list[MachineCounts] | None = None
) -> list[np.ndarray]:
    """Two models in one thread, one group of collectives a step; captured, each device replays a graph of its own."""
    ranks = driver.create_ranks(range(DEVICES))
    models = [LinearModel(driver, i, np.ones(WIDTH, np.float32), without) for i in range(DEVICES)]

    def reduce(model: LinearModel) -> None:
        place = model.gradient
        driver.all_reduce(ranks[model.device], place, place, WIDTH, "float32", "mean", model.communication)

    def step() -> None:
        for model in models:
            driver.set_device(model.device)
            model.forward_and_backward()
        driver.group_start()
        for model in models:
            driver.set_device(model.device)
            reduce(model)
        driver.group_end()
        for model in models:
            driver.set_device(model.device)
            model.update()

    def capture(model: LinearModel) -> ExecutableGraph:
        driver.set_device(model.device)
        driver.begin_capture(model.compute)
        model.forward_and_backward()
        driver.group_start()
        reduce(model)
        driver.group_end()
        model.update()
        return driver.instantiate(driver.end_capture(model.compute))

    graphs = [capture(model) for model in models] if captured else []
    for x, y in zip(*batches(), strict=True):
        if counted is not None:
            counted.append(counts_of(driver))
        for model in models:
            model.feed(x[model.device], y[model.device])
        for model, graph in zip(models, graphs, strict=False):
            driver.set_device(model.device)
            driver.launch_graph(graph, model.compute)
        if not captured:
            step()
        for model in models:
            driver.set_device(model.device)
            driver.synchronize_stream(model.compute)
    return [model.weights() for model in models]


@pytest.mark.parametrize("captured", [False, True])
@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("seed", range(4))
def test_two_devices_train_as_numpy_does(seed: int, schedule: str, captured: bool) -> None:
    driver = SimulatedDriver(DEVICES, seed=seed, schedule=schedule, deadline_seconds=2)
    first, second = train(driver, captured)
    assert (first == second).all()
    np.testing.assert_allclose(first, reference(), rtol=2e-5)


@pytest.mark.parametrize("captured", [False, True])
@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("without", EVENTS[:3])
def test_a_step_without_one_of_its_events_is_found_out(without: str, schedule: str, captured: bool) -> None:
    driver = SimulatedDriver(DEVICES, schedule=schedule, deadline_seconds=2)
    with pytest.raises((UnorderedAccess, UndefinedValues, CaptureRefused), match=r"test_training_step\.py"):
        train(driver, captured, without)


def test_what_is_launched_in_a_step_is_counted() -> None:
    for captured in (True, False):
        driver, counted = SimulatedDriver(DEVICES, deadline_seconds=2), list[MachineCounts]()
        train(driver, captured, counted=counted)
        steps = [later - earlier for earlier, later in itertools.pairwise(counted)]
        assert len(steps) == STEPS - 1
        for step in steps:
            assert step.kernels == {"difference": DEVICES, "sgd": DEVICES}
            assert step.graphs == (DEVICES if captured else 0)
            assert step.launches() == (DEVICES if captured else 2 * DEVICES)
            assert (step.synchronizations, step.allocations) == (DEVICES, 0)
            assert step.bytes_moved == {"to device": 4 * DEVICES * ROWS * (WIDTH + 1)}
        assert counts_of(driver).allocations == DEVICES * 7
