"""An Executor's programs run on the engine that all executors share; the reference interpreter stands beside it."""

from __future__ import annotations

import ast
import gc
import re
import weakref
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import workbench as wb
from tests.executors.models import Model, regression
from workbench import events, static
from workbench.config import override
from workbench.errors import InvalidArgument
from workbench.executors import reference
from workbench.framework.program.guard import static_mode

REFERENCE = Path(reference.__path__[0])


@pytest.fixture
def model() -> Model:
    return regression()


@pytest.fixture
def scope(model: Model) -> static.Scope:
    fresh = static.Scope()
    static.Executor().run(model.startup, scope=fresh)
    return fresh


@pytest.fixture
def compiled() -> Iterator[list[events.PlanCompiled]]:
    """The plans that are made."""
    plans: list[events.PlanCompiled] = []
    with events.subscribe(plans.append, events.PlanCompiled):
        yield plans


def trained(model: Model, steps: int = 6) -> tuple[list[float], dict[str, bytes], static.Scope]:
    exe, scope = static.Executor(), static.Scope()
    exe.run(model.startup, scope=scope)
    losses = [exe.run(model.main, model.feed(i), [model.loss], scope=scope)[0].item() for i in range(steps)]
    return losses, model.state(scope), scope


def test_of_several_wrong_variables_the_reference_names_the_first_by_name(model: Model, scope: static.Scope) -> None:
    """Not by a hash that is another in every process."""
    held = {v.name: v.tensor.array.copy() for v in scope.vars.values() if v.name in model.state(scope)}
    read = sorted(name for name in held if held[name].ndim == 2 or "velocity" in name)
    for name in read:
        scope.find_var(name).set(np.ones((7, 7), np.float32))
    assert len(read) > 5
    with override(executor="reference"):
        for name in read:
            with pytest.raises(InvalidArgument, match=re.escape(f"{name!r} in the scope")):
                static.Executor().run(model.main, model.feed(), scope=scope)
            scope.find_var(name).set(held[name])
        static.Executor().run(model.main, model.feed(), scope=scope)


def test_it_computes_what_the_reference_computes(model: Model) -> None:
    losses, _, scope = trained(model)
    with override(executor="reference"):
        expected, state, reference = trained(model)
    np.testing.assert_allclose(losses, expected, rtol=1e-5)
    for name in state:
        mine, theirs = (np.array(held.find_var(name).get_tensor()) for held in (scope, reference))
        np.testing.assert_allclose(mine, theirs, rtol=2e-5, atol=1e-6, err_msg=name)


def test_it_is_bit_for_bit_a_compiled_program(model: Model) -> None:
    losses, state, _ = trained(model)
    scope, exe, program = static.Scope(), static.Executor(), static.CompiledProgram(model.main)
    exe.run(model.startup, scope=scope)
    again = [exe.run(program, model.feed(i), [model.loss], scope=scope)[0].item() for i in range(6)]
    assert again == losses and model.state(scope) == state


def test_startup_programs_are_not_compiled(model: Model, compiled: list[events.PlanCompiled]) -> None:
    exe, scope = static.Executor(), static.Scope()
    exe.run(model.startup, scope=scope)
    assert compiled == []
    exe.run(model.main, model.feed(), scope=scope)
    assert len(compiled) == 1


def test_with_the_reference_nothing_is(model: Model, scope: static.Scope, compiled: list[events.PlanCompiled]) -> None:
    with override(executor="reference"):
        static.Executor().run(model.main, model.feed(), scope=scope)
    assert compiled == []


def test_a_flag_that_names_no_way_to_run_is_refused() -> None:
    with pytest.raises(wb.errors.InvalidArgument, match="takes 'compiled' or 'reference', got 'fast'"):
        wb.set_flags({"FLAGS_executor": "fast"})


def test_a_program_that_changes_is_compiled_anew(model: Model, scope: static.Scope) -> None:
    exe, test = static.Executor(), model.main.clone(for_test=True)
    first = exe.compiled(test, scope)
    (before,) = exe.run(test, model.feed(), [model.out.name], scope=scope)
    assert exe.compiled(test, scope) is first
    with static_mode(), static.program_guard(test):
        doubled = test.global_block().var(model.out.name) * 2.0
    (after,) = exe.run(test, model.feed(), [doubled], scope=scope)
    assert exe.compiled(test, scope) is not first
    np.testing.assert_array_equal(after, 2 * before)


def test_each_scope_has_values_of_its_own(model: Model) -> None:
    exe, scopes = static.Executor(), [static.Scope() for _ in range(3)]
    for scope in scopes:
        exe.run(model.startup, scope=scope)
    for scope, steps in zip(scopes, (1, 3, 2), strict=True):
        for i in range(steps):
            exe.run(model.main, model.feed(i), scope=scope)
    assert [model.state(scope) for scope in scopes] == [trained(model, steps)[1] for steps in (1, 3, 2)]


def test_what_is_compiled_goes_with_its_program(scope: static.Scope) -> None:
    exe, model = static.Executor(), regression()
    exe.run(model.main, model.feed(), scope=scope)
    engine = weakref.ref(exe.compiled(model.main, scope).engine)
    gc.collect()
    assert engine() is not None
    del model
    gc.collect()
    other = regression()
    exe.run(other.main, other.feed(), scope=scope)
    gc.collect()
    assert engine() is None


def test_its_steps_are_told_and_looked_into(model: Model, scope: static.Scope) -> None:
    exe, steps = static.Executor(), []
    with events.subscribe(steps.append, events.Step):
        exe.run(model.main, model.feed(), scope=scope)
    before = model.state(scope)
    program = exe.compiled(model.main, scope)
    assert [step.executor for step in steps] == [program.engine.reporter.name]
    with program.stepper(model.feed(1), [model.loss]) as step:
        assert step.next().type == "mul"
        (loss,) = step.finish()
    assert model.state(scope) != before
    (expected,) = trained(model, 2)[0][1:]
    assert loss.item() == pytest.approx(expected, rel=1e-5)


def test_a_new_rate_counts_on_several_devices_too() -> None:
    """The first `set_lr` makes a schedule of what steps so far have read from the scope."""
    rate, ratio = wb.optimizer.SGD(0.1), []
    model = regression(dropout=False, batch_norm=False, optimizer=rate)
    scope = static.Scope()
    static.Executor().run(model.startup, scope=scope)
    exe = static.ParallelExecutor(False, model.loss.name, model.main, scope=scope)
    weight = scope.find_var("fc_1.b_0").get_tensor()
    for value in (0.1, 0.3):
        rate.set_lr(value)
        before = np.array(weight)
        (gradient,) = exe.run(["fc_1.b_0@GRAD"], model.feed())
        ratio.append(((before - np.array(weight)) / gradient[:1]).item())
    assert ratio == pytest.approx([0.1, 0.3], rel=1e-4)


def test_what_is_fed_and_read_by_no_op_can_be_fetched() -> None:
    with static_mode(), static.program_guard(static.Program(), static.Program()):
        x, y = static.data("x", [None, 2]), static.data("y", [None, 2])
        out, exe = y + 1.0, static.Executor()
        feed = {"x": np.ones((3, 2), np.float32), "y": np.zeros((3, 2), np.float32)}
        fetched = exe.run(feed=feed, fetch_list=[x, out], scope=static.Scope())
        assert [value.tolist() for value in fetched] == [[[1.0, 1.0]] * 3] * 2
        with pytest.raises(wb.errors.InvalidArgument, match="feed 'x' is missing"):
            exe.run(feed={"y": feed["y"]}, fetch_list=[x, out], scope=static.Scope())


def test_the_reference_stands_by_itself() -> None:
    files = sorted(REFERENCE.glob("*.py"))
    lines = [line for path in files for line in path.read_text(encoding="utf-8").splitlines()]
    nodes = [node for path in files for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))]
    imported = {node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)}
    of_executors = {name for name in imported if name.startswith("workbench.executors")}
    assert of_executors and all(name.startswith("workbench.executors.reference.") for name in of_executors)
    assert len(lines) < 500


@pytest.mark.parametrize("devices", [0, 1, 2])
def test_random_numbers_go_on_without_a_startup_program(devices: int) -> None:
    """As where parameters are loaded: the counter of the steps is made by the first one."""
    main = static.Program()
    main.random_seed = 5
    with static_mode(), static.program_guard(main, static.Program()):
        kept = wb.nn.functional.dropout(static.data("x", [None, 64]), 0.5)
    exe, scope, run = static.Executor(), static.Scope(), main
    if devices:
        run = static.CompiledProgram(main).with_data_parallel(places=static.cpu_places(devices))
    feed = {"x": np.ones((2, 64), np.float32)}
    drawn = [exe.run(run, feed, [kept], scope=scope)[0] for _ in range(4)]
    assert len({value.tobytes() for value in drawn}) == 4
    assert np.array(scope.get(main.rng_step).get_tensor()).tolist() == [4]
    with override(executor="reference"):
        other = static.Scope()
        expected = [exe.run(main, feed, [kept], scope=other)[0] for _ in range(4)]
    if devices < 2:
        np.testing.assert_array_equal(drawn, expected)
