"""Passes about gradients, updates and collectives: what they do to a small graph, and when they leave nodes alone."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

import workbench as wb
from tests.graph.building import REDUCE, apply, build, building, lines, regression, types
from tests.graph.test_passes import chain, normed
from workbench.config import override
from workbench.executors.planning.plan import gradients_of
from workbench.framework.op.record import OPS
from workbench.graph.order import edges
from workbench.graph.passes.coalesce import ROUND_BYTES, gradient_groups
from workbench.graph.passes.fusion.all_reduce import FuseAllReduce
from workbench.graph.passes.fusion.broadcast import FuseBroadcast
from workbench.graph.passes.fusion.optimizer import FuseOptimizer
from workbench.graph.passes.order_collectives import OrderCollectives
from workbench.graph.passes.sequential import Sequential
from workbench.graph.passes.sync_batch_norm import SyncBatchNorm
from workbench.graph.ssa import Node
from workbench.runtime.words.window import SLOT_BYTES


def collective(node: Node) -> bool:
    return node.is_collective


# All-reduce


def test_fuse_all_reduce() -> None:
    graph = build(regression())
    assert apply(graph, FuseAllReduce()) == [True]
    parts = ", ".join(f"[fc_0.{p}_0@GRAD@0.v0, fc_0.{p}_0@GRAD@1.v0]" for p in "bw")
    assert lines(graph, collective) == (
        f"#14 [0,1] == {parts.replace('v0', 'v1')} = fused_all_reduce({parts}) "
        '{names=["fc_0.b_0@GRAD", "fc_0.w_0@GRAD"], bucket="@FUSEDVAR@@GRAD@fc_0.b_0@GRAD"} Backward'
    )
    assert [node.type for node in graph.nodes[12:16]] == ["mul_grad", "mul_grad", "fused_all_reduce", "sgd"]


def names(groups: list[list[Node]]) -> list[list[str]]:
    return [[node.attrs["name"].removesuffix("@GRAD") for node in group] for group in groups]


def test_gradients_are_grouped_by_size_if_a_flag_says_so() -> None:
    graph = build(regression((512, 512, 2), width=512))  # 1 MiB and a little, twice; 4 KiB
    by_layer = [["fc_2.b_0", "fc_2.w_0"], ["fc_1.b_0", "fc_1.w_0"], ["fc_0.b_0", "fc_0.w_0"]]
    assert names(gradient_groups(graph)) == by_layer
    with override(fuse_parameter_memory_size=1.0):
        assert names(gradient_groups(graph)) == [by_layer[0] + by_layer[1], by_layer[2]]
    with override(fuse_parameter_memory_size=100.0):
        assert names(gradient_groups(graph)) == [[*by_layer[0], *by_layer[1], *by_layer[2]]]
    with override(fuse_parameter_memory_size=100.0, fuse_parameter_groups_size=2):
        assert names(gradient_groups(graph)) == [by_layer[0] + by_layer[1], by_layer[2]]
    with override(fuse_parameter_memory_size=0.0):
        assert names(gradient_groups(graph)) == [[*by_layer[0], *by_layer[1], *by_layer[2]]]


def test_among_processes_gradients_are_grouped_as_they_travel_at_once() -> None:
    graph = build(regression((128,) * 6 + (2,), width=128))  # six layers of 64.5 KiB; one of 1 KiB
    assert [len(group) for group in gradient_groups(graph)] == [2] * 7
    graph.settings = replace(graph.settings, num_trainers=2)
    assert [len(group) for group in gradient_groups(graph)] == [4, 2, 2, 2, 2, 2]  # 128 KiB a device
    with override(fuse_parameter_memory_size=100.0):
        assert [len(group) for group in gradient_groups(graph)] == [14]
    assert ROUND_BYTES == SLOT_BYTES


def test_among_processes_updates_have_the_order_in_which_gradients_travel() -> None:
    passes = FuseOptimizer(), FuseAllReduce()
    alone = build(regression((3,) * 12 + (2,)))
    assert all(apply(alone, *passes))
    together = build(regression((3,) * 12 + (2,)))
    together.settings = replace(together.settings, num_trainers=2)
    assert all(apply(together, *passes))
    orders = []
    for graph in (alone, together):
        update = next(node for node in graph.nodes if node.type == "fused_update")
        orders.append([value.name.split("@")[0].split(".")[0] for value in gradients_of(update)][::2])
    assert orders == [sorted(orders[0]), [f"fc_{layer}" for layer in reversed(range(13))]]


def test_among_processes_gradients_travel_with_those_of_the_same_update() -> None:
    def body() -> Any:
        x = wb.static.data("x", [None, 3])
        for _ in range(3):
            x = wb.static.nn.fc(x, 3, bias_attr=wb.ParamAttr(learning_rate=2.0))
        return wb.mean(x)

    with building() as main:
        wb.optimizer.SGD(0.1).minimize(body())
    graph = build(main)
    graph.settings = replace(graph.settings, num_trainers=2)
    assert apply(graph, FuseOptimizer()) == [True]
    assert names(gradient_groups(graph)) == [[f"fc_{n}.{kind}_0" for n in (2, 1, 0)] for kind in "bw"]


def test_gradients_of_several_dtypes_and_sparse_ones_travel_apart() -> None:
    with building() as main:
        ids = wb.static.data("ids", [None, 1], "int64")
        h = wb.static.nn.fc(wb.static.nn.embedding(ids, [9, 4], is_sparse=True), 4, num_flatten_dims=2, name="a")
        wide = wb.static.nn.fc(h.astype("float64"), 2, num_flatten_dims=2, name="b")
        wb.optimizer.SGD(0.1).minimize(wb.mean(wide))
    with override(fuse_parameter_memory_size=100.0):
        graph = build(main)
        assert names(gradient_groups(graph)) == [["b.b_0", "b.w_0"], ["a.b_0", "a.w_0"]]
        assert all(apply(graph, FuseAllReduce()))
    assert types(graph)["fused_all_reduce"] == 2 and types(graph)["reduce"] == types(graph)["broadcast"] == 1


def test_gradients_of_unknown_shape_travel_alone() -> None:
    graph = build(regression())
    for value in (*graph.collectives()[0].reads, *graph.collectives()[0].writes):
        value.spec = value.spec.with_shape((-1,))
    assert names(gradient_groups(graph)) == [["fc_0.w_0"]]


def test_a_gradient_needed_before_its_group_is_complete_travels_alone() -> None:
    graph = build(regression())
    first, second = graph.collectives()
    early = Node("tanh", (0,), [first.writes[0]], [graph.fresh(first.writes[0], "early")], {}, 1)
    graph.nodes.insert(graph.nodes.index(first) + 1, early)
    assert apply(graph, FuseAllReduce()) == [False]
    assert graph.collectives() == [first, second]


# Updates


def test_fuse_optimizer() -> None:
    graph = build(regression(optimizer=wb.optimizer.Momentum(0.1)), devices=1)
    assert apply(graph, FuseOptimizer()) == [True]
    assert lines(graph, lambda n: n.type == "fused_update") == (
        "#7 [0] [fc_0.b_0@0.v1, fc_0.w_0@0.v1], [fc_0.b_0_velocity_0@0.v1, fc_0.w_0_velocity_0@0.v1] = fused_update("
        "Param=[fc_0.b_0@0.v0, fc_0.w_0@0.v0], Grad=[fc_0.b_0@GRAD@0.v0, fc_0.w_0@GRAD@0.v0], "
        "LearningRate=[learning_rate_0@0.v0, learning_rate_0@0.v0], "
        "Velocity=[fc_0.b_0_velocity_0@0.v0, fc_0.w_0_velocity_0@0.v0]) "
        '{update="momentum", attrs={mu: 0.9, use_nesterov: False}} Optimize'
    )


def test_fuse_optimizer_leaves_absent_slots_absent_and_keeps_all_origins() -> None:
    graph = build(regression((2, 3), optimizer=wb.optimizer.RMSProp(0.1)), devices=1)
    assert all(apply(graph, FuseOptimizer()))
    (node,) = [n for n in graph.nodes if n.type == "fused_update"]
    absent = [slot.name for slot, value in zip(OPS["rmsprop"].inputs, node.inputs, strict=True) if value is None]
    assert absent in ([], ["MeanGrad"])
    assert [op.input("Param") for op in node.origins] == [[f"fc_{i}.{p}_0"] for i in (0, 1) for p in "bw"]


def test_updates_that_differ_are_not_joined() -> None:
    """Another rate, a sparse gradient, another device."""
    with building() as main:
        ids = wb.static.data("ids", [None, 1], "int64")
        rows = wb.static.nn.embedding(ids, [9, 4], is_sparse=True)
        slow = wb.ParamAttr(learning_rate=0.5)
        h = wb.static.nn.fc(rows, 4, num_flatten_dims=2, weight_attr=slow)
        wb.optimizer.SGD(0.1).minimize(wb.mean(wb.static.nn.fc(h, 2, num_flatten_dims=2)))
    graph = build(main)
    assert all(apply(graph, FuseOptimizer()))
    fused = [node for node in graph.nodes if node.type == "fused_update"]
    joined = ["fc_0.b_0", "fc_1.b_0", "fc_1.w_0"]
    assert [[v.name for v in node.inputs[0]] for node in fused] == [joined, joined]
    assert [node.places for node in fused] == [(0,), (1,)]
    alone = [node.inputs[0].name for node in graph.nodes if node.type == "sgd"]
    assert alone == ["embedding_0.w_0"] * 2 + ["fc_0.w_0"] * 2


def test_an_update_stays_before_its_gradient_is_overwritten() -> None:
    declared = (
        "\n".join(f"parameter %{p}: float32[2]\n var %{p}@GRAD: float32[2] data" for p in "pq")
        + "\n var %rate: float32[1] persistable"
    )
    update = "ParamOut=%{0} = sgd(Param=%{0}, Grad=%{0}@GRAD, LearningRate=%rate) role=Optimize"
    spoil = "%p@GRAD: float32[2] = scale(X=%p@GRAD) {scale=2.0} role=Optimize"
    rows = [update.format("p"), spoil, update.format("q")]
    assert apply(build(chain("\n".join(rows), declared), devices=1), FuseOptimizer()) == [False]
    rows.reverse()
    assert apply(build(chain("\n".join(rows), declared), devices=1), FuseOptimizer()) == [True]


def test_an_update_needed_early_is_not_moved() -> None:
    with building() as main:
        x = wb.static.data("x", [None, 2], "float32")
        wb.optimizer.SGD(0.1).minimize(wb.mean(wb.static.nn.fc(x, 2)))
        block = main.global_block()
        first = next(i for i, op in enumerate(block.ops) if op.type == "sgd")
        new = block.create_var("copy", block.var("fc_0.b_0").shape, "float32")
        block.insert_op(first + 1, "scale", inputs={"X": "fc_0.b_0"}, outputs={"Out": new}, attrs={"scale": 2.0})
    graph = build(main, devices=1, fetches=["copy"])
    assert apply(graph, FuseOptimizer()) == [False]


# Broadcasts


def test_fuse_broadcast() -> None:
    optimizer = wb.optimizer.SGD(0.1, grad_clip=wb.nn.ClipGradByGlobalNorm(1.0))
    graph = build(regression((3, 5), optimizer=optimizer), reduce_strategy=REDUCE)
    before = [node for node in graph.nodes if node.type == "broadcast"]
    roots = [node.attrs["root"] for node in before]
    assert sorted(roots) == [0, 0, 0, 1]
    assert apply(graph, FuseBroadcast()) == [True]
    (node,) = [node for node in graph.nodes if node.type == "fused_broadcast"]
    members = [n for n in before if n.attrs["root"] == 0]
    assert node.attrs == {"names": [n.attrs["name"] for n in members], "root": 0}
    assert node.inputs == [n.inputs[0] for n in members] and node.outputs == [n.outputs[0] for n in members]
    assert types(graph)["broadcast"] == 1


# Order


def test_order_collectives_chains_in_the_text() -> None:
    graph = build(regression())
    assert all(apply(graph, OrderCollectives()))
    first, second = lines(graph, collective).splitlines()
    assert first.startswith("#12 ") and " after " not in first
    assert second.startswith("#15 ") and second.endswith("Backward after #12")


def test_order_collectives_is_the_same_for_any_order_of_the_nodes() -> None:
    """Trainers that list independent nodes in another order find the same chain."""

    def two_branches(swap: bool) -> list[str]:
        with building() as main:
            x = wb.static.data("x", [None, 2], "float32")
            heads = [wb.static.nn.fc(x, 3, name=name) for name in ("ba" if swap else "ab")]
            wb.optimizer.SGD(0.1).minimize(wb.mean(heads[0] + heads[1]))
        graph = build(main)
        assert all(apply(graph, OrderCollectives()))
        return [node.attrs["name"] for node in graph.collectives()]

    assert two_branches(False) == two_branches(True)


def test_one_collective_needs_no_order() -> None:
    with building() as main:
        x = wb.static.data("x", [None, 2], "float32")
        wb.optimizer.SGD(0.1).minimize(wb.mean(wb.static.nn.fc(x, 3, bias_attr=False)))
    assert apply(build(main), OrderCollectives()) == [False]


def test_sequential() -> None:
    graph = build(regression())
    assert apply(graph, Sequential()) == [True]
    for place in (0, 1):
        here = [node for node in graph.nodes if place in node.places]
        ordered = {(before, node) for before, node, _ in edges(graph)}
        assert all(pair in ordered for pair in pairwise(here))
    assert apply(graph, Sequential()) == [False]


# Synchronised batch norm


def test_sync_batch_norm() -> None:
    program, fetches = normed()
    graph = build(program, 2, fetches, sync_batch_norm=True)
    assert apply(graph, SyncBatchNorm()) == [True]
    kinds = [(n.type, n.places) for n in graph.nodes if "norm" in n.type or n.attrs.get("name", "").endswith("@SUMS")]
    both = [((0,), (1,)), ((0,), (1,))]
    expected = []
    for kind, places in zip(("batch_norm", "batch_norm_grad"), both, strict=True):
        expected += [(f"{kind}_sums", p) for p in places] + [("all_reduce", (0, 1))]
        expected += [(f"{kind}_with_sums", p) for p in places]
    assert kinds == expected
    assert lines(graph, lambda n: n.attrs.get("name") == "batch_norm_0.tmp_2@SUMS") == (
        "#2 [0,1] == [batch_norm_0.tmp_2@SUMS@ALL@0.v0, batch_norm_0.tmp_2@SUMS@ALL@1.v0] = all_reduce("
        "[batch_norm_0.tmp_2@SUMS@0.v0, batch_norm_0.tmp_2@SUMS@1.v0]) "
        '{name="batch_norm_0.tmp_2@SUMS"}'
    )


def test_sync_batch_norm_leaves_inference_and_single_devices_alone() -> None:
    program, fetches = normed(is_test=True)
    assert apply(build(program, 2, fetches), SyncBatchNorm()) == [False]
    program, fetches = normed()
    assert apply(build(program, 1, fetches), SyncBatchNorm()) == [False]


def test_sums_of_statistics_are_no_gradients() -> None:
    program, fetches = normed()
    graph = build(program, 2, fetches)
    assert all(apply(graph, SyncBatchNorm(), FuseAllReduce()))
    assert types(graph)["all_reduce"] == 2 and types(graph)["fused_all_reduce"] == 1


def test_sync_batch_norm_inside_control_flow_is_refused() -> None:
    with building() as main:
        x = wb.static.data("x", [None, 3], "float32")
        wb.static.nn.cond(wb.mean(x) > 0.0, lambda: x + 1.0, lambda: x)
        block = main.blocks[1]
        for name in "mv":
            main.global_block().create_var(name, (3,), "float32", persistable=True)
        block.append_op("batch_norm", inputs={"X": x, "Mean": "m", "Variance": "v"}, outputs={})
    graph = build(regression(), 2)
    graph.program = main
    with pytest.raises(NotImplementedError, match=r"sync_batch_norm: the batch_norm at .* inside the 'cond'"):
        SyncBatchNorm()(graph)
