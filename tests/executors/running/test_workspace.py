"""An executor and its pruned programs work in the same memory, with the same threads, one step at a time."""

from __future__ import annotations

import gc
import threading
import weakref
from typing import Any
from unittest import mock

import numpy as np
import pytest

import workbench as wb
from tests.executors.models import Model, regression
from workbench import static
from workbench.config import override
from workbench.executors.running.finding.plan_cache import PlanCache
from workbench.framework.notice import Notice
from workbench.framework.program.guard import static_mode
from workbench.runtime.arena import Arena


class Trained:
    """A model and two ways to run it: whole, and pruned to what the prediction needs, without updates."""

    def __init__(self, executors: int) -> None:
        self.model: Model = regression(dropout=False)
        self.scope, self.feed = static.Scope(), self.model.feed(1, 64)
        static.Executor().run(self.model.startup, scope=self.scope)
        self.exes = [static.Executor() for _ in range(executors)]

    def run(self, pruned: bool, feed: Any = None) -> list[bytes]:
        exe, name = self.exes[pruned % len(self.exes)], self.model.main.all_parameters()[0].name
        update = next(op for op in self.model.main.global_block().ops if name in op.inputs.get("Param", ()))
        fetches = [self.model.loss, update] if pruned else [self.model.loss]
        results = exe.run(self.model.main, feed or self.feed, fetches, scope=self.scope)
        return [value.tobytes() for value in results]


def arenas_made(trained: Trained) -> int:
    """How many arenas there are after steps of both kinds, the larger one first."""
    with mock.patch.object(Arena, "__init__", autospec=True, side_effect=Arena.__init__) as arenas:
        for pruned in (False, True, False, True):
            trained.run(pruned)
    return int(arenas.call_count)


def test_a_pruned_program_runs_in_the_memory_of_the_whole() -> None:
    assert arenas_made(Trained(executors=1)) == 1
    assert arenas_made(Trained(executors=2)) == 2


def test_the_bits_are_those_of_executors_with_memory_of_their_own() -> None:
    """Also where a larger batch, of either program, takes a larger arena under the other."""
    one, two = Trained(executors=1), Trained(executors=2)
    for pruned, rows in [(False, 8), (True, 8), (True, 300), (False, 8), (False, 2000), (True, 300), (True, 8)] * 2:
        feed = one.model.feed(rows, rows)
        assert one.run(pruned, feed) == two.run(pruned, feed)
    assert one.model.state(one.scope) == two.model.state(two.scope)


def test_a_pruned_program_runs_on_the_threads_of_the_whole(tape: None) -> None:
    def workers() -> int:
        return sum("device thread" in thread.name for thread in threading.enumerate())

    with static_mode(), static.program_guard(static.Program(), static.Program()):
        x = static.data("x", [None, 256])
        left, right = static.nn.fc(x, 256), static.nn.fc(x, 256)
        main, startup = static.default_main_program(), static.default_startup_program()
    scope, exe = static.Scope(), static.Executor()
    exe.run(startup, scope=scope)
    program = static.CompiledProgram(main).with_data_parallel(places=static.cpu_places(2))
    feed, before = {"x": np.ones((512, 256), np.float32)}, workers()
    with override(cpu_tape=True):
        for fetches in ([left, right], [left], [right]):
            exe.run(program, feed, fetches, scope=scope, use_prune=fetches != [left, right])
    assert workers() - before == 1


def loop_model(width: int) -> tuple[Any, Any]:
    """The loss of a loop whose gradient needs every pass, over [rows, width]."""
    x, count = static.data("x", [None, width]), wb.full([1], 0, "int64")
    x.stop_gradient = False

    def body(i: Any, h: Any) -> list[Any]:
        return [i + 1, wb.tanh(h * 1.01)]

    _, h = static.nn.while_loop(lambda i, h: i < 50, body, [count, x])
    loss = wb.mean(h)
    (grad,) = static.gradients(loss, x)
    return loss, grad


def test_what_loops_hold_is_counted(tape: None) -> None:
    with static_mode(), static.program_guard(static.Program(), static.Program()):
        loss, grad = loop_model(256)
        main = static.default_main_program()
    scope, exe = static.Scope(), static.Executor()

    def step(rows: int) -> None:
        exe.run(main, {"x": np.ones((rows, 256), np.float32)}, [loss, grad], scope=scope)

    with override(plan_cache_mib=64):
        for rows in range(1, 5):
            step(100 + rows)
        plans: PlanCache = exe.compiled(main, scope).engine.workspace.plans
        held = plans.nbytes
        assert len(plans) == 4 and held > 4 * 50 * 100 * 256 * 4  # every pass of every shape
    with override(plan_cache_mib=held * 2 // 3 >> 20), pytest.warns(Notice, match="MiB"):
        step(110)
    assert len(plans) < 4 and plans.nbytes < held


def test_plans_of_pruned_programs_that_are_forgotten_go_with_them() -> None:
    trained = Trained(executors=1)
    trained.run(False)
    whole = trained.exes[0].compiled(trained.model.main, trained.scope).engine
    trained.run(True)
    (part,) = whole.pruned.values()
    number, gone = part.number, weakref.ref(part)
    assert len(whole.workspace.plans.of(number)) == 1
    whole.pruned.clear()
    whole.state.forget()
    del part
    gc.collect()
    assert gone() is None
    trained.run(False, trained.model.feed(1, 32))
    assert whole.workspace.plans.of(number) == [] and len(whole.workspace.plans.of(whole.number)) == 2
