"""Small programs and what a NumPy reference says about them."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

import workbench as wb
from workbench import static
from workbench.framework.names import guard


@contextlib.contextmanager
def devices(count: int) -> Iterator[None]:
    """CPU_NUM inside the `with` body."""
    old = os.environ.get("CPU_NUM")
    os.environ["CPU_NUM"] = str(count)
    try:
        yield
    finally:
        if old is None:
            del os.environ["CPU_NUM"]
        else:
            os.environ["CPU_NUM"] = old


@dataclass
class Model:
    """A program, its startup program, the copy for tests made before the optimizer, and the loss."""

    main: static.Program
    startup: static.Program
    test: static.Program
    loss: Any
    scope: static.Scope

    def start(self) -> Model:
        """Run the startup program."""
        static.Executor().run(self.startup, scope=self.scope)
        return self

    def parallel(self, count: int = 2, program: static.Program | None = None, **options: Any) -> Any:
        """A ParallelExecutor over so many CPU devices."""
        options.setdefault("scope", self.scope)
        if program is None:
            options.setdefault("loss_name", self.loss.name)
        with devices(count):
            return static.ParallelExecutor(use_cuda=False, main_program=program or self.main, **options)

    def value(self, name: str) -> np.ndarray:
        """A variable of the scope, a copy."""
        return np.array(self.scope.find_var(name).get_tensor())

    def values(self) -> dict[str, np.ndarray]:
        """Every persistable variable that has a value."""
        names = [v.name for v in self.main.persistables()]
        variables = {name: self.scope.find_var(name) for name in names}
        return {name: np.array(v.get_tensor()) for name, v in variables.items() if v is not None}


def build(body: Callable[[], Any], optimizer: Any = None, seed: int = 7) -> Model:
    """A model whose `body()` returns the loss."""
    main, startup = static.Program(), static.Program()
    startup.random_seed = main.random_seed = seed
    with static.program_guard(main, startup), guard():
        loss = body()
        test = main.clone(for_test=True)
        if optimizer is not None:
            optimizer.minimize(loss)
    return Model(main, startup, test, loss, static.Scope())


def constant(value: float) -> Any:
    """The attribute of a parameter that starts with one value everywhere."""
    return wb.ParamAttr(initializer=wb.nn.initializer.Constant(value))


def line(optimizer: Any = None, weight: float = 1.0, width: int = 1) -> Model:
    """mean(X w + b) with every weight `weight` and b = 0: the program the rules' check values are given for."""

    def body() -> Any:
        x = static.data("X", [None, 1])
        return wb.mean(static.nn.fc(x, width, weight_attr=constant(weight), bias_attr=constant(0.0)))

    return build(body, wb.optimizer.SGD(0.1) if optimizer is None else optimizer)


def classifier(optimizer: Any = None, act: str = "relu", extra: Callable[[Any], Any] | None = None) -> Model:
    """Two fully connected layers and cross entropy: x [?, 5], y [?, 1]."""

    def body() -> Any:
        x, y = static.data("x", [None, 5]), static.data("y", [None, 1], "int64")
        h = static.nn.fc(x, 8, activation=act)
        h = extra(h) if extra is not None else h
        return wb.mean(wb.nn.functional.softmax_with_cross_entropy(static.nn.fc(h, 3), y))

    return build(body, wb.optimizer.SGD(0.1) if optimizer is None else optimizer)


def batch(rows: int = 8, seed: int = 0) -> dict[str, np.ndarray]:
    """A feed for `classifier`."""
    rng = np.random.default_rng(seed)
    return {"x": rng.standard_normal((rows, 5), dtype=np.float32), "y": rng.integers(0, 3, (rows, 1))}


def column(*numbers: float) -> np.ndarray:
    """A float32 column."""
    return np.array(numbers, np.float32).reshape(-1, 1)
