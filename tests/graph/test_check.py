"""The checker names node and value of everything that can be wrong with a graph."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import workbench as wb
from tests.graph.building import REDUCE, SCALE, build, regression
from workbench.framework.expr.expr import Expr
from workbench.framework.values.place import CPUPlace
from workbench.graph.build import build_graph
from workbench.graph.check import check_graph, problems
from workbench.graph.passes.fusion.all_reduce import FuseAllReduce
from workbench.graph.passes.fusion.elementwise_chains import ElementwiseChains
from workbench.graph.passes.fusion.optimizer import FuseOptimizer
from workbench.graph.ssa import Graph, Node, Value


def find(graph: Graph, kind: str) -> Node:
    return next(node for node in graph.nodes if node.type == kind)


def trained(**fields: object) -> Graph:
    return build(regression((3,), activation="tanh"), 2, ["mean_0.tmp_0"], **fields)


@pytest.mark.parametrize("strategy", list(SCALE))
@pytest.mark.parametrize("devices", [1, 2, 5])
def test_what_is_built_is_well_formed(strategy: object, devices: int) -> None:
    for fields in ({}, {"reduce_strategy": REDUCE}):
        graph = build(regression((3, 2)), devices, gradient_scale_strategy=strategy, **fields)
        assert problems(graph) == []


# What is done to a graph, and what is said of it. The patterns name a node and a value.


def swap(graph: Graph) -> None:
    graph.nodes[0], graph.nodes[2] = graph.nodes[2], graph.nodes[0]


def twice_the_node(graph: Graph) -> None:
    graph.nodes.append(graph.nodes[0])


def two_writers(graph: Graph) -> None:
    first, second = graph.nodes[0], graph.nodes[2]
    second.outputs = list(first.outputs)


def reads_nothing(graph: Graph) -> None:
    old = graph.nodes[2].inputs[0]
    graph.nodes[2].inputs[0] = Value("ghost", 0, 0, old.spec)


def fed_by_nobody(graph: Graph) -> None:
    old = graph.nodes[0].inputs[1]
    old.persistable = False


def gap(graph: Graph) -> None:
    find(graph, "sgd").outputs[0].version = 5


def late_reader(graph: Graph) -> None:
    """A metric that reads the parameter after its update as if it were before."""
    update = find(graph, "sgd")
    old, new = update.inputs[0], update.outputs[0]
    graph.nodes.append(Node("tanh", (0,), [old], [graph.fresh(new, "metric")], {}, 0))


def edge_backwards(graph: Graph) -> None:
    graph.nodes[0].after.append(graph.nodes[4])


def edge_to_nowhere(graph: Graph) -> None:
    graph.nodes[5].after.append(Node("tanh", (0,), [], [], {}, 0))


def elsewhere(graph: Graph) -> None:
    graph.nodes[2].inputs[1] = graph.nodes[3].inputs[1]


def on_two_devices(graph: Graph) -> None:
    find(graph, "tanh").places = (0, 1)


def too_few_slots(graph: Graph) -> None:
    graph.nodes[0].inputs.pop()


def missing_input(graph: Graph) -> None:
    graph.nodes[0].inputs[1] = None


def list_for_one(graph: Graph) -> None:
    graph.nodes[0].inputs[1] = [graph.nodes[0].inputs[1]]


def unknown_op(graph: Graph) -> None:
    graph.nodes[0].type = "mull"


def part_missing(graph: Graph) -> None:
    node = find(graph, "all_reduce")
    node.inputs[0].pop()
    node.outputs[0].pop()


def not_everywhere(graph: Graph) -> None:
    part_missing(graph)
    find(graph, "all_reduce").places = (0,)


def other_shape(graph: Graph) -> None:
    value = find(graph, "all_reduce").inputs[0][1]
    value.spec = value.spec.with_shape((7,))


def other_name(graph: Graph) -> None:
    find(graph, "all_reduce").attrs["name"] = "w"


def fetch_of_one(graph: Graph) -> None:
    graph.nodes[-1].inputs[0].pop()


CASES = [
    (swap, r"node #0 .*elementwise_add.*: reads fc_0.tmp_0@0.v0, which node #2 writes no earlier"),
    (twice_the_node, r"node #25 .*mul.*stands in the graph twice"),
    (two_writers, r"node #2 .*: writes fc_0.tmp_0@0.v0, which exists already"),
    (reads_nothing, r"node #2 .*: reads ghost@0.v0, which nothing writes and nobody feeds"),
    (fed_by_nobody, r"node #0 .*: reads fc_0.w_0@0.v0, which nothing writes and nobody feeds"),
    (gap, r"sgd.*: writes fc_0.b_0@0.v5 after fc_0.b_0@0.v0; expected version 1"),
    (late_reader, r"tanh.*: reads fc_0.b_0@0.v0, though fc_0.b_0@0.v1 has been written before it"),
    (edge_backwards, r"node #0 .*: comes after node #4, which does not stand before it"),
    (edge_to_nowhere, r"node #5 .*: comes after Node\(tanh on 0, Forward\), which is not in the graph"),
    (elsewhere, r"node #2 .*: fc_0.b_0@1.v0 is on device 1, where the node does not act"),
    (on_two_devices, r"tanh.*: acts on 2 devices; expected one"),
    (too_few_slots, r"node #0 .*: has 1 input slots; expected X, Y"),
    (missing_input, r"node #0 .*: the input Y is missing"),
    (list_for_one, r"node #0 .*: the input Y takes one value"),
    (unknown_op, r"node #0 .*: there is no op 'mull'"),
    (part_missing, r"all_reduce.*: reads fc_0.b_0@GRAD@0.v0; expected one value on each of devices \[0, 1\]"),
    (not_everywhere, r"all_reduce.*: acts on devices \[0\]; expected all, \[0, 1\]"),
    (other_shape, r"all_reduce.*: fc_0.b_0@GRAD@1.v0 is float32\[7\], but fc_0.b_0@GRAD@0.v0 is float32\[3\]"),
    (other_name, r"all_reduce.*: the names \['w'\] are not those of what it reads"),
    (fetch_of_one, r"fetch.*: a fetch takes one list with a value per device"),
]


@pytest.mark.parametrize(("spoil", "said"), CASES, ids=lambda case: getattr(case, "__name__", ""))
def test_what_is_wrong_is_named(spoil: Callable[[Graph], None], said: str) -> None:
    graph = trained()
    spoil(graph)
    with pytest.raises(ValueError, match=said):
        check_graph(graph)


def test_a_reduce_goes_to_its_root() -> None:
    graph = trained(reduce_strategy=REDUCE)
    node = find(graph, "reduce")
    node.attrs["root"] = 1 - node.attrs["root"]
    assert any("expected one value on each of devices [1]" in text for text in problems(graph))


def test_joined_nodes_are_looked_into() -> None:
    graph = trained()
    assert FuseOptimizer()(graph) and FuseAllReduce()(graph) and ElementwiseChains()(graph) and not problems(graph)
    update, reduce, chain = (find(graph, k) for k in ("fused_update", "fused_all_reduce", "fused_elementwise"))
    update.inputs[1].pop()
    reduce.attrs["names"].reverse()
    chain.attrs["results"].append(Expr("input", value=7))
    text = "\n".join(problems(graph))
    assert "lists with one entry per parameter, all equally long" in text
    assert "the names ['fc_0.w_0@GRAD', 'fc_0.b_0@GRAD'] are not those of what it reads" in text
    assert "has 2 expressions for 1 results" in text and "the expressions read inputs [0, 1, 7] of 2" in text


def test_a_persistable_may_be_written_without_being_read() -> None:
    text = """program
    block 0 {
      var %x: float32[2] data
      var %s: float32[2] persistable
      %s: float32[2] = scale(X=%x) {scale=2.0}
    }"""
    graph = build(text, 1)
    assert [value.version for value in graph.nodes[0].writes] == [1]


def test_the_loss_gradient_may_be_fed() -> None:
    graph = trained(gradient_scale_strategy=SCALE.Customized)
    assert problems(graph) == []
    (value,) = [v for v in graph.values() if str(v) == "mean_0.tmp_0@GRAD@0.v0"]
    assert not value.persistable and not value.is_data


def test_many_problems_are_counted_and_some_told() -> None:
    graph = trained()
    for node in graph.nodes:
        node.places = (0, 1)
    with pytest.raises(ValueError, match=r"has \d+ problems:") as caught:
        check_graph(graph)
    assert len(str(caught.value).splitlines()) == 22 and "- and " in str(caught.value).splitlines()[-1]


def test_an_error_names_the_users_line() -> None:
    program = wb.static.Program()
    with wb.static.program_guard(program, wb.static.Program()):
        wb.enable_static()
        try:
            wb.tanh(wb.static.data("x", [2], "float32"))  # the line
        finally:
            wb.disable_static()
    graph = build_graph(program, [CPUPlace()], build(program, 1).settings)
    graph.nodes[0].inputs[0] = None
    with pytest.raises(ValueError, match=r"tanh.*test_check.py, line \d+"):
        check_graph(graph)
