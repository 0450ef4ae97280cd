"""How a step grows to more threads than this machine has, on paper: from the blocks that one thread is seen to do.

    python -m tests.benchmarks.bench_growth [PROGRAM ...] [--threads 1,2,4,8,16,32,64]

For every number of threads the step is planned and lowered as if there were so many processors. One thread then does
all blocks of that step, each with a time stamp, and they are handed out once more on paper: to threads that are free,
with the time it takes until another thread has begun, as measured here. What is printed of every number of threads:

    ms            predicted where memory grows with the threads
    this memory   predicted where all threads together move no more bytes than those of this machine
    of one        how many times as fast as one thread: of the first figure
    chain         of that, what one thread does while all others wait, outside of kernels too
    blocks        shared nodes, if they divided evenly; uneven: what is lost because blocks are too few, or unequal
    handed        hand-overs; bytes: what this memory adds
    run           where this machine has as many processors: what the quickest step takes, and how far off that is

Of every block, hand-over and step the least of several times counts, for neighbours on the machine make all of them
longer. It does not know of what threads share but bytes: caches, the power of the processor, memory of several sockets.
"""

from __future__ import annotations

import argparse
import heapq
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from threading import Thread
from time import perf_counter, thread_time
from typing import NamedTuple
from unittest import mock

import numpy as np

from tests.native.one_row import kernels
from workbench.executors.lowering.tape.segment import Segment
from workbench.executors.planning import schedule
from workbench.executors.planning.plan import Plan, Row
from workbench.executors.running.team_trial import TeamTrial
from workbench.experiments.bench.machine import LARGEST_COPY, copy_rate
from workbench.experiments.bench.own_program import moved
from workbench.experiments.bench.roofline import latest_binding
from workbench.experiments.bench.row import all_rows
from workbench.experiments.bench.workloads import WORKLOADS, Training, training
from workbench.graph.ssa import Node
from workbench.runtime.devices import processors
from workbench.runtime.native.control import Control, lines
from workbench.runtime.native.stamps import Ring, stamp_clock
from workbench.runtime.native.tape import Tape, address
from workbench.runtime.words.codes import CONTROL, END, ROW_KERNEL, STAMPS, STATE_WORDS, TABLE
from workbench.runtime.words.stamp import ROW, TIME

PROGRAMS = ("gpt", "encoder", "resnet", "resnet18")
THREADS = (1, 2, 4, 8, 16, 32, 64)
STEPS, WARM_UP = 15, 3
CHAIN = 6  # types of ops that are named
LARGE = 1 << 21  # bytes of a node: fewer stay in the caches of those who share it
HAND_OVERS, QUICK = 2000, 0.05


class Piece(NamedTuple):
    """What comes between two moments at which all threads have met. Seconds.

    Attributes:
        rows: of the plan, none of what a step takes outside of kernels.
        blocks: of each the time; a single one is the first thread's alone.
    """

    rows: tuple[Row, ...]
    blocks: tuple[float, ...]


class Predicted(NamedTuple):
    """A step by so many threads. Seconds; `chain`, `shared`, `uneven`, `handed` add up to `step`."""

    threads: int
    chain: float
    shared: float
    uneven: float
    handed: float
    bytes: float

    @property
    def step(self) -> float:
        """Where memory grows with the threads."""
        return self.chain + self.shared + self.uneven + self.handed


# What one thread does


class PlannedFor:
    """A program planned as for so many processors.

    Args:
        together: whether they do it together; else the first one does all blocks alone.
    """

    def __init__(self, name: str, threads: int, together: bool) -> None:
        self._patches = (
            mock.patch.object(schedule, "processors", return_value=max(threads, processors())),
            mock.patch.object(TeamTrial, "end", lambda trial, now: setattr(trial, "together", together)),
        )
        self.threads, self.workload = threads, _program(name)
        self.workload.executor.inspection.execution.num_threads = threads
        for _ in range(WARM_UP):
            self.step()

    def step(self) -> float:
        """Run one; the seconds it takes."""
        with ExitStack() as stack:
            for patch in self._patches:
                stack.enter_context(patch)
            begun = perf_counter()
            self.workload.step()
            return perf_counter() - begun

    @property
    def is_alone(self) -> bool:
        """Whether nodes stand in one chain: threads share them, and have none of their own."""
        return latest_binding(self.workload).plan.schedule.threads == 1


def _program(name: str) -> Training:
    if name in WORKLOADS:
        return training(WORKLOADS[name], 1)
    workload = next(iter(all_rows()[name].ways.values()))()
    assert isinstance(workload, Training), f"{name} is no single program"
    return workload


def pieces_of(planned: PlannedFor, steps: int) -> list[Piece]:
    """The step as its first thread does it, of every block the least time in so many steps."""
    binding = latest_binding(planned.workload)
    units = [unit for phase in (binding.speculative, binding.commit) for unit in phase[0].units]
    stamped = [_Stamped(unit) for unit in units if isinstance(unit, Segment)]
    took = []
    for _ in range(steps):
        begun = thread_time()
        planned.step()
        took.append(thread_time() - begun)
        for one in stamped:
            one.read()
    pieces = [piece for one in stamped for piece in one.pieces()]
    in_kernels = sum(sum(piece.blocks) for piece in pieces)
    return [*pieces, Piece((), (max(min(took) - in_kernels, 0.0),))]


class _Stamped:
    """A piece of the first thread's tape, and when it came to which row."""

    def __init__(self, segment: Segment) -> None:
        self._segment, self._clock = segment, stamp_clock(segment.tape.kernels)
        self._places = segment.layout().rows
        self._ring = Ring(self._clock, len(self._places) + 64)
        self._times: list[np.ndarray] = []
        segment.stamp_into(self._ring.address)

    def read(self) -> None:
        """The times of the rows of the last step; of a row that was left out none."""
        entries = self._ring.entries()
        self._ring.empty()
        at = np.flatnonzero(np.isin(entries[:-1, ROW], self._places))
        begun = self._clock.nanoseconds(entries[:, TIME])
        took = np.zeros(len(self._places))
        np.add.at(took, np.searchsorted(self._places, entries[at, ROW]), begun[at + 1] - begun[at])
        self._times.append(took / 1e9)

    def pieces(self) -> Iterator[Piece]:
        """In order; what flags take is told apart from nothing: they are up when one thread does all."""
        self._segment.stamp_into(0)
        names = {a: name for name, a in self._segment.tape.kernels.addresses.items()}
        words, base = self._segment.tape.words, int(self._places[0])
        starts = [mark.at - self._segment.marks[0].at for mark in self._segment.marks]
        blocks: list[float] = []
        shared: tuple[Row, ...] = ()
        for place, seconds in zip(self._places.tolist(), np.min(self._times, axis=0).tolist(), strict=True):
            at = (place - base) // 8
            rows = self._segment.marks[bisect_right(starts, at) - 1].rows
            kind = names[words[at + self._segment.marks[0].at + ROW_KERNEL]]
            if kind == "block":
                shared, blocks = rows, [*blocks, seconds]
                continue
            if blocks:
                yield Piece(shared, tuple(blocks))
                blocks = []
            yield Piece(rows, (seconds,))
        if blocks:
            yield Piece(shared, tuple(blocks))


# On paper


def hand_over() -> float:
    """Seconds until another thread that waits has begun: there and back many times, of which the quick ones count."""
    control = Control(kernels())
    control.begin()
    flags = [[lines(8) for _ in range(HAND_OVERS)] for _ in range(2)]
    there, back = _Ball(control, flags[0], flags[1], True), _Ball(control, flags[1], flags[0], False)
    threads = [Thread(target=ball.run) for ball in (there, back)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return float(np.quantile(there.rounds(), QUICK)) / 2


class _Ball:
    """Raises flags by turns with somebody else."""

    def __init__(self, control: Control, own: Sequence[np.ndarray], others: Sequence[np.ndarray], begins: bool) -> None:
        self._control, self._tape, self._state = control, Tape(control.kernels), lines(STATE_WORDS)
        self._clock = stamp_clock(control.kernels)
        self._ring = Ring(self._clock, 2 * len(own) + 1)
        for mine, other in zip(own, others, strict=True):
            rows = [("signal", mine), ("wait", other)]
            for kind, flag in rows if begins else reversed(rows):
                self._tape.row(kind, flag, control.array)
        self._state[TABLE], self._state[END] = self._tape.table(), len(self._tape)
        self._state[CONTROL], self._state[STAMPS] = control.address, self._ring.address

    def run(self) -> None:
        while self._control.run(address(self._state)):
            pass

    def rounds(self) -> np.ndarray:
        """Seconds of each, there and back again."""
        return np.diff(self._clock.nanoseconds(self._ring.entries()[::2, TIME])) / 1e9


def predict(pieces: Sequence[Piece], plan: Plan, threads: int, handing: float, copied: float) -> Predicted:
    """The step by so many threads.

    Args:
        handing: seconds of a hand-over. copied: bytes per second that all threads together move.
    """
    chain = shared = uneven = handed = added = 0.0
    for piece in pieces:
        whole = sum(piece.blocks)
        if len(piece.blocks) == 1 or threads == 1:
            chain += whole
            continue
        even, lasts = whole / threads, makespan(piece.blocks, threads, 0.0)
        met = makespan(piece.blocks, threads, handing)
        shared, uneven, handed = shared + even, uneven + lasts - even, handed + met - lasts
        added += max(_at_least(piece, plan, copied) - met, 0.0)
    return Predicted(threads, chain, shared, uneven, handed, added)


def makespan(blocks: Sequence[float], threads: int, handing: float) -> float:
    """When all blocks are done, each taken by whoever is free first, and the first thread knows it."""
    free = [0.0, *[handing] * (threads - 1)]
    ends = [0.0]
    heapq.heapify(free)
    for seconds in blocks:
        ends.append(heapq.heappop(free) + seconds)
        heapq.heappush(free, ends[-1])
    return max(ends) + handing


def _at_least(piece: Piece, plan: Plan, copied: float) -> float:
    """What its bytes take; nothing where they stay in caches, as they do where one thread is quicker than that."""
    nbytes = moved(piece.rows, plan)
    took = nbytes / copied
    return took if nbytes >= LARGE and took < sum(piece.blocks) else 0.0


def overlapping(pieces: Sequence[Piece], plan: Plan, handing: float) -> float:
    """The step where threads have nodes of their own, as they are planned."""
    took: Counter[Node] = Counter()
    for piece in pieces:
        if piece.rows:
            took[piece.rows[0].node] += sum(piece.blocks)  # type: ignore[assignment]
    free: Counter[int] = Counter()
    ends: dict[Node, float] = {}
    for node in plan.schedule.order:
        own = plan.schedule.thread[node]
        ready = [
            ends[other] + (0.0 if plan.schedule.thread[other] == own else handing)
            for other in plan.before.get(node, ())
            if other in ends
        ]
        ends[node] = free[own] = max([free[own], *ready]) + took[node]  # type: ignore[assignment]
    return max(ends.values(), default=0.0)


# As text


def report(name: str, counts: Sequence[int]) -> Iterator[str]:
    """A line for every number of threads."""
    cores = processors()
    copied, handing = copy_rate(LARGEST_COPY, cores), hand_over()
    yield f"{name}: {copied / 1e9:.1f} GB/s read and written by {cores} threads, {handing * 1e6:.2f} us to hand over"
    yield (
        f"{'threads':>8}{'ms':>9}{'of one':>8}{'this memory':>13}"
        f"{'chain':>9}{'blocks':>9}{'uneven':>9}{'handed':>9}{'bytes':>9}   limited by"
    )
    real = _runs(name, [count for count in counts if count <= cores])
    alone: list[Piece] = []
    pieces = alone
    for threads in counts:
        planned = PlannedFor(name, threads, together=False)
        plan = latest_binding(planned.workload).plan
        if not planned.is_alone:
            yield f"{threads:>8}{overlapping(alone, plan, handing) * 1e3:>9.2f}   branches, on threads of their own"
            continue
        pieces = pieces_of(planned, STEPS)
        alone = alone or pieces
        p = predict(pieces, plan, threads, handing, copied)
        first = sum(sum(piece.blocks) for piece in alone)
        parts = (p.chain, p.shared, p.uneven, p.handed, p.bytes)
        cells = "".join(f"{part * 1e3:>9.2f}" for part in parts)
        line = f"{threads:>8}{p.step * 1e3:>9.2f}{first / p.step:>8.2f}{(p.step + p.bytes) * 1e3:>13.2f}{cells}"
        if threads in real:
            off = (p.step + p.bytes) / real[threads] - 1
            line += f"   run {real[threads] * 1e3:.2f} ms, prediction {off:+.0%}"
        else:
            line += f"   {_limit(p)}"
        yield line
    yield f"{'':>8} the chain, in ms: {_of_chain(pieces)}"


def _of_chain(pieces: Sequence[Piece]) -> str:
    """What one thread does most of, by types of ops."""
    took: dict[str, float] = {}
    for piece in pieces:
        if len(piece.blocks) == 1:
            kind = piece.rows[0].node.type if piece.rows else "outside of kernels"
            took[kind] = took.get(kind, 0.0) + piece.blocks[0]
    most = sorted(took, key=lambda kind: -took[kind])[:CHAIN]
    return ", ".join(f"{kind} {took[kind] * 1e3:.2f}" for kind in most)


def _limit(p: Predicted) -> str:
    named = {"the chain": p.chain, "the number of blocks": p.uneven, "hand-overs": p.handed, "arithmetic": p.shared}
    most = max(named, key=lambda name: named[name])
    return f"{most}; bytes with this memory" if p.bytes > p.step else most


def _runs(name: str, counts: Sequence[int]) -> dict[int, float]:
    """What the steps take, in which the numbers of threads take turns."""
    planned = {threads: PlannedFor(name, threads, together=True) for threads in counts}
    times: dict[int, list[float]] = {threads: [] for threads in counts}
    for _ in range(STEPS):
        for threads, one in planned.items():
            times[threads].append(one.step())
    return {threads: min(took) for threads, took in times.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", nargs="*", default=PROGRAMS)
    parser.add_argument("--threads", default=",".join(map(str, THREADS)))
    arguments = parser.parse_args()
    for name in arguments.program:
        for line in report(name, [int(count) for count in arguments.threads.split(",")]):
            print(line, flush=True)
        print(flush=True)


if __name__ == "__main__":
    main()
