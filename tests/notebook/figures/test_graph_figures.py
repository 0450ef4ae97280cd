"""Graphs drawn without a browser: what lies where, what is folded, and what is marked."""

import time
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from tests.notebook.figure_messages import (
    graph_message,
    i32,
    made_up,
)
from tests.notebook.figures.real import Message, Real, texts
from workbench import static
from workbench.executors.api.parallel import ParallelExecutor
from workbench.experiments.bench.workloads import cpu_devices, started
from workbench.framework import names
from workbench.framework.program.guard import static_mode
from workbench.notebook.figures.facts import Nodes, longest
from workbench.notebook.figures.graphs.boxes import first_boxes
from workbench.notebook.figures.graphs.folding import NODES
from workbench.notebook.figures.graphs.graph import graph
from workbench.notebook.figures.graphs.groups import groups_of, repeats
from workbench.notebook.figures.graphs.layout import HEIGHT, WIDTH, GraphPicture, layout
from workbench.notebook.figures.numbers import seconds_text
from workbench.notebook.figures.palette import ROLES
from workbench.notebook.figures.panels.curves import curves
from workbench.notebook.figures.panels.feeds import feeds
from workbench.notebook.figures.panels.scopes import scopes
from workbench.notebook.figures.panels.timeline import timeline
from workbench.notebook.figures.text import describe
from workbench.ops.math.reductions.reduce import mean
from workbench.optimizer.rules.sgd import SGD
from workbench.runtime.storage.scope import Scope


@pytest.fixture(scope="module")
def deep() -> Real:
    return Real("deep", 4)


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
