"""Where a naive implementation differs silently: one test for each row of the table of traps.

Not here, because nothing of it exists yet: rows 30 (local SGD), 31 (asynchronous parameter server), 32 and 33
(DataParallel).
"""

from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.parallel.models import Model, build, column, constant, devices, line
from workbench import static
from workbench.errors import EnforceNotMet

Mode = static.BuildStrategy.ReduceStrategy
Scale = static.BuildStrategy.GradientScaleStrategy
W, B = "fc_0.w_0", "fc_0.b_0"
FOUR = {"X": column(0, 1, 2, 3)}


def building(**fields: Any) -> static.BuildStrategy:
    strategy = static.BuildStrategy()
    for name, value in fields.items():
        setattr(strategy, name, value)
    return strategy


def splitting(rule: str) -> static.ExecutionStrategy:
    strategy = static.ExecutionStrategy()
    strategy.feed_split = rule
    return strategy


def gradient(model: Model, feed: Any, count: int = 2, **options: Any) -> np.ndarray:
    """The gradient of the first weight on device 0 after one step."""
    merged = model.start().parallel(count, **options).run([W + "@GRAD"], feed=feed)[0]
    return merged.reshape(count, -1)[0]


def rows(model: Model, count: int, feed: Any, rule: str) -> list[int]:
    with devices(count):
        compiled = static.CompiledProgram(model.main).with_data_parallel(
            loss_name=model.loss.name, exec_strategy=splitting(rule)
        )
        (parts,) = static.Executor().run(compiled, feed, ["X"], scope=model.scope, return_merged=False)
    return [len(part) for part in parts]


# Splitting


@pytest.mark.parametrize(("rule", "expected"), [("ceil", 5.25), ("floor", 3.25)])
def test_trap_01_an_uneven_split_gives_the_mean_of_the_devices_means(rule, expected):
    """Not 4, the mean over the batch; WeightedBySamples gives that."""
    feed = {"X": column(1, 2, 9)}
    assert gradient(line(), feed, exec_strategy=splitting(rule)) == pytest.approx(expected)
    weighted = building(gradient_scale_strategy=Scale.WeightedBySamples)
    slope = gradient(line(), feed, exec_strategy=splitting(rule), build_strategy=weighted)
    assert slope == pytest.approx(4)


@pytest.mark.parametrize(("rule", "sizes"), [("ceil", [3, 3, 3, 1]), ("floor", [2, 2, 2, 4])])
def test_trap_02_ten_rows_on_four_devices(rule, sizes):
    """np.array_split would give 3, 3, 2, 2."""
    assert rows(line().start(), 4, {"X": column(*range(10))}, rule) == sizes


@pytest.mark.parametrize("count", [5, 6, 9])
def test_trap_03_more_rows_than_devices_and_an_empty_device(count):
    feed = {"X": column(*range(count))}
    with pytest.raises(EnforceNotMet, match="less than the 4 devices"):
        rows(line().start(), 4, feed, "ceil")
    assert sum(rows(line().start(), 4, feed, "floor")) == count


def test_trap_04_inference_runs_on_fewer_devices():
    model = line().start()
    assert model.parallel(4, program=model.test).run([model.loss], feed={"X": column(7)})[0].tolist() == [7]


# The loss gradient


def summed() -> Model:
    def body() -> Any:
        x = static.data("X", [None, 1])
        return wb.sum(static.nn.fc(x, 1, weight_attr=constant(1.0), bias_attr=False))

    return build(body, wb.optimizer.SGD(0.1))


def test_trap_05_the_gradient_of_a_sum_is_divided_all_the_same():
    assert gradient(summed(), FOUR, 2) == pytest.approx(3)
    assert gradient(summed(), FOUR, 1) == pytest.approx(6)


def test_trap_06_the_seed_is_scaled_before_the_backward_pass():
    """Gradients of temporaries, which are never summed, carry 1/N."""
    model = line().start()
    seed, hidden = model.parallel(2).run([model.loss.name + "@GRAD", "fc_0.tmp_1@GRAD"], feed=FOUR)
    assert seed.tolist() == [0.5, 0.5]
    np.testing.assert_allclose(hidden.ravel(), [0.25] * 4)  # 1/2 devices * 1/2 rows
    model = line().start()
    (alone,) = model.parallel(1).run(["fc_0.tmp_1@GRAD"], feed={"X": column(0, 1)})
    np.testing.assert_allclose(alone.ravel(), [0.5] * 2)


def test_trap_07_the_seed_counts_trainers():
    """Only with a flag here: several trainers need a process group (design section 6)."""
    with wb.config.override(allow_lonely_trainer=True):
        model = line().start()
        (seed,) = model.parallel(2, build_strategy=building(num_trainers=3)).run([model.loss.name + "@GRAD"], feed=FOUR)
    np.testing.assert_allclose(seed, [1 / 6, 1 / 6])


# Decay and clip


@pytest.mark.parametrize("mode", list(Mode))
def test_trap_08_decay_is_added_once_after_the_sum(mode):
    model = line(wb.optimizer.SGD(0.1, weight_decay=0.5)).start()
    (w,) = model.parallel(4, build_strategy=building(reduce_strategy=mode)).run([W], feed=FOUR)
    np.testing.assert_allclose(w.ravel(), [1 - 0.1 * (1.5 + 0.5)] * 4, rtol=1e-6)


@pytest.mark.parametrize("mode", list(Mode))
def test_trap_09_clip_sees_the_averaged_gradient_and_no_decay(mode):
    """Local gradients 5 and -4.5 would both be clipped; their sum 0.5 is not. Decay 2 would be, were it in."""
    optimizer = wb.optimizer.SGD(0.1, weight_decay=2.0, grad_clip=wb.nn.ClipGradByValue(1.0))
    model = line(optimizer).start()
    pe = model.parallel(2, build_strategy=building(reduce_strategy=mode))
    (w,) = pe.run([W], feed={"X": column(10, -9)})
    np.testing.assert_allclose(w.ravel(), [1 - 0.1 * (0.5 + 2.0)] * 2, rtol=1e-6)


# Fetching


def test_trap_10_a_fetched_gradient_is_reduced_and_decayed():
    assert gradient(line(), FOUR) == pytest.approx(1.5)
    assert gradient(line(wb.optimizer.SGD(0.1, weight_decay=0.5)), FOUR) == pytest.approx(2.0)
    clipped = wb.optimizer.SGD(0.1, weight_decay=0.5, grad_clip=wb.nn.ClipGradByValue(1.0))
    assert gradient(line(clipped), FOUR) == pytest.approx(1.5)
    owned = line().start().parallel(2, build_strategy=building(reduce_strategy=Mode.Reduce))
    np.testing.assert_allclose(owned.run([W + "@GRAD"], feed=FOUR)[0].ravel(), [0.25, 1.5])


def test_trap_11_a_fetched_parameter_is_n_copies_after_the_update():
    (w,) = line(width=2).start().parallel(2).run([W], feed=FOUR)
    assert w.shape == (2, 2)
    np.testing.assert_allclose(w, 0.925, rtol=1e-6)


def test_trap_12_a_fetched_loss_is_a_vector():
    model = line().start()
    assert model.parallel(4).run([model.loss], feed=FOUR)[0].tolist() == [0, 1, 2, 3]


def counting() -> Model:
    """A model with a persistable counter that each step increments."""

    def body() -> Any:
        counter = static.create_global_var([1], 0, "int64", persistable=True, name="steps")
        wb.increment(counter)
        return wb.mean(static.nn.fc(static.data("X", [None, 1]), 1))

    return build(body, wb.optimizer.Adam(0.1)).start()


def test_trap_13_rates_and_counters_are_repeated():
    rate, steps = counting().parallel(4).run(["learning_rate_0", "steps"], feed=FOUR)
    np.testing.assert_array_equal(rate, np.full(4, 0.1, np.float32))
    assert steps.tolist() == [1, 1, 1, 1]


@pytest.mark.parametrize("mode", list(Mode))
def test_trap_14_each_device_counts_for_itself(mode):
    """Not shared in Reduce mode either, where one counter would be incremented once per device."""
    model = counting()
    pe = model.parallel(4, build_strategy=building(reduce_strategy=mode))
    for step in (1, 2, 3):
        assert pe.run(["steps"], feed=FOUR)[0].tolist() == [step] * 4
    tensors = {id(pe.local_scope(i).find_var("steps").get_tensor()) for i in range(4)}
    assert len(tensors) == 4 and model.value("steps").tolist() == [3]


# Batch norm: rows [1, 3] on device 0, [10, 30] on device 1

MEAN, VARIANCE = "batch_norm_0.w_1", "batch_norm_0.w_2"
NORM_FEED = {"X": column(1, 3, 10, 30)}


def normalised() -> Model:
    def body() -> Any:
        return wb.mean(static.nn.batch_norm(static.data("X", [None, 1])))

    return build(body, wb.optimizer.SGD(0.1)).start()


def test_trap_15_statistics_are_each_devices_own_and_only_device_0_is_seen(tmp_path):
    model = normalised()
    pe = model.parallel(2)
    (mean,) = pe.run([MEAN], feed=NORM_FEED)
    np.testing.assert_allclose(mean, [0.2, 2.0], rtol=1e-6)
    exe = static.Executor()
    (seen,) = exe.run(model.test, {"X": column(1)}, [MEAN], scope=model.scope)  # a plain executor
    np.testing.assert_allclose(seen, [0.2], rtol=1e-6)
    with static.scope_guard(model.scope):  # what is saved
        static.save_persistables(exe, str(tmp_path), model.main)
        model.scope.find_var(MEAN).set(np.zeros(1, np.float32))
        static.load_persistables(exe, str(tmp_path), model.main)
    np.testing.assert_allclose(model.value(MEAN), [0.2], rtol=1e-6)
    (apart,) = model.parallel(2, program=model.test).run([MEAN], feed=NORM_FEED)  # shares only device 0
    np.testing.assert_allclose(apart[0], 0.2, rtol=1e-6)


def test_trap_16_the_running_variance_is_biased():
    (variance,) = normalised().parallel(2).run([VARIANCE], feed=NORM_FEED)
    np.testing.assert_allclose(variance, [0.9 + 0.1 * 1, 0.9 + 0.1 * 100], rtol=1e-5)


def test_trap_17_the_saved_variance_is_an_inverse_standard_deviation():
    (saved,) = normalised().parallel(2).run(["batch_norm_0.tmp_1"], feed=NORM_FEED)
    np.testing.assert_allclose(saved, 1 / np.sqrt(np.array([1, 100]) + 1e-5), rtol=1e-5)


# Optimizers: gradient 2 on each device, parameter 1


def trained(optimizer: Any, steps: int, between: Any = lambda step: None) -> list[float]:
    model = line(optimizer).start()
    pe, weights = model.parallel(2), []
    for step in range(steps):
        between(step)
        (w,) = pe.run([W], feed={"X": column(2, 2)})
        assert w[0, 0] == w[1, 0]
        weights.append(float(w[0, 0]))
    return weights


def test_trap_18_momentum_keeps_the_rate_out_of_the_velocity():
    assert trained(wb.optimizer.Momentum(0.1, 0.9), 3) == pytest.approx([0.8, 0.42, -0.122])
    optimizer = wb.optimizer.Momentum(0.1, 0.9)
    weights = trained(optimizer, 2, lambda step: optimizer.set_lr([0.1, 0.01][step]))
    assert weights == pytest.approx([0.8, 0.8 - 0.01 * 3.8])


def test_trap_19_nesterov_uses_the_new_velocity():
    optimizer = wb.optimizer.Momentum(0.1, 0.9, use_nesterov=True)
    assert trained(optimizer, 3) == pytest.approx([0.62, 0.078, -0.6098], rel=1e-5)


def test_trap_20_adams_epsilon_is_scaled_as_in_paddle_2():
    """Design section 6: 1.8 would give 0.98877, 0.97360, 0.95564."""
    assert trained(wb.optimizer.Adam(0.1, epsilon=0.5), 3) == pytest.approx([0.92, 0.84, 0.76], rel=1e-4)


def test_trap_21_rmsprops_epsilon_is_inside_the_root():
    weights = trained(wb.optimizer.RMSProp(0.1, rho=0.95, epsilon=0.5, momentum=0.9), 2)
    assert weights == pytest.approx([0.76095, 0.33381], rel=1e-4)
