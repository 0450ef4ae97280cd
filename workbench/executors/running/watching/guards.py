"""Guards: who is called when a step that is about to be applied has a NaN or an Inf in it."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from workbench.executors.running.watching.moment import Guard, Moment


class Guards:
    """Of an engine and those of its pruned programs.

    Attributes:
        all: the guards.
    """

    def __init__(self) -> None:
        self.all: tuple[Guard, ...] = ()

    def add(self, guard: Guard) -> Callable[[], None]:
        """See `Engine.guard`."""
        self.all = (*self.all, guard)
        return lambda: self._dismiss(guard)

    def _dismiss(self, guard: Guard) -> None:
        self.all = tuple(other for other in self.all if other is not guard)

    def call(self, take: Callable[[], Moment]) -> None:
        """There is a blemish in the step that is ready to be applied; what one raises ends it.

        Args:
            take: copies what the step began with.
        """
        moment = cache(take)
        for guard in self.all:
            guard(moment)
