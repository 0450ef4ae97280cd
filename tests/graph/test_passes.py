"""Dead code, Winograd, and the pipeline of all passes with those of users."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import workbench as wb
from tests.graph.building import REDUCE, apply, build, building, lines, regression, settings, types
from workbench.framework.op.elementwise import elementwise
from workbench.framework.op.record import OPS
from workbench.graph.order import ORDER, edges
from workbench.graph.passes import as_pass, default_passes, run_passes
from workbench.graph.passes.dead_code import DeadCode
from workbench.graph.passes.fusion.all_reduce import FuseAllReduce
from workbench.graph.passes.rewrite import NodePositions
from workbench.graph.passes.winograd import Winograd
from workbench.graph.ssa import Graph

F = wb.nn.functional


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


# Winograd


def test_winograd_marks_convolutions_of_neighbouring_pixels_and_their_gradients() -> None:
    with building() as main:
        h = wb.static.data("x", [None, 4, 9, 9], "float32")
        for size, more in (
            (3, {}),
            (3, {"stride": 2}),
            (3, {"dilation": 2, "padding": 2}),
            (3, {"groups": 2}),
            (1, {}),
        ):
            h = wb.static.nn.conv2d(h, 4, size, **{"padding": "SAME"} | more)
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
