"""A team of threads that runs the programs of a step, one each; the caller's thread is the first of them.

A result that goes from one thread to another is announced by a `Flag`. Every wait has a deadline, looks twenty times
a second whether somebody has failed, and says whom it waits for.
"""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Callable, Sequence
from operator import length_hint
from queue import SimpleQueue
from typing import Any

import numpy as np

from workbench.errors import EnforceNotMet, Unavailable
from workbench.runtime.interrupt import deferred_interrupt

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
        done: how many of them were begun when the last run ended; complete: whether it came to the end.
    """

    __slots__ = ("calls", "complete", "done", "error")

    def __init__(self, calls: Sequence[Call]) -> None:
        self.calls = list(calls)
        self.done = 0
        self.complete = False
        self.error: BaseException | None = None

    def run(self, start: int = 0) -> None:
        """Run the calls from number `start` on; `done` tells how far it came if one raises."""
        todo = iter(self.calls if not start else self.calls[start:])
        self.complete, self.done = False, start
        try:
            for call in todo:
                call()
            self.complete = True
        finally:
            self.done = len(self.calls) - length_hint(todo)


class Team:
    """Threads that stay for the life of an executor.

    Args:
        timeout: seconds a step may wait for another thread.
    """

    def __init__(self, timeout: float) -> None:
        self.timeout = timeout
        self.failed = False
        self._deadline = 0.0
        self._workers: list[_Worker] = []
        self._process = _process_id()

    def run(self, strands: Sequence[Strand]) -> None:
        """Run the strands, the first in this thread.

        Raises:
            what the first strand that failed raised, after all others have come to rest.
            Unavailable: one of them has not within the timeout.
        """
        if len(strands) == 1:
            strands[0].run()
            return
        self.failed = False
        self._deadline = time.monotonic() + self.timeout
        workers = self._hire(len(strands) - 1)
        begun: list[_Worker] = []
        try:
            with deferred_interrupt():
                for worker, strand in zip(workers, strands[1:], strict=True):
                    strand.error = None
                    worker.begin(strand, self)
                    begun.append(worker)
            strands[0].run()
            while begun:
                self.wait_for(begun[0].idle, begun[0].name)
                del begun[0]
        except BaseException as error:
            self._drain(begun)
            raise _first_cause(error, strands[1:]) from None
        errors = [strand.error for strand in strands[1:] if strand.error is not None]
        if errors:
            raise _first_cause(errors[0], strands[1:])

    def wait_for(self, lock: Any, what: str) -> None:
        """Acquire a lock that another thread releases."""
        while not lock.acquire(timeout=_POLL):
            if self.failed:
                raise Stopped(what)
            if time.monotonic() > self._deadline:
                self.failed = True
                raise Unavailable(f"waited {self.timeout:g} s for {what}")

    def _drain(self, begun: Sequence[_Worker]) -> None:
        """Tell everybody to stop and wait until they have: nobody may write to the arena of the next step."""
        self.failed = True
        with deferred_interrupt():
            deadline = time.monotonic() + self.timeout
            for worker in begun:
                if not worker.idle.acquire(timeout=max(deadline - time.monotonic(), 0.0)):
                    self._workers.clear()  # it may come to rest later; the next step gets new threads
                    raise Unavailable(f"{worker.name} has not stopped within {self.timeout:g} s after a failure")

    def _hire(self, count: int) -> list[_Worker]:
        if self._process != _process_id():  # threads do not survive a fork
            self._workers, self._process = [], _process_id()
        while len(self._workers) < count:
            self._workers.append(_Worker(f"device thread {len(self._workers) + 1}"))
        return self._workers[:count]


class _Worker:
    """A thread that waits for strands; it ends when nobody keeps the worker."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.idle = threading.Lock()
        self.idle.acquire()
        self._jobs: SimpleQueue[tuple[Strand, Team, Any] | None] = SimpleQueue()
        thread = threading.Thread(target=_serve, args=(self._jobs,), name=f"workbench {name}", daemon=True)
        thread.start()
        weakref.finalize(self, self._jobs.put, None)

    def begin(self, strand: Strand, team: Team) -> None:
        self._jobs.put((strand, team, self.idle))


def _serve(jobs: SimpleQueue[tuple[Strand, Team, Any] | None]) -> None:
    np.seterr(all="ignore")  # of this thread
    while (job := jobs.get()) is not None:
        strand, team, idle = job
        try:
            strand.run()
        except BaseException as error:
            strand.error = error
            team.failed = True
        del job, strand, team
        idle.release()


def _first_cause(error: BaseException, strands: Sequence[Strand]) -> BaseException:
    """The error to tell: what the user can act on before what followed from it."""
    errors = [error, *(s.error for s in strands if s.error is not None)]
    real = [e for e in errors if not isinstance(e, Stopped)]
    if isinstance(error, KeyboardInterrupt) or not real:
        return error
    return next((e for e in real if isinstance(e, EnforceNotMet)), real[0])


def _process_id() -> int:
    import os

    return os.getpid()
