"""The programs of the coverage beside other libraries: where all start, what is compared, what the table says."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import workbench
from tests.benchmarks import beside_covered
from tests.benchmarks.beside_covered import OTHERS, OURS, Line, Steps, covered, export
from tests.benchmarks.peer import FOLDER, ROOT, Peer, PeerError

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="peers are told how many processors they may use")

EAGER, COMPILED, JAX = OTHERS
GOOD = Steps("1", trained=100, first_step=0.5, median=0.010, best=0.009, losses=[2.5, 2.0, 1.0])


@pytest.fixture
def peer(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """Our own program of the peers, which imports files of its folder."""
    monkeypatch.syspath_prepend(str(FOLDER))
    yield import_module("covered_workbench")
    for name in ("covered_workbench", "covered"):
        del sys.modules[name]


def line(name: str, median: float, best: float) -> Line:
    return Line(name, [GOOD._replace(median=median, best=best)], median / GOOD.median)


@pytest.mark.processes
def test_workbench_alone_gets_a_line_of_what_it_measured() -> None:
    command = [
        sys.executable,
        "-m",
        "tests.benchmarks.beside_covered",
        "smoothed",
        "--seconds",
        "0.05",
        "--rounds",
        "2",
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=200, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    for other in OTHERS:
        assert f"{other.name} is left out: give --{other.library} a Python that has it" in done.stdout
    (figures,) = re.findall(r"^smoothed +([\d.]+) \(([\d.]+)\)$", done.stdout, re.MULTILINE)
    median, best = map(float, figures)
    assert 0 < best <= median
    assert "workbench is first" not in done.stdout  # of nobody
    assert re.search(r"; workbench [\d.]+; workbench's steps in .*\n\Z", done.stdout)


def test_an_unknown_program_is_refused(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "argv", ["beside_covered", "tiny"])
    with pytest.raises(SystemExit):
        beside_covered.main()
    assert "no program 'tiny'; there are causal, cross, bfloat16, separable, " in capsys.readouterr().err


@pytest.mark.parametrize("name", ["bfloat16", "ctr", "gan"])
def test_a_file_holds_the_batch_and_the_parameters_from_which_all_start(
    name: str, tmp_path: Path, peer: ModuleType
) -> None:
    start = import_module("covered").start_in(export(covered()[name], tmp_path), True)
    parts = covered()[name].start(workbench)
    feeds = [array for part in parts for array in part.feed.values()]
    assert [array.dtype for array in start.feed] == [array.dtype for array in feeds]
    for given, fed in zip(start.feed, feeds, strict=True):
        assert np.array_equal(given, fed)
    trained = beside_covered.trained_values(parts)
    assert len(trained) == len(start.values)
    for value, held in zip(start.values, trained, strict=True):
        assert value.dtype == np.float32 and np.array_equal(value, held.astype(np.float32))


@pytest.mark.parametrize("name", ["causal", "smoothed", "gan"])
def test_a_plain_program_starts_the_same_and_draws_nothing(name: str, peer: ModuleType) -> None:
    drawn, plain = (covered()[name].start(paddle) for paddle in (workbench, peer.undrawn(workbench)))
    for ours, its in zip(*map(beside_covered.trained_values, (drawn, plain)), strict=True):
        assert np.array_equal(ours, its)
    assert random_operators(drawn) and not random_operators(plain)


def random_operators(parts: list[workbench.experiments.bench.workloads.Training]) -> set[str]:
    types = {op.type for part in parts for op in part.executor.program.global_block().ops}
    return {kind for kind in types if kind.startswith(("dropout", "gaussian_random", "uniform_random"))}


def test_another_size_and_other_losses_are_told() -> None:
    assert list(beside_covered.complaints(GOOD, GOOD._replace(losses=[2.501, 1.999, 3.0]))) == []
    its = GOOD._replace(trained=1_100, losses=[2.5, 2.3, 1.0])
    assert list(beside_covered.complaints(GOOD, its)) == [
        "it trains 1,100 scalars, workbench 100",
        "its sixth loss is 2.3000, that of workbench 2.0000",
    ]
    (complaint,) = beside_covered.complaints(GOOD, GOOD._replace(losses=[float("nan"), 2.0, 1.0]))
    assert complaint.startswith("its first loss is nan")


def test_who_trains_something_else_is_left_out_and_told(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[Peer, tuple[str, ...]]] = []

    def measure(peer: Peer, python: str, name: str, start: Path, seconds: float, *options: str) -> Steps:
        asked.append((peer, options))
        if peer is COMPILED:
            raise PeerError("no C++ compiler")
        return GOOD._replace(losses=[9.0, 2.0, 1.0]) if peer is JAX else GOOD

    monkeypatch.setattr(beside_covered, "measure", measure)
    failures: list[str] = []
    peers = dict.fromkeys((OURS, *OTHERS), "python")
    assert list(beside_covered.same(peers, "unet", Path("start"), failures)) == [OURS, EAGER]
    assert asked == [(peer, ("plain",)) for peer in (OURS, EAGER, COMPILED, JAX)]
    assert failures == [
        "unet in PyTorch compiled: no C++ compiler",
        "unet in JAX jit: its first loss is 9.0000, that of workbench 2.5000",
    ]


def test_libraries_take_turns_and_are_compared_round_by_round(monkeypatch: pytest.MonkeyPatch) -> None:
    turns: list[Peer] = []

    def measure(peer: Peer, *_: object) -> Steps:
        turns.append(peer)
        busy = 10 if len(turns) > 4 else 1  # the machine, in the last round
        own = 0.001 if peer is OURS else 0.003
        return GOOD._replace(median=own * busy, best=own / 2)

    monkeypatch.setattr(beside_covered, "measure", measure)
    ours, its = beside_covered.in_turns({OURS: "python", JAX: "python"}, "unet", Path("start"), 3, 1.0)
    assert turns == [OURS, JAX] * 3
    assert (ours.name, ours.median, ours.best, ours.times) == ("workbench", 0.001, 0.0005, 1.0)
    assert (its.median, its.best, its.times) == (0.003, 0.0015, pytest.approx(3.0))


def test_a_library_that_is_left_out_has_an_empty_place() -> None:
    lines = [line("workbench", 0.010, 0.009), line("JAX jit", 0.025, 0.020)]
    told = beside_covered.text("unet", lines, ["PyTorch eager", "JAX jit"])
    assert told.split() == ["unet", "10.000", "(9.000)", "-", "25.000", "(20.000)", "2.50"]
    assert len(told) == len(beside_covered.heads(["PyTorch eager", "JAX jit"]))


def test_first_is_who_has_both_the_smaller_median_and_the_better_best_step() -> None:
    ours = line("workbench", 0.010, 0.009)
    results = {
        "a": [ours, line("JAX jit", 0.020, 0.018)],
        "b": [ours, line("PyTorch eager", 0.005, 0.0045), line("JAX jit", 0.020, 0.018)],
        "c": [ours, line("JAX jit", 0.050, 0.0045)],  # spoilt by other work on the machine
    }
    assert list(beside_covered.places(results)) == [
        "workbench is first in 1 of 3 programs",
        "  not in b: PyTorch eager takes 0.50 of our step",
        "  not in c: JAX jit takes 0.50 of our step",
    ]
