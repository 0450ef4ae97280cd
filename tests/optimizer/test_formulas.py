"""Update formulas: the check values of the rules, and scalar loops written out (traps 18 - 21)."""

import math

import numpy as np
import pytest

from tests.optimizer.stepping import history, trained
from workbench import optimizer
from workbench.optimizer.regularizer import L2Decay

GRADIENTS = np.random.default_rng(3).standard_normal((6, 3))
START = np.array([1.0, -2.0, 0.5])


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (lambda: optimizer.SGD(0.1), [0.8, 0.6, 0.4]),
        (lambda: optimizer.Momentum(0.1, 0.9), [0.8, 0.42, -0.122]),
        (lambda: optimizer.Momentum(0.1, 0.9, use_nesterov=True), [0.62, 0.078, -0.6098]),
        (lambda: optimizer.Adam(0.1, epsilon=0.5), [0.92, 0.84, 0.76]),
        (lambda: optimizer.Adagrad(0.1, epsilon=0.5), [0.92, 0.85991]),
        (lambda: optimizer.RMSProp(0.1, epsilon=0.5, momentum=0.9), [0.76095, 0.33381]),
        (lambda: optimizer.Adamax(0.1, epsilon=0.5), [0.9, 0.81994]),
    ],
    ids=["sgd", "momentum", "nesterov", "adam", "adagrad", "rmsprop", "adamax"],
)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_check_values(make, expected, dtype):
    """p = 1, g = 2 in every step."""
    values = history(make(), [1.0], [[2.0]] * len(expected), dtype)
    assert values.ravel() == pytest.approx(expected, abs=6e-6)


def loop(step, start=START, gradients=GRADIENTS):
    """`step(p, g, t, state) -> p` for every element by itself; `state` is a dict that lives on."""
    columns = []
    for p, column in zip(start.tolist(), gradients.T.tolist(), strict=True):
        state, values = {}, []
        for t, g in enumerate(column, 1):
            p = step(p, g, t, state)
            values.append(p)
        columns.append(values)
    return np.array(columns).T


def sgd(p, g, t, s):
    return p - 0.05 * g


def momentum(p, g, t, s):
    s["v"] = 0.8 * s.get("v", 0.0) + g
    return p - 0.05 * s["v"]


def nesterov(p, g, t, s):
    s["v"] = 0.8 * s.get("v", 0.0) + g
    return p - 0.05 * (g + 0.8 * s["v"])


def adam(p, g, t, s, rate=0.05, b1=0.7, b2=0.95, eps=0.1):
    s["m"] = b1 * s.get("m", 0.0) + (1 - b1) * g
    s["v"] = b2 * s.get("v", 0.0) + (1 - b2) * g * g
    m_hat, v_hat = s["m"] / (1 - b1**t), s["v"] / (1 - b2**t)
    return p - rate * m_hat / (math.sqrt(v_hat) + eps)  # algorithm 1 of the paper


def adamw(p, g, t, s):
    return adam(p * (1 - 0.05 * 0.3), g, t, s)


def adagrad(p, g, t, s):
    s["m"] = s.get("m", 0.25) + g * g
    return p - 0.05 * g / (math.sqrt(s["m"]) + 0.1)


def rmsprop(p, g, t, s, centred=False):
    s["s"] = 0.9 * s.get("s", 0.0) + 0.1 * g * g
    s["g"] = 0.9 * s.get("g", 0.0) + 0.1 * g
    spread = s["s"] - s["g"] ** 2 if centred else s["s"]
    s["u"] = 0.5 * s.get("u", 0.0) + 0.05 * g / math.sqrt(spread + 0.1)
    return p - s["u"]


def adamax(p, g, t, s):
    s["m"] = 0.7 * s.get("m", 0.0) + 0.3 * g
    s["n"] = max(abs(g), 0.95 * s.get("n", 0.0) + 0.1)
    return p - 0.05 / (1 - 0.7**t) * s["m"] / s["n"]


def adadelta(p, g, t, s):
    s["g"] = 0.7 * s.get("g", 0.0) + 0.3 * g * g
    step = math.sqrt(s.get("u", 0.0) + 0.1) / math.sqrt(s["g"] + 0.1) * g
    s["u"] = 0.7 * s.get("u", 0.0) + 0.3 * step * step
    return p - 0.05 * step


@pytest.mark.parametrize(
    ("make", "step"),
    [
        (lambda: optimizer.SGD(0.05), sgd),
        (lambda: optimizer.Momentum(0.05, 0.8), momentum),
        (lambda: optimizer.Momentum(0.05, 0.8, use_nesterov=True), nesterov),
        (lambda: optimizer.Adam(0.05, 0.7, 0.95, 0.1), adam),
        (lambda: optimizer.AdamW(0.05, 0.7, 0.95, 0.1, weight_decay=0.3), adamw),
        (lambda: optimizer.Adagrad(0.05, 0.1, initial_accumulator_value=0.25), adagrad),
        (lambda: optimizer.RMSProp(0.05, 0.9, 0.1, 0.5), rmsprop),
        (lambda: optimizer.RMSProp(0.05, 0.9, 0.1, 0.5, True), lambda *a: rmsprop(*a, centred=True)),
        (lambda: optimizer.Adamax(0.05, 0.7, 0.95, 0.1), adamax),
        (lambda: optimizer.Adadelta(0.05, 0.1, 0.7), adadelta),
    ],
    ids=[
        "sgd",
        "momentum",
        "nesterov",
        "adam",
        "adamw",
        "adagrad",
        "rmsprop",
        "rmsprop-centred",
        "adamax",
        "adadelta",
    ],
)
def test_against_a_scalar_loop(make, step):
    assert np.allclose(history(make(), START, GRADIENTS), loop(step), rtol=1e-12, atol=1e-12)


def test_the_rate_is_not_part_of_the_velocity():
    """Trap 18: after a change of rate the old velocity counts with the new rate."""
    opt = optimizer.Momentum(0.1, 0.5)
    session, _ = trained(opt, {"w": np.array([1.0])})
    session.run([], g_w=np.array([2.0]))
    opt.set_lr(0.2)
    session.run([], g_w=np.array([2.0]))
    assert session.value("w")[0] == pytest.approx(1 - 0.1 * 2 - 0.2 * (0.5 * 2 + 2))


def test_powers_start_at_beta_and_move_after_use():
    session, _ = trained(optimizer.Adam(0.1, 0.5, 0.25), {"w": np.ones(2)})
    powers = []
    for _ in range(3):
        powers += [session.value("w_beta1_pow_acc_0")[0], session.value("w_beta2_pow_acc_0")[0]]
        session.run([], g_w=np.ones(2))
    assert powers == pytest.approx([0.5, 0.25, 0.25, 0.0625, 0.125, 0.015625])


class TestLamb:
    """Algorithm 2 of the paper, its scaling function the identity."""

    def lamb(self, decay, adapts):
        p, m, v, values = START.copy(), 0.0, 0.0, []
        for t, g in enumerate(GRADIENTS, 1):
            m, v = 0.7 * m + 0.3 * g, 0.95 * v + 0.05 * g**2
            r = (m / (1 - 0.7**t)) / (np.sqrt(v / (1 - 0.95**t)) + 0.1) + decay * p
            p = p - 0.05 * (np.linalg.norm(p) / np.linalg.norm(r) if adapts else 1.0) * r
            values.append(p)
        return np.array(values)

    def test_the_rate_is_in_proportion_to_the_norm(self):
        values = history(optimizer.Lamb(0.05, 0.3, 0.7, 0.95, 0.1), START, GRADIENTS)
        assert np.allclose(values, self.lamb(0.3, True), rtol=1e-12)

    @pytest.mark.parametrize("always", [False, True])
    def test_without_decay_there_is_no_ratio_unless_asked_for(self, always):
        excluded = optimizer.Lamb(
            0.05, 0.3, 0.7, 0.95, 0.1, exclude_from_weight_decay_fn=lambda p: p.name == "w", always_adapt=always
        )
        assert np.allclose(history(excluded, START, GRADIENTS), self.lamb(0.0, always), rtol=1e-12)

    def test_a_parameter_of_zeros_takes_plain_steps(self):
        values = history(optimizer.Lamb(0.5, 0.3, 0.7, 0.95, 0.0), np.zeros(2), [[1.0, -3.0]])
        assert values[0] == pytest.approx([-0.5, 0.5])


class TestAdamW:
    def test_decay_is_chosen_by_name(self):
        opt = optimizer.AdamW(0.05, 0.7, 0.95, 0.1, weight_decay=0.3, apply_decay_param_fun=lambda n: n == "a")
        session, _ = trained(opt, {"a": START, "b": START})
        for g in GRADIENTS:
            session.run([], g_a=g, g_b=g)
        assert np.allclose(session.value("a"), loop(adamw)[-1], rtol=1e-12)
        assert np.allclose(session.value("b"), loop(adam)[-1], rtol=1e-12)

    def test_rate_ratio_is_chosen_by_parameter(self):
        opt = optimizer.AdamW(0.1, 0.7, 0.95, 0.1, weight_decay=0.3, lr_ratio=lambda p: 0.5 if p.name == "w" else 1)
        assert np.allclose(history(opt, START, GRADIENTS), loop(adamw), rtol=1e-12)

    def test_decay_is_not_l2(self):
        """Adam with L2Decay divides the decay by the root of the second moment, AdamW does not."""
        l2 = history(optimizer.Adam(0.05, 0.7, 0.95, 0.1, weight_decay=L2Decay(0.3)), START, GRADIENTS)
        coupled = loop(lambda p, g, t, s: adam(p, g + 0.3 * p, t, s))
        assert np.allclose(l2, coupled, rtol=1e-12)
        assert not np.allclose(l2, loop(adamw), rtol=1e-3)


def test_half_precision_parameters_have_float32_rates_and_powers():
    session, main = trained(optimizer.Adam(0.1), {"w": np.ones(3, np.float16)})
    block = main.global_block()
    assert [block.var(n).dtype for n in ("learning_rate_0", "w_beta1_pow_acc_0")] == ["float32", "float32"]
    session.run([], g_w=np.ones(3, np.float16))
    assert session.value("w").dtype == np.float16
    assert session.value("w").astype(float) == pytest.approx([0.9] * 3, abs=1e-3)
