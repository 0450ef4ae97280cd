"""What is compared before a recorded step is run again: the very objects, of whatever names and in whatever number."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from workbench.jit.values.expectation import Expectation
from workbench.jit.values.watches import ValueWatch


def test_values_are_compared_by_identity() -> None:
    name = "a 'quoted' {name}"
    one, space = SimpleNamespace(rate=0.5), {name: [1]}
    expectation = Expectation(2)
    expectation.add(one, ".rate")
    expectation.add(space, f"[{name!r}]")
    expectation.add(lambda: one, "()")
    expectation.add_attribute_of_all("kind")
    compare, kind = expectation.compiled(), object()
    args = [SimpleNamespace(kind=kind), SimpleNamespace(kind=kind)]
    expectation.expect([one.rate, space[name], one, kind, kind])
    assert compare(args)
    space[name] = [1]  # equal, and another object
    assert not compare(args)
    expectation.expect([one.rate, space[name], one, kind, kind])
    assert compare(args) and not compare([args[0], SimpleNamespace(kind=object())])
    with pytest.raises(ValueError, match="values to unpack"):
        compare(args[:1])


def test_very_many_values_and_none_at_all() -> None:
    space = {f"n{i}": object() for i in range(5000)}
    expectation, none = Expectation(0), Expectation(0)
    for name in space:
        expectation.add(space, f"[{name!r}]")
    expectation.expect(list(space.values()))
    compare = expectation.compiled()
    assert compare([]) and none.compiled()([])
    space["n4999"] = object()
    assert not compare([])


def test_a_watch_notices_what_comes_and_goes() -> None:
    space: dict[str, Any] = {"here": 1000}

    def outer() -> Any:
        cell_value = 2000
        return lambda: cell_value

    (cell,) = outer().__closure__
    watch = ValueWatch()
    assert watch.add_entry("here", space, "here") and not watch.add_entry("here", space, "here")
    assert watch.add_entry("away", space, "away") and watch.add_cell("cell_value", cell)
    expectation = Expectation(0)
    watch.expect_in(expectation)
    expectation.expect(watch.kept)
    compare = expectation.compiled()
    assert compare([])
    space["away"] = 1
    assert not compare([])
    del space["away"]
    cell.cell_contents = 2001
    assert not compare([])
    cell.cell_contents = watch.kept[2]
    assert compare([])
    del space["here"]
    with pytest.raises(KeyError):
        compare([])
