"""Initializers: rules P-12, P-14; bounds, moments, reproducibility."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from tests.builders.building import Session, initialised, program
from workbench.builders.data import data
from workbench.builders.initializers import default as default_initializer
from workbench.builders.initializers import fans as fan_initializer
from workbench.builders.initializers import initializer as init
from workbench.builders.nn.dense import fc
from workbench.builders.nn.norm import batch_norm
from workbench.builders.param_attr import ParamAttr
from workbench.builders.variables import create_parameter
from workbench.config import override
from workbench.errors import InvalidArgument, InvalidType
from workbench.framework.values.dtype import float32

SIDE = 200


def drawn(initializer, shape=(SIDE, SIDE), dtype="float32", seed=7):
    return initialised(seed, lambda: create_parameter(shape, dtype, "w", default_initializer=initializer))["w"]


def same_distribution(sample, distribution):
    """Kolmogorov-Smirnov; the seed is fixed, so this fails always or never."""
    return stats.kstest(sample.ravel(), distribution.cdf).pvalue > 1e-3


class TestFans:
    @pytest.mark.parametrize(
        ("shape", "expected"),
        [((), (1, 1)), ((5,), (5, 5)), ((3, 7), (3, 7)), ((8, 4, 3), (12, 24)), ((6, 2, 3, 5), (30, 90))],
    )
    def test_p12(self, shape, expected):
        assert fan_initializer.fans(shape) == expected


class TestDistributions:
    def test_p12_the_default_of_weights_is_xavier_uniform(self):
        values = drawn(None, (300, 100))
        limit = math.sqrt(6 / 400)
        assert values.min() >= -limit and values.max() < limit
        assert same_distribution(values, stats.uniform(-limit, 2 * limit))

    def test_p12_other_defaults(self):
        def build():
            fc(data("x", [None, 3]), 2)
            batch_norm(data("y", [None, 2, 4, 4]))

        values = initialised(0, build)
        assert values["fc_0.b_0"].tolist() == [0, 0]
        assert values["batch_norm_0.w_0"].tolist() == [1, 1] and values["batch_norm_0.b_0"].tolist() == [0, 0]
        assert values["batch_norm_0.w_1"].tolist() == [0, 0] and values["batch_norm_0.w_2"].tolist() == [1, 1]

    def test_constant(self):
        assert drawn(init.Constant(2.5), (2, 3)).tolist() == [[2.5] * 3] * 2
        assert drawn(init.Constant(2.0), (2,), "int32").tolist() == [2, 2]

    def test_uniform(self):
        assert same_distribution(drawn(init.Uniform(-0.5, 2.0)), stats.uniform(-0.5, 2.5))
        assert same_distribution(drawn(init.Uniform()), stats.uniform(-1.0, 2.0))

    def test_normal(self):
        assert same_distribution(drawn(init.Normal(1.0, 0.25)), stats.norm(1.0, 0.25))
        assert same_distribution(drawn(init.Normal()), stats.norm())

    def test_truncated_normal(self):
        values = drawn(init.TruncatedNormal(1.0, 0.5))
        assert values.min() >= 0.0 and values.max() <= 2.0
        assert same_distribution(values, stats.truncnorm(-2, 2, 1.0, 0.5))

    @pytest.mark.parametrize(
        ("initializer", "std"),
        [
            (fan_initializer.XavierNormal(), math.sqrt(2 / (2 * SIDE))),
            (fan_initializer.XavierNormal(fan_in=50, fan_out=150), math.sqrt(2 / 200)),
            (fan_initializer.XavierNormal(fan_out=600), math.sqrt(2 / (SIDE + 600))),
            (fan_initializer.KaimingNormal(), math.sqrt(2 / SIDE)),
            (fan_initializer.KaimingNormal(fan_in=8), math.sqrt(2 / 8)),
            (fan_initializer.KaimingNormal(nonlinearity="tanh"), 5 / 3 / math.sqrt(SIDE)),
            (fan_initializer.KaimingNormal(negative_slope=0.5, nonlinearity="leaky_relu"), math.sqrt(2 / 1.25 / SIDE)),
        ],
    )
    def test_normal_by_fans(self, initializer, std):
        assert same_distribution(drawn(initializer), stats.norm(0, std))

    @pytest.mark.parametrize(
        ("initializer", "limit"),
        [
            (fan_initializer.XavierUniform(), math.sqrt(6 / (2 * SIDE))),
            (fan_initializer.XavierUniform(fan_in=10, fan_out=14), 0.5),
            (fan_initializer.KaimingUniform(), math.sqrt(6 / SIDE)),
            (fan_initializer.KaimingUniform(fan_in=6), 1.0),
            (fan_initializer.KaimingUniform(fan_in=3, nonlinearity="linear"), 1.0),
        ],
    )
    def test_uniform_by_fans(self, initializer, limit):
        assert same_distribution(drawn(initializer), stats.uniform(-limit, 2 * limit))

    def test_filters_count_the_window(self):
        values = drawn(fan_initializer.KaimingUniform(), (64, 6, 5, 5))
        limit = math.sqrt(6 / 150)
        assert same_distribution(values, stats.uniform(-limit, 2 * limit))

    @pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
    def test_dtypes(self, dtype):
        values = drawn(init.Normal(), dtype=dtype)
        assert values.dtype == dtype
        assert abs(values.astype(np.float64).mean()) < 0.02 and abs(values.astype(np.float64).std() - 1) < 0.02

    def test_assign(self):
        assert drawn(init.Assign([[1, 2], [3, 4]]), (2, 2)).tolist() == [[1, 2], [3, 4]]
        source = np.arange(6, dtype=np.float64).reshape(2, 3)
        attr = init.Assign(source)
        source[:] = -1  # the initializer keeps its own copy
        assert drawn(attr, (2, 3), "int64").tolist() == [[0, 1, 2], [3, 4, 5]]

    def test_assign_of_another_shape(self):
        with pytest.raises(InvalidArgument, match=r"expected: \[2, 2\]\n  got:      \[4\]"):
            drawn(init.Assign([1, 2, 3, 4]), (2, 2))


class TestSeeds:
    """P-14, with a stream per op instead of one for all."""

    def build(self):
        x = data("x", [None, 6])
        fc(fc(x, 6), 6)

    def test_a_seed_reproduces(self):
        first, second, other = (initialised(seed, self.build) for seed in (3, 3, 4))
        assert all(np.array_equal(first[name], second[name]) for name in first)
        assert not np.array_equal(first["fc_0.w_0"], other["fc_0.w_0"])

    def test_equal_shapes_get_different_values(self):
        values = initialised(3, self.build)
        assert not np.array_equal(values["fc_0.w_0"], values["fc_1.w_0"])

    def test_paddles_semantics_give_equal_shapes_equal_values(self):
        with override(paddle_seed_semantics=True):
            values = initialised(3, self.build)
        assert np.array_equal(values["fc_0.w_0"], values["fc_1.w_0"])

    @pytest.mark.parametrize("seed", [3, 0])
    def test_running_startup_again(self, seed):
        with program(seed) as (main, startup):
            self.build()
        session = Session(main, startup)
        first = session.value("fc_0.w_0")
        session.restart()
        assert np.array_equal(first, session.value("fc_0.w_0")) == (seed != 0)

    def test_the_seed_is_fixed_when_the_layer_is_built(self):
        with program(3) as (main, startup):
            self.build()
            startup.random_seed = 4
            fc(data("x", [None, 6]), 6)
        assert [op.attr("seed") for op in startup.global_block().ops if op.has_attr("seed")] == [3, 3, 4]
        expected = initialised(3, self.build)
        assert np.array_equal(Session(main, startup).value("fc_1.w_0"), expected["fc_1.w_0"])

    def test_every_op_has_a_stream_of_its_own_and_is_marked(self):
        with program(3) as (_, startup):
            self.build()
        ops = [op for op in startup.global_block().ops if op.has_attr("stream")]
        assert [op.attr("stream") for op in ops] == [1, 2]
        assert all(op.attr("startup") for op in ops)


class TestGlobal:
    def test_it_replaces_defaults_but_not_attributes(self):
        def build():
            x = data("x", [None, 2])
            fc(x, 2)
            fc(x, 2, weight_attr=init.Constant(1.0), bias_attr=ParamAttr(initializer=init.Constant(2.0)))

        default_initializer.set_global_initializer(init.Constant(5.0), init.Constant(6.0))
        try:
            values = initialised(0, build)
        finally:
            default_initializer.set_global_initializer(None)
        assert [values[n].ravel()[0] for n in ("fc_0.w_0", "fc_0.b_0", "fc_1.w_0", "fc_1.b_0")] == [
            5,
            6,
            1,
            2,
        ]
        assert initialised(0, build)["fc_0.b_0"].tolist() == [0, 0]

    def test_wrong_kind(self):
        with pytest.raises(InvalidType, match="bias_init"):
            default_initializer.set_global_initializer(None, 0.0)
        assert isinstance(default_initializer.default_initializer(False), fan_initializer.XavierUniform)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: init.Uniform(1.0, 0.0), "low <= high"),
        (lambda: init.Uniform(float("nan"), 0.0), "finite low"),
        (lambda: init.Normal(0.0, -1.0), "at least 0"),
        (lambda: init.TruncatedNormal("0", 1.0), "mean"),
        (lambda: fan_initializer.XavierUniform(fan_in=0), "fan_in above 0"),
        (lambda: fan_initializer.KaimingNormal(nonlinearity="rely"), "Did you mean 'relu'"),
        (lambda: init.Constant("1"), "Constant takes a number"),
        (lambda: init.Assign(["a"]), "Assign takes numbers"),
    ],
)
def test_bad_arguments(make, message):
    with pytest.raises(InvalidArgument, match=message):
        make()


@pytest.mark.parametrize(
    ("name", "gain"), [("sigmoid", 1), ("conv2d", 1), ("tanh", 5 / 3), ("relu", math.sqrt(2)), ("selu", 0.75)]
)
def test_gains(name, gain):
    assert fan_initializer.calculate_gain(name) == pytest.approx(gain)


@given(st.floats(-4, 4))
def test_gain_of_leaky_relu(slope):
    """leaky_relu(gain * z) has second moment 1 for standard normal z."""
    gain = fan_initializer.calculate_gain("leaky_relu", slope)
    second_moment = gain**2 * (1 + slope**2) / 2  # E[max(z, 0)^2] = E[min(z, 0)^2] = 1/2
    assert second_moment == pytest.approx(1.0)


@given(st.integers(1, 5000), st.integers(1, 5000))
def test_xavier_matches_its_definition(fan_in, fan_out):
    """Both have variance 2 / (fan_in + fan_out)."""
    _, uniform = fan_initializer.XavierUniform().op((fan_in, fan_out), float32)
    _, normal = fan_initializer.XavierNormal().op((fan_in, fan_out), float32)
    assert uniform["max"] ** 2 / 3 == pytest.approx(2 / (fan_in + fan_out))
    assert normal["std"] ** 2 == pytest.approx(2 / (fan_in + fan_out))
    assert uniform["min"] == -uniform["max"]
