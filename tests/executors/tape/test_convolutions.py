"""Rules of convolutions and pooling: programs on the tape against the same in NumPy calls."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.native.one_row import kernels
from tests.parallel.models import Model, build
from workbench import static
from workbench.config import override
from workbench.executors.lowering.tape.segment import Segment
from workbench.framework.program.guard import static_mode

F = wb.nn.functional
IMAGE = (3, 17, 20)


def images() -> Any:
    return static.data("x", [None, *IMAGE])


def conv(x: Any, kernels: int, size: int, transposed: bool = False, **more: Any) -> Any:
    """With a parameter of its own, scaled so that losses stay small."""
    channels = x.shape[-1 if more.get("data_format") == "NHWC" else 1]
    own = channels // more.get("groups", 1)
    shape = [channels, kernels] if transposed else [kernels, own]
    weight = static.create_parameter([*shape, size, size], wb.get_default_dtype())
    return (F.conv2d_transpose if transposed else F.conv2d)(x, weight, **more)


def lenet() -> Any:
    h = F.max_pool2d(F.relu(conv(images(), 6, 5, padding=2)), 2)
    h = F.max_pool2d(F.relu(conv(h, 16, 5)), 2)
    return wb.mean(static.nn.fc(h, 2) ** 2)


def others() -> Any:
    """Strides, groups, dilation, one side's padding, each channel on its own, 1 x 1; averages and other windows."""
    h = conv(images(), 12, 3, stride=2, padding=[1, 0, 0, 1])
    h = F.avg_pool2d(conv(h, 24, 3, groups=4, padding="SAME"), 3, stride=1, padding=1)
    h = F.relu(conv(conv(h, 24, 3, groups=24, padding=1), 20, 1))
    h = F.max_pool2d(conv(h, 20, 3, dilation=2, padding=2), 3, stride=2, padding=1, ceil_mode=True)
    return wb.mean(F.adaptive_avg_pool2d(h, 1) ** 2) + wb.mean(F.adaptive_max_pool2d(h, [2, 3]) ** 2)


def transposes() -> Any:
    h = conv(images(), 8, 3, transposed=True, padding=1)
    h = conv(h, 4, 2, transposed=True, stride=2)
    return wb.mean(h**2)


def channels_last() -> Any:
    """Convolutions of all kinds and pooling; images of one channel and of one pixel lie alike in both layouts."""
    last = {"data_format": "NHWC"}
    h = conv(wb.transpose(images(), [0, 2, 3, 1]), 12, 3, stride=2, padding=[1, 0], **last)
    h = F.max_pool2d(F.relu(conv(h, 12, 3, groups=12, padding="SAME", **last)), 3, stride=2, padding=1, **last)
    h = F.avg_pool2d(conv(h, 8, 2, transposed=True, stride=2, **last), 2, stride=1, **last)
    one_channel = conv(conv(h, 1, 1, **last), 4, 3, **last)
    one_pixel = conv(F.adaptive_avg_pool2d(h, 1, **last), 5, 1, **last)
    return wb.mean(F.adaptive_avg_pool2d(one_channel, [2, 3], **last) ** 2) + wb.mean(one_pixel**2)


def trained(model: Model, threads: int = 0) -> tuple[dict[str, np.ndarray], set[str]]:
    """All that the program keeps after three steps, and the types of rows that were NumPy calls."""
    model.start()
    dtype, execution = wb.get_default_dtype(), static.ExecutionStrategy()
    execution.num_threads = threads
    exe = model.parallel(2, exec_strategy=execution)
    for step in range(3):
        exe.run([], feed={"x": np.random.default_rng(step).standard_normal((4, *IMAGE)).astype(dtype)})
    programs = [p for part in (exe.inspection.last.speculative, exe.inspection.last.commit) for p in part]
    return model.values(), {u.row.node.type for p in programs for u in p.units if not isinstance(u, Segment)}


@pytest.mark.parametrize("body", [lenet, others, transposes, channels_last])
def test_training_gives_what_numpy_calls_give(body: Callable[[], Any]) -> None:
    kernels()
    with static_mode(), override(cpu_tape=True):
        values, by_numpy = trained(build(body, wb.optimizer.SGD(0.1)))
    assert not [kind for kind in by_numpy if "conv2d" in kind or "pool2d" in kind]
    with static_mode(), override(cpu_tape=False):
        expected, _ = trained(build(body, wb.optimizer.SGD(0.1)))
    for name, value in expected.items():
        np.testing.assert_allclose(values[name], value, rtol=2e-4, atol=2e-6, err_msg=name)


@pytest.fixture
def float64() -> Iterator[None]:
    """What has no other dtype is float64 inside."""
    before = wb.get_default_dtype()
    wb.set_default_dtype("float64")
    yield
    wb.set_default_dtype(before)


@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize("body", [lenet, others, transposes, channels_last])
def test_training_in_float64(body: Callable[[], Any]) -> None:
    """In kernels, with the same bits for any number of threads."""
    kernels()
    runs = []
    for threads in (1, 2, 3):
        with static_mode(), override(cpu_tape=True):
            runs.append(trained(build(body, wb.optimizer.SGD(0.1)), threads))
    with static_mode(), override(cpu_tape=False):
        expected, _ = trained(build(body, wb.optimizer.SGD(0.1)))
    for name, value in expected.items():
        values = [state[name] for state, _ in runs]
        assert values[0].tobytes() == values[1].tobytes() == values[2].tobytes()
        np.testing.assert_allclose(values[0], value, rtol=1e-10, atol=1e-13, err_msg=name)
    assert not runs[0][1]


def test_winograd_is_used_unless_a_strategy_forbids_it() -> None:
    """The same bits with any number of threads, other ones without it, and all are close to those of NumPy calls."""
    kernels()

    def body() -> Any:
        return wb.mean(conv(conv(images(), 64, 3, padding=1), 64, 3, padding=1) ** 2)

    def weights(threads: int = 1, cpu_tape: bool = True, **fields: Any) -> list[np.ndarray]:
        strategy, execution = static.BuildStrategy(), static.ExecutionStrategy()
        execution.num_threads = threads
        for name, value in fields.items():
            setattr(strategy, name, value)
        with static_mode(), override(cpu_tape=cpu_tape):
            model = build(body, wb.optimizer.SGD(0.1)).start()
            exe = model.parallel(1, build_strategy=strategy, exec_strategy=execution)
            exe.run([], feed={"x": np.random.default_rng(0).standard_normal((4, *IMAGE), np.float32)})
            return list(model.values().values())

    usual, shared, exact, without, by_numpy = (
        weights(), weights(threads=2), weights(exact=True), weights(winograd=False), weights(cpu_tape=False)
    )  # fmt: skip
    for a, b, c, d, e in zip(usual, shared, exact, without, by_numpy, strict=True):
        assert (a == b).all() and (c == d).all()
        np.testing.assert_allclose(a, e, rtol=1e-4, atol=1e-6)
    assert any((a != c).any() for a, c in zip(usual, exact, strict=True))


@pytest.mark.parametrize("pixel", [np.nan, np.inf])
def test_winograd_leaves_a_pixel_that_is_no_number_where_it_belongs(pixel: float) -> None:
    """Tiles are transformed by sums of their pixels, of which each result reads a part."""
    kernels()
    feed = {"x": np.random.default_rng(0).standard_normal((2, 64, 14, 13), np.float32)}
    feed["x"][(0, 0, 1), (3, 3, 9), (2, 5, 13), (1, 4, 12)] = pixel

    def convolved(winograd: bool) -> np.ndarray:
        strategy = static.BuildStrategy()
        strategy.winograd = winograd
        with static_mode(), override(cpu_tape=True):
            model = build(lambda: conv(static.data("x", [None, 64, 14, 13]), 64, 3, padding=1)).start()
            exe = model.parallel(1, model.main, build_strategy=strategy)
            return exe.run([model.loss], feed=feed)[0]

    result, expected = convolved(True), convolved(False)
    finite = np.isfinite(expected)
    assert (np.isfinite(result) == finite).all() and (result[finite] != expected[finite]).any()
