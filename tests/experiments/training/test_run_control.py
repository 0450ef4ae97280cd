"""A run is paused, advanced by steps, saved, stopped, waited for and interrupted, at step boundaries alone."""

from __future__ import annotations

import os
import re
import signal
import threading
import time
from pathlib import Path
from typing import Any

import pytest

import workbench as wb
from tests.executors.models import Model
from tests.experiments.training.test_run import Batches, _until, ready
from workbench.experiments import Run, train
from workbench.parallel.cluster.rank_errors import RankLost


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


def test_advance_makes_so_many_steps_and_holds(model: Model) -> None:
    run = train(model.main, Batches(model, 50, 0.0), epochs=1, scope=ready(model), paused=True)
    _until(lambda: run.pause(1.0))
    assert (run.step, run.state) == (0, "paused")
    for steps, expected in ((1, 1), (3, 4)):
        run.advance(steps)
        _until(lambda: run.state == "paused")
        time.sleep(0.05)
        assert run.step == expected
    assert run.advance(2, timeout=10) and run.step == 6
    with pytest.raises(wb.errors.InvalidArgument, match="at least 1, got 0"):
        run.advance(0)
    run.advance(1000)  # more than there are
    assert run.wait(10).state == "done" and run.step == 50


def test_steps_asked_for_one_after_the_other_add_up(model: Model) -> None:
    run = train(model.main, Batches(model, 50, 0.005), scope=ready(model), paused=True)
    _until(lambda: run.pause(1.0))
    for _ in range(3):
        run.advance()
    assert run.advance(timeout=10) and run.step == 4
    run.stop()


def test_a_pause_asked_for_while_saving_holds(model: Model, tmp_path: Path) -> None:
    run = train(model.main, Batches(model, 10_000, 0.001), scope=ready(model), record=False)
    _until(lambda: run.step > 3)
    write, states = run.write_checkpoint, []

    def slowly(path: Any) -> None:
        states.append(str(run.state))
        run.pause()
        write(path)

    run.write_checkpoint = slowly
    run.save(tmp_path / "made")
    held = run.step
    time.sleep(0.1)
    assert states == ["running"] and (run.state, run.step) == ("paused", held)
    run.stop()
    run.wait(10)


def test_the_run_goes_on_between_saves(model: Model, tmp_path: Path) -> None:
    run = train(model.main, Batches(model, 10_000), scope=ready(model), record=False)
    _until(lambda: run.step > 3)
    steps = []
    for _ in range(8):
        run.save(tmp_path / "made")
        steps.append(run.checkpoints[-1][0])
    assert len(set(steps)) == 8 and steps == sorted(steps)
    run.pause(10)
    assert {run.save(tmp_path / "made") and run.checkpoints[-1][0] for _ in range(3)} == {run.step}
    run.stop()
    run.wait(10)


def test_several_threads_save_at_once(model: Model, tmp_path: Path) -> None:
    """No step is made while one of them writes."""
    run = train(model.main, Batches(model, 100_000), scope=ready(model), record=False)
    _until(lambda: run.step > 3)
    write, moved = run.write_checkpoint, []

    def slowly(path: Any) -> None:
        before = run.step
        time.sleep(0.01)
        write(path)
        moved.append(run.step - before)

    run.write_checkpoint = slowly
    threads = [threading.Thread(target=lambda i=i: [run.save(tmp_path / f"{i}") for _ in range(5)]) for i in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert moved == [0] * 15
    run.stop()
    run.wait(10)


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
    with pytest.raises(KeyboardInterrupt) as caught:
        run.wait(20)
    assert run.state == "stopped" and 0 < run.step < 10_000
    assert str(caught.value) == f"run {run.name!r} was stopped after step {run.step}"
    again = ready(model)
    rate = next(iter(model.main.lr_schedulers.values()))
    rate.set_state_dict({"last_epoch": 0, "last_lr": 0.05})
    train(model.main, Batches(model, run.step), epochs=1, scope=again).wait(30)
    assert model.state(scope) == model.state(again), "exactly run.step whole steps were applied"


def test_pause_can_wait_for_the_boundary(model: Model) -> None:
    scope = ready(model)
    run = train(model.main, Batches(model, 1000, 0.01), scope=scope)
    _until(lambda: run.step > 0)
    assert run.pause(timeout=10)
    before, step = model.state(scope), run.step
    time.sleep(0.1)
    assert model.state(scope) == before and run.step == step
    run.stop()
    run.wait(10)
    assert run.pause(), "a finished run stays as it is"
    assert run.state == "stopped"


@pytest.mark.parametrize("order", ["stop pause", "pause stop pause", "stop pause resume pause"])
def test_stopping_wins_over_pausing(model: Model, order: str) -> None:
    run = train(model.main, Batches(model, 1000, 0.002), scope=ready(model))
    for what in order.split():
        getattr(run, what)()
    assert run.wait(10).state == "stopped"


def test_waiting_for_what_cannot_end_is_an_error(model: Model) -> None:
    run = Run("idle", lambda run: iter(()), None)
    with pytest.raises(RuntimeError, match="was not started"):
        run.wait()
    run = train(model.main, Batches(model, 3), scope=ready(model), on_step=lambda run: run.wait() and None)
    with pytest.raises(RuntimeError, match="cannot wait for itself"):
        run.wait(10)


def test_a_run_whose_thread_does_not_start_has_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_more() -> None:
        raise RuntimeError("can't start new thread")

    run = Run("none", lambda run: iter(()), None)
    monkeypatch.setattr(run._thread, "start", no_more)
    with pytest.raises(RuntimeError, match="can't start"):
        run.start()
    assert run.wait(1).state == "stopped"


def test_every_observer_hears_of_the_end(model: Model) -> None:
    heard = []

    def failing(run: Any) -> None:
        if run.finished:
            raise ZeroDivisionError

    run = Run("loop", lambda run: iter([{}, {}]), None)
    run.subscribe(failing)
    run.subscribe(lambda run: heard.append(run.state))
    with pytest.raises(ZeroDivisionError):
        run.start().wait(10)
    assert heard == ["running", "running", "failed"]


def test_a_second_ctrl_c_leaves_a_step_that_takes_long() -> None:
    go_on = threading.Event()

    def work(run: Any) -> Any:
        go_on.wait(20)
        yield {}

    run = Run("slow", work, None).start()
    for seconds in (0.2, 0.5):
        threading.Timer(seconds, os.kill, (os.getpid(), signal.SIGINT)).start()
    with pytest.raises(KeyboardInterrupt):
        run.wait(10)
    assert run.state == "running"
    go_on.set()
    assert run.wait(10).state == "stopped"


def test_a_run_whose_ranks_are_lost_says_what_goes_on_from_where(model: Model, tmp_path: Path) -> None:
    def lose(run: Run) -> None:
        if run.step == 3:
            raise RankLost(1, "was ended by SIGKILL")

    def lost(**how: Any) -> str:
        run = train(model.main, Batches(model, 5, 0.0), epochs=1, record=False, progress=False, **how)
        with pytest.raises(RankLost) as caught:
            run.wait(30)
        return str(caught.value)

    begun = (
        "rank 1 was ended by SIGKILL; the others were ended with it. cluster.restart() starts new ranks\n"
        "  then the same call"
    )
    said = lost(scope=ready(model), on_step=lose)
    assert said.startswith(f"{begun} begins again where this run began, for no checkpoint of it had been written")

    def save(run: Run) -> None:
        run.save(tmp_path / "two.checkpoint") if run.step == 2 else lose(run)

    said = lost(scope=ready(model), on_step=save)
    path = re.search(r"then the same call with checkpoint='([^']+)' goes on from step 2$", said)
    assert path is not None
    steps: list[int] = []
    again = {"epochs": 1, "record": False, "scope": ready(model), "on_step": lambda run: steps.append(run.step)}
    assert train(model.main, Batches(model, 5, 0.0), checkpoint=path[1], **again).wait(30).step == 5
    assert sorted(set(steps)) == [3, 4, 5]
