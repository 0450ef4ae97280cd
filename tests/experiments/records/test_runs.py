"""The table of runs, comparisons and exports."""

from __future__ import annotations

import csv
import importlib.util
import json
import sqlite3
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.experiments.pictures import SVG, drawings
from tests.experiments.recorded import run_of
from workbench.experiments import compare, runs
from workbench.experiments.charts.compare_runs import Comparison
from workbench.experiments.records.runs_file import Entry, Happening, RunProgress, RunsFile
from workbench.experiments.tables.run_columns import head
from workbench.experiments.tables.run_table import Runs


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Three runs: what they were made with, and the losses of their steps."""
    runs_file = RunsFile(tmp_path / "runs.sqlite")
    for name, rate, losses in (("a", 0.1, [3.0, 2.0, 1.0]), ("b", 0.2, [3.0, 1.5]), ("c", None, [])):
        settings = {"seed": 7, "places": "=cmd()"} if rate is None else {"seed": 7, "learning_rate": rate}
        number = runs_file.begin(name, 3, settings)
        runs_file.add(number, RunProgress("done", len(losses), 0.5, ended=1e9), [("loss", 0, losses)] if losses else [])
    return runs_file.path


def names(table: Runs) -> str:
    return "".join(run.name for run in table)


def test_newest_first_and_by_number(file: Path) -> None:
    table = runs(file)
    assert names(table) == "cba" and table[2].name == "b" and names(table[:2]) == "cb"
    with pytest.raises(wb.errors.NotFound, match="no run 9 in this table of 3"):
        table[9]
    assert len(runs(file.parent / "none.sqlite")) == 0 and repr(runs(file.parent / "none.sqlite")) == "no runs"


def test_sort(file: Path) -> None:
    table = runs(file)
    assert names(table.sort("loss")) == "abc" and names(table.sort("loss", descending=True)) == "bac"
    assert names(table.sort("learning_rate")) == "abc" and names(table.sort("name", descending=True)) == "cba"
    with pytest.raises(wb.errors.NotFound, match="Did you mean 'loss'"):
        table.sort("los")


def test_what_has_no_place_in_an_order_comes_last(file: Path) -> None:
    runs_file = RunsFile(file)
    for name, losses in (("n", [1.0, np.nan]), ("m", [np.nan]), ("d", [5.0, -2.0]), ("i", [np.inf])):
        runs_file.add(runs_file.begin(name, 2, {}), RunProgress("done", len(losses), 0.5), [("loss", 0, losses)])
    table = runs(file)
    assert names(table.sort("loss")) == "dabi" + "mnc" and names(table.sort("loss", descending=True)) == "ibad" + "mnc"


def test_a_run_that_ended_in_nan_says_from_where(file: Path) -> None:
    runs_file = RunsFile(file)
    for losses in ([np.nan, 1.0, np.nan, np.nan], [np.nan, np.nan], [np.nan, 1.0]):
        runs_file.add(runs_file.begin("n", 4, {}), RunProgress("done", len(losses), 0.5), [("loss", 0, losses)])
    table = runs(file)
    assert [table[k].first_nan for k in (1, 3, 4, 5, 6)] == [None, None, 3, 1, None]
    assert "done, NaN from step 3" in repr(table) and table[4].state == "done"
    html = compare(1, 4, 5, file=file)._repr_html_()
    assert "run 5: NaN from step 1; loss is NaN in every step, nothing to draw" in html
    assert "run 4: NaN from step 3; loss is NaN at step 1, the first of 3" in html
    assert "<small>run 1:" not in html


def test_steps_stand_once(file: Path) -> None:
    runs_file = RunsFile(file)
    for steps in (3, 4):
        entry = runs_file.begin("s", steps, {"steps": steps})
        runs_file.add(entry, RunProgress("done", steps, 0.5), [("loss", 0, [1.0] * steps)])
    table = runs(file)
    assert table.columns.count("steps") == 1 and "steps" not in table.shown and "step" in table.shown
    assert len({head(name) for name in table.columns}) == len(table.columns)  # in the menu, too
    assert compare(4, 5, file=file)._repr_html_().count('<th scope="row">steps</th>') == 1


def test_what_tells_most_is_shown_first(file: Path) -> None:
    runs_file = RunsFile(file)
    for k in range(8):
        settings = {"a": k % 2, "b": k % 2, "c": k % 3, "d": k % 2, "host": str(k), "learning_rate": k % 2}
        settings |= {"sweep": "abc", "trial": k, "c": 0, "a": 1, "b": 0, "d": 0, "host": "h"} if k > 5 else {}
        runs_file.begin("x", 1, settings)
    told = [name for name in runs(file)[:8].shown if name not in ("number", "name", "state", "begun", "step")]
    assert told[:2] == ["learning_rate", "c"] and "host" not in told


def test_a_name_that_is_fetched_is_a_column_before_it_has_a_value(tmp_path: Path) -> None:
    runs_file = RunsFile(tmp_path / "runs.sqlite")
    runs_file.begin("f", 1, {"fetch": ["loss"]})
    with pytest.raises(wb.errors.NotFound, match="Did you mean 'loss'"):
        runs(runs_file.path).sort("los")
    assert names(runs(runs_file.path).sort("loss")) == "f"
    with pytest.raises(wb.errors.NotFound, match=r"These have .*'loss'"):
        runs(runs_file.path).sort("zzzz")


def test_a_folder_in_place_of_the_file_is_told(tmp_path: Path) -> None:
    with pytest.raises(wb.errors.Unavailable, match="it is a folder"):
        runs(tmp_path)


def test_filter(file: Path) -> None:
    table = runs(file)
    assert names(table.filter(lambda run: run.step >= 2)) == "ba"
    assert names(table.filter(learning_rate=0.1, seed=7)) == "a" and names(table.filter(seed=8)) == ""
    table[1].tag("good", "first")
    assert names(runs(file).filter(tag="good")) == "a"
    with pytest.raises(wb.errors.NotFound, match="no run has a column 'rate'"):
        table.filter(rate=1)


def test_notes_tags_and_deletion_are_kept(file: Path) -> None:
    run = runs(file)[2]
    run.note("with a <b>bold</b> note")
    run.tag("x", "y")
    run.untag("x", "never there")
    again = runs(file)[2]
    assert (again.notes, again.tags) == ("with a <b>bold</b> note", ["y"])
    again.delete()
    assert names(runs(file)) == "ca"
    with pytest.raises(wb.errors.NotFound, match="no run 2"):
        run.note("too late")
    runs(file).filter(name="a").delete()
    assert names(runs(file)) == "c"
    with pytest.raises(wb.errors.NotFound):
        RunsFile(file).scalars(1)


def test_the_table_shows_what_tells_runs_apart_and_escapes_it(file: Path) -> None:
    runs(file)[1].tag("<script>")
    text, html = repr(runs(file)), runs(file)._repr_html_()
    assert "learning_rate" in text and "seed" not in text and "0.2" in text and "1.5" in text
    assert "<script>" not in html and "&lt;script&gt;" in html


def test_few_columns_are_shown_and_others_by_choice(file: Path) -> None:
    runs_file = RunsFile(file)
    for k in range(3):
        settings = {f"setting_{n}": k * n for n in range(1, 9)} | {"program_hash": str(k)}
        values = [(f"v{n}", 0, [float(n)]) for n in range(5)]
        runs_file.add(runs_file.begin("many", 1, settings), RunProgress("done", 1, 0.5), values)
    table = runs(file)
    assert len(table.shown) <= 12 and "program_hash" not in table.shown and "more columns" in repr(table)
    chosen = table.show("name", "setting_8").sort("number")[-2:]
    assert repr(chosen).split()[:6] == ["name", "setting_8", "many", "8", "many", "16"]
    assert chosen.show().shown[:2] == ["number", "name"]
    with pytest.raises(wb.errors.NotFound, match="Did you mean 'setting_8'"):
        table.show("setting_88")


def test_the_newest_value_is_read_without_the_others(file: Path) -> None:
    runs_file = RunsFile(file)
    entry = Entry(1, runs(file)[1].begun)
    runs_file.add(entry, RunProgress("done", 5, 0.5), [("loss", 3, [7.0, 8.0]), ("other", 0, [1.0])])
    assert runs_file.last(1) == {"loss": 8.0, "other": 1.0} == runs(file)[1].last and runs_file.last(3) == {}
    with pytest.raises(wb.errors.NotFound):
        runs_file.last(9)


def test_csv(file: Path, tmp_path: Path) -> None:
    target = tmp_path / "runs.csv"
    runs(file).to_csv(target)
    with target.open() as lines:
        rows = list(csv.DictReader(lines))
    assert [row["name"] for row in rows] == ["c", "b", "a"] and [row["loss"] for row in rows] == ["", "1.5", "1.0"]
    assert rows[0]["places"] == "'=cmd()"  # no spreadsheet runs it


def test_json(file: Path, tmp_path: Path) -> None:
    RunsFile(file).add(Entry(1, runs(file)[1].begun), RunProgress("done", 4, 0.5), [("loss", 3, [float("nan")])])
    target = tmp_path / "runs.json"
    runs(file).to_json(target)
    exported = json.loads(target.read_text())
    assert exported[2]["scalars"] == {"loss": [3.0, 2.0, 1.0, None]} and exported[2]["settings"]["seed"] == 7


@pytest.mark.skipif(importlib.util.find_spec("pandas") is None, reason="pandas is not installed")
def test_pandas(file: Path) -> None:
    table = runs(file).to_pandas()
    assert list(table.index) == [3, 2, 1] and table.loc[2, "loss"] == 1.5


@pytest.mark.skipif(importlib.util.find_spec("pandas") is not None, reason="pandas is installed")
def test_pandas_is_asked_for(file: Path) -> None:
    with pytest.raises(wb.errors.InvalidArgument, match="pip install pandas"):
        runs(file).to_pandas()


def test_comparison(file: Path) -> None:
    comparison = compare(1, 2, file=file)
    assert comparison.settings == {"learning_rate": (0.1, 0.2)} and comparison.differences == {"loss": 0.5}
    assert compare(runs(file)[1], 1, file=file).differences == {"loss": 0.0} and compare(1, 3, file=file).curves == {}
    text, html = repr(comparison), comparison._repr_html_()
    assert "learning_rate" in text and "seed" not in text
    (chart,) = drawings(html)
    assert len([path for path in chart.iter(f"{SVG}path") if path.get("class") == "line"]) == 2
    assert 'alt="loss of run 1, run 2"' in html
    with pytest.raises(wb.errors.InvalidType, match="compare takes"):
        compare(1.5, 2, file=file)  # type: ignore[arg-type]


def test_a_run_goes_by_its_name_the_newest_of_several(file: Path) -> None:
    again = RunsFile(file).begin("a", 3, {"seed": 8}).number
    assert runs(file)["a"].number == again and runs(file)["b"].number == 2
    assert [run.number for run in compare("b", "a", 1, file=file).runs] == [2, again, 1]
    with pytest.raises(wb.errors.NotFound, match=r"there is no run 'bb' in this table of 4 .* Did you mean 'b'"):
        compare("bb", file=file)


def test_a_run_of_devices_that_did_not_choose_a_strategy_has_the_default(file: Path) -> None:
    runs_file = RunsFile(file)
    for strategy in ({}, {"reduce_strategy": "Reduce"}):
        runs_file.begin("devices", 3, {"devices": 2, **strategy})
    assert compare(4, 5, file=file).settings == {"reduce_strategy": ("AllReduce", "Reduce")}
    assert "AllReduce" in repr(runs(file).filter(name="devices")) and "reduce_strategy" not in runs(file)[1].settings


def test_the_best_run_has_the_lowest_or_the_highest_newest_value(file: Path) -> None:
    runs_file = RunsFile(file)
    number = runs_file.begin("nan", 2, {})
    runs_file.add(number, RunProgress("done", 2, 0.5), [("loss", 0, [0.1, float("nan")])])
    lasts = {run.name: float(run.scalars["loss"][-1]) for run in runs(file) if "loss" in run.scalars}
    assert lasts["a"] == 1.0 and lasts["b"] == 1.5
    assert runs(file).best().name == "a" and runs(file).best("loss", mode="max").name == "b"
    number = runs_file.begin("valid", 2, {})
    runs_file.add(number, RunProgress("done", 2, 0.5), [("loss", 0, [9.0]), ("val_loss", 0, [0.4])])
    assert runs(file).best().name == "valid" and runs(file).best("loss").name == "a"
    for call, error in ((lambda: runs(file).best("los"), wb.errors.NotFound),
                        (lambda: runs(file).filter(name="nan").best(), wb.errors.NotFound),
                        (lambda: runs(file)[:0].best(), wb.errors.NotFound),
                        (lambda: runs(file).best(mode="least"), wb.errors.InvalidArgument)):  # fmt: skip
        with pytest.raises(error, match=r"none of these|'min' or 'max'"):
            call()


def test_any_number_of_runs_side_by_side(file: Path) -> None:
    runs_file = RunsFile(file)
    for number in range(4, 12):
        entry = runs_file.begin(f"n{number}", 5, {"seed": number, "learning_rate": 0.1})
        curves = [("loss", 0, [float(number), 1.0]), ("val_loss", 1, [number / 10])]
        runs_file.add(entry, RunProgress("done", 2, 0.5), curves)
    comparison = compare(*range(1, 12), file=file)
    assert [run.number for run in comparison.runs] == list(range(1, 12))
    assert comparison.settings["seed"] == (7, 7, 7, *range(4, 12))
    assert comparison.settings["learning_rate"][1:4] == (0.2, None, 0.1)
    assert comparison.differences == {"loss": 11.0 - 3.0, "val_loss": pytest.approx(0.7)}
    assert [curve is None for curve in comparison.curves["loss"]] == [False, False, True] + [False] * 8
    html = comparison._repr_html_()
    lines = [path for chart in drawings(html) for path in chart.iter(f"{SVG}path") if path.get("class") == "line"]
    assert len(lines) == 10 + 8 and "run 10, run 11" in html
    assert len({(line.get("stroke"), line.get("stroke-dasharray")) for line in lines}) == 10
    rows = repr(comparison).splitlines()
    assert len(rows[0].split("  ")) >= 11 and any(row.startswith("last val_loss") for row in rows)
    assert compare(runs(file)[:3], file=file).runs[0].number == 11 and compare(2, file=file).settings == {}
    with pytest.raises(wb.errors.InvalidArgument, match="got none"):
        compare()


def test_a_curve_of_few_values_stands_where_its_steps_are(file: Path) -> None:
    runs_file = RunsFile(file)
    entry = runs_file.begin("sparse", 9, {})
    runs_file.add(entry, RunProgress("done", 9, 0.5), [("val", 2, [1.0]), ("val", 8, [float("nan")])])
    steps, values = runs(file)[4].curve("val")
    np.testing.assert_array_equal(steps, [3, 9])
    np.testing.assert_array_equal(values, [1.0, np.nan])
    assert len(runs(file)[4].scalars["val"]) == 9 and np.isnan(runs(file)[4].last["val"])
    with pytest.raises(wb.errors.NotFound, match="Did you mean 'val'"):
        runs(file)[4].curve("vall")


def test_differences_see_nan(file: Path) -> None:
    for number, start, values in ((1, 3, [float("nan"), 1.0]), (2, 2, [1.0, 4.0, 1.0])):
        entry = Entry(number, runs(file)[number].begun)
        RunsFile(file).add(entry, RunProgress("done", 5, 0.5), [("loss", start, values)])
    assert compare(1, 2, file=file).differences == {"loss": np.inf}
    (chart,) = drawings(compare(1, 2, file=file)._repr_html_())
    assert [path for path in chart.iter(f"{SVG}path") if path.get("class") == "line"]


def test_runs_of_this_process_can_be_compared_while_they_go_on(tmp_path: Path) -> None:
    file = tmp_path / "live.sqlite"
    done = run_of(file, 5).wait(30)
    running = run_of(file, 10**9, on_step=lambda run: None)
    try:
        comparison: Comparison = compare(done, running)
        assert [run.state for run in comparison.runs] == ["done", "running"]
    finally:
        running.stop()
        running.wait(30)


def test_whatever_is_damaged_in_a_file_it_is_read_or_named(file: Path) -> None:
    runs_file = RunsFile(file)
    entry = runs_file.begin("d", 3, {"seed": 7})
    happening = Happening(1.0, 2, "error", {"text": "no", "op": "mul", "site": None})
    runs_file.add(
        entry, RunProgress("failed", 2, 0.5, "no"), [("loss", 0, [1.0, 2.0])], [happening], [(2, "a.checkpoint")]
    )
    with sqlite3.connect(file) as db:
        db.execute("PRAGMA journal_mode=DELETE")
    whole, told = file.read_bytes(), set()
    for seed in range(120):
        rng = np.random.default_rng(seed)
        damaged = bytearray(whole)
        for at in rng.integers(100, len(whole), rng.integers(1, 40)):
            damaged[at] = rng.integers(256)
        file.write_bytes(damaged if seed % 3 else damaged[: rng.integers(1, len(whole))])
        try:
            for run in runs(file):
                assert repr(run) and run.events is not None and run.checkpoints is not None and run.curves is not None
            assert repr(runs(file)) and runs(file).columns
        except wb.errors.EnforceNotMet as error:
            told.add((type(error).__name__, str(file) in str(error)))
    assert ("Unavailable", True) in told and all(names_it for _, names_it in told)


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("settings", "{"),
        ("settings", "[]"),
        ("tags", "3"),
        ("alive", "soon"),
        ("name", None),
        ("step", "x"),
        ("error", b"x"),
    ],
)
def test_a_damaged_row_is_told_with_the_file(file: Path, column: str, value: Any) -> None:
    with sqlite3.connect(file) as db:
        db.execute("PRAGMA writable_schema=ON")
        db.execute("UPDATE sqlite_master SET sql=replace(sql, 'NOT NULL', '') WHERE name='runs'")
    with sqlite3.connect(file) as db:
        db.execute(f"UPDATE runs SET {column}=? WHERE id=2", (value,))
    with pytest.raises(wb.errors.Unavailable, match="it is damaged") as caught:
        runs(file)
    assert str(file) in str(caught.value)


@pytest.mark.parametrize(("table", "column"), [("scalars", "numbers"), ("events", "data")])
def test_a_damaged_piece_is_told_with_the_file(file: Path, table: str, column: str) -> None:
    runs_file = RunsFile(file)
    entry = Entry(1, runs(file)[1].begun)
    runs_file.add(entry, RunProgress("done", 3, 0.5), happenings=[Happening(1.0, 2, "error", {"text": "no"})])
    with sqlite3.connect(file) as db:
        db.execute(f"UPDATE {table} SET {column}=?", (b"{ab",))
    with pytest.raises(wb.errors.Unavailable, match="it is damaged") as caught:
        repr(runs(file)[1].events if table == "events" else runs(file)[1].last)
    assert str(file) in str(caught.value)
