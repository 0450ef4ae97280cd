"""ParallelExecutor: fetches (rules X-40 … X-47)."""

import inspect
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import workbench as wb
from tests.parallel.models import Model, batch, build, classifier, column, devices, line
from workbench import events, static
from workbench.errors import EnforceNotMet, InvalidArgument, InvalidType, PreconditionNotMet
from workbench.runtime.storage.tensor import LoDTensor

W, B = "fc_0.w_0", "fc_0.b_0"
FOUR = {"X": column(0, 1, 2, 3)}


def reduce_mode() -> static.BuildStrategy:
    strategy = static.BuildStrategy()
    strategy.reduce_strategy = static.BuildStrategy.ReduceStrategy.Reduce
    return strategy


def unmerged(model: Model, feed: Any, names: list[Any], return_numpy: bool = True, **strategies: Any) -> Any:
    """A function that runs a step of two devices and returns values per name and device."""
    with devices(2):
        compiled = static.CompiledProgram(model.main).with_data_parallel(loss_name=model.loss.name, **strategies)
        exe = static.Executor()

        def run() -> list[list[Any]]:
            return exe.run(
                compiled, feed, names, scope=model.scope, return_merged=False, return_numpy=return_numpy
            )  # fmt: skip

        run()
    return run


# Which value


def test_x_40_a_parameter_is_fetched_after_its_update():
    model = line(width=2).start()
    (w,) = model.parallel(2).run([W], feed=FOUR)
    np.testing.assert_allclose(w, np.full((2, 2), 1 - 0.1 * 0.75), rtol=1e-6)
    np.testing.assert_array_equal(w[:1], model.value(W))


def test_x_40_a_gradient_is_fetched_after_the_all_reduce():
    (g,) = line(width=2).start().parallel(2).run([W + "@GRAD"], feed=FOUR)
    np.testing.assert_allclose(g, np.full((2, 2), 0.75))


def test_x_40_a_gradient_is_fetched_after_decay():
    """Without clip, decay is added in place (P-43)."""
    model = line(wb.optimizer.SGD(0.1, weight_decay=0.5), width=2).start()
    (g,) = model.parallel(2).run([W + "@GRAD"], feed=FOUR)
    np.testing.assert_allclose(g, np.full((2, 2), 0.75 + 0.5 * 1.0))


def test_x_40_with_clip_the_gradient_stays_as_it_was_reduced():
    clip = wb.nn.ClipGradByValue(0.1)
    model = line(wb.optimizer.SGD(0.1, weight_decay=0.5, grad_clip=clip), width=2).start()
    (g, w) = model.parallel(2).run([W + "@GRAD", W], feed=FOUR)
    np.testing.assert_allclose(g, np.full((2, 2), 0.75))
    np.testing.assert_allclose(w, np.full((2, 2), 1 - 0.1 * (0.1 + 0.5)), rtol=1e-6)


def test_x_41_devices_are_joined_on_dimension_0_in_order():
    model = line(width=2).start()
    names = [model.loss, W, B, "learning_rate_0", "X", "fc_0.tmp_1"]
    loss, w, b, rate, x, h = model.parallel(2).run(names, feed=FOUR)
    np.testing.assert_allclose(loss, [0.5, 2.5])
    assert (w.shape, b.shape, rate.shape) == ((2, 2), (4,), (2,))
    np.testing.assert_array_equal(rate, np.float32([0.1, 0.1]))
    np.testing.assert_array_equal(x, FOUR["X"])
    np.testing.assert_array_equal(h, np.repeat(FOUR["X"], 2, axis=1))


@pytest.mark.parametrize("device_count", [1, 2])
def test_x_41_a_sparse_gradient_comes_dense(device_count: int):
    def body():
        ids = static.data("ids", [None, 1], "int64")
        return wb.mean(static.nn.embedding(ids, (5, 3), is_sparse=True))

    ids = np.array([[1], [1], [3], [4]])
    exe = build(body, wb.optimizer.SGD(0.1)).start().parallel(device_count)
    (gradient,) = exe.run(["embedding_0.w_0@GRAD"], feed={"ids": ids})
    expected = np.zeros((5, 3), np.float32)
    np.add.at(expected, ids[:, 0], 1 / 12)
    np.testing.assert_allclose(gradient, np.concatenate([expected] * device_count), rtol=1e-6)


def test_x_41_each_fetch_is_given_as_often_as_it_is_asked_for():
    model = line().start()
    fetched = model.parallel(2).run([model.loss, model.loss.name, model.loss], feed=FOUR)
    assert len(fetched) == 3 and all(f.tolist() == [0.5, 2.5] for f in fetched)


def test_x_42_dimensions_after_the_first_have_to_agree():
    def body() -> Any:
        x = static.data("X", [None, 3])
        wb.transpose(x, [1, 0], name="turned")
        return wb.mean(static.nn.fc(x, 1))

    model = build(body, wb.optimizer.SGD(0.1)).start()
    (name,) = (n for op in model.main.global_block().ops if op.type == "transpose2" for n in op.outputs["Out"])
    feed = {"X": np.ones((5, 3), np.float32)}  # 2 and 3 rows
    before = model.values()
    with pytest.raises(EnforceNotMet, match=r"cannot be merged on dimension 0.*return_merged=False") as caught:
        model.parallel(2).run([name], feed=feed)
    assert "[3, 2] on cpu:0, [3, 3] on cpu:1" in str(caught.value)
    for parameter, value in before.items():  # nothing of the step was applied
        np.testing.assert_array_equal(model.value(parameter), value, err_msg=parameter)
    with pytest.raises(EnforceNotMet, match="cannot be merged") as caught:
        model.parallel(2, program=model.test).run([name], feed=feed)
    assert "return_merged" not in str(caught.value)
    (apart,) = unmerged(model, feed, [name])()
    assert [part.shape for part in apart] == [(3, 2), (3, 3)]


def test_x_42_empty_pieces_are_left_out():
    model = line().start()
    feed = [{"X": column()}, {"X": column(1, 2)}]
    (h,) = model.parallel(2, program=model.test).run(["fc_0.tmp_1"], feed=feed)
    assert h.tolist() == [[1], [2]]


# Unmerged


def test_x_43_unmerged_results_are_for_executor_run_only():
    assert "return_merged" in inspect.signature(static.Executor.run).parameters
    assert "return_merged" not in inspect.signature(static.ParallelExecutor.run).parameters


def test_x_43_per_fetch_and_device():
    model = line(width=2).start()
    fetched = unmerged(model, FOUR, [model.loss, W])()
    assert [len(per_device) for per_device in fetched] == [2, 2]
    assert [f.shape for f in fetched[0]] == [(1,), (1,)] and [f.shape for f in fetched[1]] == [(1, 2), (1, 2)]


def test_x_43_after_steps_whose_results_were_merged():
    model = line(width=2).start()
    program = static.CompiledProgram(model.main).with_data_parallel(
        loss_name=model.loss.name, places=static.cpu_places(2)
    )
    with static.scope_guard(model.scope):
        step = partial(static.Executor().run, program, feed=FOUR, fetch_list=[model.loss])
        assert [step()[0].shape for _ in range(4)] == [(2,)] * 4
        assert [[loss.shape for loss in step(return_merged=False)[0]] for _ in range(2)] == [[(1,), (1,)]] * 2


@pytest.mark.parametrize("strategy", [None, reduce_mode()], ids=["AllReduce", "Reduce"])
def test_x_43_tensors_never_change_afterwards(strategy):
    """The real engine's unmerged tensors alias live buffers (trap 29); ours are copies."""
    model = classifier(wb.optimizer.Adam(0.1)).start()
    names = [model.loss, W, W + "@GRAD", "fc_0.w_0_moment1_0", "x", "fc_0.tmp_2"]
    run = unmerged(model, batch(), names, return_numpy=False, build_strategy=strategy)
    first = run()
    kept = [[tensor.numpy() for tensor in per_device] for per_device in first]
    for _ in range(3):
        run()
    moved = run()
    for name, tensors, values, later in zip(names, first, kept, moved):
        for device, (tensor, value) in enumerate(zip(tensors, values)):
            assert isinstance(tensor, LoDTensor), name
            np.testing.assert_array_equal(tensor.numpy(), value, err_msg=f"{name} on {device}")
        if name != "x":
            assert any((a.numpy() != b).any() for a, b in zip(later, values)), name


@given(st.lists(st.sampled_from([W, B, W + "@GRAD", "X", "fc_0.tmp_1", "mean_0.tmp_0"]), min_size=1), st.booleans())
@settings(max_examples=15, deadline=None)
def test_x_43_merged_values_never_change_either(names, return_numpy):
    with wb.framework.program.guard.static_mode():
        model = line().start()
        pe = model.parallel(2)
        first = pe.run(names, feed=FOUR, return_numpy=return_numpy)
        kept = [np.array(value) for value in first]
        pe.run(names, feed={"X": column(9, 9, 9, 9)}, return_numpy=return_numpy)
        pe.drop_local_exe_scopes()
        pe.run([], feed=FOUR)
    for value, copy in zip(first, kept):
        np.testing.assert_array_equal(np.array(value), copy)


def test_x_43_what_the_user_writes_into_results_reaches_nothing():
    model = line().start()
    pe = model.parallel(2)
    (w,) = pe.run([W], feed={"X": column(0, 0)})
    w[:] = 77
    assert model.value(W)[0, 0] == 1 and pe.run([W], feed={"X": column(0, 0)})[0].max() == 1


# What can be fetched


def test_x_44_only_variables_of_operators_can_be_fetched():
    model = line().start()
    model.main.global_block().create_var("lonely", (1,))
    pe = model.parallel(2)
    with pytest.raises(PreconditionNotMet, match=r"fetch 'lonely': no op reads or writes it"):
        pe.run(["lonely"], feed=FOUR)
    with pytest.raises(PreconditionNotMet, match=r"no such variable\. Did you mean 'fc_0.w_0'"):
        pe.run(["fc_0.w"], feed=FOUR)
    assert pe.run([model.loss], feed=FOUR)[0].shape == (2,)


def test_x_44_other_items_are_type_errors():
    pe = line().start().parallel(2)
    for item in (3, None, np.zeros(1)):
        with pytest.raises((TypeError, AssertionError)):
            pe.run([item], feed=FOUR)


def test_x_45_nothing_is_averaged():
    model = line().start()
    (losses,) = model.parallel(2).run([model.loss], feed={"X": column(1, 2, 9)})
    np.testing.assert_allclose(losses, [1, 5.5])
    assert np.mean(losses) == 3.25 != np.mean([1, 2, 9])


def test_x_46_in_reduce_mode_only_the_owner_has_the_sum():
    """The documented figures: device 1 owns the weight."""
    pe = line(width=2).start().parallel(2, build_strategy=reduce_mode())
    (g,) = pe.run([W + "@GRAD"], feed=FOUR)
    np.testing.assert_allclose(g, [[0.125, 0.125], [0.75, 0.75]])


def test_x_46_the_parameter_is_the_same_everywhere_all_the_same():
    (w,) = line(width=2).start().parallel(2, build_strategy=reduce_mode()).run([W], feed=FOUR)
    np.testing.assert_allclose(w, np.full((2, 2), 0.925), rtol=1e-6)


def test_x_47_all_operators_run_whatever_is_fetched():
    results = []
    for fetches in ([], ["fc_0.tmp_0"], [W]):
        model = line().start()
        fetched = model.parallel(2).run(fetches, feed=FOUR)
        assert len(fetched) == len(fetches)
        results.append(model.value(W))
    np.testing.assert_array_equal(results, [results[0]] * 3)
    assert results[0][0, 0] != 1


@pytest.mark.parametrize("nothing", [[], (), None])
def test_x_47_nothing_fetched_is_an_empty_list(nothing):
    model = line().start()
    assert model.parallel(2).run(nothing, feed=FOUR) == []
    assert model.value(W)[0, 0] != 1


# What minimize returns


def trained() -> tuple[Model, Any]:
    result = []

    class Remember(wb.optimizer.SGD):
        def minimize(self, *args: Any, **more: Any) -> Any:
            result.append(super().minimize(*args, **more))
            return result[-1]

    model = line(Remember(0.1)).start()
    return model, result[0]


def test_e_3_what_minimize_returns_has_no_result():
    model, (ops, pairs) = trained()
    pe = model.parallel(2)
    for fetches, count in (([model.loss, (ops, pairs)], 1), ([(ops, pairs)], 0), ([ops, "X"], 1), (list(ops), 0)):
        before = model.values()
        assert len(pe.run(fetches, feed=FOUR)) == count
        assert all((model.value(name) != before[name]).all() for name in (W, B))


def test_e_3_some_of_the_updates_run_alone():
    model, (ops, _) = trained()
    pe = model.parallel(2)
    (bias,) = (op for op in ops if op.outputs["ParamOut"] == [B])
    (loss,) = pe.run([bias, model.loss], feed=FOUR)
    assert loss.tolist() == [0.5, 2.5]
    assert model.value(W)[0, 0] == 1 and model.value(B)[0] == np.float32(-0.1)
    (b,) = pe.run([B], feed={"X": column(0, 0)})  # every device had made the same step
    assert b[0] == b[1]


def test_e_3_such_a_step_counts_and_its_memory_is_dropped_with_the_rest():
    """Its temporaries lie where those of all steps do: more is given back only where it takes more."""
    model, (ops, _) = trained()
    strategy = static.ExecutionStrategy()
    strategy.num_iteration_per_drop_scope = 2
    pe, told = model.parallel(2, exec_strategy=strategy), []
    many = {"X": np.ones((20_000, 1), np.float32)}
    with events.subscribe(told.append, events.ScopeDrop):
        for fetches, feed in (([], FOUR), ([ops[0]], many), ([], FOUR)):
            pe.run([], feed=FOUR)
            pe.run(fetches, feed=feed)
    alone, both, again = (sum(drop.nbytes) for drop in told)
    assert 0 < alone == again and both - alone >= many["X"].nbytes


def test_e_3_temporaries_of_such_a_step_can_be_looked_at():
    model, (ops, _) = trained()
    strategy = static.ExecutionStrategy()
    strategy.keep_temporaries = True
    pe = model.parallel(2, exec_strategy=strategy)
    pe.run([], feed={"X": column(9, 9)})
    pe.run([ops[0]], feed={"X": column(1, 2)})
    assert np.array(pe.local_scope(1).find_var("X").get_tensor()).tolist() == [[2.0]]


def test_e_3_operators_of_another_program_are_refused():
    model, _ = trained()
    _, (ops, _) = trained()
    with pytest.raises(PreconditionNotMet, match="another program"):
        model.parallel(2).run(list(ops), feed=FOUR)


def test_e_3_other_operators_are_type_errors():
    model = line().start()
    with pytest.raises(InvalidType, match="operator 'mul'"):
        model.parallel(2).run([model.main.global_block().ops[0]], feed=FOUR)


def test_a_fetched_feed_that_was_not_fed_is_an_error():
    def body() -> Any:
        x = static.data("X", [None, 1])
        static.data("unused", [None, 1])
        return wb.mean(x * 2.0)

    model = build(body)
    with pytest.raises((PreconditionNotMet, InvalidArgument), match="unused"):
        model.parallel(2, program=model.main).run(["unused"], feed=FOUR)
