"""What each pass does to a small graph, as text, and when it leaves nodes alone."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

import workbench as wb
from tests.graph.building import REDUCE, apply, build, building, lines, regression, settings, types
from workbench.config import override
from workbench.executors.planning.plan import gradients_of
from workbench.framework.op.elementwise import elementwise
from workbench.framework.op.record import OPS
from workbench.graph.order import ORDER, edges
from workbench.graph.passes import as_pass, default_passes, run_passes
from workbench.graph.passes.coalesce import ROUND_BYTES, gradient_groups
from workbench.graph.passes.dead_code import DeadCode
from workbench.graph.passes.dims import dims_of
from workbench.graph.passes.fusion.add_act import FuseAddAct
from workbench.graph.passes.fusion.all_reduce import FuseAllReduce
from workbench.graph.passes.fusion.bn_act import FuseBnAct, FuseBnAddAct
from workbench.graph.passes.fusion.broadcast import FuseBroadcast
from workbench.graph.passes.fusion.elementwise_chains import LIMIT, ElementwiseChains
from workbench.graph.passes.fusion.optimizer import FuseOptimizer
from workbench.graph.passes.order_collectives import OrderCollectives
from workbench.graph.passes.rewrite import NodePositions
from workbench.graph.passes.sequential import Sequential
from workbench.graph.passes.sync_batch_norm import SyncBatchNorm
from workbench.graph.passes.winograd import Winograd
from workbench.graph.ssa import Graph, Node
from workbench.runtime.words.window import SLOT_BYTES

F = wb.nn.functional


def collective(node: Node) -> bool:
    return node.is_collective


def text(*rows: str) -> str:
    return "\n".join(rows)


def chain(body: str, declared: str = "") -> str:
    """The text of a program over x: [?, 2]."""
    return f"program\nblock 0 {{\n var %x: float32[?, 2] data\n {declared}\n{body}\n}}"


# Dead code


def test_dead_code_drops_what_nobody_reads() -> None:
    graph = build(
        chain("""
          %a: float32[?, 2] = scale(X=%x) {scale=2.0} role=Backward
          %b: float32[?, 2] = tanh(X=%a) role=Backward
          %c: float32[?, 2] = tanh(X=%x) role=Backward
        """),
        devices=1,
        fetches=["c"],
    )
    assert apply(graph, DeadCode()) == [True]
    assert lines(graph) == text("#0 [0] c@0.v0 = tanh(X=x@0.v0) Backward", '#1 [0] fetch([c@0.v0]) {name="c"}')


def test_dead_code_numbers_the_versions_that_are_left() -> None:
    program = chain("""
      %a: float32[?, 2] = scale(X=%x) {scale=2.0} role=Optimize
      %a: float32[?, 2] = scale(X=%x) {scale=3.0} role=Optimize
    """)
    graph = build(program, devices=1, fetches=["a"])
    assert all(apply(graph, DeadCode()))
    assert lines(graph, lambda n: n.is_op) == "#0 [0] a@0.v0 = scale(X=x@0.v0) {scale=3.0} Optimize"


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("%b: float32[?, 2] = tanh(X=%x)", "forward ops can be looked at"),
        ("%s: float32[?, 2] = tanh(X=%x) role=Backward", "it is persistable"),
        ("%b: float32[?, 4] = lookup_table_v2(W=%w, Ids=%i) role=Backward", "an index may be refused"),
    ],
)
def test_dead_code_keeps_what_can_be_observed(line: str, why: str) -> None:
    declared = "var %s: float32[?, 2] persistable\n var %w: float32[9, 4] data\n var %i: int64[?] data"
    assert apply(build(chain(line, declared), devices=1), DeadCode()) == [False], why


def test_dead_code_keeps_collectives_and_what_they_need() -> None:
    with building() as main:
        loss = wb.mean(wb.static.nn.fc(wb.static.data("x", [None, 2], "float32"), 3))
        wb.static.append_backward(loss)
    graph = build(main)
    assert apply(graph, DeadCode()) == [False] and types(graph)["all_reduce"] == 2


def test_dead_code_keeps_ops_of_users() -> None:
    known = set(OPS)
    try:
        elementwise("shows_something", "X -> Out")(lambda xp, x: xp.negative(x))
        graph = build(chain("%b: float32[?, 2] = shows_something(X=%x) role=Backward"), devices=1)
        assert apply(graph, DeadCode()) == [False]
    finally:
        for name in OPS.keys() - known:
            del OPS[name]


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


# Element-wise chains


def test_elementwise_chains() -> None:
    graph = build(
        chain("""
          %a: float32[?, 2] = scale(X=%x) {scale=2.0}
          %b: float32[?, 2] = tanh(X=%a)
          %c: float32[?, 2] = elementwise_mul(X=%b, Y=%a)
          %d: float32[1] = mean(X=%c)
        """),
        devices=1,
        fetches=["d", "b"],
    )
    assert apply(graph, ElementwiseChains()) == [True]
    assert lines(graph, lambda n: n.is_op or n.type == "fused_elementwise") == text(
        "#0 [0] [b@0.v0, c@0.v0] = fused_elementwise([x@0.v0]) "
        "{results=t0 = multiply(x0, 2.0); t1 = tanh(t0); [t1, multiply(t1, t0)], "
        'types=["scale", "tanh", "elementwise_mul"]}',
        "#1 [0] d@0.v0 = mean(X=c@0.v0)",
    )


def test_gradients_join_where_nothing_has_to_be_summed() -> None:
    with building() as main:
        x = wb.static.data("x", [None, 3], "float32")
        h = wb.tanh(wb.static.nn.fc(x, 3) * 2.0) * 3.0
        wb.optimizer.SGD(0.1).minimize(wb.mean(h))
    graph = build(main, devices=1)
    assert all(apply(graph, ElementwiseChains()))
    fused = [node.attrs["types"] for node in graph.nodes if node.type == "fused_elementwise"]
    assert fused == [["elementwise_add", "scale", "tanh", "scale"], ["scale_grad", "tanh_grad", "scale_grad"]]
    assert types(graph)["elementwise_add_grad"] == 1  # sums the bias's gradient over the batch


def test_what_has_no_native_form_stays_apart() -> None:
    """It would take the others out of the kernels with it."""
    with building():
        x = wb.static.data("x", [None, 3], "float32")
        out = wb.tanh(wb.exp(wb.sin(wb.cos(x * 2.0))))
    graph = build(out.block.program, devices=1, fetches=[out.name])
    assert apply(graph, ElementwiseChains(lambda node: node.type != "sin")) == [True]
    fused = [node.attrs["types"] for node in graph.nodes if node.type == "fused_elementwise"]
    assert fused == [["scale", "cos"], ["exp", "tanh"]]


@pytest.mark.parametrize("kept", [True, False])
def test_an_op_with_one_result_for_the_scope_stays_apart(kept: bool) -> None:
    with building() as main:
        x, y = (wb.static.data(name, [4, 3], "float32") for name in "xy")
        for one in (x, y):
            one.stop_gradient = False
        both = wb.static.gradients(wb.mean(wb.tanh(wb.multiply(x, y)) * 2.0), [x, y])
    main.global_block().var(both[1].name).persistable = kept
    graph = build(main, devices=1, fetches=[both[0].name])
    assert apply(graph, ElementwiseChains()) == [True]
    assert types(graph).get("elementwise_mul_grad", 0) == kept


def test_updates_join_in_whatever_order_their_attributes_stand() -> None:
    graph = build(regression((2, 3), optimizer=wb.optimizer.Momentum(0.1, 0.9)), devices=1)
    updates = [node for node in graph.nodes if node.type == "momentum"]
    updates[0].attrs = dict(reversed(updates[0].attrs.items()))
    assert len(updates[0].attrs) > 1 and apply(graph, FuseOptimizer()) == [True]
    assert types(graph)["fused_update"] == 1 and "momentum" not in types(graph)


def test_a_shape_is_looked_up_elsewhere_when_its_value_has_gone() -> None:
    graph = build(regression((2,), activation="tanh"), devices=1)
    assert all(apply(graph, ElementwiseChains()))
    (forward,) = [node for node in graph.nodes if node.type == "fused_elementwise"]
    assert [v.name for v in forward.writes] == ["fc_0.tmp_2"]
    (back,) = [node for node in graph.nodes if node.type == "tanh_grad"]
    assert back.inputs[0] is back.inputs[1] is forward.writes[0]


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("%a: float32[?, 2] = scale(X=%x) {scale=2.0}\n %s: float32[?, 2] = tanh(X=%a)", "writes a persistable"),
        ("%a: float32[?, 2] = scale(X=%x) {scale=2.0}\n %a: float32[?, 2] = tanh(X=%a)", "overwrites"),
        ("%a: float32[?, 2] = scale(X=%x) {scale=2.0}\n %b: float32[1] = mean(X=%a)", "is not element-wise"),
        ("%a: float32[1, 2] = scale(X=%row) {scale=2.0}\n %b: float32[?, 2] = elementwise_add(X=%x, Y=%a)", "grows"),
        ("%a: float32[?, 2] = elementwise_add(X=%x, Y=%y)\n %b: float32[?, 2] = tanh(X=%x)", "are not connected"),
    ],
)
def test_chains_leave_alone_what(body: str, why: str) -> None:
    more = "var %s: float32[?, 2] persistable\n var %y: float32[?, 2] data\n var %row: float32[1, 2] data"
    last = body.split("%")[-1] and body.splitlines()[-1].strip()[1]
    assert apply(build(chain(body, more), devices=1, fetches=[last]), ElementwiseChains()) == [False], why


def test_a_chain_ends_where_an_outsider_reads_it() -> None:
    """`r` reads `a` before `b` is made, so `b` cannot be made later than `r`, nor `a` with it."""
    graph = build(
        chain("""
          %a: float32[?, 2] = tanh(X=%x)
          %r: float32[1] = mean(X=%a)
          %b: float32[?, 2] = elementwise_mul(X=%a, Y=%r)
        """),
        devices=1,
        fetches=["b"],
    )
    assert apply(graph, ElementwiseChains()) == [False]


def test_a_chain_ends_where_a_variable_it_reads_is_overwritten() -> None:
    graph = build(
        chain("""
          %y: float32[?, 2] = softmax(X=%x)
          %a: float32[?, 2] = tanh(X=%y)
          %y: float32[?, 2] = softmax(X=%y)
          %b: float32[?, 2] = scale(X=%a) {scale=2.0}
          %c: float32[?, 2] = tanh(X=%b)
        """),
        devices=1,
        fetches=["c"],
    )
    assert apply(graph, ElementwiseChains()) == [True]
    assert [n.attrs["types"] for n in graph.nodes if n.type == "fused_elementwise"] == [["scale", "tanh"]]


def test_gradients_that_are_summed_stay_out() -> None:
    """A row times a batch: the row's gradient is summed over the batch before it is scaled."""
    with building() as main:
        x = wb.static.data("x", [None, 3], "float32")
        row = main.global_block().create_parameter("row", (1, 3), "float32")
        wb.optimizer.SGD(0.1).minimize(wb.mean(x * (row * 2.0)))
    graph = build(main, devices=1)
    assert apply(graph, ElementwiseChains()) == [False]
    assert types(graph)["elementwise_mul_grad"] == types(graph)["scale_grad"] == 1


def test_long_chains_are_cut() -> None:
    with building() as main:
        x = wb.static.data("x", [2], "float32")
        for _ in range(2 * LIMIT):
            x = wb.multiply(x, x)
    graph = build(main, devices=1, fetches=[x.name])
    assert all(apply(graph, ElementwiseChains()))
    fused = [node for node in graph.nodes if node.type == "fused_elementwise"]
    assert [len(node.attrs["types"]) for node in fused] == [LIMIT, LIMIT]
    assert len(str(graph)) < 20_000  # shared parts are written once


def test_unknown_dimensions_are_equal_only_if_they_come_from_one_place() -> None:
    with building() as main:
        x, y = (wb.static.data(name, [None, 2], "float32") for name in "xy")
        h = wb.tanh(wb.static.nn.fc(x, 2))
        wb.add(h, y)
        wb.mean(h)
    graph = build(main, devices=1)
    dims = {value.name: sizes for value, sizes in dims_of(graph).items()}
    assert dims["x"] == dims["fc_0.tmp_0"] == dims["fc_0.tmp_1"] == dims["tanh_0.tmp_0"] != dims["y"]
    assert dims["elementwise_add_0.tmp_0"][0] not in (dims["x"][0], dims["y"][0])
    assert dims["mean_0.tmp_0"] == (1,) and dims["fc_0.w_0"] == (2, 2)


# Activations


def test_fuse_add_act() -> None:
    graph = build(regression((2,), activation="relu"), devices=1)
    assert apply(graph, FuseAddAct()) == [True]
    assert lines(graph, lambda n: n.type.startswith("fused")) == text(
        "#1 [0] fc_0.tmp_2@0.v0 = fused_elemwise_add_activation(X=fc_0.tmp_0@0.v0, Y=fc_0.b_0@0.v0)",
        "#5 [0] fc_0.tmp_0@GRAD@0.v0, fc_0.b_0@GRAD@0.v0 = fused_elemwise_add_activation_grad("
        "X=fc_0.tmp_0@0.v0, Y=fc_0.b_0@0.v0, Out=fc_0.tmp_2@0.v0, Out@GRAD=fc_0.tmp_2@GRAD@0.v0) Backward",
    )


def test_a_sum_that_is_read_elsewhere_is_kept() -> None:
    program = regression((2,), activation="relu")
    graph = build(program, devices=1, fetches=["fc_0.tmp_1"])
    assert all(apply(graph, FuseAddAct()))
    (node,) = [n for n in graph.nodes if n.type == "fused_elemwise_add_activation"]
    assert [v.name for v in node.writes] == ["fc_0.tmp_2", "fc_0.tmp_1"] and node.attrs["save_intermediate_out"]
    silu = build(regression((2,), activation="silu"), devices=1)
    assert all(apply(silu, FuseAddAct()))
    assert [len(n.writes) for n in silu.nodes if n.type == "fused_elemwise_add_activation"] == [2]


def test_a_sum_stays_before_a_term_is_overwritten() -> None:
    program = chain(
        """
        %s: float32[?, 2] = elementwise_add(X=%x, Y=%y)
        %y: float32[?, 2] = softmax(X=%y)
        %r: float32[?, 2] = relu(X=%s)
        """,
        "var %y: float32[?, 2] data",
    )
    assert apply(build(program, devices=1, fetches=["r"]), FuseAddAct()) == [False]


def test_activations_with_attributes_of_their_own_are_left_alone() -> None:
    program = chain(
        "%s: float32[?, 2] = elementwise_add(X=%x, Y=%x)\n%r: float32[?, 2] = gelu(X=%s) {approximate=True}"
    )
    assert apply(build(program, devices=1, fetches=["r"]), FuseAddAct()) == [False]
    usual = program.replace(" {approximate=True}", "")
    assert apply(build(usual, devices=1, fetches=["r"]), FuseAddAct()) == [True]


def test_a_sum_whose_gradient_has_two_sources_is_left_alone() -> None:
    with building() as main:
        x = wb.static.data("x", [None, 2], "float32")
        s = wb.static.nn.fc(x, 2)
        wb.optimizer.SGD(0.1).minimize(wb.mean(F.relu(s) + s))
    assert apply(build(main), FuseAddAct()) == [False]


def normed(shortcut: Any = None, fetch_norm: bool = False, is_test: bool = False) -> tuple[Any, list[str]]:
    """A batch norm, perhaps plus something, and relu."""
    with building() as main:
        x = wb.static.data("x", [None, 3], "float32")
        y = wb.static.data("y", [None, 3], "float32")
        n = wb.static.nn.batch_norm(x, is_test=is_test)
        total = n if shortcut is None else n + (x if shortcut == "x" else y)
        loss = wb.mean(F.relu(total))
        if not is_test:
            wb.optimizer.SGD(0.1).minimize(loss)
    return main, [n.name] if fetch_norm else [loss.name]


def test_fuse_bn_act() -> None:
    program, fetches = normed()
    graph = build(program, 1, fetches)
    assert apply(graph, FuseBnAct()) == [True]
    statistics = "batch_norm_0.w_1@0.v1, batch_norm_0.w_2@0.v1, batch_norm_0.tmp_0@0.v0, batch_norm_0.tmp_1@0.v0"
    parameters = "Scale=batch_norm_0.w_0@0.v0, Bias=batch_norm_0.b_0@0.v0"
    assert lines(graph, lambda n: n.type.startswith("fused")) == text(
        f"#0 [0] relu_0.tmp_0@0.v0, {statistics} = fused_batch_norm_act(X=x@0.v0, {parameters}, "
        "Mean=batch_norm_0.w_1@0.v0, Variance=batch_norm_0.w_2@0.v0)",
        "#4 [0] batch_norm_0.w_0@GRAD@0.v0, batch_norm_0.b_0@GRAD@0.v0 = fused_batch_norm_act_grad("
        f"X=x@0.v0, {parameters}, Mean=batch_norm_0.w_1@0.v1, Variance=batch_norm_0.w_2@0.v1, Y=relu_0.tmp_0@0.v0, "
        "SavedMean=batch_norm_0.tmp_0@0.v0, SavedVariance=batch_norm_0.tmp_1@0.v0, Y@GRAD=relu_0.tmp_0@GRAD@0.v0) "
        "Backward",
    )
    assert not {"batch_norm", "relu", "relu_grad", "batch_norm_grad"} & types(graph).keys()


def test_fuse_bn_act_of_a_program_that_infers() -> None:
    program, fetches = normed(is_test=True)
    graph = build(program, 1, fetches)
    assert apply(graph, FuseBnAct()) == [True] and "fused_batch_norm_act" in types(graph)


def test_a_norm_that_is_read_elsewhere_is_left_alone() -> None:
    for make, shortcut in ((FuseBnAct, None), (FuseBnAddAct, "x")):
        program, fetches = normed(shortcut, fetch_norm=True)
        assert apply(build(program, 1, fetches), make()) == [False]


def test_fuse_bn_add_act() -> None:
    program, fetches = normed("x")
    graph = build(program, 1, fetches)
    assert apply(graph, FuseBnAct(), FuseBnAddAct()) == [False, True]
    counts = types(graph)
    assert counts["fused_bn_add_activation"] == counts["fused_bn_add_activation_grad"] == 1
    assert not {"batch_norm", "elementwise_add", "relu", "relu_grad", "batch_norm_grad"} & counts.keys()


def test_a_shortcut_of_perhaps_another_batch_is_left_alone() -> None:
    program, fetches = normed("y")
    assert apply(build(program, 1, fetches), FuseBnAddAct()) == [False]


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


# Winograd


def test_winograd_marks_convolutions_of_neighbouring_pixels_and_their_gradients() -> None:
    with building() as main:
        h = wb.static.data("x", [None, 4, 9, 9], "float32")
        for size, more in ((3, {}), (3, {"stride": 2}), (3, {"dilation": 2}), (3, {"groups": 2}), (1, {})):
            h = wb.static.nn.conv2d(h, 4, size, padding="SAME", **more)
        wb.optimizer.SGD(0.1).minimize(wb.mean(h))
    graph = build(main, 1)
    assert apply(graph, Winograd()) == [True] and apply(graph, Winograd()) == [False]
    convolutions = [node for node in graph.nodes if node.type.startswith("conv2d")]
    assert [node.attrs.get("winograd", False) for node in convolutions] == [True, *[False] * 8, True]


# The pipeline


def names_of(passes: list[Any]) -> list[str]:
    return [one.name for one in passes]


def test_the_default_pipeline() -> None:
    assert names_of(default_passes(settings())) == [
        "dead_code", "recompute_late", "fuse_attention", "winograd", "fuse_bn_add_act", "fuse_optimizer",
        "fuse_all_reduce", "order_collectives",
    ]  # fmt: skip


def test_every_switch_adds_its_passes() -> None:
    always = set(names_of(default_passes(settings())))
    for field, added in {
        "sync_batch_norm": {"sync_batch_norm"},
        "fuse_bn_act_ops": {"fuse_bn_act"},
        "fuse_elewise_add_act_ops": {"fuse_add_act", "elementwise_chains"},
        "enable_auto_fusion": {"fuse_add_act", "elementwise_chains"},
        "enable_sequential_execution": {"sequential"},
        "fix_op_run_order": {"sequential"},
        "sequential_run": {"sequential"},
    }.items():
        assert set(names_of(default_passes(settings(**{field: True})))) == always | added, field
    for field, gone in {
        "fuse_all_reduce_ops": {"fuse_all_reduce"},
        "fuse_all_optimizer_ops": {"fuse_optimizer"},
        "fuse_bn_add_act_ops": {"fuse_bn_add_act"},
        "fused_attention": {"fuse_attention"},
        "winograd": {"winograd"},
    }.items():
        assert set(names_of(default_passes(settings(**{field: False})))) == always - gone, field


def test_reduce_mode_joins_broadcasts_and_orders_nothing() -> None:
    pass_names = names_of(default_passes(settings(reduce_strategy=REDUCE)))
    assert pass_names == [
        "dead_code", "recompute_late", "fuse_attention", "winograd", "fuse_bn_add_act", "fuse_broadcast",
    ]  # fmt: skip


def test_drawings_are_written_at_three_points(tmp_path: Path) -> None:
    path = str(tmp_path / "folder" / "g")
    graph = build(regression(), debug_graphviz_path=path)
    run_passes(graph, default_passes(graph.settings))
    drawn = {p.name: p.read_text() for p in (tmp_path / "folder").iterdir()}
    assert set(drawn) == {"g_original_graph", "g_fused_graph", "g_multi_devices_graph"}
    counts = {name: (text.count('"sgd"'), text.count('"all_reduce"')) for name, text in drawn.items()}
    assert counts == {"g_original_graph": (4, 2), "g_fused_graph": (0, 2), "g_multi_devices_graph": (0, 0)}


def drop_last(graph: Graph) -> None:
    graph.nodes.pop()


def test_users_append_passes_that_run_before_nodes_are_put_in_order() -> None:
    strategy = wb.static.BuildStrategy()
    strategy.append_pass(drop_last)
    strategy.append_pass(_Exact())
    passes = default_passes(strategy.resolved(2))
    assert names_of(passes)[-3:] == ["drop_last", "mine", "order_collectives"]
    graph = build(regression(), fetches=["mean_0.tmp_0"])
    assert "drop_last" in run_passes(graph, passes) and graph.nodes[-1].type != "fetch"


class _Exact:
    name = "mine"
    exact = True

    def __call__(self, graph: Graph) -> bool:
        return False


def test_exact_leaves_out_what_does_not_say_that_it_is() -> None:
    strategy = wb.static.BuildStrategy()
    strategy.exact = strategy.sync_batch_norm = True
    strategy.append_pass(drop_last)
    strategy.append_pass(_Exact())
    pass_names = names_of(default_passes(strategy.resolved(2)))
    assert "mine" in pass_names and "sync_batch_norm" in pass_names
    assert not {"drop_last", "winograd"} & set(pass_names)


def test_what_cannot_be_called_is_no_pass() -> None:
    with pytest.raises(TypeError, match="cannot be called"):
        as_pass("fuse")


def test_an_error_names_its_pass() -> None:
    def broken(graph: Graph) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError) as caught:
        run_passes(build(regression()), [as_pass(broken)])
    assert caught.value.__notes__ == ["in graph pass 'broken'"]


def test_nodes_that_are_joined_take_their_ordering_edges_along() -> None:
    graph = build(regression())
    first, second = graph.collectives()
    update = next(node for node in graph.nodes if node.type == "sgd")
    scale = next(node for node in graph.nodes if node.type == "scale_loss_grad")
    first.after.append(scale)
    update.after.append(first)
    assert all(apply(graph, FuseAllReduce()))
    (fused,) = graph.collectives()
    assert fused.after == [scale] and update.after == [fused] and second not in graph.nodes
    assert {(a, b) for a, b, kind in edges(graph) if kind == ORDER} == {(scale, fused), (fused, update)}


def test_an_ordering_edge_keeps_nodes_from_moving() -> None:
    graph = build(regression())
    first, second = graph.collectives()
    between = graph.nodes[graph.nodes.index(first) + 1]
    between.after.append(first)
    assert NodePositions(graph, [first, second]).runs([first, second]) == [[first], [second]]
    assert apply(graph, FuseAllReduce()) == [False]
