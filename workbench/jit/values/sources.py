"""What gives something else in every call, as Python calls it while a function is recorded: clocks, chance, seeds.

Code comes to these in many ways, through libraries and under other names, so the calls themselves are looked at. Chance
is refused. Clocks are told of: a function may well look at one to print how long it took.
"""

from __future__ import annotations

import datetime
import os
import random
import sys
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from workbench.framework.site import Site, is_ours
from workbench.framework.values.random import seed
from workbench.jit.values.captured_tensor import NeedsValue
from workbench.jit.values.libraries import is_library

_CLOCKS = {
    getattr(time, name)
    for name in (
        "time", "time_ns", "perf_counter", "perf_counter_ns", "monotonic", "monotonic_ns", "process_time",
        "process_time_ns", "thread_time", "thread_time_ns", "localtime", "gmtime", "ctime", "asctime", "strftime",
    )
}  # fmt: skip
_OF_DATES = frozenset({"now", "utcnow", "today"})
_RANDOM: Any = random.Random.__init__.__code__
_UNIQUE = uuid.uuid1.__code__
_SEEDING = seed.__code__


class Sources:
    """Which of them a function has called.

    Attributes:
        clocks: what was called, with the first line that did.
    """

    def __init__(self) -> None:
        self.clocks: dict[str, Site] = {}

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Look at the calls of this thread in the `with` body, unless it is being profiled."""
        if sys.getprofile() is not None:
            yield
            return
        sys.setprofile(self._saw)
        try:
            yield
        finally:
            sys.setprofile(None)

    def _saw(self, frame: FrameType, event: str, called: Any) -> None:
        if event == "c_call":
            if called is os.urandom:
                self._refuse_chance(frame)
            elif called in _CLOCKS or (called.__name__ in _OF_DATES and _is_date(called.__self__)):
                self._note_clock(frame, called)
        elif event == "call":
            if frame.f_code is _SEEDING:
                self._refuse_seed(frame.f_back)
            elif frame.f_code is _UNIQUE or (frame.f_code is _RANDOM and frame.f_locals.get("x") is None):
                self._refuse_chance(frame.f_back)

    def _note_clock(self, frame: FrameType, called: Any) -> None:
        """A clock that the user's own code looks at; that of libraries does for its own purposes."""
        if not is_library(frame.f_globals):
            owner = getattr(called.__self__, "__name__", "")
            self.clocks.setdefault(f"{owner}.{called.__name__}", _site_of(frame))

    def _refuse_chance(self, frame: FrameType | None) -> None:
        asking = _users(frame)
        if asking is not None and "RandomState" not in asking.f_code.co_names:  # it draws before it looks at its seed
            NeedsValue(  # which tells who records
                "the function draws from the system's source of chance here (uuid4, secrets, SystemRandom, "
                "default_rng() without a seed and the like): every run of what is recorded would go on with what it "
                f"gave now\n  draw with paddle.rand and the like, or pass it as an argument\n  at {_site_of(asking)}"
            )

    def _refuse_seed(self, frame: FrameType | None) -> None:
        asking = _users(frame)
        if asking is not None:
            NeedsValue(
                "paddle.seed() is called while the function is recorded: the runs of what is recorded would draw on "
                f"from there\n  call it outside of the function\n  at {_site_of(asking)}"
            )


def _users(frame: FrameType | None) -> FrameType | None:
    """The nearest frame of the user's code; None where workbench itself called what it came from."""
    while frame is not None:
        if is_ours(frame.f_code.co_filename):
            return None
        if not is_library(frame.f_globals):
            return frame
        frame = frame.f_back
    return None


def _is_date(owner: Any) -> bool:
    return isinstance(owner, type) and issubclass(owner, datetime.date)


def _site_of(frame: FrameType) -> Site:
    return Site(frame.f_code.co_filename, frame.f_lineno)
