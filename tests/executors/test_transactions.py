"""A step applies whole or not at all, whatever fails and whenever Ctrl-C comes (promise 1)."""

from __future__ import annotations

import os
import random
import signal
import threading

import numpy as np
import pytest

import workbench as wb
from tests.executors.models import Model, regression
from workbench.executors import step as step_module


@pytest.fixture
def model() -> Model:
    return regression()


def trained(model: Model, steps: int) -> tuple[wb.static.Executor, wb.static.Scope]:
    exe, scope = wb.static.Executor(), wb.static.Scope()
    exe.run(model.startup, scope=scope)
    for i in range(steps):
        exe.run(model.main, feed=model.feed(i), scope=scope)
    return exe, scope


class Injected(Exception):
    pass


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_fault_at_any_call_changes_nothing(model: Model, monkeypatch: pytest.MonkeyPatch, when: str) -> None:
    exe, scope = trained(model, 1)
    before = model.state(scope)
    _, twin = trained(model, 2)
    real, left = step_module.run_call, 0

    def failing(*args: object) -> object:
        nonlocal left
        left -= 1
        if when == "before" and left < 0:
            raise Injected
        result = real(*args)
        if when == "after" and left < 0:
            raise Injected
        return result

    calls = len(model.main.global_block().ops)
    assert calls > 20
    for n in range(calls):
        left = n
        monkeypatch.setattr(step_module, "run_call", failing)
        with pytest.raises(Injected):
            exe.run(model.main, feed=model.feed(1), fetch_list=[model.loss], scope=scope)
        monkeypatch.setattr(step_module, "run_call", real)
        assert model.state(scope) == before, f"call {n} left something behind"
    exe.run(model.main, feed=model.feed(1), scope=scope)
    assert model.state(scope) == model.state(twin)


def test_a_fault_in_the_startup_program_changes_nothing(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    exe, scope = trained(model, 2)
    before = model.state(scope)
    real, left = step_module.run_call, 0

    def failing(*args: object) -> object:
        nonlocal left
        left -= 1
        if left < 0:
            raise Injected
        return real(*args)

    monkeypatch.setattr(step_module, "run_call", failing)
    for n in range(len(model.startup.global_block().ops)):
        left = n
        with pytest.raises(Injected):
            exe.run(model.startup, scope=scope)
        assert model.state(scope) == before


def test_a_failing_fetch_changes_nothing(model: Model) -> None:
    exe, scope = trained(model, 1)
    before = model.state(scope)
    with pytest.raises(wb.errors.NotFound, match="no_such_thing"):
        exe.run(model.main, feed=model.feed(1), fetch_list=[model.loss, "no_such_thing"], scope=scope)
    assert model.state(scope) == before


def test_a_failing_op_changes_nothing_and_the_next_run_works(model: Model) -> None:
    exe, scope = trained(model, 1)
    before = model.state(scope)
    bad = model.feed(1)
    bad["y"] = bad["y"][:3]
    with pytest.raises(ValueError, match=r"op '(elementwise_sub|square_error_cost)' failed"):
        exe.run(model.main, feed=bad, scope=scope)
    assert model.state(scope) == before
    exe.run(model.main, feed=model.feed(1), scope=scope)
    assert model.state(scope) != before


def test_interrupts_at_random_moments(model: Model) -> None:
    """Whenever SIGINT arrives, the scope holds the state after exactly n whole steps."""
    steps, rounds = 12, 200
    exe, scope = trained(model, 0)
    fresh = model.state(scope)
    snapshot = {name: np.frombuffer(data, np.uint8).copy() for name, data in fresh.items()}
    states = [fresh]
    for i in range(steps):
        exe.run(model.main, feed=model.feed(i), scope=scope)
        states.append(model.state(scope))
    rate = next(iter(model.main.lr_schedulers.values()))
    assert len({tuple(sorted(s.items())) for s in states}) == steps + 1
    pick, interrupted = random.Random(3), 0
    for _ in range(rounds):
        _restore(scope, snapshot)
        done = 0
        timer = threading.Timer(pick.uniform(0, 0.012), os.kill, (os.getpid(), signal.SIGINT))
        try:
            timer.start()
            while done < steps:
                exe.run(model.main, feed=model.feed(done), scope=scope)
                done += 1
            timer.join()
            _spin()
        except KeyboardInterrupt:
            interrupted += 1
        found = model.state(scope)
        assert found in (states[done], states[min(done + 1, steps)]), f"torn after {done} steps"
        again = done if found == states[done] else done + 1
        if again < steps:
            exe.run(model.main, feed=model.feed(again), scope=scope)
            assert model.state(scope) == states[again + 1]
    assert rate.last_epoch == 0
    assert interrupted > rounds // 2


def _spin() -> None:
    """Let a pending signal be delivered."""
    for _ in range(1000):
        pass


def _restore(scope: wb.static.Scope, snapshot: dict[str, np.ndarray]) -> None:
    for name, data in snapshot.items():
        array = scope.find_var(name).tensor.array
        array[...] = data.view(array.dtype).reshape(array.shape)
