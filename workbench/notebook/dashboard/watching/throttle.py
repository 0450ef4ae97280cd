"""How often something is done that costs time: seldom enough that training does not notice."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

_SHARE = 0.003  # of the processor's time, for everything that is throttled
_LONGEST_S = 10.0


class Throttle:
    """At most every `least` seconds, and the more seldom the longer it takes.

    Python runs one thread at a time: while the dashboard prepares a message, a training loop in Python waits.
    """

    def __init__(self, least: float) -> None:
        self.least = least
        self._next = 0.0

    def is_due(self) -> bool:
        """Whether it may be done again."""
        return time.monotonic() >= self._next

    def hurry(self) -> None:
        """Let it be done at once."""
        self._next = 0.0

    @contextmanager
    def taking(self) -> Iterator[None]:
        """Do it, in the `with` body."""
        begin = time.thread_time()
        try:
            yield
        finally:
            spent = time.thread_time() - begin
            self._next = time.monotonic() + min(max(self.least, spent / _SHARE), _LONGEST_S)
