"""Optimizers under their 1.x names and arguments: the numbers of section 9, and those of 2.x's names."""

from typing import Any

import numpy as np
import pytest

import workbench as wb
import workbench.fluid as fluid

O = fluid.optimizer  # noqa: E741


def trained(optimizer: Any, steps: int = 3, gradient: float = 2.0) -> list[float]:
    """What a parameter that begins at 1, with this constant gradient, comes to after every step."""
    with (
        fluid.program_guard(fluid.Program(), fluid.Program()),
        fluid.unique_name.guard(),
        fluid.scope_guard(fluid.Scope()),
    ):
        one = fluid.initializer.NumpyArrayInitializer(np.ones(1, np.float32))
        w = fluid.layers.create_parameter([1], "float32", name="w", default_initializer=one)
        optimizer().minimize(fluid.layers.mean(w * gradient))
        executor = fluid.Executor()
        executor.run(fluid.default_startup_program())
        return [float(executor.run(fetch_list=[w])[0][0]) for _ in range(steps)]


def test_momentum_and_nesterov_have_the_numbers_of_the_rules() -> None:
    np.testing.assert_allclose(trained(lambda: O.Momentum(0.1, 0.9)), [0.8, 0.42, -0.122], rtol=1e-5)
    nesterov = trained(lambda: O.Momentum(learning_rate=0.1, momentum=0.9, use_nesterov=True))
    np.testing.assert_allclose(nesterov, [0.62, 0.078, -0.6098], rtol=1e-5)


def test_adagrad_and_rmsprop_have_the_numbers_of_the_rules() -> None:
    np.testing.assert_allclose(trained(lambda: O.Adagrad(0.1, epsilon=0.5), 2), [0.92, 0.85991], rtol=1e-5)
    assert trained(lambda: O.RMSProp(0.1), 1) != [1.0]


def test_adam_adds_epsilon_as_it_is() -> None:
    at, m, v, wanted = 1.0, 0.0, 0.0, []
    for step in range(1, 4):
        m, v = 0.8 * m + 0.2 * 2.0, 0.9 * v + 0.1 * 4.0
        at -= 0.1 * (1 - 0.9**step) ** 0.5 / (1 - 0.8**step) * m / (v**0.5 + 0.5)
        wanted.append(at)
    np.testing.assert_allclose(trained(lambda: O.AdamOptimizer(0.1, 0.8, 0.9, 0.5)), wanted, rtol=1e-6)


PAIRS = [
    (lambda: O.SGDOptimizer(0.1, None, fluid.regularizer.L2Decay(0.5)), lambda: wb.optimizer.SGD(0.1, None, 0.5)),
    (lambda: O.AdamOptimizer(0.1, 0.8, 0.9, 0.0), lambda: wb.optimizer.Adam(0.1, 0.8, 0.9, 0.0)),
    (lambda: O.AdamaxOptimizer(0.1, 0.8, 0.9, 0.5), lambda: wb.optimizer.Adamax(0.1, 0.8, 0.9, 0.5)),
    (lambda: O.AdadeltaOptimizer(0.1, 0.5, 0.8), lambda: wb.optimizer.Adadelta(0.1, 0.5, 0.8)),
    (lambda: O.AdagradOptimizer(0.1, 0.5), lambda: wb.optimizer.Adagrad(0.1, 0.5)),
    (
        lambda: O.RMSPropOptimizer(0.1, 0.8, 0.5, 0.7, True),
        lambda: wb.optimizer.RMSProp(0.1, 0.8, 0.5, 0.7, True),
    ),
    (
        lambda: O.LambOptimizer(0.1, 0.2, 0.8, 0.9, 0.5),
        lambda: wb.optimizer.Lamb(0.1, 0.2, 0.8, 0.9, 0.5),
    ),
    (
        lambda: O.SGD(0.1, regularization=fluid.regularizer.L1Decay(regularization_coeff=0.5)),
        lambda: wb.optimizer.SGD(0.1, weight_decay=wb.regularizer.L1Decay(0.5)),
    ),
    (
        lambda: O.SGD(0.1, grad_clip=fluid.clip.GradientClipByValue(0.5)),
        lambda: wb.optimizer.SGD(0.1, grad_clip=wb.nn.ClipGradByValue(0.5)),
    ),
]


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: type(pair[0]()).__name__)
def test_arguments_mean_the_same_under_either_name(pair: Any) -> None:
    assert trained(pair[0]) == trained(pair[1]) != [1.0] * 3


def test_minimize_takes_a_parameter_list() -> None:
    x = fluid.data("x", [None, 4])
    loss = fluid.layers.mean(fluid.layers.fc(x, 2))
    _, pairs = O.SGD(0.1).minimize(loss, parameter_list=["fc_0.b_0"])
    assert [p.name for p, _ in pairs] == ["fc_0.b_0"]
    assert [p.name for p, _ in O.SGD(0.1).backward(loss, parameter_list=["fc_0.w_0"])] == ["fc_0.w_0"]


def test_lamb_decays_on_its_own() -> None:
    with pytest.raises(NotImplementedError, match="lamb_weight_decay"):
        O.LambOptimizer(regularization=fluid.regularizer.L2Decay(0.1))
