"""How much Python there is between `run` and the kernels: counted, so that it does not creep back."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from functools import partial
from types import CodeType, FrameType
from typing import Any
from unittest import mock

import pytest

import workbench as wb
from tests.executors.models import Model, regression
from workbench import static
from workbench.executors.feeding.split import Fed
from workbench.executors.inspection.inspection import Inspection
from workbench.executors.lowering.tape import registry
from workbench.executors.lowering.tape.segment import Segment
from workbench.executors.planning import schedule
from workbench.executors.running.step import bound_step
from workbench.executors.workers.pool import WorkerPool
from workbench.experiments.bench import workloads
from workbench.runtime.native.control import Control

ONE_CALL, IN_PARTS, HOPS = 25, 60, 9  # kernels are called by the Python function of the last hop
WAITING = {f.__code__ for f in (Segment.answer, WorkerPool.check, WorkerPool.doze, Control.doze)}
Call = Callable[[], Any]


@pytest.fixture(autouse=True)
def on_the_tape(tape: None) -> None:
    """All of this is about kernels."""


def python_calls(run: Call) -> int:
    """How many Python functions are called, `run` itself among them if it is one; what a long wait repeats is not."""
    count = 0

    def look(frame: FrameType, event: str, arg: Any) -> None:
        nonlocal count
        count += event == "call" and frame.f_code not in WAITING

    sys.setprofile(look)
    try:
        run()
    finally:
        sys.setprofile(None)
    return count


FRONTS = ["executor", "parallel executor", "one device", "two devices"]
Front = str


class Warm:
    """A model behind one of the executors, after steps that have prepared everything.

    Args:
        pruned: without what neither loss nor updates need; a ParallelExecutor, with one of the updates.
    """

    def __init__(self, model: Model, front: Front, pruned: bool = False) -> None:
        scope, plain, feed = static.Scope(), static.Executor(), model.feed(1)
        plain.run(model.startup, scope=scope)
        if front == "parallel executor":
            self.executor: Any = static.ParallelExecutor(False, model.loss.name, model.main, scope=scope)
            self.run: Call = partial(self.executor.run, [model.loss, *_updates(model)[:pruned]], feed)
        else:
            self.executor, target = plain.compiled(model.main, scope), model.main
            if front != "executor":
                places = static.cpu_places(["one device", "two devices"].index(front) + 1)
                self.executor = target = static.CompiledProgram(model.main)
                target.with_data_parallel(model.loss.name, places=places)
            self.run = partial(plain.run, target, feed, [model.loss], scope=scope, use_prune=pruned)
        for _ in range(4):
            self.run()
        self.inspection: Inspection = self.executor.inspection

    @property
    def whole(self) -> Any:
        """The last step as one call."""
        assert self.inspection.last_step is not None
        return self.inspection.last_step.whole


def _updates(model: Model) -> list[Any]:
    return [op for op in model.main.global_block().ops if "Param" in op.inputs]


@pytest.fixture(params=FRONTS)
def front(request: pytest.FixtureRequest) -> Front:
    return str(request.param)


@pytest.fixture
def momentum() -> Model:
    return regression(dropout=False, batch_norm=False, optimizer=wb.optimizer.Momentum(0.1, 0.9))


pruned = pytest.mark.parametrize("pruned", [False, True], ids=["whole", "pruned"])


def skip_some_updates(front: Front, pruned: bool) -> None:
    if pruned and front == "parallel executor":
        pytest.skip("with some of the updates it changes single variables, one by one")


@pruned
def test_a_step_in_one_call(momentum: Model, front: Front, pruned: bool) -> None:
    skip_some_updates(front, pruned)
    warm = Warm(momentum, front, pruned)
    assert warm.whole is not None
    assert python_calls(warm.run) <= (IN_PARTS if front == "two devices" else ONE_CALL)


@pytest.fixture
def in_parts() -> Iterator[None]:
    with mock.patch.object(bound_step, "whole_step", return_value=None):
        yield


@pruned
@pytest.mark.usefixtures("in_parts")
@pytest.mark.parametrize("has_schedule", [False, True])
def test_a_step_in_parts(momentum: Model, front: Front, has_schedule: bool, pruned: bool) -> None:
    skip_some_updates(front, pruned)
    warm = Warm(regression(dropout=False, batch_norm=False) if has_schedule else momentum, front, pruned)
    assert warm.whole is None
    assert python_calls(warm.run) <= IN_PARTS


def hops_to(here: CodeType) -> int:
    """How many Python functions stand between the one that calls this and the one of this code."""
    frame, depth = sys._getframe(2), 0
    while frame.f_code is not here:
        assert frame.f_back is not None
        frame, depth = frame.f_back, depth + 1
    return depth


@pruned
def test_the_way_to_the_kernel_of_a_step(momentum: Model, front: Front, pruned: bool) -> None:
    skip_some_updates(front, pruned)
    warm, depths = Warm(momentum, front, pruned), list[int]()
    whole, here = warm.whole, sys._getframe().f_code
    kernel = whole._call.args[0]

    def look() -> int:
        depths.append(hops_to(here))
        return int(kernel())

    whole._call = partial(whole._call.func, look)
    warm.run()
    assert len(depths) == 1 and depths[0] <= HOPS


def kernel_depths(warm: Warm) -> list[int]:
    """The hops to the first kernel of every piece of a tape that the next step runs in this thread."""
    depths, here, call = list[int](), sys._getframe().f_code, Segment.__call__

    def look(self: Segment) -> None:
        depths.append(hops_to(here) + 1)  # and `call` itself
        call(self)

    with mock.patch.object(Segment, "__call__", look):
        warm.run()
    return depths


@pruned
@pytest.mark.usefixtures("in_parts")
@pytest.mark.parametrize("has_rows_in_python", [False, True])
def test_the_way_to_the_first_kernel_in_parts(front: Front, pruned: bool, has_rows_in_python: bool) -> None:
    model = regression(dropout=False, batch_norm=False)
    with mock.patch.dict(registry.RULES) as rules:
        if has_rows_in_python:
            del rules[registry.ANY_ROWS]
        warm = Warm(model, front, pruned)
        assert warm.inspection.last is not None and warm.inspection.last.is_native is not has_rows_in_python
    depths = kernel_depths(warm)
    assert len(depths) > has_rows_in_python and max(depths) <= HOPS


@pytest.mark.usefixtures("in_parts")
def test_on_two_threads() -> None:
    """The second one is handed its piece, and waited for."""
    with mock.patch.object(schedule, "processors", return_value=2):
        mlp = workloads.training(workloads.WORKLOADS["mlp"], 2)
        for _ in range(4):
            mlp.step()
    last = mlp.executor.inspection.last
    assert last is not None and last.plan.schedule.threads == 2 and last.is_native
    assert python_calls(mlp.step) - 1 <= IN_PARTS


@pruned
def test_a_feed_is_wrapped_twice(momentum: Model, front: Front, pruned: bool) -> None:
    """Once so that it stays what it was in this step, once with what is known of it; its arrays are the caller's."""
    warm, feeds = Warm(momentum, front, pruned), []
    feed = warm.run.args[1]
    with mock.patch.object(Fed, "__init__", autospec=True, side_effect=Fed.__init__) as wraps:
        warm.run()
    assert wraps.call_count == 1
    _, _, sources = wraps.call_args.args
    feeds = {id(source) for source in sources}
    assert len(feeds) == 1 and id(feed) not in feeds
    assert all(source[name] is array for source in sources for name, array in feed.items())
