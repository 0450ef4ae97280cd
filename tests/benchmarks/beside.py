"""Steps per second of the five standard programs, beside other libraries on the same machine.

    python -m tests.benchmarks.beside [WORKLOAD ...] [--paddle PYTHON] [--torch PYTHON] [--jax PYTHON]

Each option names a Python that has the library: Paddle 1.8.5 needs a Python 3.7
(`pip install paddlepaddle==1.8.5 'protobuf<3.21'`), the others take any (`pip install torch jax`). A library without
one is left out. All train on two CPU devices or two threads, from the same parameters on the same batch; their losses
are compared. Every measurement is a process of its own; they take turns, round after round. Prints, of each:

    steps/s       median over the rounds, and the slowest and the fastest
    times         how many times as fast workbench is
    first step    seconds from the import to the end of the first step, which builds and compiles; median
    growth        MiB by which the peak memory of the process, or of all its processes, grew since the import; largest
    loss          of the first step, and of the 20th

Run it on a quiet machine, with OPENBLAS_CORETYPE unset (Linux).
"""

from __future__ import annotations

import argparse
import math
import os
import signal
import statistics
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from tests.benchmarks.peer import DEVICES, OTHERS, WORKBENCH, Peer, PeerError, Run, interpreters, measure
from workbench.cli.doctor import CPU_INFO, core_type_note, processor_name, usable_processors
from workbench.experiments.bench.workloads import WORKLOADS
from workbench.runtime.native.library import kernels, why_not

MIB = 1 << 20
TOLERANCE = 0.02  # of losses that should be equal but for rounding
TOLD_FLAGS = ("avx2", "fma", "avx512f", "avx512_vnni", "avx512_bf16", "amx_bf16")  # what CPU libraries choose code by


@dataclass(frozen=True)
class Result:
    """A workload in one library, in all rounds."""

    name: str
    runs: Sequence[Run]

    @property
    def rates(self) -> list[float]:
        return sorted(run.rate for run in self.runs)

    @property
    def rate(self) -> float:
        return statistics.median(self.rates)

    @property
    def first_step(self) -> float:
        return statistics.median(run.first_step for run in self.runs)

    @property
    def growth(self) -> float:
        """MiB."""
        return max(run.growth for run in self.runs) / MIB


Results = dict[str, list[Result]]  # by workload; workbench's is the first


def complaints(ours: Run, run: Run) -> Iterator[str]:
    """What makes us doubt that both train the same program."""
    for label, mine, its in zip(("first", "20th"), ours.losses, run.losses, strict=False):
        if not math.isclose(mine, its, rel_tol=TOLERANCE):
            yield f"its {label} loss is {its:.4f}, that of workbench {mine:.4f}"
    if not run.losses[-1] < run.losses[0]:
        yield f"its loss does not fall: from {run.losses[0]:.4f} to {run.losses[-1]:.4f}"


def checked(peer: Peer, python: str, workload: str, seconds: float, ours: Run | None) -> Run:
    """A run whose losses are what they should be.

    Raises:
        PeerError: they are not, or it failed.
    """
    run = measure(peer, python, workload, seconds)
    for complaint in complaints(ours or run, run):
        raise PeerError(complaint)
    return run


def in_turns(
    peers: Mapping[Peer, str], workload: str, rounds: int, seconds: float, failures: list[str]
) -> list[Result]:
    """A workload in all libraries; one that fails is left out, and told in `failures`.

    Raises:
        PeerError: workbench fails.
    """
    runs: dict[Peer, list[Run]] = {peer: [] for peer in peers}
    ours = None
    for _ in range(rounds):
        for peer in list(runs):
            try:
                run = checked(peer, peers[peer], workload, seconds, ours)
            except PeerError as error:
                if peer is WORKBENCH:
                    raise
                failures.append(f"{workload} in {peer.name}: {error}")
                del runs[peer]
                continue
            runs[peer].append(run)
            ours = ours or run
    return [Result(peer.name, measured) for peer, measured in runs.items()]


def number(rate: float) -> str:
    return f"{rate:,.0f}" if rate >= 100 else f"{rate:.1f}"


def heads() -> str:
    return (
        f"{'workload':<9}{'library':<25}{'steps/s':>8}{'slowest..fastest':>18}{'times':>8}"
        f"{'first step s':>14}{'growth MiB':>12}   loss"
    )


def lines(workload: str, results: Sequence[Result]) -> Iterator[str]:
    """A workload, a line for each library."""
    for result in results:
        span = f"{number(result.rates[0])}..{number(result.rates[-1])}"
        begins, falls = result.runs[0].losses[:2]
        yield (
            f"{workload:<9}{result.name:<25}{number(result.rate):>8}{span:>18}{results[0].rate / result.rate:>8.2f}"
            f"{result.first_step:>14.2f}{result.growth:>12.1f}   {begins:.4f} -> {falls:.4f}"
        )


def markdown(results: Results, cell: Callable[[Result, Result], str]) -> Iterator[str]:
    """A table with a row for each program and a column for each library.

    Args:
        cell: its text, from the result of a library and that of workbench.
    """
    names = list(dict.fromkeys(result.name for measured in results.values() for result in measured))
    yield f"| {' | '.join(['program', *names])} |"
    yield f"| {' | '.join(['---'] * (1 + len(names)))} |"
    for workload, measured in results.items():
        by_name = {result.name: cell(result, measured[0]) for result in measured}
        about = f"{workload}: {WORKLOADS[workload].about}, batch {WORKLOADS[workload].batch}"
        yield f"| {' | '.join([about, *(by_name.get(name, '') for name in names)])} |"


def rate_cell(result: Result, ours: Result) -> str:
    if result is ours:
        return number(result.rate)
    return f"{number(result.rate)} ({ours.rate / result.rate:.1f})"


def start_cell(result: Result, ours: Result) -> str:
    return f"{result.first_step:.1f} s, {result.growth:.0f} MiB"


def machine(results: Results) -> str:
    """What the figures depend on, in a line."""
    versions = {result.name.split()[0]: result.runs[0].version for measured in results.values() for result in measured}
    lowering = "compiled kernels" if kernels() else f"NumPy calls, {why_not() or 'FLAGS_cpu_tape is off'}"
    return "; ".join(
        [
            f"{processor_name()} ({' '.join(processor_flags())})",
            f"{DEVICES} devices on {usable_processors()} of {os.cpu_count()} processors",
            ", ".join(f"{name} {version}" for name, version in versions.items()),
            f"workbench's steps in {lowering}",
            core_type_note(os.environ.get("OPENBLAS_CORETYPE")),
        ]
    )


def processor_flags() -> list[str]:
    """The instruction sets that matter here."""
    with suppress(OSError):
        words = set(CPU_INFO.read_text(errors="replace").split())
        return [flag for flag in TOLD_FLAGS if flag in words]
    return []


def report(workloads: Sequence[str], peers: Mapping[Peer, str], rounds: int, seconds: float) -> Iterator[str]:
    """All tables; a workload's lines are shown when it has been measured.

    Raises:
        PeerError: workbench failed; or, at the end, others did.
    """
    kernels()  # compiled before anything is timed
    results: Results = {}
    failures: list[str] = []
    yield heads()
    for workload in workloads:
        results[workload] = in_turns(peers, workload, rounds, seconds, failures)
        yield from lines(workload, results[workload])
    yield from (
        "",
        f"Steps per second, median of rounds: {rounds}; in brackets, how many times as fast workbench is:",
        "",
    )
    yield from markdown(results, rate_cell)
    yield from ("", "From the import to the end of the first step, and what training adds to the peak memory:", "")
    yield from markdown(results, start_cell)
    yield from ("", machine(results))
    if failures:
        raise PeerError("\n".join(failures))


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("workloads", nargs="*", metavar="WORKLOAD", help=f"{', '.join(WORKLOADS)}; all if left out")
    for library in ("paddle", "torch", "jax"):
        parser.add_argument(f"--{library}", metavar="PYTHON", help="an interpreter that has it")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=0.7, help="of a measurement")
    given = parser.parse_args()
    if unknown := set(given.workloads) - set(WORKLOADS):
        parser.error(f"no workload {unknown.pop()!r}; there are {', '.join(WORKLOADS)}")
    if given.rounds < 1 or given.seconds <= 0:
        parser.error("--rounds and --seconds must be positive")
    return given


def main() -> None:
    given = options()
    pythons = interpreters(given.paddle, given.torch, given.jax)
    peers = {}
    for peer in (WORKBENCH, *OTHERS):
        if python := pythons[peer.library]:
            peers[peer] = python
        else:
            print(f"{peer.name} is left out: give --{peer.library} a Python that has it")
    for ending in (signal.SIGINT, signal.SIGTERM):  # a shell's background jobs ignore the first
        signal.signal(ending, signal.default_int_handler)
    try:
        for line in report(given.workloads or list(WORKLOADS), peers, given.rounds, given.seconds):
            print(line, flush=True)
    except PeerError as error:
        sys.exit(f"\nfailed: {error}")
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
