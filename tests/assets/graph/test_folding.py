"""The page and the static picture show a program with the same boxes: same members, same names, same sums."""

from typing import Any

import pytest

from tests.assets.conftest import packed
from tests.notebook.figure_messages import sample_message
from workbench.executors.planning.shapes import Shapes
from workbench.experiments.bench.workloads import WORKLOADS, training
from workbench.notebook.dashboard.watching.graph_message import graph_message
from workbench.notebook.figures.graphs.graph import times_of
from workbench.notebook.figures.graphs.layout import layout

pytestmark = pytest.mark.browser

# What the page draws first: members, title and time of every box.
DRAWN = """async ([graph, sample]) => {
    const load = (path) => import(`/assets/src/graph/${path}.js`);
    const [{ Folds }, { Model }, { layout }, { nodeTimes }, { summed }] =
        await Promise.all(["fold", "model", "layout", "times", "heat"].map(load));
    const kinds = { int32: Int32Array, float32: Float32Array, float64: Float64Array, uint8: Uint8Array };
    const unpacked = (part) => {
        if (Array.isArray(part)) return part.map(unpacked);
        if (part === null || typeof part !== "object") return part;
        if ("$" in part) return kinds[part.dtype].from(part.$);
        return Object.fromEntries(Object.entries(part).map(([name, inner]) => [name, unpacked(inner)]));
    };
    const model = new Model(unpacked(graph));
    const folds = new Folds(model);
    const values = nodeTimes(model, unpacked(sample));
    return layout(model, folds, folds.begin()).items.map(({ nodes, title }) =>
        [Array.from(nodes).sort((a, b) => a - b), title, summed({ values }, nodes) || 0]);
}"""


@pytest.mark.parametrize(("workload", "devices"), [("tiny", 2), ("mlp", 2), ("lenet", 2), ("deep", 4), ("lenet", 1)])
def test_page_and_picture_begin_with_the_same_boxes(dashboard: Any, workload: str, devices: int) -> None:
    running = training(WORKLOADS[workload], devices)
    running.step()
    ssa = running.executor.graph()
    graph = graph_message(1, workload, ssa, Shapes(ssa, {}))
    sample = {name: part for name, part in sample_message(running, ssa).items() if name != "feeds"}
    boxes = layout(graph).boxes
    took = times_of(graph, sample, boxes)
    drawn = dashboard.page.evaluate(DRAWN, [packed(graph), packed(sample)])
    title = [f"{box.group.title} × {box.group.times}" if box.group.times > 1 else box.group.title for box in boxes]
    wanted = {box.group.nodes: (name, us) for box, name, us in zip(boxes, title, took)}
    drawn_boxes = {tuple(nodes): (name, us) for nodes, name, us in drawn}
    assert drawn_boxes.keys() == wanted.keys() and 3 < len(drawn_boxes) < 61
    for nodes, (name, us) in drawn_boxes.items():
        assert name == wanted[nodes][0] and us == pytest.approx(wanted[nodes][1], rel=1e-4)
    dashboard.receive(packed(graph))
    assert dashboard.page.locator(".wb-g-item").count() == len(boxes)
