"""Which products and softmaxes become one node, and which are left alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.graph.building import apply, build, building, lines, types
from tests.graph.interpret import bits, interpret, some_values
from workbench import static
from workbench.graph.passes.fusion.attention import FuseAttention

F = wb.nn.functional
ONE, BACK = "fused_dot_product_attention", "fused_dot_product_attention_grad"
Form = Callable[[Any, Any, Any, Any], Any]


def program(form: Form, keys: int | None = 256, trains: bool = True, mask_learns: bool = False) -> Any:
    """A model of one attention: [batch, 4, 8] of queries, as many parameters as it takes."""
    with building() as main:
        x, y = static.data("x", [None, 9, 8]), static.data("y", [None, keys or -1, 8])
        q, k, v = (static.nn.fc(t, 8, num_flatten_dims=2, bias_attr=False) for t in (x, y, y))
        mask = static.create_parameter([9, keys or 1], "float32") if mask_learns else static.data("m", [9, keys or 1])
        out = form(q, k, v, mask)
        if trains:
            wb.optimizer.SGD(0.1).minimize(wb.mean(out * out))
    return main


def plain(q: Any, k: Any, v: Any, mask: Any) -> Any:
    return wb.matmul(F.softmax(wb.matmul(q, k, transpose_y=True) * 0.5 + mask), v)


def late_values(q: Any, k: Any, v: Any, mask: Any) -> Any:
    """The gradient of the values is read before that of the scores is there."""
    weights = F.softmax(wb.matmul(q, k, transpose_y=True))
    return wb.matmul(weights, wb.tanh(v))


def divided(q: Any, k: Any, v: Any, mask: Any) -> Any:
    return wb.matmul(F.softmax(mask + wb.matmul(q, wb.transpose(k, [0, 2, 1])) / 2.0), v)


def start_of(keys: int = 256) -> Any:
    """Feeds of three, whatever their names."""
    shapes = {"x": (3, 9, 8), "y": (3, keys, 8)}
    other = some_values()
    rng = np.random.default_rng(0)
    return lambda v: rng.standard_normal(shapes[v.name], np.float32) if v.name in shapes else other(v)


@pytest.mark.parametrize("form", [plain, late_values, divided])
@pytest.mark.parametrize("trains", [True, False])
def test_attention_becomes_one_node_with_the_same_bits(form: Form, trains: bool) -> None:
    main = program(form, trains=trains)
    fetches = ["mean_0.tmp_0"] if trains else [list(main.all_ops())[-1].output_arg_names[0]]
    graph, other = build(main, 2, fetches), build(main, 2, fetches)
    assert apply(graph, FuseAttention()) == [True] and apply(graph, FuseAttention()) == [False]
    counts = types(graph)
    assert counts[ONE] == 2 and counts.get(BACK, 0) == 2 * trains
    assert not counts.keys() & {"softmax", "matmul_v2", "softmax_grad", "matmul_v2_grad", "scale", "scale_grad"}
    assert bits(interpret(graph, start_of())) == bits(interpret(other, start_of()))


def test_its_text() -> None:
    graph = build(program(plain), 1, ["mean_0.tmp_0"])
    assert apply(graph, FuseAttention()) == [True]
    assert lines(graph, lambda node: node.type in (ONE, BACK)) == (
        "#3 [0] matmul_v2_1.tmp_0@0.v0 = fused_dot_product_attention(Q=fc_0.tmp_0@0.v0, K=fc_1.tmp_0@0.v0, "
        "V=fc_2.tmp_0@0.v0, Mask=m@0.v0) {by=0.5}\n"
        "#10 [0] fc_0.tmp_0@GRAD@0.v0, fc_1.tmp_0@GRAD@0.v0, fc_2.tmp_0@GRAD@0.v0 = "
        "fused_dot_product_attention_grad(Q=fc_0.tmp_0@0.v0, K=fc_1.tmp_0@0.v0, V=fc_2.tmp_0@0.v0, Mask=m@0.v0, "
        "Out@GRAD=matmul_v2_1.tmp_0@GRAD@0.v0) {by=0.5} Backward"
    )


def dropping(q: Any, k: Any, v: Any, mask: Any) -> Any:
    return wb.matmul(F.dropout(F.softmax(wb.matmul(q, k, transpose_y=True)), 0.3), v)


def looking(q: Any, k: Any, v: Any, mask: Any) -> Any:
    weights = F.softmax(wb.matmul(q, k, transpose_y=True))
    return wb.matmul(weights, v) * wb.mean(weights)


def shifted(q: Any, k: Any, v: Any, mask: Any) -> Any:
    return wb.matmul(F.softmax(wb.scale(wb.matmul(q, k, transpose_y=True), 0.5, 1.0)), v)


def other_axis(q: Any, k: Any, v: Any, mask: Any) -> Any:
    return wb.matmul(F.softmax(wb.matmul(q, k, transpose_y=True), axis=1), v)


def with_values_turned(q: Any, k: Any, v: Any, mask: Any) -> Any:
    return wb.matmul(F.softmax(wb.matmul(q, k, transpose_y=True)), wb.transpose(v, [0, 2, 1]), transpose_y=True)


def divided_by_a_tensor(q: Any, k: Any, v: Any, mask: Any) -> Any:
    return wb.matmul(F.softmax(wb.matmul(q, k, transpose_y=True) / wb.exp(mask)), v)


def narrow(q: Any, k: Any, v: Any, mask: Any) -> Any:
    return wb.matmul(F.softmax(wb.matmul(q[:, :, :4], k[:, :, :4], transpose_y=True)), v)


@pytest.mark.parametrize(
    "form", [dropping, looking, shifted, other_axis, with_values_turned, divided_by_a_tensor, narrow]
)
def test_what_is_not_quite_attention_is_left_alone(form: Form) -> None:
    graph = build(program(form))
    assert apply(graph, FuseAttention(everywhere=True)) == [False]


@pytest.mark.parametrize("trains", [True, False])
@pytest.mark.parametrize(
    "form",
    [
        lambda q, s: wb.matmul(F.softmax(s), s),
        lambda q, s: wb.matmul(F.softmax(s * 0.5 + s), q),
        lambda q, s: wb.matmul(F.softmax(s + q.sum()), s),
    ],
    ids=["values", "mask", "values behind a mask"],
)
def test_scores_that_are_something_else_too_are_kept(form: Callable[[Any, Any], Any], trains: bool) -> None:
    with building() as main:
        x = static.data("x", [2, 256, 16])
        q = static.nn.fc(x, 16, num_flatten_dims=2)
        out = form(q, wb.matmul(q, q, transpose_y=True))
        if trains:
            wb.optimizer.SGD(0.1).minimize(wb.mean(out * out))
    graph = build(main, 1, [list(main.all_ops())[-1].output_arg_names[0]])
    assert apply(graph, FuseAttention()) == [False]


def test_a_batch_of_more_than_two_dimensions_is_left_alone() -> None:
    with building() as main:
        q = static.data("q", [2, 3, 2, 256, 16])
        out = wb.matmul(F.softmax(wb.matmul(q, q, transpose_y=True) + static.data("m", [1, 3, 1, 1, 256])), q)
    assert apply(build(main, 1, [out.name]), FuseAttention()) == [False]


def test_a_mask_that_learns_is_left_alone() -> None:
    assert apply(build(program(plain, mask_learns=True)), FuseAttention()) == [False]
    assert apply(build(program(plain, mask_learns=True, trains=False)), FuseAttention()) == [True]


def test_weights_that_are_fetched_are_kept() -> None:
    main = program(plain)
    (weights,) = (op.output_arg_names[0] for op in main.all_ops() if op.type == "softmax")
    assert apply(build(main, 2, [weights]), FuseAttention()) == [False]


@pytest.mark.parametrize(("keys", "joined"), [(256, [True, True]), (255, [False, True]), (None, [False, True])])
def test_few_keys_or_nobody_knows_how_many_only_if_asked_for(keys: Any, joined: list[bool]) -> None:
    main = program(plain, keys)
    assert [apply(build(main), FuseAttention(everywhere=asked))[0] for asked in (False, True)] == joined


@pytest.mark.parametrize(
    ("native", "asked", "joined"), [(True, False, False), (True, True, True), (False, False, True)]
)
def test_float64_stays_in_kernels_unless_asked_for(native: bool, asked: bool, joined: bool) -> None:
    with building() as main:
        q, k, v = (static.data(name, [2, 256, 8], "float64") for name in "qkv")
        wb.matmul(F.softmax(wb.matmul(q, k, transpose_y=True)), v)
    assert apply(build(main), FuseAttention(native, everywhere=asked)) == [joined]


def test_behind_a_branch_it_may_be_something_else() -> None:
    def form(q: Any, k: Any, v: Any, mask: Any) -> Any:
        k = static.nn.cond(wb.mean(q) > 0.0, lambda: k * 2.0, lambda: k)
        return wb.matmul(F.softmax(wb.matmul(q, wb.reshape(k, [-1, 256, 8]), transpose_y=True)), v)

    main = program(form, trains=False)
    assert [apply(build(main), FuseAttention(native=native))[0] for native in (True, False)] == [False, True]


def test_recomputed_attention_is_joined_too() -> None:
    """The copy with its backward op, and the first one, of which nothing is read again."""
    with building() as main:
        h = static.nn.fc(static.data("x", [2, 256, 8]), 8, num_flatten_dims=2)
        h = static.nn.fc(late_values(h, h, static.nn.fc(h, 8, num_flatten_dims=2), None), 8, num_flatten_dims=2)
        static.append_backward(wb.mean(wb.tanh(h)), checkpoints=[h])
    graph = build(main, 1)
    assert apply(graph, FuseAttention()) == [True]
    counts = types(graph)
    assert counts[ONE] == 2 and counts[BACK] == 1 and "softmax" not in counts
