"""The handle of a hook on a gradient."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class HookRemover:
    """The handle of a hook."""

    def __init__(self, hooks: dict[int, Callable[[Any], Any]], hook: Callable[[Any], Any]) -> None:
        self._hooks, self._id = hooks, id(self)
        hooks[self._id] = hook

    def remove(self) -> bool:
        """End the hook; False if it has ended already."""
        return self._hooks.pop(self._id, None) is not None
