"""State of optimizers in a program: accumulators, their names and start, masters of half-precision parameters."""

import numpy as np
import pytest

from tests.builders.building import Session, outputs, program
from tests.optimizer.stepping import history, trained, weighted
from tests.optimizer.test_minimize import regression
from workbench import optimizer
from workbench.builders.data import data
from workbench.builders.nn.dense import fc
from workbench.framework import names
from workbench.framework.op.record import find_op


class TestMasters:
    def test_small_steps_are_not_rounded_away(self):
        """1 - 1e-4 rounds to 1 in float16 (spacing 2**-11 below 1), 30 of these steps do not."""
        values = {"w": np.array([1.0, 2.0], np.float16)}
        plain, _ = trained(optimizer.SGD(1e-4), values)
        kept, _ = trained(optimizer.SGD(1e-4, multi_precision=True), values)
        for session in (plain, kept):
            for _ in range(30):
                session.run([], g_w=np.array([1.0, 2.0], np.float16))
        assert plain.value("w").tolist() == [1.0, 2.0]
        expected = np.float32([1 - 3e-3, 2 - 6e-3])
        assert kept.value("w_fp32_master_0") == pytest.approx(expected, rel=1e-6)
        assert kept.value("w").tolist() == expected.astype(np.float16).tolist()

    def test_moments_are_float32(self):
        _, main = trained(
            optimizer.Adam(multi_precision=True), {"w": np.ones(2, np.float16), "v": np.ones(2, np.float32)}
        )
        dtypes = {v.name: v.dtype.name for v in main.persistables()}
        assert dtypes["w_moment1_0"] == dtypes["w_fp32_master_0"] == "float32" and dtypes["w"] == "float16"
        assert "v_fp32_master_0" not in dtypes


class TestState:
    @pytest.mark.parametrize(
        ("make", "expected"),
        [
            (lambda: optimizer.SGD(0.1), {}),
            (lambda: optimizer.Momentum(0.1), {"velocity": 0}),
            (
                lambda: optimizer.Adam(0.1, 0.8, 0.9),
                {"moment1": 0, "moment2": 0, "beta1_pow_acc": 0.8, "beta2_pow_acc": 0.9},
            ),
            (
                lambda: optimizer.AdamW(0.1),
                {"moment1": 0, "moment2": 0, "beta1_pow_acc": 0.9, "beta2_pow_acc": 0.999},
            ),
            (lambda: optimizer.Adagrad(0.1, initial_accumulator_value=0.5), {"moment": 0.5}),
            (lambda: optimizer.RMSProp(0.1), {"momentum": 0, "mean_square": 0, "mean_grad": 0}),
            (lambda: optimizer.Adamax(0.1), {"moment": 0, "inf_norm": 0, "beta1_pow_acc": 0.9}),
            (lambda: optimizer.Adadelta(0.1), {"_avg_squared_grad": 0, "_avg_squared_update": 0}),
            (
                lambda: optimizer.Lamb(0.1),
                {"moment1": 0, "moment2": 0, "beta1_pow_acc": 0.9, "beta2_pow_acc": 0.999},
            ),
        ],
        ids=["sgd", "momentum", "adam", "adamw", "adagrad", "rmsprop", "adamax", "adadelta", "lamb"],
    )
    def test_p6_names_and_initial_values(self, make, expected):
        with program() as (main, startup):
            make().minimize(find_op("mean")(fc(data("X", [None, 1]), 2, bias_attr=False)))
        session = Session(main, startup)
        state = {v.name: v for v in main.persistables() if not v.is_parameter}
        assert set(state) == {"learning_rate_0", *(f"fc_0.w_0_{kind}_0" for kind in expected)}
        for kind, value in expected.items():
            initial = session.value(f"fc_0.w_0_{kind}_0")
            assert initial.shape == ((1,) if "pow" in kind else (1, 2)) and np.all(initial == np.float32(value))
        assert session.value("learning_rate_0").tolist() == [np.float32(0.1)]

    def test_p13_state_is_filled_after_the_parameters(self):
        with program() as (_, startup):
            optimizer.Momentum(0.1).minimize(regression())
        assert outputs(startup) == [
            "fc_0.w_0", "fc_0.b_0", "fc_0.b_0_velocity_0", "fc_0.w_0_velocity_0", "learning_rate_0",
        ]  # fmt: skip

    def test_an_optimizers_name_shows(self):
        with program() as (main, _):
            optimizer.Momentum(0.1, name="m").minimize(regression())
        assert main.global_block().has_var("fc_0.w_0_m_velocity_0")

    @pytest.mark.filterwarnings("ignore::workbench.framework.notice.Notice")
    def test_two_optimizers_have_two_states(self):
        with program() as (main, _):
            loss = regression()
            optimizer.Momentum(0.1).minimize(loss, parameters=["fc_0.w_0"])
            optimizer.Momentum(0.2).minimize(loss, parameters=["fc_0.w_0"])
        kept = [v.name for v in main.persistables() if not v.is_parameter]
        assert kept == ["fc_0.w_0_velocity_0", "learning_rate_0", "fc_0.w_0_velocity_1", "learning_rate_1"]

    @pytest.mark.filterwarnings("ignore::workbench.framework.notice.Notice")
    def test_one_optimizer_twice_keeps_one_state(self):
        opt = optimizer.Momentum(0.1, 0.5)
        with program() as (main, startup):
            w, v = np.array([1.0]), np.array([1.0])
            loss = weighted({"w": w, "v": v})
            opt.minimize(loss)
            opt.minimize(loss)
        assert len([x for x in main.persistables() if "velocity" in x.name]) == 2
        session = Session(main, startup)
        session.run([], g_w=np.array([2.0]), g_v=np.array([0.0]))
        assert session.value("w") == pytest.approx([1 - 0.1 * 2 - 0.1 * (0.5 * 2 + 2)])

    def test_one_optimizer_on_two_programs(self):
        opt = optimizer.Momentum(0.1, 0.5)
        for start in (1.0, 2.0):
            assert history(opt, [start], [[2.0]] * 2).ravel() == pytest.approx([start - 0.2, start - 0.5])

    @pytest.mark.filterwarnings("ignore::workbench.framework.notice.Notice")
    def test_fresh_counters_over_the_same_program_do_not_share_states(self):
        with program() as (main, _):
            loss = regression()
            optimizer.Momentum(0.1).minimize(loss, parameters=["fc_0.w_0"])
            with names.guard():
                optimizer.Momentum(0.1).minimize(loss, parameters=["fc_0.w_0"])
        kept = [v.name for v in main.persistables() if not v.is_parameter]
        assert kept == ["fc_0.w_0_velocity_0", "learning_rate_0", "fc_0.w_0_velocity_1", "learning_rate_1"]
