"""Rules of graph, collectives and scheduling, seen through an executor (G-15, G-16, G-30 … G-33, G-40, G-50 … G-55).

The other G rules are in `tests/graph/test_rules_g.py`, the arithmetic of collectives in `tests/runtime/comm`.
"""

import os
import subprocess
import sys
import warnings
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import workbench as wb
from tests.parallel.lowerings import in_both
from tests.parallel.models import Model, batch, build, classifier, column, constant, line
from workbench import events, static
from workbench.executors.planning import schedule
from workbench.graph.passes import default_passes

Scale = static.BuildStrategy.GradientScaleStrategy
Mode = static.BuildStrategy.ReduceStrategy


def building(**fields: Any) -> static.BuildStrategy:
    strategy = static.BuildStrategy()
    for name, value in fields.items():
        setattr(strategy, name, value)
    return strategy


def train(
    model: Model, steps: int = 5, count: int = 4, **options: Any
) -> tuple[list[np.ndarray], dict[str, np.ndarray]]:
    """The losses of all steps and the values at the end."""
    pe = model.start().parallel(count, **options)
    losses = [pe.run([model.loss], feed=batch(8, k))[0] for k in range(steps)]
    return losses, model.values()


def same_bits(a: Any, b: Any) -> None:
    np.testing.assert_array_equal(a[0], b[0])
    for name, value in a[1].items():
        np.testing.assert_array_equal(value, b[1][name], err_msg=name)


# Reduce mode and clip


@pytest.mark.parametrize(
    "clip", [wb.nn.ClipGradByValue(0.01), wb.nn.ClipGradByNorm(0.01), wb.nn.ClipGradByGlobalNorm(0.01)]
)
def test_g_15_gradient_clip_trains_the_same_in_both_modes(clip):
    """Design section 6: the real engine fails to build the graph in Reduce mode (trap 37)."""
    results = []
    for mode in Mode:
        model = classifier(wb.optimizer.Momentum(0.1, 0.9, grad_clip=clip))
        results.append(train(model, count=2, build_strategy=building(reduce_strategy=mode)))
    same_bits(*results)


def test_g_16_graphs_with_servers_are_no_matter_of_settings():
    """Scripts for Paddle 1.x set them beside Reduce (F-10, F-15)."""
    reduces = building(reduce_strategy=Mode.Reduce)
    plain = train(classifier(), count=2, build_strategy=reduces)
    asked = building(reduce_strategy=Mode.Reduce, is_distribution=True, async_mode=True)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        same_bits(train(classifier(), count=2, build_strategy=asked), plain)
    assert [str(one.message).split(" = ")[0] for one in told] == [
        "BuildStrategy.is_distribution", "BuildStrategy.async_mode",
    ]  # fmt: skip


# Arithmetic of the collectives


def seeded(mode: Any, seeds: list[float], **fields: Any) -> list[np.ndarray]:
    """Two layers with weights 1; with x = 1 every gradient on a device is its seed. Gradients in order b1 w1 b0 w0."""

    def body() -> Any:
        h = static.data("X", [None, 1])
        for _ in range(2):
            h = static.nn.fc(h, 1, weight_attr=constant(1.0), bias_attr=constant(0.0))
        return wb.mean(h)

    model = build(body, wb.optimizer.SGD(0.1)).start()
    strategy = building(reduce_strategy=mode, gradient_scale_strategy=Scale.Customized, **fields)
    pe = model.parallel(len(seeds), build_strategy=strategy)
    names = ["fc_1.b_0", "fc_1.w_0", "fc_0.b_0", "fc_0.w_0"]
    feed = {"X": np.ones((len(seeds), 1), np.float32), "mean_0.tmp_0@GRAD": np.array(seeds, np.float32)}
    return [g.ravel() for g in pe.run([name + "@GRAD" for name in names], feed=feed)]


@pytest.mark.parametrize("fused", [True, False])
def test_g_30_all_reduce_adds_from_device_0_on(fused):
    for gradient in seeded(Mode.AllReduce, [1e8, -1e8, 1], fuse_all_reduce_ops=fused):
        assert gradient.tolist() == [1, 1, 1]  # (1e8 - 1e8) + 1
    for gradient in seeded(Mode.AllReduce, [1, 1e8, -1e8], fuse_all_reduce_ops=fused):
        assert gradient.tolist() == [0, 0, 0]  # (1 + 1e8) - 1e8 in float32


def test_g_31_reduce_begins_with_the_owners_value():
    """Owners are 0, 1, 2, 0 (G-20), so b0 is summed as (g2 + g0) + g1."""
    b1, w1, b0, w0 = seeded(Mode.Reduce, [1e8, -1e8, 1])
    assert (b1[0], w1[1], b0[2], w0[0]) == (1, 1, 0, 1)
    assert b0.tolist()[:2] == [1e8, -1e8]  # the others keep their own


@given(st.lists(st.floats(-1e6, 1e6, width=32), min_size=2, max_size=5))
@settings(max_examples=20, deadline=None)
def test_g_30_g_31_in_the_tensors_dtype(seeds):
    values = [np.float32(seed) for seed in seeds]

    def added(first: int) -> np.float32:
        total = values[first]
        for device, value in enumerate(values):
            if device != first:
                total = np.float32(total + value)
        return total

    with wb.framework.program.guard.static_mode():
        everywhere, owned = seeded(Mode.AllReduce, seeds), seeded(Mode.Reduce, seeds)
    assert all(g.tolist() == [added(0)] * len(seeds) for g in everywhere)
    owners = [i % len(seeds) for i in range(4)]
    assert [g[owner] for g, owner in zip(owned, owners)] == [added(owner) for owner in owners]


def embedded(sparse: bool, optimizer: Any) -> Model:
    def body() -> Any:
        ids = static.data("x", [None, 1], "int64")
        y = static.data("y", [None, 1], "int64")
        rows = wb.reshape(static.nn.embedding(ids, [6, 4], is_sparse=sparse), [-1, 4])
        return wb.mean(wb.nn.functional.softmax_with_cross_entropy(static.nn.fc(rows, 3), y))

    return build(body, optimizer).start()


@pytest.mark.parametrize("mode", list(Mode))
@pytest.mark.parametrize("optimizer", [wb.optimizer.SGD, wb.optimizer.Adagrad, wb.optimizer.Adam])
def test_g_32_sparse_gradients_give_the_dense_result(mode, optimizer):
    """Ids occur several times on a device and on several devices."""
    r = np.random.default_rng(0)
    states = []
    for sparse in (False, True):
        model = embedded(sparse, optimizer(0.1))
        pe = model.parallel(3, build_strategy=building(reduce_strategy=mode))
        for _ in range(4):
            feed = {"x": r.integers(0, 6, (9, 1)), "y": r.integers(0, 3, (9, 1))}
            pe.run([], feed=feed)
        states.append(model.values())
        r = np.random.default_rng(0)
    for name, value in states[0].items():
        np.testing.assert_allclose(states[1][name], value, rtol=1e-5, atol=1e-7, err_msg=name)


def whole_batch(model: Model, steps: int = 5) -> dict[str, np.ndarray]:
    exe = static.Executor()
    model.start()
    for k in range(steps):
        exe.run(model.main, feed=batch(8, k), scope=model.scope)
    return model.values()


OPTIMIZERS = {
    "SGD": lambda: wb.optimizer.SGD(0.1),
    "Adam": lambda: wb.optimizer.Adam(0.01),
    "Momentum, L2, clip": lambda: wb.optimizer.Momentum(
        0.1, 0.9, weight_decay=0.01, grad_clip=wb.nn.ClipGradByGlobalNorm(0.5)
    ),
}


@pytest.mark.parametrize("mode", list(Mode))
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_g_33_four_devices_train_as_one(optimizer, mode):
    model, single = classifier(OPTIMIZERS[optimizer]()), classifier(OPTIMIZERS[optimizer]())
    _, values = train(model, build_strategy=building(reduce_strategy=mode))
    for name, value in whole_batch(single).items():
        np.testing.assert_allclose(values[name], value, rtol=1e-4, atol=1e-6, err_msg=name)


# Passes


def test_g_40_the_order_of_passes():
    """The real engine's order, without passes for GPU, oneDNN and readers; those that join ops come after dead code.

    Collectives are in the graph from its construction, so multi_devices_pass is not among them.
    """
    on = {
        "debug_graphviz_path": "p", "sync_batch_norm": True, "fuse_bn_act_ops": True, "fuse_elewise_add_act_ops": True,
        "sequential_run": True, "num_trainers": 2,
    }  # fmt: skip
    with wb.config.override(allow_lonely_trainer=True):
        names = [p.name for p in default_passes(building(**on).resolved(2))]
        reduces = [p.name for p in default_passes(building(**on, reduce_strategy=Mode.Reduce).resolved(2))]
    assert names == [
        "draw p_original_graph", "sync_batch_norm", "dead_code", "recompute_late", "fuse_attention", "winograd",
        "fuse_bn_act", "fuse_bn_add_act", "fuse_add_act", "elementwise_chains", "fuse_optimizer",
        "draw p_fused_graph", "fuse_all_reduce", "order_collectives", "sequential", "draw p_multi_devices_graph",
    ]  # fmt: skip
    in_both = [name for name in names if name not in ("fuse_optimizer", "fuse_all_reduce", "order_collectives")]
    in_both.insert(in_both.index("sequential"), "fuse_broadcast")
    assert reduces == in_both


# Scheduling


@pytest.fixture
def many_slow_processors(monkeypatch):
    """Even the smallest ops are then worth threads of their own."""
    monkeypatch.setattr(schedule, "FLOPS", 1e3)
    monkeypatch.setattr(schedule, "BYTES", 1e3)
    monkeypatch.setattr(schedule, "processors", lambda: 8)


@pytest.mark.usefixtures("many_slow_processors")
@pytest.mark.filterwarnings("ignore::workbench.framework.notice.Notice")
@pytest.mark.parametrize("mode", list(Mode))
@pytest.mark.parametrize("count", [1, 2, 4])
def test_g_50_g_52_g_53_threads_and_executors_do_not_change_a_bit(count, mode):
    """num_threads 1, 2, 8 with either executor; the choice of executor has no effect here, so G-52 is one scheduler."""
    results = []
    for threads in (1, 2, 8):
        for experimental in (True, False):
            strategy = static.ExecutionStrategy()
            strategy.num_threads, strategy.use_experimental_executor = threads, experimental
            model = classifier(OPTIMIZERS["Momentum, L2, clip"]())
            options = {"exec_strategy": strategy, "build_strategy": building(reduce_strategy=mode)}
            results.append(train(model, 4, count, **options))
    for other in results[1:]:
        same_bits(results[0], other)


def order_of(pe: Any, feed: Any) -> list[tuple[int, str, int]]:
    """Which op ran on which thread and device, in order of their starts."""
    told: list[Any] = []
    with events.subscribe(told.append, events.OpRun):
        pe.run([], feed=feed)
    return [(event.thread, event.op.type, event.op.place.index) for event in told]


@pytest.mark.usefixtures("many_slow_processors")
def test_g_50_devices_run_on_threads_of_their_own():
    strategy = static.ExecutionStrategy()
    strategy.num_threads = 2
    pe = classifier().start().parallel(2, exec_strategy=strategy)
    pe.run([], feed=batch())
    assert {thread for thread, _, _ in order_of(pe, batch())} == {0, 1}


@in_both
def test_g_51_one_thread_runs_the_same_order_in_every_step():
    strategy = static.ExecutionStrategy()
    strategy.num_threads = 1
    pe = classifier().start().parallel(2, exec_strategy=strategy)
    first = order_of(pe, batch())
    assert sum(1 + name.count("+") for _, name, _ in first) > 20 and {thread for thread, _, _ in first} == {0}
    assert order_of(pe, batch(8, 1)) == first == order_of(pe, batch(8, 2))


def test_g_54_fetches_of_a_run_are_gone_in_the_next():
    model = line().start()
    pe = model.parallel(2)
    feed = {"X": column(1, 2)}
    for fetches in (["fc_0.tmp_0"], [], [model.loss, "fc_0.w_0@GRAD"], ["fc_0.tmp_0"]):
        assert len(pe.run(fetches, feed=feed)) == len(fetches)
        assert [n.type for n in pe.graph(fetches).nodes].count("fetch") == len(fetches)
    assert not any(n.type == "fetch" for n in pe.graph().nodes)


def test_g_54_a_fetch_waits_for_the_newest_version_on_all_devices():
    (w, g) = line().start().parallel(4).run(["fc_0.w_0", "fc_0.w_0@GRAD"], feed={"X": column(1, 2, 3, 4)})
    np.testing.assert_allclose(w.ravel(), [1 - 0.1 * 2.5] * 4, rtol=1e-6)
    np.testing.assert_allclose(g.ravel(), [2.5] * 4)


_GRAPH = """
import workbench as wb
wb.enable_static()
from tests.parallel.models import classifier
from workbench.graph.printer import graph_text
pe = classifier(wb.optimizer.Adam(0.1)).start().parallel(2)
print(graph_text(pe.graph()))
"""


def test_g_55_every_process_orders_its_collectives_alike():
    """Whatever Python's hash seed: trainers that disagree about the order would wait for each other for ever."""
    texts = []
    for seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        command = [sys.executable, "-c", _GRAPH]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, env=environment)
        assert done.returncode == 0, done.stderr
        texts.append(done.stdout)
    assert texts[0] == texts[1] and "all_reduce" in texts[0]
