"""Keeping Ctrl-C out of a short critical section."""

from __future__ import annotations

import importlib
import signal
import threading
from collections.abc import Callable
from typing import Any

# What `signal` wraps: the same functions without enums made of their results, which take longer than all the rest.
_raw: Any = importlib.import_module("_signal")
_MAIN = threading.main_thread().ident


class deferred_interrupt:
    """Hold SIGINT back inside the `with` body; it is delivered right after.

    Python delivers signals to the main thread only, so elsewhere there is nothing to do; nor is there if SIGINT
    has a handler that was not installed from Python. Entered in every step, hence no generator.

    `as` gives a function that tells whether one is being held back.
    """

    __slots__ = ("_old", "_pending")

    def __enter__(self) -> Callable[[], bool]:
        self._pending: list[int] = []
        self._old: Any = None
        if threading.get_ident() == _MAIN:
            self._old = _raw.getsignal(signal.SIGINT)
            if self._old is not None:
                _raw.signal(signal.SIGINT, self._hold)
        return self._is_pending

    def _hold(self, number: int, frame: Any) -> None:
        self._pending.append(number)

    def _is_pending(self) -> bool:
        return bool(self._pending)

    def __exit__(self, *error: object) -> None:
        if self._old is not None:
            _raw.signal(signal.SIGINT, self._old)
            if self._pending:
                signal.raise_signal(signal.SIGINT)
