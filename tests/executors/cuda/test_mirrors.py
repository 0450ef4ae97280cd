"""Memory of GPUs that stands for memory of the host: it goes with it, and is never another one's values."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.executors.cuda.simulated import gpus, on_gpus
from tests.parallel.models import Model, build, column, constant
from workbench import static
from workbench.cuda.devices.gpu import GPU, open_gpu
from workbench.cuda.simulated.device import SimulatedDriver
from workbench.experiments.first_nan import StoppedOnNaN
from workbench.runtime.storage.tensor import LoDTensor

DEADLINE = 60.0  # seconds


@pytest.fixture
def gpu() -> Any:
    with gpus(2):
        yield open_gpu(0)


def on_device(gpu: GPU, array: np.ndarray) -> np.ndarray:
    """What a GPU holds for an array."""
    begin = array.__array_interface__["data"][0]
    mirror = gpu.mirrors.find(begin)
    assert mirror is not None
    held = np.empty_like(array)
    gpu.staging.download([(held.__array_interface__["data"][0], mirror.at(begin), array.nbytes)], gpu.stream)
    return held


def test_new_memory_where_old_was_has_no_mirror(gpu: GPU) -> None:
    for number in range(50):  # the allocator gives the same address again
        array = np.full(1, number, np.float32)
        assert gpu.mirrors.find(array.__array_interface__["data"][0]) is None
        gpu.mirrors.of_array(array)
        del array


def test_a_mirror_keeps_no_tensor_and_its_memory_is_given_back(gpu: GPU) -> None:
    assert isinstance(gpu.driver, SimulatedDriver)
    blocks = gpu.driver.timeline.memory.blocks
    before = len(list(blocks()))
    for _ in range(20):
        tensor = LoDTensor(np.zeros(1000, np.float32))
        gone = weakref.ref(tensor.stored)
        gpu.mirrors.of_tensor(tensor)
        del tensor
        gc.collect()
        assert gone() is None
    assert len(list(blocks())) <= before + 1


def test_a_tensor_over_bytes_of_python_has_a_mirror(gpu: GPU) -> None:
    tensor = LoDTensor(np.frombuffer(np.arange(16, dtype=np.float32).tobytes(), np.float32))
    gpu.mirrors.of_tensor(tensor).refresh()
    np.testing.assert_array_equal(on_device(gpu, tensor.stored), np.arange(16))


def test_every_tensor_of_an_array_is_noticed_when_it_is_written(gpu: GPU) -> None:
    array = np.zeros(8, np.float32)
    first, second = LoDTensor(array[:4]), LoDTensor(array[4:])
    mirror = gpu.mirrors.of_tensor(first)
    assert gpu.mirrors.of_tensor(second) is mirror
    for tensor, value in ((first, 1.0), (second, 2.0), (first, 3.0)):
        tensor.set(np.full(4, value, np.float32))
        mirror.refresh()
        np.testing.assert_array_equal(on_device(gpu, array), array)


# Who looks at a step before it is applied


def logarithm() -> Any:
    hidden = static.nn.fc(static.data("x", [None, 1]), 1, weight_attr=constant(1.0), bias_attr=constant(0.1))
    return wb.mean(wb.tanh(wb.log(hidden)))


def batches(bad: int | None = None) -> list[dict[str, np.ndarray]]:
    fed = [{"x": column(*range(1, 8))} for _ in range(5)]
    if bad is not None:
        fed[bad]["x"][4] = -5.0
    return fed


def sgd_model() -> Model:
    return build(logarithm, wb.optimizer.Momentum(0.001, 0.9)).start()


@pytest.mark.parametrize("count", [1, 2])
def test_a_run_stops_in_front_of_a_nan_in_a_gradient_alone(count: int) -> None:
    """`sqrt` of 0 is 0, so the loss is finite; its gradient there is not."""

    def body() -> Any:
        hidden = static.nn.fc(static.data("x", [None, 1]), 1, weight_attr=constant(1.0), bias_attr=constant(0.0))
        return wb.mean(wb.sqrt(hidden))

    fed = batches()
    fed[0]["x"][2] = 0.0
    with gpus(count):
        model = build(body, wb.optimizer.SGD(0.001)).start()
        executor = on_gpus(model)
        run = wb.train(
            model.main, fed, executor=executor, epochs=1, progress=False, record=False, stop_on_nan=True,
            fetch={"loss": model.loss},
        )  # fmt: skip
        with pytest.raises(StoppedOnNaN):
            run.wait(DEADLINE)
        assert run.step == 0
        assert all(np.isfinite(value).all() for value in model.values().values())


def test_a_run_stops_in_front_of_a_nan_in_the_loss() -> None:
    with gpus(2):
        model = sgd_model()
        run = wb.train(
            model.main, batches(bad=2), executor=on_gpus(model), epochs=1, progress=False, record=False,
            stop_on_nan=True, fetch={"loss": model.loss},
        )  # fmt: skip
        with pytest.raises(StoppedOnNaN, match="NaN from step 3: op 'log'"):
            run.wait(DEADLINE)


def test_a_step_that_is_gone_through_meets_every_node_once() -> None:
    with gpus(2):
        model = sgd_model()
        with on_gpus(model).stepper(batches()[0], [model.loss]) as step:
            numbers = [node.number for node in step]
            step.finish()
    expected = sgd_model()
    with expected.parallel(2).stepper(batches()[0], [expected.loss]) as step:
        assert sorted(numbers) == sorted(node.number for node in step)
        step.finish()


# Threads


def together(*calls: Callable[[], Any]) -> None:
    """Each in a thread of its own; the first error of any."""
    errors: list[BaseException] = []

    def caught(call: Callable[[], Any]) -> None:
        try:
            call()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=caught, args=(call,), daemon=True) for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(DEADLINE)
        assert not thread.is_alive(), "a thread waits for ever"
    if errors:
        raise errors[0]


def losses_of(executor: Any, model: Model) -> list[float]:
    return [float(np.mean(executor.run([model.loss], feed=fed)[0])) for fed in batches() * 4]


def test_two_executors_in_two_threads_give_what_each_gives_alone() -> None:
    with gpus(2):
        alone = sgd_model()
        expected = losses_of(on_gpus(alone), alone)
        models = [sgd_model(), sgd_model()]
        losses: dict[int, list[float]] = {}

        def run(number: int) -> None:
            losses[number] = losses_of(on_gpus(models[number]), models[number])

        together(partial(run, 0), partial(run, 1))
        assert losses == {0: expected, 1: expected}


def test_a_thread_reads_parameters_while_steps_run() -> None:
    with gpus(2):
        alone = sgd_model()
        expected = losses_of(on_gpus(alone), alone)
        model = sgd_model()
        executor = on_gpus(model)
        over = threading.Event()
        losses: list[float] = []

        def train() -> None:
            try:
                losses.extend(losses_of(executor, model))
            finally:
                over.set()

        def look() -> None:
            while not over.is_set():
                assert np.isfinite(model.value("fc_0.w_0")).all()

        together(train, look)
        assert losses == expected
