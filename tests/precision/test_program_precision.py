"""Mixed precision of programs: what is rewritten, and how the factor of the loss goes."""

from typing import Any

import numpy as np
import pytest

import workbench as wb
import workbench.fluid as fluid
from workbench.errors import InvalidArgument, InvalidType, PreconditionNotMet, Unimplemented

decorate = fluid.contrib.mixed_precision.decorate


@pytest.fixture(autouse=True)
def _afresh() -> Any:
    wb.enable_static()
    with (
        fluid.program_guard(fluid.Program(), fluid.Program()),
        fluid.unique_name.guard(),
        fluid.scope_guard(fluid.Scope()),
    ):
        yield
    wb.disable_static()


def model(scale: float = 1.0) -> Any:
    fluid.default_startup_program().random_seed = 3
    h = fluid.layers.fc(fluid.data("x", [None, 4]), 8, act="tanh")
    return fluid.layers.mean(fluid.layers.fc(h, 1) * scale)


def optimizer(**options: Any) -> Any:
    return decorate(fluid.optimizer.SGD(0.1), **options)


def test_products_are_in_half_precision_and_parameters_are_not() -> None:
    ops, pairs = optimizer(init_loss_scaling=128.0).minimize(model())
    block = fluid.default_main_program().global_block()
    products = [op for op in block.ops if op.type == "mul"]
    assert {block.var(n).dtype.name for op in products for n in op.input_arg_names} == {"float16"}
    assert {p.dtype.name for p, _ in pairs} == {g.dtype.name for _, g in pairs} == {"float32"}
    (mean,) = [op for op in block.ops if op.type == "mean"]
    assert block.var(mean.input("X")[0]).dtype.name == "float32"
    assert len([op for op in block.ops if op.type == "cast" and op.input("X") == ["fc_0.w_0"]]) == 1
    assert [op.type for op in ops] == ["sgd"] * 4


def steps(scaling: Any, feeds: list[np.ndarray], scale: float = 1.0) -> list[np.ndarray]:
    loss = model(scale)
    scaling.minimize(loss)
    executor = fluid.Executor()
    executor.run(fluid.default_startup_program())
    return [executor.run(feed={"x": x}, fetch_list=[scaling.get_loss_scaling(), loss])[0] for x in feeds]


GOOD, BAD = np.ones((2, 4), np.float32), np.full((2, 4), np.inf, np.float32)


def test_the_factor_grows_after_good_steps_and_shrinks_after_bad_ones() -> None:
    scaling = optimizer(init_loss_scaling=8.0, incr_every_n_steps=2, decr_every_n_nan_or_inf=2, decr_ratio=0.5)
    factors = steps(scaling, [GOOD, GOOD, GOOD, BAD, BAD, BAD, GOOD, BAD])
    assert [float(f[0]) for f in factors] == [8.0, 16.0, 16.0, 16.0, 8.0, 8.0, 8.0, 8.0]


def test_a_factor_that_is_not_dynamic_stays() -> None:
    factors = steps(optimizer(init_loss_scaling=8.0, use_dynamic_loss_scaling=False, incr_every_n_steps=1), [GOOD] * 3)
    assert [float(f[0]) for f in factors] == [8.0] * 3


def test_gradients_that_are_not_finite_leave_parameters_alone() -> None:
    scaling = optimizer(init_loss_scaling=8.0)
    scaling.minimize(model())
    executor = fluid.Executor()
    executor.run(fluid.default_startup_program())
    names = [p.name for p in fluid.default_main_program().all_parameters()]
    before = [np.array(fluid.global_scope().find_var(n).get_tensor()) for n in names]
    executor.run(feed={"x": BAD})
    for name, value in zip(names, before):
        np.testing.assert_array_equal(np.array(fluid.global_scope().find_var(name).get_tensor()), value)


def test_small_gradients_survive_by_the_factor() -> None:
    """1e-6 of a gradient lies below what float16 holds to three digits; times 1024 it does not."""
    values = {}
    for factor in (1.0, 2.0**15):
        with (
            fluid.program_guard(fluid.Program(), fluid.Program()),
            fluid.unique_name.guard(),
            fluid.scope_guard(fluid.Scope()),
        ):
            scaling = optimizer(init_loss_scaling=factor)
            loss = model(1e-7)
            _, pairs = scaling.minimize(loss)
            executor = fluid.Executor()
            executor.run(fluid.default_startup_program())
            (gradient,) = executor.run(feed={"x": GOOD}, fetch_list=[pairs[0][1]])
            values[factor] = gradient / factor
    exact = values[2.0**15]
    assert np.abs(exact).max() > 0 and np.abs(values[1.0] - exact).max() > 0.01 * np.abs(exact).max()


def test_it_trains_as_float32_does() -> None:
    losses = {}
    rng = np.random.default_rng(0)
    x = rng.normal(size=(32, 4)).astype(np.float32)
    for half in (False, True):
        with (
            fluid.program_guard(fluid.Program(), fluid.Program()),
            fluid.unique_name.guard(),
            fluid.scope_guard(fluid.Scope()),
        ):
            fluid.default_startup_program().random_seed = 3
            h = fluid.layers.fc(fluid.data("x", [None, 4]), 8, act="tanh")
            loss = fluid.layers.mean(fluid.layers.square(fluid.layers.fc(h, 1) - 1.0))
            (optimizer(init_loss_scaling=128.0) if half else fluid.optimizer.SGD(0.1)).minimize(loss)
            executor = fluid.Executor()
            executor.run(fluid.default_startup_program())
            losses[half] = [float(executor.run(feed={"x": x}, fetch_list=[loss])[0][0]) for _ in range(10)]
    np.testing.assert_allclose(losses[True], losses[False], rtol=0.02, atol=1e-3)
    assert losses[True] != losses[False] and losses[True][-1] < losses[True][0]


def test_devices_agree_on_a_bad_step() -> None:
    """A gradient that is not finite on one device only counts for all: they are looked at after they are summed."""
    scaling = optimizer(init_loss_scaling=8.0, decr_every_n_nan_or_inf=1, decr_ratio=0.5)
    loss = model()
    scaling.minimize(loss)
    executor = fluid.Executor()
    executor.run(fluid.default_startup_program())
    parallel = fluid.CompiledProgram(fluid.default_main_program()).with_data_parallel(
        loss_name=loss.name, places=fluid.cpu_places(2)
    )
    x = np.concatenate([GOOD, BAD])
    (factors,) = executor.run(parallel, feed={"x": x}, fetch_list=[scaling.get_loss_scaling()])
    assert factors.tolist() == [4.0, 4.0]


def test_lists_choose_ops_and_wrong_arguments_are_refused() -> None:
    lists = fluid.contrib.mixed_precision.AutoMixedPrecisionLists(custom_black_list=["mul"])
    optimizer(amp_lists=lists).minimize(model())
    assert "cast" not in [op.type for op in fluid.default_main_program().global_block().ops if op.role == 0]
    with pytest.raises(InvalidArgument, match="both"):
        fluid.contrib.mixed_precision.AutoMixedPrecisionLists(["mul"], ["mul"])
    with pytest.raises(InvalidArgument, match="incr_ratio"):
        optimizer(incr_ratio=1.0)
    with pytest.raises(InvalidType, match="optimizer"):
        decorate(3)
    with pytest.raises(PreconditionNotMet, match="minimize"):
        optimizer().get_loss_scaling()


def test_a_minimize_that_fails_leaves_the_program_in_full_precision() -> None:
    rows = fluid.embedding(fluid.data("ids", [None], "int64"), [10, 4], is_sparse=True)
    loss = fluid.layers.mean(fluid.layers.fc(rows, 1))
    programs = fluid.default_main_program(), fluid.default_startup_program()
    before = [str(program) for program in programs]
    with pytest.raises(Unimplemented, match="sparse"):
        optimizer().minimize(loss)
    assert [str(program) for program in programs] == before
