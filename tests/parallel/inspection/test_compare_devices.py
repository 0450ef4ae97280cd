"""Replicas compared bit by bit, and the first node at which devices part."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

import workbench as wb
from tests.parallel.inspection.test_stepper import assert_same_bits, embedding, state, strategy, words
from tests.parallel.lowerings import in_both
from tests.parallel.models import batch, build, classifier, line
from workbench import static
from workbench.errors import InvalidArgument, InvalidType, NotFound, PreconditionNotMet
from workbench.executors.inspection.compare import difference_of
from workbench.graph.settings import GradientScaleStrategy, ReduceStrategy

pytestmark = in_both

F = wb.nn.functional


def trained(model: Any, count: int = 2, **options: Any) -> Any:
    """A ParallelExecutor that has made two steps."""
    exe = model.start().parallel(count, build_strategy=strategy(**options))
    for seed in range(2):
        exe.run([], feed=batch(8, seed))
    return exe


def drift(exe: Any, name: str, device: int, change: Any) -> None:
    variable = exe.local_scope(device).find_var(name)
    value = np.array(variable.get_tensor())
    change(value)
    variable.set(value)


# compare_devices


@pytest.mark.parametrize("count", [1, 2, 3])
def test_replicas_of_a_trained_program_are_the_same(count: int) -> None:
    model = classifier(wb.optimizer.Adam(0.05), extra=lambda h: F.dropout(h, 0.5))
    exe = trained(model, count)
    comparison = exe.compare_devices()
    assert comparison and not comparison.differences and not comparison.own and not comparison.without_value
    assert set(comparison.same) == {v.name for v in model.main.persistables()}
    assert repr(comparison).startswith("Replicas are the same on all devices: ")


def test_what_differs_is_counted_and_located() -> None:
    exe = trained(classifier(), 3)
    (before,) = exe.run(["fc_0.w_0"], feed=batch())
    before = before[:5]

    def change(value: np.ndarray) -> None:
        value[2, 3] += 1
        value[4, 7] -= 5

    drift(exe, "fc_0.w_0", 2, change)
    drift(exe, "fc_1.b_0", 1, lambda value: value.fill(7))
    comparison = exe.compare_devices()
    assert not comparison
    first, second = sorted(comparison.differences, key=lambda d: d.name)
    assert (first.name, first.count, first.size, first.index) == ("fc_0.w_0", 2, 40, (2, 3))
    changed = np.float32(before[2, 3] + 1)
    assert first.values == (before[2, 3], before[2, 3], changed) and first.devices == (0, 1, 2)
    assert math.isclose(first.max_abs, 5, rel_tol=1e-6)
    assert (second.name, second.count, second.index) == ("fc_1.b_0", 3, (0,))
    assert "fc_0.w_0" not in comparison.same and "fc_0.b_0" in comparison.same
    text = repr(comparison)
    assert text.startswith("Replicas differ between devices") and "first at [2, 3]" in text and "on cpu:2" in text


def test_names_choose_what_is_compared() -> None:
    exe = trained(classifier())
    drift(exe, "fc_1.b_0", 1, lambda value: value.fill(7))
    assert exe.compare_devices("fc_0.w_0") and exe.compare_devices("fc_0.w_0").same == ("fc_0.w_0",)
    assert [d.name for d in exe.compare_devices(["fc_0.w_0", "fc_1.b_0", "fc_1.b_0"]).differences] == ["fc_1.b_0"]
    with pytest.raises(NotFound, match=r"'fc_1\.b_00'.*Did you mean 'fc_1\.b_0'"):
        exe.compare_devices("fc_1.b_00")
    with pytest.raises(InvalidArgument, match=r"'fc_0.tmp_0' is not persistable.*first_difference"):
        exe.compare_devices(["fc_0.tmp_0"])


def test_before_the_first_run_there_is_nothing_to_compare() -> None:
    with pytest.raises(PreconditionNotMet, match="at the first run"):
        classifier().start().parallel(2).compare_devices()


def test_statistics_of_batch_norm_are_each_devices_own() -> None:
    exe = trained(classifier(extra=static.nn.batch_norm))
    comparison = exe.compare_devices()
    assert comparison
    assert [d.name for d in comparison.own] == ["batch_norm_0.w_1", "batch_norm_0.w_2"]
    assert "each device has its own, as expected" in repr(comparison)
    drift(exe, "batch_norm_0.w_0", 1, lambda value: value.fill(3))  # the scale is trained, and no exception
    assert [d.name for d in exe.compare_devices().differences] == ["batch_norm_0.w_0"]


def test_synchronised_statistics_are_not() -> None:
    exe = trained(classifier(extra=static.nn.batch_norm), sync_batch_norm=True)
    comparison = exe.compare_devices()
    assert comparison and not comparison.own
    drift(exe, "batch_norm_0.w_1", 1, lambda value: value.fill(3))
    assert [d.name for d in exe.compare_devices().differences] == ["batch_norm_0.w_1"]


@pytest.mark.parametrize(
    "options",
    [
        {"reduce_strategy": ReduceStrategy.Reduce},
        {"gradient_scale_strategy": GradientScaleStrategy.WeightedBySamples},
        {"fuse_all_optimizer_ops": True},
    ],
)
def test_replicas_stay_together_in_every_mode(options: dict[str, Any]) -> None:
    exe = classifier(wb.optimizer.Adam(0.05, grad_clip=wb.nn.ClipGradByGlobalNorm(0.1))).start()
    exe = exe.parallel(2, build_strategy=strategy(**options))
    for seed in range(2):
        exe.run([], feed=batch(7, seed))
    comparison = exe.compare_devices()
    assert comparison and not comparison.own


def test_a_running_mean_of_the_rows_is_each_devices_own_and_what_it_feeds_too() -> None:
    def body() -> Any:
        x = static.data("x", [None, 5])
        mean, copy, count = (static.create_global_var([1], 0.0, "float32", persistable=True) for _ in range(3))
        wb.assign(mean * 0.9 + wb.mean(x) * 0.1, mean)
        wb.assign(mean + 1.0, copy)
        wb.increment(count)
        return wb.mean(static.nn.fc(x, 1))

    model = build(body, wb.optimizer.SGD(0.1)).start()
    exe = model.parallel(2)
    exe.run([], feed={"x": batch()["x"]})
    comparison = exe.compare_devices()
    assert comparison and len(comparison.own) == 2
    assert {d.name for d in comparison.own}.isdisjoint(p.name for p in model.main.all_parameters())


def test_zeros_of_both_signs_and_nan_count_by_their_bits() -> None:
    exe = trained(classifier())

    def zeros(value: np.ndarray) -> None:
        value[:] = [0.0, np.nan, 1.0]

    def other(value: np.ndarray) -> None:
        value[:] = [-0.0, np.nan, 1.0]

    drift(exe, "fc_1.b_0", 0, zeros)
    drift(exe, "fc_1.b_0", 1, other)
    (difference,) = exe.compare_devices().differences
    assert (difference.count, difference.max_abs, difference.index) == (1, 0.0, (0,))
    drift(exe, "fc_1.b_0", 1, lambda value: value.fill(0))
    (difference,) = exe.compare_devices().differences
    assert difference.count == 2 and math.isnan(difference.max_abs)


def test_other_shapes_and_dtypes_differ_as_a_whole() -> None:
    exe = trained(classifier())
    exe.local_scope(1).find_var("fc_1.b_0").set(np.zeros((1, 3), np.float64))
    (difference,) = exe.compare_devices().differences
    assert difference.values == ("float32[3]", "float64[1, 3]") and difference.count == difference.size == 3
    assert "float64[1, 3] on cpu:1" in str(difference)


numbers = arrays.arrays(
    st.sampled_from([np.dtype("float32"), np.dtype("int64"), np.dtype("bool")]),
    arrays.array_shapes(max_dims=3, max_side=4),
)


@given(numbers, st.data())
def test_differences_by_the_book(first: np.ndarray, data: st.DataObject) -> None:
    """Against a loop over the elements, one at a time."""
    others = [first.copy() for _ in range(data.draw(st.integers(1, 3)))]
    for other in others:
        for _ in range(data.draw(st.integers(0, 2))):
            index = tuple(data.draw(st.integers(0, n - 1)) for n in first.shape)
            other[index] = data.draw(st.sampled_from([0, 1, 2])) if first.dtype != bool else not other[index]
    difference = difference_of("v", dict(enumerate(static.cpu_places(len(others) + 1))), [first, *others])
    differing = [
        index for index in np.ndindex(*first.shape) if any(o[index].tobytes() != first[index].tobytes() for o in others)
    ]
    if not differing:
        assert difference is None
        return
    gaps = [
        abs(float(o[i]) - float(first[i])) for o in others for i in differing if o[i].tobytes() != first[i].tobytes()
    ]
    assert difference is not None and difference.index == differing[0] and difference.count == len(differing)
    expected = float("nan") if any(map(math.isnan, gaps)) else max(gaps)
    assert difference.max_abs == expected or (math.isnan(difference.max_abs) and math.isnan(expected))
    assert len(difference.values) == len(others) + 1


# first_difference


def test_devices_that_are_together_do_not_part_and_nothing_is_applied() -> None:
    for extra in (None, lambda h: F.dropout(h, 0.5), static.nn.batch_norm):
        exe = trained(classifier(wb.optimizer.Adam(0.05), extra=extra), 3)
        before = state(exe)
        assert exe.first_difference(batch(5)) is None
        assert_same_bits(state(exe), before)


def test_a_drifted_parameter_shows_at_its_first_reader() -> None:
    exe = trained(classifier())
    drift(exe, "fc_1.w_0", 1, lambda value: value.__setitem__((0, 0), 9))
    before = state(exe)
    first = exe.first_difference(batch(5))
    assert (first.node.type, first.node.device) == ("mul", 1)
    assert [d.name for d in first.inputs] == ["fc_1.w_0"] and first.inputs[0].index == (0, 0)
    assert [d.name for d in first.outputs] == ["fc_1.tmp_0"]
    weights = [state(exe)[d]["fc_1.w_0"] for d in (0, 1)]
    with exe.stepper([batch(5)] * 2) as step:
        step.run_until("fc_0.tmp_2", device=1)
        h = step.value("fc_0.tmp_2", 1)
    products = [h @ w for w in weights]
    assert first.outputs[0].count == int((products[0] != products[1]).sum())  # the first column, where h is not 0
    assert first.outputs[0].values == tuple(p[first.outputs[0].index] for p in products)
    assert "models.py, line" in str(first) and "reads fc_1.w_0: 1 of 24" in str(first)
    assert_same_bits(state(exe), before)


def test_drifted_optimizer_state_shows_at_the_update() -> None:
    exe = trained(classifier(wb.optimizer.Adam(0.05)))
    drift(exe, "fc_0.w_0_moment1_0", 1, lambda value: value.__iadd__(1))
    first = exe.first_difference(batch(5))
    assert first.node.type == "adam" and first.node.role == "Optimize"
    assert [d.name for d in first.inputs] == ["fc_0.w_0_moment1_0"]
    assert {"fc_0.w_0", "fc_0.w_0_moment1_0"} == {d.name for d in first.outputs}


def test_the_device_that_drifted_is_named_among_several() -> None:
    exe = trained(classifier(), 4)
    drift(exe, "fc_0.b_0", 2, lambda value: value.fill(4))
    first = exe.first_difference(batch(4))
    assert (first.node.type, first.node.device) == ("elementwise_add", 2)


def test_a_random_stream_that_has_moved_is_found_at_the_op_that_draws() -> None:
    exe = trained(classifier(extra=lambda h: F.dropout(h, 0.5)))
    drift(exe, exe.inspection.program.rng_step, 1, lambda value: value.__iadd__(3))
    first = exe.first_difference(batch(5))
    assert first.node.type == "dropout" and first.inputs == ()
    assert "reads the same values on all devices" in str(first)


def test_sparse_gradients_and_reduce_mode_are_compared_too() -> None:
    for options in ({}, {"reduce_strategy": ReduceStrategy.Reduce}):
        model = build(embedding, wb.optimizer.Adam(0.1)).start()
        exe = model.parallel(2, build_strategy=strategy(**options))
        exe.run([], feed=words())
        assert exe.first_difference(words(5)) is None
    table = next(p.name for p in model.main.all_parameters() if p.shape == (6, 4))
    exe = build(embedding, wb.optimizer.SGD(0.1)).start().parallel(2)
    exe.run([], feed=words())
    drift(exe, table, 1, lambda value: value.__setitem__(3, 0))
    feed = words(5)
    feed["x"][:] = 2
    assert exe.first_difference(feed).node.type == "sgd"  # nobody reads row 3 before its update
    feed["x"][1, 1] = 3
    assert exe.first_difference(feed).node.type == "lookup_table_v2"


def test_first_difference_takes_the_rows_of_one_device() -> None:
    exe = line().start().parallel(2)
    with pytest.raises(InvalidType, match=r"takes a dict.*list"):
        exe.first_difference([{"X": np.zeros((1, 1), np.float32)}] * 2)
    with pytest.raises(InvalidArgument, match="'X' is missing"):
        exe.first_difference()


def test_a_compiled_program_compares_too() -> None:
    model = classifier().start()
    program = static.CompiledProgram(model.main).with_data_parallel(
        loss_name=model.loss.name, places=static.cpu_places(2)
    )
    static.Executor().run(program, batch(), [], scope=model.scope)
    assert program.compare_devices() and program.first_difference(batch(3)) is None
