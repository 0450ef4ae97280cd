"""Dynamic mode beside PyTorch: single ops on 16 floats with their gradient recorded, steps of the standard networks.

    python -m tests.benchmarks.bench_dynamic [--rounds N] [ops | NETWORK ...]

Prints processor time, one thread each, the fastest of interleaved rounds, and how many times PyTorch's it is. Without
PyTorch in this Python, workbench's times alone. The networks are trained by plain SGD written in tensors, in both
libraries by the same text; their losses after three steps are compared.
"""

from __future__ import annotations

import argparse
import math
import os
import time
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

import numpy as np  # noqa: E402 (BLAS libraries read these when they are loaded)

import workbench as paddle  # noqa: E402

F = paddle.nn.functional
SEED, RATE = 7, 0.01
Function = Callable[[], Any]


class Workbench:
    """The few names that differ, as workbench has them."""

    name = "workbench"

    def __init__(self) -> None:
        self.relu, self.gelu, self.cross_entropy, self.no_grad = F.relu, F.gelu, F.cross_entropy, paddle.no_grad
        self.tanh, self.concat, self.matmul = paddle.tanh, paddle.concat, paddle.matmul

    def leaf(self, array: np.ndarray) -> Any:
        return paddle.to_tensor(array, stop_gradient=False)

    def constant(self, array: np.ndarray) -> Any:
        return paddle.to_tensor(array)

    def softmax(self, x: Any) -> Any:
        return F.softmax(x, -1)

    def layer_norm(self, x: Any, weight: Any, bias: Any) -> Any:
        return F.layer_norm(x, [x.shape[-1]], weight, bias)

    def conv2d(self, x: Any, weight: Any, bias: Any, padding: int) -> Any:
        return F.conv2d(x, weight, bias, padding=padding)

    def max_pool2d(self, x: Any) -> Any:
        return F.max_pool2d(x, 2, 2)

    def permute(self, x: Any, order: list[int]) -> Any:
        return x.transpose(order)

    def clear(self, parameter: Any) -> None:
        parameter.clear_gradient(False)

    def subtract(self, parameter: Any, step: Any) -> None:
        parameter.subtract_(step)


class PyTorch:
    """The same names as PyTorch has them."""

    name = "PyTorch"

    def __init__(self) -> None:
        import torch

        torch.set_num_threads(1)
        self.torch, functional = torch, torch.nn.functional
        self.relu, self.gelu, self.cross_entropy = functional.relu, functional.gelu, functional.cross_entropy
        self.no_grad, self.tanh, self.concat, self.matmul = torch.no_grad, torch.tanh, torch.cat, torch.matmul

    def leaf(self, array: np.ndarray) -> Any:
        return self.torch.tensor(array, requires_grad=True)

    def constant(self, array: np.ndarray) -> Any:
        return self.torch.tensor(array)

    def softmax(self, x: Any) -> Any:
        return self.torch.nn.functional.softmax(x, -1)

    def layer_norm(self, x: Any, weight: Any, bias: Any) -> Any:
        return self.torch.nn.functional.layer_norm(x, [x.shape[-1]], weight, bias)

    def conv2d(self, x: Any, weight: Any, bias: Any, padding: int) -> Any:
        return self.torch.nn.functional.conv2d(x, weight, bias, padding=padding)

    def max_pool2d(self, x: Any) -> Any:
        return self.torch.nn.functional.max_pool2d(x, 2, 2)

    def permute(self, x: Any, order: list[int]) -> Any:
        return x.permute(order)

    def clear(self, parameter: Any) -> None:
        parameter.grad = None

    def subtract(self, parameter: Any, step: Any) -> None:
        parameter.sub_(step)


# Ops on 16 floats


def ops(lib: Any) -> dict[str, Function]:
    """What is timed, by name: each computes once and records the gradient."""
    ones = np.ones(16, np.float32)
    x, y, m = lib.leaf(ones), lib.leaf(ones), lib.leaf(ones.reshape(4, 4))
    return {
        "x + y": lambda: x + y,
        "x * y": lambda: x * y,
        "x * 2.0": lambda: x * 2.0,
        "x / y": lambda: x / y,
        "tanh(x)": lambda: lib.tanh(x),
        "x.exp()": lambda: x.exp(),
        "relu(x)": lambda: lib.relu(x),
        "x.sum()": lambda: x.sum(),
        "x.mean()": lambda: x.mean(),
        "x.reshape([4, 4])": lambda: x.reshape([4, 4]),
        "x[3]": lambda: x[3],
        "x[2:5]": lambda: x[2:5],
        "matmul(m, m)": lambda: lib.matmul(m, m),
        "softmax(x)": lambda: lib.softmax(x),
        "concat([x, y])": lambda: lib.concat([x, y]),
        "(x * y).sum().backward()": lambda: (x * y).sum().backward(),
    }


# Networks


class Network:
    """One of the standard networks, trained by plain SGD.

    Args:
        lib: `Workbench` or `PyTorch`.
    """

    def __init__(self, lib: Any, name: str) -> None:
        self.lib, self.rng, self.parameters = lib, np.random.default_rng(SEED), []
        batch, sample, self.forward = NETWORKS[name]
        self.x = lib.constant(self.rng.random((batch, *sample), np.float32))
        self.labels = lib.constant(self.rng.integers(0, 10, batch))
        self._next = iter(())
        self.forward(self, self.x)  # makes the parameters

    def parameter(self, *shape: int, fill: float | None = None) -> Any:
        """The next parameter: made by the first pass, found again by later ones."""
        parameter = next(self._next, None)
        if parameter is not None:
            return parameter
        fan_in = shape[0] if len(shape) == 2 else math.prod(shape[1:])
        drawn = self.rng.uniform(-1, 1, shape) * math.sqrt(3 / fan_in) if fill is None else np.full(shape, fill)
        self.parameters.append(self.lib.leaf(drawn.astype(np.float32)))
        return self.parameters[-1]

    def dense(self, x: Any, width: int) -> Any:
        return self.lib.matmul(x, self.parameter(x.shape[-1], width)) + self.parameter(width, fill=0.0)

    def step(self) -> Any:
        self._next = iter(self.parameters)
        loss = self.lib.cross_entropy(self.forward(self, self.x), self.labels)
        loss.backward()
        with self.lib.no_grad():
            for parameter in self.parameters:
                self.lib.subtract(parameter, parameter.grad * RATE)
                self.lib.clear(parameter)
        return loss


def tiny(net: Network, x: Any) -> Any:
    return net.dense(net.lib.relu(net.dense(x, 32)), 10)


def mlp(net: Network, x: Any) -> Any:
    for width in (512, 256):
        x = net.lib.relu(net.dense(x, width))
    return net.dense(x, 10)


def deep(net: Network, x: Any) -> Any:
    for _ in range(100):
        x = net.lib.relu(net.dense(x, 64))
    return net.dense(x, 10)


def lenet(net: Network, x: Any) -> Any:
    for channels, padding in ((6, 2), (16, 0)):
        weight, bias = net.parameter(channels, x.shape[1], 5, 5), net.parameter(channels, fill=0.0)
        x = net.lib.max_pool2d(net.lib.relu(net.lib.conv2d(x, weight, bias, padding)))
    x = x.reshape([x.shape[0], -1])
    for width in (120, 84):
        x = net.lib.relu(net.dense(x, width))
    return net.dense(x, 10)


def encoder(net: Network, x: Any) -> Any:
    for _ in range(2):
        x = normalised(net, x + attention(net, x, 4))
        x = normalised(net, x + net.dense(net.lib.gelu(net.dense(x, 512)), 128))
    return net.dense(x.mean(1), 10)


def attention(net: Network, x: Any, heads: int) -> Any:
    batch, length, width = x.shape

    def apart(t: Any) -> Any:
        return net.lib.permute(t.reshape([batch, length, heads, width // heads]), [0, 2, 1, 3])

    query, key, value = (apart(net.dense(x, width)) for _ in range(3))
    scores = net.lib.matmul(query, net.lib.permute(key, [0, 1, 3, 2])) * (1 / math.sqrt(width // heads))
    together = net.lib.permute(net.lib.matmul(net.lib.softmax(scores), value), [0, 2, 1, 3])
    return net.dense(together.reshape([batch, length, width]), width)


def normalised(net: Network, x: Any) -> Any:
    width = x.shape[-1]
    return net.lib.layer_norm(x, net.parameter(width, fill=1.0), net.parameter(width, fill=0.0))


NETWORKS: dict[str, tuple[int, tuple[int, ...], Callable[[Network, Any], Any]]] = {
    "tiny": (32, (64,), tiny),
    "mlp": (128, (784,), mlp),
    "deep": (64, (64,), deep),
    "lenet": (64, (1, 28, 28), lenet),
    "encoder": (16, (64, 128), encoder),
}


# Timing


def seconds(function: Function, times: int) -> float:
    """Processor time of one call."""
    start = time.process_time()
    for _ in range(times):
        function()
    return (time.process_time() - start) / times


def compared(functions: list[Function], rounds: int, budget: float) -> list[float]:
    """The fastest time of each in interleaved rounds, which take about `budget` seconds each."""
    times = []
    for function in functions:
        seconds(function, 5)
        times.append(max(1, int(budget / max(seconds(function, 5), 1e-7))))
    durations = [[seconds(f, n) for f, n in zip(functions, times, strict=True)] for _ in range(rounds)]
    return [min(column) for column in zip(*durations, strict=True)]


def line(name: str, best: list[float]) -> str:
    texts = [f"{b * 1e6:12,.1f}" for b in best]
    ratio = f"{best[0] / best[1]:8.2f}" if len(best) > 1 else ""
    return f"{name:26s}{''.join(texts)}{ratio}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="*", help=f"ops, or a network: {', '.join(NETWORKS)}; all of them by default")
    parser.add_argument("--rounds", type=int, default=7)
    given = parser.parse_args()
    what = given.what or ["ops", *NETWORKS]
    if unknown := set(what) - {"ops", *NETWORKS}:
        parser.error(f"there is nothing to time called {', '.join(sorted(unknown))}")
    libs = [Workbench(), *([PyTorch()] if find_spec("torch") else [])]
    print(f"{'microseconds':26s}{''.join(f'{lib.name:>12s}' for lib in libs)}{'ratio' if len(libs) > 1 else '':>8s}")
    if "ops" in what:
        by_library = [ops(lib) for lib in libs]
        for name in by_library[0]:
            print(line(name, compared([one[name] for one in by_library], given.rounds, 0.01)), flush=True)
    for name in [n for n in what if n != "ops"]:
        networks = [Network(lib, name) for lib in libs]
        losses = [[float(net.step()) for _ in range(3)][-1] for net in networks]
        if not all(math.isclose(loss, losses[0], rel_tol=1e-3) for loss in losses):
            raise SystemExit(f"{name}: the losses are not those of each other: {losses}")
        print(line(name, compared([net.step for net in networks], given.rounds, 0.2)), flush=True)


if __name__ == "__main__":
    main()
