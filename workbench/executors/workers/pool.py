"""A pool of worker threads that runs the programs of a step, one each; the caller's thread is the first of them.

A result that goes from one thread to another is announced by a `Flag` (or, where kernels take part, a `NativeFlag`).
Every wait has a deadline, looks twenty times a second whether somebody has failed, and says whom it waits for.
"""

from __future__ import annotations

import os
import threading
import time
import weakref
from collections.abc import Sequence
from functools import partial
from operator import attrgetter
from queue import SimpleQueue
from typing import Any

import numpy as np

from workbench.errors import EnforceNotMet, Unavailable
from workbench.executors.workers.mailbox import Mailbox, PostedTask
from workbench.executors.workers.task import POLL, SHORT, Call, Task
from workbench.framework.outside import is_from_outside
from workbench.runtime.native.control import Control
from workbench.runtime.native.image import Kernels
from workbench.runtime.undisturbed import in_one_call
from workbench.runtime.words.codes import FINISHED, LAST, STATE

_is_complete = attrgetter("complete")
_STUCK = 0.1  # seconds after which a thread that is to stop is given up if a signal comes


class Stopped(Exception):
    """Another thread of the pool has failed."""


class Flag:
    """Raised by one thread, awaited by one other, once per step."""

    __slots__ = ("_lock", "pool", "what")

    def __init__(self, pool: WorkerPool, what: str) -> None:
        self.pool, self.what, self._lock = pool, what, threading.Lock()
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
            self.pool.wait_for(self._lock, self.what)

    def lower(self) -> None:
        """Take it down after a step that failed."""
        self._lock.acquire(False)


class WorkerPool:
    """Threads that stay for the life of an executor.

    Args:
        timeout: seconds a step may wait for another thread.
        kernels: compiled kernels, if programs use them.

    Attributes:
        control: what threads in kernels look at; None without kernels.
        failed: whether somebody has failed in this step, so that all others stop.
        lost: whether a thread was left behind that had not come to rest: what it was bound to is not to be used again,
            nor is the pool.
        is_unsettled: whether there is something left of an earlier step, so that the next one has to `begin`, too, if
            it waits for nobody.
    """

    def __init__(self, timeout: float, kernels: Kernels | None = None) -> None:
        self.timeout = timeout
        self.control = None if kernels is None else Control(kernels)
        self._failed = self.lost = self.is_unsettled = False
        self._deadline = 0.0
        self._workers: list[_Worker] = []
        self._begun: list[tuple[str, Task]] = []
        _pools.add(self)

    @property
    def failed(self) -> bool:
        return self._failed

    @failed.setter
    def failed(self, value: bool) -> None:
        self._failed = value
        self.is_unsettled |= value
        if self.control is not None:
            self.control.fail(value)

    def run(self, tasks: Sequence[Task]) -> None:
        """Run the tasks, the first in this thread.

        Raises:
            what the first task that failed raised, after all others have come to rest.
            Unavailable: one of them has not within the timeout; `lost` is then set.
        """
        self.begin()
        if len(tasks) == 1:
            tasks[0].run()
            return
        workers = self._hire(len(tasks) - 1)
        self.is_unsettled = True
        try:
            for worker, task in zip(workers, tasks[1:], strict=True):
                self._begun.append((worker.name, task))
                worker.begin(task, self)
            tasks[0].run()
            for name, task in self._begun:
                task.wait(self, name)
            self._begun = []
            self.is_unsettled = self._failed
        except BaseException as error:
            self._drain()
            raise _first_cause(error, tasks[1:]) from None
        if not all(map(_is_complete, tasks[1:])):
            self._tell_errors(tasks[1:])

    def _tell_errors(self, tasks: Sequence[Task]) -> None:
        errors = [task.error for task in tasks if task.error is not None]
        if errors:
            raise _first_cause(errors[0], tasks)

    def begin(self) -> None:
        """A new step, or a part of one: nobody has failed."""
        if self._begun:
            self._drain()  # a signal came again before that was done
        self._failed = False
        if self.control is not None:
            self.control.begin()
        self._deadline = time.monotonic() + self.timeout
        self.is_unsettled = False

    def wait_for(self, lock: Any, what: str) -> None:
        """Acquire a lock that another thread releases."""
        while not lock.acquire(timeout=POLL):
            self.check(what)

    def check(self, what: str = "another thread") -> None:
        """Whether there is a reason not to wait any longer.

        Raises:
            Stopped: another thread failed. Unavailable: the deadline passed.
        """
        if self._failed:
            raise Stopped(what)
        if time.monotonic() > self._deadline:
            self.failed = True
            raise Unavailable(f"waited {self.timeout:g} s for {what}")

    def doze(self, what: str = "another thread") -> None:
        """`check`, after a wait in kernels that took long: from now on waits in this step give up their processor."""
        assert self.control is not None
        self.check(what)
        self.control.doze()
        time.sleep(SHORT)

    def _drain(self) -> None:
        """Tell everybody to stop and wait until they have: nobody may write to the arena of the next step.

        Another Ctrl-C ends the wait: a thread that has stopped by then is waited for before the next step begins.
        """
        self.failed, begun = True, time.monotonic()
        try:
            for name, task in self._begun:
                if not task.comes_to_rest(self.timeout):
                    raise Unavailable(f"{name} has not stopped within {self.timeout:g} s after a failure")
        except BaseException:
            if time.monotonic() - begun > min(_STUCK, self.timeout / 2):
                self._workers, self._begun, self.lost = [], [], True
            raise
        self._begun = []

    def _hire(self, count: int) -> list[_Worker]:
        while len(self._workers) < count:
            self._workers.append(_Worker(f"device thread {len(self._workers) + 1}", self.control))
        return self._workers[:count]

    def after_fork(self) -> None:
        """In a child process: threads stay with the parent."""
        self._workers, self._begun = [], []


_pools: weakref.WeakSet[WorkerPool] = weakref.WeakSet()


def _after_fork() -> None:
    for pool in list(_pools):
        pool.after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


class _Worker:
    """A thread that waits for tasks; it ends when nobody keeps the worker.

    Args:
        control: of the pool, if it has kernels: then the thread waits in them, for a while, and is quick to begin.
    """

    def __init__(self, name: str, control: Control | None) -> None:
        self.name = name
        self._jobs: SimpleQueue[tuple[Task, WorkerPool] | None] = SimpleQueue()
        self._mailbox = None if control is None else Mailbox(control)
        where = self._jobs, self._mailbox
        thread = threading.Thread(target=_serve, args=where, name=f"workbench {name}", daemon=True)
        thread.start()
        weakref.finalize(self, _dismiss, self._jobs, self._mailbox).atexit = False  # a step may be under way

    def begin(self, task: Task, pool: WorkerPool) -> None:
        if self._mailbox is not None and task.piece is not None:
            posted = PostedTask(self._mailbox)
            task.hand_out_as(posted)
            self._mailbox.task = task, pool
            self._mailbox.post(task.piece.address)
            return
        post = [] if self._mailbox is None else self._mailbox.posting(0)
        in_one_call((task.handing_out(), partial(self._jobs.put, (task, pool)), *post))
        if self._mailbox is not None:
            self._mailbox.remind()


def _serve(jobs: SimpleQueue[tuple[Task, WorkerPool] | None], mailbox: Mailbox | None) -> None:
    np.seterr(all="ignore")  # of this thread
    while True:
        if mailbox is not None:
            mailbox.wait()
            if mailbox.words[STATE]:  # a kernel has declined: what is left of the piece goes on in Python
                _go_on(mailbox)
                continue
        job = jobs.get()
        if job is None:
            return
        task, pool = job
        del job
        task.serve(pool)
        del task, pool


def _go_on(mailbox: Mailbox) -> None:
    assert mailbox.task is not None
    task, pool = mailbox.task
    mailbox.task = None
    task.attempt(pool)
    mailbox.words[FINISHED] = mailbox.words[LAST]


def _dismiss(jobs: SimpleQueue[tuple[Task, WorkerPool] | None], mailbox: Mailbox | None) -> None:
    jobs.put(None)
    if mailbox is not None:
        mailbox.post(0)


def _first_cause(error: BaseException, tasks: Sequence[Task]) -> BaseException:
    """The error to tell: what the user can act on before what followed from it."""
    errors = [error, *(s.error for s in tasks if s.error is not None)]
    real = [e for e in errors if not isinstance(e, Stopped)]
    if not isinstance(error, Exception) or is_from_outside(error) or not real:
        return error
    return next((e for e in real if isinstance(e, EnforceNotMet)), real[0])
