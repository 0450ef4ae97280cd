"""Between steps, and while waiting: moments at which somebody else may do a little on the main thread.

A kernel that receives its messages on the main thread hears nothing while a cell runs; executors and waits therefore
let it look for messages here. Nobody visits in a script: then a step compares two numbers.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from time import perf_counter_ns

_NEVER = 1 << 62
_EVERY_NS = 50_000_000
_MAIN = threading.main_thread().ident

due = _NEVER  # executors compare it with the clock before every step, and call `visit` when it has passed
_visitor: Callable[[], None] | None = None


def let_visit(visitor: Callable[[], None] | None) -> None:
    """Have `visitor` called on the main thread between steps and in waits, every 50 ms or so; None ends that.

    It must neither run a step nor wait. What it raises, a KeyboardInterrupt for one, is raised where it was called.
    """
    global due, _visitor
    _visitor = visitor
    due = _NEVER if visitor is None else 0


def visit() -> None:
    """Call the visitor, if this is the main thread and it is not being called."""
    global due
    if threading.get_ident() != _MAIN or due == _NEVER or _visitor is None:
        return
    due = _NEVER  # a signal handler may run a step in the middle of it
    try:
        _visitor()
    finally:
        due = perf_counter_ns() + _EVERY_NS if _visitor is not None else _NEVER


def rest(seconds: float) -> None:
    """Sleep, then let the visitor in."""
    time.sleep(seconds)
    visit()
