"""The first NaN and the newest feeds, as a dashboard tells them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any
from unittest import mock

import numpy as np
import pytest

import workbench as wb
from tests.notebook.dashboard.conftest import of_kind
from tests.notebook.dashboard.test_model import begin, reach
from tests.parallel.models import Model as Built
from tests.parallel.models import build, column, constant
from workbench import static
from workbench.executors.running.finding.step_cache import StepCache
from workbench.io import DataLoader
from workbench.notebook.dashboard.model.model import Model
from workbench.notebook.dashboard.model.subject import Subject
from workbench.notebook.dashboard.page.answers import answer
from workbench.notebook.dashboard.watching.nan_message import LoopNaN
from workbench.notebook.figures.text import describe

ModelOf = Callable[[Any], Model]
GOOD, BAD = column(1, 2, 3, 4, 5, 6, 7), column(1, 2, 3, 4, -5, 6, 7)


def logarithm() -> Any:
    x = static.data("X", [None, 1])
    h = static.nn.fc(x, 1, weight_attr=constant(1.0), bias_attr=constant(0.1))
    return wb.mean(wb.tanh(wb.log(h)))


@pytest.fixture
def logs() -> Built:
    return build(logarithm, wb.optimizer.Momentum(0.001, 0.9)).start()


def model_of_target(target: Any) -> Model:
    return Model(Subject.of(target, {}), dict, lambda program, name: None)


def texts(model: Model) -> str:
    return describe({message["type"]: message for message in model.everything()})


def kinds(model: Model) -> set[str]:
    model.shown[0].throttle.hurry()
    return {message["type"] for message in model.news()}


def asked(model: Model, node: int, step: int | None) -> dict[str, Any]:
    reply = answer(model, {"type": "statistics", "graph": model.watch.graph_number, "node": node, "step": step})
    assert reply is not None and reply["error"] is None, reply
    return reply


def test_steps_of_a_part_are_steps_of_the_whole(logs: Built) -> None:
    compiled = static.CompiledProgram(logs.main).with_data_parallel(logs.loss.name, places=static.cpu_places(1))
    exe = static.Executor()
    (update, *_) = (op for op in logs.main.global_block().ops if op.type == "momentum")

    def step(rows: np.ndarray, prune: bool, *ops: Any) -> None:
        exe.run(compiled, {"X": rows}, [logs.loss, *ops], scope=logs.scope, use_prune=prune)

    step(GOOD, False)
    engine = compiled.inspection
    noted, numbers = LoopNaN(engine), []
    dismiss = [engine.guard(noted), engine.guard(lambda take: numbers.append(take().step))]
    for _ in range(3):  # the last ones in one call
        step(GOOD, True)
    step(GOOD, False)
    step(GOOD, False, update)
    assert engine.steps == 6 and engine.newest_feed is not None and engine.newest_feed[0] == 5
    with refusing(engine):
        step(BAD, True)
    assert engine.steps == 6 and engine.newest_feed[0] == 6 and noted.first is not None and noted.first.step == 7
    dismiss.pop()()
    assert numbers == [6] and engine.newest_feed is not None
    dismiss.pop()()
    assert engine.newest_feed[0] == 6
    step(GOOD, False)
    assert engine.steps == 7 and engine.newest_feed[0] == 6


@contextmanager
def refusing(engine: Any) -> Iterator[None]:
    """A step with a NaN is not applied, so that the parameters stay good."""

    def refuse(take: Any) -> None:
        raise ZeroDivisionError

    dismiss = engine.guard(refuse)
    with pytest.raises(ZeroDivisionError):
        yield
    dismiss()


@pytest.mark.parametrize("devices", [1, 2])
def test_a_loop_of_ones_own(logs: Built, devices: int) -> None:
    exe = logs.parallel(devices)
    model = model_of_target(exe)
    for rows in (GOOD, GOOD):
        exe.run([logs.loss], feed={"X": rows})
    model.news()
    weight, bias = logs.value("fc_0.w_0"), logs.value("fc_0.b_0")
    for rows in (BAD, GOOD, GOOD):
        exe.run([logs.loss], feed={"X": rows})
    model.prepare()
    state = of_kind(model.news(), "state")["run"]
    nan, place = state["nan"], f"cpu:{devices - 1}"
    assert (nan["step"], nan["title"], nan["op"], nan["device"]) == (3, "NaN from step 3", "log", place)
    assert nan["reason"] == f"op 'log' on {place} makes it, in row 4 of the batch"
    assert "test_nan.py" in nan["site"]
    assert f"NaN from step 3: op 'log' on {place} makes it, in row 4 of the batch" in texts(model)
    reply = asked(model, nan["node"], nan["step"])
    assert "of step 3" in reply["note"]
    mine = next(one for one in reply["values"] if one["name"].startswith("log"))
    rows = BAD if devices == 1 else BAD[3:]
    with np.errstate(invalid="ignore"):
        expected = np.log(rows * weight + bias)
    assert (mine["device"], mine["nan"]) == (devices - 1, 1)
    assert mine["max"] == pytest.approx(np.nanmax(expected), rel=1e-5)
    now = asked(model, nan["node"], None)
    assert "of step 5" in now["note"] and now["values"][0]["nan"] == len(rows)
    model.close()
    assert exe.inspection.guards == ()


def test_what_the_failing_step_was_fed_is_kept_with_the_row_in_question(logs: Built) -> None:
    exe = logs.parallel(2)
    model = model_of_target(exe)
    rows = BAD.copy()
    for batch in (GOOD, rows, GOOD, GOOD):
        exe.run([logs.loss], feed={"X": batch})
    rows[:] = 1.0  # the caller fills the array again
    reply = answer(model, {"type": "fed", "step": 2, "request": "a 1"})
    assert reply is not None and (reply["type"], reply["request"], reply["step"]) == ("fed", "a 1", 2)
    assert reply["about"] == "the first with NaN; shown of it: row 4 of the batch"
    feeds = reply["feeds"]
    assert (feeds["rows"], feeds["first"], feeds["shapes"]) == ({"X": [3, 4]}, {"X": [0, 3]}, {"X": [[3, 1], [4, 1]]})
    assert [one["values"].tolist() for one in feeds["previews"]["X"]] == [[1, 2, 3], [-5]]
    assert feeds["devices"] == ["cpu:0", "cpu:1"] and feeds["nbytes"] == [12, 16]
    missing = answer(model, {"type": "fed", "step": 3, "request": "a 2"})
    assert missing is not None and "step 3" in missing["error"]
    model.close()


def test_a_run_of_the_plain_executor(logs: Built) -> None:
    run = wb.train(
        logs.main, [{"X": GOOD}, {"X": BAD}], fetch={"loss": logs.loss}, scope=logs.scope, progress=False, record=False
    ).wait(60)  # fmt: skip
    model = model_of_target(run)
    nan = of_kind(model.everything(), "state")["run"]["nan"]
    assert (nan["step"], nan["op"], nan["device"]) == (2, "log", "cpu:0")
    reply = asked(model, nan["node"], 2)
    assert [one["nan"] for one in reply["values"]] == [1]
    assert "NaN from step 2" in texts(model)
    model.close()


def test_the_switch_of_the_controls(logs: Built) -> None:
    bound = {"logs": logs.main, "feeds": [{"X": GOOD}] * 4 + [{"X": BAD}] * 2}
    model = Model(Subject.of(logs.main, bound), lambda: bound, lambda program, name: logs.startup)
    assert model.controls.values()["stop_on_nan"] is False
    run = begin(model, data="feeds", devices=2, epochs=1)
    reach(model, 6)
    assert (str(run.state), run.first_nan.step) == ("done", 5)
    run = begin(model, stop_on_nan=True)
    reach(model, 4)
    state = of_kind(model.everything(), "state")
    assert (state["run"]["state"], state["run"]["step"]) == ("failed", 4)
    error = state["run"]["error"]
    assert (error["op"], error["device"]) == ("log", "cpu:1") and "test_nan.py" in error["site"]
    assert state["run"]["values"]["stop_on_nan"] is True
    run = begin(model, stop_on_nan=None)
    reach(model, 6)
    assert (str(run.state), run.step) == ("done", 6)
    model.close()


def test_the_newest_steps_feeds_are_kept(built: Built, batch: dict[str, Any], model_of: ModelOf) -> None:
    exe = built.start().parallel(2)
    model = model_of(exe)
    exe.run([built.loss], feed=batch)
    model.news()
    model.news()
    before = {name: array.copy() for name, array in batch.items()}
    model.watch.sampled_steps.close()  # from now on no step is looked at
    later = {name: array[:5] + 1 if name == "x" else array[:5] for name, array in before.items()}
    for feed in (before, before, later):
        exe.run([built.loss], feed=feed)
    assert "fed" not in kinds(model)  # steps follow each other
    model.shown[0].throttle.hurry()
    fed = of_kind(model.news(), "fed")
    assert (fed["step"], fed["applied"], fed["feeds"]["rows"]["x"]) == (4, True, [2, 3])
    np.testing.assert_array_equal(fed["feeds"]["previews"]["x"][1]["rows"][0], later["x"][2])
    assert "fed" not in kinds(model)
    assert "fed in step 4:" in texts(model)


def test_the_feeds_of_a_step_that_failed_are_kept(built: Built, batch: dict[str, Any], model_of: ModelOf) -> None:
    exe = built.start().parallel(2)
    model = model_of(exe)
    exe.run([built.loss], feed=batch)
    model.news()
    with pytest.raises(ValueError):
        exe.run([built.loss], feed={**batch, "y": np.full((7, 1), 77)})
    fed = of_kind(model.everything(), "fed")
    assert (fed["step"], fed["applied"]) == (2, False)
    assert fed["feeds"]["previews"]["y"][0]["values"] == [77]
    assert "fed in step 2, which was not applied:" in texts(model)


@pytest.mark.parametrize("last", [1, 77])
def test_a_dashboard_made_after_a_run_shows_the_feed_of_its_last_step(
    built: Built, batch: dict[str, Any], model_of: ModelOf, last: int
) -> None:
    marked = {**batch, "y": np.full((7, 1), last)}
    exe = built.start().parallel(2)
    run = wb.train(built.main, [batch, batch, marked], epochs=1, executor=exe, progress=False, record=False)
    with suppress(ValueError):
        run.wait(60)
    fed = of_kind(model_of(run).everything(), "fed")
    assert (fed["step"], fed["applied"]) == (3, last != 77)
    assert fed["feeds"]["previews"]["y"][0]["values"] == [last]


def test_a_dashboard_made_after_a_loop_failed_shows_the_feed_of_the_failed_step(
    built: Built, batch: dict[str, Any], model_of: ModelOf
) -> None:
    exe = built.start().parallel(2)
    exe.run([built.loss], feed=batch)
    with pytest.raises(ValueError):
        exe.run([built.loss], feed={**batch, "y": np.full((7, 1), 77)})
    fed = of_kind(model_of(exe).everything(), "fed")
    assert (fed["step"], fed["applied"]) == (2, False)


def test_feeds_asked_for_in_the_middle_of_a_step_are_told_again(
    built: Built, batch: dict[str, Any], model_of: ModelOf
) -> None:
    exe = built.start().parallel(2)
    model = model_of(exe)
    for _ in range(4):
        exe.run([built.loss], feed=batch)
        model.news()
    model.watch.sampled_steps.close()
    exe.run([built.loss], feed=batch)
    find, told = StepCache.find, []

    def find_and_ask(*given: Any) -> Any:
        told.append(model.watch.news_of_fed())
        return find(*given)

    with mock.patch.object(StepCache, "find", find_and_ask):
        exe.run([built.loss], feed=batch)
    assert [(fed["step"], fed["applied"]) for fed in told] == [(6, False)]
    fed = model.watch.news_of_fed()
    assert (fed["step"], fed["applied"]) == (6, True)
    assert model.watch.news_of_fed() is None


def test_the_last_steps_of_a_run_are_kept(model_of: ModelOf, built: Built, loader: DataLoader) -> None:
    model = model_of(built.main)
    begin(model, data="batches", devices=2, steps=9)
    reach(model, 9)
    messages = model.everything()
    assert max(m["step"] for m in messages if m["type"] in ("sample", "fed")) == 9


def test_a_reason_that_cannot_be_found_is_looked_for_once(logs: Built, monkeypatch: pytest.MonkeyPatch) -> None:
    exe, tried = logs.parallel(2), []
    model = model_of_target(exe)
    exe.run([logs.loss], feed={"X": BAD})
    assert model.nan is not None

    def fails() -> None:
        tried.append(1)
        raise OSError("no space left")

    monkeypatch.setattr(model.nan.replay, "find_nan", fails)
    for _ in range(3):  # pulses
        model.prepare()
        model.news()
    assert len(tried) == 1
    reason = of_kind(model.everything(), "state")["run"]["nan"]["reason"]
    assert reason == "its loss or a gradient is not finite; the step could not be run again: OSError: no space left"
    model.close()
