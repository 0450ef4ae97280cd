"""Learning rates that programs of 1.x compute themselves (P-47), against their formulas in NumPy."""

import math
from typing import Any

import numpy as np
import pytest

import workbench.fluid as fluid
from workbench.errors import InvalidArgument, PreconditionNotMet

L = fluid.layers


def polynomial(step: int, cycle: bool) -> float:
    length = 3 * max(math.ceil(step / 3), 1) if cycle else 3
    return (0.1 - 0.01) * (1 - min(step, length) / length) ** 2 + 0.01


CASES: dict[str, tuple[Any, Any]] = {
    "exponential": (lambda: L.exponential_decay(0.1, 2, 0.5), lambda s: 0.1 * 0.5 ** (s / 2)),
    "staircase": (lambda: L.exponential_decay(0.1, 2, 0.5, staircase=True), lambda s: 0.1 * 0.5 ** (s // 2)),
    "natural": (lambda: L.natural_exp_decay(0.1, 2, 0.5), lambda s: 0.1 * math.exp(-0.5 * s / 2)),
    "inverse": (lambda: L.inverse_time_decay(0.1, 2, 0.5), lambda s: 0.1 / (1 + 0.5 * s / 2)),
    "polynomial": (lambda: L.polynomial_decay(0.1, 3, 0.01, 2.0), lambda s: polynomial(s, False)),
    "cycle": (lambda: L.polynomial_decay(0.1, 3, 0.01, 2.0, cycle=True), lambda s: polynomial(s, True)),
    "cosine": (lambda: L.cosine_decay(0.1, 2, 4), lambda s: 0.05 * (math.cos(s // 2 * math.pi / 4) + 1)),
    "noam": (lambda: L.noam_decay(64, 3), lambda s: 64**-0.5 * min((s + 1) ** -0.5, (s + 1) * 3**-1.5)),
    "piecewise": (lambda: L.piecewise_decay([1, 4], [0.3, 0.2, 0.1]), lambda s: [0.3, 0.2, 0.2, 0.2, 0.1, 0.1, 0.1][s]),
    "warmup": (lambda: L.linear_lr_warmup(0.5, 4, 0.0, 0.4), lambda s: 0.1 * s if s < 4 else 0.5),
    "warmup of a schedule": (
        lambda: L.linear_lr_warmup(L.exponential_decay(0.1, 2, 0.5), 2, 0.0, 0.4),
        lambda s: 0.2 * s if s < 2 else 0.1 * 0.5 ** (s / 2),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_p47_rates_follow_their_formulas_from_step_0(name: str) -> None:
    build, formula = CASES[name]
    rate = build()
    executor = fluid.Executor()
    executor.run(fluid.default_startup_program())
    rates = [float(executor.run(fetch_list=[rate])[0][0]) for _ in range(7)]
    np.testing.assert_allclose(rates, [formula(step) for step in range(7)], rtol=1e-5, atol=1e-8)


PADDLE = {  # what 1.8.5 appends for the cases that it computes without blocks
    "exponential": "cast scale fill_constant elementwise_pow scale",
    "staircase": "cast scale floor fill_constant elementwise_pow scale",
    "natural": "cast scale scale exp scale",
    "inverse": "cast scale scale scale fill_constant elementwise_div",
    "polynomial": "cast fill_constant elementwise_min scale scale fill_constant elementwise_pow scale scale",
    "cosine": "cast scale floor scale scale cos scale scale",
    "noam": "cast fill_constant elementwise_pow scale elementwise_min scale",
}


@pytest.mark.parametrize("name", PADDLE)
def test_p47_operators_are_those_of_paddle(name: str) -> None:
    CASES[name][0]()
    assert [op.type for op in fluid.default_main_program().global_block().ops[1:]] == PADDLE[name].split()


def model(rate: Any) -> Any:
    loss = L.mean(L.fc(fluid.data("x", [None, 2]), 1, bias_attr=False, param_attr=fluid.ParamAttr(name="w")))
    fluid.optimizer.SGD(learning_rate=rate() if callable(rate) else rate).minimize(loss)
    return loss


def test_p47_the_counter_is_the_first_operator_and_the_rest_has_its_role() -> None:
    model(lambda: L.exponential_decay(0.1, 1, 0.5))
    first, *others = fluid.default_main_program().global_block().ops
    assert first.type == "increment" and first.role == 0x10 and first.input("X") == ["@LR_DECAY_COUNTER@"]
    roles = {op.type: op.role for op in others}
    assert {type for type, role in roles.items() if role == 0x10} >= {"cast", "elementwise_pow", "scale"}
    assert {role for type, role in roles.items() if type in ("mul", "mean", "sgd")} == {0x0, 0x100, 0x2}
    (update,) = [op for op in others if op.type == "sgd"]
    assert others[-1] is update and not update.input("LearningRate")[0].startswith("learning_rate")


@pytest.mark.parametrize("devices", [1, 2, 4])
def test_an_update_takes_the_rate_of_its_step_on_every_device(devices: int) -> None:
    loss = model(lambda: L.exponential_decay(0.1, 1, 0.5))
    executor = fluid.Executor()
    executor.run(fluid.default_startup_program())
    fluid.global_scope().find_var("w").get_tensor().set(np.ones((2, 1), np.float32), fluid.CPUPlace())
    parallel = fluid.CompiledProgram(fluid.default_main_program()).with_data_parallel(
        loss_name=loss.name, places=fluid.cpu_places(devices)
    )
    for _ in range(3):
        executor.run(parallel, feed={"x": np.full((4, 2), 2.0, np.float32)}, fetch_list=[loss])
    value = np.array(fluid.global_scope().find_var("w").get_tensor())
    np.testing.assert_allclose(value, 1 - 2 * (0.1 + 0.05 + 0.025), rtol=1e-6)


def test_p22_a_test_program_neither_counts_nor_has_rates() -> None:
    loss = model(lambda: L.exponential_decay(0.1, 1, 0.5))
    test = fluid.default_main_program().clone(for_test=True)
    assert [op.type for op in test.global_block().ops] == ["mul", "mean"]
    assert loss.name in test.global_block().vars and "@LR_DECAY_COUNTER@" not in test.global_block().vars


def test_two_schedules_count_once() -> None:
    L.linear_lr_warmup(L.exponential_decay(0.1, 2, 0.5), 2, 0.0, 0.4)
    assert [op.type for op in fluid.default_main_program().global_block().ops].count("increment") == 1


def test_the_rate_a_program_computes_is_not_asked_of_the_optimizer() -> None:
    optimizer = fluid.optimizer.SGD(L.exponential_decay(0.1, 1, 0.5))
    with pytest.raises(PreconditionNotMet, match="fetch the variable"):
        optimizer.get_lr()
    with pytest.raises(PreconditionNotMet, match="fetch the variable"):
        optimizer.set_lr(0.1)


def test_wrong_arguments_are_refused() -> None:
    with pytest.raises(InvalidArgument, match="one value more"):
        L.piecewise_decay([1, 2], [0.1, 0.2])
    assert fluid.default_main_program().global_block().ops == []
    with pytest.raises(TypeError, match="number or a schedule"):
        L.linear_lr_warmup("0.1", 2, 0.0, 0.4)
    with pytest.raises(InvalidArgument, match=r"shape \[1\]"):
        fluid.optimizer.SGD(fluid.data("r", [2]))
