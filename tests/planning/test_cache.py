"""Shapes seen before stay seen: nothing is planned or bound again while there is room."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Iterable, Iterator
from random import Random
from typing import Any

import pytest

import workbench as wb
from tests.parallel.models import Model
from tests.planning.zoo import ZOO, Animal
from workbench.config import override
from workbench.executors.lowering import open_bindings
from workbench.executors.lowering.binding import Binding
from workbench.executors.planning.filled_plan import FilledPlan
from workbench.executors.running.finding.plan_cache import bytes_kept_for
from workbench.executors.running.finding.step_cache import StepCache
from workbench.executors.running.step.bound_step import BoundStep
from workbench.framework.notice import Notice

SEQUENCES = ZOO["sequences"]


@pytest.fixture(autouse=True)
def static_mode() -> Iterator[None]:
    wb.enable_static()
    yield
    wb.disable_static()


@pytest.fixture
def bound(monkeypatch: pytest.MonkeyPatch) -> list[Binding]:
    """All bindings that are made."""
    bindings: list[Binding] = []
    bind = StepCache._bind

    def noted(self: StepCache, *given: Any) -> BoundStep:
        step = bind(self, *given)
        bindings.append(step.binding)
        return step

    monkeypatch.setattr(StepCache, "_bind", noted)
    return bindings


def kept_bytes(exe: Any) -> int:
    """What is counted for the plans an executor keeps."""
    return sum(map(bytes_kept_for, exe.inspection.plans))


def run_all(exe: Any, model: Model, sizes: Iterable[int], animal: Animal = ZOO["classifier"]) -> None:
    """Batches of these sizes."""
    for rows in sizes:
        exe.run([model.loss], feed=animal.feed(rows, 0))


@pytest.mark.parametrize("order", ["rising", "falling", "any"])
def test_shapes_that_were_seen_are_not_bound_again(bound: list[Binding], order: str) -> None:
    model = SEQUENCES.model().start()
    exe = model.parallel(1)
    lengths = list(range(3, 19))
    if order != "rising":
        Random(1).shuffle(lengths) if order == "any" else lengths.reverse()
    for _ in range(2):
        for length in lengths:
            exe.run([model.loss], feed=SEQUENCES.feed(4, length))
    once = len(bound)
    for length in lengths:
        exe.run([model.loss], feed=SEQUENCES.feed(4, length))
    assert len(bound) == once  # neither in turn nor one after the other
    assert len(exe.inspection.plans) == 16
    assert once <= 16 + 4 * 16  # whenever a larger arena was needed, and that is twice as large


def test_what_devices_got_in_the_last_step_is_known_after_others_were_bound() -> None:
    model = ZOO["classifier"].model().start()
    exe = model.parallel(2)
    run_all(exe, model, [8])
    exe.inspection.binding((model.loss.name,), ZOO["classifier"].feed(800, 0))  # takes a larger arena
    assert exe.inspection.last_rows == {"x": (4, 4), "y": (4, 4)}


def test_many_shapes_stay_within_the_limit_and_it_is_said_once() -> None:
    model = ZOO["classifier"].model().start()
    exe = model.parallel(1)
    with override(plan_cache_mib=1), pytest.warns(Notice, match="combinations of shapes") as told:
        run_all(exe, model, range(1, 60))
    inspection = exe.inspection
    assert len(told) == 1 and kept_bytes(exe) <= 2**20
    assert {id(binding.plan) for binding in inspection.bindings} <= set(map(id, inspection.plans))
    newest = inspection.bindings[-1]
    exe.run([model.loss], feed=ZOO["classifier"].feed(59, 0))
    assert inspection.last is newest


def test_what_is_used_is_kept(bound: list[Binding]) -> None:
    """A shape that comes again and again is not the one used longest ago, found at once or not."""
    model = ZOO["classifier"].model().start()
    exe = model.parallel(1)
    with override(plan_cache_mib=1), pytest.warns(Notice):
        run_all(exe, model, [size for rows in range(1, 60) for size in (100, rows)])
    assert len(bound) == 60


@pytest.mark.parametrize("name", ["classifier", "sequences"])
def test_what_is_counted_is_what_plans_take(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Within a factor of two, of four for sequences, whose results of arithmetic on sizes are not counted; measured."""
    monkeypatch.setattr(open_bindings, "_APART", 1 << 30)
    animal = ZOO[name]
    model = animal.model().start()
    exe = model.parallel(1)
    for size in (30, 29, 28):  # the arena, and memory for temporaries of rows
        exe.run([model.loss], feed=animal.feed(size, size))
    tracemalloc.start()
    try:
        gc.collect()
        before, counted = tracemalloc.get_traced_memory()[0], kept_bytes(exe)
        for size in range(12, 20):
            exe.run([model.loss], feed=animal.feed(size, size))
        gc.collect()
        taken, counted = tracemalloc.get_traced_memory()[0] - before, kept_bytes(exe) - counted
    finally:
        tracemalloc.stop()
    assert counted / 2 < taken < counted * (2 if name == "classifier" else 4)


def traced(exe: Any, model: Model, animal: Animal, sizes: Iterable[int]) -> tuple[int, int]:
    """Bytes that steps of these sizes have left, as measured and as counted."""
    tracemalloc.start()
    try:
        gc.collect()
        before, counted = tracemalloc.get_traced_memory()[0], kept_bytes(exe)
        for size in sizes:
            exe.run([model.loss], feed=animal.feed(size, 3))
        gc.collect()
        return tracemalloc.get_traced_memory()[0] - before, kept_bytes(exe) - counted
    finally:
        tracemalloc.stop()


@pytest.mark.usefixtures("tape")
@pytest.mark.parametrize("name", ["classifier", "images", "rows"])
def test_what_is_counted_is_what_filled_plans_take(name: str) -> None:
    animal = ZOO[name]
    model = animal.model().start()
    exe = model.parallel(1)
    traced(exe, model, animal, [60, 59, 58, 57, 40, 41])
    taken, counted = traced(exe, model, animal, range(44, 56))
    assert sum(type(plan) is FilledPlan for plan in exe.inspection.plans) >= 12
    assert counted / 2 < taken < counted * (2 if name == "classifier" else 4)


@pytest.mark.usefixtures("tape")
def test_two_thousand_shapes_stay_within_the_limit_and_it_is_said_once() -> None:
    animal = ZOO["chain"]
    model = animal.model()
    exe = model.parallel(1, model.main)
    with override(plan_cache_mib=1), pytest.warns(Notice, match="combinations of shapes") as told:
        run_all(exe, model, range(2001, 1, -1), animal)
    assert len(told) == 1 and 2**19 < kept_bytes(exe) <= 2**20
    gc.collect()
    kept = set(map(id, exe.inspection.plans))
    alive = [o.plan for o in gc.get_objects() if type(o) is Binding and o.plan.graph.program is exe.inspection.program]
    assert 20 < len(alive) == len(kept) and set(map(id, alive)) == kept
