"""The memory of plans: values that share it never spoil each other, whatever the program and the threads."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import workbench as wb
from tests.parallel.against_graph import step
from tests.parallel.lowerings import as_calls, in_both, same_numbers
from tests.parallel.memory.plan_checker import check_plan, moved, sharing
from tests.parallel.models import Model, batch, build, classifier
from tests.parallel.random_models import feed, names_to_fetch, random_model
from workbench import static
from workbench.executors.planning import schedule as schedule_module
from workbench.executors.planning.memory.in_place import _TakeoverWalk
from workbench.executors.planning.plan import Plan
from workbench.executors.planning.shapes import is_static
from workbench.graph.ssa import FUSED_ALL_REDUCE, Value
from workbench.runtime.comm.local import LocalCommunicator

X = np.random.default_rng(5).standard_normal((6, 4)).astype("float32")


def through_views() -> Model:
    """A chain of views between two products."""

    def body() -> Any:
        h = static.nn.fc(static.data("x", [None, 4]), 4)
        views = wb.squeeze(wb.unsqueeze(wb.flatten(wb.reshape(h, [-1, 2, 2]), 1), [1]), [1])
        turned = wb.transpose(wb.transpose(views, [1, 0]), [1, 0])
        return wb.mean(wb.tanh(turned) * turned + h)

    return build(body, wb.optimizer.SGD(0.1)).start()


@in_both
@pytest.mark.parametrize("fetched", [0, 1, 2, 3, 4, 5])
def test_gradients_of_views_show_the_gradient_that_came_in(fetched: int) -> None:
    """They showed the first operand of the backward op, the forward value, wherever that had memory of its own."""
    model = through_views()
    gradients = [n for op in model.main.global_block().ops for n in op.output_arg_names if n.endswith("@GRAD")]
    names = [n for n in gradients if "tmp" in n][fetched::3]  # what is fetched cannot be written over
    expected = static.Executor().run(model.main, {"x": X}, names, scope=model.scope)
    alone = through_views()
    results = alone.parallel(1).run(names, {"x": X})
    for name, value, right in zip(names, results, expected, strict=True):
        same_numbers(value, right, name)
    for name, value in model.values().items():
        same_numbers(alone.value(name), value, name)


@as_calls
@pytest.mark.parametrize(
    ("op", "in_place", "reuse", "least", "most"),
    [
        (wb.tanh, False, False, 9, 9),
        (wb.tanh, True, False, 1, 1),  # every result takes over the memory of what it is made of, the feed first
        (wb.tanh, False, True, 3, 4),
        (wb.nn.functional.softmax, True, True, 3, 4),  # never over its input: feed, result, and what lies between
        (wb.nn.functional.softmax, True, False, 9, 9),
    ],
)
def test_a_chain_takes_as_much_memory_as_lives_at_a_time(
    op: Any, in_place: bool, reuse: bool, least: int, most: int
) -> None:
    def body() -> Any:
        h = static.data("x", [None, 64])
        for _ in range(8):
            h = op(h)
        return h

    model, strategy = build(body), static.BuildStrategy()
    strategy.enable_auto_fusion, strategy.enable_inplace, strategy.memory_optimize = False, in_place, reuse
    exe = model.parallel(1, model.main, build_strategy=strategy)
    exe.run([model.loss], feed={"x": np.ones((32, 64), np.float32)})
    assert least <= exe.inspection.last.plan.nbytes / (32 * 64 * 4) <= most


@as_calls
def test_views_and_joined_sums_cost_what_they_have_to() -> None:
    """A view that lies in the memory it shows has no call; a sum has as many as its members have."""
    exe = classifier(extra=lambda h: wb.reshape(h, [-1, 8])).start().parallel(2)
    exe.run([], feed=batch())
    parts = [unit for program in exe.inspection.last.speculative for unit in program.units]
    views = [p for p in parts if p.row.node.is_op and p.row.node.record.is_view]
    assert views and all(v in exe.inspection.last.plan.aliases for p in views for v in p.row.node.writes)
    assert [p.row.node for p in views if p.calls] == []
    sums = [p for p in parts if p.row.node.type == FUSED_ALL_REDUCE]
    one_member = LocalCommunicator(2).all_reduce([np.ones(4), np.ones(4)], [np.ones(4), np.ones(4)]).calls()
    assert [len(p.row.node.inputs) > 1 for p in sums] == [True] * len(sums) != []
    assert [len(p.calls) for p in sums] == [len(one_member) * len(p.row.node.inputs) for p in sums]


@pytest.mark.usefixtures("tape")
def test_what_is_known_only_while_it_runs_is_not_planned_for_kernels() -> None:
    """A sparse gradient that kernels do not take."""

    def body() -> Any:
        ids = static.data("ids", [None, 1], "int64")
        return wb.mean(static.nn.embedding(ids, [5, 4], is_sparse=True, dtype="float16").astype("float32"))

    exe = build(body, wb.optimizer.SGD(0.1)).start().parallel(2)
    exe.run([], feed={"ids": np.array([[1], [2]])})
    plan = exe.inspection.last.plan
    updates = [node for node in plan.graph.nodes if node.type == "sgd"]
    assert updates and plan.native and plan.native.isdisjoint(updates)
    values = [v for node in plan.native for v in (*node.value_reads, *node.writes)]
    assert all(is_static(plan.shapes.specs[v]) for v in values)


# Random programs


def chosen(random: Random, threads: int) -> dict[str, Any]:
    """Strategies for a random program."""
    strategy, execution = static.BuildStrategy(), static.ExecutionStrategy()
    if random.random() < 0.35:
        strategy.reduce_strategy = static.BuildStrategy.ReduceStrategy.Reduce
    strategy.enable_auto_fusion = random.random() < 0.3
    strategy.fuse_elewise_add_act_ops = random.random() < 0.3
    strategy.enable_inplace = random.random() < 0.8
    strategy.memory_optimize = random.random() < 0.8
    execution.num_threads = threads
    return {"build_strategy": strategy, "exec_strategy": execution}


def train(random: Random, threads: int) -> Plan:
    """A random program for some steps of different sizes and fetches; returns its last plan."""
    control, sparse = random.random() < 0.4, random.random() < 0.5
    model = random_model(random, random.randint(2, 14), sparse, control).start()
    count = random.choice([1, 2, 2, 3, 4])
    exe = model.parallel(count, **chosen(random, threads))
    lists = [names_to_fetch(model, random, random.randint(0, 6)) for _ in range(2)]
    for _ in range(3):
        step(model, exe, feed(random.randint(0, 99), random.choice([8, 9, count])), random.choice(lists))
        for schedule in model.main.lr_schedulers.values():
            schedule.step()
    assert exe.inspection.last is not None
    return exe.inspection.last.plan


@as_calls
@settings(max_examples=15)
@given(st.randoms(use_true_random=True))
def test_random_programs_compute_what_their_graphs_say(random: Any) -> None:
    train(random, threads=1)


@pytest.fixture
def scattered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every node goes to the thread that is free first, however little there is to do."""
    for name in ("HAND_OFF", "CONTENTION", "CALL", "NATIVE_HAND_OFF", "NATIVE_CALL", "NATIVE_START"):
        monkeypatch.setattr(schedule_module, name, 0.0)
    monkeypatch.setattr(schedule_module, "MARGIN", 1e9)
    monkeypatch.setattr(schedule_module, "processors", lambda: 4)


@as_calls
@settings(max_examples=10, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.randoms(use_true_random=True))
def test_random_programs_scattered_over_threads(scattered: None, random: Any) -> None:
    assert train(random, threads=4).schedule.threads == 4


# The checker finds what is wrong


def plan_of(model: Model) -> Plan:
    exe = model.parallel(2)
    exe.run([model.loss], feed=batch())
    assert exe.inspection.last is not None
    return exe.inspection.last.plan


@in_both
def test_the_checker_has_something_to_look_at() -> None:
    plan = plan_of(classifier().start())
    check_plan(plan)
    assert len(list(sharing(plan))) > 10


def test_the_checker_finds_results_over_inputs_still_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    def over_anything(self: _TakeoverWalk, node: Any, value: Value) -> Value | None:
        spec = self.request.specs[value]
        like = [v for v in node.reads if v in self.contents and self.request.specs[v] == spec]
        return next((v for v in like if v not in self.aliases.aliases), None)

    monkeypatch.setattr(_TakeoverWalk, "_overwritten", over_anything)
    with pytest.raises(AssertionError, match="share memory while both are needed"):
        check_plan(plan_of(classifier().start()))


def test_the_checker_finds_memory_given_away_too_early() -> None:
    plan = plan_of(classifier().start())
    with pytest.raises(AssertionError, match=r"share memory while both are needed"):
        check_plan(moved(plan, lambda root: 0))


@in_both
def test_the_checker_finds_a_thread_that_does_not_wait(scattered: None) -> None:
    model = classifier().start()
    execution = static.ExecutionStrategy()
    execution.num_threads = 4
    exe = model.parallel(4, exec_strategy=execution)
    exe.run([model.loss], feed=batch())
    plan = exe.inspection.last.plan
    check_plan(plan)
    assert plan.waits
    caught = 0
    for node in list(plan.waits):
        kept = plan.waits.pop(node)  # type: ignore[attr-defined]
        try:
            check_plan(plan)
        except AssertionError:
            caught += 1
        plan.waits[node] = kept  # type: ignore[index]
    assert caught == len(plan.waits)
