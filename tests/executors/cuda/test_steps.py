"""Training steps on simulated GPUs: the numbers of CPU devices, what the host is asked for, and what users may do."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.executors.cuda.simulated import counted, gpus, on_gpus, trained
from tests.parallel.models import Model, build
from workbench import static
from workbench.config import override
from workbench.errors import EnforceNotMet, InvalidArgument, NoMemory
from workbench.executors.lowering.cuda.programs import _tell_of

REDUCE = static.BuildStrategy.ReduceStrategy.Reduce
OPTIMIZERS: dict[str, Callable[[], Any]] = {
    "sgd": lambda: wb.optimizer.SGD(0.1),
    "momentum": lambda: wb.optimizer.Momentum(0.1),
    "adam": lambda: wb.optimizer.Adam(0.01),
    "lamb": lambda: wb.optimizer.Lamb(0.01),
}


def classifier(dropout: float = 0.0, norm: bool = False) -> Any:
    x, y = static.data("x", [None, 8]), static.data("y", [None, 1], "int64")
    hidden = static.nn.fc(x, 16, activation="relu")
    hidden = static.nn.batch_norm(hidden) if norm else hidden
    hidden = wb.nn.functional.dropout(hidden, dropout) if dropout else hidden
    return wb.mean(wb.nn.functional.softmax_with_cross_entropy(static.nn.fc(hidden, 4), y))


def feeds(count: int, rows: int = 6) -> list[dict[str, np.ndarray]]:
    random = np.random.default_rng(3)
    return [
        {"x": random.standard_normal((rows, 8)).astype(np.float32), "y": random.integers(0, 4, (rows, 1))}
        for _ in range(count)
    ]


def adam_model(**options: Any) -> Model:
    return build(partial(classifier, **options), wb.optimizer.Adam(0.01))


def strategy(**fields: Any) -> static.BuildStrategy:
    chosen = static.BuildStrategy()
    for name, value in fields.items():
        setattr(chosen, name, value)
    return chosen


@pytest.mark.parametrize("count", [1, 2, 3])
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_losses_and_parameters_are_those_of_cpu_devices(optimizer: str, count: int) -> None:
    def model() -> Model:
        return build(partial(classifier, 0.3), OPTIMIZERS[optimizer]())

    expected, expected_values = trained(model, lambda m: m.parallel(count), feeds(4))
    with gpus(count):
        losses, values = trained(model, on_gpus, feeds(4))
    np.testing.assert_allclose(losses, expected, rtol=1e-5, atol=1e-6)
    assert values.keys() == expected_values.keys()
    for name, value in values.items():
        np.testing.assert_allclose(value, expected_values[name], rtol=2e-5, atol=2e-6, err_msg=name)


@pytest.mark.parametrize(
    "fields",
    [
        {"reduce_strategy": REDUCE}, {"fuse_all_reduce_ops": False}, {"fuse_all_optimizer_ops": False},
        {"memory_optimize": False}, {"exact": True}, {"sync_batch_norm": True},
    ],
    ids=lambda fields: next(iter(fields)),
)  # fmt: skip
def test_every_strategy_trains_the_same(fields: dict[str, Any]) -> None:
    def model() -> Model:
        return build(partial(classifier, norm=True), wb.optimizer.Momentum(0.05))

    given = feeds(3, rows=16)
    expected, expected_values = trained(model, lambda m: m.parallel(2, build_strategy=strategy(**fields)), given)
    with gpus(2):
        losses, values = trained(model, lambda m: on_gpus(m, build_strategy=strategy(**fields)), given)
    np.testing.assert_allclose(losses, expected, rtol=1e-5, atol=1e-6)
    for name, value in values.items():
        np.testing.assert_allclose(value, expected_values[name], rtol=1e-4, atol=1e-5, err_msg=name)


def test_a_step_is_two_graphs_and_one_wait() -> None:
    """After the first steps nothing is allocated or launched by itself, on two devices as on one."""
    for count in (1, 2):
        with gpus(count) as driver:
            model = adam_model().start()
            executor = on_gpus(model)
            for feed in feeds(3):
                executor.run([model.loss.name], feed=feed)
            step = counted(driver, partial(executor.run, [model.loss.name], feed=feeds(1)[0]))
            assert (step.calls["launch"], step.graphs) == (0, 2 * count)
            assert (step.allocations, step.synchronizations) == (0, count)
            assert sum(step.kernels.values()) > 10
            assert executor.inspection.last.in_python == set()


def test_the_bits_of_a_run_are_those_of_the_next() -> None:
    with gpus(2):
        first, second = (trained(adam_model, on_gpus, feeds(3)) for _ in range(2))
    assert [a.tobytes() for a in first[0]] == [a.tobytes() for a in second[0]]
    assert all(value.tobytes() == second[1][name].tobytes() for name, value in first[1].items())


# What users do between steps


def parameter(model: Model) -> str:
    return str(model.main.all_parameters()[0].name)


def test_a_value_that_is_set_between_steps_is_the_next_ones() -> None:
    with gpus(1):
        model = adam_model().start()
        executor, name = on_gpus(model), parameter(model)
        executor.run([model.loss.name], feed=feeds(1)[0])
        tensor = model.scope.find_var(name).get_tensor()
        tensor.set(np.full_like(np.array(tensor), 0.25))
        (value,) = executor.run([name], feed=feeds(1)[0])
        assert np.abs(np.abs(value) - 0.25).max() <= 0.011 and not (value == 0.25).all()
        assert (np.array(tensor) == value).all()


def test_executors_on_a_cpu_and_on_a_gpu_take_turns_on_one_scope() -> None:
    with gpus(1):
        model = adam_model().start()
        turns = [on_gpus(model), model.parallel(1)]
        losses = [turns[n % 2].run([model.loss.name], feed=feed)[0] for n, feed in enumerate(feeds(6))]
    expected, values = trained(adam_model, lambda m: m.parallel(1), feeds(6))
    np.testing.assert_allclose(losses, expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(model.value(parameter(model)), values[parameter(model)], rtol=1e-5, atol=1e-6)


def test_powers_that_differ_are_each_parameters_own() -> None:
    def run(make: Callable[[Model], Any]) -> dict[str, np.ndarray]:
        model = adam_model().start()
        executor = make(model)
        executor.run([model.loss.name], feed=feeds(1)[0])
        power = next(name for name in model.values() if "beta1_pow" in name)
        model.scope.find_var(power).get_tensor().set(np.array([0.5], np.float32))
        for feed in feeds(2):
            executor.run([model.loss.name], feed=feed)
        return model.values()

    expected = run(lambda m: m.parallel(1))
    with gpus(1):
        values = run(on_gpus)
    for name, value in values.items():
        np.testing.assert_allclose(value, expected[name], rtol=2e-5, atol=2e-6, err_msg=name)


def test_a_program_trained_on_gpus_is_saved_and_goes_on_on_a_cpu(tmp_path: Any) -> None:
    with gpus(1):
        model = adam_model().start()
        executor = on_gpus(model)
        for feed in feeds(2):
            executor.run([model.loss.name], feed=feed)
        with static.scope_guard(model.scope):
            static.save(model.main, str(tmp_path / "model"))
        (expected,) = executor.run([model.loss.name], feed=feeds(3)[2])
    other = adam_model().start()
    with static.scope_guard(other.scope):
        static.load(other.main, str(tmp_path / "model"))
    (loss,) = other.parallel(1).run([other.loss.name], feed=feeds(3)[2])
    np.testing.assert_allclose(loss, expected, rtol=1e-5)


# What goes wrong


def test_a_label_that_is_no_class_is_told_as_on_a_cpu_and_nothing_is_applied() -> None:
    wrong = feeds(1)[0]
    wrong["y"][4] = 9
    with gpus(2):
        model = adam_model().start()
        executor = on_gpus(model)
        executor.run([model.loss.name], feed=feeds(1)[0])
        before = model.values()
        with pytest.raises(InvalidArgument, match=r"label 9 at position \[1, 0\] is out of range") as caught:
            executor.run([model.loss.name], feed=wrong)
        assert "gpu:1" in str(caught.value) and "in the whole batch that is row 4 of 'y'" in str(caught.value)
        assert all(value.tobytes() == before[name].tobytes() for name, value in model.values().items())
        wrong["y"][4] = -100  # ignored
        executor.run([model.loss.name], feed=wrong)


def test_a_nan_is_found_in_the_op_that_makes_it() -> None:
    def body() -> Any:
        x = static.data("x", [None, 4])
        return wb.mean(wb.log(static.nn.fc(x, 3) - 100.0))

    with gpus(1), override(check_nan_inf=True):
        model = build(body, wb.optimizer.SGD(0.1)).start()
        with pytest.raises(EnforceNotMet, match="'log'"):
            on_gpus(model).run([model.loss.name], feed={"x": np.ones((2, 4), np.float32)})


def test_a_launch_that_fails_is_told_with_its_op_and_leaves_the_parameters() -> None:
    with gpus(1) as driver:
        model = adam_model().start()
        executor = on_gpus(model)
        before = model.values()
        driver.faults.fail("launch", 3, "cudaErrorLaunchOutOfResources")
        with pytest.raises(EnforceNotMet, match=r"failed on gpu:0: launch: cudaErrorLaunchOutOfResources"):
            executor.run([model.loss.name], feed=feeds(1)[0])
        assert all(value.tobytes() == before[name].tobytes() for name, value in model.values().items())
        executor.run([model.loss.name], feed=feeds(1)[0])


def test_a_gpu_without_memory_says_what_asked_for_it() -> None:
    with gpus(1) as driver:
        model = adam_model().start()
        driver.faults.out_of_memory(1)
        with pytest.raises(NoMemory, match="no memory for the values of a step, the largest is fc_0"):
            on_gpus(model).run([model.loss.name], feed=feeds(1)[0])


# Looking


def test_a_step_is_gone_through_node_by_node() -> None:
    with gpus(2):
        model = adam_model().start()
        executor = on_gpus(model)
        with executor.stepper(feeds(1)[0], [model.loss]) as step:
            step.run_until("softmax_with_cross_entropy")
            logits = step.value("fc_1.tmp_1", device=1)
            (loss,) = step.finish()
        expected = adam_model().start()
        with expected.parallel(2).stepper(feeds(1)[0], [expected.loss]) as step:
            step.run_until("softmax_with_cross_entropy")
            np.testing.assert_allclose(logits, step.value("fc_1.tmp_1", device=1), rtol=1e-5, atol=1e-6)
            np.testing.assert_allclose(loss, step.finish()[0], rtol=1e-5)


def test_an_op_without_a_kernel_runs_on_the_host_between_two_copies(capsys: pytest.CaptureFixture[str]) -> None:
    def body() -> Any:
        x = static.data("x", [None, 4, 4])
        return wb.mean(wb.tanh(wb.linalg.inv(wb.exp(static.nn.fc(x, 4, num_flatten_dims=2)) + wb.eye(4) * 9.0)))

    feed = {"x": np.random.default_rng(0).standard_normal((2, 4, 4)).astype(np.float32)}
    _tell_of.cache_clear()
    with gpus(1) as driver:
        first = build(body, wb.optimizer.SGD(0.1)).start()
        executor = on_gpus(first)
        losses = [executor.run([first.loss.name], feed=feed)[0] for _ in range(3)]
        assert {node.type for node in executor.inspection.last.in_python} == {"inverse", "inverse_grad"}
        told = capsys.readouterr().err
        assert told.count("op 'inverse' has no kernel for GPUs") == told.count("op 'inverse_grad' has no") == 1
        step = counted(driver, lambda: executor.run([first.loss.name], feed=feed))
        assert step.synchronizations > 1 and step.calls["launch"] == 0
    expected = build(body, wb.optimizer.SGD(0.1)).start()
    cpu = expected.parallel(1)
    np.testing.assert_allclose(losses, [cpu.run([expected.loss.name], feed=feed)[0] for _ in range(3)], rtol=1e-5)
