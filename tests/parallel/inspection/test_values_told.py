"""Batches and fetched values are told as they are, and listening to one executor leaves the others alone."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

import numpy as np
import pytest

import workbench as wb
from tests.parallel.models import Model, classifier
from workbench import events
from workbench.executors.running.engine import step_runner


@pytest.fixture
def built(_static: None) -> Model:
    return classifier(wb.optimizer.SGD(0.1)).start()


@pytest.fixture
def _static() -> Any:
    from workbench.framework.program.guard import static_mode

    with static_mode():
        yield


@pytest.fixture
def batch() -> dict[str, Any]:
    rng = np.random.default_rng(0)
    return {"x": rng.standard_normal((7, 5), np.float32), "y": rng.integers(0, 3, (7, 1))}


def test_a_batch_is_told_as_each_device_gets_it(built: Model, batch: Any) -> None:
    exe, told = built.parallel(2), []
    with events.subscribe(told.append, events.Batch):
        exe.run([built.loss], feed=batch)
    (event,) = told
    np.testing.assert_array_equal(event.arrays[0]["x"], batch["x"][:3])
    np.testing.assert_array_equal(event.arrays[1]["y"], batch["y"][3:])


def test_what_is_fetched_is_told_with_the_step_and_does_not_make_it_a_watched_one(built: Model, batch: Any) -> None:
    exe, told = built.parallel(2), []
    exe.run([built.loss], feed=batch)
    with (
        events.subscribe(told.append, events.Fetched),
        patch.object(step_runner.StepRunner, "_watched_step", side_effect=AssertionError("watched")),
    ):
        fetched = exe.run([built.loss], feed=batch)
    (event,) = told
    assert (event.step, event.names) == (1, (built.loss.name,))
    np.testing.assert_array_equal(event.values[0], fetched[0])


def test_steps_of_other_executors_are_not_watched(built: Model, batch: Any) -> None:
    mine, other = built.parallel(2), built.parallel(2)
    told: list[Any] = []
    with events.subscribe(told.append, events.Step, executor=mine.inspection.name):
        with patch.object(step_runner.StepRunner, "_watched_step", side_effect=AssertionError("watched")):
            other.run([built.loss], feed=batch)
        mine.run([built.loss], feed=batch)
    assert [event.executor for event in told] == [mine.inspection.name]


def test_what_runs_as_one_names_all_its_nodes(built: Model, batch: Any) -> None:
    exe, told = built.parallel(2), []
    exe.run([built.loss], feed=batch)
    with events.subscribe(told.append, events.OpRun):
        exe.run([built.loss], feed=batch)
    nodes = exe.graph([built.loss]).nodes
    for event in told:
        assert event.op.nodes[0] == event.op.node
        assert event.op.type == "+".join(nodes[n].type for n in event.op.nodes)
