"""What came of runs with which settings, drawn."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest

from workbench.experiments import runs
from workbench.experiments.charts.overlay import overlay_html
from workbench.experiments.charts.parallel_chart import BOTTOM, HEIGHT, LEFT, MOST, RIGHT, TOP, WIDTH, parallel_chart
from workbench.experiments.records.runs_file import RunProgress, RunsFile
from workbench.experiments.tables.run_table import Runs

RATES = (0.001, 0.01, 0.1)


@pytest.fixture
def recorded(tmp_path: Path) -> Runs:
    """Three rates with two optimizers; the loss is lower with a higher rate; one came to nothing."""
    file = RunsFile(tmp_path / "runs.sqlite")
    for name in ("SGD", "<Adam>"):
        for rate in RATES:
            number = file.begin(f"{name} {rate}", 1, {"learning_rate": rate, "optimizer": name, "seed": 1})
            loss = float("nan") if (name, rate) == ("<Adam>", 0.1) else 1.0 - rate
            file.add(number, RunProgress("done", 2, 1.0), [("loss", 0, [2.0, loss])])
    return runs(file.path)


def heights(element: ElementTree.Element) -> list[float]:
    return [float(point.split(",")[1]) for point in str(element.get("points")).split()]


def test_a_line_per_run_goes_through_its_settings_to_its_value(recorded: Runs) -> None:
    drawn = ElementTree.fromstring(parallel_chart(recorded, "loss"))
    lines = {str(line.findtext("title")): line for line in drawn.iter("polyline")}
    assert len(lines) == 5  # a run without a value has no line
    rate, optimizer, loss = (heights(next(v for k, v in lines.items() if " SGD 0.01:" in k))[k] for k in range(3))
    low, high = HEIGHT - BOTTOM, TOP
    assert rate == pytest.approx((low + high) / 2, abs=0.1)  # decades: half way between 0.001 and 0.1
    assert optimizer in (low, high) and high < loss < (low + high) / 2
    assert {"SGD", "<Adam>", "0.001", "0.1", "loss"} <= {text.text for text in drawn.iter("text")}


def test_one_setting_is_drawn_against_the_value(recorded: Runs) -> None:
    drawn = ElementTree.fromstring(parallel_chart(recorded.filter(optimizer="SGD"), "loss"))
    dots = sorted((float(dot.get("cx", "")), float(dot.get("cy", ""))) for dot in drawn.iter("circle"))
    assert len(dots) == 3 and [y for _, y in dots] == sorted(y for _, y in dots)
    assert dots[1][0] == pytest.approx((dots[0][0] + dots[2][0]) / 2, abs=0.2)


def test_without_settings_or_values_there_is_nothing_to_draw(recorded: Runs) -> None:
    assert parallel_chart(recorded, "accuracy") == "" and parallel_chart(recorded[:1], "loss") == ""


def test_any_number_of_runs_lie_on_top_of_each_other(recorded: Runs) -> None:
    for log in (False, True):
        page = ElementTree.fromstring(overlay_html(list(recorded), log))
        assert len([path for path in page.iter("path") if path.get("class") == "line"]) == 6
        rows = {row[0].text: [cell.text for cell in row[1:]] for row in page.iter("tr")}
        assert rows["learning_rate"] == ["0.1", "0.01", "0.001"] * 2 and "seed" not in rows
        assert rows["optimizer"] == ["<Adam>"] * 3 + ["SGD"] * 3


def test_many_settings_leave_room_for_their_names(tmp_path: Path) -> None:
    file = RunsFile(tmp_path / "runs.sqlite")
    names = [f"a_setting_of_which_the_name_is_long_{n:02}" for n in range(15)]
    for k in range(4):
        settings = dict.fromkeys(names, "a long word that stands beside an axis" * k) | {"same": 1}
        file.add(file.begin("r", 1, settings), RunProgress("done", 1, 1.0), [("loss", 0, [float(k)])])
    page = ElementTree.fromstring(parallel_chart(runs(file.path), "loss"))
    written: dict[float, list[tuple[float, str]]] = {}
    for text in page.iter("text"):
        if text.get("font-weight"):
            written.setdefault(float(text.get("x", "")), []).append((float(text.get("y", "")), str(text.text)))
    whole = ["".join(part for _, part in sorted(parts)) for _, parts in sorted(written.items())]
    assert whole == [*names[:MOST], "loss"]
    apart = (WIDTH - LEFT - RIGHT) / MOST
    assert all(len(part) * 6.6 < apart for parts in written.values() for _, part in parts)
    top = float(next(page.iter("svg")).get("viewBox", "").split()[1])
    assert all(top + 8 < y for parts in written.values() for y, _ in parts)  # inside the picture
    marks = [text for text in page.iter("text") if not text.get("font-weight")]
    assert all(len(str(text.text)) * 6.6 < apart for text in marks)
    below = str(page.findtext("p/small"))
    assert all((name in below) == (name not in names[:MOST]) for name in names) and "same" not in below


def test_the_name_of_one_setting_is_whole_and_inside(tmp_path: Path) -> None:
    file = RunsFile(tmp_path / "runs.sqlite")
    for k in range(2):
        file.add(file.begin("r", 1, {"learning_rate": 0.1 + k}), RunProgress("done", 1, 1.0), [("loss", 0, [float(k)])])
    page = ElementTree.fromstring(parallel_chart(runs(file.path), "loss"))
    (name,) = (text for text in page.iter("text") if text.text == "learning_rate")
    half = len("learning_rate") * 6.6 / 2
    _, top, width, height = map(float, page.get("viewBox", "").split())
    assert half < float(name.get("x", "")) < width - half and float(name.get("y", "")) < top + height
