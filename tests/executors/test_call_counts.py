"""How much Python there is between `run` and the kernels: counted, so that it does not creep back."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from functools import partial
from types import FrameType
from typing import Any
from unittest import mock

import pytest

import workbench as wb
from tests.executors.models import Model, regression
from workbench import static
from workbench.executors.feeding.split import Fed
from workbench.executors.inspection.inspection import Inspection
from workbench.executors.running import bound_step

ONE_CALL, IN_PARTS, HOPS = 25, 60, 9
Call = Callable[[], Any]


@pytest.fixture(autouse=True)
def on_the_tape(tape: None) -> None:
    """All of this is about kernels."""


def python_calls(run: Call) -> int:
    """How many Python functions are called, `run` itself among them if it is one."""
    count = 0

    def look(frame: FrameType, event: str, arg: Any) -> None:
        nonlocal count
        count += event == "call"

    sys.setprofile(look)
    try:
        run()
    finally:
        sys.setprofile(None)
    return count


class Warm:
    """A model on some devices, after steps that have prepared everything."""

    def __init__(self, model: Model, devices: int) -> None:
        scope, plain, feed = static.Scope(), static.Executor(), model.feed(1)
        plain.run(model.startup, scope=scope)
        if devices:
            program = static.CompiledProgram(model.main)
            program.with_data_parallel(model.loss.name, places=static.cpu_places(devices))
        else:
            program = plain.compiled(model.main, scope)
        target = program if devices else model.main
        self.run: Call = partial(plain.run, target, feed, [model.loss], scope=scope)
        for _ in range(4):
            self.run()
        self.inspection: Inspection = program.inspection


@pytest.fixture(params=[0, 1, 2], ids=["executor", "one device", "two devices"])
def devices(request: pytest.FixtureRequest) -> int:
    return int(request.param)


@pytest.fixture
def momentum() -> Model:
    return regression(dropout=False, batch_norm=False, optimizer=wb.optimizer.Momentum(0.1, 0.9))


def test_a_step_in_one_call(momentum: Model, devices: int) -> None:
    warm = Warm(momentum, devices)
    assert warm.inspection.last_step is not None and warm.inspection.last_step.whole is not None
    assert python_calls(warm.run) <= ONE_CALL


@pytest.fixture
def in_parts() -> Iterator[None]:
    with mock.patch.object(bound_step, "whole_step", return_value=None):
        yield


@pytest.mark.usefixtures("in_parts")
@pytest.mark.parametrize("has_schedule", [False, True])
def test_a_step_in_parts(momentum: Model, devices: int, has_schedule: bool) -> None:
    warm = Warm(regression(dropout=False, batch_norm=False) if has_schedule else momentum, devices)
    assert warm.inspection.last_step is not None and warm.inspection.last_step.whole is None
    assert python_calls(warm.run) <= IN_PARTS


def test_the_way_to_the_first_kernel(momentum: Model, devices: int) -> None:
    warm, depths = Warm(momentum, devices), []
    whole = warm.inspection.last_step.whole
    kernel = whole._call.args[0]

    def look() -> int:
        frame, depth = sys._getframe(1), 0
        while frame.f_code is not here:
            frame, depth = frame.f_back, depth + 1
        depths.append(depth)
        return kernel()

    here = sys._getframe().f_code
    whole._call = partial(whole._call.func, look)
    warm.run()
    assert len(depths) == 1 and depths[0] <= HOPS


def test_a_feed_is_wrapped_twice(momentum: Model, devices: int) -> None:
    """Once so that it stays what it was in this step, once with what is known of it; its arrays are the caller's."""
    warm, feeds = Warm(momentum, devices), []
    feed = warm.run.args[1]
    with mock.patch.object(Fed, "__init__", autospec=True, side_effect=Fed.__init__) as made:
        warm.run()
    assert made.call_count == 1
    _, _, sources = made.call_args.args
    feeds = {id(source) for source in sources}
    assert len(feeds) == 1 and id(feed) not in feeds
    assert all(source[name] is array for source in sources for name, array in feed.items())
