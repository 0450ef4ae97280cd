"""The end of the process: no step begins any more, and those of other threads end before memory is taken from them."""

from __future__ import annotations

import atexit
import os
import sys
import time
import weakref
from typing import Any, Protocol

from workbench.errors import Unavailable

PATIENCE = 5.0  # seconds the end of the process waits for steps of other threads, all together


class Running(Protocol):
    """What may be in the middle of something on another thread."""

    def end(self, seconds: float) -> None:
        """Stop, and wait at most so long for it."""


class StepLoop(Running, Protocol):
    """What makes steps on a thread of its own."""

    def is_here(self) -> bool:
        """Whether the caller is on that thread."""

    def stay_behind(self) -> None:
        """This is a child process, which does not have that thread."""


class _ProcessEnd:
    """Attributes: has_come: whether it has."""

    def __init__(self) -> None:
        self.has_come = False
        self._loops: weakref.WeakSet[Any] = weakref.WeakSet()
        self._executors: weakref.WeakSet[Any] = weakref.WeakSet()

    def ends_loop(self, loop: StepLoop) -> None:
        """`loop.end` is called when the end comes, while steps can still be made."""
        self._loops.add(loop)

    def ends_executor(self, executor: Running) -> None:
        """`executor.end` is called when no step can begin any more."""
        self._executors.add(executor)

    def in_child(self) -> None:
        """Nothing is waited for that other threads of the parent do; loops learn that they do not go on here."""
        loops, self._loops = list(self._loops), weakref.WeakSet()
        for loop in loops:
            if loop.is_here():
                self._loops.add(loop)
            else:
                loop.stay_behind()

    def come(self) -> None:
        """It has come."""
        deadline = time.monotonic() + PATIENCE
        for loop in list(self._loops):
            loop.end(max(deadline - time.monotonic(), 0.0))
        self.has_come = True
        for executor in list(self._executors):
            executor.end(max(deadline - time.monotonic(), 0.0))


the_end = _ProcessEnd()
atexit.register(the_end.come)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=the_end.in_child)


def require_time() -> None:
    """Refuse to begin a step when the process ends.

    Raises:
        Unavailable: it does.
    """
    if the_end.has_come or sys.is_finalizing():
        raise Unavailable("the interpreter is ending: no step can run any more")
