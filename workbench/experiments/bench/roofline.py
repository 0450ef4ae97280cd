"""Measured steps beside the time their arithmetic and their bytes would take at the rates of this machine.

The floor has all threads that a step may use at work from its begin to its end. In a chain of small nodes they cannot
be: each node needs the one before it. So the time one thread would take at least is told, too.
"""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from time import perf_counter

from workbench.executors.lowering.binding import Binding
from workbench.executors.lowering.tape.segment import Segment
from workbench.executors.planning.schedule import available
from workbench.experiments.bench.machine import copy_rate, copy_size, gemm_rate
from workbench.experiments.bench.work import MeasuredStep, Work, work_of
from workbench.experiments.bench.workloads import WORKLOADS, Training, training

ROUNDS = 3
WARM_UP = 10  # steps
BRIEF = 0.05  # seconds of a measurement that others stand beside


@dataclass(frozen=True)
class Roofline(MeasuredStep):
    """A workload on this machine. Times in seconds, rates per second, medians over the rounds of one measurement.

    Attributes:
        median, best: of single steps.
        gemm: flops of large square products, copy: bytes read and written, both with all `threads` at work;
            copied: bytes each thread copied at a time.
        alone: seconds that one thread would take at least, at the rates it has alone.
        native: rows that ran in compiled kernels; by_numpy: the others, by op type.
    """

    name: str
    devices: int
    threads: int
    work: Work
    median: float
    best: float
    gemm: float
    copy: float
    copied: int
    alone: float
    native: int
    by_numpy: Counter[str]


def roofline(name: str, devices: int, seconds: float) -> Roofline:
    """Measure a workload for so long; rates and steps take turns, so that a busy machine slows both down."""
    workload = training(WORKLOADS[name], devices)
    workload.step()
    threads = available(workload.executor.inspection.execution.num_threads)
    work = work_of(workload.executor.plan(feed=workload.feed, fetch_list=[workload.loss]))
    size = copy_size(work.nbytes, threads)
    laps: list[list[float]] = []
    gemm, copy, alone = [], [], []
    for _ in range(ROUNDS):
        gemm.append(gemm_rate(threads))
        copy.append(copy_rate(size, threads))
        alone.append(seconds_alone(work))
        laps.append(list(step_times(workload, seconds / ROUNDS)))
    native, by_numpy = rows_by_lowering(latest_binding(workload))
    return Roofline(
        name, devices, threads, work, statistics.median(map(statistics.median, laps)), min(map(min, laps)),
        statistics.median(gemm), statistics.median(copy), size, statistics.median(alone), native, by_numpy,
    )  # fmt: skip


def seconds_alone(work: Work) -> float:
    """What one thread takes at least."""
    return work.flops / gemm_rate(1, BRIEF) + work.nbytes / copy_rate(copy_size(work.nbytes, 1), 1, BRIEF)


def step_times(workload: Training, seconds: float) -> Iterator[float]:
    """Times of single steps for so long, at least five."""
    for _ in range(WARM_UP):
        workload.step()
    begun = before = perf_counter()
    count = 0
    while before - begun < seconds or count < 5:
        workload.step()
        now = perf_counter()
        yield now - before
        before, count = now, count + 1


def latest_binding(workload: Training) -> Binding:
    """What the last step ran, after one more if that ended in a drop of temporaries."""
    inspection = workload.executor.inspection
    if inspection.last is None:
        workload.step()
    assert inspection.last is not None, "temporaries are not dropped after every step"
    return inspection.last


def rows_by_lowering(binding: Binding) -> tuple[int, Counter[str]]:
    """How many rows of a plan run in compiled kernels, and the op types of those that NumPy does."""
    native, by_numpy = 0, Counter[str]()
    for program in [*binding.speculative, *binding.commit]:
        for unit in program.units:
            if isinstance(unit, Segment):
                native += len(unit.rows)
            else:
                by_numpy[unit.row.node.type] += 1
    return native, by_numpy
