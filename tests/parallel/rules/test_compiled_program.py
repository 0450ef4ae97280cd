"""CompiledProgram, run by Executor.run (rules C-1 … C-8)."""

from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.parallel.lowerings import in_both, same_numbers
from tests.parallel.models import Model, batch, build, classifier, column, devices, line
from workbench import events, static
from workbench.errors import InvalidArgument, PreconditionNotMet
from workbench.framework.program.roles import OPTIMIZE

W, B = "fc_0.w_0", "fc_0.b_0"
FOUR = {"X": column(0, 1, 2, 3)}
Scale = static.BuildStrategy.GradientScaleStrategy


def parallel(model: Model, **options: Any) -> Any:
    options.setdefault("places", static.cpu_places(2))
    return static.CompiledProgram(model.main).with_data_parallel(loss_name=model.loss.name, **options)


def run(compiled: Any, model: Model, feed: Any = None, fetch_list: Any = (), **options: Any) -> Any:
    return static.Executor().run(compiled, feed or FOUR, list(fetch_list), scope=model.scope, **options)


# Construction


@pytest.mark.parametrize("wrong", [None, "program", 3, line])
def test_c_1_takes_a_program_or_a_graph(wrong):
    with pytest.raises(TypeError, match="CompiledProgram takes a Program or a Graph"):
        static.CompiledProgram(wrong)


def test_c_1_a_graph_stands_for_its_program():
    model = line(width=2).start()
    graph = parallel(model).graph()
    compiled = static.CompiledProgram(graph).with_data_parallel(loss_name=model.loss.name, places=static.cpu_places(2))
    assert run(compiled, model, fetch_list=[model.loss])[0].tolist() == [0.5, 2.5]


def test_c_1_the_given_program_is_left_alone():
    """The real engine removes its feed operators; here programs have none."""
    model = line().start()
    before = str(model.main)
    run(parallel(model), model)
    assert str(model.main) == before


def test_c_1_nothing_is_compiled_before_the_first_run():
    told: list[Any] = []
    with events.subscribe(told.append, events.PlanCompiled):
        model = line()
        compiled = parallel(model)
        assert told == []
        model.start()
        run(compiled, model)
    assert len(told) == 1


def test_c_1_what_is_appended_later_is_not_run():
    """X-3: both kinds of executor run a snapshot."""
    model = line().start()
    compiled = parallel(model)
    with static.program_guard(model.main):
        late = wb.scale(model.loss, 2.0)
    run(compiled, model)
    with pytest.raises(PreconditionNotMet, match="appended after"):
        run(compiled, model, fetch_list=[late])


def test_c_1_learning_rates_set_later_count():
    optimizer = wb.optimizer.SGD(0.1)
    model = line(optimizer).start()
    compiled = parallel(model)
    run(compiled, model, {"X": column(1, 1)})
    optimizer.set_lr(0.5)
    (w,) = run(compiled, model, {"X": column(1, 1)}, [W])
    np.testing.assert_allclose(w.ravel(), [1 - 0.1 - 0.5] * 2, rtol=1e-6)


# with_data_parallel


def test_c_2_returns_itself_and_may_be_called_once():
    model = line()
    compiled = static.CompiledProgram(model.main)
    assert not compiled._is_data_parallel
    assert compiled.with_data_parallel(loss_name=model.loss.name) is compiled
    assert compiled._is_data_parallel
    with pytest.raises(AssertionError, match="once"):
        compiled.with_data_parallel(loss_name=model.loss.name)


def test_c_2_its_build_strategy_goes_before_the_constructors():
    model = line().start()
    first, second = static.BuildStrategy(), static.BuildStrategy()
    first.gradient_scale_strategy = Scale.One
    compiled = static.CompiledProgram(model.main, build_strategy=first)
    compiled.with_data_parallel(loss_name=model.loss.name, build_strategy=second, places=static.cpu_places(2))
    assert run(compiled, model, fetch_list=[model.loss.name + "@GRAD"])[0].tolist() == [0.5, 0.5]
    model = line().start()
    compiled = static.CompiledProgram(model.main, build_strategy=first)
    compiled.with_data_parallel(loss_name=model.loss.name, places=static.cpu_places(2))
    assert run(compiled, model, fetch_list=[model.loss.name + "@GRAD"])[0].tolist() == [1, 1]


@pytest.mark.parametrize("name", [None, ""])
def test_c_2_a_missing_loss_name_is_an_assertion(name):
    with pytest.raises(AssertionError, match="loss_name"):
        static.CompiledProgram(line().main).with_data_parallel(loss_name=name)


def test_c_2_a_refused_call_leaves_it_as_it_was():
    model = line().start()
    compiled = static.CompiledProgram(model.main)
    with pytest.raises(InvalidArgument):
        compiled.with_data_parallel(loss_name="nobody", places=static.cpu_places(4))
    compiled.with_data_parallel(loss_name=model.loss.name, places=static.cpu_places(2))
    assert run(compiled, model, fetch_list=[model.loss])[0].shape == (2,)


def test_c_2_wrong_arguments_are_named():
    model = line()
    with pytest.raises(TypeError, match="build_strategy takes a BuildStrategy"):
        static.CompiledProgram(model.main, build_strategy=3)
    for name in ("build_strategy", "exec_strategy", "share_vars_from"):
        with pytest.raises(TypeError, match=name):
            static.CompiledProgram(model.main).with_data_parallel(loss_name=model.loss.name, **{name: 3})
    for places in (3, ["cpu"], []):
        with pytest.raises(InvalidArgument, match="places"):
            static.CompiledProgram(model.main).with_data_parallel(loss_name=model.loss.name, places=places)


@pytest.mark.parametrize("count", [1, 3])
def test_c_3_places_fix_the_number_of_devices(count):
    model = line().start()
    with devices(2):
        compiled = parallel(model, places=[wb.CPUPlace()] * count)
        (loss,) = run(compiled, model, {"X": column(1, 2, 3)}, [model.loss])
    assert loss.shape == (count,)


def test_c_3_a_single_place_is_a_list_of_one():
    model = line().start()
    assert run(parallel(model, places=wb.CPUPlace()), model, fetch_list=[model.loss])[0].shape == (1,)


def test_c_3_places_of_another_kind_than_the_executors():
    model = line().start()
    with pytest.raises(InvalidArgument, match=r"executor runs on .*[Cc][Pp][Uu].*compiled program on .*CUDAPlace"):
        run(parallel(model, places=[wb.CUDAPlace(0)]), model)


def test_c_3_without_places_devices_are_found_at_the_first_run():
    model = line().start()
    with devices(4):
        compiled = parallel(model, places=None)
    with devices(2):
        assert run(compiled, model, fetch_list=[model.loss])[0].shape == (2,)
    with devices(4):
        assert run(compiled, model, fetch_list=[model.loss])[0].shape == (2,)


# One device


@in_both
def test_c_4_without_data_parallel_it_runs_on_one_device():
    model, plain = (classifier(wb.optimizer.Adam(0.1)).start() for _ in range(2))
    compiled, exe = static.CompiledProgram(model.main), static.Executor()
    names = [model.loss.name, model.loss.name + "@GRAD", "fc_0.w_0"]
    with devices(4):
        for k in range(3):
            mine = exe.run(compiled, batch(8, k), names, scope=model.scope)
            theirs = exe.run(plain.main, batch(8, k), names, scope=plain.scope)
            for name, a, b in zip(names, mine, theirs):
                same_numbers(a, b, name)
    assert mine[1].tolist() == [1.0]
    for name, value in plain.values().items():
        same_numbers(model.value(name), value, name)


def test_c_4_needs_no_loss_name():
    model = line().start()
    assert static.Executor().run(static.CompiledProgram(model.main), FOUR, [], scope=model.scope) == []
    assert model.value(W)[0, 0] != 1


# Differences from ParallelExecutor


def test_c_5_it_has_neither_a_device_count_nor_drops():
    compiled = parallel(line())
    assert not hasattr(compiled, "device_count") and not hasattr(compiled, "drop_local_exe_scopes")


def test_c_5_scope_and_merging_come_from_executor_run():
    model = line(width=2).start()
    compiled = parallel(model)
    (apart,) = run(compiled, model, fetch_list=["X"], return_merged=False)
    assert [part.ravel().tolist() for part in apart] == [[0, 1], [2, 3]]
    (merged,) = run(compiled, model, fetch_list=["X"])
    np.testing.assert_array_equal(merged, FOUR["X"])
    with static.scope_guard(model.scope):
        assert static.Executor().run(compiled, FOUR, [model.loss])[0].shape == (2,)


def test_c_5_share_vars_from_takes_a_compiled_program():
    model = line().start()
    train = parallel(model)
    with pytest.raises(TypeError, match="share_vars_from takes a CompiledProgram"):
        parallel(model, share_vars_from=model.parallel(2))
    test = static.CompiledProgram(model.test).with_data_parallel(share_vars_from=train, places=static.cpu_places(2))
    with pytest.raises(PreconditionNotMet, match="run once before"):
        run(test, model)
    run(train, model)
    weights = run(train, model, {"X": column(0, 0)}, [W])[0].ravel()
    np.testing.assert_array_equal(run(test, model, {"X": column(1, 1)}, ["fc_0.tmp_0"])[0].ravel(), weights)


def updating_in_a_branch(own: bool) -> Model:
    """An sgd operator in a branch, on the weight itself or on a copy that belongs to the branch."""

    def body() -> Any:
        loss = wb.mean(static.nn.fc(static.data("X", [None, 1]), 1, bias_attr=False))
        ((weight, gradient),) = static.append_backward(loss)
        rate = wb.full([1], 0.1, "float32")

        def update() -> Any:
            program = static.default_main_program()
            block, target = program.current_block(), wb.scale(weight, 1.0) if own else weight
            with program.role_guard(OPTIMIZE, [weight.name, gradient.name]):
                inputs = {"Param": target, "Grad": gradient, "LearningRate": rate}
                block.append_op("sgd", inputs=inputs, outputs={"ParamOut": target})
            return wb.scale(target, 1.0)

        static.nn.cond(loss > 0, update, lambda: wb.scale(weight, 1.0))
        return loss

    return build(body).start()


def test_c_6_updates_inside_control_flow_do_not_run_on_several_devices():
    model = updating_in_a_branch(own=True)
    with pytest.raises(NotImplementedError, match="'sgd' updates inside the 'cond'"):
        run(parallel(model), model)
    assert run(parallel(model, places=static.cpu_places(1)), model) == []


def test_c_6_of_parameters_they_cannot_even_be_built():
    """A branch writes nothing outside itself, whatever runs it."""
    with pytest.raises(NotImplementedError, match=r"writes 'fc_0\.w_0', which lives outside"):
        updating_in_a_branch(own=False)


# use_prune


def measured() -> Model:
    """A loss and, beside it, something the loss does not need, of another feed."""

    def body() -> Any:
        x, z = static.data("X", [None, 1]), static.data("Z", [None, 1])
        wb.scale(z, 2.0, name="beside")
        return wb.mean(static.nn.fc(x, 1))

    return build(body, wb.optimizer.Momentum(0.1, 0.9)).start()


@pytest.mark.parametrize("mode", list(static.BuildStrategy.ReduceStrategy))
def test_c_7_pruned_runs_are_steps_on_the_same_values(mode):
    strategy, plain = static.BuildStrategy(), measured()
    strategy.reduce_strategy = mode
    model = measured()
    compiled = parallel(model, build_strategy=strategy)
    exe = static.Executor()
    whole = FOUR | {"Z": column(1, 1, 1, 1)}
    for k, prune in enumerate([True, False, True, True, False]):
        feed = FOUR if prune else whole
        (loss,) = exe.run(compiled, feed, [model.loss], scope=model.scope, use_prune=prune)
        (expected,) = exe.run(plain.main, whole, [plain.loss], scope=plain.scope)
        np.testing.assert_allclose(loss.mean(), expected[0], rtol=1e-5, err_msg=str(k))
    names = list(plain.values())
    values = exe.run(compiled, whole, names, scope=model.scope, return_merged=False)
    for name, each in zip(names, values):  # in Reduce mode only the owner has the velocity of a parameter
        for value in each[1:]:
            np.testing.assert_array_equal(value, each[0], err_msg=name)


def test_c_7_without_pruning_the_feed_would_be_missing():
    model = measured()
    with pytest.raises(InvalidArgument, match="feed 'Z' is missing"):
        run(parallel(model), model)


def test_c_7_feeds_that_are_pruned_are_dropped_with_a_warning():
    model = measured()
    compiled = parallel(model)
    for feed in (FOUR | {"Z": column(1, 1, 1, 1)}, [{"X": column(1), "Z": column(1)}] * 2):
        with pytest.warns(UserWarning, match="feed 'Z' is not needed") as told:
            run(compiled, model, feed, [model.loss], use_prune=True)
        assert [w.filename for w in told] == [__file__]


def test_c_7_some_of_the_updates_run_alone():
    model = line().start()
    compiled = parallel(model)
    (bias,) = (op for op in model.main.global_block().ops if op.type == "sgd" and op.outputs["ParamOut"] == [B])
    for use_prune in (False, True):
        before = model.values()
        assert run(compiled, model, fetch_list=[bias], use_prune=use_prune) == []
        assert model.value(W) == before[W] and model.value(B) != before[B]


@pytest.mark.parametrize("mode", list(static.BuildStrategy.ReduceStrategy))
def test_c_7_a_pruned_run_may_be_the_first(mode):
    """In Reduce mode all devices share what the whole program updates, not just what the first run does."""
    strategy, model = static.BuildStrategy(), line().start()
    strategy.reduce_strategy = mode
    compiled = parallel(model, build_strategy=strategy)
    (bias,) = (op for op in model.main.global_block().ops if op.type == "sgd" and op.outputs["ParamOut"] == [B])
    run(compiled, model, fetch_list=[bias])
    run(compiled, model)
    values = run(compiled, model, fetch_list=[W, B], return_merged=False)
    for first, second in values:
        np.testing.assert_array_equal(first, second)
    np.testing.assert_allclose(values[0][0], [[1 - 2 * 0.15]], rtol=1e-6)


def test_c_7_plans_of_pruned_runs_are_kept():
    model = measured()
    compiled = parallel(model)
    told: list[Any] = []
    with events.subscribe(told.append, events.PlanCompiled):
        for _ in range(3):
            run(compiled, model, fetch_list=[model.loss], use_prune=True)
    assert len(told) == 1


def test_c_7_unknown_feeds_are_still_errors():
    model = measured()
    with pytest.raises(InvalidArgument, match="no such variable"):
        run(parallel(model), model, FOUR | {"Q": column(1, 1)}, [model.loss], use_prune=True)


# Executor.run


def test_c_8_a_closed_executor_refuses_first():
    exe = static.Executor()
    exe.close()
    with pytest.raises(RuntimeError, match="closed"):
        exe.run(parallel(line()), {}, "wrong")


def test_c_8_the_fetch_list_is_looked_at_before_the_feed():
    model = line().start()
    with pytest.raises(TypeError, match="fetch_list"):
        run(parallel(model), model, {"nobody": column(1)}, [3])
    with pytest.raises(AssertionError, match="fetch_list takes a list"):
        static.Executor().run(parallel(model), FOUR, 3, scope=model.scope)


def test_c_8_a_bare_variable_is_a_list_of_one():
    model = line(width=2).start()
    (loss,) = static.Executor().run(parallel(model), FOUR, model.loss, scope=model.scope)
    assert loss.tolist() == [0.5, 2.5]


def test_c_8_another_scope_than_a_scope_is_a_type_error():
    with pytest.raises(TypeError, match="scope"):
        static.Executor().run(parallel(line()), FOUR, [], scope="global")


def test_x_8_stays_with_its_scope_and_place():
    model, other = line().start(), line().start()
    compiled = parallel(model)
    run(compiled, model)
    with pytest.raises(ValueError, match="scope and place"):
        run(compiled, other)
    assert run(compiled, model, fetch_list=[model.loss])[0].shape == (2,)
