"""Steps of plans with open sizes: sparse gradients, labels, whole-step launches, threads."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pytest

import workbench as wb
from tests.parallel.models import Model
from tests.planning.zoo import ZOO
from workbench.config import override
from workbench.errors import InvalidArgument
from workbench.executors.lowering import open_bindings
from workbench.executors.lowering.meta import MetaArray
from workbench.framework.values.dtype import as_dtype
from workbench.framework.values.spec import Spec


@pytest.fixture(autouse=True)
def static_mode() -> Iterator[None]:
    wb.enable_static()
    yield
    wb.disable_static()


def feed_of(rows: int, steps: int) -> dict[str, np.ndarray]:
    return ZOO["words"].feed(rows, steps)


@pytest.mark.usefixtures("tape")
def test_shapes_to_come_find_storage_that_was_replaced(words: tuple[Model, Any]) -> None:
    model, exe = words
    values = model.values()
    model.scope.erase(list(values))
    for name, value in values.items():
        model.scope.var(name).set(value / 2)
    again = ZOO["words"].model()
    for name, value in values.items():
        again.scope.var(name).set(value / 2)
    feed = feed_of(13, 10)
    (fetched,) = exe.run([model.loss], feed=feed)
    (expected,) = again.parallel(1).run([again.loss], feed=feed)
    assert fetched.tobytes() == expected.tobytes()
    for name, value in again.values().items():
        assert np.array_equal(model.value(name), value), name


@pytest.mark.usefixtures("tape")
def test_data_a_kernel_declines_is_explained(words: tuple[Model, Any]) -> None:
    model, exe = words
    before = model.values()
    bad = feed_of(13, 10)
    bad["ids"][3, 4] = 99
    with pytest.raises(InvalidArgument, match=r"(?s)lookup_table.*99.*13, 10"):
        exe.run([model.loss], feed=bad)
    after = model.values()
    assert all(np.array_equal(after[name], value) for name, value in before.items())
    exe.run([model.loss], feed=feed_of(13, 10))


@pytest.mark.usefixtures("tape")
def test_shapes_the_program_does_not_take_are_refused_as_ever(words: tuple[Model, Any]) -> None:
    model, exe = words
    uneven = {**feed_of(13, 10), "y": feed_of(12, 10)["y"]}
    alone = ZOO["words"].model().start()
    with pytest.raises(InvalidArgument) as expected:
        alone.parallel(1).run([alone.loss], feed=uneven)
    with pytest.raises(InvalidArgument) as raised:
        exe.run([model.loss], feed=uneven)
    assert str(raised.value) == str(expected.value)


@pytest.mark.usefixtures("tape")
def test_nan_is_found_and_named(words: tuple[Model, Any]) -> None:
    model, exe = words
    table = next(v.name for v in model.main.all_parameters() if "embedding" in v.name)
    value = model.value(table)
    value[:] = np.nan
    model.scope.find_var(table).get_tensor().set(value)
    with override(check_nan_inf=True), pytest.raises(Exception, match="lookup_table"):
        exe.run([model.loss], feed=feed_of(14, 11))


@pytest.mark.usefixtures("tape")
def test_parameters_that_move_are_seen(words: tuple[Model, Any]) -> None:
    """Other storage in the scope: what was filled in before and what is filled in afterwards runs on that."""
    model, exe = words
    name = model.main.all_parameters()[0].name
    tensor = model.scope.find_var(name).get_tensor()
    tensor.set(np.zeros_like(tensor.array))
    tensor.part()
    tensor.move_to(np.empty_like(tensor.array), None)
    exe.run([model.loss], feed=feed_of(12, 9))
    exe.run([model.loss], feed=feed_of(15, 12))
    assert np.any(model.value(name))  # learns


@pytest.mark.usefixtures("tape")
def test_temporaries_can_be_dropped_and_seen(words: tuple[Model, Any]) -> None:
    model, exe = words
    exe.drop_local_exe_scopes()
    (loss,) = exe.run([model.loss], feed=feed_of(16, 13))
    assert np.array_equal(np.asarray(exe.local_scope(0).find_var(model.loss.name).get_tensor()), loss)


class Fills(NamedTuple):
    """What an open binding gives for a shape."""

    wanting: float


class OpenFor:
    """In the place of an open binding: right for as many shapes as it is told, and the quickest for some of these."""

    def __init__(self, shapes: int, quickest: int = 1 << 30) -> None:
        self.left, self.current, self.quickest = shapes, True, quickest

    def is_current(self) -> bool:
        return self.current

    def try_fill(self, given: Any) -> Any:
        self.left -= 1
        self.quickest -= 1
        return Fills(float(self.quickest < 0)) if self.left >= 0 else None


def shapes_met(bindings: list[OpenFor], form: Any, count: int, shapes: int, quickest: int = 1 << 30) -> list[Any]:
    """What so many further shapes are given; every open binding is right for some of them."""

    def make(dims: Any) -> Any:
        bindings.append(OpenFor(shapes, quickest))
        return bindings[-1]

    rows = range(2 + 1000 * len(bindings), 2 + 1000 * len(bindings) + count)
    return [form.fit({("x", 0): Spec((n, 3), as_dtype("float32"))}, make) for n in rows]


def test_shapes_that_none_of_many_open_plans_is_right_for_are_planned_each_for_itself() -> None:
    """Where decisions turn all the time, there is an end to making further ones."""
    bindings: list[OpenFor] = []
    shapes_met(bindings, open_bindings.FeedForm(), 100, shapes=1)
    assert len(bindings) == open_bindings._MOST


def test_where_decisions_turn_the_next_shape_makes_a_further_one() -> None:
    """Only the first shapes of a program are planned each for itself: it may have no others."""
    bindings: list[OpenFor] = []
    fits = shapes_met(bindings, open_bindings.FeedForm(), 11, shapes=3)
    assert [fit is None for fit in fits] == [True, True, *[False] * 9]
    assert [fit.binding for fit in fits[2:]] == [one for one in bindings for _ in range(3)]


def test_where_another_plan_would_only_be_quicker_shapes_are_served_until_it_is_made() -> None:
    bindings: list[OpenFor] = []
    form = open_bindings.FeedForm()
    fits = shapes_met(bindings, form, 100, shapes=1000, quickest=5)
    assert len(bindings) == 1 and all(fit.binding is bindings[0] for fit in fits[2:])
    assert [fit.filled.wanting for fit in fits[2:]] == [0.0] * 5 + [1.0] * 93
    given = {("x", 0): Spec((2000, 3), as_dtype("float32"))}
    assert form.improve(given, lambda dims: bindings.append(OpenFor(1000)) or bindings[-1])
    fit = form.fit(given, None)
    assert fit.binding is bindings[1] and not fit.filled.wanting


def test_what_is_bound_to_storage_that_was_replaced_is_not_kept() -> None:
    bindings: list[OpenFor] = []
    form = open_bindings.FeedForm()
    assert shapes_met(bindings, form, 5, shapes=50)[-1].binding is bindings[0]
    bindings[0].current, left = False, bindings[0].left
    fits = shapes_met(bindings, form, 5, shapes=50)
    assert bindings[0].left == left and fits[-1].binding is bindings[1]


@pytest.mark.parametrize(
    ("shape", "wanted"),
    [((3, 1), (2, 3, 5)), ((3, 1), (3, 1)), ((), (2, 1)), ((1, 4), (3, 4)), ((2,), (3,)), ((2, 3), (3,))],
)
def test_arrays_without_memory_are_broadcast_as_numpy_does(shape: tuple[int, ...], wanted: tuple[int, ...]) -> None:
    given = np.zeros(shape, np.float32)
    array = MetaArray(64, shape, given.strides, np.float32)
    try:
        expected = np.broadcast_to(given, wanted)
    except ValueError:
        with pytest.raises(ValueError, match="broadcast"):
            np.broadcast_to(array, wanted)  # type: ignore[call-overload]
        return
    view: Any = np.broadcast_to(array, wanted)  # type: ignore[call-overload]
    used = [axis for axis, dim in enumerate(wanted) if dim > 1]
    assert (view.address, view.shape) == (64, expected.shape)
    assert [view.strides[axis] for axis in used] == [expected.strides[axis] for axis in used]


@pytest.mark.parametrize("shape", [(-1, 3), (4, -1), (-1,), (2, 2, 3)])
def test_arrays_without_memory_are_seen_in_other_shapes_as_numpy_does(shape: tuple[int, ...]) -> None:
    given = np.zeros((2, 6), np.float32)
    view = MetaArray(64, given.shape, given.strides, np.float32).seen_as(shape)
    expected = given.reshape(shape)
    assert view is not None and (view.shape, view.strides) == (expected.shape, expected.strides)


def test_going_through_an_array_without_memory_ends_where_numpys_does() -> None:
    given = np.zeros((3, 2), np.float32)
    rows = list(MetaArray(64, given.shape, given.strides, np.float32))
    assert [(row.address, row.shape) for row in rows] == [(64 + 8 * i, (2,)) for i in range(3)]
