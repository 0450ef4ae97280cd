"""With and without each pass a graph computes the same bits."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st

import workbench as wb
from tests.graph.building import REDUCE, apply, build, building, regression, settings, types
from tests.graph.interpret import bits, interpret, some_values
from workbench.graph.check import check_graph
from workbench.graph.passes import EXACT, default_passes, run_passes
from workbench.graph.passes.fusion.all_reduce import FuseAllReduce
from workbench.graph.passes.fusion.optimizer import FuseOptimizer
from workbench.graph.passes.order_collectives import OrderCollectives
from workbench.graph.passes.pipeline import REWRITES
from workbench.graph.passes.sync_batch_norm import SyncBatchNorm
from workbench.graph.ssa import Graph, Value

F = wb.nn.functional


def same_bits(graph: Graph, other: Graph, start: Any = None) -> None:
    start = start or some_values()
    assert bits(interpret(graph, start)) == bits(interpret(other, start))


def every_rewrite_keeps_the_bits(
    program: Any, devices: int, fetches: Any = (), start: Any = None, **fields: Any
) -> None:
    """Each pass alone, then the whole pipeline with everything switched on."""
    plain = build(program, devices, fetches, **fields)
    for make in REWRITES:
        graph = build(program, devices, fetches, **fields)
        one = make()
        before = types(graph)
        (changed,) = apply(graph, one)
        assert changed or types(graph) == before
        same_bits(plain, graph, start)
    graph = build(program, devices, fetches, **fields)
    on = dict.fromkeys(("enable_auto_fusion", "fuse_bn_act_ops", "fused_attention", "sequential_run"), True)
    run_passes(graph, default_passes(settings(devices, **fields, **on)))
    check_graph(graph)
    same_bits(plain, graph, start)


def test_every_rewrite_but_one_is_listed_as_exact() -> None:
    """NumPy's calls, which these tests compare, do not round differently after that one."""
    assert {make.name for make in REWRITES} == EXACT | {"winograd"}


@pytest.mark.parametrize("devices", [1, 2, 4])
@pytest.mark.parametrize(
    "optimizer",
    [
        wb.optimizer.SGD(0.1),
        wb.optimizer.Momentum(0.1, weight_decay=0.01),
        wb.optimizer.Adam(0.1, grad_clip=wb.nn.ClipGradByGlobalNorm(0.1)),
        wb.optimizer.RMSProp(0.1, centered=True),
    ],
    ids=lambda o: type(o).__name__,
)
def test_regression(optimizer: Any, devices: int) -> None:
    program = regression((4, 3, 1), optimizer=copy.copy(optimizer), activation="tanh")
    every_rewrite_keeps_the_bits(program, devices, ["mean_0.tmp_0", "fc_0.w_0", "fc_1.w_0@GRAD"])
    every_rewrite_keeps_the_bits(program, devices, ["mean_0.tmp_0", "fc_2.tmp_1"], reduce_strategy=REDUCE)


def residual(act: str = "relu", norm_first: bool = True, is_test: bool = False) -> Any:
    """conv, norm, plus a shortcut that is normalised too, activated, pooled, classified."""
    with building() as main:
        image = wb.static.data("image", [None, 3, 6, 6], "float32")
        label = wb.static.data("label", [None, 1], "int64")
        stem = wb.static.nn.conv2d(image, 4, 3, padding=1)
        a = wb.static.nn.batch_norm(wb.static.nn.conv2d(stem, 4, 3, padding=1), act=act, is_test=is_test)
        a = wb.static.nn.batch_norm(wb.static.nn.conv2d(a, 4, 3, padding=1), is_test=is_test)
        b = wb.static.nn.batch_norm(wb.static.nn.conv2d(stem, 4, 1), is_test=is_test)
        joined = getattr(F, act)(a + b if norm_first else stem + a)
        flat = wb.reshape(joined, [-1, 4 * 36])
        logits = wb.static.nn.fc(flat, 3)
        loss = wb.mean(F.softmax_with_cross_entropy(logits, label))
        if not is_test:
            wb.optimizer.Momentum(0.1).minimize(loss)
    return main


@pytest.mark.parametrize("act", ["relu", "sigmoid", "tanh"])
@pytest.mark.parametrize("norm_first", [True, False])
def test_residual_network(act: str, norm_first: bool) -> None:
    every_rewrite_keeps_the_bits(residual(act, norm_first), 2, ["mean_0.tmp_0"])


def test_residual_network_that_only_infers() -> None:
    every_rewrite_keeps_the_bits(residual(is_test=True), 2, ["mean_0.tmp_0"])


def test_synchronised_norms_are_those_of_the_whole_batch() -> None:
    """Two devices with half a batch each, against one device with all of it."""
    with building() as main:
        image = wb.static.data("image", [None, 3, 2, 2], "float32")
        h = F.relu(wb.static.nn.batch_norm(wb.static.nn.conv2d(image, 4, 1)))
        wb.optimizer.SGD(0.5).minimize(wb.mean(wb.square(h)))
    whole, start = np.random.default_rng(0).normal(3, 2, (6, 3, 2, 2)).astype("float32"), some_values()

    def halves(value: Value) -> Any:
        return whole[3 * value.place :][:3] if value.is_data else start(value)

    for passes in ([], [FuseAllReduce(), FuseOptimizer(), OrderCollectives()]):
        graph = build(main, 2, sync_batch_norm=True)
        assert all(apply(graph, SyncBatchNorm(), *passes))
        state = interpret(graph, halves)[0]
        single = interpret(build(main, 1), lambda value: whole if value.is_data else start(value))[0]
        assert len(state) == 2 * len(single)
        for name, value in single.items():
            assert np.array_equal(state[name], state[name[:-1] + "1"])  # replicas stay equal, moving statistics too
            np.testing.assert_allclose(state[name], value, rtol=2e-5, atol=1e-6, err_msg=name)


def test_sparse_gradients_and_dropout() -> None:
    with building() as main:
        ids = wb.static.data("ids", [None, 2], "int64")
        rows = wb.static.nn.embedding(ids, [3, 4], is_sparse=True)
        h = F.dropout(wb.static.nn.fc(rows, 4, num_flatten_dims=2, activation="relu"), 0.3)
        wb.optimizer.Adam(0.1).minimize(wb.mean(h * 2.0 + 1.0))
    every_rewrite_keeps_the_bits(main, 2, ["mean_0.tmp_0"])
    every_rewrite_keeps_the_bits(main, 3, ["mean_0.tmp_0"], reduce_strategy=REDUCE)


def test_attention() -> None:
    with building() as main:
        x = wb.static.data("x", [None, 256, 8])
        q, k, v = (wb.static.nn.fc(x, 8, num_flatten_dims=2) for _ in range(3))
        mask = wb.assign(np.triu(np.full((256, 256), -1e9, np.float32), 1))
        weights = F.softmax(wb.matmul(q, k, transpose_y=True) * 0.4 + mask)
        wb.optimizer.Adam(0.1).minimize(wb.mean(wb.square(wb.matmul(weights, wb.tanh(v)))))
    every_rewrite_keeps_the_bits(main, 2, ["mean_0.tmp_0"])


# Random programs


def grow(draw: Any, known: list[Any]) -> None:
    """Append an op to the program."""
    pick = lambda: known[draw(st.integers(0, len(known) - 1))]  # noqa: E731
    kind = draw(st.sampled_from(["binary"] * 3 + ["unary"] * 3 + ["scale", "in place", "fc", "overwrite"]))
    x, y = pick(), pick()
    if kind == "binary":
        known.append(draw(st.sampled_from([wb.add, wb.add, wb.multiply, wb.subtract, wb.maximum]))(x, y))
    elif kind == "unary":
        known.append(draw(st.sampled_from([F.relu, F.relu, wb.tanh, F.sigmoid, wb.square, F.gelu, F.silu, wb.abs]))(x))
    elif kind == "scale":
        known.append(x * draw(st.sampled_from([2.0, -0.5])) + 0.25)
    elif kind == "fc":
        known.append(wb.static.nn.fc(x, 3))
    elif kind == "in place" and not x.is_data and not x.persistable:
        x.block.append_op("scale", {"X": x}, {"Out": x}, {"scale": 0.5, "bias": 0.25})
    elif kind == "overwrite" and not x.is_data and not x.persistable:
        x.block.append_op("elementwise_mul", {"X": x, "Y": y}, {"Out": x}, {})


@st.composite
def programs(draw: st.DrawFn) -> tuple[Any, list[str], dict[str, int]]:
    """A program, what to fetch, and the batch of every feed: equal, or 1 where it is broadcast."""
    batches = {f"x{i}": draw(st.sampled_from([4, 4, 1])) for i in range(2)}
    dtype = draw(st.sampled_from(["float32", "float32", "float64", "float16"]))
    with building() as main:
        known = [wb.static.data(name, [None, 3], dtype) for name in batches]
        known.append(wb.static.data("row", [1, 3], dtype))
        known.append(main.global_block().create_parameter("weight", (1, 3), dtype))
        for _ in range(draw(st.integers(1, 14))):
            grow(draw, known)
        variables = [v for v in known if not v.is_data]
        try:
            loss = wb.mean(wb.static.nn.fc(draw(st.sampled_from(known)), 2))
            wb.optimizer.SGD(0.1).minimize(loss)
        except NotImplementedError:  # a value the gradient needs was overwritten
            pass
    fetches = draw(st.lists(st.sampled_from([v.name for v in variables]), max_size=2)) if variables else []
    read = {name for op in main.global_block().ops for name in (*op.input_arg_names, *op.output_arg_names)}
    return main, [name for name in fetches if name in read], batches


@examples(max_examples=60)
@given(programs(), st.integers(1, 2))
def test_random_programs(example: Any, devices: int) -> None:
    program, fetches, batches = example
    start = some_values(lambda value: batches.get(value.name, 4))
    every_rewrite_keeps_the_bits(program, devices, fetches, start)


def test_the_interpreter_agrees_with_the_executor() -> None:
    """One device: the graph means what the serial Executor computes."""
    program = regression((4, 1), optimizer=wb.optimizer.Adam(0.1), activation="relu")
    scope, start = wb.static.Scope(), some_values()
    graph = build(program, 1, ["mean_0.tmp_0"])
    feed: dict[str, np.ndarray] = {}
    for value in graph.values():
        if value.version == 0 and value.persistable:
            scope.var(value.name).get_tensor().set(start(value))
        elif value.is_data:
            feed[value.name] = start(value)
    (loss,) = wb.static.Executor().run(program, feed=feed, fetch_list=["mean_0.tmp_0"], scope=scope)
    state, fetched = interpret(graph, start)
    assert fetched["mean_0.tmp_0@0"].tobytes() == loss.tobytes()
    for name, value in state.items():
        assert value.tobytes() == np.array(scope.find_var(name.removesuffix("@0")).get_tensor()).tobytes()
