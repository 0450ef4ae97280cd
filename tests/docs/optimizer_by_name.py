"""Trains with the contributors' example of an optimizer by its public name: `python tests/docs/optimizer_by_name.py
FOLDER`, its package first on the path. It leaves programs there.

It imports nothing of the tests, for they belong to another package than the one that it is shown.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import numpy as np

import workbench as wb
from workbench import fluid
from workbench.experiments.bench.own_program import native_nodes
from workbench.experiments.bench.roofline import rows_by_lowering

RNG = np.random.default_rng(7)
START = {"w": RNG.standard_normal((8, 4)), "v": RNG.standard_normal((8, 4))}
BATCH = RNG.standard_normal((4, 8))
RATE, BETA1, BETA2, DECAY, STEPS = 0.01, 0.8, 0.95, 0.1, 6
GIVEN = {"learning_rate": RATE, "beta1": BETA1, "beta2": BETA2, "weight_decay": DECAY}
ENDPOINT = "127.0.0.1:6170"


class Loop:
    """The algorithm of the paper, one parameter after the other."""

    def __init__(self, **values: np.ndarray) -> None:
        self.values = {name: np.array(value, np.float64) for name, value in values.items()}
        self.moments = {name: np.zeros_like(value) for name, value in self.values.items()}

    def step(self, name: str, g: np.ndarray, beta1: float = BETA1, decay: float = DECAY) -> None:
        m, p = self.moments[name], self.values[name]
        update = beta1 * m + (1 - beta1) * g
        assert np.abs(update[update != 0]).min() > 1e-6, "its sign would be a matter of rounding"
        self.values[name] = p - RATE * (np.sign(update) + decay * p)
        self.moments[name] = BETA2 * m + (1 - BETA2) * g


def gradients(values: dict[str, Any], x: np.ndarray = BATCH) -> dict[str, np.ndarray]:
    """Of mean((x w - 1)^2) + mean((x v - 1)^2)."""
    return {name: 2 * x.T @ (x @ p - 1) / (len(x) * p.shape[1]) for name, p in values.items()}


def in_a_loop(steps: int = STEPS, **own: dict[str, float]) -> dict[str, np.ndarray]:
    """The values after some steps; `own` has options of one parameter."""
    loop = Loop(**START)
    for _ in range(steps):
        for name, g in gradients(dict(loop.values)).items():
            loop.step(name, g, **own.get(name, {}))
    return loop.values


def same(values: dict[str, Any], expected: dict[str, np.ndarray], rtol: float = 2e-5) -> None:
    assert values.keys() == expected.keys()
    for name, value in expected.items():
        np.testing.assert_allclose(np.asarray(values[name], np.float64), value, rtol, atol=rtol / 10, err_msg=name)


def parameters() -> dict[str, Any]:
    """The parameters, of dynamic mode or of a program."""
    make = wb.create_parameter if wb.in_dynamic_mode() else wb.static.create_parameter
    weights = {}
    for name, value in START.items():
        attr = wb.ParamAttr(name=name, initializer=wb.nn.initializer.Assign(value.astype(np.float32)))
        weights[name] = make(list(value.shape), "float32", attr=attr)
    return weights


def loss_of(x: Any, weights: dict[str, Any]) -> Any:
    return sum(wb.mean(wb.square(wb.matmul(x, w) - 1.0)) for w in weights.values())


def steps(optimizer: Any, weights: dict[str, Any], count: int = STEPS) -> dict[str, np.ndarray]:
    """Steps of dynamic mode; the values after them."""
    for _ in range(count):
        loss_of(wb.to_tensor(BATCH.astype(np.float32)), weights).backward()
        optimizer.step()
        optimizer.clear_grad()
    return {name: w.numpy() for name, w in weights.items()}


def in_dynamic_mode(folder: Path) -> None:
    """By step, in groups, and going on from what was saved."""
    weights = parameters()
    same(steps(wb.optimizer.Lion(**GIVEN, parameters=list(weights.values())), weights), in_a_loop())
    weights = parameters()
    groups = [{"params": [weights["w"]], "beta1": 0.5, "weight_decay": 0.0}, {"params": [weights["v"]]}]
    own = in_a_loop(w={"beta1": 0.5, "decay": 0.0})
    same(steps(wb.optimizer.Lion(**GIVEN, parameters=groups), weights), own)
    with wb.utils.unique_name.guard():
        weights = parameters()
        optimizer = wb.optimizer.Lion(**GIVEN, parameters=list(weights.values()))
        steps(optimizer, weights, 2)
        assert set(optimizer.state_dict()) == {"w_moment_0", "v_moment_0"}
        wb.save(optimizer.state_dict(), str(folder / "optimizer"))
    again = wb.optimizer.Lion(**GIVEN, parameters=list(weights.values()))
    again.set_state_dict(wb.load(str(folder / "optimizer")))
    same(steps(again, weights, STEPS - 2), in_a_loop())


def parallel(loss: Any, program: Any, scope: Any, devices: int = 1, fused: bool = True) -> Any:
    """An executor on so many devices."""
    strategy = wb.static.BuildStrategy()
    strategy.fuse_all_optimizer_ops = fused
    os.environ["CPU_NUM"] = str(devices)
    return wb.static.ParallelExecutor(
        use_cuda=False, loss_name=loss.name, main_program=program, scope=scope, build_strategy=strategy
    )


class Trained:
    """A program that minimizes the loss, and where its values are."""

    def __init__(self) -> None:
        self.main, self.startup, self.scope = wb.static.Program(), wb.static.Program(), wb.static.Scope()
        with wb.static.program_guard(self.main, self.startup), wb.utils.unique_name.guard():
            self.loss = loss_of(wb.static.data("x", [None, 8]), parameters())
            wb.optimizer.Lion(**GIVEN).minimize(self.loss)

    def train(self, x: np.ndarray, devices: int = 1, fused: bool = True) -> tuple[dict[str, np.ndarray], Any]:
        """The values after some steps, and the executor."""
        wb.static.Executor().run(self.startup, scope=self.scope)
        executor = parallel(self.loss, self.main, self.scope, devices, fused)
        for _ in range(STEPS):
            executor.run([], feed={"x": x.astype(np.float32)})
        return self.values(), executor

    def values(self) -> dict[str, np.ndarray]:
        return {name: np.array(self.scope.find_var(name).get_tensor()) for name in START}


def equal(values: dict[str, np.ndarray], others: dict[str, np.ndarray]) -> None:
    for name, value in values.items():
        np.testing.assert_array_equal(value, others[name], err_msg=name)


def in_static_mode() -> None:
    """In kernels alone; on two devices, joined into one update and not, with the bits of one device."""
    one, executor = Trained().train(BATCH, fused=False)
    same(one, in_a_loop())
    binding = executor.inspection.last
    assert [node.type for node in native_nodes(binding)].count("lion") == 2
    assert not (by_numpy := rows_by_lowering(binding)[1]), f"NumPy computes {dict(by_numpy)}"
    twice = np.concatenate([BATCH, BATCH])  # each device has what the one had, and halves and doubles are exact
    for devices, fused, x in ((1, True, BATCH), (2, True, twice), (2, False, twice)):
        values, executor = Trained().train(x, devices, fused)
        equal(values, one)
        types = [node.type for node in native_nodes(executor.inspection.last)]
        assert ("fused_update" in types, "lion" in types) == (fused, not fused), types
        assert not rows_by_lowering(executor.inspection.last)[1]


def with_sparse_gradients() -> None:
    """A table of which every step looks up some rows; those that it does not look up move as well."""
    table, ids = RNG.standard_normal((9, 3)), np.array([[1, 4, 4, 7], [0, 4, 2, 2]])
    program, startup, scope = wb.static.Program(), wb.static.Program(), wb.static.Scope()
    with wb.static.program_guard(program, startup):
        attr = wb.ParamAttr(name="table", initializer=wb.nn.initializer.Assign(table.astype(np.float32)))
        rows = wb.static.nn.embedding(wb.static.data("ids", [None], "int64"), (9, 3), is_sparse=True, param_attr=attr)
        loss = wb.sum(rows)
        wb.optimizer.Lion(**GIVEN).minimize(loss)
    assert program.global_block().var("table@GRAD").kind == "rows"
    loop, executor = Loop(table=table), wb.static.Executor()
    executor.run(startup, scope=scope)
    trainer = parallel(loss, program, scope)
    for k in range(4):
        trainer.run([], feed={"ids": ids[k % 2]})
        g = np.zeros((9, 3))
        np.add.at(g, ids[k % 2], 1.0)
        loop.step("table", g)
    assert "lion" in {node.type for node in native_nodes(trainer.inspection.last)}
    same({"table": np.array(scope.find_var("table").get_tensor())}, dict(loop.values))


def in_half_precision() -> None:
    """A float32 copy of a float16 parameter is what is updated."""
    start = RNG.standard_normal((8, 4)).astype(np.float16)
    program, startup, scope = wb.static.Program(), wb.static.Program(), wb.static.Scope()
    with wb.static.program_guard(program, startup), wb.utils.unique_name.guard():
        attr = wb.ParamAttr(name="w", initializer=wb.nn.initializer.Assign(start))
        w = wb.static.create_parameter([8, 4], "float16", attr=attr)
        loss = wb.sum(w * wb.static.data("g", [8, 4], "float16"))
        wb.optimizer.Lion(**GIVEN, multi_precision=True).minimize(loss)
    loop, executor = Loop(w=start), wb.static.Executor()
    executor.run(startup, scope=scope)
    trainer = parallel(loss, program, scope)
    for _ in range(STEPS):
        g = RNG.standard_normal((8, 4)).astype(np.float16)
        trainer.run([], feed={"g": g})
        loop.step("w", g.astype(np.float64))
    values = {name: np.array(scope.find_var(name).get_tensor()) for name in ("w_fp32_master_0", "w")}
    same({"w": values["w_fp32_master_0"]}, dict(loop.values))
    np.testing.assert_array_equal(values["w"], values["w_fp32_master_0"].astype(np.float16))


def through_parameter_servers() -> None:
    """A transpiler has a server do the update, and keep its state."""
    trained = Trained()
    transpiler = fluid.DistributeTranspiler()
    with wb.static.program_guard(trained.main, trained.startup):
        transpiler.transpile(0, program=trained.main, pservers=ENDPOINT, trainers=1, startup_program=trained.startup)
    server, begin = transpiler.get_pserver_programs(ENDPOINT)
    assert [op.type for op in server.all_ops()].count("lion") == 2
    assert "lion" not in {op.type for op in transpiler.get_trainer_program(wait_port=False).all_ops()}
    filled = {name for op in begin.global_block().ops for name in op.output_arg_names}
    assert {"w", "v", "w_moment_0", "v_moment_0"} <= filled


def save(folder: Path) -> None:
    """Programs as text and JSON, and what they make of the parameters."""
    trained = Trained()
    for name, program in (("main", trained.main), ("startup", trained.startup)):
        (folder / f"{name}.txt").write_text(str(program))
        (folder / f"{name}.json").write_text(program.serialize_to_string())
    values, _ = trained.train(BATCH)
    np.savez(folder / "values.npz", x=BATCH.astype(np.float32), **values)


def main(folder: Path) -> None:
    assert "Lion" in dir(wb.optimizer) and wb.optimizer.Lion.__module__ == "workbench.optimizer.rules.lion"
    in_dynamic_mode(folder)
    wb.enable_static()
    in_static_mode()
    with_sparse_gradients()
    in_half_precision()
    through_parameter_servers()
    save(folder)
    print("Lion is right in both modes, on devices, with sparse gradients, in half precision and on servers")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
