"""Work that nothing from outside can tear: neither a signal handler nor an exception sent by another thread.

Python runs handlers of signals, and raises what other threads send, between two steps of a thread's bytecode; never
within a call of C code. So what has to be done whole is one such call: a list of C functions walked by C
(`in_one_call`), or, where Python code has a part in it, a thread that nobody knows does it, and the wait for that is
the call (`undisturbed`). No handler is exchanged and no signal blocked: what comes meanwhile is raised right behind the
call, as itself.
"""

from __future__ import annotations

import ctypes
import os
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterable
from functools import partial
from operator import call
from queue import SimpleQueue
from typing import Any

from workbench.framework.outside import is_from_outside

Call = Callable[[], Any]
_SEMAPHORE = 64  # bytes, more than any sem_t


def in_one_call(calls: Iterable[Call]) -> Any:
    """Call one after the other, up to the first result that is true.

    Args:
        calls: C functions that run no Python code; they give None, or a number. If one raises, an iterator stands
            behind it.

    Returns:
        that result, None if there is none.
    """
    return next(filter(None, map(call, calls)), None)


def undisturbed(function: Call) -> Any:
    """Call any function; whatever comes from outside is raised after its end.

    It runs on another thread: what is kept by thread, such as held locks and NumPy's error state, it does not see.

    Returns:
        what it returns; or raises what it raises.
    """
    try:
        hand = _idle.pop() if _idle else _Hand()
    except _NoHand:
        return function()
    job = _Job(function)
    in_one_call((partial(hand.begin, job), hand.end(), partial(_idle.append, hand)))
    if job.error is not None:
        raise job.error
    return job.result


class _Job:
    def __init__(self, function: Call) -> None:
        self._function = function
        self.result: Any = None
        self.error: BaseException | None = None

    def do(self) -> None:
        try:
            self.result = self._function()
        except BaseException as error:
            self.error = error


class _NoHand(Exception):
    """The system has no semaphores of a process's own, or no thread can begin any more."""


class _Hand:
    """A thread that works for others; it ends when nobody keeps this.

    Attributes:
        begin: hands it a job.

    Raises:
        _NoHand: there cannot be one. Nothing else is taken for that: another thread may send an OSError.
    """

    def __init__(self) -> None:
        library, semaphore = ctypes.CDLL(None), ctypes.create_string_buffer(_SEMAPHORE)
        if not hasattr(library, "sem_init") or library.sem_init(semaphore, 0, 0):
            raise _NoHand
        jobs: SimpleQueue[Any] = SimpleQueue()
        self.begin = jobs.put
        self._down = partial(library.sem_wait, semaphore)
        ending = weakref.ref(self, jobs.put)  # something that is no job
        given = jobs, partial(library.sem_post, semaphore), ending
        thread = threading.Thread(target=_work, args=given, name="workbench commit", daemon=True)
        try:
            thread.start()
        except RuntimeError as error:
            if is_from_outside(error):
                raise
            raise _NoHand from error

    def end(self) -> Call:
        """What waits for the end of one job: a C function that tries again when a signal wakes it up."""
        return partial(deque, iter(self._down, 0), 0)


_idle: list[_Hand] = []
hands: set[int] = set()
"""The threads that work for others, within `undisturbed`.

Whoever comes there unasked - a finaliser, a user's class that is given its state - must not wait for what the caller
holds: the caller waits for that thread, and hears no Ctrl-C meanwhile.
"""
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_idle.clear)  # threads stay with the parent


def _work(jobs: SimpleQueue[Any], done: Call, ending: Any) -> None:
    hands.add(threading.get_ident())
    while isinstance(job := jobs.get(), _Job):
        job.do()
        del job
        done()
    hands.discard(threading.get_ident())
