"""Keeping Ctrl-C out of a short critical section."""

from __future__ import annotations

import importlib
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

# What `signal` wraps: the same functions without enums made of their results, which take longer than all the rest.
_raw: Any = importlib.import_module("_signal")


@contextmanager
def deferred_interrupt() -> Iterator[Callable[[], bool]]:
    """Hold SIGINT back inside the `with` body; it is delivered right after.

    Python delivers signals to the main thread only, so elsewhere there is nothing to do; nor is there if SIGINT
    has a handler that was not installed from Python.

    Yields:
        a function that tells whether one is being held back.
    """
    if threading.current_thread() is not threading.main_thread() or _raw.getsignal(signal.SIGINT) is None:
        yield lambda: False
        return
    pending: list[int] = []
    old = _raw.signal(signal.SIGINT, lambda number, frame: pending.append(number))
    try:
        yield lambda: bool(pending)
    finally:
        _raw.signal(signal.SIGINT, old)
        if pending:
            signal.raise_signal(signal.SIGINT)
