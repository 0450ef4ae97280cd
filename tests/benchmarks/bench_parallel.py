"""What the parallel executor costs beyond the arithmetic: `python -m tests.benchmarks.bench_parallel [--quick]`.

Prints, each as measured side by side in this run:
  overhead per op of chains of ops on 16 floats, against the same calls in a bare loop; flat from 100 to 20,000 ops
  time to compile, by ops and by devices
  what the sites that emit events cost when nobody listens
  memory of AllReduce and Reduce mode
Run it on a quiet machine with OPENBLAS_NUM_THREADS=1.
"""

from __future__ import annotations

import argparse
import gc
import statistics
from time import perf_counter, process_time
from typing import Any
from unittest.mock import patch

import numpy as np

import workbench as wb
from tests.parallel.models import Model, build
from workbench import static
from workbench.executors.running.engine.step_runner import StepRunner
from workbench.graph.settings import ReduceStrategy


def chain(ops: int) -> Model:
    """`ops` element-wise ops on 16 floats, one after the other."""

    def body() -> Any:
        h = static.data("x", [None, 16])
        for k in range(ops):
            h = wb.scale(h, 1.0001) if k % 2 else wb.tanh(h)
        return wb.mean(h)

    return build(body)


def best_of(run: Any, rounds: int, times: int) -> float:
    """Seconds of processor time of one run, the best of several rounds."""
    laps = []
    for _ in range(rounds):
        start = process_time()
        for _ in range(times):
            run()
        laps.append((process_time() - start) / times)
    return min(laps)


def overhead(quick: bool) -> None:
    print(f"\n{'ops':>7} {'devices':>8} {'compile s':>10} {'us per op':>10} {'bare loop':>10} {'beyond':>7}")
    sizes = [100, 1000, 5000] if quick else [100, 1000, 5000, 10_000, 20_000]
    for ops, devices in [*((n, 1) for n in sizes), (2500, 2), (2500, 4), (2500, 8)]:
        model = chain(ops)
        pe, feed = model.parallel(devices), {"x": np.ones((devices, 16), np.float32)}
        start = process_time()
        pe.run([model.loss], feed=feed)
        compiled = process_time() - start
        (binding,) = pe.inspection.bindings
        calls = [call for program in binding.speculative for call in program.task.calls]

        def bare(calls: list[Any] = calls) -> None:
            for call in calls:
                call()

        times = max(1, 20_000 // len(calls))
        whole = best_of(lambda pe=pe, m=model, f=feed: pe.run([m.loss], feed=f), 10, times)
        alone = best_of(bare, 10, times)
        per = 1e6 / (ops * devices)
        print(
            f"{ops:7} {devices:8} {compiled:10.2f} {whole * per:10.2f} {alone * per:10.2f} {(whole - alone) * per:7.2f}"
        )


def silent_events(rounds: int) -> None:
    """The same step with and without the question whether somebody listens, in turn."""
    model = chain(50)
    pe, feed = model.parallel(2), {"x": np.ones((2, 16), np.float32)}
    asks, laps = StepRunner.way, {True: [], False: []}
    for number in range(2 * rounds):
        with patch.object(StepRunner, "way", asks if number % 2 else (lambda runner: runner.step)):
            laps[bool(number % 2)].append(best_of(lambda: pe.run([model.loss], feed=feed), 5, 200))
    with_, without = (statistics.median(laps[k]) for k in (True, False))
    print(f"\nevents with nobody listening, 100 ops: {without * 1e6:.1f} us -> {with_ * 1e6:.1f} us a step, ", end="")
    print(f"{100 * (with_ / without - 1):+.2f} % (medians of {rounds} interleaved rounds)")


def resident() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096


def memory(mode: ReduceStrategy, devices: int = 4) -> None:
    def body() -> Any:
        h = static.data("x", [None, 1024])
        for _ in range(4):
            h = static.nn.fc(h, 1024)
        return wb.mean(h)

    model = build(body, wb.optimizer.Adam(1e-3)).start()
    strategy = static.BuildStrategy()
    strategy.reduce_strategy = mode
    kept = sum(value.nbytes for value in model.values().values())
    gc.collect()
    before = resident()
    pe = model.parallel(devices, build_strategy=strategy)
    start = perf_counter()
    for _ in range(2):
        pe.run([], feed={"x": np.ones((devices, 1024), np.float32)})
    step = (perf_counter() - start) / 2
    pe.drop_local_exe_scopes()
    gc.collect()
    grown = (resident() - before) / kept
    print(
        f"{mode.name:>10}: {grown:5.2f} times the {kept >> 20} MiB of parameters and state on top ({step:.2f} s a step)"
    )


def main() -> None:
    wb.enable_static()
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small programs only")
    quick = parser.parse_args().quick
    overhead(quick)
    silent_events(5 if quick else 20)
    print("\nmemory after temporaries were dropped, 4 devices:")
    for mode in (ReduceStrategy.Reduce, ReduceStrategy.AllReduce):
        memory(mode)


if __name__ == "__main__":
    main()
