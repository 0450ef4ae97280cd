"""Pictures without a browser: what is in them, that it is where it should be, and that they become files."""

import io
import re
import subprocess
import sys
import threading
import time
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from PIL import Image

from tests.notebook.figure_messages import (
    curves_message,
    graph_message,
    i32,
    made_up,
    preview,
    sample_message,
    scopes_message,
)
from workbench import static
from workbench.errors import InvalidArgument
from workbench.executors.api.parallel import ParallelExecutor
from workbench.experiments.bench.workloads import WORKLOADS, cpu_devices, started, training
from workbench.framework import names
from workbench.framework.program.guard import static_mode
from workbench.notebook.figures.facts import Nodes, longest, parts, summed
from workbench.notebook.figures.graphs.boxes import first_boxes
from workbench.notebook.figures.graphs.folding import NODES
from workbench.notebook.figures.graphs.graph import graph
from workbench.notebook.figures.graphs.groups import groups_of, repeats
from workbench.notebook.figures.graphs.layout import HEIGHT, WIDTH, GraphPicture, layout
from workbench.notebook.figures.numbers import listed, number_text, seconds_text, shortened, width_of
from workbench.notebook.figures.palette import ROLES
from workbench.notebook.figures.panels.curves import curves
from workbench.notebook.figures.panels.feeds import feeds
from workbench.notebook.figures.panels.scopes import scopes
from workbench.notebook.figures.panels.timeline import rows_of, timeline
from workbench.notebook.figures.text import describe
from workbench.notebook.figures.write import png, save, svg
from workbench.ops.math.reductions.reduce import mean
from workbench.optimizer.rules.sgd import SGD
from workbench.runtime.storage.scope import Scope

Message = dict[str, Any]


class Real:
    """A program on several devices, and the messages about a step of it."""

    def __init__(self, name: str, devices: int) -> None:
        self.training = training(WORKLOADS[name], devices)
        self.training.step()
        self.ssa = self.training.executor.graph()
        self.graph = graph_message(self.ssa, name)
        self.sample = sample_message(self.training, self.ssa)


@pytest.fixture(scope="module")
def tiny() -> Real:
    return Real("tiny", 2)


@pytest.fixture(scope="module")
def lenet() -> Real:
    return Real("lenet", 2)


@pytest.fixture(scope="module")
def deep() -> Real:
    return Real("deep", 4)


def texts(figure: Figure) -> list[str]:
    """Everything that is written in a picture."""
    root = ElementTree.fromstring(svg(figure))
    return ["".join(e.itertext()) for e in root.iter() if e.tag.endswith("}text")]


def boxes_drawn(figure: Figure) -> dict[str, int]:
    """How many boxes of each kind a picture of a graph has."""
    collections = figure.axes[0].collections
    return {str(c.get_label()): len(c.get_paths()) for c in collections if c.get_label() in ROLES}


def chain(length: int, layers: int, devices: int = 1) -> Message:
    """On every device a chain of ops, equally many in each layer."""
    nodes = [("mul", "Forward", f"fc_{k * layers // length}", [d]) for d in range(devices) for k in range(length)]
    edges = [(d * length + k, d * length + k + 1) for d in range(devices) for k in range(length - 1)]
    return made_up(nodes, edges, devices)


# Layout


def check(picture: GraphPicture, message: Message) -> None:
    """What holds for every layout."""
    nodes = Nodes.of(message)
    inside = sorted(node for box in picture.boxes for node in box.group.nodes)
    assert inside == list(range(len(nodes)))
    corners = [(box.x, box.y) for box in picture.boxes]
    for k, (x, y) in enumerate(corners):
        assert all(abs(x - a) >= WIDTH - 1e-9 or abs(y - b) >= HEIGHT - 1e-9 for a, b in corners[:k])
    for box in picture.boxes:
        lane = picture.lanes[box.lane]
        assert lane.top <= box.y and box.y + HEIGHT <= lane.bottom
        assert box.x >= 0 and box.x + WIDTH <= picture.width
        shared = box.group.device < 0
        assert shared == (lane.device < 0) and (shared or lane == (box.group.device, box.group.kind, *lane[2:]))
        assert shared or box.group.kind != "collective"
    for above, below in zip(picture.lanes, picture.lanes[1:]):
        assert above.bottom <= below.top


ROLE = st.sampled_from(["Forward", "Backward", "Backward|Loss", "Optimize", "LRSched"])
KINDS = st.sampled_from(["mul", "sgd", "relu", "all_reduce", "fused_broadcast", "fetch"])


@st.composite
def graphs(draw: st.DrawFn) -> Message:
    devices = draw(st.integers(1, 4))
    count = draw(st.integers(0, 150))
    some = st.lists(st.integers(0, devices - 1), min_size=1, max_size=devices, unique=True)
    nodes = []
    for _ in range(count):
        type = draw(KINDS)
        places = draw(some) if type not in ("mul", "sgd", "relu") else [draw(st.integers(0, devices - 1))]
        nodes.append((type, draw(ROLE), f"fc_{draw(st.integers(0, 40))}", places))
    ends = st.tuples(st.integers(0, max(count - 1, 0)), st.integers(0, max(count - 1, 0)))
    edges = [(min(pair), max(pair)) for pair in draw(st.lists(ends, max_size=2 * count)) if pair[0] != pair[1]]
    return made_up(nodes, edges if count else [], devices)


@given(graphs())
@settings(max_examples=60, deadline=None)
def test_boxes_lie_in_their_lanes_and_apart_whatever_the_graph(message: Message) -> None:
    check(layout(message), message)


@given(graphs())
@settings(max_examples=60, deadline=None)
def test_folding_keeps_every_node_and_every_edge_between_boxes(message: Message) -> None:
    nodes, rng = Nodes.of(message), np.random.default_rng(0)
    fold = message["fold"]
    for is_open in (fold["open"], np.zeros_like(fold["open"]), rng.integers(0, 2, len(fold["open"]))):
        picture = first_boxes({**message, "fold": {**fold, "open": is_open}})
        box_of = {node: k for k, box in enumerate(picture.boxes) for node in box.nodes}
        assert sorted(box_of) == list(range(len(nodes)))
        wanted = {
            (box_of[a], box_of[b])
            for a, b in zip(message["edge"]["source"].tolist(), message["edge"]["target"].tolist())
            if box_of[a] != box_of[b]
        }
        assert set(zip(picture.source.tolist(), picture.target.tolist())) == wanted
        for box in picture.boxes:
            assert {(nodes.kind[k], nodes.device[k]) for k in box.nodes} == {(box.kind, box.device)}


@given(graphs())
@settings(max_examples=60, deadline=None)
def test_groups_lie_in_each_other_and_come_after_the_one_around_them(message: Message) -> None:
    groups = groups_of(Nodes.of(message))
    for number, group in enumerate(groups):
        assert group.parent < number and len(group.nodes) > 1
        if group.parent >= 0:
            assert set(group.nodes) < set(groups[group.parent].nodes)
    for k, group in enumerate(message["fold"]["node"].tolist()):
        around = [set(each.nodes) for each in groups if k in each.nodes]
        assert group == -1 if not around else set(groups[group].nodes) == min(around, key=len)


def test_a_graph_without_a_fold_is_shown_op_by_op() -> None:
    message = chain(60, 10)
    assert len(layout(message).boxes) == 10
    del message["fold"]
    assert len(layout(message).boxes) == 60


def test_what_comes_later_is_further_right_or_below() -> None:
    picture = layout(chain(30, 30))
    places = [(box.x, box.y) for box in picture.boxes]
    assert places == sorted(places) and picture.level == "op"
    assert len({x for x, _ in places}) == 10  # three below each other: a page is not wide enough for thirty


def test_a_node_that_reads_nothing_is_beside_its_reader() -> None:
    message = made_up(
        [("mul", "Forward", "a", [0])] * 4 + [("fill", "Forward", "b", [0])], [(0, 1), (1, 2), (2, 3), (4, 3)], 1
    )
    message["edge"]["source"], message["edge"]["target"] = i32([0, 1, 2, 3]), i32([1, 2, 4, 4])
    depths = [box.depth for box in layout(message).boxes]
    assert depths == [0, 1, 2, 2, 3]


def test_small_graphs_are_shown_op_by_op_and_large_ones_folded() -> None:
    assert layout(chain(NODES // 3, 10, 3)).level == "op"
    assert layout(chain(NODES + 1, 10)).level == "layer"
    assert layout(chain(2000, 1000)).level == "repeat"


def test_repeated_layers_are_one_box_that_says_how_many(deep: Real) -> None:
    picture = layout(deep.graph)
    assert picture.level == "repeat"
    (box,) = (b for b in picture.boxes if b.group.device == 3 and b.group.kind == "forward" and b.group.times > 1)
    assert (box.group.title, box.group.times) == ("fc_1 … fc_99", 99)
    assert box.group.details == ("mul", "elementwise_add", "relu")
    assert "× 99" in [text.strip() for text in texts(graph(deep.graph))]


@pytest.mark.parametrize(
    ("looks", "places"),
    [("abcbcd", "011113"), ("aaaa", "0000"), ("abab", "0101"), ("abc", "012"), ("aabaab", "001001"), ("", "")],
)
def test_repeats(looks: str, places: str) -> None:
    expected = {"abcbcd": [0, 1, 2, 1, 2, 5], "aabaab": [0, 1, 2, 0, 1, 2]}.get(looks, [int(p) for p in places])
    assert repeats([ord(c) for c in looks]) == expected


def test_twenty_thousand_nodes_are_drawn_folded_in_two_seconds() -> None:
    each = 5000
    nodes = [(f"op{k % 7}", "Forward", f"layer{k % 13}_{k // 10}", [d]) for d in range(4) for k in range(each)]
    edges = [(d * each + k, d * each + k + j) for d in range(4) for k in range(each - 9) for j in (1, 4, 9)]
    message = made_up(nodes, edges, 4)
    graph(chain(5, 5))  # fonts are looked up once
    began = time.process_time()
    figure = graph(message)
    assert time.process_time() - began < 2.0
    assert sum(boxes_drawn(figure).values()) == len(layout(message).boxes) < 100


# The graph


def test_every_group_has_a_box_and_the_legend_counts_ops(tiny: Real) -> None:
    picture = layout(tiny.graph)
    drawn = boxes_drawn(graph(tiny.graph))
    assert drawn == {kind: sum(box.group.kind == kind for box in picture.boxes) for kind in ROLES}
    assert sum(drawn.values()) == len(tiny.ssa.nodes)
    written = texts(graph(tiny.graph))
    assert {"forward 14", "backward 16", "optimize 2", "collective 2", "tiny", "34 ops on 2 devices"} <= set(written)


def test_real_programs_lie_as_they_should(tiny: Real, lenet: Real, deep: Real) -> None:
    for real in (tiny, lenet, deep):
        picture = layout(real.graph)
        check(picture, real.graph)
        lane = next(lane for lane in picture.lanes if lane.device < 0)
        shared = [box for box in picture.boxes if box.group.kind == "collective"]
        assert sum(len(box.group.nodes) for box in shared) == len(real.ssa.collectives()) > 0
        assert all(lane.top < box.y and box.y + HEIGHT < lane.bottom for box in shared)
        assert [lane.device for lane in picture.lanes][:3] == [0, 0, 0] and picture.lanes[-1].kind == "optimize"


def test_the_colours_are_those_of_the_roles(tiny: Real) -> None:
    drawn = {c.get_label(): c for c in graph(tiny.graph).axes[0].collections if c.get_label() in ROLES}
    assert {kind: to_hex(c.get_edgecolor()[0]) for kind, c in drawn.items()} == ROLES


def test_a_sample_gives_times_and_marks_the_longest(tiny: Real) -> None:
    (slow,) = longest(tiny.sample)
    took = seconds_text(slow.us / 1e6)
    assert not any("µs" in text for text in texts(graph(tiny.graph)))
    written = [text.strip() for text in texts(graph(tiny.graph, tiny.sample))]
    assert took in written and "34 ops on 2 devices, times of step 3" in written
    thick = [p for p in graph(tiny.graph, tiny.sample).axes[0].patches if p.get_linewidth() > 2]
    assert len(thick) == 1
    elsewhere = {**tiny.sample, "graph": 99}  # of another graph: its numbers mean other nodes
    assert not any("µs" in text for text in texts(graph(tiny.graph, elsewhere)))


def test_one_device_without_training_has_no_collectives() -> None:
    body = started_inference()
    picture = layout(body)
    assert [lane.kind for lane in picture.lanes] == ["forward"]
    assert not any("collective" in text for text in texts(graph(body)))


def started_inference() -> Message:
    def body() -> Any:
        return static.nn.fc(static.data("x", [None, 4]), 3, activation="relu")

    model = started(body, {"x": np.ones((6, 4), np.float32)}, 1, trains=False)
    model.step()
    return graph_message(model.executor.graph())


def test_reduce_mode_shows_who_owns_what() -> None:
    message = reduced()
    picture = layout(message)
    check(picture, message)
    assert {box.group.title for box in picture.boxes if box.group.device < 0} == {"reduce"}
    updates = [box.group.device for box in picture.boxes if box.group.kind == "optimize"]
    assert sorted(updates) == [0, 0, 0, 1]  # each parameter is updated by the device that owns it
    assert "\n  reduce × 4: fc_1.b_0@GRAD" in describe({"graph": message})


def test_what_is_fetched_from_several_devices_is_across_them() -> None:
    nodes = [("mul", "Forward", "a", [0]), ("mul", "Forward", "a", [1]), ("fetch", "Forward", "a", [0, 1])]
    message = made_up(nodes, [(0, 2), (1, 2)], 2)
    assert [box.group.device for box in layout(message).boxes] == [0, 1, -1]
    assert boxes_drawn(graph(message)) == {"forward": 3, "backward": 0, "optimize": 0, "server": 0, "collective": 0}


def reduced() -> Message:
    """The graph of two layers in Reduce mode on two devices."""
    main, startup = static.Program(), static.Program()
    with names.guard(), static.program_guard(main, startup), static_mode():
        loss = mean(static.nn.fc(static.nn.fc(static.data("x", [None, 4]), 3), 2))
        SGD(0.1).minimize(loss)
    strategy, scope = static.BuildStrategy(), Scope()
    strategy.reduce_strategy = static.BuildStrategy.ReduceStrategy.Reduce
    static.Executor().run(startup, scope=scope)
    with cpu_devices(2):
        executor = ParallelExecutor(False, loss.name, main, build_strategy=strategy, scope=scope)
    executor.run([loss.name], feed={"x": np.ones((6, 4), np.float32)})
    return graph_message(executor.graph(), "reduced")


def test_nothing_at_all_is_a_picture_too() -> None:
    empty = made_up([], [], 0)
    assert "There are no ops in this graph." in texts(graph(empty))
    assert "nothing was timed in this step" in texts(timeline({"type": "sample"}))
    assert "nothing was fed" in texts(feeds({"type": "sample"}))
    assert "nothing has been recorded yet" in texts(curves([]))
    assert any("no step" in text for text in texts(scopes({"type": "scopes"})))
    assert describe({}) == "dashboard, no device yet"


# Feeds


def fed(rows: list[int], first: list[int] | None = None, **more: Any) -> Message:
    """A sample in which devices were fed so many rows of `x`."""
    part = {
        "devices": [f"cpu:{k}" for k in range(len(rows))],
        "names": ["x"],
        "rows": {"x": rows},
        "shapes": {"x": [[n, 4] for n in rows]},
        "dtypes": {"x": "float32"},
        "nbytes": [16 * n for n in rows],
        **({"first": {"x": first}} if first is not None else {}),
        **more,
    }
    return {"type": "sample", "step": 7, "feeds": part}


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
    assert "AllReduce, scopes dropped 2 times (every so many steps)" in written
    assert {"AllReduce (this one)", "Reduce", "parameters", "state", "gradients"} <= set(written)


def test_totals_are_stacked() -> None:
    one = {"parameters": 1024.0, "state": 2048.0, "gradients": 512.0}
    message = {"type": "scopes", "devices": ["cpu:0"], "totals": [{"strategy": "Reduce", "devices": [one]}]}
    bars = scopes(message).axes[-1].patches
    assert [(p.get_x(), p.get_width()) for p in bars[:3]] == [(0.0, 1.0), (1.0, 2.0), (3.0, 0.5)]
    assert len({p.get_hatch() for p in bars[:3]}) == 3


# Timeline


def spans(*rows: tuple[int, int, float, float, int]) -> Message:
    """A sample of (device, thread, start, end, collective)."""
    device, thread, start, end, together = zip(*rows)
    columns = {
        "node": i32([-1] * len(rows)),
        "device": i32(device),
        "thread": i32(thread),
        "label": i32([0] * len(rows)),
    }
    times = {"start": np.array(start, np.float32), "end": np.array(end, np.float32)}
    return {"type": "sample", "step": 1, "labels": ["mul"], "spans": {**columns, **times, "collective": i32(together)}}


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


# Files


def all_figures(real: Real) -> Iterator[Figure]:
    yield graph(real.graph, real.sample)
    yield feeds(real.sample)
    yield timeline(real.sample, real.graph)
    yield scopes(scopes_message(real.training, 3))
    yield curves([curves_message(1, "run")])


def test_every_picture_is_svg_and_png(lenet: Real) -> None:
    for figure in all_figures(lenet):
        root = ElementTree.fromstring(svg(figure))
        assert root.tag == "{http://www.w3.org/2000/svg}svg" and len(texts(figure)) > 5
        image = Image.open(io.BytesIO(png(figure)))
        assert image.format == "PNG" and min(image.size) > 200
        assert image.convert("RGB").getpixel((1, 1)) == (255, 255, 255)  # readable on a dark page too


def test_the_title_of_an_svg_says_the_gist(tiny: Real) -> None:
    title = ElementTree.fromstring(svg(graph(tiny.graph))).find("{http://www.w3.org/2000/svg}title")
    assert title is not None and title.text == "SSA graph of tiny: 14 forward, 16 backward, 2 optimize, 2 collective"


def test_texts_can_be_searched(tiny: Real) -> None:
    written = " ".join(texts(graph(tiny.graph)))
    for name in ("cpu:0", "cpu:1", "mul_grad", "fused_update", "fc_0.tmp_2", "forward", "backward", "optimize"):
        assert name in written


def test_the_same_message_gives_the_same_bytes(tiny: Real, monkeypatch: pytest.MonkeyPatch) -> None:
    first = [(svg(f), png(f)) for f in (graph(tiny.graph), timeline(tiny.sample, tiny.graph), feeds(tiny.sample))]
    monkeypatch.setitem(matplotlib.rcParams, "text.color", "#ffffff")  # whatever the user's style is
    monkeypatch.setitem(matplotlib.rcParams, "font.size", 20.0)
    again = [(svg(f), png(f)) for f in (graph(tiny.graph), timeline(tiny.sample, tiny.graph), feeds(tiny.sample))]
    assert first == again
    assert matplotlib.rcParams["font.size"] == 20.0


def test_nothing_of_pyplot_is_needed(tiny: Real) -> None:
    code = "import sys, workbench.notebook.figures.graphs.graph, workbench.notebook.figures.write; "
    code += "print('matplotlib.pyplot' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "False\n"


def test_describing_does_not_import_matplotlib() -> None:
    code = "import sys, workbench.notebook.figures.text; print('matplotlib' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "False\n"


def test_pictures_can_be_made_on_several_threads(tiny: Real) -> None:
    expected = svg(graph(tiny.graph))
    before = dict(matplotlib.rcParams)
    pictures: list[str] = []
    threads = [threading.Thread(target=lambda: pictures.append(svg(graph(tiny.graph)))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert pictures == [expected] * 4
    assert dict(matplotlib.rcParams) == before


@pytest.mark.parametrize("name", ["net.svg", "net.png", "NET.SVG"])
def test_save_writes_the_picture(tiny: Real, tmp_path: Path, name: str) -> None:
    figure = graph(tiny.graph)
    save(figure, str(tmp_path / name))
    wanted = png(figure) if name.endswith("png") else svg(figure).encode()
    assert (tmp_path / name).read_bytes() == wanted
    assert [path.name for path in tmp_path.iterdir()] == [name]


@pytest.mark.parametrize("name", ["net", "net.pdf", "net.svg.gz"])
def test_another_ending_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(InvalidArgument, match=r"\.svg or \.png"):
        save(Figure(), tmp_path / name)
    assert not list(tmp_path.iterdir())


def test_a_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "net.svg").mkdir()
    with pytest.raises(InvalidArgument, match="it is a folder"):
        save(Figure(), tmp_path / "net.svg")


def test_a_missing_folder_is_an_oserror(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        save(Figure(), tmp_path / "missing" / "net.svg")


def test_what_was_there_stays_when_writing_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "net.svg"
    target.write_text("before")

    def full(*args: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.replace", full)
    with pytest.raises(OSError, match="No space left"):
        save(Figure(), target)
    assert target.read_text() == "before"
    assert [path.name for path in tmp_path.iterdir()] == ["net.svg"]


# In words

_NEXT = {"node": 4, "device": 0, "label": "relu", "us": 200.0, "share": 0.2, "steps": 12}
SLOWEST = {"node": 3, "device": 1, "label": "mul", "us": 412.0, "share": 0.41, "steps": 12, "next": [_NEXT]}


def state(**run: Any) -> Message:
    subject = {"name": "net", "kind": "run", "devices": ["cpu:0", "cpu:1"], "strategy": "AllReduce", "graph": 1}
    default = {"id": 1, "name": "net", "state": "running", "step": 120, "steps": 2400, "seconds": 1.34, "rate": 92.1}
    return {"type": "state", "subject": subject, "run": {**default, "last": {"loss": 0.41234}, "error": None, **run}}


def test_describe_says_it_all(lenet: Real) -> None:
    messages = {
        "state": state(),
        "graph": lenet.graph,
        "sample": {**lenet.sample, "step": 3, "seconds": 0.0025, "slowest": SLOWEST},
        "scopes": scopes_message(lenet.training, 2),
        "curves": curves_message(1, "net"),
    }
    text = describe(messages)
    lines = text.splitlines()
    assert 10 <= len(lines) <= 25 and describe(messages) == text
    assert lines[0] == "net (run), AllReduce on 2 devices: cpu:0, cpu:1"
    assert lines[1] == "state: running, 120 of 2,400 steps, 1.3 s in all, 92.1 steps/s"
    assert lines[2].startswith("last values: loss 0.4123, accuracy ")
    assert "graph: 89 ops: 40 forward, 42 backward, 2 optimize, 5 collective" in lines
    assert "  cpu:0: x rows 0–31 float32[32, 1, 28, 28]; y rows 0–31 int64[32, 1] (98.2 KiB)" in lines
    assert "  cpu:1: x rows 32–63 float32[32, 1, 28, 28]; y rows 32–63 int64[32, 1] (98.2 KiB)" in lines
    assert any(line.startswith("  fused_all_reduce × 5: fc_2.b_0@GRAD, fc_2.w_0@GRAD, ") for line in lines)
    assert "step 3 took 2.50 ms; slowest ops (median of 12 steps), and their share of the time of all ops:" in lines
    assert lines[lines.index("  mul on cpu:1 412.0 µs (41%)") + 1] == "  relu on cpu:0 200.0 µs (20%)"
    assert "scopes dropped: not yet" in lines


def test_pictures_and_words_name_the_slowest_of_all_steps_not_of_one() -> None:
    sample = {**spans((0, 0, 0, 5, 0), (1, 0, 1, 31, 0)), "slowest": SLOWEST}
    assert any("; slowest: mul on device 1, 412.0 µs (median of 12 steps)" in text for text in texts(timeline(sample)))
    once = {**sample, "slowest": {**SLOWEST, "steps": 1, "next": []}}
    assert any("; slowest: mul on device 1, 412.0 µs (of one step)" in text for text in texts(timeline(once)))
    assert "slowest ops (of one step), and" in describe({"sample": {**once, "seconds": 0.1}})
    assert "slowest" not in describe({"sample": spans((0, 0, 0, 5, 0))})  # nobody found one


def test_describe_takes_the_curves_of_several_runs() -> None:
    curve_messages = [curves_message(1, "a", steps=3), curves_message(2, "b", steps=3, seed=1)]
    assert (
        describe({"curves": curve_messages})
        == describe({"curves": curve_messages[-1]})
        != describe({"curves": curve_messages[0]})
    )


def test_describe_names_the_error() -> None:
    error = {"text": "op 'mul' failed\n  more", "op": "mul", "device": "cpu:1", "site": "Cell In[3], line 7"}
    text = describe({"state": state(state="failed", error=error, rate=None)})
    assert "state: failed, 120 of 2,400 steps, 1.3 s in all\nerror: op 'mul' failed …\n" in text
    assert "  op mul, on cpu:1, built at Cell In[3], line 7" in text


def test_describe_names_drops_by_cause() -> None:
    sizes, causes = np.array([2048.0] * 4 + [512]), ["interval"] * 4 + ["call"]
    drops = {"step": np.array([10.0, 20, 30, 40, 50]), "bytes": [sizes], "cause": causes}
    text = describe({"scopes": {"type": "scopes", "devices": ["cpu:0"], "strategy": "Reduce", "drops": drops}})
    assert text.splitlines()[-3:] == [
        "scopes dropped: 5 times (4 × interval, 1 × call)",
        "  dropped 2.0 KiB after steps 10, 20, 30, 40",
        "  dropped 512 B after step 50",
    ]


def test_drops_before_the_watching_are_said_to_be_unknown() -> None:
    drops = {"step": np.zeros(0), "bytes": [np.zeros(0)], "cause": [], "total": 0, "since": 1000}
    message = {"type": "scopes", "devices": ["cpu:0"], "strategy": "Reduce", "drops": drops}
    assert "scopes dropped: not since step 1,000; not watched before" in describe({"scopes": message})
    assert any("scopes not dropped since step 1,000, not watched before" in text for text in texts(scopes(message)))


def test_of_very_many_drops_all_are_counted() -> None:
    drops = {"step": np.array([10.0, 20]), "bytes": [np.ones(2)], "cause": ["interval"] * 2, "total": 3000}
    message = {"type": "scopes", "devices": ["cpu:0"], "strategy": "Reduce", "drops": drops}
    assert "scopes dropped: 3,000 times" in describe({"scopes": message})
    assert any("scopes dropped 3,000 times" in text for text in texts(scopes(message)))


def test_describe_without_a_run() -> None:
    text = describe({"state": {**state(), "run": None}, "graph": made_up([("mul", "Forward", "a", [0])], [], 1)})
    assert text.splitlines()[1:] == ["state: no run", "graph: 1 op: 1 forward", "layers: a", "collectives: none"]


def test_collectives_name_what_they_sum(tiny: Real) -> None:
    nodes = summed(tiny.graph)
    assert [one.type for one in nodes] == ["fused_all_reduce"] * 2
    names = {name for one in nodes for name in one.names}
    assert names == {f"fc_{k}.{p}_0@GRAD" for k in (0, 1) for p in "wb"}
    assert sum(one.bytes for one in nodes) == 4 * (64 * 32 + 32 + 32 * 10 + 10)


def test_parts_follow_each_other_where_nobody_said_otherwise(tiny: Real) -> None:
    assert [part.text() for part in parts(fed([1, 3])["feeds"], "x")] == ["row 0", "rows 1–3"]
    assert [part.first for part in parts(tiny.sample["feeds"], "x")] == [0, 16]


# Numbers


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "–"), (2.5e-6, "2.5 µs"), (0.00325, "3.25 ms"), (1.0, "1.0 s"), (61.0, "1 min 1 s"), (7500.0, "2 h 5 min")],
)
def test_seconds(value: float | None, text: str) -> None:
    assert seconds_text(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "–"), (3.0, "3"), (12345.0, "12,345"), (0.123456, "0.1235"), (1.5e-7, "1.50e-07"), (float("nan"), "nan")],
)
def test_numbers(value: float | None, text: str) -> None:
    assert number_text(value) == text


@given(st.text(min_size=1, max_size=60), st.floats(0.0, 3.0))
def test_shortened_texts_fit(text: str, room: float) -> None:
    short = shortened(text, room, 7)
    assert width_of(short, 7) <= room and (short == text or width_of(text, 7) > room)


def test_a_list_says_how_many_are_left_out() -> None:
    assert listed(["mul", "relu"], 9, 7) == "mul, relu"
    assert listed(["mul", "relu", "elementwise_add"], 0.7, 7) == "mul, relu +1"
    assert re.fullmatch(r"elem.*…\w* \+1", listed(["elementwise_add_grad", "mul"], 0.9, 7))
    assert listed([], 1, 7) == ""
