"""Steps of a half-asynchronous trainer, and the thread that takes their gradients to the servers."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.servers.test_modes import GRADIENT, START, dense_model, job, sgd
from workbench.config import override
from workbench.errors import NotFound, PeerTimeout
from workbench.fluid.communicator import Communicator
from workbench.framework.values.rows import Rows
from workbench.parallel.fleet.server.strategies import ASYNC
from workbench.parallel.servers.asking import half_async, links
from workbench.parallel.servers.asking.exchange import Pulled, Share
from workbench.parallel.servers.asking.half_async import HalfAsyncExchange
from workbench.runtime.servers.messages import Message
from workbench.runtime.servers.standing import leave_servers
from workbench.runtime.servers.transport import Connection, Reply

LIMIT = 60  # seconds on a machine that is busy


class _Answer(Reply):
    def __init__(self, server: _Server, frame: Message) -> None:
        self._server, self._frame = server, frame

    def wait(self) -> Message:
        server = self._server
        if self._frame.kind == "step":
            server.came.release()
            assert server.opened.wait(LIMIT)
            if server.loses:
                server.loses -= 1
                raise PeerTimeout("no answer")
        kind = "joined" if self._frame.kind == "join" else "values"
        return Message(kind, {"session": 1, "sequence": 0, "server": 1}, {"w": server.w})


class _Server(Connection):
    """Subtracts gradients, each step once; answers when it is `opened`.

    The first `misses` steps do not come to it, and the first `loses` answers do not come from it.
    """

    def __init__(self) -> None:
        self.w, self.misses, self.loses = np.full(1, 100, np.float32), 0, 0
        self.pushed: list[float] = []
        self.opened, self.came = threading.Event(), threading.Semaphore(0)

    def start(self, frame: Message, seconds: float) -> Reply:
        if frame.kind == "step" and self.misses:
            self.misses -= 1
            assert self.opened.wait(LIMIT)  # else the step that comes next may be told of it
            raise PeerTimeout("no way")
        if frame.kind == "step" and frame.number("sequence") == len(self.pushed):
            name = "g@VALUES" if "g@VALUES" in frame.arrays else "g"
            self.pushed.append(float(frame.arrays[name].sum()))
            self.w = self.w - np.float32(self.pushed[-1])
        return _Answer(self, frame)

    def close(self) -> None:
        """Nothing is open."""


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[_Server]:
    started = _Server()
    monkeypatch.setattr(links, "_links", {(0, "here"): links.Link(started, 0)})
    yield started
    started.opened.set()
    leave_servers()


def exchange_of_w(newest: tuple[int, ...] = ()) -> HalfAsyncExchange:
    return HalfAsyncExchange(0, ["here"], [[Share("g", "here")]], [Pulled([Share("w", "here")], (1,))], newest=newest)


def step(exchange: HalfAsyncExchange, gradient: float) -> float:
    """One step that is applied."""
    memory = np.full(1, gradient, np.float32)
    (w,) = exchange.exchange([memory])
    memory[:] = np.nan  # a step's memory is used again
    exchange.is_applied = True
    return float(w[0])


@pytest.mark.parametrize(("adds_up", "merged"), [(True, 2 + 3 + 4), (False, 3)])
def test_steps_go_on_while_a_push_is_under_way_and_those_that_wait_are_merged(
    server: _Server, adds_up: bool, merged: float
) -> None:
    exchange = exchange_of_w()
    with override(communicator_max_merge_var_num=3, communicator_is_sgd_optimizer=adds_up):
        assert step(exchange, 1) == 100
        assert server.came.acquire(timeout=LIMIT)
        assert [step(exchange, gradient) for gradient in (2, 3, 4, 5)] == [100] * 4
        server.opened.set()
        exchange.settle()
    assert server.pushed == [1, merged, 5]
    assert step(exchange, 0) == 100 - 1 - merged - 5


def test_of_a_rate_the_newest_counts_and_rows_lie_one_behind_the_other() -> None:
    exchange = exchange_of_w(newest=(0,))
    exchange._outgoing = [[np.float32([0.1]), Rows(np.array([2]), np.float32([[1]]), 9), np.array([1])]] * 2
    rate, rows, steps = exchange._merged()
    assert rate == np.float32(0.1) and steps == 2
    assert rows.rows.tolist() == [2, 2] and rows.values.tolist() == [[1], [1]]
    with override(communicator_is_sgd_optimizer=False):
        _, rows, steps = exchange._merged()
    assert rows.values.tolist() == [[0.5], [0.5]] and steps == 2


def test_an_error_comes_to_a_later_step_and_what_was_lost_is_counted_once(server: _Server) -> None:
    exchange, server.loses = exchange_of_w(), 1
    with override(communicator_send_queue_size=1, communicator_max_merge_var_num=1):
        step(exchange, 1)
        assert server.came.acquire(timeout=LIMIT)
        step(exchange, 2)
        server.opened.set()
        with pytest.raises(PeerTimeout, match="no answer"):
            exchange.settle()
        step(exchange, 4)  # the thread tries again meanwhile
        exchange.settle()
    assert server.pushed == [1, 2, 4] and server.w == 93


def test_a_step_waits_for_room_as_long_as_the_deadline_says(server: _Server, monkeypatch: pytest.MonkeyPatch) -> None:
    exchange = exchange_of_w()
    with override(communicator_send_queue_size=1):
        step(exchange, 1)
        assert server.came.acquire(timeout=LIMIT)
        step(exchange, 2)
        with monkeypatch.context() as impatient, pytest.raises(PeerTimeout, match="2 steps wait for servers here"):
            impatient.setattr(half_async, "deadline", lambda: 0.2)
            step(exchange, 4)
        server.opened.set()
        exchange.settle()
    assert server.pushed == [1, 2]


def test_the_thread_ends_when_all_is_delivered_and_the_next_step_begins_anew(server: _Server) -> None:
    exchange = exchange_of_w()
    server.opened.set()
    step(exchange, 1)
    thread = exchange._thread
    exchange.settle()
    assert thread is not None
    thread.join(LIMIT)
    assert not thread.is_alive()
    server.w = np.full(1, 50, np.float32)  # another trainer's
    assert step(exchange, 2) == 50
    leave_servers()
    assert server.pushed == [1, 2]


def test_a_discarded_step_is_handed_over_once(server: _Server) -> None:
    exchange = exchange_of_w()
    server.opened.set()
    for _ in range(3):
        exchange.exchange([np.ones(1, np.float32)])  # two are discarded behind it
    exchange.is_applied = True
    step(exchange, 4)
    exchange.settle()
    assert sum(server.pushed) == 1 + 4


@pytest.mark.parametrize(("misses", "loses"), [(1, 0), (0, 1)])
def test_what_was_lost_comes_before_the_servers_are_left(server: _Server, misses: int, loses: int) -> None:
    exchange, server.misses, server.loses = exchange_of_w(), misses, loses
    step(exchange, 1)
    step(exchange, 2)
    server.opened.set()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        leave_servers()
    assert sum(server.pushed) == 1 + 2
    assert exchange._thread is not None and not exchange._thread.is_alive()


def test_who_leaves_is_told_of_gradients_that_have_not_come(server: _Server) -> None:
    exchange, server.misses = exchange_of_w(), 2
    with override(communicator_max_merge_var_num=1):
        step(exchange, 1)
        step(exchange, 2)
        server.opened.set()
        with pytest.warns(UserWarning, match="gradients of 2 steps have not come to the servers: no way"):
            leave_servers()
    assert exchange._thread is not None and not exchange._thread.is_alive()
    assert not server.pushed


def test_nothing_goes_to_servers_that_were_left(server: _Server, monkeypatch: pytest.MonkeyPatch) -> None:
    exchange, server.loses = exchange_of_w(), 1
    with override(communicator_max_merge_var_num=1):
        step(exchange, 1)
        assert server.came.acquire(timeout=LIMIT)
        step(exchange, 2)
        monkeypatch.setattr(half_async, "deadline", lambda: 0.2)
        monkeypatch.setattr(half_async, "_END", 0.0)
        with pytest.warns(UserWarning, match="gradients of 2 steps have not come to the servers: 2 steps wait"):
            leave_servers()
        server.opened.set()
        assert exchange._thread is not None
        exchange._thread.join(LIMIT)
    assert not exchange._thread.is_alive() and server.pushed == [1]
    assert not server.came.acquire(blocking=False)


@pytest.fixture
def _static() -> Any:
    wb.enable_static()
    yield
    wb.disable_static()


@pytest.mark.usefixtures("_static")
def test_f10_all_gradients_of_a_half_asynchronous_trainer_are_at_the_servers_when_it_has_left(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    hand_over, handed = HalfAsyncExchange._hand_over, []
    monkeypatch.setattr(HalfAsyncExchange, "_hand_over", lambda *given: handed.append(1) or hand_over(*given))
    split = {"runtime_split_send_recv": True, "half_async": True}
    with job(lambda: dense_model(sgd), False, **split) as ((trainer,), scopes):
        for _ in range(8):
            trainer.step()
    require_held(scopes, 8)
    assert len(handed) == 8


@pytest.mark.usefixtures("_static")
def test_a_program_that_is_run_in_order_has_one_exchange_for_all_its_steps() -> None:
    before, split = {*threading.enumerate()}, {"runtime_split_send_recv": True, "half_async": True}
    with (
        override(executor="reference"),
        job(lambda: dense_model(sgd), False, **split) as ((trainer,), scopes),
    ):
        trainer.step()
        with pytest.raises(NotFound):
            trainer.step(fetch="nobody")  # discarded behind the exchange
        trainer.step()
        senders = [t for t in {*threading.enumerate()} - before if t.name == "workbench-servers"]
        trainer.executor.close()
    assert len(senders) == 1
    require_held(scopes, 2)


@pytest.mark.usefixtures("_static")
def test_f13_steps_go_on_while_a_communicator_runs_and_stop_delivers(monkeypatch: pytest.MonkeyPatch) -> None:
    hand_over, handed = HalfAsyncExchange._hand_over, []
    monkeypatch.setattr(HalfAsyncExchange, "_hand_over", lambda *given: handed.append(1) or hand_over(*given))
    flags = wb.get_flags(["FLAGS_communicator_max_merge_var_num"])
    with job(lambda: dense_model(sgd), False, runtime_split_send_recv=True) as ((trainer,), scopes):
        communicator = Communicator(trainer.main, ASYNC, envs={"communicator_max_merge_var_num": 3})
        trainer.step()
        assert not communicator.is_running() and not handed
        communicator.start()
        version = trainer.main.version
        communicator.start()
        assert trainer.main.version == version  # what is compiled, and its thread, are those of one start
        assert communicator.is_running() and wb.get_flags([*flags]) == dict.fromkeys(flags, 3)
        for _ in range(4):
            trainer.step()
        communicator.stop()
        require_held(scopes, 5)
        assert np.allclose(trainer.step(), START - 0.1 * 6 * GRADIENT, atol=1e-5)
        assert len(handed) == 4 and not communicator.is_running()
    wb.set_flags(flags)


def require_held(scopes: Any, steps: int) -> None:
    """Both servers together have applied so many gradients."""
    blocks = [scope.find_var(f"w.block{i}") for i in (0, 1) for scope in scopes]
    held = np.concatenate([block.get_tensor().array for block in blocks if block is not None])
    assert np.allclose(held, START - 0.1 * steps * GRADIENT, atol=1e-5)
