"""Notices: something a user asked for has no effect, or was decided for them; told at the user's own line."""

from __future__ import annotations

import sys
import warnings
from contextlib import suppress

from workbench.framework.site import is_ours


class Notice(UserWarning):
    """Nothing is wrong with the results; `warnings.simplefilter("ignore", Notice)` silences all of them."""


def tell_anyway(message: str) -> None:
    """`tell` that cannot fail: where warnings are errors it prints. For threads in which nobody could do anything."""
    try:
        tell(message)
    except Notice:
        with suppress(Exception):
            print(message, file=sys.stderr)


def tell(message: str) -> None:
    """Warn with a `Notice` that points at the nearest line which is not workbench's own."""
    level, frame = 2, sys._getframe(1)
    while frame.f_back is not None and is_ours(frame.f_code.co_filename):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, Notice, stacklevel=level)
