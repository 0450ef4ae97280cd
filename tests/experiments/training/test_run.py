"""train and Run: the loop, its errors, its schedules."""

from __future__ import annotations

import sys
import threading
import time
from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.executors.models import Model, regression
from workbench.experiments import train


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
    train(model.main, [model.feed(0)], epochs=1, scope=reference).wait(10)
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
        run = train(model.main, Batches(model, 2), epochs=1)
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


def test_progress_goes_to_a_terminal(
    model: Model, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "ipykernel", raising=False)  # what tests of notebooks leave
    train(
        model.main, Batches(model, 3), 3, fetch={"loss": model.loss}, scope=ready(model), progress=True, name="net"
    ).wait(10)
    shown = capsys.readouterr().err
    assert "net: 100%" in shown and "3/3" in shown and "loss=" in shown
    train(model.main, Batches(model, 3), scope=ready(model), epochs=1, progress=False).wait(10)
    assert capsys.readouterr().err == ""


def test_seconds_leave_pauses_out(model: Model) -> None:
    start = time.monotonic()
    run = train(model.main, Batches(model, 20), epochs=1, scope=ready(model))
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
    run = train(model.main, Batches(model, 1), epochs=1, fetch={"out": model.out}, scope=ready(model)).wait(10)
    assert isinstance(run.last["out"], float) and np.isfinite(run.last["out"])


def test_leaving_an_epoch_early_ends_the_prefetch_thread(model: Model) -> None:
    data = wb.io.TensorDataset([np.ones((64, 3), np.float32), np.ones((64, 1), np.float32)])
    loader = wb.io.DataLoader(data, batch_size=4, prefetch=2)
    run = train(model.main, loader, steps=2, scope=ready(model)).wait(10)
    assert run.step == 2
    _until(lambda: not any(t.name == "workbench-prefetch" for t in threading.enumerate()))


def test_prefetched_batches_give_what_plain_ones_give(model: Model) -> None:
    r = np.random.default_rng(0)
    data = wb.io.TensorDataset([r.random((40, 3), np.float32), r.random((40, 1), np.float32)])
    states = []
    for prefetch in (0, 3):
        scope = ready(model)
        next(iter(model.main.lr_schedulers.values())).set_state_dict({"last_epoch": 0, "last_lr": 0.05})
        loader = wb.io.DataLoader(data, batch_size=8, shuffle=True, seed=3, prefetch=prefetch)
        train(model.main, loader, epochs=2, scope=scope).wait(30)
        states.append(model.state(scope))
    assert states[0] == states[1]


def test_two_runs_in_scopes_of_their_own(model: Model) -> None:
    others = [regression() for _ in range(3)]  # schedulers belong to programs, so each run has its own
    scopes = [ready(m) for m in others]
    runs = [train(m.main, Batches(m, 20), epochs=1, scope=s) for m, s in zip(others[1:], scopes[1:], strict=True)]
    for run in runs:
        run.wait(30)
    train(others[0].main, Batches(others[0], 20), epochs=1, scope=scopes[0]).wait(30)
    assert model.state(scopes[0]) == model.state(scopes[1]) == model.state(scopes[2])


class Devices(wb.static.Executor):
    """Looks like an executor on four devices."""

    device_count = 4


def test_batches_too_small_for_the_devices_are_refused_before_anything_runs(model: Model) -> None:
    data = wb.io.TensorDataset([np.ones((9, 3), np.float32), np.ones((9, 1), np.float32)])
    scope = ready(model)
    with pytest.raises(ValueError, match="fewer than the 4 devices"):
        train(model.main, wb.io.DataLoader(data, batch_size=4), executor=Devices(), scope=scope)
    assert train(model.main, wb.io.DataLoader(data, batch_size=4), epochs=1, scope=scope).wait(10).step == 3


def test_a_class_made_of_an_executor_runs_its_steps_itself(model: Model) -> None:
    seen: list[list[str]] = []

    class Counting(wb.static.Executor):
        def run(self, *args: Any, **options: Any) -> Any:
            seen.append(sorted(options["feed"]))
            return super().run(*args, **options)

    train(model.main, Batches(model, 3), epochs=1, scope=ready(model), executor=Counting()).wait(30)
    assert seen == [["x", "y"]] * 3


def plateau() -> Model:
    rate = wb.optimizer.lr.ReduceOnPlateau(0.1, factor=0.5, patience=0, threshold=0.0)
    return regression(dropout=False, batch_norm=False, optimizer=wb.optimizer.SGD(rate))


@pytest.mark.parametrize("lr_step", ["step", "epoch"])
def test_reduce_on_plateau_follows_the_first_fetch(lr_step: str) -> None:
    model, same = plateau(), plateau()
    batches = [model.feed(0), model.feed(1)] * 2
    run = train(model.main, batches, epochs=3, fetch=[model.loss, model.out], scope=ready(model), lr_step=lr_step)
    losses = run.wait(10).history[model.loss.name]
    rate, expected = (next(iter(m.main.lr_schedulers.values())) for m in (model, same))
    for metric in losses if lr_step == "step" else np.reshape(losses, (3, 4)).mean(1):
        expected.step(metric)
    assert rate.state_dict() == expected.state_dict()
    assert rate() < 0.1 or lr_step == "epoch"


def test_the_loss_is_recorded_unless_something_else_is_asked_for(model: Model) -> None:
    batches, same = [model.feed(0), model.feed(1)], regression()
    asked = train(model.main, batches, epochs=1, fetch={"mine": model.loss}, scope=ready(model)).wait(30)
    run = train(same.main, batches, epochs=1, scope=ready(same)).wait(30)
    assert run.fetch == {"loss": same.loss.name} and run.history == {"loss": asked.history["mine"]}
    assert train(model.main, batches, epochs=1, fetch=[], scope=ready(model)).wait(30).history == {}
    test = model.main.clone(for_test=True)  # has no backward pass
    assert train(test, batches, epochs=1, scope=ready(model), lr_step="never").wait(30).history == {}


def test_without_a_fetch_reduce_on_plateau_follows_the_loss() -> None:
    model, same = plateau(), plateau()
    losses = train(model.main, [model.feed(0)], steps=4, scope=ready(model)).wait(10).history["loss"]
    rate, expected = (next(iter(m.main.lr_schedulers.values())) for m in (model, same))
    for loss in losses:
        expected.step(loss)
    assert rate.state_dict() == expected.state_dict()


def test_reduce_on_plateau_needs_a_fetch() -> None:
    model = plateau()
    with pytest.raises(ValueError, match=r"'learning_rate_0' is a ReduceOnPlateau.*fetch=\[loss\].*lr_step='never'"):
        train(model.main, [model.feed(0)], fetch=[], scope=ready(model))
    train(model.main, [model.feed(0)], fetch=[], scope=ready(model), lr_step="never").wait(10)
    with pytest.raises(TypeError, match="list or dict"):
        train(model.main, [model.feed(0)], fetch=3, scope=ready(model))


@pytest.mark.parametrize(("steps", "expected"), [(None, 2), (6, 2), (5, 1), (7, 2)])
@pytest.mark.parametrize("known", [True, False])
def test_schedulers_step_once_per_finished_epoch(model: Model, steps: int | None, expected: int, known: bool) -> None:
    class Unknown(Batches):
        def __len__(self) -> int:
            raise TypeError

    rate = next(iter(model.main.lr_schedulers.values()))
    epochs = 2 if steps is None else None
    loader = (Batches if known else Unknown)(model, 3)
    train(model.main, loader, steps, epochs, scope=ready(model), lr_step="epoch").wait(10)
    short = not known and steps == 6  # nothing tells that the sixth batch was the last of its epoch
    assert rate.last_epoch == expected - short
