"""Feeds, scopes, timelines and curves drawn without a browser: what is in them, and where."""

import io
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from PIL import Image

from tests.notebook.figure_messages import (
    curves_message,
    i32,
    preview,
    scopes_message,
)
from tests.notebook.figures.real import Real, fed, spans, texts
from workbench.experiments.bench.workloads import WORKLOADS, training
from workbench.notebook.figures.numbers import number_text
from workbench.notebook.figures.palette import ROLES
from workbench.notebook.figures.panels.curves import curves
from workbench.notebook.figures.panels.feeds import feeds
from workbench.notebook.figures.panels.scopes import scopes
from workbench.notebook.figures.panels.timeline import rows_of, timeline
from workbench.notebook.figures.write import small_png, svg


def widths(figure: Figure, name: str) -> list[tuple[float, float]]:
    """Where the parts of an input begin, and how wide they are, as shares of the bar."""
    (axes,) = (a for a in figure.axes if any(str(p.get_gid()).startswith(f"{name}-") for p in a.patches))
    total = axes.get_xlim()[1]
    return [(p.get_x() / total, p.get_width() / total) for p in axes.patches if str(p.get_gid()).startswith(name)]


@given(st.lists(st.integers(0, 50), min_size=1, max_size=6).filter(sum))
@settings(max_examples=10, deadline=None)
def test_parts_are_as_wide_as_they_have_rows(rows: list[int]) -> None:
    drawn = widths(feeds(fed(rows)), "x")
    assert [wide for _, wide in drawn] == pytest.approx([n / sum(rows) for n in rows])
    assert [left for left, _ in drawn] == pytest.approx([sum(rows[:k]) / sum(rows) for k in range(len(rows))])


def test_rows_shapes_and_devices_are_written() -> None:
    written = texts(feeds(fed([6, 5, 0])))
    assert {"cpu:0: rows 0–5", "cpu:1: rows 6–10", "cpu:2: no rows", "[6, 4]", "[5, 4]"} <= set(written)
    assert "float32, 11 rows in all" in written and "Fed in step 7" in written


def test_parts_may_overlap_where_each_device_got_all() -> None:
    assert widths(feeds(fed([4, 4], first=[0, 0])), "x") == [(0.0, 1.0), (0.0, 1.0)]


@pytest.mark.parametrize(
    "data",
    [
        np.random.default_rng(0).random((9, 1, 8, 6), np.float32),
        np.random.default_rng(0).random((9, 20), np.float32),
        np.full((3, 5), np.nan, np.float32),
        np.arange(12).reshape(-1, 1) % 5,
        np.arange(9.0).reshape(-1, 1),
    ],
    ids=["images", "vectors", "not a number", "labels", "numbers"],
)
def test_every_preview_is_drawn(data: np.ndarray) -> None:
    shown = fed([len(data)], previews={"x": [preview(data)]})
    plain, full = feeds(fed([len(data)])), feeds(shown)
    assert drawn_in(full) > drawn_in(plain)
    assert svg(full) != svg(plain)


def drawn_in(figure: Figure) -> int:
    return sum(len(a.lines) + len(a.images) + len(a.patches) + len(a.texts) for a in figure.axes)


def test_labels_show_how_often(tiny: Real) -> None:
    labels = {"kind": "labels", "values": [0, 1, 7], "counts": [5, 2, 11]}
    axes = feeds(fed([18], previews={"x": [labels]})).axes[1]
    heights = [p.get_height() for p in axes.patches[-3:]]
    assert heights == [5, 2, 11]
    assert [t.get_text() for t in axes.get_xticklabels()] == ["0", "1", "7"]


# Scopes


def test_drops_are_where_they_happened() -> None:
    model = training(WORKLOADS["tiny"], 2)
    message = scopes_message(model, 205)
    steps = message["drops"]["step"]
    assert len(steps) == 2
    figure = scopes(message)
    for device in range(2):
        axes = figure.axes[device]
        (marks,) = (line for line in axes.lines if line.get_gid() == f"drops-{device}")
        assert marks.get_xdata().tolist() == steps.tolist()
        (held,) = (line for line in axes.lines if line.get_label() == "held")
        assert held.get_xdata().tolist() == message["memory"]["step"].tolist()
        low, high = axes.get_ylim()
        assert low <= min(held.get_ydata()) and max(held.get_ydata()) < high
    written = texts(figure)
    assert "AllReduce, scopes dropped 2 times (interval)" in written
    assert {"AllReduce (this one)", "Reduce", "parameters", "state", "gradients"} <= set(written)


def test_totals_are_stacked() -> None:
    one = {"parameters": 1024.0, "state": 2048.0, "gradients": 512.0}
    message = {"type": "scopes", "devices": ["cpu:0"], "totals": [{"strategy": "Reduce", "devices": [one]}]}
    bars = scopes(message).axes[-1].patches
    assert [(p.get_x(), p.get_width()) for p in bars[:3]] == [(0.0, 1.0), (1.0, 2.0), (3.0, 0.5)]
    assert len({p.get_hatch() for p in bars[:3]}) == 3


def test_devices_and_threads_have_rows_and_what_overlaps_is_apart() -> None:
    sample = spans(
        (0, 0, 0, 5, 0), (0, 1, 1, 3, 0), (1, 1, 0, 2, 0), (-1, 0, 5, 9, 1), (-1, 0, 6, 8, 1), (-1, 1, 9, 10, 1)
    )
    assert rows_of(sample["spans"]) == [(0, 0, 0), (0, 1, 0), (1, 1, 0), (-1, -1, 0), (-1, -1, 1), (-1, -1, 0)]


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 1), st.integers(0, 30), st.integers(1, 9)), min_size=1))
@settings(max_examples=50, deadline=None)
def test_no_two_spans_of_a_row_overlap(intervals: list[tuple[int, int, int, int]]) -> None:
    sample = spans(*[(d, t, a, a + n, 0) for d, t, a, n in intervals])
    rows: dict[Any, list[tuple[int, int]]] = {}
    for row, (_, _, a, n) in zip(rows_of(sample["spans"]), intervals):
        rows.setdefault(row, []).append((a, a + n))
    for inside in rows.values():
        assert all(a[1] <= b[0] for a, b in zip(sorted(inside), sorted(inside)[1:]))


def test_collectives_are_hatched_and_every_span_is_drawn(lenet: Real) -> None:
    figure = timeline(lenet.sample, lenet.graph)
    drawn = {c.get_label(): c for c in figure.axes[0].collections if c.get_label() in ROLES}
    assert sum(len(c.get_paths()) for c in drawn.values()) == len(lenet.sample["spans"]["node"])
    assert {kind for kind, c in drawn.items() if c.get_hatch()} == {"collective"}
    assert set(drawn) == set(ROLES) - {"server"}
    assert {"cpu:0", "cpu:1", "across devices"} <= set(texts(figure))


def test_roles_keep_their_colours_in_pictures_of_few_colours(lenet: Real) -> None:
    figure = timeline(lenet.sample, lenet.graph)
    with Image.open(io.BytesIO(small_png(figure))) as few:
        assert len(few.getpalette() or []) <= 3 * 128
        shown = np.asarray(few.convert("RGB"), np.int64)
    figure.dpi = 100
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    drawn = np.asarray(canvas.buffer_rgba(), np.int64)[..., :3]
    assert np.abs(shown - drawn).max() <= 20
    often = sorted(Image.fromarray(drawn.astype(np.uint8)).getcolors(1 << 24) or [], reverse=True)
    for _, color in often[:8]:  # grounds of bands and of roles
        assert ((drawn == color).all(axis=2) <= (shown == color).all(axis=2)).all()


def test_the_longest_span_is_named_and_marked() -> None:
    sample = spans((0, 0, 0, 5, 0), (1, 0, 1, 31, 0))
    figure = timeline(sample)
    assert any("longest of this step (thick border): mul on device 1, 30.0 µs, 86%" in text for text in texts(figure))
    (border,) = (p for p in figure.axes[0].patches if p.get_linewidth() > 1.5)
    assert (border.get_x(), border.get_width()) == (1, 30)


def test_waits_are_drawn_without_colour_and_are_never_the_longest() -> None:
    sample = spans((0, 0, 0, 5, 0), (0, 0, 5, 95, 0), (1, 0, 0, 20, 0), (-1, 0, 95, 97, 1))
    sample["spans"]["wait"] = np.array([0, 1, 0, 0], np.uint8)
    sample["arrivals"] = {"span": i32([3, 3]), "device": i32([0, 1]), "at": np.array([5.0, 95.0], np.float32)}
    figure = timeline(sample)
    (waits,) = (c for c in figure.axes[0].collections if c.get_label() == "wait")
    assert len(waits.get_paths()) == 1 and not waits.get_facecolor().size and waits.get_hatch()
    longest = "3 ops timed; longest of this step (thick border): mul on device 1, 20.0 µs"
    assert any(text.startswith(longest) for text in texts(figure))
    (border,) = (p for p in figure.axes[0].patches if p.get_linewidth() > 1.5)
    assert (border.get_x(), border.get_width()) == (0, 20)
    lines = [line for line in figure.axes[0].lines if list(line.get_xdata()) == [5.0, 95.0]]
    assert len(lines) == 1  # what device 0 waited for device 1


# Curves


def test_runs_lie_on_top_of_each_other() -> None:
    figure = curves([curves_message(1, "first"), curves_message(2, "second", seed=3)])
    assert [axes.get_title(loc="left") for axes in figure.axes] == ["loss", "accuracy", "steps per second"]
    for axes in figure.axes[1:]:
        drawn = [line for line in axes.lines if len(line.get_xdata())]
        assert len(drawn) == 2 and len({line.get_linestyle() for line in drawn}) == 2
    assert {"first", "second"} <= set(texts(figure))


def test_the_line_is_the_mean_and_the_band_goes_around_it() -> None:
    message = curves_message(1, "run", steps=50)
    axes = curves([message]).axes[0]
    series = message["series"]["loss"]
    np.testing.assert_allclose(axes.lines[0].get_ydata(), series["mean"])
    band = axes.collections[0].get_paths()[0].vertices
    assert band[:, 1].min() == pytest.approx(series["low"].min()) and band[:, 1].max() == pytest.approx(
        series["high"].max()
    )


def test_a_single_step_can_be_seen() -> None:
    message = curves_message(1, "run", steps=1)
    assert [axes.lines[0].get_marker() for axes in curves([message]).axes] == ["o"] * 3


def test_a_run_that_diverged_has_gaps() -> None:
    message = curves_message(1, "run", steps=10)
    message["series"]["loss"]["mean"][4:] = np.nan
    message["series"]["accuracy"]["mean"][:] = np.nan
    written = texts(curves([message]))
    assert "last: no number yet" in written
    assert f"last: {number_text(float(message['series']['loss']['mean'][3]))}" in written


def test_a_run_that_diverged_leaves_the_frame_to_the_others() -> None:
    first, second = curves_message(1, "first"), curves_message(2, "second", seed=3)
    usual = curves([first, second]).axes[0].get_ylim()
    second["series"]["loss"]["mean"][20:] = 1e9
    figure = curves([first, second])
    low, high = figure.axes[0].get_ylim()
    assert low < first["series"]["loss"]["mean"].min() and high < 3 * usual[1]
    away = next(text for text in texts(figure) if text.startswith("outside the frame"))
    assert "second from step 21" in away and "first" not in away
