"""A recording checks itself in front of calls 2, 4, 8 and so on: what cannot be watched is noticed there, and said."""

from __future__ import annotations

import datetime
import random
import uuid
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import workbench as wb
from workbench.framework.notice import Notice

BEYOND_ALL = [1.0] * 5000  # entries, more than are looked at before every run

CHANCE: dict[str, Callable[[Any], Any]] = {
    "now": lambda x: x * datetime.datetime.now().microsecond,
    "uuid": lambda x: x * float(uuid.uuid4().int % 1009),
    "system": lambda x: x * random.SystemRandom().random(),
    "generator": lambda x: x + wb.to_tensor(np.random.default_rng().random(2, np.float32)),
    "result": lambda x: (x * 2.0, random.SystemRandom().random()),
    "branch": lambda x: [x * 2.0, x + 2.0, x - 2.0, x / 2.0][next(ROUND) % 4],
}


class _Round:
    number = 0

    def __next__(self) -> int:
        _Round.number += 1
        return _Round.number


ROUND: Any = _Round.__new__(_Round)


@pytest.mark.filterwarnings("ignore::workbench.framework.notice.Notice")
@pytest.mark.parametrize("kind", CHANCE)
@pytest.mark.parametrize("record", [wb.jit.capture, wb.jit.to_static])
def test_what_is_another_thing_in_every_call_is_never_run_twice(record: Callable[..., Any], kind: str) -> None:
    function, x, runs = CHANCE[kind], wb.ones([2]), 0
    step = record(function)
    with pytest.raises(wb.jit.NeedsValue):
        for _ in range(2):
            step(x)
            runs += 1
    assert runs < 2


def scaled(x: Any) -> Any:
    return x * BEYOND_ALL[4500]


@pytest.mark.filterwarnings("ignore:.*entries of now:workbench.framework.notice.Notice")
def test_a_change_nobody_was_told_of_is_followed_at_the_next_check() -> None:
    step, x = wb.jit.capture(scaled), wb.ones([1])
    try:
        for _ in range(5):
            step(x)
        BEYOND_ALL[4500] = 3.0
        assert [step(x).item() for _ in range(2)] == [1.0, 1.0]  # calls 6 and 7
        with pytest.warns(Notice, match=r"scale of op 'scale' was 1.0 and is 3.0(.|\n)*the 3 runs before"):
            assert step(x).item() == 3.0
        with warnings.catch_warnings():
            warnings.simplefilter("error", Notice)
            assert [step(x).item() for _ in range(3)] == [3.0] * 3
        assert step.captures == 2
    finally:
        BEYOND_ALL[4500] = 1.0


def test_checks_apply_nothing_and_print_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    def trained(record: Callable[[Any], Any]) -> tuple[list[float], Any]:
        wb.seed(3)  # of parameters
        net = wb.nn.Sequential(wb.nn.Linear(2, 3), wb.nn.Tanh(), wb.nn.Linear(3, 1))
        optimizer = wb.optimizer.Adam(0.01, parameters=net.parameters())
        count = wb.zeros([1])

        def step(x: Any) -> Any:
            print("recorded")
            constant = wb.to_tensor([1.0])
            wb.assign(constant + 1.0, constant)
            wb.assign(count + constant, count)
            loss = net(x).mean() * wb.static.nn.cond(count.sum() > 4.0, lambda: constant, lambda: constant * 2.0)
            loss.backward()
            optimizer.step()
            optimizer.clear_grad()
            return loss

        function = record(step)
        x = wb.to_tensor(np.arange(8, dtype=np.float32).reshape(4, 2))
        losses = [function(x).item() for _ in range(20)]
        return [*losses, count.item(), *net[0].weight.numpy().ravel().tolist()], function

    captured, function = trained(wb.jit.capture)
    assert capsys.readouterr().out == "recorded\n" and function.captures == 1
    dynamic, _ = trained(lambda step: step)
    assert np.allclose(captured, dynamic, rtol=1e-3, atol=1e-5)


@pytest.mark.filterwarnings("error::workbench.framework.notice.Notice")
@pytest.mark.parametrize("own", [lambda: wb.to_tensor([2.0]), lambda: np.full(1, 2.0, np.float32), lambda: [2.0]])
def test_what_a_function_makes_is_no_change(own: Callable[[], Any]) -> None:
    step, x = wb.jit.capture(lambda x: {"y": x * wb.to_tensor(own()), "list": [1, own]}), wb.ones([1])
    assert [step(x)["y"].item() for _ in range(9)] == [2.0] * 9 and step.captures == 1


def test_a_tensor_that_a_function_makes_and_writes_begins_anew() -> None:
    def step(x: Any) -> Any:
        total = wb.to_tensor([0.5])
        for _ in range(2):
            wb.assign(total + x, total)
        return total * 1.0

    captured, static, x = wb.jit.capture(step), wb.jit.to_static(step), wb.ones([1])
    assert [captured(x).item() for _ in range(4)] == [static(x).item() for _ in range(4)] == [2.5] * 4


def test_steps_that_are_interleaved_are_checked_as_often() -> None:
    """The clock that says when goes on with the runs of others, too."""
    x, seen = wb.ones([1]), []
    quiet = wb.jit.capture(lambda x: x + 1.0)
    told = wb.jit.capture(lambda x: (seen.append, x * 2.0)[1])
    recorded = told._said_now
    counts: list[int] = []
    told._said_now = lambda *given: (counts.append(calls[-1]), recorded(*given))[1]
    calls = [0]
    while calls[-1] < 40:
        calls.append(calls[-1] + 1)
        told(x)
        quiet(x), quiet(x)
    assert counts == [2, 4, 8, 16, 32]
