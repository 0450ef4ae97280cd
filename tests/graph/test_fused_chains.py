"""Element-wise chains and activations made one node: what is joined in a small graph, and what stays apart."""

from __future__ import annotations

import pytest

import workbench as wb
from tests.graph.building import apply, build, building, lines, regression, types
from tests.graph.test_passes import F, chain, normed, text
from workbench.graph.passes.dims import dims_of
from workbench.graph.passes.fusion.add_act import FuseAddAct
from workbench.graph.passes.fusion.bn_act import FuseBnAct, FuseBnAddAct
from workbench.graph.passes.fusion.elementwise_chains import LIMIT, ElementwiseChains
from workbench.graph.passes.fusion.optimizer import FuseOptimizer

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
        f"X=x@0.v0, {parameters}, Mean=batch_norm_0.tmp_0@0.v0, Variance=batch_norm_0.tmp_1@0.v0, Y=relu_0.tmp_0@0.v0, "
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
