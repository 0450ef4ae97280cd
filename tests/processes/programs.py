"""Programs trained for some steps over so many trainers: what `test_trainers` compares.

    python programs.py TRAINERS DEVICES FOLDER

Every rank writes what it fetched and what its parameters came to; run alone, with one trainer, it is the reference.
"""

from __future__ import annotations

import itertools
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import workbench as wb
from workbench import static

F = wb.nn.functional
Mode = static.BuildStrategy.ReduceStrategy
Scale = static.BuildStrategy.GradientScaleStrategy
STEPS = 4


def linear(x: Any, y: Any) -> Any:
    return wb.mean(F.square_error_cost(static.nn.fc(x, 1), y))


def deep(x: Any, y: Any) -> Any:
    for width in (7, 5, 6):
        x = static.nn.fc(x, width, activation="tanh")
    return linear(F.dropout(x, 0.3), y)


def wide(x: Any, y: Any) -> Any:
    """More gradients than the window has slots, one of them larger than a slot."""
    for width in (9, 300, 300, 8, 5, 7, 6, 9, 4):
        x = static.nn.fc(x, width, activation="tanh")
    return linear(x, y)


def normed(x: Any, y: Any) -> Any:
    image = wb.reshape(x, [-1, 1, 2, 2])
    image = static.nn.batch_norm(static.nn.conv2d(image, 3, 3, padding=1), act="relu")
    return linear(wb.reshape(image, [-1, 12]), y)


def sparse(x: Any, y: Any) -> Any:
    ids = wb.cast(wb.scale(wb.abs(x), 2.0), "int64")
    rows = static.nn.embedding(wb.clip(ids, 0, 5), (6, 3), is_sparse=True)
    return linear(wb.reshape(rows, [-1, 12]), y)


Case = tuple[Callable[[Any, Any], Any], Callable[[], Any], dict[str, Any]]
CASES: dict[str, Case] = {
    "linear sgd": (linear, lambda: wb.optimizer.SGD(0.1), {}),
    "deep adam": (deep, lambda: wb.optimizer.Adam(0.01), {}),
    "deep momentum, one bucket each": (deep, lambda: wb.optimizer.Momentum(0.01), {"fuse_all_reduce_ops": False}),
    "deep clipped": (deep, lambda: wb.optimizer.SGD(0.1, grad_clip=wb.nn.ClipGradByGlobalNorm(0.1)), {}),
    "wide, one bucket each": (wide, lambda: wb.optimizer.SGD(0.01), {"fuse_all_reduce_ops": False}),
    "normed": (normed, lambda: wb.optimizer.SGD(0.05), {}),
    "normed together": (normed, lambda: wb.optimizer.Adam(0.01), {"sync_batch_norm": True}),
    "sparse": (sparse, lambda: wb.optimizer.Adam(0.01), {}),
    "weighted": (deep, lambda: wb.optimizer.SGD(0.1), {"gradient_scale_strategy": Scale.WeightedBySamples}),
}


def feeds(name: str, step: int, devices: int) -> list[dict[str, np.ndarray]]:
    """Of all devices of all trainers; `weighted` has more rows on the first ones."""
    rng = np.random.default_rng([step, len(name)])
    rows = [3 + (devices - place + step % 2 if name == "weighted" else 0) for place in range(devices)]
    return [
        {"x": rng.standard_normal((n, 4), dtype="float32"), "y": rng.standard_normal((n, 1), dtype="float32")}
        for n in rows
    ]


def train(name: str, mode: Any, trainers: int, trainer: int, devices: int) -> dict[str, np.ndarray]:
    """Losses of this trainer's devices, and all persistable variables after the last step."""
    body, optimizer, fields = CASES[name]
    if mode is Mode.Reduce:
        fields = {k: v for k, v in fields.items() if k != "fuse_all_reduce_ops"}
    main, startup = static.Program(), static.Program()
    main.random_seed = 5
    startup.random_seed = 7 + trainer  # trainer 0's values count
    with wb.utils.unique_name.guard(), static.program_guard(main, startup):
        loss = body(static.data("x", [None, 4]), static.data("y", [None, 1]))
        optimizer().minimize(loss)
    build = static.BuildStrategy()
    for field, value in {**fields, "reduce_strategy": mode}.items():
        setattr(build, field, value)
    values: dict[str, np.ndarray] = {}
    scope = static.Scope()
    with static.scope_guard(scope):
        static.Executor().run(startup)
        compiled = static.CompiledProgram(main, build_strategy=build).with_data_parallel(
            loss_name=loss.name, places=static.cpu_places(devices)
        )
        build.num_trainers, build.trainer_id = trainers, trainer
        executor = static.Executor()
        for step in range(STEPS):
            if name.startswith("wide") and step == 2:
                time.sleep(0.1 * trainer)  # longer than kernels wait
            mine = feeds(name, step, trainers * devices)[trainer * devices :][:devices]
            (losses,) = executor.run(compiled, feed=mine, fetch_list=[loss])
            values[f"loss {step}"] = losses
        for variable in main.list_vars():
            if variable.persistable and (held := scope.find_var(variable.name)) is not None:
                values[variable.name] = np.array(held.get_tensor())
    return values


def main(trainers: int, devices: int, folder: Path) -> None:
    trainer = 0
    if trainers > 1:
        from workbench.runtime.comm.mpi.world import world

        trainer = world().rank
    wb.enable_static()
    for name, mode in itertools.product(CASES, (Mode.AllReduce, Mode.Reduce)):
        np.savez(folder / f"{name} {mode.name} {trainer}.npz", **train(name, mode, trainers, trainer, devices))


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]))
