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
from functools import partial
from operator import length_hint, setitem
from queue import SimpleQueue
from typing import Any, Protocol

import numpy as np

from workbench.errors import EnforceNotMet, Unavailable
from workbench.framework.outside import is_from_outside
from workbench.runtime.native.control import Control, lines
from workbench.runtime.native.image import Kernels
from workbench.runtime.native.tape import address
from workbench.runtime.undisturbed import in_one_call
from workbench.runtime.words.codes import BOX_CONTROL, BOX_WORDS, FINISHED, GO, LAST, STATE

Call = Callable[[], Any]
_POLL = 0.05  # seconds
_SHORT = 1e-3
_STUCK = 0.1  # seconds after which a thread that is to stop is given up if a signal comes
_PATIENCE = 5000  # times a worker without work offers its processor to others before it sleeps: some milliseconds


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


class Piece(Protocol):
    """A call that a thread can run without coming back to Python: a piece of a tape."""

    @property
    def address(self) -> int: ...

    @property
    def done(self) -> bool: ...

    def rewind(self) -> None: ...

    def rewinding(self) -> Call: ...


class Strand:
    """What one thread runs: calls in order.

    Attributes:
        calls: without arguments.
        piece: the only call, if it is a piece of a tape.
        complete: whether the last run came to the end.
        error: what it raised, if a worker ran it.
        resting: whether no worker is at it.
    """

    __slots__ = ("_errand", "_rest", "_resting", "_todo", "calls", "complete", "error", "piece")

    def __init__(self, calls: Sequence[Call]) -> None:
        self.calls = list(calls)
        self.piece: Piece | None = None
        self.error: BaseException | None = None
        self._resting, self._rest = True, threading.Lock()
        self._errand: Errand | None = None
        self.rewind()

    def rewind(self) -> None:
        """As if it had never run."""
        self._todo: Iterator[Call] = iter(self.calls)
        self.complete = False

    @property
    def resting(self) -> bool:
        return self._resting if self._errand is None else self._errand.over

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

    def handing_out(self) -> Call:
        """What hands it to a worker, as a C function; it has to be served then."""
        self.error, self._errand, self._rest = None, None, threading.Lock()
        self._rest.acquire()
        return partial(setattr, self, "_resting", False)

    def hand_out_as(self, errand: Errand) -> None:
        """To a worker that runs its piece without coming back to Python."""
        self.error, self.complete, self._todo = None, False, iter(())
        self._errand = errand

    def serve(self, team: Team) -> None:
        """Run it in a worker."""
        self.attempt(team)
        self._resting = True
        self._rest.release()

    def attempt(self, team: Team) -> None:
        """Run it, and keep what it raises."""
        try:
            self.run()
        except BaseException as error:
            self.error = error
            team.failed = True

    def wait(self, team: Team, name: str) -> None:
        """Wait until the worker of this name is done with it."""
        errand = self._errand
        if errand is None:
            if not self._resting:
                team.wait_for(self._rest, name)
            return
        errand.wait(team, name)
        piece = self.piece
        if piece is not None and piece.done:
            piece.rewind()
            self.complete = True

    def comes_to_rest(self, seconds: float) -> bool:
        """Wait so long for the worker to be done with it."""
        deadline = time.monotonic() + seconds
        while not self.resting and time.monotonic() < deadline:
            if self._errand is None:
                self._rest.acquire(timeout=_POLL)
            else:
                self._errand.remind()
                time.sleep(_SHORT)
        if self._errand is not None and self._errand.over:
            self._errand.let_go()
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
        _teams.add(self)

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
        self.begin()
        if len(strands) == 1:
            strands[0].run()
            return
        workers = self._hire(len(strands) - 1)
        try:
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

    def begin(self) -> None:
        """A new step, or a part of one: nobody has failed."""
        if self._begun:
            self._drain()  # a signal came again before that was done
        self._failed = False
        if self.control is not None:
            self.control.begin()
        self._deadline = time.monotonic() + self.timeout

    def settle(self) -> None:
        """`begin`, if there is anything left of an earlier step; for a step that waits for nobody."""
        if self._failed or self._begun:
            self.begin()

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

    def doze(self, what: str = "another thread") -> None:
        """`look`, after a wait in kernels that took long: from now on waits in this step give up their processor."""
        assert self.control is not None
        self.look(what)
        self.control.doze()
        time.sleep(_SHORT)

    def _drain(self) -> None:
        """Tell everybody to stop and wait until they have: nobody may write to the arena of the next step.

        Another Ctrl-C ends the wait: a thread that has stopped by then is waited for before the next step begins.
        """
        self.failed, begun = True, time.monotonic()
        try:
            for name, strand in self._begun:
                if not strand.comes_to_rest(self.timeout):
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


_teams: weakref.WeakSet[Team] = weakref.WeakSet()


def _after_fork() -> None:
    for team in list(_teams):
        team.after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


class _Worker:
    """A thread that waits for strands; it ends when nobody keeps the worker.

    Args:
        control: of the team, if it has kernels: then the thread waits in them, for a while, and is quick to begin.
    """

    def __init__(self, name: str, control: Control | None) -> None:
        self.name = name
        self._jobs: SimpleQueue[tuple[Strand, Team] | None] = SimpleQueue()
        self._box = None if control is None else Box(control)
        thread = threading.Thread(target=_serve, args=(self._jobs, self._box), name=f"workbench {name}", daemon=True)
        thread.start()
        weakref.finalize(self, _dismiss, self._jobs, self._box).atexit = False  # a step may be under way

    def begin(self, strand: Strand, team: Team) -> None:
        if self._box is not None and strand.piece is not None:
            errand = Errand(self._box)
            strand.hand_out_as(errand)
            self._box.strand = strand, team
            errand.begin(strand.piece.address)
            return
        post = [] if self._box is None else self._box.posting(0)
        in_one_call((strand.handing_out(), partial(self._jobs.put, (strand, team)), *post))
        if self._box is not None:
            self._box.remind()


class Box:
    """Where a worker finds what to do while it waits in kernels.

    Attributes:
        strand: what is being run, and for whom.
    """

    def __init__(self, control: Control) -> None:
        self.control = control
        self._array = lines(BOX_WORDS)
        self.words = self._array.data
        self.words[BOX_CONTROL] = control.address
        self.finished_address = address(self._array) + 8 * FINISHED
        self.strand: tuple[Strand, Team] | None = None
        self._serve = control.kernels.entry("serve", 2)
        self._address = address(self._array)
        self._bell: SimpleQueue[None] = SimpleQueue()
        self._asleep = False

    def post(self, state: int) -> None:
        """Have a piece run, by the address of its state; or, by 0, have the worker look at its jobs."""
        in_one_call(self.posting(state))
        self.remind()

    def posting(self, state: int) -> list[Call]:
        """`post` as C functions, without waking the worker up."""
        words = self.words
        return [partial(setitem, words, STATE, state), partial(setitem, words, GO, words[GO] + 1)]

    def remind(self) -> None:
        """Wake the worker up if it sleeps."""
        if self._asleep:
            self._asleep = False
            self._bell.put(None)

    def wait(self) -> None:
        """Run what is posted, until there is something to do in Python."""
        while not self._serve(self._address, _PATIENCE):
            self._asleep = True
            if self.words[GO] > self.words[LAST]:  # posted by somebody who has not seen that
                self._asleep = False
                continue
            self._bell.get()


class Errand:
    """One piece of a tape in a box, from before it is posted."""

    __slots__ = ("_box", "_number")

    def __init__(self, box: Box) -> None:
        self._box, self._number = box, box.words[GO] + 1

    def begin(self, state: int) -> None:
        self._box.post(state)

    @property
    def over(self) -> bool:
        """Whether the worker is done with it, or it was never posted."""
        words = self._box.words
        return words[GO] < self._number or words[FINISHED] >= self._number

    def wait(self, team: Team, name: str) -> None:
        """Wait until it is over.

        Raises:
            Stopped: another thread failed. Unavailable: the deadline passed.
        """
        box, control = self._box, self._box.control
        while control.wait_for(box.finished_address, self._number, control.address):
            team.doze(name)
        self.let_go()

    def remind(self) -> None:
        """Make sure that the worker has seen it."""
        self._box.remind()

    def let_go(self) -> None:
        """The worker keeps what it runs only as long as it runs it: else it would keep its own team."""
        self._box.strand = None


def _serve(jobs: SimpleQueue[tuple[Strand, Team] | None], box: Box | None) -> None:
    np.seterr(all="ignore")  # of this thread
    while True:
        if box is not None:
            box.wait()
            if box.words[STATE]:  # a kernel has declined: what is left of the piece goes on in Python
                _go_on(box)
                continue
        job = jobs.get()
        if job is None:
            return
        strand, team = job
        del job
        strand.serve(team)
        del strand, team


def _go_on(box: Box) -> None:
    assert box.strand is not None
    strand, team = box.strand
    box.strand = None
    strand.attempt(team)
    box.words[FINISHED] = box.words[LAST]


def _dismiss(jobs: SimpleQueue[tuple[Strand, Team] | None], box: Box | None) -> None:
    jobs.put(None)
    if box is not None:
        box.post(0)


def _first_cause(error: BaseException, strands: Sequence[Strand]) -> BaseException:
    """The error to tell: what the user can act on before what followed from it."""
    errors = [error, *(s.error for s in strands if s.error is not None)]
    real = [e for e in errors if not isinstance(e, Stopped)]
    if not isinstance(error, Exception) or is_from_outside(error) or not real:
        return error
    return next((e for e in real if isinstance(e, EnforceNotMet)), real[0])
