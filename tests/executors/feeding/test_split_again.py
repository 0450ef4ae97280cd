"""Splitting step after step: a feed plan made for a signature serves every feed that has it, and no other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.executors.feeding.test_split import feed_devices, numbered, pieces
from workbench import static
from workbench.dygraph.tensor.tensor import Tensor
from workbench.errors import EnforceNotMet
from workbench.executors.feeding import split
from workbench.executors.feeding.feed_plan import Fed
from workbench.executors.feeding.split import Splitter
from workbench.framework.program.program import Program
from workbench.runtime.storage.tensor import LoDTensor


@given(st.lists(st.tuples(st.integers(0, 9), st.booleans(), st.sampled_from(["float32", "float64"])), max_size=8))
def test_a_splitter_with_a_memory_feeds_as_one_without(program: Program, steps: list[tuple[int, bool, str]]) -> None:
    """What was remembered of one batch is never used for another: shape, dtype and form all count."""
    splitter = Splitter(program, static.cpu_places(3), partial=True, reads=["x"])
    for rows, listed, dtype in steps:
        x = numbered(rows, 3, dtype=dtype)
        feed: Any = [{"x": x}, {"x": x + 1}] if listed else {"x": x}
        assert outcome(splitter.split, feed) == outcome(
            Splitter(program, static.cpu_places(3), partial=True).split, feed
        )


def outcome(split: Callable[[Any], Fed], feed: Any) -> Any:
    try:
        fed = split(feed)
    except EnforceNotMet as error:
        return str(error)
    return fed.active, fed.rows, pieces(fed, "x")


def test_what_is_no_array_is_converted_every_time(program: Program) -> None:
    """A tensor of another library with an array's shape and dtype is not mistaken for an array."""
    splitter = Splitter(program, static.cpu_places(2))
    splitter.split({"x": numbered(4, 3)})
    fed = splitter.split({"x": ArrayLike()})
    assert [type(d["x"]) for d in fed.per_device] == [np.ndarray] * 2
    assert pieces(splitter.split({"rate": [3.0, 4.0]}), "rate") == [[3], [4]]
    assert pieces(splitter.split({"rate": [5.0, 6.0]}), "rate") == [[5], [6]]


class ArrayLike:
    shape, dtype = (4, 3), np.dtype("float32")

    def numpy(self) -> np.ndarray:
        return numbered(4, 3)


@pytest.mark.parametrize("times", [1, 3])
def test_tensors_of_dynamic_mode_are_fed_as_they_are(program: Program, times: int) -> None:
    """Divided or one dict per device, the first time and later: no device gets a copy, and new values are seen."""
    splitter = Splitter(program, static.cpu_places(2))
    tensor = Tensor(numbered(4, 3))
    for _ in range(times):
        fed = splitter.split({"x": tensor})
        listed = splitter.split([{"x": tensor}, {"x": numbered(2, 3)}])
    assert fed.rows == splitter.split({"x": numbered(4, 3)}).rows
    assert all(np.shares_memory(d["x"], tensor.array) for d in (*fed.per_device, listed.per_device[0]))
    other = Tensor(numbered(4, 3) + 1)
    assert pieces(splitter.split({"x": other}), "x") == pieces(splitter.split({"x": other.numpy()}), "x")
    with pytest.raises(ValueError, match="shape"):
        splitter.split({"x": Tensor(numbered(4, 2))})


def test_rows_are_the_same_object_for_the_same_shapes_and_dtypes_only(program: Program) -> None:
    """So an engine sees at a glance that its last plan still serves."""
    splitter = Splitter(program, static.cpu_places(2))
    forms: list[Any] = [
        {"x": numbered(4, 3)},
        {"x": numbered(6, 3)},
        [{"x": numbered(2, 3)}] * 2,
        {"unchecked": numbered(4, 3)},
        {"unchecked": numbered(4, 3, dtype="float64")},
        {"x": numbered(4, 3), "lr": numbered(1)},
    ]
    first = [splitter.split(form).rows for form in forms]
    assert len(set(map(id, first))) == len(forms)
    assert all(splitter.split(form).rows is rows for form, rows in zip(forms, first, strict=True))


def test_memory_of_shapes_is_bounded(program: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    """The newest are kept: of those that come again and again none is decided twice."""
    monkeypatch.setattr(split, "_PLANS", 50)
    splitter = Splitter(program, static.cpu_places(1))
    for rows in range(200):
        splitter.split({"x": np.empty((rows, 3), np.float32)})
    assert len(splitter._plans) == 50
    kept = {rows: splitter.split({"x": np.empty((rows, 3), np.float32)}).plan for rows in range(150, 200)}
    again = {rows: splitter.split({"x": np.empty((rows, 3), np.float32)}).plan for rows in range(150, 200)}
    assert all(again[rows] is plan for rows, plan in kept.items()) and len(set(map(id, kept.values()))) == 50


DECIDING = ("fed_variable", "conversion", "check_dtype", "check_shape", "split_sizes")


@pytest.mark.parametrize(
    "form",
    [
        lambda program, x: {"x": x},
        lambda program, x: [{"x": x[:2]}, {"x": x[2:]}],
        lambda program, x: {program.global_block().var("x"): x},
        lambda program, x: {"x": x.tolist()},
        lambda program, x: {"x": tuple(x.tolist())},
        lambda program, x: {"x": LoDTensor(x)},
        lambda program, x: {"x": x, "lr": 0.5, "number": np.float32(3)},
        lambda program, x: {"x": Other(x)},
    ],
)
def test_a_known_signature_is_fed_without_deciding_again(
    program: Program, monkeypatch: pytest.MonkeyPatch, form: Callable[[Program, Any], Any]
) -> None:
    splitter = Splitter(program, static.cpu_places(2), reads=["x"])
    first = splitter.split(form(program, numbered(4, 3)))
    with monkeypatch.context() as patch:
        for name in DECIDING:
            patch.setattr(split, name, None)  # nobody may ask
        fed = splitter.split(form(program, numbered(4, 3) + 1))
    assert fed.plan is first.plan
    assert pieces(fed, "x") == pieces(feed_devices(program, {"x": numbered(4, 3) + 1}, 2), "x")


def test_a_feed_is_wrapped_twice(program: Program) -> None:
    """Once so that it stays as it is, once with the plan; all devices look into the same dict."""
    x = numbered(4, 3)
    fed = Splitter(program, static.cpu_places(2)).split({"x": x})
    assert fed.sources[0] is fed.sources[1] and type(fed.sources[0]) is dict and fed.sources[0]["x"] is x


@pytest.mark.parametrize("is_list", [False, True])
def test_what_users_do_to_their_feed_behind_the_call_is_for_the_next_step(program: Program, is_list: bool) -> None:
    splitter = Splitter(program, static.cpu_places(2))
    for number in range(3):
        whole = numbered(4, 3) + number
        feed: Any = [{"x": whole[:2]}, {"x": whole[2:]}] if is_list else {"x": whole}
        fed = splitter.split(feed)
        first = feed[0] if is_list else feed
        first["x"] = numbered(9, 9)
        if is_list:
            feed[1].clear()
            feed.clear()
        assert pieces(fed, "x") == [whole[:2].tolist(), whole[2:].tolist()]


class Other:
    """A tensor of another library."""

    def __init__(self, array: np.ndarray) -> None:
        self.array = array

    def numpy(self) -> np.ndarray:
        return self.array
