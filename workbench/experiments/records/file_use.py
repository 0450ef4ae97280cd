"""Files of runs while the process is forked: whoever forks waits, for a while, until none is open.

SQLite knows its own process's locks by heart. A child that is forked in the middle of a transaction of another thread
would take them for its own, which nobody gives back.
"""

from __future__ import annotations

import os
import threading
import time
import weakref
from collections.abc import Iterator
from contextlib import contextmanager

_PATIENCE = 2.0  # seconds
_POLL = 0.002


class _Use:
    """A file is open."""


class _Uses:
    """Those of this process."""

    def __init__(self) -> None:
        self._gate = threading.Lock()  # held by who forks
        self._is_held = False
        self._open: weakref.WeakSet[_Use] = weakref.WeakSet()

    @contextmanager
    def use(self) -> Iterator[None]:
        """For a `with` body that has a file open."""
        mine = _Use()
        with self._gate:
            self._open.add(mine)
        try:
            yield
        finally:
            self._open.discard(mine)

    def before_fork(self) -> None:
        deadline = time.monotonic() + _PATIENCE
        self._is_held = self._gate.acquire(timeout=_PATIENCE)
        while len(self._open) and time.monotonic() < deadline:
            time.sleep(_POLL)

    def in_parent(self) -> None:
        if self._is_held:
            self._gate.release()

    def in_child(self) -> None:
        self._gate, self._open = threading.Lock(), weakref.WeakSet()


_uses = _Uses()
in_use = _uses.use
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_uses.before_fork, after_in_parent=_uses.in_parent, after_in_child=_uses.in_child)
