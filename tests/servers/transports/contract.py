"""What is asked of every transport: the same checks for all of them, between threads of one process."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
import pytest

from workbench.errors import InvalidArgument, PeerFailed, PeerTimeout
from workbench.parallel.servers.transports.process import own_process
from workbench.runtime.servers.messages import Message
from workbench.runtime.servers.transport import Connection, Listener, Question

Pair = Callable[[], tuple[Listener, Callable[[], Connection]]]
"""Makes a server's side, and what makes the side of a trainer."""


@contextmanager
def serving(listener: Listener, answer: Callable[[Question], None], closes: bool = True) -> Iterator[None]:
    """Answer requests on another thread; at the end the listener is closed, unless it is used again."""
    done = threading.Event()

    def loop() -> None:
        while not done.is_set():
            request = listener.receive(0.02)
            if request is not None:
                answer(request)

    thread = threading.Thread(target=loop, daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join(20)
        if closes:
            listener.close()


def echo(request: Question) -> None:
    request.answer(request.frame._replace(kind="echo"))


def know_each_other(listener: Listener, connection: Connection) -> None:
    """Both sides have been told of the other's process, as when a trainer joins."""
    with serving(listener, lambda request: request.answer(Message("joined", own_process())), closes=False):
        connection.ask(Message("join", own_process()), 20)


def check_arrays_arrive(pair: Pair) -> None:
    """Small and large, and none at all."""
    listener, connect = pair()
    chance = np.random.default_rng(0)
    with serving(listener, echo):
        connection = connect()
        for sizes in ([], [1], [3, 0, 5], [100_000], [7, 300_000, 1]):
            arrays = {f"a{i}": chance.standard_normal(size).astype(np.float32) for i, size in enumerate(sizes)}
            answer = connection.ask(Message("step", {"n": len(sizes)}, arrays), 20)
            assert answer.kind == "echo" and answer.fields["n"] == len(sizes)
            assert list(answer.arrays) == list(arrays)
            assert all(np.array_equal(answer.arrays[name], arrays[name]) for name in arrays)
        connection.close()


def check_answers_come_in_any_order(pair: Pair) -> None:
    """A server keeps questions, and answers the last one first."""
    listener, connect = pair()
    kept: list[Question] = []

    def answer(request: Question) -> None:
        kept.append(request)
        if len(kept) == 3:
            for one in reversed(kept):
                one.answer(one.frame)

    with serving(listener, answer):
        connections = [connect() for _ in range(3)]
        replies = [one.start(Message("k", {"i": i}), 20) for i, one in enumerate(connections)]
        assert [reply.wait().fields["i"] for reply in replies] == [0, 1, 2]
        for one in connections:
            one.close()


def check_a_refusal_is_raised(pair: Pair) -> None:
    """With its class and the name of the server."""
    listener, connect = pair()
    with serving(listener, lambda request: request.refuse(PeerFailed("trainer 3 is lost"))):
        connection = connect()
        with pytest.raises(PeerFailed, match=r"^server \S+: trainer 3 is lost"):
            connection.ask(Message("step"), 20)
        connection.close()


def check_no_answer_is_a_timeout(pair: Pair) -> None:
    """And the answer that comes too late is not taken for that to the next question."""
    listener, connect = pair()
    late: list[Question] = []

    def answer(request: Question) -> None:
        if not request.frame.fields["i"]:
            late.append(request)
            return
        while late:
            late.pop().answer(Message("late"))
        echo(request)

    with serving(listener, answer):
        connection = connect()
        assert connection.ask(Message("step", {"i": 1}), 20).kind == "echo"
        begun = time.monotonic()
        with pytest.raises(PeerTimeout, match=r"has not answered 'step' within 0\.4 s"):
            connection.ask(Message("step", {"i": 0}), 0.4)
        assert time.monotonic() - begun < 10
        assert connection.ask(Message("step", {"i": 1}), 20).kind == "echo"
        connection.close()


def check_what_is_too_long_is_refused(pair: Pair) -> None:
    """By the sender, before anything is sent."""
    listener, connect = pair()
    with serving(listener, echo):
        connection = connect()
        with pytest.raises(InvalidArgument, match="is too long"):
            connection.ask(Message("step", {"text": "x" * (1 << 23)}), 20)
        assert connection.ask(Message("step"), 20).kind == "echo"
        connection.close()


def holds(check: Callable[[Pair], None], pair: Pair) -> bool:
    """Whether a transport passes a check, which raises if it does not."""
    check(pair)
    return True


CHECKS = (
    check_arrays_arrive,
    check_answers_come_in_any_order,
    check_a_refusal_is_raised,
    check_no_answer_is_a_timeout,
    check_what_is_too_long_is_refused,
)
