"""train and Run: the loop, its control, its errors."""

from __future__ import annotations

import os
import signal
import threading
import time
from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.executors.models import Model, regression
from workbench.experiments import train


@pytest.fixture
def model() -> Model:
    return regression()


class Batches:
    """`count` batches per pass; each takes `seconds` to make."""

    def __init__(self, model: Model, count: int, seconds: float = 0.0) -> None:
        self.model, self.count, self.seconds = model, count, seconds

    def __len__(self) -> int:
        return self.count

    def __iter__(self) -> Any:
        for i in range(self.count):
            time.sleep(self.seconds)
            yield self.model.feed(i)


def ready(model: Model) -> wb.static.Scope:
    scope = wb.static.Scope()
    wb.static.Executor().run(model.startup, scope=scope)
    return scope


def test_a_run_equals_a_plain_loop(model: Model) -> None:
    by_hand = ready(model)
    rate = next(iter(model.main.lr_schedulers.values()))
    start = rate.state_dict()
    losses = []
    for _ in range(2):
        for feed in Batches(model, 3):
            losses.append(
                wb.static.Executor().run(model.main, feed=feed, fetch_list=[model.loss], scope=by_hand)[0].item()
            )
            rate.step()
    rate.set_state_dict(start)
    scope = ready(model)
    run = train(model.main, Batches(model, 3), epochs=2, fetch={"loss": model.loss}, scope=scope).wait(30)
    assert run.state == "done" and run.step == run.steps == 6
    assert run.history == {"loss": losses}
    assert model.state(scope) == model.state(by_hand)


def test_steps_cross_epochs_and_lists_are_named_by_the_program(model: Model) -> None:
    batches = [[f["x"], f["y"]] for f in Batches(model, 3)]
    run = train(model.main, batches, steps=7, fetch=[model.loss], startup=model.startup, scope=wb.static.Scope())
    assert run.wait(30).step == 7 and len(run.history[model.loss.name]) == 7
    with pytest.raises(ValueError, match="1 arrays for the 2 feeds of the program: x, y"):
        train(model.main, [[batches[0][0]]], scope=ready(model)).wait(30)


def test_startup_runs_only_when_something_has_no_value(model: Model) -> None:
    scope = ready(model)
    before = model.state(scope)
    train(model.main, [], steps=0, startup=model.startup, scope=scope).wait(30)
    assert model.state(scope) == before


def test_pause_holds_at_a_step_boundary_and_resume_goes_on(model: Model) -> None:
    run = train(model.main, Batches(model, 1000, 0.002), scope=ready(model))
    _until(lambda: run.step > 3)
    run.pause()
    time.sleep(0.1)
    held = run.step
    time.sleep(0.15)
    assert run.step == held and run.state == "paused"
    run.resume()
    _until(lambda: run.step > held + 3)
    run.stop()
    assert run.wait(10).state == "stopped" and run.step < 1000


def test_stop_while_paused(model: Model) -> None:
    run = train(model.main, Batches(model, 1000, 0.002), scope=ready(model))
    run.pause()
    run.stop()
    assert run.wait(10).state == "stopped"


def test_wait_times_out_and_the_run_continues(model: Model) -> None:
    run = train(model.main, Batches(model, 1000, 0.005), scope=ready(model))
    with pytest.raises(TimeoutError, match="is running at step"):
        run.wait(0.1)
    here = run.step
    _until(lambda: run.step > here)
    run.stop()
    run.wait(10)


def test_ctrl_c_stops_at_a_step_boundary(model: Model) -> None:
    scope = ready(model)
    run = train(model.main, Batches(model, 10_000, 0.002), fetch=[model.loss], scope=scope)
    threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
    run.wait(20)
    assert run.state == "stopped" and 0 < run.step < 10_000
    again = ready(model)
    rate = next(iter(model.main.lr_schedulers.values()))
    rate.set_state_dict({"last_epoch": 0, "last_lr": 0.05})
    train(model.main, Batches(model, run.step), scope=again).wait(30)
    assert model.state(scope) == model.state(again), "exactly run.step whole steps were applied"


def test_errors_reach_wait_once_and_leave_the_parameters_alone(model: Model) -> None:
    scope = ready(model)

    def batches() -> Any:
        yield model.feed(0)
        yield {"x": model.feed(1)["x"]}

    run = train(model.main, batches(), scope=scope)
    with pytest.raises(ValueError, match="feed 'y' is missing"):
        run.wait(10)
    assert run.state == "failed" and run.step == 1 and run.wait(1) is run
    reference = ready(model)
    next(iter(model.main.lr_schedulers.values())).set_state_dict({"last_epoch": 0, "last_lr": 0.05})
    train(model.main, [model.feed(0)], scope=reference).wait(10)
    assert model.state(scope) == model.state(reference)


def test_a_failing_observer_fails_the_run(model: Model) -> None:
    def observer(run: Any) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        train(model.main, Batches(model, 3), scope=ready(model), on_step=observer).wait(10)


def test_a_used_up_generator_is_named(model: Model) -> None:
    feeds = (model.feed(i) for i in range(2))
    with pytest.raises(ValueError, match="used up after one pass"):
        train(model.main, feeds, steps=5, scope=ready(model)).wait(10)


def test_the_scope_is_the_callers(model: Model) -> None:
    scope = ready(model)
    with wb.static.scope_guard(scope):
        run = train(model.main, Batches(model, 2))
    run.wait(10)
    assert run.step == 2


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"steps": -1}, "number >= 0 as steps"),
        ({"fetch": [3]}, "Variables or names in fetch"),
        ({"lr_step": "sometimes"}, "lr_step"),
        ({"on_step": 3}, "takes a function"),
    ],
)
def test_wrong_arguments(model: Model, arguments: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        train(model.main, [], scope=ready(model), **arguments)
    with pytest.raises(TypeError, match="takes a Program"):
        train("main", [])


def test_progress_goes_to_a_terminal(model: Model, capsys: pytest.CaptureFixture[str]) -> None:
    train(
        model.main, Batches(model, 3), fetch={"loss": model.loss}, scope=ready(model), progress=True, name="net"
    ).wait(10)
    shown = capsys.readouterr().err
    assert "net: 100%" in shown and "3/3" in shown and "loss=" in shown
    train(model.main, Batches(model, 3), scope=ready(model), progress=False).wait(10)
    assert capsys.readouterr().err == ""


def test_seconds_leave_pauses_out(model: Model) -> None:
    start = time.monotonic()
    run = train(model.main, Batches(model, 20), scope=ready(model))
    run.pause()
    time.sleep(0.5)
    run.resume()
    run.wait(10)
    assert 0 < run.seconds < time.monotonic() - start - 0.4 and run.steps_per_second > 0


def _until(condition: Any, seconds: float = 10.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.002)


def test_np_values(model: Model) -> None:
    run = train(model.main, Batches(model, 1), fetch={"out": model.out}, scope=ready(model)).wait(10)
    assert isinstance(run.last["out"], float) and np.isfinite(run.last["out"])
