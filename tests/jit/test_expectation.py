"""What is compared before a recorded step is run again: the very objects, of whatever names and in whatever number."""

from __future__ import annotations

import enum
import gc
from types import SimpleNamespace
from typing import Any
from weakref import ref

import pytest

import workbench as wb
from workbench.executors.feeding.feed_plan import FeedPlan
from workbench.jit.values.expectation import Expectation
from workbench.jit.values.watches import ContainerWatch, ValueWatch

PLAN = FeedPlan([], [], 2, {})


def test_values_are_compared_by_identity() -> None:
    name = "a 'quoted' {name}"
    one, space = SimpleNamespace(rate=0.5), {name: [1]}
    expectation = Expectation(["x", "y"])
    expectation.add_attribute(one, "rate")
    expectation.add_entry(space, name)
    expectation.add_result(lambda: one)
    expectation.add_attribute_of_all("kind")
    compare, kind = expectation.compiled(), object()
    args = [SimpleNamespace(kind=kind, array=1), SimpleNamespace(kind=kind, array=2)]
    expectation.expect([one.rate, space[name], one, kind, kind], PLAN)
    fed = compare(args)
    assert fed is not None and fed.plan is PLAN and fed.sources == [{"x": 1, "y": 2}] * 2
    space[name] = [1]  # equal, and another object
    assert compare(args) is None
    expectation.expect([one.rate, space[name], one, kind, kind], PLAN)
    assert compare(args) and compare([args[0], SimpleNamespace(kind=object(), array=2)]) is None
    assert compare(args[:1]) is compare([1, 2]) is None  # another number of arguments; no tensors


def test_what_is_to_be_equal_is_asked_behind_a_refresh_and_before_the_rest() -> None:
    one, other, parts = SimpleNamespace(now=1000), SimpleNamespace(writes=1), list[int]()
    told: list[Any] = []
    expectation = Expectation([])
    expectation.add_equality(one, "now", other, "writes")
    expectation.add_refresh(parts, lambda given: (told.append(list(given)), setattr(other, "writes", 500 + 500))[0])
    expectation.add_truth(lambda: len(told) < 5)
    expectation.add_result(lambda: told.append("looked at"))
    expectation.expect([None], PLAN)
    compare = expectation.compiled()
    assert compare([]) is None and not told
    parts.append(3)
    assert compare([]) and told == [[3], "looked at"]
    assert compare([]) and compare([]) is None


def test_very_many_values_and_none_at_all() -> None:
    space = {f"n{i}": object() for i in range(5000)}
    expectation, none = Expectation([]), Expectation([])
    for name in space:
        expectation.add_entry(space, name)
    expectation.expect(list(space.values()), PLAN)
    none.expect([], PLAN)
    compare = expectation.compiled()
    assert compare([]) and none.compiled()([])
    space["n4999"] = object()
    assert compare([]) is None


class Name(enum.StrEnum):
    """Names that do not show as what they are equal to."""

    MEAN = "mean"


class Code(str):
    """A name that shows as code."""

    def __repr__(self) -> str:
        return "1 / 0"


@pytest.mark.parametrize("key", [Name.MEAN, Code("mean")], ids=["enum", "code"])
def test_names_of_users_are_not_part_of_what_is_compiled(key: str) -> None:
    layer = wb.nn.Linear(1, 1)
    layer.register_buffer(key, wb.ones([1]))
    sgd = wb.optimizer.SGD(0.5, parameters=layer.parameters())

    @wb.jit.capture
    def step(given: Any) -> Any:
        loss = (layer(given) + layer._buffers[key]).sum()
        loss.backward()
        sgd.step()
        sgd.clear_grad()
        return loss

    given, before = wb.ones([1, 1]), layer.bias.item()
    for count in (1, 2, 3, 4):  # the next check is in front of the eighth run
        step(given)
        assert layer.bias.item() == pytest.approx(before - 0.5 * count)
    assert step.recorded.feed_if_unchanged([given])
    layer._buffers[key] = wb.ones([1])
    assert step.recorded.feed_if_unchanged([given]) is None


def test_where_nothing_can_be_compared_steps_are_applied_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    count = wb.zeros([1])

    @wb.jit.capture
    def step(given: Any) -> Any:
        wb.assign(count + given, count)
        return count * 2.0

    def fail(self: Expectation) -> Any:
        raise SyntaxError("too much")

    with monkeypatch.context() as patched:
        patched.setattr(Expectation, "compiled", fail)
        assert [step(wb.ones([1])).item() for _ in range(3)] == [2.0, 4.0, 6.0]
        assert step.recorded.feed_if_unchanged([wb.ones([1])]) is None
    assert step(wb.ones([1])).item() == 8.0 and step.captures == 1
    assert step.recorded.feed_if_unchanged([wb.ones([1])])


def test_what_is_compared_is_not_kept_alive_by_itself() -> None:
    class Subject:
        rate = 0.5

    subject = Subject()
    expectation, left = Expectation([]), ref(subject)
    expectation.add_attribute(subject, "rate")
    expectation.expect([subject.rate], PLAN)
    compare = expectation.compiled()
    assert compare([])
    gc.disable()
    try:
        del subject, expectation, compare
        assert left() is None
    finally:
        gc.enable()


def test_a_watch_notices_what_comes_and_goes() -> None:
    space: dict[str, Any] = {"here": 1000}

    def outer() -> Any:
        cell_value = 2000
        return lambda: cell_value

    (cell,) = outer().__closure__
    watch = ValueWatch()
    assert watch.add_entry("here", space, "here") and not watch.add_entry("here", space, "here")
    assert watch.add_entry("away", space, "away") and watch.add_cell("cell_value", cell)
    expectation = Expectation([])
    watch.expect_in(expectation)
    expectation.expect(watch.kept, PLAN)
    compare = expectation.compiled()
    assert compare([])
    space["away"] = 1
    assert compare([]) is None
    del space["away"]
    cell.cell_contents = 2001
    assert compare([]) is None
    cell.cell_contents = watch.kept[2]
    assert compare([])
    del cell.cell_contents
    assert compare([]) is None
    cell.cell_contents = watch.kept[2]
    assert compare([])
    del space["here"]
    assert compare([]) is None


@pytest.mark.parametrize(
    ("container", "change"),
    [([1000], lambda c: c.append(2)), ([1000], lambda c: c.__setitem__(0, 1001)),
     ({"k": 1000}, lambda c: c.update(k=1001)),
     ([], lambda c: c.append(1)), ({}, lambda c: c.update(k=1)), ({"k": 1000}, lambda c: c.update(l=c.pop("k")))],
)  # fmt: skip
def test_entries_are_compared_in_place(container: Any, change: Any) -> None:
    watch, expectation, asked = ContainerWatch("it", container), Expectation([]), []
    unchanged = watch.is_unchanged
    watch.is_unchanged = lambda: (asked.append(1), unchanged())[1]  # type: ignore[method-assign]
    watch.expect_in(expectation)
    expectation.expect([], PLAN)
    compare = expectation.compiled()
    assert compare([]) and not asked
    if container:
        copied = type(container)(container)
        container.clear()
        (container.extend if isinstance(container, list) else container.update)(copied)
        assert compare([]) and not asked
    change(container)
    assert compare([]) is None
