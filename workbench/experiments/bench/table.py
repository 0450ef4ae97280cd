"""The rows measured, each way and each peer in processes of its own that take turns."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from workbench.experiments.bench.peers.measure import measured
from workbench.experiments.bench.row import BenchRow, row_named

PEERS = Path(__file__).parent / "peers"
PATIENCE_S = 600  # of a process, besides the time of its steps


class RowRun(NamedTuple):
    """What a process prints; `peers/measure.py` says what it means. share: of the floor, None if not measured;
    share_of_one: of the floor of one thread."""

    median: float
    best: float
    first: float
    growth: int
    losses: Sequence[float]
    share: float | None = None
    share_of_one: float | None = None


class RowLine(NamedTuple):
    """A way or a peer of a row in all rounds.

    Attributes:
        times: how often a step of the first way fits into one of its steps, the median over the rounds.
        failure: why there are no runs.
    """

    name: str
    runs: Sequence[RowRun]
    times: float = 1.0
    failure: str = ""

    @property
    def median(self) -> float:
        """Seconds of a step."""
        return statistics.median(run.median for run in self.runs)

    @property
    def first(self) -> float:
        """Seconds to the end of the first step."""
        return statistics.median(run.first for run in self.runs)

    @property
    def share(self) -> float | None:
        """Of the floor, where that is measured."""
        shares = [run.share for run in self.runs if run.share is not None]
        return statistics.median(shares) if shares else None

    @property
    def share_of_one(self) -> float | None:
        """Of what one thread takes at least, where that is measured."""
        shares = [run.share_of_one for run in self.runs if run.share_of_one is not None]
        return statistics.median(shares) if shares else None

    @property
    def growth(self) -> int:
        """Bytes."""
        return max(run.growth for run in self.runs)


def pythons(given: Mapping[str, str | None]) -> dict[str, str]:
    """By library a Python that has it: the one that is given, else this one if it does."""
    chosen = {library: path or (sys.executable if find_spec(library) else None) for library, path in given.items()}
    return {library: path for library, path in chosen.items() if path}


def measure_row(row: BenchRow, interpreters: Mapping[str, str], rounds: int, seconds: float) -> list[RowLine]:
    """A row beside the peers that have an interpreter; who fails has a line that says why."""
    commands = {
        way: [sys.executable, "-m", "workbench.experiments.bench.table", row.name, way, str(seconds)]
        for way in row.ways
    }
    for library, file in row.peers.items():
        if library in interpreters:
            commands[library] = [interpreters[library], str(PEERS / file), str(seconds)]
    runs: dict[str, list[RowRun]] = {name: [] for name in commands}
    failures: dict[str, str] = {}
    for _ in range(rounds):
        for name in [name for name in commands if name not in failures]:
            try:
                runs[name].append(run_in_process(commands[name], seconds))
            except (OSError, subprocess.SubprocessError) as error:
                failures[name] = _last_line(error)
    return list(_lines(runs, failures))


def run_in_process(command: Sequence[str], seconds: float) -> RowRun:
    """What a process measures.

    Raises:
        SubprocessError: it failed, took too long, or printed no figures. OSError: it cannot be started.
    """
    given = {name: value for name, value in os.environ.items() if name not in ("CPU_NUM", "OMP_NUM_THREADS")}
    done = subprocess.run(
        command, capture_output=True, text=True, check=True, stdin=subprocess.DEVNULL,
        timeout=PATIENCE_S + 5 * seconds, env=given,
    )  # fmt: skip
    try:
        return RowRun(**json.loads(done.stdout.splitlines()[-1]))
    except (IndexError, ValueError, TypeError) as error:
        raise subprocess.SubprocessError(f"printed no figures, but {done.stdout[-200:]!r}") from error


def _lines(runs: Mapping[str, Sequence[RowRun]], failures: Mapping[str, str]) -> Iterator[RowLine]:
    ours = next(iter(runs.values()))
    for name, own in runs.items():
        if name in failures:
            yield RowLine(name, own, failure=failures[name])
            continue
        ratios = [run.median / our.median for run, our in zip(own, ours, strict=False)]
        yield RowLine(name, own, statistics.median(ratios) if ratios else 1.0)


def _last_line(error: Exception) -> str:
    said = (getattr(error, "stderr", None) or "").strip().splitlines()
    return said[-1] if said else str(error)


def _measured_here(name: str, way: str, seconds: float) -> dict[str, object]:
    row = row_named(name)
    kept = []

    def make() -> object:
        kept.append(row.ways[way]())
        return lambda: float(kept[0].step().mean())

    figures = measured(make, seconds)
    if row.share:
        from workbench.experiments.bench.own_program import bench

        roofline = bench(kept[0].executor, kept[0].feed, [kept[0].loss], seconds)
        figures |= {"share": roofline.share, "share_of_one": roofline.share_of_one}
    return figures


if __name__ == "__main__":
    print(json.dumps(_measured_here(sys.argv[1], sys.argv[2], float(sys.argv[3]))))
