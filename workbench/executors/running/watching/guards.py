"""Guards: who is called when a step that is about to be applied has a NaN or an Inf in it."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from workbench.executors.feeding.feed_plan import Fed
from workbench.executors.running.watching.moment import Guard, Moment


class Guards:
    """Of an engine and those of its pruned programs.

    Attributes:
        all: the guards.
        newest: number and feed of the newest step, if it began while there were any, or failed; else None. The arrays
            are the caller's.
    """

    def __init__(self) -> None:
        self.all: tuple[Guard, ...] = ()
        self.newest: tuple[int, Fed] | None = None

    def add(self, guard: Guard) -> Callable[[], None]:
        """See `Engine.guard`."""
        self.all = (*self.all, guard)
        return lambda: self._dismiss(guard)

    def _dismiss(self, guard: Guard) -> None:
        self.all = tuple(other for other in self.all if other is not guard)

    def note(self, step: int, fed: Fed) -> None:
        """A step begins with this feed, or has failed with it."""
        self.newest = step, fed

    def forget(self) -> None:
        """A step begins that nobody asks for."""
        self.newest = None

    def call(self, take: Callable[[], Moment]) -> None:
        """There is a blemish in the step that is ready to be applied; what one raises ends it.

        Args:
            take: copies what the step began with.
        """
        moment = cache(take)
        for guard in self.all:
            guard(moment)
