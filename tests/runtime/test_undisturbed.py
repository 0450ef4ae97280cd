"""What nothing from outside can tear."""

from __future__ import annotations

import ctypes
import faulthandler
import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from operator import setitem
from typing import Any

import numpy as np
import pytest

from tests.stress.tripwire import Tripwire
from workbench.errors import PreconditionNotMet
from workbench.framework.outside import is_from_outside
from workbench.framework.quiet import quietly
from workbench.runtime import undisturbed as module
from workbench.runtime.blas import OneBlasThread
from workbench.runtime.storage.scope import Scope
from workbench.runtime.undisturbed import hands, in_one_call, undisturbed


class Alarm(Exception):
    """What a handler raises."""


def raise_alarm(number: int, frame: Any) -> None:
    raise Alarm


@contextmanager
def handled(handler: Any, number: int = signal.SIGALRM) -> Iterator[None]:
    old = signal.signal(number, handler)
    try:
        yield
    finally:
        signal.signal(number, old)


def test_calls_end_at_the_first_result_that_is_true_and_can_be_gone_on_with() -> None:
    done: list[int] = []
    calls = iter([partial(done.append, 1), partial(int, 3), partial(done.append, 2)])
    assert in_one_call(calls) == 3 and done == [1]
    assert in_one_call(calls) is None and done == [1, 2]


def test_a_handler_that_raises_comes_behind_all_calls() -> None:
    array = np.zeros(50)
    kill = partial(ctypes.CDLL(None).kill, os.getpid(), int(signal.SIGALRM))  # unlike os.kill it does not look
    calls: list[Any] = [kill]
    for i in range(50):
        calls += [partial(setitem, array, i, 1.0)]
    with handled(raise_alarm), pytest.raises(Alarm):
        in_one_call(calls)
    assert array.all()


@pytest.mark.parametrize("come", ["handler", "other thread"])
def test_a_function_is_taken_to_its_end(come: str) -> None:
    """Python code, with all the moments at which a handler could run, and a wait that signals end."""
    done, main = [], threading.get_ident()

    def body() -> str:
        for i in range(200):
            if i == 100 and come == "handler":
                os.kill(os.getpid(), signal.SIGALRM)
            elif i == 100:
                ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(main), ctypes.py_object(Alarm))
            time.sleep(1e-4)
            done.append(i)
        return "value"

    with handled(raise_alarm), pytest.raises(Alarm):
        undisturbed(body)
        time.sleep(0.01)
    assert len(done) == 200
    assert undisturbed(lambda: "value") == "value"
    with pytest.raises(ZeroDivisionError):
        undisturbed(lambda: 1 / 0)


def working() -> int:
    """Threads that work for others."""
    return sum(thread.name == "workbench commit" for thread in threading.enumerate())


def test_threads_are_used_again_whatever_is_raised() -> None:
    def press() -> None:
        os.kill(os.getpid(), signal.SIGALRM)

    undisturbed(lambda: undisturbed(lambda: None))
    before = working()
    with handled(raise_alarm):
        for _ in range(50):
            with pytest.raises(Alarm):
                undisturbed(press)
                time.sleep(0.01)
    assert working() <= before
    module._idle.clear()
    deadline = time.monotonic() + 10
    while working() >= before and time.monotonic() < deadline:
        time.sleep(0.01)
    assert working() < before


def test_without_a_thread_the_function_is_called_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't create new thread at interpreter shutdown")

    monkeypatch.setattr(module, "_idle", [])
    monkeypatch.setattr(threading.Thread, "start", refuse)
    assert undisturbed(lambda: 5) == 5


def test_a_timeout_that_another_thread_sends_is_not_taken_for_the_lack_of_a_thread(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Else the function would be called where signals reach it."""

    def sent(thread: threading.Thread) -> None:
        raise TimeoutError

    called: list[bool] = []
    monkeypatch.setattr(module, "_idle", [])
    monkeypatch.setattr(threading.Thread, "start", sent)
    with pytest.raises(TimeoutError):
        undisturbed(lambda: called.append(True))
    assert called == []


def test_handlers_wakeup_and_faulthandler_are_left_alone() -> None:
    """Taking a handler away for a moment would undo what others have set up beneath it."""
    seen: list[int] = []
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    with handled(lambda number, frame: seen.append(number), signal.SIGUSR1), open(os.devnull, "w") as sink:
        old = signal.set_wakeup_fd(writer)
        faulthandler.register(signal.SIGUSR1, file=sink, chain=True)
        try:
            undisturbed(lambda: signal.raise_signal(signal.SIGUSR1))
            assert seen == [signal.SIGUSR1] and os.read(reader, 8) == bytes([signal.SIGUSR1])
            assert faulthandler.unregister(signal.SIGUSR1), "somebody has taken it away"
        finally:
            signal.set_wakeup_fd(old)
            os.close(reader)
            os.close(writer)


# What is restored


def test_blas_threads_are_restored_wherever_a_signal_comes() -> None:
    section = OneBlasThread()
    section._lock = threading.RLock()  # the wire also comes before a lock's own exit, where Python does not look
    section.run(lambda: None)
    counts = [library.get_num_threads() for library in section.libraries]
    if max(counts) == 1:
        pytest.skip("BLAS has one thread here")

    def inside() -> list[int]:
        return [library.get_num_threads() for library in section.libraries]

    with Tripwire(None, ["blas.py"]) as wire:
        assert section.run(inside) == [1] * len(counts)
    assert wire.count > 5
    for n in range(wire.count):
        with pytest.raises(KeyboardInterrupt), Tripwire(n, ["blas.py"]):
            section.run(inside)
        assert inside() == counts, f"after an interrupt at moment {n}"
        assert section.run(inside) == [1] * len(counts)
    assert inside() == counts


def test_two_threads_in_the_section_leave_it_one_after_the_other() -> None:
    section, inside, leave = OneBlasThread(), threading.Event(), threading.Event()
    counts = [library.get_num_threads() for library in section.libraries]

    def stay() -> None:
        inside.set()
        leave.wait(10)

    thread = threading.Thread(target=section.run, args=(stay,))
    thread.start()
    assert inside.wait(10)
    section.run(lambda: None)
    assert [library.get_num_threads() for library in section.libraries] == [1] * len(counts)
    leave.set()
    thread.join(10)
    assert [library.get_num_threads() for library in section.libraries] == counts


def test_warnings_of_numpy_are_on_again_wherever_a_signal_comes() -> None:
    before = np.geterr()
    files = ["quiet.py", "_ufunc_config.py"]
    with Tripwire(None, files) as wire:
        assert set(quietly(np.geterr).values()) == {"ignore"}
    assert wire.count > 3
    for n in range(wire.count):
        with pytest.raises(KeyboardInterrupt), Tripwire(n, files):
            quietly(np.geterr)
        assert np.geterr() == before, f"after an interrupt at moment {n}"


# Who raised it


def caught(call: Any) -> BaseException:
    try:
        call()
        time.sleep(0.01)
    except Exception as error:
        return error
    raise AssertionError("nothing was raised")


class Handler:
    def __call__(self, number: int, frame: Any) -> None:
        self.deeper()

    def deeper(self) -> None:
        raise TimeoutError("over")


def once(*given: Any) -> None:
    signal.signal(signal.SIGALRM, signal.SIG_IGN)
    raise TimeoutError("over")


@pytest.mark.parametrize(
    "handler", [raise_alarm, Handler(), Handler().__call__, partial(raise_alarm), lambda *a: Handler().deeper(), once]
)
def test_what_a_handler_raises_is_known(handler: Any) -> None:
    with handled(handler):
        assert is_from_outside(caught(lambda: signal.raise_signal(signal.SIGALRM)))


class WithText(Exception):
    def __init__(self) -> None:
        super().__init__("it took too long")


@pytest.mark.parametrize("sent", [Alarm, WithText, TimeoutError])
def test_what_another_thread_sends_is_known(sent: type[Exception]) -> None:
    """It comes up behind a call, at the beginning of a function, or where a loop goes back."""
    here = ctypes.c_ulong(threading.get_ident())
    for body in ([].copy, lambda: None):

        def send() -> None:
            time.sleep(0.01)
            ctypes.pythonapi.PyThreadState_SetAsyncExc(here, ctypes.py_object(sent))

        def run(body: Any = body) -> None:
            threading.Thread(target=send).start()
            deadline = time.monotonic() + 30
            while time.monotonic() < deadline:
                for _ in range(1000):
                    body()

        assert is_from_outside(caught(run))


def raise_plainly(*given: Any) -> None:
    raise Alarm


@pytest.mark.parametrize(
    "call", [raise_plainly, lambda: raise_plainly(1, 2), lambda: 1 / 0, lambda: np.ones(3) + np.ones(4), [].pop,
     lambda: bytearray(1 << 62), lambda: next(iter(())), lambda: np.random.default_rng().integers(5, 1),
     lambda: np.random.Philox(key=np.ones(3)), lambda: np.ones(3).sum(axis=2)],
)  # fmt: skip
def test_what_code_raises_is_its_own(call: Any) -> None:
    assert not is_from_outside(caught(call))


def test_what_comes_unasked_does_not_wait_for_what_the_caller_holds() -> None:
    """The caller waits for the hand, and would answer no Ctrl-C: neither would ever end."""
    scope, told = Scope(), []

    def finaliser() -> None:
        with pytest.raises(PreconditionNotMet, match="in the middle of a step"):
            scope.in_use(patience=30.0)
        told.append(threading.get_ident() in hands)

    with scope.in_use():
        undisturbed(finaliser)
    assert told == [True] and threading.get_ident() not in hands
    with scope.in_use():
        pass  # it is free again
