"""Steps of the programs of `workbench bench --coverage`, beside PyTorch and JAX on the same machine.

    python -m tests.benchmarks.beside_covered [PROGRAM ...] [--torch PYTHON] [--jax PYTHON]

Each option names a Python that has the library (`pip install torch jax`); a library without one is left out. PyTorch
runs eagerly, and by `torch.compile`, which needs a C++ compiler. We train on one CPU device; everybody may use all
processors. Every step is fed from NumPy arrays and brings its loss back; dropout and noise are drawn anew in each.

First all train the same: as many scalars, from our parameters, on our batch; with nothing drawn, the losses of the
first step and of the sixth must be ours. A library whose losses differ is left out. Then every measurement is a process
of its own; they take turns, round after round. Prints, of each, milliseconds of a step: the median over the rounds of
their medians, the best step of all, and how many times as fast we are, as the median over the rounds. We are first in
a program if no library has the smaller median or the better best step: other work on the machine spoils medians.

Run it on a quiet machine, with OPENBLAS_CORETYPE unset (Linux).
"""

from __future__ import annotations

import argparse
import math
import os
import signal
import statistics
import sys
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import numpy as np

import workbench
from tests.benchmarks.peer import FROM_THIS_TREE, Peer, PeerError, figures, interpreters
from workbench.cli.doctor import core_type_note, processor_name, usable_processors
from workbench.experiments.bench.coverage import programs
from workbench.experiments.bench.coverage.covered import CoveredProgram
from workbench.experiments.bench.workloads import Training
from workbench.runtime.native.library import kernels, why_not

OURS = Peer("workbench", "workbench", "covered_workbench.py", {"PYTHONPATH": FROM_THIS_TREE})
OTHERS = (
    Peer("PyTorch eager", "torch", "covered_pytorch.py"),
    Peer("PyTorch compiled", "torch", "covered_pytorch.py", options=("compiled",)),
    Peer("JAX jit", "jax", "covered_jax.py"),
)
FILES = ("attention", "convolutional", "dense", "recurrent")  # what is written for the coverage
TOLERANCE = 0.02  # of losses that should be equal but for rounding
PATIENCE_S = 600  # besides the time of the steps; a loop that is written out takes minutes to compile


class Steps(NamedTuple):
    """What a peer prints; `peers/covered.py` says what it means."""

    version: str
    trained: int
    first_step: float
    median: float
    best: float
    losses: Sequence[float]


class Line(NamedTuple):
    """A program in one library, in all rounds.

    Attributes:
        times: how often one of our steps fits into one of its steps.
    """

    name: str
    runs: Sequence[Steps]
    times: float

    @property
    def median(self) -> float:
        """Seconds of a step."""
        return statistics.median(run.median for run in self.runs)

    @property
    def best(self) -> float:
        """Seconds of the shortest step."""
        return min(run.best for run in self.runs)


def covered() -> dict[str, CoveredProgram]:
    """The programs that others have too, by name."""
    declared = [import_module(f"{programs.__name__}.{name}").PROGRAMS for name in FILES]
    return {program.name: program for own in declared for program in own}


def trained_values(parts: Sequence[Training]) -> list[np.ndarray]:
    """Of a step's programs, which share their parameters; in the order in which those are made."""
    executor = parts[0].executor
    names = [parameter.name for parameter in executor.program.all_parameters() if parameter.trainable]
    return [np.array(executor.scope.get(name).get_tensor()) for name in names]


def export(program: CoveredProgram, folder: Path) -> Path:
    """A file with the batch and the parameters from which all start; bfloat16 is written as float32."""
    parts = program.start(workbench)
    arrays = {f"feed.{name}": array for part in parts for name, array in part.feed.items()}
    for i, value in enumerate(trained_values(parts)):
        arrays[f"value.{i}"] = value if value.dtype.kind == "f" else value.astype(np.float32)
    file = folder / f"{program.name}.npz"
    np.savez(file, allow_pickle=False, **arrays)
    return file


def measure(peer: Peer, python: str, name: str, start: Path, seconds: float, *options: str) -> Steps:
    """Train a program for so long, in a process.

    Raises:
        PeerError: it did not come to its end.
    """
    return Steps(**figures(peer, python, [name, str(start), str(seconds), *options], PATIENCE_S + 5 * seconds))


def complaints(ours: Steps, its: Steps) -> Iterator[str]:
    """What makes us doubt that both train the same program, nothing being drawn."""
    if its.trained != ours.trained:
        yield f"it trains {its.trained:,} scalars, workbench {ours.trained:,}"
    for label, mine, loss in zip(("first", "sixth"), ours.losses, its.losses, strict=False):
        if not math.isclose(mine, loss, rel_tol=TOLERANCE):
            yield f"its {label} loss is {loss:.4f}, that of workbench {mine:.4f}"


def same(peers: Mapping[Peer, str], name: str, start: Path, failures: list[str]) -> dict[Peer, str]:
    """Those that train the same program; who does not, or cannot, is told in `failures`.

    Raises:
        PeerError: workbench fails.
    """
    ours, agreed = measure(OURS, peers[OURS], name, start, 0, "plain"), {}
    for peer, python in peers.items():
        try:
            its = ours if peer is OURS else measure(peer, python, name, start, 0, "plain")
            for complaint in complaints(ours, its):
                raise PeerError(complaint)
        except PeerError as error:
            failures.append(f"{name} in {peer.name}: {error}")
            continue
        agreed[peer] = python
    return agreed


def in_turns(peers: Mapping[Peer, str], name: str, start: Path, rounds: int, seconds: float) -> list[Line]:
    """A program in all libraries; ours is the first line.

    Raises:
        PeerError: one fails.
    """
    runs: dict[Peer, list[Steps]] = {peer: [] for peer in peers}
    for _ in range(rounds):
        for peer, python in peers.items():
            runs[peer].append(measure(peer, python, name, start, seconds))
    return [Line(peer.name, own, times(runs[OURS], own)) for peer, own in runs.items()]


def times(ours: Sequence[Steps], its: Sequence[Steps]) -> float:
    """Round by round, for a machine is not equally quiet in all."""
    return statistics.median(run.median / our.median for our, run in zip(ours, its, strict=True))


def heads(names: Sequence[str]) -> str:
    return f"{'program':<15}{OURS.name:>18}{''.join(f'{name:>25}' for name in names)}"


def text(name: str, lines: Sequence[Line], others: Sequence[str]) -> str:
    """A program, with an empty place for who is left out."""
    ours, *rest = lines
    by_name = {line.name: f"{figure(line)}{line.times:>6.2f}" for line in rest}
    cells = [by_name.get(other, "-") for other in others]
    return f"{name:<15}{figure(ours):>18}{''.join(f'{cell:>25}' for cell in cells)}"


def figure(line: Line) -> str:
    return f"{line.median * 1e3:.3f} ({line.best * 1e3:.3f})"


def behind(ours: Line, its: Line) -> float:
    """How much of our step its step takes, by their medians or by their best steps, whichever is less."""
    return min(its.times, its.best / ours.best)


def places(results: Mapping[str, Sequence[Line]]) -> Iterator[str]:
    """In how many programs we are first, and who is before us elsewhere."""
    faster = {name: [line for line in rest if behind(ours, line) < 1] for name, (ours, *rest) in results.items()}
    yield f"workbench is first in {sum(not lines for lines in faster.values())} of {len(faster)} programs"
    for name, lines in faster.items():
        for line in lines:
            yield f"  not in {name}: {line.name} takes {behind(results[name][0], line):.2f} of our step"


def machine(results: Mapping[str, Sequence[Line]]) -> str:
    """What the figures depend on."""
    versions = {line.name.split()[0]: line.runs[0].version for lines in results.values() for line in lines}
    lowering = "compiled kernels" if kernels() else f"NumPy calls, {why_not() or 'FLAGS_cpu_tape is off'}"
    return "; ".join(
        [
            f"{processor_name()}, {usable_processors()} of {os.cpu_count()} processors",
            ", ".join(f"{name} {version}" for name, version in versions.items()),
            f"workbench's steps in {lowering}",
            core_type_note(os.environ.get("OPENBLAS_CORETYPE")),
        ]
    )


def report(names: Sequence[str], peers: Mapping[Peer, str], rounds: int, seconds: float) -> Iterator[str]:
    """The table, a line when its program has been measured, and where we are not first.

    Raises:
        PeerError: workbench failed; or, at the end, others did.
    """
    kernels()  # compiled before anything is timed
    results: dict[str, list[Line]] = {}
    failures: list[str] = []
    others = [peer.name for peer in peers if peer is not OURS]
    declared = covered()
    yield heads(others)
    with TemporaryDirectory() as folder:
        for name in names:
            start = export(declared[name], Path(folder))
            results[name] = in_turns(same(peers, name, start, failures), name, start, rounds, seconds)
            yield text(name, results[name], others)
    yield ""
    if others:
        yield from places(results)
    yield machine(results)
    if failures:
        raise PeerError("\n".join(failures))


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("programs", nargs="*", metavar="PROGRAM", help=f"{', '.join(covered())}; all if left out")
    for library in ("torch", "jax"):
        parser.add_argument(f"--{library}", metavar="PYTHON", help="an interpreter that has it")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=1.0, help="of a measurement")
    given = parser.parse_args()
    if unknown := set(given.programs) - set(covered()):
        parser.error(f"no program {unknown.pop()!r}; there are {', '.join(covered())}")
    if given.rounds < 1 or given.seconds <= 0:
        parser.error("--rounds and --seconds must be positive")
    return given


def main() -> None:
    given = options()
    pythons = interpreters(None, given.torch, given.jax)
    peers = {}
    for peer in (OURS, *OTHERS):
        if python := pythons[peer.library]:
            peers[peer] = python
        else:
            print(f"{peer.name} is left out: give --{peer.library} a Python that has it")
    for ending in (signal.SIGINT, signal.SIGTERM):  # a shell's background jobs ignore the first
        signal.signal(ending, signal.default_int_handler)
    try:
        for line in report(given.programs or list(covered()), peers, given.rounds, given.seconds):
            print(line, flush=True)
    except PeerError as error:
        sys.exit(f"\nfailed: {error}")
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
