"""Captured steps beside ParallelExecutor: `python -m tests.benchmarks.bench_captured [--quick] [NAME …]`.

The five standard networks, written once for both modes, train in turn as static programs and as captured steps of
dynamic mode, one device each; printed are the best times of interleaved rounds, and the median of the rounds' ratios.
Run it on a quiet machine with OPENBLAS_NUM_THREADS=1.
"""

from __future__ import annotations

import argparse
import math
import statistics
from collections.abc import Callable
from time import perf_counter
from typing import Any

import numpy as np

import workbench as wb
import workbench.nn.functional as F
from workbench.experiments.bench.workloads import CLASSES, SEED, WORKLOADS, Training, started
from workbench.framework.program.guard import in_static_mode

Step = Callable[[], Any]


class Network:
    """Parameters, made when a layer is first applied."""

    def __init__(self) -> None:
        self.parameters: dict[str, Any] = {}
        self._count = 0

    def weight(self, shape: list[int], is_bias: bool = False) -> Any:
        name = f"p{self._count:03d}"
        self._count += 1
        if name not in self.parameters:
            self.parameters[name] = wb.create_parameter(shape, "float32", name=name, is_bias=is_bias)
        return self.parameters[name]

    def __call__(self, name: str, x: Any) -> Any:
        self._count = 0
        out = getattr(self, name)(x)
        return out

    def fc(self, x: Any, width: int, act: Callable[[Any], Any] | None = None) -> Any:
        out = wb.matmul(x, self.weight([x.shape[-1], width])) + self.weight([width], True)
        return out if act is None else act(out)

    def tiny(self, x: Any) -> Any:
        return self.fc(self.fc(x, 32, F.relu), CLASSES)

    def mlp(self, x: Any) -> Any:
        return self.fc(self.fc(self.fc(x, 512, F.relu), 256, F.relu), CLASSES)

    def deep(self, x: Any) -> Any:
        for _ in range(100):
            x = self.fc(x, 64, F.relu)
        return self.fc(x, CLASSES)

    def lenet(self, x: Any) -> Any:
        for channels, padding in ((6, 2), (16, 0)):
            kernel = self.weight([channels, x.shape[1], 5, 5])
            x = F.max_pool2d(F.relu(F.conv2d(x, kernel, self.weight([channels], True), padding=padding)), 2, 2)
        x = wb.flatten(x, 1)
        for width in (120, 84):
            x = self.fc(x, width, F.relu)
        return self.fc(x, CLASSES)

    def encoder(self, x: Any) -> Any:
        for _ in range(2):
            x = self.normalised(x + self.attention(x, 4))
            x = self.normalised(x + self.fc(F.gelu(self.fc(x, 4 * x.shape[-1])), x.shape[-1]))
        return self.fc(wb.mean(x, axis=1), CLASSES)

    def normalised(self, x: Any) -> Any:
        width = x.shape[-1]
        return F.layer_norm(x, [width], self.weight([width]), self.weight([width], True))

    def attention(self, x: Any, heads: int) -> Any:
        length, width = x.shape[1:]
        size = width // heads

        def apart(t: Any) -> Any:
            return wb.transpose(wb.reshape(t, [0, length, heads, size]), [0, 2, 1, 3])

        query, key, value = (apart(self.fc(x, width)) for _ in range(3))
        weights = F.softmax(wb.matmul(query, key, transpose_y=True) * (1 / math.sqrt(size)))
        together = wb.transpose(wb.matmul(weights, value), [0, 2, 1, 3])
        return self.fc(wb.reshape(together, [0, length, width]), width)


def batch(name: str) -> dict[str, np.ndarray]:
    rng, workload = np.random.default_rng(SEED), WORKLOADS[name]
    x = rng.random((workload.batch, *workload.sample), np.float32)
    return {"x": x, "y": rng.integers(0, CLASSES, (workload.batch, 1))}


def loss_of(network: Network, name: str, x: Any, y: Any) -> Any:
    return wb.mean(F.softmax_with_cross_entropy(network(name, x), y))


def static_step(name: str) -> tuple[Step, Training, Network]:
    network, feed = Network(), batch(name)

    def body() -> Any:
        x = wb.static.data("x", list(feed["x"].shape))
        loss = loss_of(network, name, x, wb.static.data("y", list(feed["y"].shape), "int64"))
        optimizer().minimize(loss)
        return loss

    optimizer = WORKLOADS[name].optimizer
    model = started(body, feed, 1)
    return model.step, model, network


def captured_step(name: str, values: dict[str, np.ndarray]) -> tuple[Step, Any]:
    assert not in_static_mode()
    network, feed = Network(), batch(name)
    x, y = wb.to_tensor(feed["x"]), wb.to_tensor(feed["y"])
    with wb.no_grad():
        network(name, x)
        for key, value in values.items():
            network.parameters[key].set_value(value)
    optimizer = with_parameters(WORKLOADS[name].optimizer(), list(network.parameters.values()))

    @wb.jit.capture
    def train_step(x: Any, y: Any) -> Any:
        loss = loss_of(network, name, x, y)
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
        return loss

    return lambda: train_step(x, y), train_step


def with_parameters(like: Any, parameters: list[Any]) -> Any:
    """An optimizer of the same kind for tensors."""
    momentum = {"momentum": 0.9} if isinstance(like, wb.optimizer.Momentum) else {}
    return type(like)(learning_rate=like.get_lr(), parameters=parameters, **momentum)


def lap(step: Step, times: int) -> float:
    start = perf_counter()
    for _ in range(times):
        step()
    return (perf_counter() - start) / times


def compare(name: str, rounds: int) -> None:
    static, model, network = static_step(name)
    values = {key: np.array(model.executor.scope.get(key).get_tensor()) for key in network.parameters}
    captured, function = captured_step(name, values)
    first = [float(np.ravel(static())[0]), float(captured())]
    times = max(1, int(0.05 / max(min(lap(static, 5), lap(captured, 5)), 1e-6)))
    laps = [(lap(static, times), lap(captured, times)) for _ in range(rounds)]
    ratio = statistics.median(s / c for s, c in laps)
    best = [min(column) * 1e6 for column in zip(*laps, strict=True)]
    same = "same loss" if first[0] == first[1] else f"losses {first}"
    print(f"{name:>8} {best[0]:>12,.1f} {best[1]:>12,.1f} {ratio:>8.3f}  {same}, {function.captures} capture")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--quick", action="store_true")
    given = parser.parse_args()
    print(f"{'':>8} {'static us':>12} {'captured us':>12} {'ratio':>8}")
    for name in given.names or WORKLOADS:
        compare(name, 5 if given.quick else 31)


if __name__ == "__main__":
    main()
