"""Clicks that come too late: what somebody wanted a minute ago is not what he wants now.

A page and its kernel need not have the same time. Every message of the kernel carries its clock, `sent`; a click says
which of these it has seen last, and how long ago. The click is at most as old as that makes it.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any


def stamped(message: Mapping[str, Any]) -> dict[str, Any]:
    """A message with the kernel's clock, in seconds."""
    return {**message, "sent": time.monotonic()}


def is_late(click: Mapping[str, Any]) -> bool:
    """Whether a click was given up before it came.

    Args:
        click: `sent` of the newest message the page had seen, how many seconds `since`, and for how many it is `valid`.
    """
    try:
        age = time.monotonic() - (float(click["sent"]) + float(click["since"]))
        return age > float(click["valid"])
    except (KeyError, TypeError, ValueError):
        return False  # it does not say
