"""A graph as text, as a drawing, as columns; its order."""

from __future__ import annotations

import json
import random
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.graph.building import REDUCE, apply, build, building, regression, types
from workbench.framework.expr.expr import Expr
from workbench.graph.columns import columns
from workbench.graph.order import add_hazard_edges, edges, levels, predecessors, topological
from workbench.graph.passes.fusion.all_reduce import FuseAllReduce
from workbench.graph.passes.fusion.elementwise_chains import ElementwiseChains
from workbench.graph.printer import attr_text, expressions_text, graph_text, node_text
from workbench.graph.ssa import Graph, Node
from workbench.graph.viz import graphviz_text, write_graphviz

SMALL = """program
block 0 {
  var %x: float32[?, 2] data
  var %s: float32[1] persistable
  %y: float32[?, 2] = scale(X=%x) {scale=2.0, bias=0.0}
  %m: float32[1] = mean(X=%y) role=Loss
  %s: float32[1] = increment(X=%s) role=LRSched
}"""


# Text


def test_the_text_of_a_graph() -> None:
    graph = build(SMALL, 1, ["m"])
    assert (
        graph_text(graph)
        == str(graph)
        == (
            "graph on 1 device: cpu:0; AllReduce, CoeffNumDevice\n"
            "#0 [0] y@0.v0 = scale(X=x@0.v0) {scale=2.0}\n"
            "#1 [0] m@0.v0 = mean(X=y@0.v0) Loss\n"
            "#2 [0] s@0.v1 = increment(X=s@0.v0) LRSched\n"
            '#3 [0] fetch([m@0.v0]) {name="m"}\n'
        )
    )


def test_the_header_tells_devices_and_strategies() -> None:
    graph = build(regression(), 3, reduce_strategy=REDUCE, num_trainers=2)
    assert graph_text(graph).splitlines()[0] == (
        "graph on 3 devices: cpu:0, cpu:1, cpu:2; Reduce, CoeffNumDevice, 2 trainers"
    )


def test_collectives_stand_out_and_order_is_shown() -> None:
    graph = build(regression())
    add_hazard_edges(graph)
    rows = graph_text(graph).splitlines()[1:]
    assert [" == " in row for row in rows] == [node.is_collective for node in graph.nodes]
    number = {node: i for i, node in enumerate(graph.nodes)}
    for row, node in zip(rows, graph.nodes, strict=True):
        after = re.search(r" after (.*)$", row)
        shown = [int(n) for n in re.findall(r"#(\d+)", after[1])] if after else []
        assert shown == sorted(number[n] for n in node.after)


def test_the_same_program_gives_the_same_text() -> None:
    texts = set()
    for _ in range(3):
        graph = build(regression((3, 2), optimizer=wb.optimizer.Adam(0.1)), 2)
        assert all(apply(graph, FuseAllReduce()))
        add_hazard_edges(graph)
        texts.add(graph_text(graph))
    assert len(texts) == 1


def test_large_arrays_are_told_by_type_and_broken_nodes_printed_all_the_same() -> None:
    assert attr_text(np.zeros((40, 2), np.float32)) == "array(float32[40, 2])"
    assert attr_text(np.array([1, 2])) == "array(int64[2], [1, 2])"
    assert attr_text({"a": (1, [2.5, "x"])}) == '{a: (1, [2.5, "x"])}'
    assert node_text(Node("no_such_op", (0,), [None], [], {"k": 1}, 0)) == "[0] no_such_op() {k=1}"
    graph = build(regression())
    graph.nodes[0].after.append(Node("gone", (0,), [], [], {}, 0))
    assert "after #?" in str(graph)


def test_shared_parts_of_expressions_are_written_once() -> None:
    x = Expr("input", value=0)
    part = Expr("exp", (x,))
    both = Expr("add", (part, part))
    assert expressions_text([part]) == "[exp(x0)]"
    assert expressions_text([both, Expr("cast", (x,), "int64")]) == "t0 = exp(x0); [add(t0, t0), cast(x0, int64)]"


# Drawing


def test_nodes_are_boxes_values_ellipses_devices_clusters() -> None:
    graph = build(regression())
    text = graphviz_text(graph)
    assert text.count("shape=box") == len(graph.nodes)
    assert text.count("shape=ellipse") == len(list(graph.values()))
    assert text.count("subgraph cluster_") == 2
    arrows = sum(len(n.reads) + len(n.writes) for n in graph.nodes)
    assert text.count(" -> ") == arrows
    colors = {re.search(r'fillcolor="(#\w+)"', row)[1] for row in text.splitlines() if "shape=box" in row}  # type: ignore[index]
    assert len(colors) == 5  # forward, loss, backward, optimizer, collective


def test_odd_names_are_escaped() -> None:
    graph = build(SMALL.replace("%y", '%"a \\"quoted\\" \\\\ name"'), 1)
    assert r'label="a \"quoted\" \\ name\nCPUPlace' in graphviz_text(graph)


@pytest.mark.skipif(shutil.which("dot") is None, reason="Graphviz is not installed")
def test_graphviz_reads_it(tmp_path: Path) -> None:
    graph = build(regression((3,), activation="relu"))
    add_hazard_edges(graph)
    write_graphviz(graph, tmp_path / "g.dot")
    subprocess.run(["dot", "-Tsvg", str(tmp_path / "g.dot")], check=True, capture_output=True, timeout=60)


def test_a_file_is_replaced_and_its_folders_made(tmp_path: Path) -> None:
    graph = build(regression())
    path = tmp_path / "a" / "b.dot"
    for _ in range(2):
        write_graphviz(graph, path)
        assert path.read_text(encoding="utf-8") == graphviz_text(graph)


# Columns


def test_columns_are_json_and_say_what_the_graph_says() -> None:
    graph = build(regression((3, 2), activation="relu"), 2, ["mean_0.tmp_0"])
    add_hazard_edges(graph)
    table = columns(graph)
    assert json.loads(json.dumps(table)) == table
    for group in ("node", "value", "edge", "read", "write"):
        assert len({len(column) for name, column in table.items() if name.startswith(group + "_")}) == 1
    values = list(graph.values())
    assert table["node_type"] == [node.type for node in graph.nodes]
    assert table["value_name"] == [v.name for v in values]
    pairs = zip(table["edge_source"], table["edge_target"], table["edge_kind"], strict=True)
    assert [(graph.nodes[a], graph.nodes[b], kind) for a, b, kind in pairs] == list(edges(graph))
    reads = zip(table["read_node"], table["read_value"], strict=True)
    assert [(graph.nodes[n], values[v]) for n, v in reads] == [(n, v) for n in graph.nodes for v in n.reads]
    assert set(table["value_dtype"]) == {"float32"} and [-1, 2] in table["value_shape"]


def test_layers_fold_forward_backward_and_update() -> None:
    graph = build(regression((3, 2)), 1)
    table = columns(graph)
    layers: dict[str, set[str]] = {}
    for kind, layer in zip(table["node_type"], table["node_layer"], strict=True):
        layers.setdefault(layer, set()).add(kind)
    fc = {"mul", "elementwise_add", "elementwise_add_grad", "mul_grad", "sgd"}
    assert layers["fc_0"] >= fc and layers["fc_1"] >= fc and "mean" in layers["mean_0"]


# Order


def in_order(nodes: list[Node], graph: Graph) -> bool:
    where = {node: i for i, node in enumerate(nodes)}
    return all(where[b] < where[node] for node, before in predecessors(graph).items() for b in before)


def test_topological_keeps_an_order_that_is_right() -> None:
    graph = build(regression((3, 2)))
    assert topological(graph) == graph.nodes


def test_topological_repairs_any_order() -> None:
    graph = build(regression((3, 2), optimizer=wb.optimizer.Adam(0.1)))
    add_hazard_edges(graph)
    right = graph.nodes
    for seed in range(20):
        graph.nodes = random.Random(seed).sample(right, len(right))
        ordered = topological(graph)
        assert sorted(map(id, ordered)) == sorted(map(id, right)) and in_order(ordered, graph)


def test_nodes_that_wait_for_each_other_are_named() -> None:
    graph = build(regression())
    graph.nodes[0].after.append(graph.nodes[2])
    with pytest.raises(ValueError, match=r"wait for each other: Node\(.*mul.*elementwise_add|elementwise_add.*mul"):
        topological(graph)


def test_a_node_that_is_not_there_cannot_be_waited_for() -> None:
    graph = build(regression())
    graph.nodes[3].after.append(Node("gone", (0,), [], [], {}, 0))
    with pytest.raises(ValueError, match=r"comes after Node\(gone on 0, Forward\), which is not in the graph"):
        topological(graph)


def test_levels_are_longest_paths() -> None:
    graph = build(regression((3, 2)))
    level = levels(graph)
    before: dict[Node, list[Node]] = {node: [] for node in graph.nodes}
    for a, b, _ in edges(graph):
        before[b].append(a)

    def longest(node: Node) -> int:
        return max((longest(n) + 1 for n in before[node]), default=0)

    assert level == {node: longest(node) for node in graph.nodes}


def test_control_flow_is_printed_with_its_blocks() -> None:
    with building() as main:
        x = wb.static.data("x", [None, 2], "float32")
        wb.static.nn.cond(wb.mean(x) > 0.0, lambda: x + 1.0, lambda: x)
    text = graph_text(build(main, 1))
    assert "true_block=block 1, false_block=block 2" in text


def test_chains_print_their_functions() -> None:
    graph = build(regression((2,), activation="relu"), 1)
    assert all(apply(graph, ElementwiseChains()))
    assert "{results=[maximum(add(x0, x1), 0)], types=[" in graph_text(graph)
    assert types(graph)["fused_elementwise"] == 1


def no_numbers(column: list[Any]) -> bool:
    return not any(isinstance(x, int) for x in column)


def test_sites_are_text() -> None:
    table = columns(build(regression(), 1))
    assert no_numbers(table["node_site"]) and any("building.py" in (site or "") for site in table["node_site"])
