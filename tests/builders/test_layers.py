"""What the layers compute, against NumPy written out."""

import numpy as np
import pytest
from scipy import stats

from tests.builders.building import Session, program
from workbench.builders.data import data
from workbench.builders.initializers.initializer import Assign, Normal
from workbench.builders.nn.conv import conv2d, conv2d_transpose
from workbench.builders.nn.dense import embedding, fc
from workbench.builders.nn.norm import batch_norm, layer_norm
from workbench.builders.param_attr import ParamAttr
from workbench.errors import InvalidArgument, InvalidType

RNG = np.random.default_rng(5)


def array(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


def run(build, fetch_parameters=(), **feeds):
    """The output of the layer `build(**variables)` makes, and parameters by name."""
    with program(1) as (main, startup):
        variables = {k: data(k, [None, *v.shape[1:]], v.dtype) for k, v in feeds.items()}
        out = build(**variables)
        session = Session(main, startup)
    (value,) = session.run([out], **feeds)
    assert all(d in (-1, n) for d, n in zip(out.shape, value.shape, strict=True))
    return value, {p.name: session.value(p.name) for p in main.all_parameters()}


class TestFc:
    def test_affine_then_activation(self):
        x = array(5, 3)
        y, p = run(lambda x: fc(x, 4, bias_attr=Normal(), activation="tanh"), x=x)
        expected = np.tanh(
            [[sum(r[k] * p["fc_0.w_0"][k, j] for k in range(3)) for j in range(4)] for r in x] + p["fc_0.b_0"]
        )
        assert np.allclose(y, expected, atol=1e-6)

    @pytest.mark.parametrize("dims", [1, 2, 3, -1])
    def test_num_flatten_dims(self, dims):
        x = array(2, 3, 4, 5)
        y, p = run(lambda x: fc(x, 6, num_flatten_dims=dims, bias_attr=Normal()), x=x)
        rows = 3 if dims == -1 else dims
        w = p["fc_0.w_0"]
        assert w.shape == (int(np.prod(x.shape[rows:])), 6)
        expected = np.einsum("rf,fs->rs", x.reshape(-1, w.shape[0]), w).reshape(*x.shape[:rows], 6) + p["fc_0.b_0"]
        assert y.shape == expected.shape and np.allclose(y, expected, atol=1e-5)

    def test_several_inputs_are_added(self):
        a, b = array(4, 3), array(4, 2)
        y, p = run(lambda a, b: fc([a, b], 5), a=a, b=b)
        assert np.allclose(y, a @ p["fc_0.w_0"] + b @ p["fc_0.w_1"], atol=1e-5)

    def test_softmax_is_an_activation(self):
        y, _ = run(lambda x: fc(x, 4, activation="softmax"), x=array(6, 3))
        assert np.allclose(y.sum(axis=1), 1, atol=1e-6) and (y > 0).all()

    def test_integer_input(self):
        with program(), pytest.raises(InvalidType, match="floating-point"):
            fc(data("x", [None, 3], "int64"), 1)

    def test_unknown_features(self):
        with program(), pytest.raises(InvalidArgument, match="have to be known"):
            fc(data("x", [None, None]), 1)

    @pytest.mark.parametrize("dims", [0, 3, -2])
    def test_dims_out_of_range(self, dims):
        with program(), pytest.raises(InvalidArgument, match=f"got:      {dims}"):
            fc(data("x", [None, 2, 3]), 1, num_flatten_dims=dims)


class TestEmbedding:
    def test_rows_by_id(self):
        ids = np.array([[0, 3], [3, 1]])
        y, p = run(lambda ids: embedding(ids, [4, 3]), ids=ids)
        table = p["embedding_0.w_0"]
        assert np.array_equal(y, [[table[i] for i in row] for row in ids])

    @pytest.mark.parametrize("padding", [1, -3])
    def test_padding(self, padding):
        y, p = run(lambda ids: embedding(ids, (4, 3), padding_idx=padding), ids=np.array([[1, 2]]))
        assert not y[0, 0].any() and np.array_equal(y[0, 1], p["embedding_0.w_0"][2])

    def test_bad_sizes(self):
        with program():
            ids = data("ids", [None, 1], "int64")
            with pytest.raises(InvalidArgument, match="vocabulary, width"):
                embedding(ids, [4])
            with pytest.raises(InvalidArgument, match="padding_idx"):
                embedding(ids, [4, 2], padding_idx=4)


class TestConvolutions:
    @pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
    def test_conv2d(self, layout):
        x = array(2, 4, 5, 5)
        fed = x if layout == "NCHW" else x.transpose(0, 2, 3, 1).copy()
        options = {"groups": 2, "bias_attr": Normal(), "act": "relu", "data_format": layout}
        y, p = run(lambda x: conv2d(x, 6, (3, 2), stride=2, padding=1, **options), x=fed)
        w, b = p["conv2d_0.w_0"], p["conv2d_0.b_0"]
        assert w.shape == (6, 2, 3, 2)
        padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1))).astype(np.float64)
        expected = np.zeros((2, 6, 3, 3))
        for n, k, i, j in np.ndindex(*expected.shape):
            first = 2 * (k // 3)  # the first channel of the filter's group
            window = padded[n, first : first + 2, 2 * i : 2 * i + 3, 2 * j : 2 * j + 2]
            expected[n, k, i, j] = max((window * w[k]).sum() + b[k], 0)
        got = y if layout == "NCHW" else y.transpose(0, 3, 1, 2)
        assert np.allclose(got, expected, atol=1e-5)

    def test_the_default_filter_is_normal(self):
        _, p = run(lambda x: conv2d(x, 64, 5), x=array(1, 32, 6, 6))
        std = np.sqrt(2 / (25 * 32))
        assert stats.kstest(p["conv2d_0.w_0"].ravel(), stats.norm(0, std).cdf).pvalue > 1e-3
        assert not p["conv2d_0.b_0"].any()

    def test_transpose_is_the_adjoint_of_conv2d(self):
        x, y = array(1, 3, 9, 9), array(1, 5, 4, 4)
        back, p = run(lambda y: conv2d_transpose(y, 3, filter_size=3, stride=2, bias_attr=False), y=y)
        w = p["conv2d_transpose_0.w_0"]
        forth, _ = run(lambda x: conv2d(x, 5, 3, stride=2, param_attr=Assign(w), bias_attr=False), x=x)
        assert back.shape == x.shape and forth.shape == y.shape
        assert np.vdot(forth, y) == pytest.approx(np.vdot(x, back), rel=1e-4)

    @pytest.mark.parametrize("size", [8, (9, 10)])
    def test_transpose_with_a_wanted_size(self, size):
        with program() as (main, _):
            out = conv2d_transpose(data("x", [None, 2, 4, 4]), 3, output_size=size, stride=2, padding=1)
            assert out.shape[2:] == ((8, 8) if size == 8 else size)
            assert main.all_parameters()[0].shape[:2] == (2, 3)

    @pytest.mark.parametrize(
        ("build", "message"),
        [
            (lambda x: conv2d(x, 4, 3, groups=2), "multiple of groups=2"),
            (lambda x: conv2d(x, 4, 3, groups=3), "4 filters cannot be divided into 3 groups"),
            (lambda x: conv2d(x, 0, 3), "at least one filter"),
            (lambda x: conv2d(x, 4, 0), "filter_size of at least 1"),
            (lambda x: conv2d(x, 4, 3, data_format="CHWN"), "'NCHW' or 'NHWC'"),
            (lambda x: conv2d(x, 4, 3, param_attr=False), "param_attr must not be False"),
            (lambda x: conv2d_transpose(x, 4), "filter_size or an output_size"),
            (lambda x: conv2d_transpose(x, 4, 8, padding="SAME"), "padding='SAME'"),
            (lambda x: conv2d(fc(x, 3), 4, 3), "four dimensions"),
        ],
    )
    def test_bad_arguments(self, build, message):
        with program(), pytest.raises(InvalidArgument, match=message):
            build(data("x", [None, 3, 4, 4]))


class TestNorms:
    def test_batch_norm_in_training(self):
        x = array(4, 3, 2, 2)
        y, p = run(lambda x: batch_norm(x, param_attr=Normal(), bias_attr=Normal(), momentum=0.8), x=x)
        for c in range(3):
            channel = x[:, c].astype(np.float64)
            mean, variance = channel.mean(), channel.var()
            expected = (channel - mean) / np.sqrt(variance + 1e-5) * p["batch_norm_0.w_0"][c] + p["batch_norm_0.b_0"][c]
            assert np.allclose(y[:, c], expected, atol=1e-5)
            assert p["batch_norm_0.w_1"][c] == pytest.approx(0.2 * mean, abs=1e-6)
            assert p["batch_norm_0.w_2"][c] == pytest.approx(0.8 + 0.2 * variance, abs=1e-5)

    @pytest.mark.parametrize("option", ["is_test", "use_global_stats"])
    def test_batch_norm_with_moving_statistics(self, option):
        x = array(4, 3)
        y, p = run(lambda x: batch_norm(x, epsilon=0.5, **{option: True}), x=x)
        assert np.allclose(y, x / np.sqrt(1.5), atol=1e-6)
        assert p["batch_norm_0.w_1"].tolist() == [0, 0, 0] and p["batch_norm_0.w_2"].tolist() == [1, 1, 1]

    def test_batch_norm_channels_last(self):
        y, p = run(lambda x: batch_norm(x, data_layout="NHWC", act="relu"), x=array(2, 4, 4, 3))
        assert p["batch_norm_0.w_0"].shape == (3,) and (y >= 0).all() and y.any()

    def test_batch_norm_in_half_precision_keeps_float32_statistics(self):
        _, p = run(lambda x: batch_norm(x), x=array(4, 3).astype(np.float16))
        assert {v.dtype for v in p.values()} == {np.dtype(np.float32)}

    @pytest.mark.parametrize("axis", [1, 2])
    def test_layer_norm(self, axis):
        x = array(2, 3, 4)
        y, p = run(lambda x: layer_norm(x, begin_norm_axis=axis, param_attr=Normal(), bias_attr=Normal()), x=x)
        rows = x.reshape(*x.shape[:axis], -1).astype(np.float64)
        normal = (rows - rows.mean(-1, keepdims=True)) / np.sqrt(rows.var(-1, keepdims=True) + 1e-5)
        expected = normal * p["layer_norm_0.w_0"] + p["layer_norm_0.b_0"]
        assert np.allclose(y.reshape(expected.shape), expected, atol=1e-5)

    def test_layer_norm_without_scale_and_shift(self):
        for options in ({"scale": False, "shift": False}, {"param_attr": False, "bias_attr": False}):
            _, p = run(lambda x, options=options: layer_norm(x, **options), x=array(2, 3))
            assert not p

    def test_bad_arguments(self):
        with program():
            x = data("x", [None, 3])
            with pytest.raises(InvalidArgument, match=r"\[1, 2\)"):
                layer_norm(x, begin_norm_axis=2)
            with pytest.raises(InvalidArgument, match="at least two dimensions"):
                batch_norm(data("v", [3]))
            with pytest.raises(InvalidType, match="floating-point"):
                layer_norm(data("i", [None, 3], "int64"))

    def test_two_models_share_statistics_by_name(self):
        with program() as (main, _):
            x = data("x", [None, 3])
            for _ in range(2):
                batch_norm(
                    x,
                    param_attr=ParamAttr("s"),
                    bias_attr="b",
                    moving_mean_name="m",
                    moving_variance_name="v",
                )
            assert [p.name for p in main.all_parameters()] == ["s", "b", "m", "v"]
