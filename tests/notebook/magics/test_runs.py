"""`%runs` and `%compare`: recorded runs in a notebook."""

from __future__ import annotations

from pathlib import Path

import pytest
from IPython.core.error import UsageError

from tests.notebook.conftest import Notebook
from tests.notebook.magics.test_extension import completed
from workbench.errors import NotFound, Unavailable
from workbench.experiments import Comparison, runs

NET = """%%static_program net
x, y = static.data("x", [None, 3]), static.data("y", [None, 1])
loss = wb.mean(wb.square(static.nn.fc(x, 1) - y))
wb.optimizer.SGD(0.1).minimize(loss)
"""
DATA = "batches = [{'x': np.ones((4, 3), np.float32), 'y': np.ones((4, 1), np.float32)}]"


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("WORKBENCH_RUNS", str(tmp_path / "runs.sqlite"))
    return tmp_path / "runs.sqlite"


@pytest.fixture
def net(notebook: Notebook, file: Path) -> Notebook:
    """Two runs: `first` of one step and `second` of three."""
    notebook.run(NET)
    notebook.run(DATA)
    for name, steps in (("first", 1), ("second", 3)):
        options = f"steps={steps}, fetch=[loss], startup=net_startup, name={name!r}"
        notebook.run(f"{name} = wb.train(net, batches, {options})")
        notebook.run(f"{name}.wait(30)")
    return notebook


def test_runs_of_cells_are_listed(net: Notebook) -> None:
    listed = net.run("%runs")
    assert [run.name for run in listed] == ["second", "first"] and "second" in repr(listed)
    assert [run.name for run in net.run("%runs --sort steps")] == ["first", "second"]
    assert [run.name for run in net.run("%runs --sort steps --descending -n 1")] == ["second"]
    assert [run.name for run in net.run("%runs --name first")] == ["first"]
    runs()[2].tag("good")
    assert [run.name for run in net.run("%runs --tag good")] == ["second"]
    assert net.run("%runs -n 1 --columns name learning_rate").shown == ["name", "learning_rate"]
    assert isinstance(net.fail("%runs --sort stepz"), NotFound)
    assert isinstance(net.fail("%runs --columns naem"), NotFound)


def test_runs_are_compared_by_number_and_by_name(net: Notebook) -> None:
    for line in ("%compare 1 2", "%compare first second"):
        comparison = net.run(line)
        assert isinstance(comparison, Comparison) and [run.name for run in comparison.runs] == ["first", "second"]
        assert comparison.settings["steps"] == (1, 3)
    assert len(net.run("%compare 1 2 second 1").runs) == 4
    for line, text in (("%compare first batches", "of type list"), ("%compare 1 third", "no such name")):
        error = net.fail(line)
        assert isinstance(error, UsageError) and text in str(error)
    assert isinstance(net.fail("%compare 1 9"), NotFound)


def test_names_and_columns_are_completed(net: Notebook) -> None:
    assert completed(net, "%compare ") == ["1", "2", "first", "second"]
    assert completed(net, "%compare 1 se") == ["second"]
    assert completed(net, "%compare 1 2 f") == ["first"]
    assert completed(net, "%runs --so") == ["--sort"] and completed(net, "%runs --name f") == ["first"]
    assert "learning_rate" in completed(net, "%runs --sort le") and completed(net, "%runs --columns name learn")


def test_help_tells_the_arguments_and_the_call(net: Notebook) -> None:
    net.run("%runs?")
    assert "--sort COLUMN" in net.printed and "wb.runs()" in net.printed
    net.run("%compare?")
    assert "the number of a recorded run" in net.printed and "wb.compare(a, b, c)" in net.printed


def test_a_damaged_file_is_told_and_completion_keeps_quiet(net: Notebook, file: Path) -> None:
    file.write_bytes(b"no database" * 1000)
    assert "learning_rate" not in completed(net, "%runs --sort ") and isinstance(net.fail("%runs"), Unavailable)
