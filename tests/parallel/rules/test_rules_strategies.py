"""Strategies seen through an executor (rules B-1, B-2, B-10 … B-14; section 5.3; WeightedBySamples).

`tests/graph/test_strategy.py` and `tests/executors/test_execution_strategy.py` have the objects alone.
"""

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import workbench as wb
from tests.parallel.models import Model, batch, build, classifier, column, constant, line
from workbench import events, static
from workbench.errors import EnforceNotMet, InvalidArgument, PreconditionNotMet
from workbench.framework.notice import Notice
from workbench.runtime.devices import processors

Scale = static.BuildStrategy.GradientScaleStrategy
Mode = static.BuildStrategy.ReduceStrategy
FOUR = {"X": column(0, 1, 2, 3)}
W, B, SEED = "fc_0.w_0", "fc_0.b_0", "mean_0.tmp_0@GRAD"


def building(**fields: Any) -> static.BuildStrategy:
    strategy = static.BuildStrategy()
    for name, value in fields.items():
        setattr(strategy, name, value)
    return strategy


def executing(**fields: Any) -> static.ExecutionStrategy:
    strategy = static.ExecutionStrategy()
    for name, value in fields.items():
        setattr(strategy, name, value)
    return strategy


# BuildStrategy


def test_b_1_a_strategy_is_fixed_by_the_first_run():
    strategy = building()
    pe = line().start().parallel(2, build_strategy=strategy)
    strategy.enable_sequential_execution = True  # the executor exists, nothing is compiled yet
    pe.run([], feed=FOUR)
    for field, value in (("reduce_strategy", Mode.Reduce), ("sync_batch_norm", True), ("debug_graphviz_path", "x")):
        with pytest.raises(EnforceNotMet, match=f"{field} cannot be changed any more"):
            setattr(strategy, field, value)


def test_b_1_what_may_still_be_set_has_no_effect_on_what_is_compiled():
    strategy, model = building(), line().start()
    pe = model.parallel(2, build_strategy=strategy)
    (first,) = pe.run([SEED], feed=FOUR)
    before = str(pe.graph().nodes)
    strategy.num_trainers, strategy.memory_optimize, strategy.fuse_all_reduce_ops = 4, False, False
    strategy.enable_inplace = False
    (later,) = pe.run([SEED], feed=FOUR)
    assert first.tolist() == later.tolist() == [0.5, 0.5] and str(pe.graph().nodes) == before


def kinds(pe: Any) -> set[str]:
    return {node.type for node in pe.graph().nodes}


def test_b_2_defaults_yield_silently():
    """An explicit contradiction is refused (design section 6); the real engine resolves these too, with a warning."""
    pe = classifier().start().parallel(2, build_strategy=building(reduce_strategy=Mode.Reduce))
    pe.run([], feed=batch())
    assert not kinds(pe) & {"fused_all_reduce", "all_reduce", "fused_update"}
    pe = classifier().start().parallel(2)
    pe.run([], feed=batch())
    assert "fused_all_reduce" in kinds(pe) and not kinds(pe) & {"broadcast", "fused_broadcast", "reduce"}


def test_b_2_an_explicit_contradiction_is_refused_at_the_first_run_and_can_be_mended():
    strategy = building(reduce_strategy=Mode.Reduce, fuse_all_reduce_ops=True)
    pe = line().start().parallel(2, build_strategy=strategy)
    with pytest.raises(InvalidArgument, match=r"reduce_strategy.*contradicts fuse_all_reduce_ops"):
        pe.run([], feed=FOUR)
    strategy.fuse_all_reduce_ops = None
    pe.run([], feed=FOUR)


# Gradient scale

CHECK = [  # loss@GRAD, w@GRAD, new w, new b: the documented figures
    (Scale.CoeffNumDevice, None, [0.5, 0.5], 0.75, 0.925, -0.05),
    (Scale.One, None, [1.0, 1.0], 1.5, 0.85, -0.1),
    (Scale.Customized, [1.0, 2.0], [1.0, 2.0], 2.75, 0.725, -0.15),
]


@pytest.mark.parametrize("mode", [Mode.AllReduce, Mode.Reduce])
@pytest.mark.parametrize(("scale", "fed", "seed", "gradient", "w", "b"), CHECK)
def test_b_13_check_values(mode, scale, fed, seed, gradient, w, b):
    model = line(width=2).start()
    strategy = building(gradient_scale_strategy=scale, reduce_strategy=mode)
    feed = dict(FOUR) | ({SEED: np.array(fed, np.float32)} if fed else {})
    fetched = model.parallel(2, build_strategy=strategy).run([SEED, W + "@GRAD", W, B], feed=feed)
    np.testing.assert_allclose(fetched[0], seed)
    np.testing.assert_allclose(fetched[1][-1], [gradient] * 2)  # of device 1, which owns w in Reduce mode
    np.testing.assert_allclose(fetched[2], np.full((2, 2), w), rtol=1e-6)
    np.testing.assert_allclose(fetched[3], np.full(4, b), rtol=1e-6)


@pytest.mark.parametrize("count", [1, 2, 4, 8])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_b_10_the_seed_is_one_over_the_devices_in_the_gradients_dtype(count, dtype):
    def body() -> Any:
        x = static.data("X", [None, 1], dtype)
        return wb.mean(x * static.create_parameter([1], dtype))

    for scale, expected in ((Scale.CoeffNumDevice, 1 / count), (Scale.One, 1.0)):
        model = build(body, wb.optimizer.SGD(0.1)).start()
        pe = model.parallel(count, build_strategy=building(gradient_scale_strategy=scale))
        (seed,) = pe.run([model.loss.name + "@GRAD"], feed={"X": np.ones((8, 1), dtype)})
        assert seed.dtype == dtype and seed.tolist() == [expected] * count


def customized(count: int = 2) -> tuple[Model, Any]:
    model = line(width=2).start()
    return model, model.parallel(count, build_strategy=building(gradient_scale_strategy=Scale.Customized))


def test_b_11_the_loss_gradient_is_fed_by_dict_or_list():
    (a, first), (b, second) = customized(), customized()
    first.run([], feed=FOUR | {SEED: np.array([1, 2], np.float32)})
    elements = [{"X": FOUR["X"][i * 2 : i * 2 + 2], SEED: np.array([i + 1], np.float32)} for i in (0, 1)]
    second.run([], feed=elements)
    np.testing.assert_array_equal(a.value(W), b.value(W))


def test_b_11_missing_it_is_named():
    model, pe = customized()
    with pytest.raises(InvalidArgument, match=rf"feed '{SEED}' is missing on cpu:0"):
        pe.run([], feed=FOUR)
    assert model.value(W)[0, 0] == 1


@pytest.mark.parametrize("wrong", [np.ones(1, np.float32), np.ones((2, 2), np.float32), np.ones(2)])
def test_b_11_another_shape_or_dtype_is_an_error(wrong):
    with pytest.raises(EnforceNotMet, match="@GRAD"):
        customized()[1].run([], feed=FOUR | {SEED: wrong})


@given(st.lists(st.floats(-4, 4, width=32), min_size=4, max_size=4))
@settings(max_examples=20, deadline=None)
def test_b_12_gradients_are_summed(seeds):
    """The gradient of mean(w x) is, on each device, its seed times its mean of x."""
    with wb.framework.program.guard.static_mode():
        model = line().start()
        pe = model.parallel(4, build_strategy=building(gradient_scale_strategy=Scale.Customized))
        (g,) = pe.run([W + "@GRAD"], feed=FOUR | {SEED: np.array(seeds, np.float32)})
    expected = sum(np.float64(seed) * x for seed, x in zip(seeds, (0, 1, 2, 3)))
    np.testing.assert_allclose(g.ravel(), [expected] * 4, rtol=1e-5, atol=1e-5)


def test_b_14_trainers_scale_without_exchanging():
    """Here only with a flag; several trainers without a process group are an error (design section 6)."""
    strategy = building(num_trainers=2)
    with pytest.raises(PreconditionNotMet, match="process group"):
        line(width=2).start().parallel(2, build_strategy=strategy).run([], feed=FOUR)
    with wb.config.override(allow_lonely_trainer=True):
        model = line(width=2).start()
        seed, g = model.parallel(2, build_strategy=strategy).run([SEED, W + "@GRAD"], feed=FOUR)
    assert seed.tolist() == [0.25, 0.25]
    np.testing.assert_allclose(g, np.full((2, 2), 0.375))


# WeightedBySamples


@given(
    st.integers(1, 4).flatmap(lambda n: st.lists(st.integers(1, 5), min_size=n, max_size=n)),
    st.sampled_from([Mode.AllReduce, Mode.Reduce]),
    st.booleans(),
)
@settings(max_examples=25, deadline=None)
def test_weighted_by_samples_gives_the_gradient_of_the_whole_batch(sizes, mode, as_list):
    """Compared with a plain executor on all rows; the loss is a mean."""
    feed = batch(sum(sizes))
    with wb.framework.program.guard.static_mode():
        model, whole = classifier().start(), classifier().start()
        strategy = building(gradient_scale_strategy=Scale.WeightedBySamples, reduce_strategy=mode)
        pe = model.parallel(len(sizes), build_strategy=strategy)
        ends = list(itertools.accumulate(sizes))
        parts = [{n: a[end - size : end] for n, a in feed.items()} for size, end in zip(sizes, ends)]
        pe.run([], feed=parts if as_list else feed)
        static.Executor().run(whole.main, feed=feed, scope=whole.scope)
        gradients = {n: np.array(pe.local_scope(len(sizes) - 1).find_var(n).get_tensor()) for n in whole.values()}
    for name, value in whole.values().items():
        np.testing.assert_allclose(gradients[name], value, rtol=1e-4, atol=1e-6, err_msg=name)
        np.testing.assert_allclose(model.value(name), value, rtol=1e-4, atol=1e-6, err_msg=name)


def test_weighted_by_samples_seeds_are_the_shares_of_the_batch():
    model = line().start()
    pe = model.parallel(2, build_strategy=building(gradient_scale_strategy=Scale.WeightedBySamples))
    for rows, expected in (([1, 2, 9], [1 / 3, 2 / 3]), ([1, 2, 3, 4], [0.5, 0.5]), ([1, 2, 9], [1 / 3, 2 / 3])):
        (seed,) = pe.run([SEED], feed={"X": column(*rows)})
        np.testing.assert_allclose(seed, expected, rtol=1e-6)


# ExecutionStrategy (section 5.3)


@pytest.mark.parametrize("count", [1, 2, 4])
def test_5_3_num_threads_left_open_becomes_the_processors_or_twice_the_devices_in_the_object(count):
    strategy = executing()
    assert strategy.num_threads == 0 and strategy.use_cuda is True
    line().start().parallel(count, exec_strategy=strategy).run([], feed={"X": column(*range(8))})
    assert strategy.num_threads == max(2 * count, processors()) and strategy.use_cuda is False


def steps(pe: Any, feed: Any) -> int:
    told: list[Any] = []
    with events.subscribe(told.append, events.Step):
        pe.run([], feed=feed)
    return len(told)


def test_5_3_num_iteration_per_run_needs_the_older_executor():
    pe = line().start().parallel(2, exec_strategy=executing(num_iteration_per_run=3))
    with pytest.warns(Notice, match="num_iteration_per_run = 3 has no effect"):
        first = steps(pe, FOUR)
    assert first == steps(pe, FOUR) == 1


def test_5_3_num_iteration_per_run_repeats_the_whole_step():
    strategy = executing(num_iteration_per_run=3, use_experimental_executor=False)
    model, one = classifier(wb.optimizer.Adam(0.1)).start(), classifier(wb.optimizer.Adam(0.1)).start()
    pe, single = model.parallel(2, exec_strategy=strategy), one.parallel(2)
    assert steps(pe, batch()) == 3
    (last,) = pe.run([model.loss], feed=batch())
    losses = [single.run([one.loss], feed=batch())[0] for _ in range(6)]
    np.testing.assert_array_equal(last, losses[-1])
    for name, value in one.values().items():
        np.testing.assert_array_equal(model.value(name), value, err_msg=name)


def test_5_3_dry_run_runs_nothing():
    model = line().start()
    pe = model.parallel(2, exec_strategy=executing(_dry_run=True))
    assert pe.run([], feed=FOUR) == []
    assert model.value(W)[0, 0] == 1
    with pytest.raises(InvalidArgument, match="_dry_run"):
        pe.run([model.loss], feed=FOUR)


@pytest.mark.parametrize("field", ["allow_op_delay", "use_thread_barrier"])
def test_5_3_what_has_no_effect_is_told(field):
    pe = line().start().parallel(2, exec_strategy=executing(**{field: True}))
    with pytest.warns(Notice, match=f"{field} = True has no effect"):
        pe.run([], feed=FOUR)


def test_5_3_the_older_executor_is_told_to_be_the_same():
    pe = line().start().parallel(2, exec_strategy=executing(use_experimental_executor=False))
    with pytest.warns(Notice, match="use_experimental_executor = False has no effect: there is one scheduler"):
        pe.run([], feed=FOUR)


def test_5_1_paths_of_three_drawings_are_written_at_the_first_run(tmp_path):
    strategy = building(debug_graphviz_path=str(tmp_path / "g"))
    pe = line().start().parallel(2, build_strategy=strategy)
    assert list(tmp_path.iterdir()) == []
    pe.run([], feed=FOUR)
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == ["g_fused_graph", "g_multi_devices_graph", "g_original_graph"]
    assert all(path.read_text().startswith("digraph G {") for path in tmp_path.iterdir())


def test_5_1_sync_batch_norm_takes_statistics_over_all_devices():
    """The real engine cannot do this on CPU devices (design section 6)."""

    def body() -> Any:
        return wb.mean(static.nn.batch_norm(static.data("X", [None, 1]), param_attr=constant(1.0)))

    x = column(1, 3, 10, 30)
    for sync, means, variances in ((True, [1.1] * 2, [0.9 + 0.1 * x.var()] * 2), (False, [0.2, 2.0], [1.0, 10.9])):
        model = build(body, wb.optimizer.SGD(0.1)).start()
        pe = model.parallel(2, build_strategy=building(sync_batch_norm=sync))
        mean, variance = pe.run(["batch_norm_0.w_1", "batch_norm_0.w_2"], feed={"X": x})
        np.testing.assert_allclose(mean, means, rtol=1e-6)
        np.testing.assert_allclose(variance, variances, rtol=1e-5)
