"""`run.first_nan` and `stop_on_nan`: which step, which op, on which device, in which row of the whole batch."""

from __future__ import annotations

import linecache
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.parallel.models import Model, build, column, constant
from workbench import static
from workbench.experiments import runs
from workbench.experiments.first_nan import StoppedOnNaN
from workbench.experiments.launch.setup import Setup
from workbench.framework.program.guard import static_mode


def logarithm() -> Any:
    x = static.data("X", [None, 1])
    h = static.nn.fc(x, 1, weight_attr=constant(1.0), bias_attr=constant(0.1))
    return wb.mean(wb.tanh(wb.log(h)))


@pytest.fixture(autouse=True)
def _static() -> Iterator[None]:
    with static_mode():
        yield


@pytest.fixture
def model() -> Model:
    return build(logarithm, wb.optimizer.Momentum(0.001, 0.9)).start()


def feeds(bad: int, steps: int = 12, rows: int = 7, row: int = 4) -> list[dict[str, np.ndarray]]:
    """So many batches; one row of batch number `bad`, from 1, is negative."""
    batches = [{"X": column(*range(1, rows + 1))} for _ in range(steps)]
    batches[bad - 1]["X"][row] = -5.0
    return batches


def trained(model: Model, devices: int, data: Any, **options: Any) -> Any:
    executor = model.parallel(devices) if devices else None
    scope = None if devices else model.scope
    options |= {"fetch": {"loss": model.loss}, "executor": executor, "scope": scope}
    return wb.train(model.main, data, epochs=1, progress=False, record=False, **options)


WHERE = {0: "cpu:0", 2: "cpu:1", 3: "cpu:2"}  # 7 rows: 3 and 4 on two devices, 2, 2 and 3 on three


@pytest.mark.parametrize("devices", WHERE)
def test_the_first_nan_of_a_run_is_named(model: Model, devices: int) -> None:
    run = trained(model, devices, feeds(bad=8)).wait(60)
    assert (run.state, run.step) == ("done", 12) and np.isnan(run.history["loss"][7:]).all()
    nan = run.first_nan
    assert (nan.step, nan.op, nan.device, nan.origin.rows) == (8, "log", WHERE[devices], (4,))
    assert "wb.log" in linecache.getline(*nan.site)
    assert str(nan).startswith(f"NaN from step 8: op 'log' on {WHERE[devices]} makes it, in row 4 of the batch\n")
    assert "NaN from step 8" in repr(run)


@pytest.mark.parametrize("devices", WHERE)
def test_a_run_can_stop_in_front_of_it(model: Model, devices: int) -> None:
    run = trained(model, devices, feeds(bad=8), stop_on_nan=True)
    with pytest.raises(StoppedOnNaN, match="NaN from step 8: op 'log'") as caught:
        run.wait(60)
    assert (run.state, run.step, len(run.history["loss"])) == ("failed", 7, 7)
    assert "step 7" in str(caught.value) and caught.value.node.type == "log"
    same_model = build(logarithm, wb.optimizer.Momentum(0.001, 0.9)).start()
    assert trained(same_model, devices, feeds(bad=8)[:7]).wait(60).first_nan is None
    values, expected = model.values(), same_model.values()
    assert all(values[name].tobytes() == expected[name].tobytes() for name in expected)


def test_a_good_run_has_none_and_an_executor_is_left_as_it_was(model: Model) -> None:
    executor = model.parallel(2)
    run = wb.train(model.main, feeds(bad=3)[3:], executor=executor, epochs=1, progress=False, record=False).wait(60)
    assert run.first_nan is None
    assert executor.inspection.guards == ()
    executor.run([model.loss], feed=feeds(bad=3)[2])  # somebody's own step
    assert run.first_nan is None


def test_numbers_of_a_run_that_goes_on_are_those_of_the_run(model: Model) -> None:
    executor = model.parallel(2)
    for batch in feeds(bad=9)[:3]:
        executor.run([model.loss], feed=batch)
    run = wb.train(model.main, feeds(bad=2), executor=executor, epochs=1, progress=False, record=False).wait(60)
    assert run.first_nan.step == 2


def test_parameters_that_were_no_numbers_before_are_told_as_such(model: Model) -> None:
    model.scope.find_var("fc_0.w_0").tensor.set(np.full((1, 1), np.nan, np.float32))
    run = trained(model, 2, feeds(bad=9)).wait(60)
    assert run.first_nan.step == 1
    assert "fc_0.w_0 was not finite before the step" in run.first_nan.reason


@pytest.mark.parametrize("devices", WHERE)
def test_a_nan_in_what_was_fed_is_told_as_such(model: Model, devices: int) -> None:
    batches = feeds(bad=3)
    batches[2]["X"][4] = np.nan
    nan = trained(model, devices, batches).wait(60).first_nan
    assert nan.reason == f"it was fed as 'X', in row 4 of the batch; op {nan.op!r} on {WHERE[devices]} reads it"


def test_an_infinite_loss_is_called_that() -> None:
    def body() -> Any:
        x = static.data("X", [None, 1])
        return wb.mean(wb.log(wb.abs(static.nn.fc(x, 1, weight_attr=constant(1.0), bias_attr=False))))

    built = build(body, wb.optimizer.SGD(0.0)).start()
    run = trained(built, 2, [{"X": column(1, 1)}, {"X": column(1, 0)}]).wait(60)
    assert run.first_nan.reason.startswith("op 'log' on cpu:1 makes it, in row 1")
    assert run.first_nan.title == "Inf from step 2"


def test_a_setup_hands_the_switch_on(model: Model) -> None:
    setup = Setup(model.main, model.startup, feeds(bad=5), devices=2)
    assert setup.start(record=False, progress=False).wait(60).state == "done"
    run = setup.with_(stop_on_nan=True).start(record=False, progress=False)
    with pytest.raises(StoppedOnNaN):
        run.wait(60)
    assert run.step == 4


class _NoText(Exception):
    def __str__(self) -> str:
        raise RuntimeError("nothing to say")


@pytest.mark.parametrize(
    ("error", "why"),
    [
        (MemoryError("no room\nfor it"), "MemoryError: no room"), (RuntimeError(), "RuntimeError"),
        (_NoText(), "_NoText"), (wb.errors.ExecutionError("a device is gone"), "a device is gone"),
        (wb.errors.ExecutionError(""), "ExecutionError"),
    ],
)  # fmt: skip
def test_a_step_that_cannot_be_run_again_is_tried_once(model: Model, error: Exception, why: str) -> None:
    nan = trained(model, 0, feeds(bad=3)).wait(60).first_nan
    tried = []

    def fail() -> None:
        tried.append(error)
        raise error

    nan.replay.find_nan = fail
    for _ in range(3):
        assert nan.reason == f"its loss or a gradient is not finite; the step could not be run again: {why}"
    assert (nan.op, nan.origin, str(nan).splitlines()[0]) == (None, None, f"NaN from step 3: {nan.reason}")
    assert len(tried) == 1


def sums_of_logarithms() -> Any:
    x = static.data("X", [None, 1])
    return wb.mean(wb.log(static.nn.fc(x, 1, weight_attr=constant(1.0), bias_attr=False)))


def test_whoever_shows_a_run_says_the_same_of_it(tmp_path: Path) -> None:
    model = build(sums_of_logarithms, wb.optimizer.SGD(0.001)).start()
    batches = feeds(bad=5)
    batches[4]["X"][4] = 0.0  # its logarithm is -Inf; the parameters made of it give NaN from the step after it on
    file = tmp_path / "runs.sqlite"
    run = wb.train(
        model.main, batches, fetch={"loss": model.loss}, scope=model.scope, epochs=1, progress=False, record=file
    ).wait(60)
    losses = run.history["loss"]
    assert np.isneginf(losses[4]) and np.isnan(losses[5:]).all()
    assert "Inf from step 5" in repr(run)  # before anybody has asked where it comes from
    (recorded,) = runs(file)
    assert (recorded.first_nan, recorded.nan_title) == (5, run.first_nan.title)
    (told,) = (event for event in recorded.events if event.kind == "first_nan")
    assert (told.step, told.data["op"], told.data["device"]) == (5, "log", "cpu:0")
    compared = wb.compare(run, file=file)
    assert "run 1: Inf from step 5; loss is NaN at step 6, the first of 7" in compared._repr_html_()
    for text in (repr(recorded), repr(runs(file)), repr(compared), compared._repr_html_()):
        assert "Inf from step 5" in text and "NaN from step" not in text
