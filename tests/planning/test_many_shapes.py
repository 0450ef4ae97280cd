"""Feeds of many shapes, each of which comes again: what is made for them, and that it computes what it should."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.parallel.models import Model
from tests.planning.zoo import ZOO
from workbench.executors.lowering.programs import RowLowering
from workbench.executors.planning.filled_plan import FilledPlan
from workbench.executors.running.finding.compiler import Compiler

LENGTHS = (30, 33, 52, 31, 40, 47, 36, 44)


@pytest.fixture(autouse=True)
def static_mode() -> Iterator[None]:
    wb.enable_static()
    yield
    wb.disable_static()


@pytest.fixture
def work(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often a plan was made, for a shape or openly, and how often rows were lowered one after the other."""
    counts: Counter[str] = Counter()

    def counted(owner: Any, name: str) -> None:
        before = getattr(owner, name)

        def count(self: Any, *args: Any, **kwargs: Any) -> Any:
            counts[name] += 1
            return before(self, *args, **kwargs)

        monkeypatch.setattr(owner, name, count)

    counted(Compiler, "plan")
    counted(Compiler, "plan_openly")
    counted(RowLowering, "programs")
    return counts


def started(name: str, threads: int = 1) -> tuple[Model, Any]:
    model = ZOO[name].model().start()
    strategy = wb.static.ExecutionStrategy()
    strategy.num_threads = threads
    return model, model.parallel(1, exec_strategy=strategy)


def visit(model: Model, exe: Any, lengths: Sequence[int], rows: int = 32) -> None:
    for length in lengths:
        exe.run([model.loss], feed=ZOO["sequences"].feed(rows, length))


@pytest.mark.usefixtures("tape")
@pytest.mark.parametrize("order", [LENGTHS, sorted(LENGTHS), sorted(LENGTHS)[::-1]], ids=["mixed", "longer", "shorter"])
def test_a_shape_that_comes_again_makes_nothing_anew(order: Sequence[int], work: Counter[str]) -> None:
    """Also where later shapes have taken larger memory, so that everything has moved."""
    model, exe = started("sequences")
    visit(model, exe, order)
    assert work == {"plan_openly": 1, "programs": 2}  # speculation and commit
    assert [type(plan) for plan in exe.inspection.plans] == [FilledPlan] * len(order)
    work.clear()
    visit(model, exe, order)
    assert not work
    bound = list(map(id, exe.inspection.bindings))
    for _ in range(3):
        visit(model, exe, order)
    assert not work and list(map(id, exe.inspection.bindings)) == bound


@pytest.mark.usefixtures("tape")
def test_the_first_shape_stays_bound_when_longer_ones_come() -> None:
    model, exe = started("sequences")
    visit(model, exe, [30])
    (first,) = exe.inspection.bindings
    visit(model, exe, [45, 60, 30])
    assert exe.inspection.bindings[-1] is first


@pytest.mark.usefixtures("tape")
def test_a_program_of_which_only_the_number_of_rows_is_unknown_has_a_plan_of_its_own(work: Counter[str]) -> None:
    model, exe = started("classifier")
    for _ in range(5):
        exe.run([model.loss], feed=ZOO["classifier"].feed(8, 0))
    assert work == {"plan": 1, "programs": 2}


@pytest.mark.usefixtures("tape")
def test_storage_that_is_replaced_is_met_by_filling_in(work: Counter[str]) -> None:
    """One open plan for the new storage, not a plan or a lowering of every shape."""
    model, exe = started("sequences")
    visit(model, exe, LENGTHS)
    name = model.main.all_parameters()[0].name
    tensor = model.scope.find_var(name).get_tensor()
    tensor.part()
    tensor.move_to(np.empty_like(tensor.array), None)
    work.clear()
    visit(model, exe, LENGTHS * 2)
    assert work["plan"] == 0 and work["plan_openly"] == 1
    assert work["programs"] == 2


@pytest.mark.usefixtures("tape")
@pytest.mark.parametrize("threads", [1, 2])
def test_steps_have_the_bits_of_executors_that_see_one_shape_only(threads: int) -> None:
    model, exe = started("sequences", threads)
    alone = {length: started("sequences", threads) for length in LENGTHS}
    for length in LENGTHS * 3:
        other, own = alone[length]
        for name, value in model.values().items():
            other.scope.find_var(name).get_tensor().set(value)
        feed = ZOO["sequences"].feed(32, length)
        (loss,) = exe.run([model.loss], feed=feed)
        (expected,) = own.run([other.loss], feed=feed)
        assert loss.tobytes() == expected.tobytes()
        after = other.values()
        assert all(np.array_equal(value, after[name]) for name, value in model.values().items())
    for _, own in alone.values():
        assert len(own.inspection.plans) == 1
