"""From loss to operators: rules P-6, P-32, P-40 … P-48."""

import json

import numpy as np
import pytest

from tests.builders.building import Session, outputs, program, types
from tests.optimizer.stepping import history, total, trained
from workbench import optimizer
from workbench.builders.data import data
from workbench.builders.initializers.initializer import Constant
from workbench.builders.nn.dense import embedding, fc
from workbench.builders.param_attr import ParamAttr
from workbench.errors import InvalidArgument, PreconditionNotMet
from workbench.framework import names
from workbench.framework.op.record import find_op
from workbench.framework.program.program import Program
from workbench.framework.program.roles import BACKWARD, LOSS, LOSS_GRAD, LR_SCHED, OPTIMIZE
from workbench.optimizer import lr
from workbench.optimizer.clip import ClipGradByGlobalNorm, ClipGradByNorm, ClipGradByValue
from workbench.optimizer.regularizer import L1Decay, L2Decay


def regression(hidden=10):
    """The program of the samples: fc, mean."""
    return find_op("mean")(fc(data("X", [None, 1]), hidden))


def optimize_ops(main):
    return [op for op in main.global_block().ops if op.role & OPTIMIZE]


class TestSampleProgram:
    def test_op_by_op(self):
        with program() as (main, startup):
            loss = find_op("mean")(fc(data("X", [None, 3]), 4, activation="relu"))
            optimizer.SGD(learning_rate=0.01).minimize(loss)
        w, b = ("fc_0.w_0", "fc_0.w_0@GRAD"), ("fc_0.b_0", "fc_0.b_0@GRAD")
        seen = [(op.type, op.role, op.role_vars, op.output_arg_names) for op in main.global_block().ops]
        assert seen == [
            ("mul", 0, [], ["fc_0.tmp_0"]),
            ("elementwise_add", 0, [], ["fc_0.tmp_1"]),
            ("relu", 0, [], ["fc_0.tmp_2"]),
            ("mean", LOSS, [], ["mean_0.tmp_0"]),
            ("fill_constant", LOSS_GRAD, [], ["mean_0.tmp_0@GRAD"]),
            ("mean_grad", BACKWARD, [], ["fc_0.tmp_2@GRAD"]),
            ("relu_grad", BACKWARD, [], ["fc_0.tmp_1@GRAD"]),
            ("elementwise_add_grad", BACKWARD, [b], ["fc_0.tmp_0@GRAD", "fc_0.b_0@GRAD"]),
            ("mul_grad", BACKWARD, [w], ["fc_0.w_0@GRAD"]),
            ("sgd", OPTIMIZE, [b], ["fc_0.b_0"]),
            ("sgd", OPTIMIZE, [w], ["fc_0.w_0"]),
        ]
        assert list(zip(types(startup), outputs(startup))) == [
            ("uniform_random", "fc_0.w_0"),
            ("fill_constant", "fc_0.b_0"),
            ("fill_constant", "learning_rate_0"),
        ]
        rate = main.global_block().var("learning_rate_0")
        assert rate.persistable and rate.shape == (1,) and rate.stop_gradient and not rate.is_parameter
        sgd = main.global_block().ops[-1]
        assert sgd.inputs == {
            "Param": ["fc_0.w_0"],
            "Grad": ["fc_0.w_0@GRAD"],
            "LearningRate": ["learning_rate_0"],
        }
        assert sgd.outputs == {"ParamOut": ["fc_0.w_0"]}

    def test_it_learns(self):
        with program(1) as (main, startup):
            x, y = data("x", [None, 2]), data("y", [None, 1])
            error = fc(x, 1) - y
            loss = find_op("mean")(error * error)
            optimizer.SGD(0.1).minimize(loss)
        session = Session(main, startup)
        rng = np.random.default_rng(0)
        xs = rng.standard_normal((64, 2)).astype(np.float32)
        ys = xs @ np.float32([[2.0], [-1.0]]) + np.float32(0.5)
        losses = [float(session.run([loss], x=xs, y=ys)[0][0]) for _ in range(60)]
        assert losses[-1] < 1e-3 * losses[0]
        assert session.value("fc_0.w_0").ravel() == pytest.approx([2.0, -1.0], abs=0.05)


class TestReturn:
    def test_p40_update_ops_and_raw_pairs_in_creation_order(self):
        with program() as (main, _):
            loss = regression()
            decay, clip = L2Decay(0.1), ClipGradByGlobalNorm(1.0)
            ops, pairs = optimizer.SGD(0.1, weight_decay=decay, grad_clip=clip).minimize(loss)
        assert [op.type for op in ops] == ["sgd", "sgd"]
        assert all(op in main.global_block().ops for op in ops)
        assert [(p.name, g.name) for p, g in pairs] == [
            ("fc_0.w_0", "fc_0.w_0@GRAD"),
            ("fc_0.b_0", "fc_0.b_0@GRAD"),
        ]

    def test_p41_updates_sorted_by_name(self):
        with program():
            x = data("x", [None, 2])
            for _ in range(11):
                x = fc(x, 2, bias_attr=False)
            ops, _ = optimizer.SGD(0.1).minimize(find_op("mean")(x))
        updated = [op.input("Param")[0] for op in ops]
        assert updated == sorted(updated)
        assert updated[:3] == ["fc_0.w_0", "fc_1.w_0", "fc_10.w_0"]


class TestOrder:
    def build(self, **options):
        with program() as (main, _):
            loss = find_op("mean")(fc(data("X", [None, 1]), 2, bias_attr=False))
            optimizer.SGD(0.1, **options).minimize(loss)
        return main, [(op.type, op.input_arg_names, op.output_arg_names) for op in optimize_ops(main)]

    def test_p43_decay_alone_is_in_place(self):
        main, ops = self.build(weight_decay=0.5)
        assert ops == [
            ("scale", ["fc_0.w_0"], ["scale_0.tmp_0"]),
            ("sum", ["fc_0.w_0@GRAD", "scale_0.tmp_0"], ["fc_0.w_0@GRAD"]),
            ("sgd", ["fc_0.w_0", "fc_0.w_0@GRAD", "learning_rate_0"], ["fc_0.w_0"]),
        ]
        assert {(op.role, *op.role_vars) for op in optimize_ops(main)} == {(OPTIMIZE, ("fc_0.w_0", "fc_0.w_0@GRAD"))}

    def test_p42_p43_clip_then_decay_on_new_variables(self):
        main, ops = self.build(weight_decay=L1Decay(0.5), grad_clip=ClipGradByNorm(1.0))
        assert ops == [
            ("clip_by_norm", ["fc_0.w_0@GRAD"], ["clip_by_norm_0.tmp_0"]),
            ("sign", ["fc_0.w_0"], ["sign_0.tmp_0"]),
            ("scale", ["sign_0.tmp_0"], ["scale_0.tmp_0"]),
            ("sum", ["clip_by_norm_0.tmp_0", "scale_0.tmp_0"], ["clip_by_norm_0.tmp_0"]),
            ("sgd", ["fc_0.w_0", "clip_by_norm_0.tmp_0", "learning_rate_0"], ["fc_0.w_0"]),
        ]
        assert {(op.role, *op.role_vars) for op in optimize_ops(main)} == {(OPTIMIZE, ("fc_0.w_0", "fc_0.w_0@GRAD"))}

    def test_global_norm_clip(self):
        with program() as (main, _):
            optimizer.SGD(0.1, grad_clip=ClipGradByGlobalNorm(1.0)).minimize(regression())
        ops = optimize_ops(main)
        assert [op.type for op in ops] == [
            *["squared_l2_norm"] * 2, "sum", "sqrt", "fill_constant", "elementwise_max", "elementwise_div",
            *["elementwise_mul"] * 2, *["sgd"] * 2,
        ]  # fmt: skip
        assert ops[-1].input("Grad") == ["elementwise_mul_1.tmp_0"]
        assert {op.role for op in ops} == {OPTIMIZE}
        shared = [op.type for op in ops if not op.role_vars]
        assert shared == ["sum", "sqrt", "fill_constant", "elementwise_max", "elementwise_div"]

    def test_p43_what_is_fetched(self):
        """Without clip `P@GRAD` is the regularised gradient, with clip the raw one."""
        g, w = np.array([3.0, 4.0]), np.array([1.0, 2.0])
        fetched = {}
        for clip in (None, ClipGradByNorm(1.0)):
            session, _ = trained(optimizer.SGD(0.1, weight_decay=0.5, grad_clip=clip), {"w": w})
            (fetched[clip],) = session.run(["w@GRAD"], g_w=g)
            used = g if clip is None else g / 5
            assert session.value("w") == pytest.approx(w - 0.1 * (used + 0.5 * w))
        assert fetched.popitem()[1] == pytest.approx(g)
        assert fetched.popitem()[1] == pytest.approx(g + 0.5 * w)

    def test_p44_a_parameters_own_regularizer_replaces_the_optimizers(self):
        w, g = np.array([2.0, -3.0]), np.array([0.5, 0.25])
        opt = optimizer.SGD(0.1, weight_decay=L2Decay(0.5))
        session, _ = trained(opt, {"a": w, "b": w}, a={"regularizer": L1Decay(0.25)})
        session.run([], g_a=g, g_b=g)
        assert session.value("a") == pytest.approx(w - 0.1 * (g + 0.25 * np.sign(w)))
        assert session.value("b") == pytest.approx(w - 0.1 * (g + 0.5 * w))


class TestLearningRate:
    def test_p46_a_factor_of_its_own(self):
        with program() as (main, _):
            x = data("X", [None, 1])
            loss = find_op("mean")(fc(x, 2, weight_attr=ParamAttr(learning_rate=0.5)))
            ops, _ = optimizer.SGD(0.1).minimize(loss)
        tail = optimize_ops(main)
        assert [op.type for op in tail] == ["sgd", "scale", "sgd"] and [op.type for op in ops] == [
            "sgd",
            "sgd",
        ]
        scale = tail[1]
        assert scale.role == OPTIMIZE | LR_SCHED == 0x12 and not scale.role_vars
        assert scale.input_arg_names == ["learning_rate_0"] and scale.output_arg_names == ["tmp_0"]
        assert ops[1].input("LearningRate") == ["tmp_0"]
        assert history(optimizer.SGD(0.1), [1.0], [[2.0]], learning_rate=0.25) == pytest.approx(1 - 0.1 * 0.25 * 2)
        assert history(optimizer.SGD(0.1), [1.0], [[2.0]], learning_rate=0.0) == pytest.approx(1.0)

    def test_p48_schedules_are_read_before_every_run(self):
        schedule = lr.ExponentialDecay(0.1, 0.5)
        session, main = trained(optimizer.SGD(schedule), {"w": np.array([1.0])})
        assert main.lr_schedulers == {"learning_rate_0": schedule}
        expected = 1.0
        for rate in (0.1, 0.1, 0.05, 0.025):
            (seen,) = session.run(["learning_rate_0"], g_w=np.array([2.0]))
            expected -= rate * 2
            assert seen == pytest.approx([rate]) and session.value("w") == pytest.approx([expected])
            if schedule.last_epoch or expected < 0.7:
                schedule.step()

    def test_get_and_set(self):
        opt = optimizer.SGD(0.1)
        session, main = trained(opt, {"w": np.array([1.0])})
        assert opt.get_lr() == 0.1 and not main.lr_schedulers
        opt.set_lr(0.25)
        session.run([], g_w=np.array([2.0]))
        assert opt.get_lr() == 0.25 and session.value("w") == pytest.approx([0.5])
        opt.set_lr(0.0)
        session.run([], g_w=np.array([2.0]))
        assert session.value("w") == pytest.approx([0.5])
        with pytest.raises(InvalidArgument, match="at least 0"):
            opt.set_lr(-1.0)
        assert opt.get_lr() == 0.0

    def test_a_schedule_is_not_set(self):
        opt = optimizer.SGD(lr.StepDecay(0.1, 2))
        assert opt.get_lr() == 0.1
        with pytest.raises(PreconditionNotMet, match="schedule"):
            opt.set_lr(0.1)

    def test_a_rate_written_to_the_scope_stays(self):
        session, _ = trained(optimizer.SGD(0.1), {"w": np.array([1.0])})
        session.scope.find_var("learning_rate_0").get_tensor().set(np.array([0.5]), None)
        session.run([], g_w=np.array([1.0]))
        assert session.value("w") == pytest.approx([0.5])


class TestGroups:
    def test_options_of_a_group_replace_the_optimizers(self):
        groups = [
            {"params": ["a"], "learning_rate": 0.5, "weight_decay": 0.0},
            {"params": ["b"], "momentum": 0.0, "grad_clip": ClipGradByValue(0.25)},
            {"params": ["c"]},
        ]
        opt = optimizer.Momentum(0.1, 0.9, groups, weight_decay=0.5)
        session, _ = trained(opt, {name: np.array([2.0]) for name in "abcd"})
        for _ in range(2):
            session.run([], g_a=np.array([1.0]), g_b=np.array([1.0]), g_c=np.array([1.0]), g_d=np.array([1.0]))
        assert session.value("a")[0] == pytest.approx(2 - 0.05 * 1 - 0.05 * 1.9)
        b = 2 - 0.1 * (0.25 + 1.0)
        assert session.value("b")[0] == pytest.approx(b - 0.1 * (0.25 + 0.5 * b))
        c, v = 2 - 0.1 * 2.0, 2.0
        assert session.value("c")[0] == pytest.approx(c - 0.1 * (0.9 * v + 1 + 0.5 * c))
        assert session.value("d")[0] == 2.0  # in no group

    def test_a_group_of_adam_may_be_lazy(self):
        opt = optimizer.Adam(0.1, parameters=[{"params": ["a"], "lazy_mode": True}, {"params": ["b"]}])
        _, main = trained(opt, {name: np.array([2.0]) for name in "ab"})
        lazy = {op.inputs["Param"][0]: op.attrs["lazy_mode"] for op in main.global_block().ops if op.record.update}
        assert lazy == {"a": True, "b": False}

    @pytest.mark.parametrize("options", [{}, {"learning_rate": 0.5}])
    def test_one_clip_takes_the_norm_of_each_group_by_itself(self, options):
        """As Paddle 2.6 in dynamic mode: groups (3, 4) and (12) have the norms 5 and 12, not together 13."""
        clip = ClipGradByGlobalNorm(1.0)
        groups = [{"params": ["a", "b"]}, {"params": ["c"], **options}]
        opt = optimizer.SGD(1.0, groups, grad_clip=clip)
        session, _ = trained(opt, {name: np.array([0.0]) for name in "abc"})
        session.run([], g_a=np.array([3.0]), g_b=np.array([4.0]), g_c=np.array([12.0]))
        values = [session.value(name)[0] for name in "abc"]
        np.testing.assert_allclose(values, [-3 / 5, -4 / 5, -options.get("learning_rate", 1.0)], rtol=1e-6)

    def test_global_norms_are_those_of_a_group(self):
        groups = [{"params": ["a", "b"], "grad_clip": ClipGradByGlobalNorm(1.0)}, {"params": ["c"]}]
        session, _ = trained(optimizer.SGD(1.0, groups), {name: np.array([0.0]) for name in "abc"})
        session.run([], g_a=np.array([3.0]), g_b=np.array([4.0]), g_c=np.array([12.0]))
        assert [session.value(name)[0] for name in "abc"] == pytest.approx([-0.6, -0.8, -12.0])


class TestSelection:
    def test_parameters_of_the_constructor_and_of_minimize(self):
        with program():
            loss = regression()
            opt = optimizer.SGD(0.1, parameters=["fc_0.w_0"])
            _, pairs = opt.minimize(loss)
            assert [p.name for p, _ in pairs] == ["fc_0.w_0"]
            _, pairs = opt.minimize(loss, parameters=["fc_0.b_0"])
            assert [p.name for p, _ in pairs] == ["fc_0.b_0"]

    def test_parameters_that_are_not_trained(self):
        with program():
            x = data("X", [None, 1])
            loss = find_op("mean")(fc(x, 2, weight_attr=ParamAttr(trainable=False)))
            ops, pairs = optimizer.SGD(0.1).minimize(loss)
        assert [p.name for p, _ in pairs] == ["fc_0.b_0"] and len(ops) == 1

    def test_no_grad_set(self):
        with program():
            loss = regression()
            _, pairs = optimizer.SGD(0.1).minimize(loss, no_grad_set={"fc_0.b_0"})
        assert [p.name for p, _ in pairs] == ["fc_0.w_0"]

    def test_in_two_parts(self):
        with program() as (main, _):
            loss = regression()
            opt = optimizer.SGD(0.1)
            pairs = opt.backward(loss)
            assert not optimize_ops(main)
            ops = opt.apply_gradients(pairs)
        assert [op.type for op in ops] == ["sgd", "sgd"] == types(main)[-2:]

    def test_another_default_program(self):
        with program() as (main, startup):
            loss = regression()
        with names.guard():
            optimizer.SGD(0.1).minimize(loss, startup_program=startup)
        assert types(main)[-1] == "sgd" and outputs(startup)[-1] == "learning_rate_0"

    def test_sparse_gradients(self):
        """An embedding's rows reach the update as rows; decay makes them dense (P-8)."""
        ids = np.array([[1], [1], [3]])
        for decay in (None, 0.5):
            with program() as (main, startup):
                table = embedding(data("ids", [None, 1], "int64"), [4, 2], True, param_attr=Constant(1.0))
                optimizer.SGD(0.1, weight_decay=decay).minimize(total(table))
            session = Session(main, startup)
            session.run([], ids=ids)
            expected = np.ones((4, 2)) - 0.1 * np.array([0, 2, 0, 1])[:, None] - (0.05 if decay else 0)
            assert session.value("embedding_0.w_0") == pytest.approx(expected)
            grad = optimize_ops(main)[-1].input("Grad")
            assert grad == ["embedding_0.w_0@GRAD" + ("@NEWGRAD@" if decay else "")]


class TestSparse:
    """An embedding with rows as gradient trains as with a dense one, whatever clips and decays it."""

    FEEDS = (np.array([[1], [1], [3]]), np.array([[0], [3]]), np.array([[2]]))

    def trained(self, sparse, opt, **attr):
        with program(5) as (main, startup):
            attr = ParamAttr(name="table", **attr)
            rows = embedding(data("ids", [None, 1], "int64"), [5, 2], sparse, param_attr=attr)
            opt.minimize(total(rows * rows))
        session = Session(main, startup)
        values = []
        for ids in self.FEEDS:
            session.run([], ids=ids)
            values.append(session.value("table"))
        return np.array(values), main

    @pytest.mark.parametrize(
        "clip",
        [None, ClipGradByValue(0.3), ClipGradByValue(0.3, 0.1), ClipGradByNorm(0.4), ClipGradByGlobalNorm(0.4)],
        ids=repr,
    )
    @pytest.mark.parametrize("decay", [None, L2Decay(0.2), L1Decay(0.2)], ids=repr)
    def test_like_dense(self, clip, decay):
        def make():
            return optimizer.Momentum(0.1, grad_clip=clip, weight_decay=decay)

        (sparse, main), (dense, _) = self.trained(True, make()), self.trained(False, make())
        assert main.global_block().var("table@GRAD").kind == "rows"
        assert np.allclose(sparse, dense, rtol=1e-6, atol=1e-7)
        assert np.ptp(sparse, axis=0).any()

    def test_lazy_adam_leaves_other_rows_alone(self):
        (lazy, _), (full, _) = (
            self.trained(True, optimizer.Adam(0.1, lazy_mode=mode), initializer=Constant(1.0)) for mode in (True, False)
        )
        assert np.array_equal(lazy[0], full[0])
        assert (full[1] != full[0]).any(axis=1).tolist() == [True, True, False, True, False]
        assert (lazy[1] != lazy[0]).any(axis=1).tolist() == [True, False, False, True, False]


def test_attributes_of_the_ops_are_plain():
    """What a program holds can be written as JSON."""
    with program() as (main, _):
        clip = ClipGradByValue(np.float64(1.0).item())
        optimizer.AdamW(0.1, grad_clip=clip).minimize(regression())
        for op in optimize_ops(main):
            plain = {name: value for name, value in op.all_attrs().items() if not isinstance(value, tuple)}
            assert json.loads(json.dumps(plain)) == plain


def test_main_program_given_by_the_loss():
    """Nothing lands in the default programs when the loss belongs to others."""
    with program() as (main, startup):
        loss = regression()
    with program() as (default, default_startup):
        optimizer.Adam(0.1).minimize(loss, startup)
        assert not default.global_block().ops and not default_startup.global_block().ops
    assert isinstance(main, Program) and types(main)[-1] == "adam"
