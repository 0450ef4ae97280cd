"""A step applies whole or not at all, whenever Ctrl-C comes (promise 1)."""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.parallel.failures.test_transactions import MODES, Trained, network, spin
from tests.parallel.lowerings import as_calls, in_both
from tests.parallel.observe import Held, costly_ops, held, threads_of
from tests.stress.tripwire import Tripwire
from workbench.executors.replicas import replicas


def overwrite(t: Trained, state: Held) -> None:
    """Put everything back."""
    for (name, place), data in state.items():
        array = t.exe.inspection.tensor(name, place).array
        array[...] = np.frombuffer(data, array.dtype).reshape(array.shape)


@in_both
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("threads", [1, 2])
def test_interrupts_at_random_moments(threads: int, mode: str, quick_polls: None) -> None:
    """Whenever SIGINT arrives, the devices hold the state after exactly n whole steps: 4 x 50 times."""
    steps, rounds, pick, interrupted = 8, 50, random.Random(f"{threads} {mode}"), 0
    with costly_ops():
        t = Trained(network(), steps + 1, threads, mode)
    assert threads_of(t.bound()) == threads
    start = time.monotonic()
    for i in range(steps):
        t.step(t.exe, i + 1)
    span = time.monotonic() - start
    for _ in range(rounds):
        overwrite(t, t.states[0])
        done = 0
        timer = threading.Timer(pick.uniform(0, span), os.kill, (os.getpid(), signal.SIGINT))
        try:
            timer.start()
            while done < steps:
                t.step(t.exe, done + 1)
                done += 1
            timer.join()
            spin()
        except KeyboardInterrupt:
            interrupted += 1
        timer.join()
        state = held(t.exe, t.model.main)
        assert state in (t.states[done], t.states[min(done + 1, steps)]), f"torn after {done} steps"
        again = done if state == t.states[done] else done + 1
        if again < steps:
            t.goes_on_from(again + 1)
    assert interrupted > rounds // 3


SAMPLES = 120  # moments of a step


FILES = (
    "engine.py", "binding.py", "transaction.py", "workers/pool.py", "collect.py", "replicas.py", "tensor.py",
    "step_runner.py",
)  # fmt: skip


def interrupted_at(n: int, run: Callable[[], Any]) -> bool:
    """Whether Ctrl-C at moment n came through; at worst it is held back until the end."""
    try:
        with Tripwire(n, FILES):
            run()
    except KeyboardInterrupt:
        return True
    return False


@in_both
@pytest.mark.parametrize("threads", [1, 2])
def test_interrupts_at_any_moment_of_a_step(threads: int, quick_polls: None) -> None:
    with costly_ops():
        t = Trained(network(), 2, threads)
    with Tripwire(None, FILES) as wire:
        t.step(t.exe, 1)
    overwrite(t, t.states[0])
    assert wire.count > 50
    left, pick = {0: 0, 1: 0}, random.Random(threads)
    behind = range(wire.count - 12, wire.count)  # the commit
    for n in sorted({*pick.sample(range(wire.count), min(SAMPLES, wire.count)), *behind}):
        came = interrupted_at(n, lambda: t.step(t.exe, 1))
        state = held(t.exe, t.model.main)
        assert state in t.states, f"torn at moment {n}"
        left[t.states.index(state)] += came
        if state == t.states[0]:
            t.goes_on_from(1)
        overwrite(t, t.states[0])
    assert min(left.values())


@as_calls
@pytest.mark.parametrize("mode", MODES)
def test_interrupts_in_the_first_run(mode: str) -> None:
    """Scopes of the other devices, buckets, bindings: whatever was begun, the next run finds it usable."""
    t, pick = Trained(network(), 2, 1, mode), random.Random(5)
    fresh = t.executor()
    with Tripwire(None, FILES) as wire:
        t.step(fresh, 0)
    came = 0
    for n in sorted(pick.sample(range(wire.count), SAMPLES // 10)):
        t.exe = t.executor()
        came += interrupted_at(n, lambda: t.step(t.exe, 0))
        if t.exe.inspection.steps == 0:
            t.goes_on_from(0)
        else:
            assert held(t.exe, t.model.main) == t.states[0]
        t.goes_on_from(1)
    assert came > SAMPLES // 20


@as_calls
@pytest.mark.parametrize("k", [0, 3, 10])
def test_an_interrupt_while_the_devices_get_their_copies(k: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A device whose copy was not finished must not be taken to have one: it would work on that of device 0."""
    t, left = Trained(network(), 2), k
    t.exe = t.executor()

    class Interrupting(replicas.ScopeVariable):
        def __init__(self, name: str) -> None:
            nonlocal left
            left -= 1
            if left == -1:
                raise KeyboardInterrupt
            super().__init__(name)

    monkeypatch.setattr(replicas, "ScopeVariable", Interrupting)
    with pytest.raises(KeyboardInterrupt):
        t.step(t.exe, 0)
    t.goes_on_from(0)
    t.goes_on_from(1)
