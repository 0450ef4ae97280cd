"""What `minimize` refuses, and that the program is as it was."""

import pytest

from tests.builders.building import program, types
from tests.optimizer.test_minimize import regression
from workbench import optimizer, to_tensor
from workbench.builders.data import data
from workbench.builders.nn.dense import fc
from workbench.errors import InvalidArgument, InvalidType, PreconditionNotMet, Unimplemented
from workbench.framework.op.record import find_op
from workbench.framework.program.guard import default_main_program
from workbench.optimizer import lr
from workbench.optimizer.clip import ClipGradByGlobalNorm
from workbench.optimizer.regularizer import L2Decay


class TestRefusals:
    def test_a_failing_minimize_leaves_nothing(self):
        class Broken(optimizer.Momentum):
            def attributes(self, parameter):
                return {"mu": 0.9, "use_nestorov": True}

        with program() as (main, startup):
            loss = regression()
            opt = Broken(lr.StepDecay(0.1, 2), weight_decay=0.1, grad_clip=ClipGradByGlobalNorm(1.0))

            def state():
                return (
                    [repr(op) for op in main.global_block().ops if op.type != "mean"],
                    list(main.global_block().vars),
                    [repr(op) for op in startup.global_block().ops],
                    list(startup.global_block().vars),
                    dict(main.lr_schedulers),
                )

            before = state()
            for _ in range(2):
                with pytest.raises(LookupError, match="use_nesterov"):
                    opt.minimize(loss)
                assert state() == before
            optimizer.SGD(0.1).minimize(loss)
            assert types(main)[-2:] == ["sgd", "sgd"]

    def test_states_of_a_minimize_that_failed_are_made_anew_by_the_next_one(self):
        """The optimizer has updated other parameters of the program before, and keeps the states of these."""

        class Sometimes(optimizer.Momentum):
            is_broken = False

            def attributes(self, parameter):
                attributes = super().attributes(parameter)
                return {**attributes, "use_nestorov": True} if self.is_broken else attributes

        with program() as (main, startup):
            opt = Sometimes(0.1)
            opt.minimize(regression())
            states = [v.name for v in main.persistables()]
            other = regression()
            opt.is_broken = True
            with pytest.raises(LookupError, match="use_nesterov"):
                opt.minimize(other, parameters=["fc_1.w_0", "fc_1.b_0"])
            opt.is_broken = False
            ops, _ = opt.minimize(other, parameters=["fc_1.w_0", "fc_1.b_0"])
            names = {name for op in ops for name in (*op.input_arg_names, *op.output_arg_names)}
            assert all(main.global_block().has_var(name) for name in names)
            velocities = [op.inputs["Velocity"][0] for op in ops]
            assert len(set(velocities)) == 2 and not set(velocities) & set(states)
            filled = {name for op in startup.global_block().ops for name in op.output_arg_names}
            assert set(velocities) <= filled

    def test_p35_the_loss_has_shape_1(self):
        with program(), pytest.raises(InvalidArgument, match=r"shape \[1\]"):
            optimizer.SGD(0.1).minimize(fc(data("X", [None, 1]), 2))

    def test_nothing_to_train(self):
        with program(), pytest.raises(InvalidArgument, match="no trainable parameter"):
            optimizer.SGD(0.1).minimize(find_op("mean")(data("X", [None, 1])))
        with program(), pytest.raises(InvalidArgument, match="nothing to update"):
            optimizer.SGD(0.1).apply_gradients([])

    def test_pairs_are_checked(self):
        with program():
            loss = regression()
            pairs = optimizer.SGD(0.1).backward(loss)
            for bad, message in (
                (pairs + pairs[:1], "'fc_0.w_0' comes twice"),
                ([(pairs[0][1], pairs[0][0])], "pairs"),
                ([(pairs[0][0], 3)], "fc_0.w_0"),
                ([pairs[0][0]], "pairs"),
            ):
                with pytest.raises(InvalidArgument, match=message):
                    optimizer.SGD(0.1).apply_gradients(bad)
        with program():
            other = optimizer.SGD(0.1).backward(regression())
        with pytest.raises(InvalidArgument, match="different programs"):
            optimizer.SGD(0.1).apply_gradients([pairs[0], other[1]])

    def test_dynamic_mode(self):
        opt = optimizer.SGD(0.1)
        for call in (lambda: opt.minimize(to_tensor([1.0])), opt.step, opt.clear_grad):
            with pytest.raises(PreconditionNotMet, match=r"parameters=layer.parameters\(\)"):
                call()
        with program():
            fc(data("X", [None, 1]), 2)
            of_a_program = optimizer.SGD(0.1, parameters=default_main_program().all_parameters())
        with pytest.raises(PreconditionNotMet, match=r"belong to a Program.*minimize\(loss\)"):
            of_a_program.step()
        with pytest.raises(InvalidType, match="'loss'"):
            opt.minimize("loss")

    @pytest.mark.parametrize(
        ("make", "error", "message"),
        [
            (lambda: optimizer.SGD("0.1"), InvalidType, "SGD takes a number or an optimizer.lr schedule"),
            (lambda: optimizer.SGD(-0.1), InvalidArgument, "at least 0"),
            (lambda: optimizer.SGD(float("inf")), InvalidArgument, "finite"),
            (lambda: optimizer.SGD(0.1, weight_decay="l2"), InvalidType, "weight_decay"),
            (lambda: optimizer.SGD(0.1, weight_decay=-1.0), InvalidArgument, "at least 0"),
            (lambda: optimizer.SGD(0.1, grad_clip=1.0), InvalidType, "grad_clip"),
            (lambda: optimizer.SGD(0.1, name=1), InvalidType, "name"),
            (lambda: optimizer.SGD(0.1, parameters="w"), InvalidType, "parameters"),
            (lambda: optimizer.SGD(0.1, parameters=[3]), InvalidType, "3 in the list"),
            (lambda: optimizer.SGD(0.1, parameters=[{"parameters": []}]), InvalidType, "a dict with 'params'"),
            (lambda: optimizer.SGD(0.1, parameters=[{"params": [], "beta1": 1}]), InvalidArgument, "no option 'beta1'"),
            (
                lambda: optimizer.Adam(0.1, parameters=[{"params": [], "beta1": 1}]),
                InvalidArgument,
                r"beta1 in \[0, 1\)",
            ),
            (
                lambda: optimizer.SGD(0.1, parameters=[{"params": ["a"]}, {"params": ["a"]}]),
                InvalidArgument,
                "two groups",
            ),
            (lambda: optimizer.Momentum(0.1, "0.9"), InvalidType, "momentum"),
            (lambda: optimizer.Lamb(0.1, exclude_from_weight_decay_fn=3), InvalidType, "a function or None"),
            (lambda: optimizer.Adadelta(0.1, rho=1.0), InvalidArgument, r"rho in \[0, 1\)"),
            (lambda: optimizer.Momentum(0.1, rescale_grad=0.5), Unimplemented, "rescale_grad"),
            (lambda: optimizer.Adam(beta1=1.0), InvalidArgument, r"beta1 in \[0, 1\)"),
            (lambda: optimizer.Adam(epsilon=-1e-8), InvalidArgument, "epsilon"),
            (lambda: optimizer.AdamW(weight_decay=L2Decay(0.1)), InvalidType, "weight_decay"),
            (lambda: optimizer.AdamW(apply_decay_param_fun="w"), InvalidType, "apply_decay_param_fun"),
            (lambda: optimizer.RMSProp(0.1, rho=1.5), InvalidArgument, "rho"),
        ],
    )
    def test_bad_arguments(self, make, error, message):
        with pytest.raises(error, match=message):
            make()
