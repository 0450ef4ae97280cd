"""ParamAttr and parameters: rules P-3, P-11, P-13; building is all or nothing."""

import numpy as np
import pytest

from tests.builders.building import Session, program, types
from workbench.builders.data import data
from workbench.builders.initializers.initializer import Constant, Normal, Uniform
from workbench.builders.nn.conv import conv2d
from workbench.builders.nn.dense import embedding, fc
from workbench.builders.nn.norm import batch_norm
from workbench.builders.param_attr import ParamAttr, spread_attr, to_attr
from workbench.builders.variables import create_global_var, create_parameter
from workbench.errors import AlreadyExists, EnforceNotMet, InvalidArgument, InvalidType, PreconditionNotMet
from workbench.framework.op.evaluate import Evaluator
from workbench.framework.op.recorder import recording
from workbench.framework.program.guard import program_guard
from workbench.framework.program.program import Program
from workbench.optimizer.regularizer import L1Decay, L2Decay


def state(of):
    """Everything a failing layer must leave alone."""
    return [([repr(op) for op in b.ops], {n: repr(v) for n, v in b.vars.items()}) for b in of.blocks], of.streams


class TestParamAttr:
    @pytest.mark.parametrize("value", [None, True])
    def test_defaults(self, value):
        assert vars(to_attr(value)) == {
            "name": None,
            "initializer": None,
            "learning_rate": 1.0,
            "regularizer": None,
            "trainable": True,
            "do_model_average": False,
            "need_clip": True,
        }

    def test_conversions(self):
        attr, init, decay = ParamAttr(name="a"), Constant(1.0), L2Decay(0.1)
        assert to_attr(False) is None
        assert to_attr(attr) is attr
        assert to_attr("w").name == "w"
        assert to_attr(init).initializer is init
        assert to_attr(decay).regularizer is decay

    @pytest.mark.parametrize("value", [3, 1.5, [], object()])
    def test_anything_else_is_refused(self, value):
        with pytest.raises(InvalidType, match="bias_attr takes"):
            to_attr(value, "bias_attr")

    @pytest.mark.parametrize(
        ("field", "value"),
        [
            ("name", 3),
            ("name", ""),
            ("initializer", 0.5),
            ("regularizer", 0.5),
            ("learning_rate", "1"),
            ("learning_rate", True),
            ("learning_rate", -1.0),
            ("learning_rate", float("nan")),
        ],
    )
    def test_bad_fields_are_named(self, field, value):
        with pytest.raises(InvalidArgument, match=field):
            ParamAttr(**{field: value})

    def test_spreading_over_inputs(self):
        assert spread_attr(None, 2, "weight_attr") == [None, None]
        assert spread_attr("w", 2, "weight_attr") == ["w", "w"]
        assert spread_attr([None, "w"], 2, "weight_attr") == [None, "w"]
        with pytest.raises(InvalidArgument, match="weight_attr is a list of 1 for 2 inputs"):
            spread_attr([None], 2, "weight_attr")


class TestCreation:
    def test_p11_in_both_programs(self):
        attr = ParamAttr(learning_rate=0.5, regularizer=L1Decay(0.1), trainable=False, need_clip=False)
        with program() as (main, startup):
            fc(data("x", [None, 3]), 2, weight_attr=attr)
        for p in (main.global_block().var("fc_0.w_0"), startup.global_block().var("fc_0.w_0")):
            assert p.is_parameter and p.persistable and not p.trainable and p.stop_gradient and not p.need_clip
            assert p.shape == (3, 2) and p.dtype == "float32"
            assert p.optimize_attr == {"learning_rate": 0.5} and p.regularizer == L1Decay(0.1)
        bias = main.global_block().var("fc_0.b_0")
        assert bias.trainable and not bias.stop_gradient and bias.shape == (2,)

    def test_p11_moving_statistics_are_parameters_without_gradient(self):
        with program() as (main, _):
            batch_norm(data("x", [None, 3, 4, 4]), moving_mean_name="m")
            for name in ("m", "batch_norm_0.w_1"):
                p = main.global_block().var(name)
                assert p.is_parameter and p.stop_gradient and not p.trainable and p.shape == (3,)

    def test_p13_startup_ops_in_creation_order(self):
        with program() as (_, startup):
            x = data("x", [None, 3])
            fc(fc(x, 2, bias_attr=Uniform()), 1, weight_attr=Normal())
        assert types(startup) == ["uniform_random", "uniform_random", "gaussian_random", "fill_constant"]
        written = [op.output_arg_names[0] for op in startup.global_block().ops]
        assert written == ["fc_0.w_0", "fc_0.b_0", "fc_1.w_0", "fc_1.b_0"]

    def test_the_users_attribute_is_not_changed(self):
        attr = ParamAttr()
        with program():
            x = data("x", [None, 3])
            fc(fc(x, 3, weight_attr=attr), 3, weight_attr=attr)
        assert attr.name is None and attr.initializer is None

    def test_create_parameter(self):
        with program() as (main, startup):
            w = create_parameter([2, 3], "float64")
            b = create_parameter((3,), "float32", is_bias=True)
            n = create_parameter([1], "int64", name="counter", default_initializer=Constant(7))
            session = Session(main, startup)
        assert (w.name, b.name, n.name) == ("create_parameter_0.w_0", "create_parameter_1.b_0", "counter")
        assert session.value(w.name).dtype == np.float64 and np.ptp(session.value(w.name)) > 0
        assert session.value(b.name).tolist() == [0, 0, 0]
        assert session.value("counter").tolist() == [7] and session.value("counter").dtype == np.int64

    def test_create_global_var(self):
        with program() as (main, startup):
            variable = create_global_var([2], 1.5, "float32", persistable=True, name="g")
            create_global_var([1], 3, "int32")
            session = Session(main, startup)
        assert variable.persistable and variable.stop_gradient and not variable.is_parameter
        assert session.value("g").tolist() == [1.5, 1.5]
        assert session.value("_generated_var_0").tolist() == [3]

    def test_integer_parameters_need_an_initializer(self):
        with program(), pytest.raises(InvalidType, match="int64 has no default initializer"):
            create_parameter([1], "int64")

    @pytest.mark.parametrize("shape", [[-1, 2], [0]])
    def test_unknown_or_empty_dimensions(self, shape):
        with program(), pytest.raises(InvalidArgument, match="must be known and at least 1"):
            create_parameter(shape, "float32")


class TestSharing:
    def test_p3_the_same_name_is_the_same_parameter(self):
        with program() as (main, startup):
            x = data("x", [None, 3])
            fc(x, 2, weight_attr="w", bias_attr=False)
            fc(x, 2, weight_attr=ParamAttr("w", Constant(9.0)), bias_attr=False)
        assert [p.name for p in main.all_parameters()] == ["w"]
        assert types(startup) == ["uniform_random"]  # initialised once, the first way
        assert [op.input("Y") for op in main.global_block().ops] == [["w"], ["w"]]

    @pytest.mark.parametrize(("size", "dtype"), [(4, "float32"), (2, "float64")])
    def test_p3_a_mismatch_names_both(self, size, dtype):
        with program() as (main, startup):
            fc(data("x", [None, 3]), 2, weight_attr="w")
            y = data("y", [None, 3], dtype)
            before = state(main), state(startup)
            with pytest.raises(InvalidArgument) as error:
                fc(y, size, weight_attr="w")
            assert (state(main), state(startup)) == before
        text = str(error.value)
        assert "'w'" in text and "float32[3, 2]" in text and f"{dtype}[3, {size}]" in text and __file__ in text

    def test_a_name_that_is_no_parameter(self):
        with program():
            x = data("x", [3, 2])
            with pytest.raises(AlreadyExists, match="'x' is taken"):
                fc(x, 2, weight_attr="x")

    def test_two_programs_with_one_startup_share_by_name(self):
        startup, train, test = Program(), Program(), Program()
        for main in (train, test):
            with program(), program_guard(main, startup):
                fc(data("x", [None, 3]), 2)
        assert [p.name for p in test.all_parameters()] == [p.name for p in train.all_parameters()]
        assert types(startup) == ["uniform_random", "fill_constant"]

    def test_two_programs_with_one_startup_that_disagree(self):
        startup = Program()
        with program(), program_guard(Program(), startup):
            fc(data("x", [None, 3]), 2)
        with (
            program(),
            program_guard(Program(), startup),
            pytest.raises(InvalidArgument, match=r"'fc_0\.w_0'"),
        ):
            fc(data("x", [None, 5]), 2)


class TestAllOrNothing:
    @pytest.mark.parametrize(
        "build",
        [
            lambda x: fc(x, 2, activation="rely"),
            lambda x: fc(x, 2, weight_attr=False),
            lambda x: fc(x, 2, bias_attr=7),
            lambda x: fc(x, 2, bias_attr=Normal(0.0, 1.0), weight_attr=ParamAttr("x")),
            lambda x: fc(x, 2, num_flatten_dims=2),
            lambda x: fc(x, 0),
            lambda x: fc([], 2),
            lambda x: fc([x, np.zeros(3)], 2),
            lambda x: batch_norm(x, data_layout="NCWH"),
            lambda x: batch_norm(x, bias_attr=False),
            lambda x: conv2d(x, 2, 3),
            lambda x: embedding(x, [3, 2]),
        ],
    )
    def test_a_failing_layer_leaves_nothing(self, build):
        with program() as (main, startup):
            x = data("x", [None, 3])
            fc(x, 1)
            before = state(main), state(startup)
            with pytest.raises(EnforceNotMet):
                build(x)
            assert (state(main), state(startup)) == before
            fc(x, 1)  # and the programs still work

    def test_a_failing_initializer_leaves_nothing(self):
        from workbench.builders.initializers.initializer import Assign

        with program() as (main, startup):
            x = data("x", [None, 3])
            before = state(main), state(startup)
            with pytest.raises(InvalidArgument, match="another shape"):
                fc(x, 2, bias_attr=Assign([1.0, 2.0, 3.0]))
            assert (state(main), state(startup)) == before


def test_layers_say_enable_static_in_dynamic_mode():
    with program():
        x = data("x", [None, 3])
    with recording(Evaluator(np)):
        for build in (lambda: fc(x, 1), lambda: create_parameter([1], "float32"), lambda: batch_norm(x)):
            with pytest.raises(PreconditionNotMet, match=r"enable_static\(\)"):
                build()


def test_activations_are_found_by_name():
    with program(), pytest.raises(InvalidArgument, match=r"'rely'.*Did you mean 'relu'\?"):
        fc(data("x", [None, 3]), 1, activation="rely")
    with program(), pytest.raises(InvalidArgument, match="no activation 'elementwise_add'"):
        fc(data("x", [None, 3]), 1, activation="elementwise_add")
    with program(), pytest.raises(InvalidType, match="name of an activation"):
        fc(data("x", [None, 3]), 1, activation=np.tanh)


def test_layer_names_are_strings():
    with program(), pytest.raises(InvalidType, match="fc takes a string or None as name, got 3"):
        fc(data("x", [None, 3]), 1, name=3)
