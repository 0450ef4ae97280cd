"""NumPy's warnings switched off for the length of a call."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextvars import Context, copy_context
from typing import Any, TypeVar

import numpy as np

Result = TypeVar("Result")


def quiet_context() -> Context:
    """A context of its own in which NumPy keeps quiet."""
    context = copy_context()
    context.run(np.seterr, all="ignore")
    return context


class _QuietContext(threading.local):
    """A context of this thread in which NumPy keeps quiet: to enter it costs a fraction of `np.errstate`."""

    def __init__(self) -> None:
        self.run: Callable[..., Any] = quiet_context().run


quiet = _QuietContext()
"""`quiet.run(function, *arguments)` for functions of arrays that call no op: a context cannot be entered twice."""


def quietly(function: Callable[[], Result]) -> Result:
    """What the function returns; NumPy says nothing of infinities and NaN.

    It runs in a context of its own, so that the switch goes with it wherever a signal handler raises.
    """
    return quiet_context().run(function)
