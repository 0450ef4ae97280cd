"""Several threads on one scope: their steps have the effect of one after the other."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.autodiff.small import Built
from tests.executors.models import regression
from workbench import static
from workbench.executors.reference import step as step_module


@pytest.fixture
def pair() -> tuple[Any, Any]:
    """A program that adds 1 to two variables, and one that reads both, with much in between."""
    with Built() as counting:
        ones = [counting.main.global_block().create_var(n, [1000], "int64", persistable=True) for n in "ab"]
        for v in ones:
            counting.main.global_block().append_op("increment", {"X": v}, {"Out": v}, {"step": 1.0})
    with Built() as reading:
        for n in "ab":
            reading.main.global_block().create_var(n, [1000], "int64", persistable=True)
        reading.outs = [reading.main.global_block().var(n) * 1 for n in "ab"]
    return counting, reading


def zeros() -> static.Scope:
    scope = static.Scope()
    for n in "ab":
        scope.var(n).set(np.zeros(1000, np.int64))
    return scope


def together(*tasks: Callable[[], None]) -> None:
    with ThreadPoolExecutor(len(tasks)) as pool:
        for future in [pool.submit(task) for task in tasks]:
            future.result(timeout=60)


@pytest.mark.usefixtures("either")
def test_no_step_is_lost(pair: tuple[Any, Any]) -> None:
    """Without a check two threads would read 5, both write 6, and a step would be gone."""
    counting, _ = pair
    scope, exe = zeros(), static.Executor()

    def count() -> None:
        for _ in range(150):
            exe.run(counting.main, scope=scope)

    together(count, count, count)
    assert (np.array(scope.find_var("a").get_tensor()) == 450).all()
    assert (np.array(scope.find_var("b").get_tensor()) == 450).all()


@pytest.mark.usefixtures("either")
def test_a_reader_never_sees_half_a_step(pair: tuple[Any, Any]) -> None:
    counting, reading = pair
    scope, done = zeros(), threading.Event()

    def count() -> None:
        for _ in range(300):
            static.Executor().run(counting.main, scope=scope)
        done.set()

    def read() -> None:
        while not done.is_set():
            a, b = static.Executor().run(reading.main, fetch_list=reading.outs, scope=scope)
            assert len(set(a) | set(b)) == 1

    together(count, read)


@pytest.mark.usefixtures("reference")
def test_a_step_whose_values_changed_meanwhile_runs_again(
    pair: tuple[Any, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    counting, _ = pair
    scope, other, real = zeros(), [True], step_module.run_call

    def interrupted(*args: Any) -> Any:
        result = real(*args)
        if other:
            other.clear()
            together(lambda: static.Executor().run(counting.main, scope=scope))
        return result

    monkeypatch.setattr(step_module, "run_call", interrupted)
    (value,) = static.Executor().run(counting.main, fetch_list=["b"], scope=scope)
    assert (value == 2).all()
    assert (np.array(scope.find_var("a").get_tensor()) == 2).all()


@pytest.mark.usefixtures("reference")
def test_a_variable_that_is_set_all_the_time_is_an_error_in_the_end(
    pair: tuple[Any, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    counting, _ = pair
    scope, real = zeros(), step_module.run_call

    def disturbed(*args: Any) -> Any:
        scope.find_var("b").set(np.zeros(1000, np.int64))
        return real(*args)

    monkeypatch.setattr(step_module, "run_call", disturbed)
    with pytest.raises(wb.errors.Unavailable, match="keep setting variables"):
        static.Executor().run(counting.main, scope=scope)
    assert (np.array(scope.find_var("a").get_tensor()) == 0).all()


@pytest.mark.usefixtures("either")
def test_programs_in_scopes_of_their_own_do_not_meet() -> None:
    model = regression()
    exe, states = static.Executor(), {}

    def train(name: str) -> None:
        scope = static.Scope()
        exe.run(model.startup, scope=scope)
        for i in range(60):
            exe.run(model.main, feed=model.feed(i), scope=scope)
        states[name] = model.state(scope)

    train("alone")
    together(lambda: train("one"), lambda: train("two"), lambda: train("three"))
    assert states["one"] == states["two"] == states["three"] == states["alone"]


def test_waiting_for_the_values_ends_with_an_error() -> None:
    scope, holding, done = static.Scope(), threading.Event(), threading.Event()

    def hold() -> None:
        with scope.new_scope().in_use():
            holding.set()
            done.wait(20)

    thread = threading.Thread(target=hold)
    thread.start()
    assert holding.wait(10)
    start = time.monotonic()
    try:
        with pytest.raises(wb.errors.Unavailable, match=r"in use by another thread for 0\.2 s"), scope.in_use(0.2):
            pass
        assert time.monotonic() - start < 5
    finally:
        done.set()
        thread.join(10)
    with scope.in_use(0.2), scope.in_use(0.2):
        pass  # free again, and a thread may take it twice


def test_evicting_from_the_caches_in_several_threads() -> None:
    exe = static.Executor()
    built = []
    for i in range(90):
        with Built() as p:
            out = static.data("x", [1]) * float(i)
        built.append((p.main, out, i))

    def run(step: int) -> None:
        for main, out, i in built[::step]:
            (value,) = exe.run(main, feed={"x": np.ones(1, np.float32)}, fetch_list=[out], scope=static.Scope())
            assert value.item() == i

    together(lambda: run(1), lambda: run(-1), lambda: run(2))
