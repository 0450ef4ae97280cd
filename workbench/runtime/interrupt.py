"""Keeping Ctrl-C out of a short critical section."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def deferred_interrupt() -> Iterator[Callable[[], bool]]:
    """Hold SIGINT back inside the `with` body; it is delivered right after.

    Python delivers signals to the main thread only, so elsewhere there is nothing to do; nor is there if SIGINT
    has a handler that was not installed from Python.

    Yields:
        a function that tells whether one is being held back.
    """
    if threading.current_thread() is not threading.main_thread() or signal.getsignal(signal.SIGINT) is None:
        yield lambda: False
        return
    pending: list[int] = []
    old = signal.signal(signal.SIGINT, lambda number, frame: pending.append(number))
    try:
        yield lambda: bool(pending)
    finally:
        signal.signal(signal.SIGINT, old)
        if pending:
            signal.raise_signal(signal.SIGINT)
