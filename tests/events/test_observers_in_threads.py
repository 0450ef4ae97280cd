"""Observers come, go and are told while several threads run."""

from __future__ import annotations

import subprocess
import sys
import threading
import warnings
from collections.abc import Iterator

import pytest

from tests.events.test_events import ONE_OF_EACH, PLACES
from workbench import events
from workbench.events import (
    WITH_VALUES,
    Event,
    Memory,
    ScopeDrop,
    Step,
    emit,
    emit_all,
    heard,
    listening,
    subscribe,
)


@pytest.fixture(autouse=True)
def nobody_stays() -> Iterator[None]:
    assert not events.LISTENERS
    yield
    assert not events.LISTENERS, "the test left a subscription open"


def in_threads(*bodies: object) -> None:
    threads = [threading.Thread(target=body, daemon=True) for body in bodies]  # type: ignore[arg-type]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()


def test_events_arrive_on_the_thread_that_emits_them() -> None:
    seen: list[tuple[int, int]] = []
    with subscribe(lambda e: seen.append((e.step, threading.get_ident())), Step):

        def body(number: int) -> None:
            emit(Step("e", number, 0, threading.get_ident(), PLACES, ()))
            assert seen[-1] is not None

        own: dict[int, int] = {}

        def run(number: int) -> None:
            own[number] = threading.get_ident()
            body(number)

        in_threads(*(lambda n=n: run(n) for n in range(4)))
    assert dict(seen) == own


def test_several_threads_emit_while_others_come_and_go() -> None:
    steady: list[int] = []
    rounds, emitters = 400, 3
    done = threading.Barrier(emitters + 2)

    def emitting() -> None:
        done.wait(30)
        for number in range(rounds):
            emit(Step("e", number, 0, 1, PLACES, ()))

    def changing() -> None:
        done.wait(30)
        for _ in range(rounds):
            late: list[Event] = []
            with subscribe(late.append, Step, Memory):
                pass

    with subscribe(lambda e: steady.append(e.step), Step):
        in_threads(*[emitting] * emitters, changing, changing)
    assert sorted(steady) == sorted([*range(rounds)] * emitters)


def test_one_warning_though_an_observer_fails_on_several_threads_at_once() -> None:
    both_inside = threading.Barrier(2)

    def broken(event: Event) -> None:
        both_inside.wait(30)
        raise ValueError("twice")

    subscribe(broken, Step)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        in_threads(*[lambda: emit(ONE_OF_EACH[0])] * 2)
    assert len(caught) == 1


def test_no_delivery_begins_after_close() -> None:
    inside, closed = threading.Event(), threading.Event()
    seen: list[int] = []

    def slow(event: Step) -> None:
        seen.append(event.step)
        inside.set()
        assert closed.wait(30)

    subscription = subscribe(slow, Step)

    def close() -> None:
        assert inside.wait(30)
        subscription.close()
        closed.set()

    in_threads(lambda: emit_all([Step("e", n, 0, 1, PLACES, ()) for n in range(3)]), close)
    assert seen == [0]


def test_importing_events_loads_no_executor() -> None:
    code = "import sys, workbench.events; print([m for m in sys.modules if m.startswith('workbench.executors')])"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert result.stdout == "[]\n"


def test_a_subscription_to_one_executor_gets_its_events_only() -> None:
    told: list[Event] = []
    with subscribe(told.append, ScopeDrop, executor="b"):
        for name in "abc":
            emit(ScopeDrop(name, 0, (), (), "call"))
    assert [event.executor for event in told] == ["b"]


def test_events_with_values_come_only_to_those_who_name_them() -> None:
    told: list[Event] = []
    with subscribe(told.append):
        assert not any(listening(kind) for kind in WITH_VALUES)
    with subscribe(told.append, *WITH_VALUES):
        assert all(listening(kind) for kind in WITH_VALUES)


def test_asking_who_listens_stands_others_who_begin_and_end() -> None:
    done = threading.Event()

    def come_and_go() -> None:
        while not done.is_set():
            subscribe(print, ScopeDrop, Memory, executor="x").close()

    others = [threading.Thread(target=come_and_go) for _ in range(2)]
    for thread in others:
        thread.start()
    try:
        for _ in range(20_000):
            assert not heard("y", frozenset())
    finally:
        done.set()
        for thread in others:
            thread.join()
