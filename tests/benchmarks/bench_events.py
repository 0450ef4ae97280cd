"""What events cost: with nobody listening, with everything collected, and in a step that is looked at.

    OPENBLAS_NUM_THREADS=1 python -m tests.benchmarks.bench_events [rounds] [steps per round]

The first table is one check for listeners, in nanoseconds. The second is a step of a small network on two devices:
as it is with nobody listening, with every emit site replaced by nothing, and while a profile collects. The three take
turns within a round; medians over the rounds are told, and the paired difference, which is what a busy machine
disturbs least. The third is what stamps add to `tiny`, the smallest standard workload: the same executor with them and
without, step by step in turn, and how long a step that is looked at says it took.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any
from unittest.mock import patch

import numpy as np

import workbench as wb
from workbench import events
from workbench.events import LISTENERS, OpRun
from workbench.executors.running.engine.step_runner import StepRunner
from workbench.experiments.bench.workloads import WORKLOADS, training
from workbench.framework import names
from workbench.framework.program.guard import program_guard, static_mode
from workbench.framework.program.program import Program
from workbench.runtime.storage.scope import Scope, scope_guard

CHECKS = 1_000_000


def check_costs() -> Iterator[tuple[str, float]]:
    """Nanoseconds of a check, less those of the bare loop; the best of nine."""

    def nothing() -> None:
        for _ in range(CHECKS):
            pass

    def one_look() -> None:
        for _ in range(CHECKS):
            if LISTENERS:
                raise AssertionError

    def listening() -> None:
        for _ in range(CHECKS):
            if events.listening(OpRun):
                raise AssertionError

    loops = {"": nothing, "if LISTENERS": one_look, "if listening(OpRun)": listening}
    turns = [{what: seconds(loop) for what, loop in loops.items()} for _ in range(9)]
    best = {what: min(turn[what] for turn in turns) for what in loops}
    for what in list(loops)[1:]:
        yield what, (best[what] - best[""]) / CHECKS * 1e9


def seconds(run: Callable[[], Any]) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def small_network() -> Callable[[], Any]:
    """A step of two layers with Adam on two devices."""
    x = wb.static.data("x", [None, 8])
    loss = wb.mean(wb.static.nn.fc(wb.static.nn.fc(x, 16, activation="relu"), 4))
    wb.optimizer.Adam(0.001).minimize(loss)
    wb.static.Executor().run(wb.static.default_startup_program())
    compiled = wb.static.CompiledProgram(wb.static.default_main_program()).with_data_parallel(
        loss_name=loss.name, places=wb.static.cpu_places(2)
    )
    executor, feed = wb.static.Executor(), {"x": np.ones((8, 8), "float32")}
    return lambda: executor.run(compiled, feed=feed, fetch_list=[loss])


@contextmanager
def without_emit_sites() -> Iterator[None]:
    """The engine as if events had never been thought of."""
    with patch.object(StepRunner, "way", lambda runner: runner.step):
        yield


WAYS: dict[str, Callable[[], Any]] = {
    "without emit sites": without_emit_sites,
    "nobody listens": nullcontext,
    "profile collects": wb.profiler.profile,
}


def step_costs(step: Callable[[], Any], rounds: int, steps: int) -> dict[str, list[float]]:
    """Microseconds a step, by way and round."""
    costs: dict[str, list[float]] = {way: [] for way in WAYS}

    def several() -> None:
        for _ in range(steps):
            step()

    for number in range(rounds):
        ways = list(WAYS)
        for way in ways if number % 2 else reversed(ways):
            with WAYS[way]():
                costs[way].append(seconds(several) / steps * 1e6)
    return costs


def stamp_costs(turns: int) -> Iterator[tuple[str, float, float]]:
    """Of the smallest workload: what was measured, microseconds and per cent more than plain; medians over turns.

    Plain and stamped steps take turns; a look, whose telling makes caches cold, comes behind several plain ones.
    """
    smallest = training(WORKLOADS["tiny"], 2)
    for _ in range(100):
        smallest.step()
    heard: list[events.Step] = []
    with events.subscribe(heard.append, events.Step, OpRun):
        smallest.step()
    last = smallest.executor.inspection.last_step
    assert last is not None and last.whole is not None
    stamps = last.watching.programs(clock=True, finite=False).stamps
    assert stamps is not None
    plain, stamped, looked = [], [], []
    for turn in range(turns):
        for way in (plain, stamped) if turn % 2 else (stamped, plain):
            if way is stamped:
                stamps.begin()
            way.append(seconds(smallest.step))
            if way is stamped:
                stamps.end()
        if not turn % 20:
            heard.clear()
            with events.subscribe(heard.append, events.Step, OpRun):
                smallest.step()
            looked.append(heard[-1].seconds)
            for _ in range(5):
                smallest.step()
    base = statistics.median(plain)
    pairs = statistics.median((b - a) / a for a, b in zip(plain, stamped, strict=True))
    yield "nobody looks", base * 1e6, 0.0
    yield "rows are stamped", statistics.median(stamped) * 1e6, pairs * 100
    yield "a look, by its Step", statistics.median(looked) * 1e6, (statistics.median(looked) / base - 1) * 100


def main(rounds: int = 20, steps: int = 300) -> None:
    for what, cost in check_costs():
        print(f"{what:<22}{cost:8.1f} ns")
    with names.guard(), program_guard(Program(), Program()), static_mode(), scope_guard(Scope()):
        step = small_network()
        for _ in range(50):
            step()
        by_way = step_costs(step, rounds, steps)
    base = by_way["without emit sites"]
    for way, costs in by_way.items():
        apart = statistics.median((a - b) / b for a, b in zip(costs, base)) * 100
        print(f"{way:<22}{statistics.median(costs):8.1f} µs a step{apart:+8.2f} %")
    for what, cost, more in stamp_costs(rounds * steps):
        print(f"tiny: {what:<22}{cost:8.2f} µs a step{more:+8.2f} %")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
