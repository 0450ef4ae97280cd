"""What one step may do with variables that stay: read them after their update, write them twice, be fed them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.parallel.models import Model, build, column, line
from workbench import static
from workbench.framework.roles import FORWARD, OPTIMIZE

REDUCE = static.BuildStrategy.ReduceStrategy.Reduce


def reduce_mode() -> Any:
    build_strategy = static.BuildStrategy()
    build_strategy.reduce_strategy = REDUCE
    return build_strategy


def state(model: Model, name: str, shape: list[int], value: float = 0.0) -> Any:
    """A persistable variable of a model's programs that starts with one value."""
    made = model.main.global_block().create_var(name, shape, "float32", persistable=True)
    block = model.startup.global_block()
    block.create_var(name, shape, "float32", persistable=True)
    block.append_op("fill_constant", {}, {"Out": name}, {"shape": shape, "value": value, "dtype": "float32"})
    return made


def on_device(exe: Any, device: int, name: str) -> np.ndarray:
    return np.array(exe.local_scope(device).find_var(name).get_tensor())


# Variables that are read after their update


def averaged(optimizer: Any, role: int) -> Model:
    """Two layers whose parameters' running averages are computed after the updates."""

    def body() -> Any:
        h = static.nn.fc(static.data("x", [None, 3]), 2)
        return wb.mean(wb.square(static.nn.fc(h, 2)))

    model = build(body, optimizer)
    with static.program_guard(model.main, model.startup), model.main.role_guard(role):
        for p in model.main.all_parameters():
            average = state(model, f"{p.name}_average", list(p.shape))
            terms = {"X": wb.scale(p, 0.25), "Y": wb.scale(average, 0.75)}
            model.main.global_block().append_op("elementwise_add", terms, {"Out": average})
    return model.start()


@pytest.mark.parametrize("role", [FORWARD, OPTIMIZE])
@pytest.mark.parametrize("count", [1, 2, 3])
@pytest.mark.parametrize("rule", [wb.optimizer.SGD, wb.optimizer.Adam])
def test_averages_of_updated_parameters(rule: Any, count: int, role: int) -> None:
    """A flat update changed the scope ahead of the commit, which then put garbage over it; and in Reduce mode other
    devices than the owner averaged the parameters before the update."""
    model, mirrored, owned = (averaged(rule(0.1), role) for _ in range(3))
    parallel, reducing = mirrored.parallel(count), owned.parallel(count, build_strategy=reduce_mode())
    x = np.random.default_rng(0).standard_normal((12, 3), dtype=np.float32)
    for _ in range(3):
        static.Executor().run(model.main, feed={"x": x}, scope=model.scope)
        parallel.run([], feed={"x": x})
        reducing.run([], feed={"x": x})
    expected = model.values()
    for device in range(count):
        for name, value in expected.items():
            np.testing.assert_allclose(on_device(parallel, device, name), value, rtol=1e-4, atol=1e-6, err_msg=name)
            np.testing.assert_allclose(on_device(reducing, device, name), value, rtol=1e-4, atol=1e-6, err_msg=name)


def test_a_parameter_updated_twice_in_a_step() -> None:
    """The second fused update took the scope's values, those before the first."""
    model = line(wb.optimizer.SGD(0.1))
    block = model.main.global_block()
    with model.main.role_guard(OPTIMIZE):
        for op in [op for op in block.ops if op.type == "sgd"]:
            block.append_op("sgd", op.inputs, op.outputs, op.attrs)
    exe = model.start().parallel(2)
    (weight,) = exe.run(["fc_0.w_0"], feed={"X": column(0, 1, 2, 3)})
    np.testing.assert_allclose(weight, column(0.7, 0.7), rtol=1e-6)  # two times 0.1 * 1.5


# Persistable feeds


@pytest.mark.parametrize("count", [1, 2, 4])
@pytest.mark.parametrize("mode", [static.BuildStrategy, reduce_mode])
def test_X_19_a_fed_parameter_is_updated_in_the_same_step(mode: Any, count: int) -> None:
    """The commit put what was fed over what the update had made of it."""
    model = line().start()
    exe = model.parallel(count, build_strategy=mode())
    feed = {"X": column(0, 1, 2, 3, 0, 1, 2, 3)}
    (fetched,) = exe.run(["fc_0.w_0"], feed={**feed, "fc_0.w_0": column(5)})
    np.testing.assert_allclose(fetched, column(*[4.85] * count), rtol=1e-6)  # 5 - 0.1 * 1.5
    for device in range(count):
        np.testing.assert_array_equal(on_device(exe, device, "fc_0.w_0"), fetched[:1])
    np.testing.assert_allclose(exe.run(["fc_0.w_0"], feed=feed)[0], column(*[4.7] * count), rtol=1e-6)


def test_X_19_a_fed_velocity_is_moved_in_the_same_step() -> None:
    model = line(wb.optimizer.Momentum(0.1, 0.5)).start()
    velocity = next(name for name in model.values() if "w_0_velocity" in name)
    exe = model.parallel(2)
    found = exe.run([velocity, "fc_0.w_0"], feed={"X": column(0, 1, 2, 3), velocity: column(4)})
    np.testing.assert_allclose(found[0], column(3.5, 3.5), rtol=1e-6)  # 0.5 * 4 + 1.5
    np.testing.assert_allclose(found[1], column(0.65, 0.65), rtol=1e-6)


def test_X_19_a_fed_counter_counts_on() -> None:
    model = line()
    counter = state(model, "counter", [1])
    for _ in range(2):
        model.main.global_block().append_op("increment", {"X": counter}, {"Out": counter}, {"step": 1.0})
    exe, feed = model.start().parallel(2), {"X": column(0, 1)}
    assert exe.run(["counter"], feed=feed)[0].tolist() == [2, 2]
    assert exe.run(["counter"], feed={**feed, "counter": np.float32([10])})[0].tolist() == [12, 12]
    assert exe.run(["counter"], feed=feed)[0].tolist() == [14, 14]
