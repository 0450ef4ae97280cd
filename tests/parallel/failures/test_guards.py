"""Guards: a NaN is seen before its step is applied, and what the step began with is kept."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.parallel.inspection.test_stepper import assert_same_bits, state, strategy
from tests.parallel.lowerings import in_both
from tests.parallel.models import build, classifier, column, constant
from workbench import static
from workbench.executors.inspection.replay import Replay
from workbench.executors.running.watching.moment import Moment
from workbench.graph.settings import ReduceStrategy
from workbench.nn import functional as F

pytestmark = in_both


def logarithm() -> Any:
    x = static.data("X", [None, 1])
    h = static.nn.fc(x, 1, weight_attr=constant(1.0), bias_attr=constant(0.1))
    return wb.mean(wb.log(h))  # its gradient, 1/h, is finite wherever h is


def root() -> Any:
    x = static.data("X", [None, 1])
    h = static.nn.fc(x, 1, weight_attr=constant(1.0), bias_attr=constant(0.0))
    return wb.mean(wb.sqrt(h))  # its value at 0 is finite, its gradient is not


GOOD = column(1, 2, 3, 4)
REDUCE = {"reduce_strategy": ReduceStrategy.Reduce}


def guarded(
    body: Callable[[], Any], threads: int = 0, rate: float = 0.01, **fields: Any
) -> tuple[Any, Any, list[Moment]]:
    """A model, its executor on two devices, and what its guard has taken."""
    model = build(body, wb.optimizer.Momentum(rate, 0.9)).start()
    execution = static.ExecutionStrategy()
    execution.num_threads = threads
    exe = model.parallel(2, build_strategy=strategy(**fields), exec_strategy=execution)
    taken: list[Moment] = []
    exe.inspection.guard(lambda take: taken.append(take()))
    return model, exe, taken


@pytest.mark.parametrize("fields", [{}, REDUCE], ids=["all-reduce", "reduce"])
@pytest.mark.parametrize("threads", [1, 2])
def test_the_step_is_kept_as_it_was_and_applied_as_ever(threads: int, fields: dict[str, Any]) -> None:
    model, exe, taken = guarded(logarithm, threads, **fields)
    same_model = build(logarithm, wb.optimizer.Momentum(0.01, 0.9)).start()
    other = same_model.parallel(2, build_strategy=strategy(**fields))
    bad = column(1, 2, -3, 4)
    for _ in range(3):  # the third in one call, where there is such
        exe.run([model.loss], feed={"X": GOOD})
        other.run([same_model.loss], feed={"X": GOOD})
    assert taken == []
    before = state(exe)
    (losses,) = exe.run([model.loss], feed={"X": bad})
    (expected,) = other.run([same_model.loss], feed={"X": bad})
    assert np.isnan(losses[1]) and losses.tobytes() == expected.tobytes()
    assert_same_bits([dict(sorted(d.items())) for d in state(exe)], [dict(sorted(d.items())) for d in state(other)])
    bad[:] = 1.0  # the caller's own
    (moment,) = taken
    assert moment.step == 3 and exe.inspection.steps == 4
    assert [arrays["X"].ravel().tolist() for arrays in moment.feed] == [[1, 2], [-3, 4]]
    assert_same_bits([dict(d) for d in moment.state], before)
    exe.run([model.loss], feed={"X": GOOD})
    assert len(taken) == 1  # the parameters are finite: only the loss was not
    origin = Replay(moment).find_nan()
    assert origin is not None and (origin.node.type, origin.node.device, origin.rows) == ("log", 1, (2,))
    assert "row 2 of the batch" in str(origin)


def test_a_gradient_that_is_not_finite_is_seen_in_its_own_step() -> None:
    model, exe, taken = guarded(root, rate=0.0)
    for rows in (GOOD, GOOD, column(1, 2, 3, 0)):
        (losses,) = exe.run([model.loss], feed={"X": rows})
    assert np.isfinite(losses).all() and [moment.step for moment in taken] == [2]
    assert all(np.isfinite(array).all() for arrays in taken[0].state for array in arrays.values())
    origin = Replay(taken[0]).find_nan()
    assert origin is not None and (origin.node.type, origin.node.device) == ("sqrt_grad", 1)
    assert not np.isfinite(model.value("fc_0.w_0")).all()


def test_nothing_has_to_be_fetched() -> None:
    _, exe, taken = guarded(root)
    exe.run([], feed={"X": column(0, 1, 2, 3)})
    assert len(taken) == 1


@pytest.mark.parametrize("steps", [1, 3], ids=["in parts", "in one call"])
def test_a_guard_that_raises_refuses_the_step(steps: int) -> None:
    model, exe, _ = guarded(logarithm, threads=1)

    def refuse(take: Callable[[], Moment]) -> None:
        raise ZeroDivisionError

    for _ in range(steps):
        exe.run([model.loss], feed={"X": GOOD})
    dismiss = exe.inspection.guard(refuse)
    before = state(exe)
    with pytest.raises(ZeroDivisionError):
        exe.run([model.loss], feed={"X": column(1, 2, -3, 4)})
    assert_same_bits(state(exe), before)
    assert exe.inspection.steps == steps
    exe.run([model.loss], feed={"X": GOOD})
    assert exe.inspection.steps == steps + 1
    dismiss()
    exe.run([model.loss], feed={"X": column(1, 2, -3, 4)})
    assert exe.inspection.steps == steps + 2


def test_large_numbers_are_no_blemish() -> None:
    def body() -> Any:
        x = static.data("X", [None, 1])
        return wb.mean(static.nn.fc(x, 1, weight_attr=constant(1.0), bias_attr=constant(0.0)))

    model, exe, taken = guarded(body)
    (losses,) = exe.run([model.loss], feed={"X": column(1e30, 1e30, 1e30, 1e30)})  # their squares overflow
    assert np.isfinite(losses).all() and taken == []


def noisy() -> Any:
    x = static.data("X", [None, 6])
    h = static.nn.batch_norm(static.nn.fc(x, 8))
    h = F.dropout(h, 0.5)
    return wb.mean(wb.log(static.nn.fc(h, 1)))


def test_a_replay_is_that_very_step() -> None:
    """Random numbers, schedules, statistics and velocities included, while training goes on."""
    model = build(noisy, wb.optimizer.Momentum(wb.optimizer.lr.ExponentialDecay(0.1, 0.5), 0.9)).start()
    exe = model.parallel(2)
    taken: list[Moment] = []
    exe.inspection.guard(lambda take: taken.append(take()) if not taken else None)
    rng = np.random.default_rng(0)
    schedule = next(iter(exe.program.lr_schedulers.values()))
    while not taken:
        feed = {"X": rng.standard_normal((8, 6), np.float32)}
        with exe.scope.in_use(60):
            step = exe.inspection.observe([model.loss.name], feed)
            step.advance_to_the_end()
            expected = values_of(step)
        exe.run([model.loss], feed=feed)
        schedule.step()
    replay = Replay(taken[0])
    for _ in range(2):
        exe.run([model.loss], feed=feed)
        step = replay.observe()
        step.advance_to_the_end()
        values = values_of(step)
        assert values.keys() == expected.keys()
        for key, value in expected.items():
            assert values[key].tobytes() == value.tobytes(), key


def values_of(step: Any) -> dict[Any, np.ndarray]:
    """All that a step has made."""
    arrays = {key: step.current(*key) for key in list(step.newest)}
    return {key: np.array(value) for key, value in arrays.items() if isinstance(value, np.ndarray)}


def test_the_plain_executor_keeps_the_same() -> None:
    model = build(root, wb.optimizer.Momentum(0.0, 0.9)).start()
    exe, taken = static.Executor(), []
    exe.compiled(model.main, model.scope).engine.guard(lambda take: taken.append(take()))
    for rows in (GOOD, GOOD):
        exe.run(model.main, feed={"X": rows}, fetch_list=[model.loss], scope=model.scope)
    assert taken == []
    before = model.values()
    exe.run(model.main, feed={"X": column(1, 0)}, fetch_list=[], scope=model.scope)
    (moment,) = taken
    for name, array in moment.state[0].items():
        assert array.tobytes() == before[name].tobytes()
    origin = Replay(moment).find_nan()
    assert origin is not None and (origin.node.type, origin.node.device) == ("sqrt_grad", 0)


@pytest.mark.parametrize("trains", [False, True])
def test_the_plain_executor_looks_at_all_fetches_only_where_nothing_is_trained(trains: bool) -> None:
    """What a training step fetches beside its loss may be anything."""
    beside: list[str] = []

    def body() -> Any:
        x = static.data("x", [None, 5])
        beside.append(wb.log(x).name)
        return wb.mean(static.nn.fc(x, 3))

    model = build(body, wb.optimizer.SGD(0.1) if trains else None).start()
    exe, taken = static.Executor(), []
    exe.compiled(model.main, model.scope).engine.guard(lambda take: taken.append(take()))
    feed = {"x": np.full((2, 5), -1.0, np.float32)}
    for fetches in ([model.loss], [model.loss, *beside]):
        fetched = exe.run(model.main, feed=feed, fetch_list=fetches, scope=model.scope)
    assert np.isfinite(fetched[0]).all() and np.isnan(fetched[1]).all()
    assert len(taken) == (0 if trains else 1)


def test_a_classifier_with_good_rows_is_left_alone() -> None:
    model = classifier(wb.optimizer.Adam(0.01)).start()
    exe, taken = model.parallel(3), []
    exe.inspection.guard(lambda take: taken.append(take()))
    rng = np.random.default_rng(0)
    feed = {"x": rng.standard_normal((9, 5), np.float32), "y": rng.integers(0, 3, (9, 1))}
    for _ in range(5):
        exe.run([model.loss], feed=feed)
    assert taken == [] and exe.inspection.newest_feed[0] == 4
