"""Where a worker that waits in kernels finds what to run, and who is told that it has run."""

from __future__ import annotations

from functools import partial
from operator import setitem
from queue import SimpleQueue
from typing import Any, Protocol

from workbench.runtime.native.control import Control, lines
from workbench.runtime.native.tape import address
from workbench.runtime.undisturbed import Call, in_one_call
from workbench.runtime.words.codes import FINISHED, GO, LAST, MAILBOX_CONTROL, MAILBOX_WORDS, STATE

_PATIENCE = 5000  # times a worker without work offers its processor to others before it sleeps: some milliseconds


class Overseer(Protocol):
    """Whom a wait asks whether to go on, and a failure is told: the pool.

    Attributes:
        failed: whether somebody has failed in this step, so that all others stop.
    """

    failed: bool

    def wait_for(self, lock: Any, what: str) -> None:
        """Acquire a lock that another thread releases."""

    def doze(self, what: str = ...) -> None:
        """Whether to wait any longer, after a wait in kernels that took long."""


class Attempted(Protocol):
    """What is run: a task."""

    def attempt(self, pool: Overseer) -> None:
        """Run it, and keep what it raises."""


class Mailbox:
    """Where a worker finds what to do while it waits in kernels.

    Attributes:
        task: what is being run, and for whom.
    """

    def __init__(self, control: Control) -> None:
        self.control = control
        self._array = lines(MAILBOX_WORDS)
        self.words = self._array.data
        self.words[MAILBOX_CONTROL] = control.address
        self.finished_address = address(self._array) + 8 * FINISHED
        self.task: tuple[Attempted, Overseer] | None = None
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


class PostedTask:
    """One piece of a tape in a mailbox, from before it is posted."""

    __slots__ = ("_mailbox", "_number")

    def __init__(self, mailbox: Mailbox) -> None:
        self._mailbox, self._number = mailbox, mailbox.words[GO] + 1

    @property
    def over(self) -> bool:
        """Whether the worker is done with it, or it was never posted."""
        words = self._mailbox.words
        return words[GO] < self._number or words[FINISHED] >= self._number

    def wait(self, pool: Overseer, name: str) -> None:
        """Wait until it is over.

        Raises:
            Stopped: another thread failed. Unavailable: the deadline passed.
        """
        mailbox, control = self._mailbox, self._mailbox.control
        while control.wait_for(mailbox.finished_address, self._number, control.address):
            pool.doze(name)
        self.let_go()

    def remind(self) -> None:
        """Make sure that the worker has seen it."""
        self._mailbox.remind()

    def let_go(self) -> None:
        """The worker keeps what it runs only as long as it runs it: else it would keep its own pool."""
        self._mailbox.task = None
