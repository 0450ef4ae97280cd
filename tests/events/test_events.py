"""Events: values that cannot change, observers that come, go and fail without anybody else noticing."""

from __future__ import annotations

import contextlib
import dataclasses
import gc
import warnings
import weakref
from collections.abc import Iterator

import pytest

from workbench import events
from workbench.errors import InvalidType
from workbench.events import (
    KINDS,
    OF_SERVERS,
    WITH_VALUES,
    Collective,
    Error,
    Event,
    Feed,
    Memory,
    OpInfo,
    OpRun,
    PlanCompiled,
    ScopeDrop,
    Step,
    Wait,
    emit,
    emit_all,
    listening,
    subscribe,
)
from workbench.framework.values.place import CPUPlace

PLACES = (CPUPlace(0), CPUPlace(1))
ONE_OF_EACH: list[Event] = [
    Step("exe", 3, 1_000, 4_000, PLACES, (2, 1)),
    Feed("exe", 3, PLACES, {"x": (2, 1)}, {"x": ((2, 4), (1, 4))}, {"x": "float32"}, (32, 16)),
    OpRun("exe", 3, OpInfo(7, "mul", PLACES[0]), 0, 1_500, 2_500),
    Wait("exe", 3, PLACES[1], 1, 1_500, 2_500, ("op 'mul' on cpu:0",)),
    Collective("exe", 3, "all_reduce", ("w@GRAD",), 64, PLACES, 0, 2_500, 3_500),
    ScopeDrop("exe", 3, PLACES, (100, 100), "interval"),
    PlanCompiled("exe", 3, 12, PLACES, 20, 18, 1, 0, 900),
    Memory("exe", 3, PLACES[0], 4096),
    Error("exe", 3, "boom", "mul", PLACES[1]),
]


@pytest.fixture(autouse=True)
def nobody_stays() -> Iterator[None]:
    assert not events.LISTENERS
    yield
    assert not events.LISTENERS, "the test left a subscription open"


def test_there_is_an_example_of_every_kind() -> None:
    written = {v for v in vars(events).values() if isinstance(v, type) and issubclass(v, Event) and v is not Event}
    assert {type(e) for e in ONE_OF_EACH} == set(KINDS) == written - {*WITH_VALUES, *OF_SERVERS}


@pytest.mark.parametrize("event", ONE_OF_EACH, ids=lambda e: type(e).__name__)
def test_events_cannot_be_changed_or_extended(event: Event) -> None:
    for name in [f.name for f in dataclasses.fields(event)]:
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(event, name, None)
    with pytest.raises((AttributeError, TypeError)):
        event.something = 1  # type: ignore[attr-defined]
    assert not hasattr(event, "__dict__")
    assert (event.executor, event.step) == ("exe", 3)


def test_spans_tell_seconds() -> None:
    assert Step("e", 0, 1_000_000_000, 3_500_000_000, PLACES, (1, 1)).seconds == 2.5
    assert Collective("e", 0, "reduce", ("w",), 8, PLACES, 0, 0, 250_000_000).seconds == 0.25
    assert PlanCompiled("e", 0, 1, PLACES, 1, 1, 1, 5, 1_000_000_005).seconds == 1.0


def test_events_without_a_span_know_when_they_were_made() -> None:
    first, second = Memory("e", 0, PLACES[0], 1), Memory("e", 0, PLACES[0], 1)
    assert 0 < first.at <= second.at


def test_an_observer_gets_the_kinds_it_asked_for_in_order() -> None:
    some: list[Event] = []
    everything: list[Event] = []
    with subscribe(some.append, Step, Memory), subscribe(everything.append):
        emit_all(ONE_OF_EACH)
    emit_all(ONE_OF_EACH)
    assert some == [ONE_OF_EACH[0], ONE_OF_EACH[7]]
    assert everything == ONE_OF_EACH


def test_observers_are_told_in_the_order_they_came() -> None:
    order: list[int] = []
    with subscribe(lambda e: order.append(1), Step), subscribe(lambda e: order.append(2), Step, Memory):
        emit(ONE_OF_EACH[0])
    assert order == [1, 2]


def test_listening_is_true_for_exactly_the_kinds_somebody_wants() -> None:
    def wanted() -> set[type[Event]]:
        return {kind for kind in KINDS if listening(kind)}

    assert wanted() == set()
    first, second = subscribe(print, Step, OpRun), subscribe(print, OpRun)
    assert wanted() == {Step, OpRun} == set(events.LISTENERS)
    first.close()
    first.close()
    assert wanted() == {OpRun}
    second.close()
    assert wanted() == set()
    with subscribe(print):
        assert wanted() == set(KINDS)


def test_a_kind_named_twice_is_delivered_once() -> None:
    seen: list[Event] = []
    with subscribe(seen.append, Step, Step):
        emit(ONE_OF_EACH[0])
    assert len(seen) == 1


def test_one_function_may_have_two_subscriptions() -> None:
    seen: list[Event] = []
    first, second = subscribe(seen.append, Step), subscribe(seen.append, Step)
    emit(ONE_OF_EACH[0])
    first.close()
    emit(ONE_OF_EACH[0])
    second.close()
    assert len(seen) == 3


def test_a_subscription_holds_its_observer_until_it_is_closed() -> None:
    class Dashboard:
        def show(self, event: Event) -> None: ...

    dashboard = Dashboard()
    seen = weakref.ref(dashboard)
    subscription = subscribe(dashboard.show, Step)
    del dashboard
    gc.collect()
    assert seen() is not None and "Dashboard.show" in repr(subscription) and "Step" in repr(subscription)
    subscription.close()
    gc.collect()
    assert seen() is None and subscription.closed and "closed" in repr(subscription)


@pytest.mark.parametrize("kinds", [("Step",), (Event,), (int,), (Step, ONE_OF_EACH[0]), ([Step, Memory],)])
def test_wrong_kinds_are_refused(kinds: tuple[object, ...]) -> None:
    with pytest.raises(InvalidType, match=r"kinds of events .*Step, Feed"):
        subscribe(print, *kinds)  # type: ignore[arg-type]


def test_an_observer_has_to_be_callable() -> None:
    with pytest.raises(InvalidType, match="got 3"):
        subscribe(3, Step)  # type: ignore[arg-type]


# Observers that fail


def test_a_failing_observer_is_taken_off_with_one_warning() -> None:
    before: list[Event] = []
    after: list[Event] = []

    def broken(event: Event) -> None:
        raise KeyError("no such plot")

    first, bad, last = subscribe(before.append), subscribe(broken), subscribe(after.append)
    with pytest.warns(RuntimeWarning) as caught:
        emit_all(ONE_OF_EACH)
    first.close()
    last.close()
    assert before == after == ONE_OF_EACH
    assert bad.closed
    assert len(caught) == 1
    text = str(caught[0].message)
    assert "broken failed on a Step event" in text and "KeyError: 'no such plot'" in text
    assert caught[0].filename == __file__
    assert caught[0].lineno == broken.__code__.co_firstlineno + 1


def test_the_warning_is_shown_again_when_it_fails_again() -> None:
    def broken(event: Event) -> None:
        raise ValueError("same")

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        for _ in range(3):
            subscribe(broken, Step)
            emit_all([ONE_OF_EACH[0]] * 2)
    assert len(caught) == 3


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("not even this")

    __repr__ = __str__


class Awkward:
    def __call__(self, event: Event) -> None:
        raise Unspeakable

    def __repr__(self) -> str:
        raise RuntimeError("no name either")


def test_nothing_about_a_failing_observer_can_break_a_step(capsys: pytest.CaptureFixture[str]) -> None:
    seen: list[Event] = []
    subscribe(Awkward(), Step)
    subscribe(lambda event: 1 / 0, Step)
    with subscribe(seen.append, Step), warnings.catch_warnings():
        warnings.simplefilter("error")
        emit(ONE_OF_EACH[0])
    assert seen == [ONE_OF_EACH[0]]
    assert "ZeroDivisionError" in capsys.readouterr().err


def test_a_builtin_that_fails_is_named_too() -> None:
    subscribe(len, Step)
    with pytest.warns(RuntimeWarning, match=r"observer len failed.*TypeError"):
        emit(ONE_OF_EACH[0])


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit])
def test_an_interrupt_goes_through(kind: type[BaseException]) -> None:
    def stop(event: Event) -> None:
        raise kind

    with subscribe(stop, Step) as subscription:
        with pytest.raises(kind):
            emit(ONE_OF_EACH[0])
        assert not subscription.closed


# Observers that come and go while they are told


def test_an_observer_may_close_itself_and_others() -> None:
    seen: list[str] = []

    def first(event: Event) -> None:
        seen.append("first")
        mine.close()
        other.close()

    mine = subscribe(first, Step)
    other = subscribe(lambda e: seen.append("other"), Step)
    with subscribe(lambda e: seen.append("last"), Step):
        emit(ONE_OF_EACH[0])
        emit(ONE_OF_EACH[0])
    assert seen == ["first", "last", "last"]


def test_an_observer_that_comes_meanwhile_gets_the_next_event() -> None:
    seen: list[int] = []
    added: list[events.Subscription] = []

    def adding(event: Event) -> None:
        if not added:
            added.append(subscribe(lambda e: seen.append(e.step), Step))

    with subscribe(adding, Step):
        emit(Step("e", 0, 0, 1, PLACES, ()))
        emit(Step("e", 1, 0, 1, PLACES, ()))
    added[0].close()
    assert seen == [1]


def test_an_observer_may_emit() -> None:
    seen: list[Event] = []
    with subscribe(lambda e: emit(ONE_OF_EACH[7]), Step), subscribe(seen.append, Step, Memory):
        emit(ONE_OF_EACH[0])
    assert seen == [ONE_OF_EACH[7], ONE_OF_EACH[0]]


def test_an_observer_that_tells_itself_without_end_is_taken_off() -> None:
    """Also one that catches everything; others, and one that tells itself a few times, do not notice."""
    calls, few = [0], [0]

    def without_end(event: Event) -> None:
        calls[0] += 1
        with contextlib.suppress(BaseException):
            emit(event)
            emit(event)

    def a_few_times(event: Event) -> None:
        few[0] += 1
        if few[0] < 10:
            emit(event)

    with subscribe(a_few_times, Memory), subscribe(without_end, Step) as endless:
        with pytest.warns(
            RuntimeWarning, match=r"without_end failed on a Step event .* events that it subscribes to itself"
        ):
            emit(Step("e", 0, 0, 1, PLACES, ()))
        assert endless.closed and calls[0] < 20
        emit(ONE_OF_EACH[7])
    assert few == [10]
