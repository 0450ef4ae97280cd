"""A step applies whole or not at all, whatever fails and whenever Ctrl-C comes (promise 1)."""

from __future__ import annotations

import bisect
import os
import random
import signal
import threading

import numpy as np
import pytest

import workbench as wb
from tests.executors.models import Model, regression
from tests.stress.tripwire import Tripwire
from workbench.executors.reference import step as step_module


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


@pytest.mark.usefixtures("reference")
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_fault_at_any_call_changes_nothing(model: Model, monkeypatch: pytest.MonkeyPatch, when: str) -> None:
    exe, scope = trained(model, 1)
    before = model.state(scope)
    _, undisturbed = trained(model, 2)
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
    assert model.state(scope) == model.state(undisturbed)


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


@pytest.mark.usefixtures("either")
def test_a_failing_fetch_changes_nothing(model: Model) -> None:
    exe, scope = trained(model, 1)
    before = model.state(scope)
    with pytest.raises(wb.errors.NotFound, match="no_such_thing"):
        exe.run(model.main, feed=model.feed(1), fetch_list=[model.loss, "no_such_thing"], scope=scope)
    assert model.state(scope) == before


@pytest.mark.usefixtures("either")
def test_a_failing_op_changes_nothing_and_the_next_run_works(model: Model) -> None:
    exe, scope = trained(model, 1)
    before = model.state(scope)
    bad = model.feed(1)
    bad["y"] = bad["y"][:3]
    with pytest.raises(ValueError, match=r"op '(elementwise_sub|square_error_cost)'"):
        exe.run(model.main, feed=bad, scope=scope)
    assert model.state(scope) == before
    exe.run(model.main, feed=model.feed(1), scope=scope)
    assert model.state(scope) != before


@pytest.mark.usefixtures("either")
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
        state = model.state(scope)
        assert state in (states[done], states[min(done + 1, steps)]), f"torn after {done} steps"
        again = done if state == states[done] else done + 1
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


# Ctrl-C at every moment at which Python looks


WATCHED = tuple(
    f"{name}.py"
    for name in (
        "executor", "interpreter", "step", "engine", "step_runner", "transaction", "scope", "undisturbed", "tensor"
    )
)  # fmt: skip


@pytest.mark.parametrize("program", ["main", "startup"])
def test_an_interrupt_at_any_moment(program: str, either: str) -> None:
    """The whole step or nothing of it, and the scope is free for others afterwards."""
    model = regression(dropout=True, batch_norm=False, optimizer=wb.optimizer.Momentum(0.1, 0.9))
    exe, scope = trained(model, 1)
    snapshot = {name: np.array(scope.find_var(name).get_tensor()) for name in model.state(scope)}
    before = model.state(scope)
    run = lambda: exe.run(  # noqa: E731
        getattr(model, program), feed=model.feed(1) if program == "main" else None, scope=scope
    )

    def begin() -> None:
        """A step that nothing disturbs goes before, as what a step does depends on how the last one ended."""
        _put_back(scope, snapshot)
        run()
        _put_back(scope, snapshot)

    begin()
    with Tripwire(None, WATCHED) as count:
        run()
    after, total = model.state(scope), count.count
    assert after != before and total > (300 if either == "reference" else 60)

    def is_applied(n: int) -> bool:
        begin()
        with pytest.raises(KeyboardInterrupt):
            with Tripwire(n, WATCHED):
                run()
            _spin()
        state = model.state(scope)
        assert state in (before, after), f"torn by an interrupt at moment {n} of {total}"
        assert free_for_others(scope), f"the lock was kept after an interrupt at moment {n} of {total}"
        return state == after

    entry = bisect.bisect_left(range(total), True, key=is_applied)  # the first one behind the commit
    assert 0 < entry < total
    for n in (*range(0, total, 7), *range(max(entry - 60, 0), total)):
        assert is_applied(n) == (n >= entry)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def _put_back(scope: wb.static.Scope, snapshot: dict[str, np.ndarray]) -> None:
    for name, value in snapshot.items():
        scope.find_var(name).set(value)


def free_for_others(scope: wb.static.Scope) -> bool:
    acquired: list[bool] = []

    def probe() -> None:
        acquired.append(scope.root.lock.acquire(timeout=0.5))
        if acquired[0]:
            scope.root.lock.release()

    thread = threading.Thread(target=probe)
    thread.start()
    thread.join(5)
    return acquired == [True]
