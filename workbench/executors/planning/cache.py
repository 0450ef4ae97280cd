"""A bounded cache that threads may share."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

V = TypeVar("V")


class Cache(Generic[V]):
    """Keeps the `size` entries used last."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._entries: OrderedDict[Hashable, V] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: Hashable, make: Callable[[], V], keep: Callable[[V], bool] = lambda entry: True) -> V:
        """The entry of a key, made if there is none (by each of two threads that ask at the same time).

        Args:
            keep: whether to keep what was made for the next time.
        """
        with self._lock:
            if key in self._entries:
                self._entries.move_to_end(key)
                return self._entries[key]
        entry = make()
        if not keep(entry):
            return entry
        with self._lock:
            entry = self._entries.setdefault(key, entry)
            while len(self._entries) > self.size:
                self._entries.popitem(last=False)
        return entry

    def forget(self, key: Hashable) -> None:
        """Let go of an entry, if there is one."""
        with self._lock:
            self._entries.pop(key, None)

    def values(self) -> list[V]:
        """All entries, the one used last at the end."""
        with self._lock:
            return list(self._entries.values())

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._entries.clear()
