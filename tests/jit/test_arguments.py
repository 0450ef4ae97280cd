"""Arguments that are no tensors: each call does what the function does with its own, whatever memory they lie in."""

from __future__ import annotations

import dataclasses
import enum
import functools
import operator
import pickle
import uuid
import warnings
from collections import OrderedDict, namedtuple
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import workbench as wb
from workbench.framework.notice import Notice
from workbench.static import InputSpec


class Config:
    def __init__(self, number: float) -> None:
        self.number = number


class Slotted:
    __slots__ = ("number",)

    def __init__(self, number: float) -> None:
        self.number = number


@dataclasses.dataclass(frozen=True)
class Frozen:
    number: float
    rest: tuple[int, ...] = ()


class Tagged(str):
    number = 0.0


class Length(int):
    number = 0.0


class Listed(list[Any]):
    number = 0.0


def tagged(kind: type, number: int, *content: Any) -> Any:
    tagged_one = kind(*content)
    tagged_one.number = float(number)
    return tagged_one


Pair = namedtuple("Pair", "number rest")
Level = enum.Enum("Level", {f"L{i}": i for i in range(40)})

# What makes an argument of a number, and the number that the function reads of it.
KINDS: dict[str, tuple[Callable[[int], Any], Callable[[Any], float]]] = {
    "float32": (np.float32, float),
    "int64": (np.int64, float),
    "range": (range, len),
    "Fraction": (Fraction, float),
    "Decimal": (Decimal, float),
    "frozenset": (lambda i: frozenset({i}), sum),
    "set": (lambda i: {i}, sum),
    "slice": (lambda i: slice(i), lambda s: float(s.stop)),
    "bytearray": (lambda i: bytearray([i]), lambda b: float(b[0])),
    "partial": (lambda i: functools.partial(operator.mul, i), lambda f: float(f(1))),
    "function": (lambda i: lambda: i, lambda f: float(f())),
    "method": (lambda i: Config(i).__getattribute__, lambda f: float(f("number"))),
    "date": (lambda i: date(2000, 1, 1 + i % 28) + timedelta(days=0), lambda d: float(d.day)),
    "datetime": (lambda i: datetime(2000, 1, 1, 0, i), lambda d: float(d.minute)),
    "time": (lambda i: time(0, i), lambda d: float(d.minute)),
    "timedelta": (lambda i: timedelta(seconds=i), timedelta.total_seconds),
    "UUID": (lambda i: uuid.UUID(int=i), lambda u: float(u.int)),
    "enum": (lambda i: Level(i % 40), lambda e: float(e.value)),
    "object": (Config, lambda c: c.number),
    "slots": (Slotted, lambda c: c.number),
    "frozen": (Frozen, lambda c: c.number),
    "nested": (lambda i: Frozen(0.0, (1, i)), lambda c: float(c.rest[1])),
    "namedtuple": (lambda i: Pair(float(i), [i]), lambda c: c.number + c.rest[0]),
    "list": (lambda i: [Config(i)], lambda c: c[0].number),
    "dict": (lambda i: OrderedDict(k=np.int32(i)), lambda c: float(c["k"])),
    "text with an attribute": (lambda i: tagged(Tagged, i, "same"), lambda c: c.number),
    "int with an attribute": (lambda i: tagged(Length, i, 3), lambda c: c.number),
    "list with an attribute": (lambda i: tagged(Listed, i), lambda c: c.number),
}


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", Notice)
        yield


@pytest.mark.parametrize("kind", KINDS)
def test_every_call_has_its_own_argument(kind: str) -> None:
    make, read = KINDS[kind]
    step, x = wb.jit.capture(lambda x, given: x * read(given)), wb.to_tensor([2.0])
    for i in range(1, 6):  # each is freed, and the next one may lie in its place
        assert step(x, make(i)).item() == 2.0 * read(make(i))


@pytest.mark.parametrize("kind", ["float32", "object", "frozen"])
def test_keywords_are_arguments_as_well(kind: str) -> None:
    make, read = KINDS[kind]
    step, x = wb.jit.to_static(lambda x, given: x * read(given)), wb.to_tensor([2.0])
    for i in range(1, 6):
        assert step(x, given=make(i)).item() == 2.0 * read(make(i))


BY_VALUE = [
    np.float32(1.5), np.int64(3), range(4), Fraction(1, 3), Decimal("1.0"), frozenset({1, 2}), b"abc",
    Frozen(2.0, (1,)), functools.partial(operator.mul, 3), date(2000, 1, 2), float("nan"), slice(1, 5),
    complex(0.0, float("nan")), uuid.UUID(int=5), (1, (2.0, "three")), np.dtype("float32").type(np.nan),
]  # fmt: skip


@pytest.mark.parametrize("value", BY_VALUE, ids=repr)
def test_equal_values_use_one_recording(value: Any) -> None:
    step, x = wb.jit.capture(lambda x, given: x * 2.0), wb.to_tensor([2.0])
    copied = pickle.loads(pickle.dumps(value))
    step(x, value), step(x, copied), step(x, value)
    assert step.captures == 1


EQUAL_AND_OTHERS = [
    (0.0, -0.0), (1, True), (1, 1.0), (np.float32(1), np.float64(1)), (np.float32(0.0), np.float32(-0.0)),
    (Decimal("1.0"), Decimal("1.00")), ((1,), (True,)), ({1: 0.0}, {True: 0.0}), (Frozen(0.0), Frozen(-0.0)),
    (frozenset({1}), frozenset({True})),
    (datetime(2000, 1, 1, 1, tzinfo=UTC), datetime(2000, 1, 1, 2, tzinfo=timezone(timedelta(hours=1)))),
    (complex(0.0, 1.0), complex(-0.0, 1.0)),
]  # fmt: skip


@pytest.mark.parametrize("pair", EQUAL_AND_OTHERS, ids=repr)
def test_what_is_equal_and_not_the_same_is_told_apart(pair: tuple[Any, Any]) -> None:
    one, other = pair
    assert one == other
    step, x = wb.jit.capture(lambda x, given: wb.ones([len(repr(given))])), wb.to_tensor([2.0])
    for value in (one, other, one):
        assert step(x, value).shape == [len(repr(value))]
    assert step.captures == 2


def test_what_is_no_tensor_counts_beside_an_input_spec() -> None:
    step = wb.jit.to_static(lambda x, k, deep=False: x * k if deep else x + k, input_spec=[InputSpec([None, 2])])
    x, long = wb.ones([1, 2]), wb.ones([3, 2])
    assert [step(x, 2).tolist(), step(x, 3).tolist(), step(x, 3, deep=True).tolist()] == [[[3, 3]], [[4, 4]], [[3, 3]]]
    assert step(long, 2).tolist() == [[3.0, 3.0]] * 3 and step.captures == 3


def test_further_arguments_are_looked_at_as_the_others() -> None:
    config = Config(2.0)
    step, x = wb.jit.capture(lambda x, *rest, **named: x * rest[0].number * named["c"].number), wb.to_tensor([1.0])
    assert step(x, config, c=config).item() == 4.0
    config.number = 3.0
    assert step(x, config, c=config).item() == 9.0


def test_arguments_have_the_types_they_had() -> None:
    ordered = OrderedDict(b=np.ones(1, np.float32), a=2.0)
    marked = tagged(Listed, 3, [np.ones(1, np.float32)])

    def step(given: Any, listed: Any) -> Any:
        given.move_to_end("b")
        return OrderedDict(given, total=given["b"] * listed.number)

    with pytest.raises(wb.jit.NeedsValue, match="changes a OrderedDict that it is called with"):
        wb.jit.capture(step)(ordered, marked)
    returned = wb.jit.capture(lambda given, listed: OrderedDict(t=given["b"] * listed.number))(ordered, marked)
    assert type(returned) is OrderedDict and returned["t"].tolist() == [3.0]


@pytest.mark.parametrize(
    "change", [lambda g, x: g["log"].append(x), lambda g, x: g.update(k=x), lambda g, x: g.pop("k")]
)
def test_a_container_that_is_changed_is_refused(change: Callable[[Any, Any], Any]) -> None:
    def step(x: Any, given: Any) -> Any:
        change(given, 1.0)
        return x * 2

    given: dict[str, Any] = {"log": [], "k": 0.0}
    with pytest.raises(wb.jit.NeedsValue, match=r"that it is called with(.|\n)*test_arguments.py, line"):
        wb.jit.capture(step)(wb.ones([1]), given)
    assert given == {"log": [], "k": 0.0}
