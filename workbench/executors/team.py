"""A team of threads that runs the programs of a step, one each; the caller's thread is the first of them.

A result that goes from one thread to another is announced by a `Flag` (or, where kernels take part, a `NativeFlag`).
Every wait has a deadline, looks twenty times a second whether somebody has failed, and says whom it waits for.
"""

from __future__ import annotations

import os
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from operator import length_hint
from queue import SimpleQueue
from typing import Any

import numpy as np

from workbench.errors import EnforceNotMet, Unavailable
from workbench.runtime.interrupt import deferred_interrupt
from workbench.runtime.native.control import Control
from workbench.runtime.native.image import Kernels

Call = Callable[[], Any]
_POLL = 0.05  # seconds


class Stopped(Exception):
    """Another thread of the team has failed."""


class Flag:
    """Raised by one thread, awaited by one other, once per step."""

    __slots__ = ("_lock", "team", "what")

    def __init__(self, team: Team, what: str) -> None:
        self.team, self.what, self._lock = team, what, threading.Lock()
        self._lock.acquire()

    @property
    def up(self) -> Call:
        """What announces it."""
        return self._lock.release

    def wait(self) -> None:
        """Wait for it and take it down.

        Raises:
            Stopped: another thread failed. Unavailable: the deadline passed.
        """
        if not self._lock.acquire(False):
            self.team.wait_for(self._lock, self.what)

    def lower(self) -> None:
        """Take it down after a step that failed."""
        self._lock.acquire(False)


class Strand:
    """What one thread runs: calls in order.

    Attributes:
        calls: without arguments.
        complete: whether the last run came to the end.
        error: what it raised, if a worker ran it.
        resting: whether no worker is at it.
    """

    __slots__ = ("_rest", "_todo", "calls", "complete", "error", "resting")

    def __init__(self, calls: Sequence[Call]) -> None:
        self.calls = list(calls)
        self.error: BaseException | None = None
        self.resting = True
        self._rest = threading.Lock()
        self.rewind()

    def rewind(self) -> None:
        """As if it had never run."""
        self._todo: Iterator[Call] = iter(self.calls)
        self.complete = False

    @property
    def done(self) -> int:
        """How many calls of the last run have begun; the last of them is the one that raised, or that is running."""
        return len(self.calls) - length_hint(self._todo)

    def run(self, start: int = 0) -> None:
        """Run the calls from number `start` on."""
        todo = self._todo = iter(self.calls if not start else self.calls[start:])
        self.complete = False
        for call in todo:
            call()
        self.complete = True

    def hand_out(self) -> None:
        """To a worker."""
        self.error, self.resting, self._rest = None, False, threading.Lock()
        self._rest.acquire()

    def serve(self, team: Team) -> None:
        """Run it in a worker."""
        try:
            self.run()
        except BaseException as error:
            self.error = error
            team.failed = True
        self.resting = True
        self._rest.release()

    def wait(self, team: Team, name: str) -> None:
        """Wait until the worker of this name is done with it."""
        if not self.resting:
            team.wait_for(self._rest, name)

    def comes_to_rest(self, seconds: float, interrupted: Callable[[], bool] = lambda: False) -> bool:
        """Wait so long, or until interrupted, for the worker to be done with it."""
        deadline = time.monotonic() + seconds
        while not self.resting and not interrupted() and time.monotonic() < deadline:
            self._rest.acquire(timeout=_POLL)
        return self.resting


class Team:
    """Threads that stay for the life of an executor.

    Args:
        timeout: seconds a step may wait for another thread.
        kernels: compiled kernels, if programs use them.

    Attributes:
        control: what threads in kernels look at; None without kernels.
        failed: whether somebody has failed in this step, so that all others stop.
        lost: whether a thread was left behind that had not come to rest: what it was bound to is not to be used again,
            nor is the team.
    """

    def __init__(self, timeout: float, kernels: Kernels | None = None) -> None:
        self.timeout = timeout
        self.control = None if kernels is None else Control(kernels)
        self._failed = self.lost = False
        self._deadline = 0.0
        self._workers: list[_Worker] = []
        self._begun: list[tuple[str, Strand]] = []
        self._process = os.getpid()

    @property
    def failed(self) -> bool:
        return self._failed

    @failed.setter
    def failed(self, value: bool) -> None:
        self._failed = value
        if self.control is not None:
            self.control.fail(value)

    def run(self, strands: Sequence[Strand]) -> None:
        """Run the strands, the first in this thread.

        Raises:
            what the first strand that failed raised, after all others have come to rest.
            Unavailable: one of them has not within the timeout; `lost` is then set.
        """
        if self._begun:
            self._drain()  # Ctrl-C came again before that was done
        self._failed = False
        if self.control is not None:
            self.control.begin()
        self._deadline = time.monotonic() + self.timeout
        if len(strands) == 1:
            strands[0].run()
            return
        workers = self._hire(len(strands) - 1)
        try:
            with deferred_interrupt():
                for worker, strand in zip(workers, strands[1:], strict=True):
                    self._begun.append((worker.name, strand))
                    worker.begin(strand, self)
            strands[0].run()
            for name, strand in self._begun:
                strand.wait(self, name)
            self._begun = []
        except BaseException as error:
            self._drain()
            raise _first_cause(error, strands[1:]) from None
        errors = [strand.error for strand in strands[1:] if strand.error is not None]
        if errors:
            raise _first_cause(errors[0], strands[1:])

    def wait_for(self, lock: Any, what: str) -> None:
        """Acquire a lock that another thread releases."""
        while not lock.acquire(timeout=_POLL):
            self.look(what)

    def look(self, what: str = "another thread") -> None:
        """Whether there is a reason not to wait any longer.

        Raises:
            Stopped: another thread failed. Unavailable: the deadline passed.
        """
        if self._failed:
            raise Stopped(what)
        if time.monotonic() > self._deadline:
            self.failed = True
            raise Unavailable(f"waited {self.timeout:g} s for {what}")

    def _drain(self) -> None:
        """Tell everybody to stop and wait until they have: nobody may write to the arena of the next step.

        Another Ctrl-C ends the wait.
        """
        self.failed = True
        with deferred_interrupt() as interrupted:
            for name, strand in self._begun:
                if not strand.comes_to_rest(self.timeout, interrupted):
                    self._workers, self.lost = [], True
                    raise Unavailable(f"{name} has not stopped within {self.timeout:g} s after a failure")
            self._begun = []

    def _hire(self, count: int) -> list[_Worker]:
        if self._process != os.getpid():  # threads do not survive a fork
            self._workers, self._process = [], os.getpid()
        while len(self._workers) < count:
            self._workers.append(_Worker(f"device thread {len(self._workers) + 1}"))
        return self._workers[:count]


class _Worker:
    """A thread that waits for strands; it ends when nobody keeps the worker."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._jobs: SimpleQueue[tuple[Strand, Team] | None] = SimpleQueue()
        thread = threading.Thread(target=_serve, args=(self._jobs,), name=f"workbench {name}", daemon=True)
        thread.start()
        weakref.finalize(self, self._jobs.put, None)

    def begin(self, strand: Strand, team: Team) -> None:
        strand.hand_out()
        self._jobs.put((strand, team))


def _serve(jobs: SimpleQueue[tuple[Strand, Team] | None]) -> None:
    np.seterr(all="ignore")  # of this thread
    while (job := jobs.get()) is not None:
        strand, team = job
        del job
        strand.serve(team)
        del strand, team


def _first_cause(error: BaseException, strands: Sequence[Strand]) -> BaseException:
    """The error to tell: what the user can act on before what followed from it."""
    errors = [error, *(s.error for s in strands if s.error is not None)]
    real = [e for e in errors if not isinstance(e, Stopped)]
    if isinstance(error, KeyboardInterrupt) or not real:
        return error
    return next((e for e in real if isinstance(e, EnforceNotMet)), real[0])
