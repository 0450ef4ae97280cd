"""A step run by hand that fails, is closed or goes on as any other."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.parallel.inspection.test_stepper import F, assert_same_bits, embedding, state, strategy, words
from tests.parallel.lowerings import in_both
from tests.parallel.models import Model, batch, build, classifier, devices
from workbench import events, static
from workbench.errors import (
    EnforceNotMet,
    InvalidArgument,
    PreconditionNotMet,
)
from workbench.executors.inspection.stepper import Stepper
from workbench.runtime.storage.tensor import LoDTensor

pytestmark = in_both


# Failures


def test_a_node_that_fails_discards_the_step_and_can_be_looked_at() -> None:
    model = build(embedding, wb.optimizer.SGD(0.1)).start()
    exe = model.parallel(2)
    exe.run([], feed=words())
    before = state(exe)
    feed = words()
    feed["x"][-1, 0] = 60  # device 1 reads a row that is not there
    with exe.stepper(feed) as step:
        with pytest.raises(EnforceNotMet, match=r"lookup_table_v2.*on cpu:1(.|\n)*at .*test_stepper"):
            for _ in step:
                pass
        assert "was discarded: op 'lookup_table_v2' failed on cpu:1" in repr(step)
        assert step.value("x", 1)[-1, 0] == 60
        assert step.where().splitlines()[0].startswith("1 of ")
        with pytest.raises(PreconditionNotMet, match=r"was discarded.*begin another one"):
            step.finish()
    assert_same_bits(state(exe), before)


def test_fetched_values_that_do_not_join_discard_the_step() -> None:
    def body() -> Any:
        x = static.data("x", [None, 5])
        wb.transpose(x, [1, 0], name="turned")
        return wb.mean(static.nn.fc(x, 1))

    model = build(body, wb.optimizer.SGD(0.1)).start()
    exe = model.parallel(2)
    turned = next(op.output_arg_names[0] for op in model.main.global_block().ops if op.type == "transpose2")
    exe.run([], feed={"x": batch(7)["x"]})
    before = state(exe)
    step = exe.stepper({"x": batch(7)["x"]}, [turned])
    with pytest.raises(InvalidArgument, match=turned):
        step.finish()
    assert_same_bits(state(exe), before)
    with pytest.raises(PreconditionNotMet, match="discarded"):
        step.finish()


def test_an_interrupted_node_can_be_run_again() -> None:
    model, same_model = (classifier(extra=lambda h: F.dropout(h, 0.5)).start() for _ in range(2))
    exe = model.parallel(2)
    step = exe.stepper(batch(), [model.loss])

    def interrupt() -> None:
        calls.pop()
        raise KeyboardInterrupt

    calls = step._step.rows[6].calls
    calls.append(interrupt)
    with pytest.raises(KeyboardInterrupt):
        step.finish()
    assert not step.is_over and step.next().number == 6
    (expected,) = same_model.parallel(2).run([same_model.loss], feed=batch())
    assert step.finish()[0].tobytes() == expected.tobytes()


def test_a_finished_step_is_over() -> None:
    model = classifier().start()
    exe = model.parallel(2)
    step = exe.stepper(batch())
    step.finish()
    assert "has been applied" in step.where()
    after = state(exe)
    for again in (step.finish, step.next):
        with pytest.raises(PreconditionNotMet, match="has been applied; begin another one"):
            again()
    step.abort()
    assert_same_bits(state(exe), after)
    assert "has been applied" in repr(step)


def test_feeds_and_fetches_are_checked_as_by_run() -> None:
    exe = classifier().start().parallel(2)
    for feed, fetches in (({"x": batch()["x"]}, []), (batch(1), []), (batch(), ["no"]), (batch(), [3])):
        with pytest.raises(EnforceNotMet) as run:
            exe.run(fetches, feed=feed)
        with pytest.raises(type(run.value)) as stepped:
            exe.stepper(feed, fetches)
        assert str(stepped.value) == str(run.value)
    with pytest.raises(PreconditionNotMet, match="startup program"):
        classifier().parallel(2).stepper(batch())


def test_there_is_nothing_to_step_through_in_a_dry_run() -> None:
    execution = static.ExecutionStrategy()
    execution._dry_run = True
    exe = classifier().start().parallel(2, exec_strategy=execution)
    with pytest.raises(PreconditionNotMet, match="_dry_run"):
        exe.stepper(batch())


# A step like any other


def test_finish_counts_as_a_step_and_tells_observers() -> None:
    execution = static.ExecutionStrategy()
    execution.num_iteration_per_drop_scope = 2
    model = classifier().start()
    exe = model.parallel(2, exec_strategy=execution)
    exe.run([], feed=batch())
    seen: list[Any] = []
    with events.subscribe(seen.append):
        step = exe.stepper(batch())
        step.run_until("relu")
        assert not [e for e in seen if isinstance(e, events.Step)]
        step.finish()
    assert [e.step for e in seen if isinstance(e, events.Step)] == [1]
    assert [e.cause for e in seen if isinstance(e, events.ScopeDrop)] == ["interval"]


def test_some_updates_only() -> None:
    """With a part of the updates in the fetch list just these are stepped through (E-3)."""
    model, same_model = classifier().start(), classifier().start()
    ops = [[op for op in m.main.global_block().ops if op.type == "sgd"][:1] for m in (model, same_model)]
    exe, other = model.parallel(2), same_model.parallel(2)
    with exe.stepper(batch(), [ops[0], model.loss]) as step:
        assert [node.type for node in step if node.type == "sgd"] == ["sgd", "sgd"]
        (loss,) = step.finish()
    assert loss.tobytes() == other.run([ops[1], same_model.loss], feed=batch())[0].tobytes()
    assert_same_bits(state(exe), state(other))


def test_devices_that_are_fed_nothing_take_no_part() -> None:
    model = classifier().start()
    exe = model.parallel(4, program=model.test)
    feed = [batch(2, seed) for seed in range(3)]
    with exe.stepper(feed, [model.loss.name]) as step:
        assert {node.device for node in step} == {0, 1, 2}
        assert len(step.values("x")) == 3
        (fetched,) = step.finish()
    assert fetched.tobytes() == exe.run([model.loss.name], feed=feed)[0].tobytes()


def compiled(model: Model, count: int = 2) -> static.CompiledProgram:
    places = static.cpu_places(count)
    return static.CompiledProgram(model.main).with_data_parallel(loss_name=model.loss.name, places=places)


def test_a_compiled_program_is_stepped_through_before_and_after_its_first_run() -> None:
    model, same_model = classifier().start(), classifier().start()
    program, exe = compiled(model), static.Executor()
    with static.scope_guard(model.scope), program.stepper(batch(), [model.loss]) as step:
        assert step.run_until("all_reduce").devices == (0, 1)
        (first,) = step.finish(return_merged=False)
    expected = static.Executor().run(
        compiled(same_model), batch(), [same_model.loss], scope=same_model.scope, return_merged=False
    )
    assert [a.tobytes() for a in first] == [np.asarray(b).tobytes() for b in expected[0]]
    exe.run(program, batch(), [model.loss], scope=model.scope)
    with program.stepper(batch()) as step:
        step.run_until("relu")
    with pytest.raises(InvalidArgument, match="stays with the scope"):
        exe.run(program, batch(), [model.loss], scope=static.Scope())


def test_a_compiled_program_on_one_device() -> None:
    model = classifier().start()
    program = static.CompiledProgram(model.main)
    with static.scope_guard(model.scope), program.stepper(batch(), [model.loss]) as step:
        assert {node.devices for node in step} == {(0,)}
        (loss,) = step.finish(return_numpy=False)
    assert isinstance(loss, LoDTensor) and loss.shape() == [1]


def test_graph_and_plan_are_shown() -> None:
    model = classifier(wb.optimizer.Adam(0.1)).start()
    with devices(2):
        exe = model.parallel(2, build_strategy=strategy(fuse_all_optimizer_ops=True))
    assert "fused_update" in str(exe.graph()) and "fused_update" not in str(exe.graph(observed=True))
    text = repr(exe.plan(batch()))
    assert text.startswith("plan: ") and "commit" in text
    assert exe.run([model.loss], feed=batch())  # and the executor runs as ever


def test_where_shows_the_neighbours() -> None:
    exe = classifier().start().parallel(2)
    step = exe.stepper(batch())
    assert isinstance(step, Stepper)
    step.run_until(3)
    lines = step.where().splitlines()
    assert lines[0].startswith("4 of ")
    assert [text[:5] for text in lines[1:4]] == ["   #2", "   #3", "-> #4"]
    assert "models.py, line" in lines[4]
