"""The table of runs as a widget: what it is given, and what is done with what is selected."""

from __future__ import annotations

import json
from html import unescape
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tests.notebook.conftest import Notebook
from workbench.errors import NotFound
from workbench.experiments import runs
from workbench.experiments.records.runs_file import RunProgress, RunsFile
from workbench.experiments.tables.run_table import Runs
from workbench.notebook.dashboard.page.displayed import show_in, show_no_more
from workbench.notebook.runs.table import RunTable


@pytest.fixture
def recorded(tmp_path: Path) -> Runs:
    """Four runs, two of a sweep; one has a name with markup and a loss that is not a number."""
    file = RunsFile(tmp_path / "runs.sqlite")
    for k, name in enumerate(("a", "b", "c", "<img src=x>")):
        settings = {"learning_rate": 10.0**-k, "notebook": "n.ipynb", "host": "h"}
        settings |= {"sweep": "abc"} if k < 2 else {}
        losses = [1.0, float("nan") if k == 3 else 0.5**k]
        file.add(file.begin(name, 9, settings), RunProgress("done", 2, 1.0), [("loss", 0, losses)])
    return runs(file.path)


def given(table: RunTable) -> tuple[list[str], list[list[list[Any]]], list[int]]:
    """Heads, rows and the hidden columns, as the page gets them."""
    options = table._table._dt_args
    heads = [part.partition("</th>")[0] for part in options["table_html"].split("<th>")[1:]]
    hidden = next(one["targets"] for one in options["columnDefs"] if one.get("visible") is False)
    return heads, json.loads(options["data_json"]), hidden


def test_all_columns_are_there_and_few_are_shown(recorded: Runs) -> None:
    heads, rows, hidden = given(RunTable(recorded))
    shown = [head for k, head in enumerate(heads) if k not in hidden]
    assert shown == ["run", "name", "state", "begun", "steps", "loss", "learning_rate"]
    assert {"host", "seconds", "steps/s", "notes"} <= set(heads) and len(rows) == 4
    at = heads.index("name")
    assert rows[0][at] == ["&lt;img src=x&gt;"] * 3  # the page inserts it as HTML
    at = heads.index("loss")
    assert rows[0][at] == ["nan", "___NaN___", "nan"] and rows[1][at] == ["0.25", 0.25, "0.25"]  # shown, sorted by
    at = heads.index("state")
    assert [row[at][:2] for row in rows[:2]] == [["done, NaN from step 2", "done"], ["done", "done"]]


def test_what_is_selected_is_compared_and_known_to_python(recorded: Runs) -> None:
    table = RunTable(recorded)
    assert list(recorded.selected) == [] and "click rows" in table._below.value
    table._table.selected_rows = [3, 1]  # as the page sorts them
    assert [run.name for run in recorded.selected] == ["c", "a"]
    assert table._below.value.count('class="line"') == 2 and "run 3" in table._below.value
    linear = table._below.value
    table._log.value = True
    assert table._below.value != linear


def test_runs_are_chosen_by_number_too(recorded: Runs) -> None:
    table = RunTable(recorded)
    table._numbers.value = "1, 3 and 77"
    assert [run.number for run in recorded.selected] == [3, 1] and table._numbers.value == "3 1"
    assert table._below.value.count('class="line"') == 2
    table._table.selected_rows = [3]
    assert table._numbers.value == "1"
    table._numbers.value = ""
    assert list(recorded.selected) == [] and "click rows" in table._below.value


def test_what_is_no_number_of_a_run_is_told(recorded: Runs) -> None:
    table = RunTable(recorded)
    table._numbers.value = "999 <b>"
    assert list(recorded.selected) == [] and "'999', '<b>'" in unescape(table._unknown.value)
    assert "<b>" not in table._unknown.value
    table._numbers.value = "1, 77"
    assert table._numbers.value == "1" and unescape(table._unknown.value).endswith("table: '77'</small>")
    table._table.selected_rows = [0]
    assert table._unknown.value == ""


def test_names_that_are_cut_differ_and_have_the_whole_as_title(tmp_path: Path) -> None:
    file = RunsFile(tmp_path / "runs.sqlite")
    whole = [f"sweep: learning_rate={rate}, batch_size={size}" for rate in (0.1, 0.01) for size in (32, 128)]
    for name in whole:
        file.add(file.begin(name, 1, {"seed": 1}), RunProgress("done", 1, 1.0))
    heads, rows, _ = given(RunTable(runs(file.path)))
    for (shown, *rest), name in zip((row[heads.index("name")] for row in reversed(rows)), whole, strict=True):
        assert shown.startswith(f'<span title="{name}">') and rest == [name, name]  # sorted and searched as a whole
    assert len({row[heads.index("name")][0].split(">")[1] for row in rows}) == 4


def test_what_is_drawn_over_which_settings_can_be_chosen(tmp_path: Path) -> None:
    file = RunsFile(tmp_path / "runs.sqlite")
    for k in range(3):
        run = file.begin("a", 1, {f"setting_{n}": k for n in range(4)})
        file.add(run, RunProgress("done", 1, 1.0), [("loss", 0, [float(k)])])
    table = RunTable(runs(file.path).show(over=["setting_2", "setting_3"]).sort("number"))
    assert "loss by setting_2, setting_3" in table._plot.value
    table._over.value = ["setting_1"]
    assert 'aria-label="loss by setting_1"' in table._plot.value
    with pytest.raises(NotFound, match="setting_2"):
        runs(file.path).show(over=["setting_22"])


def test_rows_are_grouped_and_what_is_selected_stays(recorded: Runs) -> None:
    table = RunTable(recorded)
    assert table._group.options == ("nothing", "sweep", "name")
    table._table.selected_rows = [0, 2]
    table._group.value = "sweep"
    options, heads = table._table._dt_args, given(table)[0]
    at = heads.index("sweep")
    assert options["rowGroup"]["dataSrc"] == f"{at}.1" and options["orderFixed"] == {"pre": [[at, "asc"]]}
    assert [run.name for run in recorded.selected] == ["<img src=x>", "b"] and table._table in table.widget.children
    table._table.selected_rows = [3]
    assert table._below.value.count('class="line"') == 1
    table._group.value = "nothing"
    assert "rowGroup" not in table._table._dt_args


def test_values_are_plotted_over_all_settings_or_one(recorded: Runs) -> None:
    table = RunTable(recorded.filter(lambda run: not np.isnan(run.last["loss"])))
    assert table._plot.value.count("<circle") == 3  # one setting differs
    table._value.value = None
    assert table._plot.value == ""


def test_a_page_without_widgets_has_the_table_as_html_and_text(notebook: Notebook, recorded: Runs) -> None:
    notebook.shell.user_ns["found"] = recorded
    notebook.shell.kernel = SimpleNamespace()  # type: ignore[attr-defined]
    try:
        show_in(notebook.shell)
        notebook.run("found")
        widget, still = notebook.shown
        assert "application/vnd.jupyter.widget-view+json" in widget and "text/html" not in widget
        assert repr(recorded) in still["text/plain"] and "&lt;img src=x&gt;" in still["text/html"]
        notebook.run("found[:0]")
        assert notebook.shown == []  # an empty table is a value like others
    finally:
        show_no_more(notebook.shell)
        del notebook.shell.kernel


def test_what_stands_beside_a_table_is_hidden_by_the_table(recorded: Runs) -> None:
    table = RunTable(recorded)
    assert any(table._still.hidden in child.value for child in table.widget.children if hasattr(child, "value"))
