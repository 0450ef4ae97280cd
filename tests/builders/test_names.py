"""Names of layers, parameters and temporaries: rules P-1 … P-5, P-7."""

from tests.builders.building import outputs, program, types
from workbench.builders.data import data
from workbench.builders.nn.conv import conv2d, conv2d_transpose
from workbench.builders.nn.dense import embedding, fc
from workbench.builders.nn.norm import batch_norm, layer_norm
from workbench.builders.param_attr import ParamAttr
from workbench.framework import names


def parameters(main):
    return [p.name for p in main.all_parameters()]


def test_p1_one_counter_per_key():
    with names.guard():
        assert [names.generate(k) for k in ("fc", "fc", "mean", "fc")] == ["fc_0", "fc_1", "mean_0", "fc_2"]


def test_p2_a_layer_is_called_after_its_type():
    with program() as (main, _):
        x = data("x", [None, 3])
        fc(fc(x, 4), 1)
        assert parameters(main) == ["fc_0.w_0", "fc_0.b_0", "fc_1.w_0", "fc_1.b_0"]


def test_p2_a_users_name_does_not_advance_the_counter():
    with program() as (main, _):
        x = data("x", [None, 3])
        fc(x, 1, name="foo")
        fc(x, 1)
        assert parameters(main) == ["foo.w_0", "foo.b_0", "fc_0.w_0", "fc_0.b_0"]
        assert outputs(main) == ["foo.tmp_0", "foo.tmp_1", "fc_0.tmp_0", "fc_0.tmp_1"]


def test_p2_a_users_name_twice_counts_on():
    with program() as (main, _):
        x = data("x", [None, 3])
        fc(x, 1, name="foo")
        fc(x, 2, name="foo")
        assert parameters(main) == ["foo.w_0", "foo.b_0", "foo.w_1", "foo.b_1"]


def test_p3_a_parameters_name_is_taken_verbatim():
    with program() as (main, _):
        fc(data("x", [None, 3]), 1, weight_attr=ParamAttr(name="mine"), bias_attr="its bias")
        assert parameters(main) == ["mine", "its bias"]


def test_p4_temporaries_of_fc():
    with program() as (main, _):
        out = fc(data("x", [None, 3]), 4, activation="relu")
        assert types(main) == ["mul", "elementwise_add", "relu"]
        assert outputs(main) == ["fc_0.tmp_0", "fc_0.tmp_1", "fc_0.tmp_2"]
        assert out.name == "fc_0.tmp_2" and out.shape == (-1, 4)


def test_p4_no_bias_no_parameter():
    with program() as (main, _):
        fc(data("x", [None, 3]), 4, bias_attr=False, activation="relu")
        assert parameters(main) == ["fc_0.w_0"]
        assert list(zip(types(main), outputs(main))) == [("mul", "fc_0.tmp_0"), ("relu", "fc_0.tmp_1")]


def test_p4_list_input():
    with program() as (main, _):
        fc([data("a", [None, 3]), data("b", [None, 2])], 4)
        assert parameters(main) == ["fc_0.w_0", "fc_0.w_1", "fc_0.b_0"]
        assert types(main) == ["mul", "mul", "sum", "elementwise_add"]
        assert outputs(main) == ["fc_0.tmp_0", "fc_0.tmp_1", "fc_0.tmp_2", "fc_0.tmp_3"]


def test_p5_batch_norm():
    with program() as (main, _):
        out = batch_norm(data("x", [None, 3]))
        op = main.global_block().ops[0]
        assert parameters(main) == [
            "batch_norm_0.w_0",
            "batch_norm_0.b_0",
            "batch_norm_0.w_1",
            "batch_norm_0.w_2",
        ]
        assert op.inputs == {
            "X": ["x"],
            "Scale": ["batch_norm_0.w_0"],
            "Bias": ["batch_norm_0.b_0"],
            "Mean": ["batch_norm_0.w_1"],
            "Variance": ["batch_norm_0.w_2"],
        }
        assert op.output("SavedMean") == ["batch_norm_0.tmp_0"]
        assert op.output("SavedVariance") == ["batch_norm_0.tmp_1"]
        assert op.output("Y") == [out.name] == ["batch_norm_0.tmp_2"]
        assert op.output("MeanOut") == ["batch_norm_0.w_1"] and op.output("VarianceOut") == ["batch_norm_0.w_2"]


def test_p4_convolutions():
    with program() as (main, _):
        out = conv2d(data("x", [None, 3, 8, 8]), 4, 3, act="relu")
        conv2d_transpose(out, 2, filter_size=2)
        assert out.name == "conv2d_0.tmp_2" and main.global_block().ops[0].output("Output") == ["conv2d_0.tmp_0"]
        assert parameters(main) == [
            "conv2d_0.w_0",
            "conv2d_0.b_0",
            "conv2d_transpose_0.w_0",
            "conv2d_transpose_0.b_0",
        ]


def test_other_layers():
    with program() as (main, _):
        rows = embedding(data("ids", [None, 5], "int64"), [10, 4])
        out = layer_norm(rows, begin_norm_axis=2, act="tanh")
        assert rows.name == "embedding_0.tmp_0" and rows.shape == (-1, 5, 4)
        assert parameters(main) == ["embedding_0.w_0", "layer_norm_0.w_0", "layer_norm_0.b_0"]
        assert out.name == "layer_norm_0.tmp_3"
        assert main.global_block().ops[1].output("Y") == ["layer_norm_0.tmp_2"]


def test_p7_a_prefix_shows_at_both_levels():
    with program() as (main, _):
        x = data("x", [None, 3])
        fc(x, 1)
        with names.guard("pre_"):
            fc(x, 1)
        fc(x, 1)
        assert parameters(main)[::2] == ["fc_0.w_0", "pre_pre_fc_0.w_0", "fc_1.w_0"]


def test_p7_fresh_counters_over_the_same_program_share_nothing_by_accident():
    with program() as (main, _):
        x = data("x", [None, 3])
        first = fc(x, 1)
        with names.guard():
            second = fc(x, 2)
        assert parameters(main) == ["fc_0.w_0", "fc_0.b_0", "fc_0.w_1", "fc_0.b_1"]
        assert first.name != second.name
        assert len(set(outputs(main))) == len(outputs(main)) == 4
