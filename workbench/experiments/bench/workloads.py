"""The five standard training programs, on data made up from a seed."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from workbench.builders.data import data
from workbench.builders.nn.conv import conv2d
from workbench.builders.nn.dense import fc
from workbench.builders.nn.norm import layer_norm
from workbench.executors.api.executor import Executor
from workbench.executors.api.parallel import ParallelExecutor
from workbench.framework import names
from workbench.framework.program.guard import program_guard, static_mode
from workbench.framework.program.program import Program
from workbench.framework.values.place import CPUPlace
from workbench.ops.conv.pools.pool import max_pool2d
from workbench.ops.loss.softmax import softmax, softmax_with_cross_entropy
from workbench.ops.math.products.matmul import matmul
from workbench.ops.math.reductions.reduce import mean
from workbench.ops.nn.activation import gelu
from workbench.ops.tensor.shape import reshape
from workbench.ops.tensor.transpose import transpose
from workbench.optimizer.rules.adam import Adam
from workbench.optimizer.rules.momentum import Momentum
from workbench.optimizer.rules.sgd import SGD
from workbench.runtime.storage.scope import Scope

CLASSES = 10
SEED = 7


class Workload(NamedTuple):
    """A network and how it is trained.

    Attributes:
        network: from images [batch, *sample] to logits [batch, 10].
        optimizer: makes a new one.
    """

    about: str
    batch: int
    sample: tuple[int, ...]
    network: Callable[[Any], Any]
    optimizer: Callable[[], Any]


def tiny(x: Any) -> Any:
    return fc(fc(x, 32, activation="relu"), CLASSES)


def mlp(x: Any) -> Any:
    return fc(fc(fc(x, 512, activation="relu"), 256, activation="relu"), CLASSES)


def deep(x: Any) -> Any:
    for _ in range(100):
        x = fc(x, 64, activation="relu")
    return fc(x, CLASSES)


def lenet(x: Any) -> Any:
    for channels, padding in ((6, 2), (16, 0)):
        x = conv2d(x, num_filters=channels, filter_size=5, padding=padding, act="relu")
        x = max_pool2d(x, kernel_size=2, stride=2)
    for width in (120, 84):
        x = fc(x, width, activation="relu")
    return fc(x, CLASSES)


def encoder(x: Any) -> Any:
    for _ in range(2):
        x = normalised(x + attention(x, heads=4))
        width = x.shape[-1]
        x = normalised(x + token_fc(gelu(token_fc(x, 4 * width)), width))
    whole: Any = mean(x, axis=1)
    return fc(whole, CLASSES)


def attention(x: Any, heads: int) -> Any:
    """Every position [batch, length, width] looks at every other one."""
    _, length, width = x.shape
    size = width // heads

    def apart(t: Any) -> Any:
        return transpose(reshape(t, [0, length, heads, size]), [0, 2, 1, 3])

    query, key, value = (apart(token_fc(x, width)) for _ in range(3))
    weights = softmax(matmul(query, key, transpose_y=True) * (1 / math.sqrt(size)))
    together = transpose(matmul(weights, value), [0, 2, 1, 3])
    return token_fc(reshape(together, [0, length, width]), width)


def token_fc(x: Any, width: int) -> Any:
    return fc(x, width, num_flatten_dims=2)


def normalised(x: Any) -> Any:
    return layer_norm(x, begin_norm_axis=2)


WORKLOADS = {
    "tiny": Workload("64-32-10 MLP, SGD", 32, (64,), tiny, lambda: SGD(0.01)),
    "mlp": Workload("784-512-256-10 MLP, Adam", 128, (784,), mlp, lambda: Adam(1e-3)),
    "deep": Workload("100 layers of 64, SGD", 64, (64,), deep, lambda: SGD(0.01)),
    "lenet": Workload("LeNet on 28x28, Momentum", 64, (1, 28, 28), lenet, lambda: Momentum(0.01, 0.9)),
    "encoder": Workload(
        "2 encoder layers of 128, 4 heads, 64 positions, Adam", 16, (64, 128), encoder, lambda: Adam(1e-3)
    ),
}


@dataclass
class Training:
    """A program that is ready to train.

    Attributes:
        executor: on CPU devices. feed: a batch for all of them. loss: its name.
    """

    executor: ParallelExecutor
    feed: dict[str, np.ndarray]
    loss: str

    def step(self) -> np.ndarray:
        """One step; the loss of every device."""
        loss: np.ndarray = self.executor.run([self.loss], feed=self.feed)[0]
        return loss


def training(workload: Workload, devices: int) -> Training:
    """A workload with fresh parameters on so many CPU devices."""

    def body() -> Any:
        x, y = data("x", [None, *workload.sample]), data("y", [None, 1], "int64")
        loss = mean(softmax_with_cross_entropy(workload.network(x), y))
        workload.optimizer().minimize(loss)
        return loss

    rng = np.random.default_rng(SEED)
    feed: dict[str, np.ndarray] = {
        "x": rng.random((workload.batch, *workload.sample), np.float32),
        "y": rng.integers(0, CLASSES, (workload.batch, 1)),
    }
    return started(body, feed, devices)


def started(body: Callable[[], Any], feed: dict[str, np.ndarray], devices: int, trains: bool = True) -> Training:
    """A program whose `body()` returns what is fetched, its parameters initialised.

    Args:
        trains: what is fetched is a loss that has been minimised.
    """
    main, startup, scope = Program(), Program(), Scope()
    main.random_seed = startup.random_seed = SEED
    with names.guard(), program_guard(main, startup), static_mode():
        fetched = body()
    Executor(CPUPlace()).run(startup, scope=scope)
    with cpu_devices(devices):
        loss_name = fetched.name if trains else None
        executor = ParallelExecutor(use_cuda=False, loss_name=loss_name, main_program=main, scope=scope)
    return Training(executor, feed, fetched.name)


@contextmanager
def cpu_devices(count: int) -> Iterator[None]:
    """CPU_NUM inside the `with` body."""
    before = os.environ.get("CPU_NUM")
    os.environ["CPU_NUM"] = str(count)
    try:
        yield
    finally:
        if before is None:
            del os.environ["CPU_NUM"]
        else:
            os.environ["CPU_NUM"] = before
