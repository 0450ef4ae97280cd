"""Functions that are called along with a layer, until they are removed."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

_numbers = itertools.count()


class Hooks(dict[int, Callable[..., Any]]):
    """Hooks by number, in the order in which they were added; a dictionary, as an empty one costs a call nothing.

    Attributes:
        changes: how often one was added or removed.
    """

    __slots__ = ("changes",)

    def __init__(self) -> None:
        super().__init__()
        self.changes = 0

    def add(self, function: Callable[..., Any]) -> Hook:
        """Have `function` called from now on."""
        number = next(_numbers)
        self[number] = function
        self.changes += 1
        return Hook(self, number)

    def in_order(self) -> list[Callable[..., Any]]:
        """The hooks of now: adding or removing one while they run takes effect the next time."""
        return list(self.values())


class Hook:
    """A registered hook."""

    __slots__ = ("_hooks", "_number")

    def __init__(self, hooks: Hooks, number: int) -> None:
        self._hooks, self._number = hooks, number

    def remove(self) -> None:
        """Have it called no more; once is enough."""
        if self._hooks.pop(self._number, None) is not None:
            self._hooks.changes += 1
