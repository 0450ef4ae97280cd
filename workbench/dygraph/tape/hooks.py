"""The handle of a hook on a gradient."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any

from workbench.dygraph.overwrites import clock

_numbers = count()


class HookRemover:
    """The handle of a hook. Recorded functions, which go by the clock, look again whether they fit."""

    def __init__(self, hooks: dict[int, Callable[[Any], Any]], hook: Callable[[Any], Any]) -> None:
        self._hooks, self._id = hooks, next(_numbers)
        hooks[self._id] = hook
        clock.now += 1

    def remove(self) -> bool:
        """End the hook; False if it has ended already."""
        clock.now += 1
        return self._hooks.pop(self._id, None) is not None
