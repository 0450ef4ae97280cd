"""The comparison with other libraries: what it prints, that all start the same, and that no process outlives it."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import threading
from importlib import util
from types import ModuleType

import numpy as np
import pytest

from tests.benchmarks import beside
from tests.benchmarks.peer import FOLDER, OTHERS, ROOT, WORKBENCH, Peer, PeerError, Run, answer
from workbench.experiments.bench.workloads import WORKLOADS, training

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")

GOOD = Run("1", rate=10.0, first_step=0.5, growth=3 << 20, losses=[2.5, 2.0, 1.0])


@pytest.fixture(scope="module")
def measure() -> ModuleType:
    """The file that the peers import from their folder."""
    spec = util.spec_from_file_location("measure", FOLDER / "measure.py")
    assert spec is not None and spec.loader is not None
    module = util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.processes
def test_workbench_alone_gets_its_lines_and_tables() -> None:
    command = [sys.executable, "-m", "tests.benchmarks.beside", "tiny", "--seconds", "0.05", "--rounds", "1"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=200, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    for peer in OTHERS:
        assert f"{peer.name} is left out: give --{peer.library} a Python that has it" in done.stdout
    (line,) = re.findall(r"^tiny +workbench +(.*)$", done.stdout, re.MULTILINE)
    rate, span, times, first, growth, begins, _, falls = line.split()
    assert span == f"{rate}..{rate}" and float(times) == 1.0
    assert float(first) > 0 and float(growth) > 0 and float(falls) < float(begins)
    assert f"| program | workbench |\n| --- | --- |\n| tiny: 64-32-10 MLP, SGD, batch 32 | {rate} |\n" in done.stdout
    assert re.search(r"^\| tiny: .* \| [\d.]+ s, \d+ MiB \|$", done.stdout, re.MULTILINE)
    assert re.search(r"2 devices on \d+ of \d+ processors; workbench \S+; .*; OPENBLAS_CORETYPE.*\n\Z", done.stdout)


def test_an_unknown_workload_is_refused(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "argv", ["beside", "huge"])
    with pytest.raises(SystemExit):
        beside.main()
    assert "no workload 'huge'; there are tiny, mlp, deep, lenet, encoder" in capsys.readouterr().err


@pytest.mark.parametrize("name", list(WORKLOADS))
def test_all_libraries_start_from_workbenchs_batch_and_shapes(name: str, measure: ModuleType) -> None:
    model = training(WORKLOADS[name], 2)
    images, classes = measure.batch(name)
    assert np.array_equal(images, model.feed["x"]) and np.array_equal(classes, model.feed["y"])
    parameters = model.executor.inspection.program.all_parameters()
    assert [w.shape for w in measure.weights(name)] == [tuple(p.shape) for p in parameters if len(p.shape) > 1]


def test_laps_grow_until_they_are_long_enough(measure: ModuleType) -> None:
    counts: list[int] = []

    def ten_milliseconds_a_step(lap: float) -> float:
        counts.append(len(steps))
        steps.clear()
        return 0.01 * counts[-1]

    steps: list[None] = []
    assert measure.rate(lambda: steps.append(None), 1.0, ten_milliseconds_a_step) == pytest.approx(100)
    assert counts[0] == 5 and counts[-1] >= 100 and len(counts) <= 4


def test_losses_that_differ_or_do_not_fall_are_told() -> None:
    assert list(beside.complaints(GOOD, GOOD._replace(losses=[2.501, 1.999, 1.5]))) == []
    assert list(beside.complaints(GOOD, GOOD._replace(losses=[2.5, 2.3, 1.5]))) == [
        "its 20th loss is 2.3000, that of workbench 2.0000"
    ]
    for last in (2.5, float("nan")):
        (complaint,) = beside.complaints(GOOD, GOOD._replace(losses=[2.5, 2.0, last]))
        assert complaint.startswith("its loss does not fall")


def test_peers_take_turns_and_one_that_fails_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    fine, broken = OTHERS[:2]
    turns: list[Peer] = []

    def measure(peer: Peer, *_: object) -> Run:
        turns.append(peer)
        if peer is broken:
            raise PeerError("no module named so")
        return GOOD._replace(rate=len(turns))

    monkeypatch.setattr(beside, "measure", measure)
    failures: list[str] = []
    measured = beside.in_turns(dict.fromkeys((WORKBENCH, fine, broken), "python"), "tiny", 2, 0.1, failures)
    assert turns == [WORKBENCH, fine, broken, WORKBENCH, fine]
    assert [(one.name, one.rates) for one in measured] == [("workbench", [1, 4]), (fine.name, [2, 5])]
    assert failures == [f"tiny in {broken.name}: no module named so"]


def test_a_column_without_a_figure_stays_empty() -> None:
    ours, theirs = beside.Result("workbench", [GOOD]), beside.Result("other", [GOOD._replace(rate=4.0)])
    table = list(beside.markdown({"tiny": [ours, theirs], "mlp": [ours]}, beside.rate_cell))
    assert table[0] == "| program | workbench | other |"
    assert table[2].endswith("| 10.0 | 4.0 (2.5) |") and table[3].endswith("| 10.0 |  |")


@pytest.mark.parametrize(
    ("command", "complaint"),
    [
        (["/no/such/python"], "No such file"),
        (["sh", "-c", "echo first >&2; echo last >&2; exit 3"], "^last$"),
        (["sh", "-c", "exit 3"], "^exit status 3$"),
    ],
)
def test_what_a_peer_complained_of_is_told(command: list[str], complaint: str) -> None:
    with pytest.raises(PeerError, match=complaint):
        answer(command, {}, 60)


# A sleeper holds the pipe that is read to its end, so these return only when all of them are gone.
SLEEPERS = ["sh", "-c", "sleep 1000 & sleep 1000"]


@pytest.mark.timeout(60)
def test_a_deadline_ends_all_processes() -> None:
    with pytest.raises(PeerError, match="not done after 1 s"):
        answer(SLEEPERS, {}, 1)


@pytest.mark.timeout(60)
def test_an_interrupt_ends_all_processes() -> None:
    main = threading.main_thread().ident
    assert main is not None
    timer = threading.Timer(0.3, signal.pthread_kill, (main, signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        answer(SLEEPERS, {}, 60)
    timer.join()
