"""A step run by hand: the same bits as `run`, nothing applied before `finish`, and a look at any value."""

from __future__ import annotations

import linecache
import threading
from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.parallel.lowerings import in_both
from tests.parallel.models import batch, build, classifier, column, line
from workbench import static
from workbench.errors import (
    InvalidArgument,
    InvalidType,
    NotFound,
    PreconditionNotMet,
    Unavailable,
)
from workbench.executors.inspection.stepper import NodeRun
from workbench.graph.settings import GradientScaleStrategy, ReduceStrategy

pytestmark = in_both

F = wb.nn.functional


def strategy(**fields: Any) -> static.BuildStrategy:
    strategy = static.BuildStrategy()
    for name, value in fields.items():
        setattr(strategy, name, value)
    return strategy


def words(rows: int = 8, seed: int = 0) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    return {"x": rng.integers(0, 6, (rows, 2)), "y": rng.integers(0, 3, (rows, 1))}


def embedding() -> Any:
    x, y = static.data("x", [None, 2], "int64"), static.data("y", [None, 1], "int64")
    h = wb.sum(static.nn.embedding(x, [6, 4], is_sparse=True), axis=1)
    return wb.mean(F.softmax_with_cross_entropy(static.nn.fc(h, 3), y))


def branch(h: Any) -> Any:
    return static.nn.cond(wb.mean(h) < 0.3, lambda: h * 2.0, lambda: h + 1.0)


CLIP = wb.nn.ClipGradByGlobalNorm(0.05)
PROGRAMS: dict[str, tuple[Any, dict[str, Any]]] = {
    "sgd": (classifier, {}),
    "adam": (lambda: classifier(wb.optimizer.Adam(0.05)), {}),
    "momentum": (lambda: classifier(wb.optimizer.Momentum(0.1, 0.9)), {}),
    "all fusions": (
        lambda: classifier(wb.optimizer.Adam(0.05), extra=lambda h: wb.tanh(h * 2.0) + h),
        {"enable_auto_fusion": True, "fuse_all_optimizer_ops": True, "fuse_elewise_add_act_ops": True},
    ),
    "reduce mode": (lambda: classifier(wb.optimizer.Adam(0.05)), {"reduce_strategy": ReduceStrategy.Reduce}),
    "batch norm": (lambda: classifier(extra=static.nn.batch_norm), {}),
    "batch norm over all": (lambda: classifier(extra=static.nn.batch_norm), {"sync_batch_norm": True}),
    "dropout": (lambda: classifier(extra=lambda h: F.dropout(h, 0.5)), {}),
    "cond": (lambda: classifier(extra=branch), {}),
    "sparse embedding": (lambda: build(embedding, wb.optimizer.SGD(0.1)), {}),
    "sparse embedding, adam, reduce": (
        lambda: build(embedding, wb.optimizer.Adam(0.1)),
        {"reduce_strategy": ReduceStrategy.Reduce},
    ),
    "clip": (lambda: classifier(wb.optimizer.SGD(0.1, grad_clip=CLIP)), {}),
    "clip, reduce mode": (
        lambda: classifier(wb.optimizer.Momentum(0.1, 0.9, grad_clip=CLIP)),
        {"reduce_strategy": ReduceStrategy.Reduce},
    ),
    "schedule": (lambda: classifier(wb.optimizer.Adam(wb.optimizer.lr.ExponentialDecay(0.1, 0.5))), {}),
    "weighted": (classifier, {"gradient_scale_strategy": GradientScaleStrategy.WeightedBySamples}),
}


def feeds(name: str, steps: int) -> list[dict[str, np.ndarray]]:
    make = words if name.startswith("sparse") else batch
    return [make(rows, seed) for seed, rows in enumerate([8, 7, 8][:steps])]


def state(exe: Any) -> list[dict[str, np.ndarray]]:
    """Every persistable value of every device, copied."""
    names = exe.inspection.persistables
    by_place = [{n: exe.inspection.tensor(n, place) for n in names} for place in range(len(exe.inspection.places))]
    return [{n: np.array(t.array) for n, t in tensors.items() if t is not None} for tensors in by_place]


def assert_same_bits(one: Any, other: Any) -> None:
    assert len(one) == len(other)
    for mine, theirs in zip(one, other, strict=True):
        assert mine.keys() == theirs.keys()
        for name in mine:
            assert mine[name].dtype == theirs[name].dtype, name
            assert mine[name].tobytes() == theirs[name].tobytes(), name


@pytest.mark.parametrize("name", PROGRAMS)
def test_steps_by_hand_and_runs_make_the_same_bits(name: str) -> None:
    make, options = PROGRAMS[name]
    run, stepped = make().start(), make().start()
    fast = run.parallel(2, build_strategy=strategy(**options))
    slow = stepped.parallel(2, build_strategy=strategy(**options))
    fetches = [run.loss.name, next(p.name for p in run.main.all_parameters())]
    for feed in feeds(name, 3):
        expected = fast.run(fetches, feed=feed)
        with slow.stepper(feed, fetches) as step:
            for _ in step:
                pass
            fetched = step.finish()
        assert [f.tobytes() for f in fetched] == [e.tobytes() for e in expected]
        assert [f.shape for f in fetched] == [e.shape for e in expected]
        assert_same_bits(state(slow), state(fast))


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_step_left_midway_changes_nothing(name: str) -> None:
    make, options = PROGRAMS[name]
    untouched, looked_at = make().start(), make().start()
    plain, exe = (m.parallel(2, build_strategy=strategy(**options)) for m in (untouched, looked_at))
    first, second, _ = feeds(name, 3)
    loss = looked_at.loss.name
    plain.run([], feed=first)
    exe.run([], feed=first)
    before = state(exe)
    with exe.stepper(second, [loss]) as step:
        count = sum(1 for _ in step)  # to the end, updates included, and no finish()
    assert_same_bits(state(exe), before)
    for stop in {0, 1, count // 2}:
        with exe.stepper(second, [loss]) as step:
            for _ in range(stop):
                step.next()
        assert_same_bits(state(exe), before)
    assert exe.run([loss], feed=second)[0].tobytes() == plain.run([loss], feed=second)[0].tobytes()
    assert_same_bits(state(exe), state(plain))  # random streams and counters too


def test_every_value_of_a_training_step_by_numpy() -> None:
    """mean(X w + b), w = 1, b = 0, X = [1 2 | 3 6]: the gradient of w is mean(X), taken half by half."""
    model = line().start()
    exe = model.parallel(2)
    with exe.stepper({"X": column(1, 2, 3, 6)}, [model.loss]) as step:
        parts = [column(1, 2), column(3, 6)]
        assert [v.tolist() for v in step.values("X")] == [p.tolist() for p in parts]
        step.run_until("fc_0.tmp_1", device=1)
        assert [v.tolist() for v in step.values("fc_0.tmp_1")] == [p.tolist() for p in parts]  # X w + b
        step.run_until(model.loss.name, device=1)
        assert [v.tolist() for v in step.values(model.loss.name)] == [[1.5], [4.5]]
        step.run_until("fc_0.w_0@GRAD", device=1)
        assert [v.tolist() for v in step.values("fc_0.w_0@GRAD")] == [[[0.75]], [[2.25]]]  # means of halves, over 2
        step.run_until("all_reduce")
        while step.values("fc_0.w_0@GRAD")[0] != 3.0:
            assert step.next() is not None
        assert [v.tolist() for v in step.values("fc_0.w_0@GRAD")] == [[[3.0]], [[3.0]]]
        assert [step.value("fc_0.w_0@GRAD", d, version=0).tolist() for d in (0, 1)] == [[[0.75]], [[2.25]]]
        assert step.value("fc_0.w_0", 1).tolist() == [[1.0]]
        step.run_until("fc_0.w_0", device=1)
        new = np.float32(1) - np.float32(0.1) * np.float32(3)
        assert [v.tolist() for v in step.values("fc_0.w_0")] == [[[new]], [[new]]]
        assert step.value("fc_0.w_0", 0, version=0).tolist() == [[1.0]]
        assert model.value("fc_0.w_0").tolist() == [[1.0]]  # nothing has been applied
        (loss,) = step.finish()
        assert loss.tolist() == [1.5, 4.5]
    assert model.value("fc_0.w_0").tolist() == [[new]]
    assert exe.local_scope(1).find_var("fc_0.w_0").get_tensor().numpy().tolist() == [[new]]


def test_a_node_says_what_it_read_and_made_and_where_it_comes_from() -> None:
    exe = line().start().parallel(2)
    with exe.stepper({"X": column(1, 2, 3)}) as step:
        first, second = step.next(), step.next()
        assert (first.number, first.type, first.device, first.devices) == (0, "mul", 0, (0,))
        assert [(o.name, o.device, o.shape, o.dtype) for o in first.inputs] == [
            ("X", 0, (1, 1), "float32"), ("fc_0.w_0", 0, (1, 1), "float32"),
        ]  # fmt: skip
        assert [(o.name, o.device, o.version, o.shape) for o in second.outputs] == [("fc_0.tmp_0", 1, 0, (2, 1))]
        assert first.site.file.endswith("models.py") and "fc(" in linecache.getline(*first.site)
        assert str(first) == "#0 [0] mul: X float32[1, 1], fc_0.w_0 float32[1, 1] -> fc_0.tmp_0 float32[1, 1]"
        exchanged = step.run_until("all_reduce")
        assert exchanged.devices == (0, 1) and [o.device for o in exchanged.outputs] == [0, 1]
        assert exchanged.role == "Backward"


def test_nodes_come_in_program_order_with_the_numbers_of_the_graph() -> None:
    model = classifier(wb.optimizer.Adam(0.1)).start()
    exe = model.parallel(2, build_strategy=strategy(enable_auto_fusion=True))
    graph = exe.graph([model.loss], observed=True)
    with exe.stepper(batch(), [model.loss]) as step:
        visited = [(node.number, node.type) for node in step]
    assert visited == [(i, node.type) for i, node in enumerate(graph.nodes) if node.type != "fetch"]
    ops = [op.type for op in model.main.global_block().ops]
    own = [kind for number, kind in visited if graph.nodes[number].is_op and graph.nodes[number].place == 0]
    assert own == [kind for kind in ops if kind != "fill_constant"]


# Breakpoints


def test_breakpoints_on_type_name_number_and_condition() -> None:
    exe = classifier().start().parallel(2)
    step = exe.stepper(batch())
    assert str(step.run_until("relu")).startswith("#4 [0] relu")
    assert step.run_until("relu").device == 1  # from here on
    assert step.run_until(7).number == 7
    reached = step.run_until(lambda node: np.prod(node.outputs[0].shape) == 1)
    assert reached.outputs[0].name == "mean_0.tmp_0"
    assert step.run_until("fc_0.w_0@GRAD", device=1).device == 1
    assert step.run_until(lambda node: node.type == "mean") is None  # all nodes have run
    assert step.next() is None
    step.finish()


def test_a_breakpoint_that_can_no_longer_be_met_is_named() -> None:
    exe = classifier().start().parallel(2)
    step = exe.stepper(batch())
    with pytest.raises(NotFound, match=r"'relus'.*left are #0 to #\d+.*Did you mean 'relu'"):
        step.run_until("relus")
    assert step.next().number == 0  # nothing has run, nothing is lost
    with pytest.raises(NotFound, match="no node #0 is left"):
        step.run_until(0)
    with pytest.raises(InvalidType, match=r"run_until.*3\.5"):
        step.run_until(3.5)
    with pytest.raises(InvalidType, match="True"):
        step.run_until(True)
    with pytest.raises(InvalidArgument, match="no device 2"):
        step.run_until("relu", device=2)
    step.finish()


@pytest.mark.parametrize("error", [ZeroDivisionError("mine"), KeyboardInterrupt()])
def test_a_condition_that_raises_discards_the_step(error: BaseException) -> None:
    model = classifier(wb.optimizer.Adam(0.1)).start()
    exe = model.parallel(2)
    exe.run([], feed=batch())
    before = state(exe)

    def condition(node: NodeRun) -> bool:
        if node.type == "adam":
            raise error
        return False

    step = exe.stepper(batch())
    with pytest.raises(type(error)):
        step.run_until(condition)
    with pytest.raises(PreconditionNotMet, match="was discarded: the breakpoint's function raised"):
        step.finish()
    assert_same_bits(state(exe), before)
    exe.run([], feed=batch())  # nothing is locked


# Values


def test_what_is_not_there_yet_says_who_makes_it() -> None:
    model = classifier().start()
    exe = model.parallel(2)
    step = exe.stepper(batch())
    step.next()
    with pytest.raises(PreconditionNotMet, match=r"'fc_0.tmp_0' has.*node #1 .mul. makes it, and #1 is next\n  at"):
        step.value("fc_0.tmp_0", device=1)
    with pytest.raises(PreconditionNotMet, match=r"'fc_0.w_0@GRAD' has not been computed yet: node #\d+ 'mul_grad'"):
        step.value("fc_0.w_0@GRAD")
    with pytest.raises(PreconditionNotMet, match="'all_reduce' makes it"):
        step.value("fc_0.w_0@GRAD", version=1)
    with pytest.raises(NotFound, match=r"no version 7 of 'fc_0.w_0'"):
        step.value("fc_0.w_0", version=7)
    with pytest.raises(NotFound, match=r"no variable 'fc_0.tmp_00'.*Did you mean 'fc_0.tmp_0'"):
        step.value("fc_0.tmp_00")
    with pytest.raises(InvalidArgument, match="no device 2"):
        step.value("x", 2)
    step.abort()
    with pytest.raises(PreconditionNotMet, match="its values are gone"):
        step.value("x")


def test_values_are_copies_and_sparse_gradients_are_dense() -> None:
    model = build(embedding, wb.optimizer.SGD(0.1)).start()
    exe = model.parallel(2)
    feed = words()
    table = next(p.name for p in model.main.all_parameters() if p.shape == (6, 4))
    with exe.stepper(feed) as step:
        step.run_until(f"{table}@GRAD", device=1)
        gradient = step.value(f"{table}@GRAD", 1)
        assert gradient.shape == (6, 4)
        read = np.isin(np.arange(6), feed["x"][4:])
        assert gradient[~read].tolist() == np.zeros((int((~read).sum()), 4)).tolist() and gradient[read].any()
        step.value(table)[:] = 9
        assert not (step.value(table) == 9).any()
    assert not (model.value(table) == 9).any()


def test_a_persistable_variable_nobody_reads_comes_from_the_scope() -> None:
    model = classifier(wb.optimizer.Adam(0.1)).start()
    exe = model.parallel(2, program=model.test)
    with exe.stepper(batch(8)) as step:
        with pytest.raises(NotFound):
            step.value("fc_0.w_0_moment1_0")  # not in this program
        assert step.value("fc_0.w_0", 1).tobytes() == model.value("fc_0.w_0").tobytes()


# What others do meanwhile


def test_a_step_refuses_to_go_on_where_its_parameters_have_changed() -> None:
    model = classifier().start()
    exe = model.parallel(2)
    step = exe.stepper(batch())
    step.run_until("relu")
    exe.run([], feed=batch(seed=1))
    after = state(exe)
    with pytest.raises(PreconditionNotMet, match=r"cannot go on: .fc_\d\.\w_0. of cpu:\d has changed since"):
        step.finish()
    assert step.is_over
    assert_same_bits(state(exe), after)


def test_set_on_one_device_is_noticed_by_the_node_that_reads_it() -> None:
    model = classifier().start()
    exe = model.parallel(2)
    step = exe.stepper(batch())
    exe.local_scope(1).find_var("fc_1.b_0").set(np.ones(3, np.float32))
    step.run_until("relu", device=1)
    with pytest.raises(PreconditionNotMet, match=r"'fc_1.b_0' of cpu:1 has changed"):
        step.run_until("softmax_with_cross_entropy")


def test_a_change_of_what_only_the_commit_touches_is_noticed() -> None:
    model = classifier(extra=lambda h: F.dropout(h, 0.5)).start()
    exe = model.parallel(2)
    step = exe.stepper(batch())
    counter = exe.inspection.program.rng_step
    exe.local_scope(1).find_var(counter).set(np.array([5], np.int64))
    with pytest.raises(PreconditionNotMet, match=rf"{counter}.*cpu:1 has changed"):
        step.finish()


def test_dropped_replicas_are_noticed() -> None:
    model = classifier().start()
    exe = model.parallel(2)
    step = exe.stepper(batch())
    model.scope.drop_kids()
    with pytest.raises(PreconditionNotMet, match="moved or dropped"):
        step.next()


def test_runs_and_other_steppers_leave_the_values_of_a_step_alone() -> None:
    model = classifier().start()
    exe = model.parallel(2)
    one, other = exe.stepper(batch(seed=1)), exe.stepper(batch(seed=2))
    one.run_until("relu", device=1)
    held = one.values("fc_0.tmp_2")
    other.run_until("relu", device=1)
    exe.run([], feed=batch(seed=3))
    exe.drop_local_exe_scopes()
    for mine, theirs, before in zip(one.values("fc_0.tmp_2"), other.values("fc_0.tmp_2"), held, strict=True):
        assert mine.tobytes() == before.tobytes() != theirs.tobytes()


def test_the_scope_is_held_while_a_node_runs_and_free_between() -> None:
    model = classifier().start()
    exe = model.parallel(2)
    step = exe.stepper(batch())
    taken: list[str] = []

    def elsewhere() -> None:
        def work() -> None:
            try:
                with model.scope.in_use(0.0):
                    taken.append("free")
            except Unavailable:
                taken.append("held")

        thread = threading.Thread(target=work)
        thread.start()
        thread.join(10)

    step._step.rows[3].calls.insert(0, elsewhere)
    step.run_until(lambda node: elsewhere() or node.number == 4)
    assert taken == ["free", "free", "free", "held", "free", "free"]
