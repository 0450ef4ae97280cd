"""`workbench bench --table`: what its rows are, who takes turns with whom, and what is said of peers that fail."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from workbench.cli.app import app
from workbench.errors import NotFound
from workbench.experiments.bench import table
from workbench.experiments.bench.peers.measure import measured
from workbench.experiments.bench.row import BenchRow, all_rows, row_named
from workbench.experiments.bench.table import PEERS, RowRun, measure_row, pythons

GOOD = RowRun(2.0, 1.5, 3.0, 5 << 20, [2.0, 1.0])
ROW = BenchRow("one", "a program", "speed", {"1 device": lambda: None, "2 devices": lambda: None}, {"torch": "t.py"})


def bench(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["bench", "--table", *arguments])
    return result.exit_code, result.output


def test_peers_are_there_and_know_nothing_of_workbench() -> None:
    files = {file for row in all_rows().values() for file in row.peers.values()}
    assert files == {path.name for path in PEERS.glob("*.py")} - {"__init__.py", "measure.py"}
    for file in files:
        assert "workbench" not in (PEERS / file).read_text()
        assert "if __name__" in (PEERS / file).read_text() and ast.parse((PEERS / file).read_text())


def test_rows_are_those_of_the_files() -> None:
    standard = {"gpt6", "gpt", "resnet18", "resnet", "lenet", "deep", "first run"}
    assert standard | {"lengths", "loop", "wide"} <= all_rows().keys()
    assert all(row.name == name and row.ways and row.about and row.wanted for name, row in all_rows().items())
    with pytest.raises(NotFound, match="no row 'huge'; there are"):
        row_named("huge")


@pytest.mark.processes
def test_a_row_gets_its_lines() -> None:
    code, output = bench("deep", "--seconds", "0", "--rounds", "1", "--torch", sys.executable)
    assert code == 0, output
    assert "\nbeside torch\n" in output and "deep: 100 layers of 64, SGD, batch 64; wanted: 85 % of the floor" in output
    (line,) = re.findall(r"^  1 device +(.*)$", output, re.MULTILINE)
    median, times, first, growth, share, of_one, begins, _, falls = line.replace(",", "").split()
    assert float(median) > 0 and float(times) == 1.0 and float(first) > 0 and float(growth) > 0
    assert share.endswith("%") and of_one.endswith("%") and float(falls) < float(begins)


def test_all_take_turns_and_who_fails_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    turns: list[str] = []

    def run(command: list[str], seconds: float) -> RowRun:
        turns.append(command[-2])
        if command[-2].endswith("t.py"):
            raise subprocess.CalledProcessError(1, command, "", "Traceback\nno module named torch\n")
        return GOOD._replace(median=2.0 * len(turns))

    monkeypatch.setattr(table, "run_in_process", run)
    one, two, peer = measure_row(ROW, {"torch": "python"}, 2, 0.1)
    assert turns == ["1 device", "2 devices", str(PEERS / "t.py"), "1 device", "2 devices"]
    assert (one.times, two.times) == (1.0, (4 / 2 + 10 / 8) / 2)
    assert peer.failure == "no module named torch" and not one.failure


def test_libraries_that_are_not_there_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table, "find_spec", lambda name: None)
    assert pythons({"torch": None, "jax": "/a/python"}) == {"jax": "/a/python"}
    code, output = bench("huge")
    assert code == 2 and "no row 'huge'; there are" in output


def test_what_a_process_prints_counts_steps_after_the_first_two() -> None:
    losses = iter(range(100, 0, -1))
    figures = measured(lambda: lambda: float(next(losses)), 0.0)
    assert figures["losses"] == [100.0, 96.0]  # the first, one more, three that are timed
    assert 0 <= figures["best"] <= figures["median"] and figures["growth"] >= 0


def test_steps_end_where_there_are_no_more() -> None:
    losses = iter([8.0, 7.0, 6.0, 5.0])
    assert measured(lambda: losses.__next__, 1000.0)["losses"] == [8.0, 5.0]


def test_every_length_is_new_once() -> None:
    sequences = row_named("lengths").ways["new"]()
    fed = []
    with pytest.raises(StopIteration):
        while True:
            sequences.step()
            fed.append(sequences.training.feed["x"].shape[1])
    assert sorted(fed) == list(range(10, 50))


@pytest.mark.parametrize(
    ("name", "way"), [("gpt", "1 device"), ("resnet", "1 device"), ("wide", "1 device"), ("lengths", "one length")]
)
def test_programs_of_rows_train(name: str, way: str) -> None:
    model = row_named(name).ways[way]()
    losses = [float(model.step().mean()) for _ in range(6)]
    assert losses[-1] < losses[0]


def test_a_command_that_hangs_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table, "PATIENCE_S", 1)
    with pytest.raises(subprocess.TimeoutExpired):
        table.run_in_process([sys.executable, "-c", "import time; time.sleep(100)"], 0.0)


@pytest.mark.parametrize("printed", ["", "done", "[1]", '{"speed": 3}'])
def test_a_process_that_prints_no_figures_ends_its_own_line_only(printed: str) -> None:
    with pytest.raises(subprocess.SubprocessError, match="printed no figures, but "):
        table.run_in_process([sys.executable, "-c", f"print({printed!r})"], 0.0)
