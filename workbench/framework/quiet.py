"""NumPy's warnings switched off for the length of a call."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import copy_context
from typing import TypeVar

import numpy as np

Result = TypeVar("Result")


def quietly(function: Callable[[], Result]) -> Result:
    """What the function returns; NumPy says nothing of infinities and NaN.

    It runs in a context of its own, so that the switch goes with it wherever a signal handler raises.
    """
    return copy_context().run(_ignoring, function)


def _ignoring(function: Callable[[], Result]) -> Result:
    with np.errstate(all="ignore"):
        return function()
