"""The graph's rules, one test or more for each, named after it (semantics document, sections 4 and 5.2)."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import workbench as wb
from tests.graph.building import REDUCE, SCALE, apply, build, building, lines, regression, types
from workbench.framework.program.block import Block
from workbench.framework.program.roles import LOSS_GRAD
from workbench.graph.loss import loss_gradients
from workbench.graph.order import DATA, ORDER, add_hazard_edges, edges, hazards, levels
from workbench.graph.passes import default_passes, run_passes
from workbench.graph.passes.fusion.all_reduce import FuseAllReduce
from workbench.graph.passes.order_collectives import OrderCollectives
from workbench.graph.ssa import ALL_REDUCE, BROADCAST, FETCH, SCALE_LOSS_GRAD, Graph, Node, Uses
from workbench.graph.ssa import REDUCE as REDUCES
from workbench.graph.viz import graphviz_text


def of_type(graph: Graph, kind: str) -> list[Node]:
    return [node for node in graph.nodes if node.type == kind]


def position(graph: Graph) -> dict[Node, int]:
    return {node: i for i, node in enumerate(graph.nodes)}


# Values and nodes


def test_G_1_a_write_makes_a_new_version_and_a_read_takes_the_newest() -> None:
    graph = build(
        """program
        block 0 {
          var %x: float32[2] data
          var %s: float32[2] persistable
          %y: float32[2] = scale(X=%x) {scale=2.0}
          %y: float32[2] = scale(X=%y) {scale=3.0}
          %s: float32[2] = elementwise_add(X=%s, Y=%y)
          %z: float32[2] = elementwise_add(X=%s, Y=%y)
        }""",
        devices=1,
    )
    assert lines(graph) == (
        "#0 [0] y@0.v0 = scale(X=x@0.v0) {scale=2.0}\n"
        "#1 [0] y@0.v1 = scale(X=y@0.v0) {scale=3.0}\n"
        "#2 [0] s@0.v1 = elementwise_add(X=s@0.v0, Y=y@0.v1)\n"
        "#3 [0] z@0.v0 = elementwise_add(X=s@0.v1, Y=y@0.v1)"
    )


def test_G_2_collectives_bear_the_engines_names() -> None:
    names = {ALL_REDUCE, REDUCES, BROADCAST, SCALE_LOSS_GRAD, FETCH}
    assert names == {"all_reduce", "reduce", "broadcast", "scale_loss_grad", "fetch"}


# Construction


@pytest.mark.parametrize("devices", [1, 2, 4, 8])
def test_G_10_the_loss_gradient_is_scaled_on_every_device_and_all_else_copied(devices: int) -> None:
    program = regression()
    ops = program.global_block().ops
    graph = build(program, devices)
    fills = [op for op in ops if op.role == LOSS_GRAD]
    assert [op.type for op in fills] == ["fill_constant"]
    for place in range(devices):
        here = [node for node in graph.nodes if node.places == (place,) and not node.is_collective]
        assert [n.type for n in here] == [SCALE_LOSS_GRAD if op in fills else op.type for op in ops]
        assert [n.origins for n in here] == [(op,) for op in ops]
    assert all(not n.reads and len(n.writes) == 1 for n in of_type(graph, SCALE_LOSS_GRAD))


def test_G_11_a_collective_follows_each_op_that_makes_a_parameters_gradient() -> None:
    program = regression((3, 5))
    pairs = [pair for op in program.global_block().ops if op.role & 1 for pair in op.role_vars]
    graph = build(program)
    assert [n.attrs["name"] for n in graph.collectives()] == [gradient for _, gradient in pairs]
    where = position(graph)
    for node in graph.collectives():
        writers = [n for n in graph.nodes if set(n.writes) & set(node.reads)]
        assert where[node] == max(where[n] for n in writers) + 1


def test_G_11_no_collective_without_a_loss_or_with_one_rank() -> None:
    assert build(regression(), 1).collectives() == []
    with building() as main:
        wb.static.nn.fc(wb.static.data("x", [None, 2], "float32"), 3)
    assert build(main, 4).collectives() == []


def test_G_12_dense_gradients_are_all_reduced_into_a_new_version_everywhere() -> None:
    (node,) = of_type(build(regression(), 3), ALL_REDUCE)[:1]
    assert [str(v) for v in node.reads] == [f"fc_0.b_0@GRAD@{i}.v0" for i in range(3)]
    assert [str(v) for v in node.writes] == [f"fc_0.b_0@GRAD@{i}.v1" for i in range(3)]


def embedded() -> Any:
    with building() as main:
        ids = wb.static.data("ids", [None, 1], "int64")
        rows = wb.static.nn.embedding(ids, [10, 4], is_sparse=True)
        wb.optimizer.SGD(0.1).minimize(wb.mean(wb.static.nn.fc(rows, 1, num_flatten_dims=2)))
    return main


def test_G_12_sparse_gradients_are_reduced_to_device_0_and_broadcast() -> None:
    graph = build(embedded())
    about = [n for n in graph.collectives() if n.attrs["name"] == "embedding_0.w_0@GRAD"]
    assert [(n.type, n.attrs["root"]) for n in about] == [("reduce", 0), ("broadcast", 0)]
    assert [str(v) for v in about[0].writes] == ["embedding_0.w_0@GRAD@0.v1"]
    assert [str(v) for v in about[1].reads] == ["embedding_0.w_0@GRAD@0.v1"]
    assert [str(v) for v in about[1].writes] == ["embedding_0.w_0@GRAD@1.v1"]
    updates = [n for n in of_type(graph, "sgd") if n.inputs[0].name == "embedding_0.w_0"]
    assert [str(n.inputs[1]) for n in updates] == [f"embedding_0.w_0@GRAD@{i}.v1" for i in (0, 1)]


def test_G_13_in_reduce_mode_only_the_owner_updates_and_nothing_is_broadcast_between_cpus() -> None:
    graph = build(regression((3, 5)), reduce_strategy=REDUCE)
    assert not of_type(graph, ALL_REDUCE) and not of_type(graph, BROADCAST)
    for node in of_type(graph, "sgd"):
        assert node.places == (graph.owners[node.inputs[0].name],)
    assert len(of_type(graph, "sgd")) == 4 == len(of_type(graph, REDUCES))
    sparse = build(embedded(), reduce_strategy=REDUCE)
    assert {n.type for n in sparse.collectives()} == {"reduce"}


def test_G_13_state_and_decay_of_a_parameter_live_with_its_owner() -> None:
    optimizer = wb.optimizer.Momentum(0.1, weight_decay=0.01)
    graph = build(regression((3, 5), optimizer=optimizer), reduce_strategy=REDUCE)
    for node in graph.nodes:
        if node.role & 2:
            (parameter,) = {v.name for v in node.reads if v.name in graph.owners} or {None}
            assert parameter is None or node.places == (graph.owners[parameter],)


def test_G_14_reduce_mode_on_one_rank_is_all_reduce_mode() -> None:
    graph = build(regression(), 1, reduce_strategy=REDUCE)
    assert types(graph) == types(build(regression(), 1)) and not graph.owners


@pytest.mark.parametrize(
    "clip", [wb.nn.ClipGradByValue(1.0), wb.nn.ClipGradByNorm(1.0), wb.nn.ClipGradByGlobalNorm(1.0)]
)
def test_G_15_gradient_clip_works_in_reduce_mode(clip: Any) -> None:
    """The real engine fails here; design section 6 wants it to work."""
    program = regression((3, 5), optimizer=wb.optimizer.SGD(0.1, grad_clip=clip))
    graph = build(program, reduce_strategy=REDUCE)
    for node in of_type(graph, "sgd"):
        assert node.places == (graph.owners[node.inputs[0].name],)
    shared = isinstance(clip, wb.nn.ClipGradByGlobalNorm)
    assert bool(of_type(graph, BROADCAST)) == shared  # the norms of all owners' gradients are needed everywhere


# Hazards


def naive_hazards(graph: Graph) -> set[tuple[Node, Node]]:
    """G-17 said in another way: all pairs of nodes, all values."""
    pairs = set()
    for reader in graph.nodes:
        for writer in graph.nodes:
            clash = any(
                (a.name, a.place, a.version + 1) == (b.name, b.place, b.version)
                for a in reader.reads
                for b in writer.writes
            )
            direct = any(value in writer.reads for value in reader.writes)
            if clash and reader is not writer and not direct:
                pairs.add((reader, writer))
    return pairs


@pytest.mark.parametrize("optimizer", [wb.optimizer.SGD, wb.optimizer.Adam])
@pytest.mark.parametrize("devices", [1, 2])
def test_G_17_readers_of_the_old_version_come_before_the_writer_of_the_new(optimizer: Any, devices: int) -> None:
    graph = build(regression((3, 2), optimizer=optimizer(0.1)), devices)
    expected = naive_hazards(graph)
    assert expected and set(hazards(graph)) == expected
    add_hazard_edges(graph)
    ordered = {(before, node) for before, node, kind in edges(graph) if kind == ORDER}
    assert ordered == expected
    add_hazard_edges(graph)
    assert sum(len(node.after) for node in graph.nodes) == len(expected)


def test_G_17_hazards_are_edges_when_the_passes_have_run() -> None:
    for fields in ({}, {"reduce_strategy": REDUCE}):
        graph = build(regression((3, 2)), 2, **fields)
        run_passes(graph, default_passes(graph.settings))
        ordered = {(before, node) for before, node, kind in edges(graph) if kind == ORDER}
        expected = naive_hazards(graph)
        assert expected and expected <= ordered


def test_G_17_a_node_that_reads_and_writes_orders_itself() -> None:
    graph = build(regression())
    assert not any(node.type == ALL_REDUCE or before.type == ALL_REDUCE for before, node in hazards(graph))


def test_G_17_two_writes_of_one_variable_keep_their_order() -> None:
    graph = build(
        """program
        block 0 {
          var %x: float32[2] data
          var %s: float32[2] persistable
          %s: float32[2] = scale(X=%x) {scale=2.0}
          %s: float32[2] = scale(X=%x) {scale=3.0}
        }""",
        devices=1,
    )
    first, second = graph.nodes
    assert list(hazards(graph)) == [(first, second)]


# Counting

PER_DEVICE = {"mul": 2, "elementwise_add": 2, "mean": 2, "mean_grad": 2, "elementwise_add_grad": 2, "mul_grad": 2}


def versions(graph: Graph, name: str) -> set[str]:
    return {str(v).removeprefix(name + "@") for v in graph.values() if v.name == name}


def test_G_18_counting_all_reduce_mode() -> None:
    graph = build(regression())
    assert types(graph) == {**PER_DEVICE, "scale_loss_grad": 2, "sgd": 4, "all_reduce": 2}
    for name in ("fc_0.w_0", "fc_0.b_0", "fc_0.w_0@GRAD", "fc_0.b_0@GRAD"):
        assert versions(graph, name) == {"0.v0", "0.v1", "1.v0", "1.v1"}
    writer = Uses(graph.nodes).writer
    writer_types = {str(v): node.type for v, node in writer.items() if v.name == "fc_0.w_0@GRAD"}
    assert {text: writer_types[f"fc_0.w_0@GRAD@{text}"] for text in ("0.v0", "0.v1")} == {
        "0.v0": "mul_grad",
        "0.v1": "all_reduce",
    }


def test_G_18_counting_fused() -> None:
    graph = build(regression())
    assert apply(graph, FuseAllReduce()) == [True]
    assert types(graph) == {**PER_DEVICE, "scale_loss_grad": 2, "sgd": 4, "fused_all_reduce": 1}


def test_G_18_counting_reduce_mode() -> None:
    graph = build(regression(), reduce_strategy=REDUCE)
    assert types(graph) == {**PER_DEVICE, "scale_loss_grad": 2, "sgd": 2, "reduce": 2}
    for name in ("fc_0.w_0", "fc_0.b_0"):
        owner = graph.owners[name]
        assert versions(graph, name) == {"0.v0", "1.v0", f"{owner}.v1"}
        assert versions(graph, name + "@GRAD") == {"0.v0", "1.v0", f"{owner}.v1"}


# Owners


def test_G_21_owners_of_the_check_value() -> None:
    graph = build(regression((3, 5, 2, 7), width=1), reduce_strategy=REDUCE)
    order = ["b_3", "w_3", "b_2", "w_2", "b_1", "w_1", "b_0", "w_0"]
    names = [f"fc_{text[2:]}.{text[0]}_0" for text in order]
    assert [node.attrs["name"] for node in of_type(graph, REDUCES)] == [name + "@GRAD" for name in names]
    assert [graph.owners[name] for name in names] == [0, 1, 0, 0, 1, 0, 1, 1]
    assert [node.attrs["root"] for node in of_type(graph, REDUCES)] == [0, 1, 0, 0, 1, 0, 1, 1]


@given(st.lists(st.integers(1, 9), min_size=1, max_size=5), st.integers(2, 5))
def test_G_20_the_owner_is_the_device_with_the_least_load(sizes: list[int], devices: int) -> None:
    graph = build(regression(sizes, width=1), devices, reduce_strategy=REDUCE)
    elements = {v.name: math.prod(v.spec.shape) for v in graph.values()}
    load = [0] * devices
    for node in of_type(graph, REDUCES):
        assert node.attrs["root"] == load.index(min(load))
        load[node.attrs["root"]] += elements[node.attrs["name"]]


# Passes


def test_G_41_all_reduces_of_one_level_are_chained_by_name_descending() -> None:
    """Two parameters whose gradients are ready at the same level: the later name goes first."""
    with building() as main:
        x = wb.static.data("x", [None, 2], "float32")
        a = wb.static.nn.fc(x, 3, bias_attr=False, name="a")
        b = wb.static.nn.fc(x, 3, bias_attr=False, name="b")
        wb.optimizer.SGD(0.1).minimize(wb.mean(a + b))
    graph = build(main)
    level = levels(graph)
    first, second = graph.collectives()
    assert level[first] == level[second]
    assert apply(graph, OrderCollectives()) == [True]
    chained = [node.attrs["name"] for node in graph.collectives()]
    assert chained == ["b.w_0@GRAD", "a.w_0@GRAD"]
    assert graph.collectives()[1].after[-1:] == [graph.collectives()[0]]


def test_G_41_levels_count_before_names() -> None:
    graph = build(regression((2, 2, 2)))
    assert all(apply(graph, OrderCollectives()))
    names = [node.attrs["name"] for node in graph.collectives()]
    assert names == [f"fc_{i}.{p}_0@GRAD" for i in (2, 1, 0) for p in "bw"]
    chain = graph.collectives()
    assert all(before in node.after for before, node in pairwise(chain))


def test_G_42_one_group_per_layer_in_order_of_first_appearance() -> None:
    graph = build(regression((3, 5)))
    assert all(apply(graph, FuseAllReduce()))
    fused = of_type(graph, "fused_all_reduce")
    assert [n.attrs["names"] for n in fused] == [[f"fc_{i}.b_0@GRAD", f"fc_{i}.w_0@GRAD"] for i in (1, 0)]
    assert [n.attrs["bucket"] for n in fused] == [f"@FUSEDVAR@@GRAD@fc_{i}.b_0@GRAD" for i in (1, 0)]


def test_G_42_nothing_on_one_rank() -> None:
    assert apply(build(regression(), 1), FuseAllReduce()) == [False]


# Drawing


def test_G_43_dot_files_name_place_scope_and_version_on_separate_lines() -> None:
    graph = build(regression())
    add_hazard_edges(graph)
    text = graphviz_text(graph)
    assert text.startswith("digraph G {")
    assert r'label="fc_0.w_0@GRAD\nCPUPlace\nscope: 1\nv1"' in text
    assert '[label="all_reduce", shape=box' in text
    assert text.count('label="dummy"') == sum(1 for _, _, kind in edges(graph) if kind == ORDER)


# The loss gradient


@pytest.mark.parametrize(("devices", "trainers"), [(1, 1), (2, 1), (4, 3)])
def test_B_10_the_seed_is_one_over_all_ranks_or_one(devices: int, trainers: int) -> None:
    for strategy in (SCALE.CoeffNumDevice, SCALE.One):
        graph = build(regression(), devices, num_trainers=trainers, gradient_scale_strategy=strategy)
        nodes = of_type(graph, SCALE_LOSS_GRAD)
        assert [n.attrs for n in nodes] == [{"strategy": strategy.name, "ranks": devices * trainers}] * devices
        (loss_gradient,) = nodes[0].writes
        assert loss_gradient.spec.shape == (1,) and loss_gradient.spec.dtype.name == "float32"


def test_B_11_customized_leaves_the_loss_gradient_to_the_user() -> None:
    graph = build(regression(), gradient_scale_strategy=SCALE.Customized)
    assert not of_type(graph, SCALE_LOSS_GRAD)
    (name,) = loss_gradients(graph.program)
    assert name == "mean_0.tmp_0@GRAD"
    written = Uses(graph.nodes).writer
    fed = [v for v in graph.values() if v.name == name]
    assert [str(v) for v in fed] == [f"{name}@0.v0", f"{name}@1.v0"] and not any(v in written for v in fed)


def test_data_edges_go_from_writer_to_reader() -> None:
    graph = build(regression())
    writer = Uses(graph.nodes).writer
    expected = {(writer[v], n) for n in graph.nodes for v in n.reads if v in writer}
    assert {(a, b) for a, b, kind in edges(graph) if kind == DATA} == expected


def test_updates_inside_control_flow_are_refused() -> None:
    graph = build(regression())
    block = graph.program.global_block()
    update = next(op for op in block.ops if op.type == "sgd")
    inner = Block(graph.program, 1, 0)
    inner.ops.append(update)
    graph.program.blocks.append(inner)
    block.add_operator("cond", {}, {}, {"true_block": inner, "op_role": 0}, None)
    with pytest.raises(NotImplementedError, match="'sgd' updates inside the 'cond'"):
        build(graph.program)
