"""What one thread runs in one go, and how another one waits for it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from operator import length_hint
from typing import Any, Protocol

from workbench.executors.workers.mailbox import Overseer, PostedTask

Call = Callable[[], Any]
POLL = 0.05  # seconds
SHORT = 1e-3


class Piece(Protocol):
    """A call that a thread can run without coming back to Python: a piece of a tape."""

    @property
    def address(self) -> int: ...

    def ends(self) -> bool: ...

    def rewinding(self) -> Call: ...


class Task:
    """What one thread runs: calls in order.

    Attributes:
        calls: without arguments.
        piece: the only call, if it is a piece of a tape.
        complete: whether the last run came to the end.
        error: what it raised, if a worker ran it.
        resting: whether no worker is at it.
    """

    __slots__ = ("_posted", "_rest", "_resting", "_todo", "calls", "complete", "error", "piece")

    def __init__(self, calls: Sequence[Call]) -> None:
        self.calls = list(calls)
        self.piece: Piece | None = None
        self.error: BaseException | None = None
        self._resting, self._rest = True, threading.Lock()
        self._posted: PostedTask | None = None
        self.rewind()

    def rewind(self) -> None:
        """As if it had never run."""
        self._todo: Iterator[Call] = iter(self.calls)
        self.complete = False

    @property
    def resting(self) -> bool:
        return self._resting if self._posted is None else self._posted.over

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
        self.error, self._posted, self._rest = None, None, threading.Lock()
        self._rest.acquire()
        return partial(setattr, self, "_resting", False)

    def hand_out_as(self, posted: PostedTask) -> None:
        """To a worker that runs its piece without coming back to Python."""
        self.error, self.complete, self._todo = None, False, iter(())
        self._posted = posted

    def serve(self, pool: Overseer) -> None:
        """Run it in a worker."""
        self.attempt(pool)
        self._resting = True
        self._rest.release()

    def attempt(self, pool: Overseer) -> None:
        """Run it, and keep what it raises."""
        try:
            self.run()
        except BaseException as error:
            self.error = error
            pool.failed = True

    def wait(self, pool: Overseer, name: str) -> None:
        """Wait until the worker of this name is done with it."""
        posted = self._posted
        if posted is None:
            if not self._resting:
                pool.wait_for(self._rest, name)
            return
        posted.wait(pool, name)
        if self.piece is not None and self.piece.ends():
            self.complete = True

    def comes_to_rest(self, seconds: float) -> bool:
        """Wait so long for the worker to be done with it."""
        deadline = time.monotonic() + seconds
        while not self.resting and time.monotonic() < deadline:
            if self._posted is None:
                self._rest.acquire(timeout=POLL)
            else:
                self._posted.remind()
                time.sleep(SHORT)
        if self._posted is not None and self._posted.over:
            self._posted.let_go()
        return self.resting
