"""Small charts as SVG: what they show, and where."""

from __future__ import annotations

from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.experiments.pictures import SVG, drawings
from workbench.experiments.charts.line_chart import COLORS, ChartLine, color, dash, line_chart, round_numbers, thinned
from workbench.experiments.charts.pictures import as_image
from workbench.experiments.charts.ranges import typical_range

FALLING = 2.0 * np.exp(-np.arange(200) / 40) + 0.1


def chart(*values: np.ndarray) -> ElementTree.Element:
    lines = [ChartLine(f"run {k}", np.arange(1.0, len(v) + 1), v, k) for k, v in enumerate(values)]
    return ElementTree.fromstring(line_chart(lines, "loss"))


def lines(drawn: ElementTree.Element) -> list[ElementTree.Element]:
    return [path for path in drawn.iter("path") if path.get("class") == "line"]


def test_numbers_at_the_axes_are_where_the_values_are() -> None:
    drawn = chart(np.array([0.0, 10.0]))
    (line,) = lines(drawn)
    points = line.get("d", "").replace("h0", "").strip("M").split("L")
    (x0, y0), (x1, y1) = (tuple(map(float, point.split())) for point in points)
    texts = {t.text: (float(t.get("x", "")), float(t.get("y", ""))) for t in drawn.iter("text")}
    assert texts["0"][1] == pytest.approx(y0, abs=5) and texts["10"][1] == pytest.approx(y1, abs=5)
    assert texts["1"][0] == pytest.approx(x0, abs=1) and texts["step"][0] == pytest.approx(x1, abs=1)


def test_numbers_at_the_axes_are_told_apart() -> None:
    texts = [text.text or "" for text in chart(1.441 + np.array([0.0, 1e-5, 4e-5])).iter("text")]
    beside = [float(text) for text in texts if text.startswith("1.44")]
    assert np.diff(beside) == pytest.approx([2e-5, 2e-5], rel=1e-3)


def test_a_run_that_diverged_is_cut_off_and_marked() -> None:
    grown = FALLING * np.where(np.arange(200) > 100, 1e6, 1)
    drawn = chart(FALLING, grown)
    away = [path for path in drawn.iter("path") if path.get("class") == "away"]
    assert len(away) == 1 and away[0].get("fill") == COLORS[1]
    assert max(float(t.text or 0) for t in drawn.iter("text") if t.get("text-anchor") == "end" and t.text != "step") < 4
    assert not [path for path in chart(FALLING).iter("path") if path.get("class") == "away"]


def test_a_run_on_another_level_stays_beside_one_that_diverged() -> None:
    low, high = np.array([0.4, 0.2, 0.1]), np.array([1.642, 0.9, 0.655])
    far = np.array([2.3, 1e5, 1e20])
    for runs in ([low, far, high], [low, high, far, far]):
        limits = typical_range([[run] for run in runs])
        assert limits is not None and 1.642 <= limits.shown[1] < 30 < limits.whole[1]


def test_as_an_image_it_is_the_same_whatever_its_lines_are_called() -> None:
    lines = [ChartLine("bell \x07, half \udce9, <b>", np.arange(1.0, 201.0), FALLING)]
    inline = line_chart(lines, "loss of \x07")
    html = as_image(inline)
    (drawn,) = drawings(html)
    image = ElementTree.fromstring(html)
    assert (image.get("alt"), image.get("width")) == (r"loss of \x07", drawn.get("width"))
    assert r"bell \x07, half \udce9, <b>" in [title.text for title in drawn.iter(f"{SVG}title")]
    assert len(list(drawn.iter())) == inline.count("<") - inline.count("</") + 1  # a style
    assert as_image(line_chart([], "loss")) == ""


def test_without_a_number_there_is_no_chart() -> None:
    assert line_chart([], "loss") == "" and line_chart([ChartLine("a", np.ones(1), np.array([np.nan]))], "loss") == ""


def test_the_second_time_around_the_colours_come_with_other_dashes() -> None:
    assert len({(color(k), dash(k)) for k in range(32)}) == 32


@given(st.integers(0, 3000), st.integers(1, 200))
def test_thinning_keeps_the_last_step_and_the_mean(count: int, points: int) -> None:
    values = np.random.default_rng(count).normal(size=count)
    steps, means = thinned(np.arange(1.0, count + 1), values, points)
    assert len(steps) == len(means) == min(count, points)
    if count:
        assert steps[-1] == count and values.min() - 1e-9 <= means.min() and means.max() <= values.max() + 1e-9
    if count and count % points == 0:
        assert means.mean() == pytest.approx(values.mean(), abs=1e-9)


@given(st.floats(-1e9, 1e9), st.floats(1e-6, 1e9), st.integers(2, 8))
def test_round_numbers_lie_between_and_are_about_as_many_as_wanted(low: float, width: float, wanted: int) -> None:
    numbers = round_numbers(low, low + width, wanted)
    slack = width * 1e-6 + abs(low) * 1e-9
    assert all(low - slack <= n <= low + width + slack for n in numbers) and len(numbers) <= wanted + 1
